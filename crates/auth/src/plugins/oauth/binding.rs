//! Binds a flow to a browser.
//!
//! The state is in the address of the redirect and in that of the callback, which are in histories and logs. A sibling
//! domain can set the state's cookie for its parent domain, and so make a browser finish a flow that an attacker has
//! started: the browser is then signed in to the attacker's account. No other domain can set a `__Host-` cookie. So the flow
//! puts random bytes into one. The signed state contains their digest, and the [`Proofs`] at the provider are derived from
//! them. Browsers accept `__Host-` cookies only over HTTPS; dev mode uses an ordinary one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret};
use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

use super::state::LIFETIME;
use crate::providers::Proofs;

/// The random bytes, as text.
pub(super) struct Binding(Secret);

impl Binding {
    /// 32 random bytes.
    pub(super) fn generate(ambient: &Ambient) -> Self {
        Self(Secret::new(URL_SAFE_NO_PAD.encode(ambient.bytes::<32>())))
    }

    /// The one of a request's cookies that has this digest.
    pub(super) fn find(headers: &HeaderMap, digest: &str, secure: bool) -> Option<Self> {
        let mut bindings = cookies::read_all(headers, cookie(secure)).map(|value| Self(Secret::new(value)));
        bindings.find(|binding| binding.digest() == digest)
    }

    /// The digest in the state: base64url of the SHA-256.
    pub(super) fn digest(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.0.expose()))
    }

    /// The proofs at the provider of the flow with this state.
    pub(super) fn proofs(&self, state: &Secret) -> Proofs {
        Proofs::new(&self.0, state.expose())
    }

    /// Valid as long as the state.
    pub(super) fn set_cookie(&self, secure: bool) -> HeaderValue {
        cookies::set(cookie(secure), self.0.expose(), LIFETIME.unsigned_abs(), secure)
    }

    /// The same for a provider whose page posts its answer.
    pub(super) fn set_cookie_for_post(&self, secure: bool) -> HeaderValue {
        cookies::set_for_cross_site(cookie(secure), self.0.expose(), LIFETIME.unsigned_abs())
    }

    /// Makes the browser forget it. With `posted`, it was `Secure` in any case.
    pub(super) fn remove_cookie(secure: bool, posted: bool) -> HeaderValue {
        cookies::remove(cookie(secure), secure || posted)
    }
}

/// The cookie with the random bytes.
fn cookie(secure: bool) -> &'static str {
    if secure { "__Host-svc_oauth_binding" } else { "svc_oauth_binding" }
}
