//! `fetch` of functions: to the hosts that the configuration allows, and to no private address that it does not name.

use std::net::IpAddr;
use std::time::Duration;

use gatewright_functions::{Data, HostError};
use gatewright_outbound::{Outbound, OutboundError};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::{Host, Url};

use super::records;

/// How long a request may take, with its answer.
const TIME: Duration = Duration::from_secs(30);
/// The most bytes of an answer.
const ANSWER: usize = 4 << 20;
/// The most redirects.
const REDIRECTS: usize = 5;

/// Sends requests of functions.
pub(super) struct Fetch {
    hosts: Vec<String>,
    public: Outbound,
    /// For hosts that the configuration names by an address, or by `localhost`.
    named: Outbound,
}

/// What a function asks for.
struct Asked {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Fetch {
    pub(super) fn new(hosts: &[String]) -> Result<Self, OutboundError> {
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Ok(Self { hosts, public: Outbound::new(TIME, false)?, named: Outbound::new(TIME, true)? })
    }

    /// The answer to a request: `{status, url, headers, body}`.
    pub(super) async fn perform(&self, arguments: &[Data]) -> Result<Data, HostError> {
        let mut asked = Asked::read(arguments).ok_or_else(|| failed("the request is invalid"))?;
        for _ in 0..=REDIRECTS {
            let client = self.client(&asked.url)?;
            let request =
                client.request(asked.method.clone(), &asked.url).map_err(|error| failed(&error.to_string()))?;
            let request = request.headers(asked.headers.clone()).body(asked.body.clone());
            let mut response = request.send().await.map_err(|error| failed(&OutboundError::from(error).to_string()))?;
            if let Some(next) = next(&asked, response.status().as_u16(), response.headers()) {
                asked = next;
                continue;
            }
            let mut body = Vec::new();
            while let Some(chunk) =
                response.chunk().await.map_err(|error| failed(&OutboundError::from(error).to_string()))?
            {
                if body.len() + chunk.len() > ANSWER {
                    return Err(failed("the answer is too long"));
                }
                body.extend_from_slice(&chunk);
            }
            let pair = |(name, value): (&HeaderName, &HeaderValue)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                Data::List(vec![Data::from(name.as_str()), Data::from(value)])
            };
            return Ok(Data::Object(vec![
                ("status".to_owned(), Data::Number(response.status().as_u16().into())),
                ("url".to_owned(), Data::from(asked.url.as_str())),
                ("headers".to_owned(), Data::List(response.headers().iter().map(pair).collect())),
                ("body".to_owned(), Data::Bytes(body)),
            ]));
        }
        Err(failed("there were too many redirects"))
    }

    /// The client for an address, if it is allowed.
    fn client(&self, url: &Url) -> Result<&Outbound, HostError> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let port = url.port_or_known_default().map(|port| format!("{host}:{port}")).unwrap_or_default();
        if !matches!(url.scheme(), "http" | "https") || !self.hosts.iter().any(|named| *named == host || *named == port)
        {
            return Err(failed(&format!("the host {host} is not among `functions.allow_hosts`")));
        }
        let is_named = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
            None => false,
        };
        Ok(if is_named { &self.named } else { &self.public })
    }
}

impl Asked {
    fn read(arguments: &[Data]) -> Option<Self> {
        let [Data::Text(method), Data::Text(url), Data::List(pairs), Data::Bytes(body)] = arguments else {
            return None;
        };
        let mut headers = HeaderMap::new();
        for pair in pairs {
            let Data::List(pair) = pair else { return None };
            let [name, value] = pair.as_slice() else { return None };
            let name: HeaderName = name.as_str()?.parse().ok()?;
            // The client frames the request itself.
            if ![HOST, CONTENT_LENGTH].contains(&name) {
                headers.append(name, HeaderValue::from_str(value.as_str()?).ok()?);
            }
        }
        Some(Self { method: method.parse().ok()?, url: url.parse().ok()?, headers, body: body.clone() })
    }
}

/// The request that a redirect leads to (the Fetch standard, section 4.4).
fn next(asked: &Asked, status: u16, headers: &HeaderMap) -> Option<Asked> {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let url = asked.url.join(headers.get(LOCATION)?.to_str().ok()?).ok()?;
    let mut next =
        Asked { method: asked.method.clone(), url, headers: asked.headers.clone(), body: asked.body.clone() };
    let becomes_get = match status {
        303 => asked.method != Method::GET && asked.method != Method::HEAD,
        301 | 302 => asked.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        next.method = Method::GET;
        next.body.clear();
        next.headers.remove(CONTENT_TYPE);
    }
    if next.url.origin() != asked.url.origin() {
        next.headers.remove(AUTHORIZATION);
        next.headers.remove(COOKIE);
    }
    Some(next)
}

/// What a host in `allow_hosts` must be: a name or an address, with or without a port.
pub(crate) fn is_host(named: &str) -> bool {
    let is_url = |text: &str| {
        let url = Url::parse(&format!("http://{text}/"));
        url.is_ok_and(|url| {
            url.username().is_empty() && url.path() == "/" && url.query().is_none() && url.host_str().is_some()
        })
    };
    named.parse::<IpAddr>().is_ok() || (!named.contains(['/', '@', '?', '#']) && is_url(named))
}

fn failed(message: &str) -> HostError {
    records::exception(502, "fetch_failed", &format!("fetch: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, url: &str) -> Asked {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        Asked { method: method.parse().unwrap(), url: url.parse().unwrap(), headers, body: b"x".to_vec() }
    }

    fn to(location: &str) -> HeaderMap {
        HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())])
    }

    #[test]
    fn a_redirect_to_another_origin_loses_credentials_and_a_post_becomes_a_get() {
        let post = asked("POST", "https://a.example/x");
        let same = next(&post, 307, &to("/y")).unwrap();
        assert_eq!((same.method, same.url.as_str(), same.body.len()), (Method::POST, "https://a.example/y", 1));
        assert!(same.headers.contains_key(AUTHORIZATION));
        let other = next(&post, 302, &to("https://b.example/")).unwrap();
        assert_eq!((other.method, other.body.len()), (Method::GET, 0));
        assert!(!other.headers.contains_key(AUTHORIZATION));
        assert!(next(&post, 200, &to("/y")).is_none());
    }

    #[test]
    fn only_allowed_hosts_are_called() {
        let fetch = Fetch::new(&["api.example.com".to_owned(), "127.0.0.1:9000".to_owned()]).unwrap();
        let is_allowed = |url: &str| fetch.client(&url.parse().unwrap()).is_ok();
        assert!(is_allowed("https://api.example.com/x") && is_allowed("http://127.0.0.1:9000/"));
        for url in [
            "https://example.com/",
            "https://api.example.com.evil.example/",
            "http://127.0.0.1/",
            "http://127.0.0.1:9001/",
            "http://[::1]:9000/",
            "ftp://api.example.com/",
            "http://0x7f000001/",
            "https://api.example.com@evil.example/",
        ] {
            assert!(!is_allowed(url), "{url}");
        }
        assert!(is_host("api.example.com") && is_host("localhost:80") && is_host("::1"));
        assert!(!is_host("https://a") && !is_host("a/b") && !is_host(""));
    }
}
