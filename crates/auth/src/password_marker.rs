//! A signed cookie for a browser that sent the right password of an account whose mailbox is not proven yet. With it, a
//! verification link counts as opened by the person who registered.
//!
//! Without the cookie, a link that is opened without a session claims the account and removes the password, because
//! another person may have set it. The cookie is bound to the account and its last refusal of sessions, so that a
//! password reset invalidates it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, SigningKey};
use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;

use crate::jwt::JwtConfig;
use crate::users::User;

/// Writes and reads these cookies.
#[derive(Clone)]
pub(crate) struct PasswordMarker {
    key: SigningKey,
    secure: bool,
    ambient: Ambient,
}

/// Part of the signed format.
const LABEL: &str = "gatewright/registered-here/v1";
/// As long as a verification link works by default.
const LIFETIME: Duration = Duration::from_hours(24);

impl PasswordMarker {
    /// Signs with a key of the secret; without one, notes end with the process.
    pub(crate) fn new(jwt: &JwtConfig, secure: bool, ambient: Ambient) -> Self {
        Self { key: SigningKey::derive(jwt.secrets(), LABEL, &ambient), secure, ambient }
    }

    fn cookie(&self) -> &'static str {
        if self.secure { "__Host-svc_registered" } else { "svc_registered" }
    }

    /// The `Set-Cookie` for a browser in which this account's password was given.
    pub(crate) fn note(&self, user: &User) -> HeaderValue {
        let until = self.ambient.now().checked_add(LIFETIME).map_or(i64::MAX, Timestamp::as_second);
        let tag = URL_SAFE_NO_PAD.encode(of(user, until, |parts| self.key.tag(parts)));
        let mut cookie = cookies::set(self.cookie(), &format!("{until}.{tag}"), LIFETIME, self.secure);
        cookie.set_sensitive(true);
        cookie
    }

    /// Whether a request comes from such a browser.
    pub(crate) fn knows(&self, headers: &HeaderMap, user: &User) -> bool {
        cookies::read_all(headers, self.cookie()).any(|text| self.is_good(&text, user))
    }

    fn is_good(&self, text: &str, user: &User) -> bool {
        let Some((until, tag)) = text.split_once('.') else { return false };
        let (Ok(until), Ok(tag)) = (until.parse::<i64>(), URL_SAFE_NO_PAD.decode(tag)) else { return false };
        self.ambient.now().as_second() < until && of(user, until, |parts| self.key.is_tag(&tag, parts))
    }
}

/// The input that binds a cookie to `user`.
fn of<T>(user: &User, until: i64, tag: impl FnOnce(&[&[u8]]) -> T) -> T {
    let refused = user.sessions_valid_after.map_or(0, Timestamp::as_microsecond).to_string();
    tag(&[user.id.as_str(), user.email.as_str(), &refused, &until.to_string()].map(str::as_bytes))
}
