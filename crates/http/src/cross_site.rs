//! The cross-site guard: a page of another site must not sign a browser in or out of this one.
//!
//! Browsers let any page post a form to any site, with cookies and without a preflight. The guard refuses such a post
//! if the browser reports that another site sent it. JSON needs a preflight, so it is exempt. Requests without `Origin`
//! pass, because they come from programs and from old browsers.
//!
//! [`decide`] is the rule; [`guard`] mounts it on routes. [`check_own_site`] is stricter: it is for requests that act
//! without a body, which no type of a body protects.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};

use crate::{ContentType, CookieOnly, Origin, Problem, Scheme};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The decision of the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Not from another site, or a request that needs a preflight.
    Pass,
    /// 403 `cross-site request refused`.
    Refuse,
}

/// The rule: a POST of a shape that needs no preflight is refused if [`from_another_site`].
pub fn decide(method: &Method, headers: &HeaderMap, own: &[Origin]) -> Decision {
    if *method == Method::POST && ContentType::of(headers).needs_no_preflight() && from_another_site(headers, own) {
        return Decision::Refuse;
    }
    Decision::Pass
}

/// Whether the browser reports that another site made this request: `Sec-Fetch-Site: cross-site`, or an `Origin` that
/// is not one of `own`. Another port or scheme is another origin, and so is an invalid `Origin`.
///
/// `Origin: null` (a sandboxed frame, or a page that sends no referrer) passes only with `Sec-Fetch-Site: same-origin`,
/// which the browser sets and no page can.
pub fn from_another_site(headers: &HeaderMap, own: &[Origin]) -> bool {
    let site = |word: &str| headers.get_all(SEC_FETCH_SITE).iter().any(|value| value == word);
    if site("cross-site") {
        return true;
    }
    headers.get_all(ORIGIN).iter().any(|value| {
        let origin = value.to_str().ok().and_then(|text| text.parse::<Origin>().ok());
        match origin {
            Some(origin) => !own.contains(&origin),
            None => !(value == "null" && site("same-origin")),
        }
    })
}

/// Whether the browser reports that a page of another origin on the same site made this request: `Sec-Fetch-Site:
/// same-site`.
/// [`from_another_site`] does not cover it, since browsers send no `Origin` with a sibling's links.
pub fn from_sibling(headers: &HeaderMap) -> bool {
    headers.get_all(SEC_FETCH_SITE).iter().any(|value| value == "same-site")
}

/// The origins that count as this site for one request: `public`, and the request's own scheme and host.
pub fn own_origins(parts: &Parts, public: Option<&Origin>) -> Vec<Origin> {
    let host = match parts.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => parts.headers.get(HOST).and_then(|value| value.to_str().ok()),
    };
    let own = host.and_then(|host| format!("{}://{host}", Scheme::of(parts).as_str()).parse().ok());
    public.cloned().into_iter().chain(own).collect()
}

/// Checks one request; `Err` is the refusal.
pub fn check(parts: &Parts, public: Option<&Origin>) -> Result<(), Problem> {
    match decide(&parts.method, &parts.headers, &own_origins(parts, public)) {
        Decision::Pass => Ok(()),
        Decision::Refuse => Err(refusal()),
    }
}

/// Checks a request of any method and shape: it must be one of this site's own pages, or have none of a browser's
/// headers. A sibling site is another one, also if the browser sends only `Sec-Fetch-Site: same-site` and no `Origin`.
///
/// The guard of a browser backend has checked a request that has an `Origin`: its allowed origins pass.
pub fn check_own_site(parts: &Parts, public: Option<&Origin>) -> Result<(), Problem> {
    let has_origin = parts.headers.contains_key(ORIGIN);
    if has_origin && parts.extensions.get::<CookieOnly>().is_some() {
        return Ok(());
    }
    let sent_by_sibling = !has_origin && from_sibling(&parts.headers);
    if sent_by_sibling || from_another_site(&parts.headers, &own_origins(parts, public)) {
        return Err(refusal());
    }
    Ok(())
}

/// The refusal: 403 `cross-site request refused`.
pub fn refusal() -> Problem {
    Problem::forbidden("cross-site request refused").with_code("cross_site")
}

/// The guard as middleware for `axum::middleware::from_fn_with_state`; the state is the public origin, if the host
/// has one.
pub async fn guard(State(public): State<Option<Origin>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match check(&parts, public.as_ref()) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.answer(&parts.headers),
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;
    use http::{HeaderValue, Request};

    use super::*;

    const OWN: &str = "https://app.example.com";
    const FORM: Option<&str> = Some("application/x-www-form-urlencoded");

    fn headers(content_type: Option<&str>, origins: &[&str], site: Option<&str>) -> HeaderMap {
        let text = |text: &str| HeaderValue::from_str(text).unwrap();
        let mut headers: HeaderMap = origins.iter().map(|origin| (ORIGIN, text(origin))).collect();
        headers.extend(content_type.map(|value| (CONTENT_TYPE, text(value))));
        headers.extend(site.map(|value| (SEC_FETCH_SITE, text(value))));
        headers
    }

    #[test]
    fn every_shape_that_needs_no_preflight_is_covered() {
        let cases = [
            (Method::POST, FORM, Decision::Refuse),
            (Method::POST, Some("multipart/form-data; boundary=x"), Decision::Refuse),
            (Method::POST, Some("text/plain"), Decision::Refuse),
            (Method::POST, Some("TEXT/PLAIN;charset=utf-8"), Decision::Refuse),
            (Method::POST, Some("text/plain; application/json"), Decision::Refuse),
            (Method::POST, None, Decision::Refuse),
            (Method::POST, Some(""), Decision::Refuse),
            (Method::POST, Some("nonsense"), Decision::Refuse),
            (Method::POST, Some("application/json"), Decision::Pass),
            (Method::POST, Some("application/json; charset=utf-8"), Decision::Pass),
            (Method::POST, Some("application/xml"), Decision::Pass),
            (Method::GET, FORM, Decision::Pass),
            (Method::DELETE, None, Decision::Pass),
        ];
        for (method, content_type, expected) in cases {
            let headers = headers(content_type, &["https://evil.com"], Some("cross-site"));
            assert_eq!(decide(&method, &headers, &[OWN.parse().unwrap()]), expected, "{method} {content_type:?}");
        }
    }

    #[test]
    fn the_headers_of_the_browser_decide() {
        let cases: &[(&[&str], Option<&str>, Decision)] = &[
            (&[], None, Decision::Pass),
            (&[], Some("same-origin"), Decision::Pass),
            (&[], Some("same-site"), Decision::Pass),
            (&[], Some("none"), Decision::Pass),
            (&[], Some("cross-site"), Decision::Refuse),
            (&[OWN], None, Decision::Pass),
            (&[OWN], Some("same-origin"), Decision::Pass),
            (&["https://app.example.com:443"], None, Decision::Pass),
            // The browser's own word outweighs a matching origin.
            (&[OWN], Some("cross-site"), Decision::Refuse),
            (&["https://evil.com"], None, Decision::Refuse),
            (&["https://evil.com"], Some("same-origin"), Decision::Refuse),
            (&["https://evil.com"], Some("same-site"), Decision::Refuse),
            // Another port, scheme or host is another origin.
            (&["https://app.example.com:8443"], None, Decision::Refuse),
            (&["http://app.example.com"], None, Decision::Refuse),
            (&["https://example.com"], None, Decision::Refuse),
            (&["https://other.example.com"], Some("same-site"), Decision::Refuse),
            (&["https://app.example.com.evil.com"], None, Decision::Refuse),
            (&["https://app.example.com@evil.com"], None, Decision::Refuse),
            // An invalid origin is not one of ours.
            (&["null"], None, Decision::Refuse),
            (&["null"], Some("cross-site"), Decision::Refuse),
            (&["null"], Some("same-site"), Decision::Refuse),
            (&["null"], Some("same-origin"), Decision::Pass),
            (&[""], None, Decision::Refuse),
            (&["app.example.com"], None, Decision::Refuse),
            (&["garbage"], Some("same-origin"), Decision::Refuse),
            (&[OWN, "https://evil.com"], None, Decision::Refuse),
            (&["https://app.example.com, https://evil.com"], None, Decision::Refuse),
        ];
        for (origins, site, expected) in cases {
            let headers = headers(FORM, origins, *site);
            assert_eq!(decide(&Method::POST, &headers, &[OWN.parse().unwrap()]), *expected, "{origins:?} {site:?}");
        }
    }

    #[test]
    fn the_own_origins_are_the_public_one_and_that_of_the_request() {
        let own = |uri: &str, headers: &[(&str, &str)]| {
            let request =
                headers.iter().fold(Request::post(uri), |request, (name, value)| request.header(*name, *value));
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let origins = own_origins(&parts, Some(&OWN.parse().unwrap()));
            origins.into_iter().map(|origin| origin.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(own("/", &[]), [OWN]);
        assert_eq!(own("/", &[("host", "127.0.0.1:8080")]), [OWN, "http://127.0.0.1:8080"]);
        assert_eq!(own("/", &[("host", "a.test"), ("x-forwarded-proto", "https")]), [OWN, "https://a.test"]);
        assert_eq!(own("https://b.test/x", &[]), [OWN, "https://b.test"]);
        assert_eq!(own("/", &[("host", "evil.com/x"), ("x-forwarded-host", "evil.com")]), [OWN]);
    }
}
