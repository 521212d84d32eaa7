//! CSRF: a request that changes something must show that it comes from a page which this service gave a token to.
//!
//! A browser sends its cookies with whatever another site makes it send. So a form carries, next to the cookie, a
//! token that only a page of this origin can have read. [`Csrf`] is the middleware; the walk of a request through it:
//!
//! 1. The cookie (`__Host-csrf` over HTTPS, `csrf` without) holds a random number and its signature, an HMAC over the
//!    number and the [`CsrfBinding`]: the session that the middleware before this one resolved. A cookie that was made
//!    for another session, or by nobody, counts for nothing.
//! 2. Safe methods pass. So does a request whose credential no browser sends by itself (`Authorization: Bearer`,
//!    `X-API-Key`), and what the host exempts by method and path.
//! 3. Everything else brings a token in `X-CSRF-Token` or, being a form, in its field `_csrf`. It must be signed for
//!    the session as well, and pair with the cookie. JSON has the header alone. Of a form's body only the beginning is
//!    read, and handed on as it came.
//! 4. Otherwise: 403 `csrf token missing or invalid`.
//! 5. Handlers ask [`CsrfToken`] for the token of their pages; the first to ask sets the cookie.
//!
//! # Why signing in does not lock anybody out
//!
//! A sign-in changes the binding, and with it every token from before is dead: whoever planted a cookie in a browser
//! that was signed out, and knows its token, must not be able to use it once somebody has signed in. The browser is
//! not stuck with its dead cookie, though. It is replaced as soon as a page or a script asks for a token, and also by
//! the very answer that refuses it, so that loading the form again is all it takes. Only a cookie that was sent is
//! replaced by a refusal: a post from another site comes without one, and must not overwrite the good one.

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

/// The form field that carries the token.
pub const FIELD: &str = "_csrf";
/// The header that carries the token.
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

    /// For dev mode: takes a secret of any length, and makes one that dies with the process if it is empty.
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
            form_bytes: Self::FORM_BYTES,
        }
    }

    /// Secrets that signed before: their tokens hold until they are taken off this list. New tokens are signed with the
    /// current one. Without them, a change of the secret merely has every open form loaded once more.
    pub fn previous_secrets<'s>(mut self, secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        Arc::make_mut(&mut self.keys).set_previous(secrets);
        self
    }

    /// `__Host-csrf` and `Secure` whatever the connection looks like from here. Otherwise [`Scheme`](crate::Scheme) decides.
    pub fn always_secure(mut self) -> Self {
        self.always_secure = true;
        self
    }

    /// Lets requests of exactly this method and path through without a token: those whose caller proves itself some
    /// other way, such as a signed webhook. A path below a nested router is the whole one that the client asked for.
    pub fn exempt(mut self, method: Method, path: impl Into<String>) -> Self {
        self.exempt = self.exempt.iter().cloned().chain([(method, path.into())]).collect();
        self
    }

    /// How many bytes of a form are read, at most, in search of its `_csrf`. Each request that is searched holds so many
    /// in memory; what comes behind the field is not read here.
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
