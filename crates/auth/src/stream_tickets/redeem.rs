//! Replaces the credentials of a request with those of its ticket.

use gatewright_http::Problem;
use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Uri};
use url::form_urlencoded;

use super::tickets::Tickets;
use crate::problem;

/// How the path of every stream ends.
const STREAM: &str = "/_events";
/// The parameter.
const TICKET: &str = "ticket";

impl Tickets {
    /// Whether a request has a ticket on a route that accepts one. Called for every request: no allocation for most.
    pub(crate) fn is_presented(method: &Method, uri: &Uri) -> bool {
        let query = uri.query().filter(|_| method == Method::GET && uri.path().ends_with(STREAM));
        query.is_some_and(|query| form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == TICKET))
    }

    /// Uses up the request's ticket, whatever the result of the request, and replaces the request's headers by the
    /// ticket's. The ticket is removed from the URL.
    pub(crate) async fn redeem(&self, parts: &mut Parts) -> Result<(), Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let given = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == TICKET);
        // Two are enough to refuse a repeated parameter. Each costs a write.
        let given: Vec<String> = given.map(|(_, value)| value.into_owned()).take(2).collect();
        parts.uri = without_ticket(&parts.uri);
        let mut good = None;
        for text in &given {
            let spent = self.spend(text).await.map_err(|error| problem::store_failed(&error))?;
            good = good.or(spent);
        }
        if given.len() > 1 {
            return Err(Problem::bad_request("the parameter \"ticket\" is given more than once"));
        }
        if parts.headers.contains_key(AUTHORIZATION) {
            return Err(Problem::bad_request("send a ticket or the header Authorization, not both"));
        }
        let headers = good.ok_or_else(refused)?;
        if let Some(name) = &self.tenant {
            let [here, there] =
                [&parts.headers, &headers].map(|headers| headers.get_all(name).iter().collect::<Vec<_>>());
            if !here.is_empty() && here != there {
                return Err(Problem::bad_request("the tenant header and the ticket name different tenants"));
            }
            parts.headers.remove(name);
        }
        // A browser sends its cookies along unasked; the ticket was made for this.
        parts.headers.remove(COOKIE);
        for (name, value) in &headers {
            parts.headers.append(name, value.clone());
        }
        Ok(())
    }
}

/// 401: the same for a ticket that is unknown, used or expired, and for one whose credential has ended.
pub(crate) fn refused() -> Problem {
    Problem::unauthorized("invalid or expired ticket").with_code("invalid_ticket")
}

fn without_ticket(uri: &Uri) -> Uri {
    let is_ticket = |pair: &&str| form_urlencoded::parse(pair.as_bytes()).any(|(name, _)| name == TICKET);
    let rest: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|pair| !is_ticket(pair)).collect();
    let target = if rest.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), rest.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(target).ok();
    Uri::from_parts(parts).unwrap_or_else(|_| Uri::from_static("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_only_on_streams_and_removed_from_the_url() {
        for (method, uri, seen, without) in [
            (Method::GET, "/posts/_events?ticket=a", true, "/posts/_events"),
            (Method::GET, "/api/posts/_events?since=1&ticket=a&x=%20", true, "/api/posts/_events?since=1&x=%20"),
            (Method::GET, "/posts/_events?tick%65t=a&ticket=b", true, "/posts/_events"),
            (Method::GET, "http://h/posts/_events?ticket=a", true, "http://h/posts/_events"),
            (Method::GET, "/posts/_events?filter=ticket", false, "/posts/_events?filter=ticket"),
            (Method::GET, "/posts?ticket=a", false, "/posts"),
            (Method::POST, "/posts/_events?ticket=a", false, "/posts/_events"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(Tickets::is_presented(&method, &uri), seen, "{uri}");
            assert_eq!(without_ticket(&uri).to_string(), without, "{uri}");
        }
    }
}
