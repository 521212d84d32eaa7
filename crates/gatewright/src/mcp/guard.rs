//! Checks which pages and which host names may call the tool surface.
//!
//! A page can rebind its own name to this computer's address (DNS rebinding). Its requests then have its name as `Host`
//! and, except for GETs, as `Origin`. So both must be configured names, or addresses, which cannot be rebound. A client
//! that is not a browser sends no `Origin`.
//!
//! A page of any origin may connect with a token, which only its own program can have given it. Its cookies are removed
//! before ([`AnyOrigin`](gatewright_http::AnyOrigin)).

use gatewright_http::{AllowedOrigins, FromAnyOrigin, Origin, Problem};
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

use crate::Config;

/// The names that are known.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    hosts: Vec<String>,
    own: Option<Origin>,
    /// The origins of `browser_backend`.
    allowed: AllowedOrigins,
}

impl Guard {
    pub(super) fn new(config: &Config, allowed: AllowedOrigins) -> Self {
        let public = config.public_url();
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        let listens = config.server.addresses().map(|address| address.ip());
        hosts.extend(listens.map(|ip| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }));
        hosts.extend(public.host_str().map(str::to_ascii_lowercase));
        Self { hosts, own: Origin::of(&public), allowed }
    }

    /// Refuses requests that another site's page may have sent with the authority of the browser's place. A page passes if
    /// the caller must have a token anyway: `needs_token` says so of those who are known, and where nobody else may connect.
    pub(super) fn check(&self, parts: &Parts, needs_token: bool) -> Result<(), Problem> {
        let host = host(parts).filter(|host| self.hosts.contains(&host.host().to_ascii_lowercase()));
        let Some(host) = host else {
            return Err(Problem::forbidden("unknown host name; set server.public_url").with_code("unknown_host"));
        };
        let is_foreign = parts.extensions.get::<FromAnyOrigin>().is_some_and(|from| from.is_foreign);
        if is_foreign && needs_token {
            return Ok(());
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let origin = match (origins.next(), origins.next()) {
            (None, _) if !is_foreign => return Ok(()),
            (Some(origin), None) if self.allowed.contains(origin) => return Ok(()),
            (Some(origin), None) => origin.to_str().ok().and_then(|text| text.parse::<Origin>().ok()),
            (None, _) | (Some(_), Some(_)) => None,
        };
        let known = origin.is_some_and(|origin| self.own.as_ref() == Some(&origin) || is_this_computer(&origin, &host));
        if known { Ok(()) } else { Err(Problem::forbidden("cross-site request refused").with_code("cross_site")) }
    }
}

fn host(parts: &Parts) -> Option<Authority> {
    let mut lines = parts.headers.get_all(HOST).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_str().ok()?.parse().ok(),
        // HTTP/2 has it in the request's target.
        (None, _) => parts.uri.authority().cloned(),
        (Some(_), Some(_)) => None,
    }
}

/// Whether the page's origin is that of the request, on this computer.
fn is_this_computer(origin: &Origin, host: &Authority) -> bool {
    let own = format!("http://{host}").parse::<Origin>();
    origin.is_loopback() && own.is_ok_and(|own| own == *origin)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn only_known_hosts_and_pages_pass() {
        let mut config = Config::default();
        config.server.public_url = Some("https://api.example.com".parse().unwrap());
        let guard = Guard::new(&config, AllowedOrigins::default());
        for (host, origin, passes) in [
            ("api.example.com", &[][..], true),
            ("API.Example.com:8443", &[], true),
            ("127.0.0.1:8080", &[], true),
            ("localhost:8080", &[], true),
            ("[::1]:8080", &[], true),
            ("evil.example:8080", &[], false),
            ("api.example.com.evil.example", &[], false),
            ("127.0.0.1.evil.example", &[], false),
            ("user@evil.example", &[], false),
            ("", &[], false),
            ("api.example.com", &["https://api.example.com"], true),
            ("127.0.0.1:8080", &["http://127.0.0.1:8080"], true),
            ("localhost:8080", &["http://localhost:8080"], true),
            ("127.0.0.1:8080", &["http://127.0.0.1:9999"], false),
            ("127.0.0.1:8080", &["https://evil.example"], false),
            ("evil.example:8080", &["http://evil.example:8080"], false),
            ("api.example.com", &["http://api.example.com"], false),
            ("api.example.com", &["https://api.example.com:444"], false),
            ("api.example.com", &["null"], false),
            ("api.example.com", &["https://api.example.com", "https://evil.example"], false),
        ] {
            let request = origin.iter().fold(Request::builder().header(HOST, host), |r, o| r.header(ORIGIN, *o));
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(guard.check(&parts, false).is_ok(), passes, "{host} {origin:?}");
        }
    }

    #[test]
    fn two_host_headers_are_refused() {
        let request = Request::builder().header(HOST, "localhost").header(HOST, "evil.example").body(()).unwrap();
        assert!(
            Guard::new(&Config::default(), AllowedOrigins::default()).check(&request.into_parts().0, true).is_err()
        );
    }
}
