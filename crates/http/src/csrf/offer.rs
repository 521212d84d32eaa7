use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::Response;
use http::header::{CACHE_CONTROL, SET_COOKIE, VARY};
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use super::keys::Signed;
use super::presented::Presented;
use super::token::Token;
use super::{Csrf, CsrfBinding, FIELD};
use crate::{Problem, cookies};

/// The token of one answer, for a form or a script: [`Csrf`] puts it into the request's extensions.
///
/// Nothing is signed and no cookie is set until the token is read, so that answers without a form stay cacheable. Read
/// it before the handler returns: a token that a streamed body reads later has no matching cookie.
///
/// As an extractor it fails with 500, and logs why, on a route without the middleware; `Option<CsrfToken>` is for
/// pages that work with and without.
#[derive(Clone)]
pub struct CsrfToken(Arc<Offer>);

struct Offer {
    csrf: Arc<Csrf>,
    presented: Presented,
    issued: OnceLock<Token>,
    shown: AtomicBool,
}

impl CsrfToken {
    pub(super) fn new(csrf: Arc<Csrf>, presented: Presented) -> Self {
        Self(Arc::new(Offer { csrf, presented, issued: OnceLock::new(), shown: AtomicBool::new(false) }))
    }

    pub(super) fn presented(&self) -> &Presented {
        &self.0.presented
    }

    /// The token for the field `_csrf` or the header `X-CSRF-Token`: 128 letters, digits, dashes and underscores, with
    /// a new mask at every call.
    pub fn value(&self) -> String {
        self.0.shown.store(true, Ordering::Relaxed);
        self.issue().mask(&self.0.csrf.ambient)
    }

    /// The hidden input for a form, as markup that needs no escaping and must not be escaped again.
    pub fn field(&self) -> String {
        format!("<input type=\"hidden\" name=\"{FIELD}\" value=\"{}\">", crate::html::escape(&self.value()))
    }

    /// Ensures that the answer leaves the browser with a valid cookie.
    pub(super) fn issue(&self) -> &Token {
        let Offer { csrf, presented, .. } = &*self.0;
        self.0.issued.get_or_init(|| match presented.valid(csrf).first() {
            Some((token, Signed::Currently)) => token.clone(),
            // The nonce stays the same, so that open forms in other tabs stay valid when the secret changes.
            Some((token, Signed::Previously)) => csrf.keys.sign(token.nonce, &presented.binding),
            None => csrf.keys.sign(csrf.ambient.bytes(), &presented.binding),
        })
    }

    /// Sets the headers of the answer that belong to this request's token.
    pub(super) fn settle(&self, response: &mut Response) {
        let Offer { csrf, presented, .. } = &*self.0;
        let rebound = response.extensions().get::<CsrfBinding>().filter(|binding| **binding != presented.binding);
        let fresh = match rebound {
            Some(binding) => Some(csrf.keys.sign(csrf.ambient.bytes(), binding)),
            None => self.0.issued.get().filter(|token| !self.is_sent(token)).cloned(),
        };
        let headers = response.headers_mut();
        if let Some(token) = fresh {
            let cookie = super::cookie_name(presented.secure);
            headers
                .append(SET_COOKIE, cookies::set_for_browser_session(cookie, &token.cookie_value(), presented.secure));
        }
        if self.0.shown.load(Ordering::Relaxed) {
            headers.append(VARY, HeaderValue::from_static("Cookie"));
            headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
        }
    }

    /// Whether the browser has exactly this cookie.
    fn is_sent(&self, token: &Token) -> bool {
        self.0.presented.valid(&self.0.csrf).iter().any(|(sent, _)| sent == token)
    }
}

impl fmt::Debug for CsrfToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CsrfToken(…)")
    }
}

impl<S: Sync> FromRequestParts<S> for CsrfToken {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            tracing::error!("a handler asks for the CSRF token, but no CSRF middleware is mounted on its route");
            Problem::of(StatusCode::INTERNAL_SERVER_ERROR)
        })
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for CsrfToken {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}
