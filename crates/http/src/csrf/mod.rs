//! CSRF protection: a request that changes something must contain a token that this service gave to one of its pages.
//!
//! A browser sends its cookies also with requests that another site triggers. So a form contains, in addition to the
//! cookie, a token that only a page of this origin can read. [`Csrf`] is the middleware. It handles a request in these
//! steps:
//!
//! 1. The cookie (`__Host-csrf` over HTTPS, `csrf` without) holds a random number and its signature, an HMAC over the
//!    number and the [`CsrfBinding`]: the session that the middleware before this one resolved. A cookie for another
//!    session, or with an invalid signature, is ignored.
//! 2. Safe methods pass. So does a request whose credential no browser sends by itself (`Authorization: Bearer`,
//!    `X-API-Key`), and requests that the host exempts by method and path.
//! 3. Every other request needs a token in `X-CSRF-Token` or, for a form, in its field `_csrf`. It must be signed for
//!    the session as well, and match the cookie. JSON can use only the header. Only the beginning of a form's body is
//!    read, and it is passed on unchanged.
//! 4. Otherwise: 403 `csrf token missing or invalid`.
//! 5. Handlers read the token for their pages from [`CsrfToken`]; the first read sets the cookie.
//!
//! # Why a sign-in does not break open forms
//!
//! A sign-in changes the binding, which invalidates every earlier token: an attacker who planted a cookie in a
//! signed-out browser, and knows its token, must not be able to use it after the sign-in. The invalid cookie is
//! replaced when a page or a script requests a token, and also by the refusal, so that the user only has to reload the
//! form. A refusal replaces only a cookie that was sent: a post from another site has no cookie, and must not overwrite
//! the valid one.

mod binding;
mod credential;
mod endpoint;
mod find;
mod keys;
mod offer;
mod peek;
mod presented;
mod service;
mod token;

use std::fmt;
use std::sync::Arc;

use gatewright_base::{Ambient, Secret};
use http::{HeaderName, Method};

use crate::Problem;
use keys::Keys;

pub use binding::CsrfBinding;
pub use endpoint::csrf_token;
pub use offer::CsrfToken;
pub use service::CsrfGuard;

/// The form field of the token.
pub const FIELD: &str = "_csrf";
/// The header of the token.
pub const HEADER: HeaderName = HeaderName::from_static("x-csrf-token");
/// The cookie over HTTPS.
pub const SECURE_COOKIE: &str = "__Host-csrf";
/// The cookie without.
pub const PLAIN_COOKIE: &str = "csrf";

/// A secret too short to sign with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the CSRF secret has {0} bytes: at least {min} are needed", min = Secret::MIN_BYTES)]
pub struct ShortSecret(pub usize);

/// The CSRF middleware: a [`tower::Layer`] for any routes, put inside the one that resolves sessions.
///
/// ```
/// use axum::{Router, response::Html, routing::get};
/// use gatewright_base::{Ambient, Secret};
/// use gatewright_http::csrf::{Csrf, CsrfToken, csrf_token};
///
/// async fn form(csrf: CsrfToken) -> Html<String> {
///     Html(format!("<form method=post>{}<button>Send</button></form>", csrf.field()))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let secret = Secret::new("at least thirty-two bytes of anything");
/// let app: Router = Router::new()
///     .route("/contact", get(form).post(async || "thank you"))
///     .route("/auth/csrf", get(csrf_token))
///     .layer(Csrf::new(&secret, Ambient::system())?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Csrf {
    keys: Arc<Keys>,
    ambient: Ambient,
    always_secure: bool,
    exempt: Arc<[(Method, String)]>,
    /// Paths that begin with this need a token only with a session.
    sessions_only: Option<Arc<str>>,
    form_bytes: usize,
}

impl Csrf {
    /// How far into a form the field is looked for, unless [`Csrf::form_bytes`] says otherwise: 1 MiB.
    pub const FORM_BYTES: usize = 1024 * 1024;

    /// Signs with a key derived from `secret`, which has at least [`Secret::MIN_BYTES`].
    pub fn new(secret: &Secret, ambient: Ambient) -> Result<Self, ShortSecret> {
        if secret.len() < Secret::MIN_BYTES {
            return Err(ShortSecret(secret.len()));
        }
        Ok(Self::with_secret(secret, ambient))
    }

    /// For dev mode: accepts a secret of any length. If it is empty, uses a random one until the process ends.
    pub fn dev_mode(secret: &Secret, ambient: Ambient) -> Self {
        if !secret.is_empty() {
            return Self::with_secret(secret, ambient);
        }
        let random = u128::from_ne_bytes(ambient.bytes());
        let more = u128::from_ne_bytes(ambient.bytes());
        Self::with_secret(&Secret::new(format!("{random:032x}{more:032x}")), ambient)
    }

    fn with_secret(secret: &Secret, ambient: Ambient) -> Self {
        Self {
            keys: Arc::new(Keys::new(secret)),
            ambient,
            always_secure: false,
            exempt: Arc::default(),
            sessions_only: None,
            form_bytes: Self::FORM_BYTES,
        }
    }

    /// Earlier secrets: their tokens are valid until the secret is removed from this list. New tokens are signed with
    /// the current secret. Without them, users have to reload open forms after a change of the secret.
    pub fn previous_secrets<'s>(mut self, secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        Arc::make_mut(&mut self.keys).set_previous(secrets);
        self
    }

    /// `__Host-csrf` and `Secure` in any case. Otherwise [`Scheme`](crate::Scheme) decides.
    pub fn always_secure(mut self) -> Self {
        self.always_secure = true;
        self
    }

    /// Exempts requests of exactly this method and path, in which a segment `{name}` stands for any, for callers that are authenticated in another way, such as a
    /// signed webhook. For a nested router, give the full path of the request.
    pub fn exempt(mut self, method: Method, path: impl Into<String>) -> Self {
        self.exempt = self.exempt.iter().cloned().chain([(method, path.into())]).collect();
        self
    }

    /// Asks for a token at paths that begin with `prefix` only if the request's [identity](gatewright_base::Identity) is that of a session cookie.
    pub fn sessions_only(self, prefix: &str) -> Self {
        Self { sessions_only: Some(prefix.into()), ..self }
    }

    /// The most bytes of a form that are searched for `_csrf`. Each searched request holds up to so many bytes in
    /// memory. The middleware does not read beyond the field.
    pub fn form_bytes(mut self, bytes: usize) -> Self {
        self.form_bytes = bytes;
        self
    }
}

impl fmt::Debug for Csrf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Csrf")
            .field("always_secure", &self.always_secure)
            .field("exempt", &self.exempt)
            .field("form_bytes", &self.form_bytes)
            .finish_non_exhaustive()
    }
}

/// The refusal: 403 `csrf token missing or invalid`, code `csrf`.
pub fn refusal() -> Problem {
    Problem::forbidden("csrf token missing or invalid").with_code("csrf")
}

fn cookie_name(secure: bool) -> &'static str {
    if secure { SECURE_COOKIE } else { PLAIN_COOKIE }
}
