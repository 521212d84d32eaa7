use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use gatewright_base::Ambient;
use http::{HeaderName, HeaderValue};

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The request's id, in the extensions of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The text: 1 to 64 letters, digits, dots, dashes and underscores.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The caller's id if it is sane, so that a trace can be followed across services and no log line be forged.
    fn parse(value: &HeaderValue) -> Option<Self> {
        let sane = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let text = value.to_str().ok()?;
        ((1..=64).contains(&text.len()) && text.bytes().all(sane)).then(|| Self(text.into()))
    }

    /// Keeps the caller's `X-Request-Id` if it is one, and a sane one; else makes one (UUID version 7).
    pub(super) fn of(request: &Request, ambient: &Ambient) -> Self {
        let mut given = request.headers().get_all(&HEADER).iter();
        let id = given.next().and_then(Self::parse).filter(|_| given.next().is_none());
        id.unwrap_or_else(|| {
            let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
            Self(Arc::from(&*ambient.uuid().hyphenated().encode_lower(&mut text)))
        })
    }

    /// The span of everything that is logged meanwhile. It has the method and the path, never the query, which may
    /// carry tokens.
    pub(super) fn span(&self, request: &Request) -> tracing::Span {
        tracing::info_span!("request", id = self.as_str(), method = %request.method(), path = request.uri().path())
    }

    /// Puts the id onto the answer.
    pub(super) fn stamp(&self, response: &mut Response) {
        if let Ok(value) = HeaderValue::from_str(self.as_str()) {
            response.headers_mut().insert(HEADER, value);
        }
    }
}
