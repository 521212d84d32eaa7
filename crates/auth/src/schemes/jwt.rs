use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Credential, Identity, Principal, Secret, Subject};
use http::HeaderMap;

use super::{Authenticated, Offer, Outcome, Scheme, SchemeUnavailable, bearer};
use crate::assurance::Assurance;
use crate::jwt::Jwts;
use crate::tokens::PREFIX;
use crate::users::{UserStore, UserStoreError};

/// `Authorization: Bearer` with a JWT; a token that begins like an API token belongs to another scheme. The current user is loaded on each
/// use: roles are up to date, a deleted user's token is refused, and so is one from before a password reset or a logout everywhere.
pub(crate) struct JwtScheme {
    pub(crate) jwts: Arc<Jwts>,
    pub(crate) users: Arc<dyn UserStore>,
}

#[async_trait]
impl Scheme for JwtScheme {
    fn name(&self) -> &'static str {
        "jwt"
    }

    fn is_requested(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|token| !token.starts_with(PREFIX))
    }

    async fn authenticate(&self, offer: &Offer<'_>) -> Result<Outcome, SchemeUnavailable> {
        let token = bearer(offer.headers).filter(|token| !token.starts_with(PREFIX));
        let Some(token) = token.map(Secret::new) else { return Ok(Outcome::NotRequested) };
        let verified = self.jwts.verify_with_new_keys(&token).await.map_err(SchemeUnavailable::new)?;
        let Ok(claims) = verified else { return Ok(Outcome::Failed) };
        let user = match self.users.find_by_id(&claims.sub).await {
            Ok(user) => user,
            Err(UserStoreError::NotFound) => return Ok(Outcome::Failed),
            Err(error) => return Err(SchemeUnavailable::new(error)),
        };
        if user.disabled || !claims.issued_millis().is_some_and(|issued| user.accepts_token_from(issued)) {
            return Ok(Outcome::Failed);
        }
        let principal = Principal {
            email: user.address().cloned().map(Into::into),
            subject: Subject::User(user.id),
            roles: user.roles,
            credential: Credential::Jwt { expires_at: claims.expires_at() },
        };
        let assurance = Assurance { second_factor: claims.has_second_factor(), proven_at: claims.issued_at() };
        let found = Authenticated::new(Identity::Known(Arc::new(principal)));
        Ok(Outcome::Authenticated(found.with_assurance(assurance)))
    }
}
