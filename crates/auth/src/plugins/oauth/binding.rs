//! Binds a state to a browser.
//!
//! A sibling domain can set the state's cookie for its parent domain, and so make a browser finish a flow that an
//! attacker has started: the browser is then signed in to the attacker's account. No other domain can set a `__Host-`
//! cookie. So the flow puts random bytes into one, and the signed state contains their digest. Browsers accept such
//! cookies only over HTTPS; dev mode does not use one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret};
use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

use super::state::LIFETIME;

/// The random bytes, as text.
pub(super) struct Binding(Secret);

/// The cookie with the random bytes.
const COOKIE: &str = "__Host-svc_oauth_binding";

impl Binding {
    /// 32 random bytes.
    pub(super) fn generate(ambient: &Ambient) -> Self {
        Self(Secret::new(URL_SAFE_NO_PAD.encode(ambient.bytes::<32>())))
    }

    /// The digest in the state: base64url of the SHA-256.
    pub(super) fn digest(&self) -> String {
        digest(self.0.expose())
    }

    /// Whether one of a request's cookies has this digest.
    pub(super) fn is_in(headers: &HeaderMap, expected: &str) -> bool {
        cookies::read_all(headers, COOKIE).any(|value| digest(&value) == expected)
    }

    /// Valid as long as the state.
    pub(super) fn set_cookie(&self) -> HeaderValue {
        cookies::set(COOKIE, self.0.expose(), LIFETIME.unsigned_abs(), true)
    }

    /// Makes the browser forget it.
    pub(super) fn remove_cookie() -> HeaderValue {
        cookies::remove(COOKIE, true)
    }
}

fn digest(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}
