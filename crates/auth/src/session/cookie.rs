use std::time::Duration;

use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};

use super::SessionSecret;

/// The session cookie of dev mode or production: `HttpOnly`, `SameSite=Lax`, `Path=/`, no `Domain`.
///
/// In production it is `__Host-session` and `Secure`; because of the prefix, browsers accept it only over HTTPS and not
/// from a sibling domain. In dev mode it is `session_id` and works over plain HTTP. Only the name of the current mode
/// is read.
#[derive(Debug, Clone, Copy)]
pub struct SessionCookie {
    secure: bool,
    max_age: Duration,
}

impl SessionCookie {
    pub(crate) fn new(secure: bool, max_age: Duration) -> Self {
        Self { secure, max_age }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        if self.secure { "__Host-session" } else { "session_id" }
    }

    /// Whether browsers send it only over HTTPS.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether a request has one, valid or not.
    pub(crate) fn is_sent(&self, headers: &HeaderMap) -> bool {
        cookies::is_sent(headers, self.name())
    }

    /// The secret in a request's cookie, if it is well-formed.
    pub fn read(&self, headers: &HeaderMap) -> Option<SessionSecret> {
        SessionSecret::parse(&cookies::read(headers, self.name())?)
    }

    /// The `Set-Cookie` that gives `secret` to the browser.
    pub fn set(&self, secret: &SessionSecret) -> HeaderValue {
        let mut value = cookies::set(self.name(), secret.to_cookie_value().expose(), self.max_age, self.secure);
        value.set_sensitive(true);
        value
    }

    /// The `Set-Cookie` that removes it from the browser.
    pub fn clear(&self) -> HeaderValue {
        cookies::remove(self.name(), self.secure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secure_flag_decides_name_and_attributes() {
        let week = Duration::from_hours(7 * 24);
        let secret = SessionSecret::parse(&"A".repeat(43)).unwrap();
        let value = "A".repeat(43);
        let cases = [
            (true, format!("__Host-session={value}; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=604800")),
            (false, format!("session_id={value}; HttpOnly; SameSite=Lax; Path=/; Max-Age=604800")),
        ];
        for (secure, expected) in cases {
            let cookie = SessionCookie::new(secure, week);
            assert_eq!(cookie.set(&secret).to_str().unwrap(), expected);
            assert!(cookie.set(&secret).is_sensitive());
            assert!(cookie.clear().to_str().unwrap().contains("Max-Age=0"));
        }
    }

    #[test]
    fn a_secure_service_does_not_read_the_insecure_cookie() {
        let mut headers = HeaderMap::new();
        headers.insert("cookie", HeaderValue::from_str(&format!("session_id={}", "A".repeat(43))).unwrap());
        assert!(SessionCookie::new(true, Duration::ZERO).read(&headers).is_none());
        assert!(SessionCookie::new(false, Duration::ZERO).read(&headers).is_some());
    }
}
