use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;

use super::{Authenticated, Offer, Outcome, Scheme, SchemeUnavailable};
use crate::session::{Resolver, SessionCookie};

/// The session cookie.
#[derive(Debug)]
pub(crate) struct SessionScheme {
    pub(crate) cookie: SessionCookie,
    pub(crate) resolver: Arc<Resolver>,
}

#[async_trait]
impl Scheme for SessionScheme {
    fn name(&self) -> &'static str {
        "session"
    }

    fn is_requested(&self, headers: &HeaderMap) -> bool {
        self.cookie.is_sent(headers)
    }

    async fn authenticate(&self, offer: &Offer<'_>) -> Result<Outcome, SchemeUnavailable> {
        let Some(secret) = self.cookie.read(offer.headers) else { return Ok(Outcome::NotRequested) };
        Ok(match self.resolver.resolve(&secret).await.map_err(SchemeUnavailable::new)? {
            Some(session) => Outcome::Authenticated(Authenticated::of_session(session)),
            None => Outcome::Failed,
        })
    }

    fn is_ambient(&self) -> bool {
        true
    }
}
