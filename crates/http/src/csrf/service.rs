use std::sync::Arc;

use axum::body::Body;
use axum::extract::{OriginalUri, Request};
use gatewright_base::{Credential, Identity};
use http::Method;
use http::request::Parts;
use tower::Layer;

use super::find::Form;
use super::peek::peek;
use super::presented::Presented;
use super::token::Token;
use super::{Csrf, CsrfToken, HEADER, credential, refusal};
use crate::Problem;
use crate::browser::FromAnyOrigin;
use crate::layers::{Answer, BodyLimit, Inner, Middleware, RouteService, Wrapped, answer};

/// The service of [`Csrf`].
#[derive(Debug, Clone)]
pub struct CsrfGuard(Arc<Csrf>);

impl<S> Layer<S> for Csrf {
    type Service = Wrapped<S, CsrfGuard>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, CsrfGuard(Arc::new(self.clone())))
    }
}

impl Middleware for CsrfGuard {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let csrf = self.0.clone();
        let inner = inner.take();
        answer(async move {
            let (mut parts, body) = request.into_parts();
            let token = CsrfToken::new(csrf.clone(), Presented::of(&csrf, &parts));
            parts.extensions.insert(token.clone());
            let mut response = match csrf.check(&parts, body, token.presented()).await {
                Ok(body) => inner.call(Request::from_parts(parts, body)).await,
                Err(problem) => {
                    if token.presented().any_sent {
                        token.issue();
                    }
                    problem.answer(&parts.headers)
                }
            };
            token.settle(&mut response);
            response
        })
    }
}

impl Csrf {
    /// The body to pass on, or the refusal.
    async fn check(&self, parts: &Parts, body: Body, presented: &Presented) -> Result<Body, Problem> {
        // Its cookies were removed.
        let has_no_cookies = parts.extensions.get::<FromAnyOrigin>().is_some_and(|from| from.is_foreign);
        let is_explicit = has_no_cookies || credential::is_explicit(&parts.headers);
        if is_safe(&parts.method) || self.is_exempt(parts) || is_explicit || self.is_without_session(parts) {
            return Ok(body);
        }
        let missing = |reason: &'static str| {
            tracing::debug!(reason, "request refused: no valid CSRF token");
            refusal()
        };
        let cookies = presented.valid(self);
        if cookies.is_empty() {
            return Err(missing("there is no valid cookie for this session"));
        }
        let (text, body) = self.sent(parts, body).await?;
        let text = text.ok_or_else(|| missing("no X-CSRF-Token, nor _csrf where a form is searched for it"))?;
        let token = Token::unmask(&text).ok_or_else(|| missing("the value sent is not a token"))?;
        if self.keys.verify(&token, &presented.binding).is_none() {
            return Err(missing("the token is not signed for this session"));
        }
        if !cookies.iter().any(|(cookie, _)| cookie.pairs_with(&token)) {
            return Err(missing("the token belongs to another cookie"));
        }
        Ok(body)
    }

    /// The token of the request: only the header, if there is one; otherwise the form's field.
    async fn sent(&self, parts: &Parts, body: Body) -> Result<(Option<String>, Body), Problem> {
        let mut lines = parts.headers.get_all(HEADER).iter();
        if let Some(line) = lines.next() {
            // Two headers count as none: the result must not depend on which one is read.
            let only = lines.next().is_none().then(|| line.to_str().ok()).flatten();
            return Ok((only.map(str::to_owned), body));
        }
        match Form::of(&parts.headers) {
            Some(form) => {
                let limit = parts.extensions.get::<BodyLimit>().copied();
                peek(&form, body, self.form_bytes).await.map_err(|unreadable| unreadable.into_problem(limit))
            }
            None => Ok((None, body)),
        }
    }

    /// Whether the path only asks for a token of requests with a session, and the request has none.
    fn is_without_session(&self, parts: &Parts) -> bool {
        let has_session = match parts.extensions.get::<Identity>() {
            Some(Identity::Known(principal)) => matches!(principal.credential, Credential::Session { .. }),
            Some(Identity::Pending(_)) => true,
            Some(Identity::Anonymous) | None => false,
        };
        !has_session && self.sessions_only.as_ref().is_some_and(|prefix| path(parts).starts_with(&**prefix))
    }

    fn is_exempt(&self, parts: &Parts) -> bool {
        let path = path(parts);
        self.exempt.iter().any(|(method, exempt)| *method == parts.method && is_at(exempt, path))
    }
}

fn path(parts: &Parts) -> &str {
    parts.extensions.get::<OriginalUri>().map_or(parts.uri.path(), |OriginalUri(uri)| uri.path())
}

/// Whether `path` is the exempt one, in which `{name}` stands for one segment.
fn is_at(exempt: &str, path: &str) -> bool {
    let (mut exempt, mut path) = (exempt.split('/'), path.split('/'));
    loop {
        match (exempt.next(), path.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given || (wanted.starts_with('{') && !given.is_empty()) => {}
            _ => return false,
        }
    }
}

/// The methods that change nothing (RFC 9110, section 9.2.1). Only the real method counts, not an override in a header
/// or a field.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}
