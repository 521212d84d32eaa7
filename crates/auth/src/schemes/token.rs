use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::{Credential, Identity, Principal, Roles, Subject};
use gatewright_limits::{Limiter, Policy};
use http::HeaderMap;

use super::bearer::{bearer, bearer_tokens};
use super::{Authenticated, Offer, Outcome, Scheme, SchemeUnavailable};
use crate::audit::AuditKind;
use crate::email::EmailAddress;
use crate::foundation::Foundation;
use crate::service_accounts::ServiceAccountStore;
use crate::tokens::{self, Plaintext, Resources, StoredToken, TokenStore, Tokens, Uses};
use crate::users::UserStoreError;

/// `Authorization: Bearer svc_…`: an API token. Token and owner are loaded on each use, so that a revoked token, a
/// removed role, or a disabled or deleted account takes effect with the next request.
///
/// An invalid token discards every identity that was found before it: a client that sends a token wants to act as its
/// owner, and must not act as another account.
pub(crate) struct TokenScheme {
    foundation: Foundation,
    tokens: Arc<dyn TokenStore>,
    services: Arc<dyn ServiceAccountStore>,
    uses: Uses,
    /// The resources of the authorization server's tokens.
    resources: Option<Resources>,
    /// How many failures from one address are audited: any client can cause them, and each is a write.
    audited: Limiter,
}

/// Limit of audited failures from one address within [`A_WHILE`]. Further ones are only logged.
const AUDITED: u32 = 100;
const A_WHILE: Duration = Duration::from_mins(1);

/// Why a token is refused, in the words of the audit event.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    Unknown,
    Revoked,
    Expired,
    OwnerMissing,
    OwnerDisabled,
    WrongAudience,
}

/// The current owner of a token.
struct Owner {
    email: Option<EmailAddress>,
    roles: Roles,
}

impl TokenScheme {
    pub(crate) fn new(foundation: &Foundation, tokens: &Tokens) -> Self {
        let policy = Policy::new(AUDITED, A_WHILE, A_WHILE);
        let config = &foundation.config;
        Self {
            foundation: foundation.clone(),
            tokens: tokens.store.clone(),
            services: tokens.services.clone(),
            uses: tokens.uses.clone(),
            resources: config.public_url.as_ref().map(|url| Resources::new(url, config.tools_path.as_deref())),
            audited: Limiter::in_memory("token_auth_failed", policy, foundation.ambient.clone()),
        }
    }

    /// The token and its owner, if both are valid.
    async fn check(
        &self,
        text: Option<&str>,
        path: &str,
    ) -> Result<Result<(StoredToken, Owner), Refusal>, SchemeUnavailable> {
        let Some(plaintext) = text.and_then(Plaintext::parse) else { return Ok(Err(Refusal::Unknown)) };
        let found = self.tokens.find(&plaintext.hash()).await.map_err(SchemeUnavailable::new)?;
        let Some(token) = found else { return Ok(Err(Refusal::Unknown)) };
        if token.revoked_at.is_some() {
            return Ok(Err(Refusal::Revoked));
        }
        if token.is_expired(self.foundation.ambient.now()) {
            return Ok(Err(Refusal::Expired));
        }
        let is_elsewhere = |audience: &str| {
            self.resources.as_ref().is_none_or(|resources| resources.url(resources.of_path(path)) != audience)
        };
        // It is only valid at the resource that it was issued for (RFC 8707).
        if token.delegation.as_ref().is_some_and(|delegation| is_elsewhere(&delegation.audience)) {
            return Ok(Err(Refusal::WrongAudience));
        }
        Ok(self.owner(&token.owner).await?.map(|owner| (token, owner)))
    }

    async fn owner(&self, owner: &Subject) -> Result<Result<Owner, Refusal>, SchemeUnavailable> {
        match owner {
            Subject::User(id) => match self.foundation.users.store.find_by_id(id).await {
                Ok(user) if user.disabled => Ok(Err(Refusal::OwnerDisabled)),
                Ok(user) => Ok(Ok(Owner { email: user.address().cloned(), roles: user.roles })),
                Err(UserStoreError::NotFound) => Ok(Err(Refusal::OwnerMissing)),
                Err(error) => Err(SchemeUnavailable::new(error)),
            },
            Subject::Service(id) => match self.services.find(id).await.map_err(SchemeUnavailable::new)? {
                Some(account) if account.disabled => Ok(Err(Refusal::OwnerDisabled)),
                Some(account) => Ok(Ok(Owner { email: None, roles: account.roles })),
                None => Ok(Err(Refusal::OwnerMissing)),
            },
        }
    }

    async fn audit(&self, offer: &Offer<'_>, presented: &str, refusal: Refusal) {
        let (audit, prefix) = (&self.foundation.audit, tokens::shown(presented));
        if self.audited.attempt(&audited_key(offer.client)).await.is_err() {
            tracing::debug!(reason = refusal.name(), "an API token was refused; there are too many to audit each");
            return;
        }
        let event = audit.event(AuditKind::TokenAuthFailed).remote(offer.client.ip());
        audit.record(event.with("reason", refusal.name()).with("token", prefix)).await;
    }
}

/// The refused tokens of one address, or of one IPv6 /48, share a budget of rows in the audit log.
fn audited_key(client: gatewright_http::ClientAddr) -> String {
    gatewright_http::Counted::RefusedTokens.limit_key(client)
}

#[async_trait]
impl Scheme for TokenScheme {
    fn name(&self) -> &'static str {
        "api_token"
    }

    fn is_requested(&self, headers: &HeaderMap) -> bool {
        presented(headers).is_some()
    }

    async fn authenticate(&self, offer: &Offer<'_>) -> Result<Outcome, SchemeUnavailable> {
        let Some(presented) = presented(offer.headers) else { return Ok(Outcome::NotRequested) };
        // If a request has several credentials, it is ambiguous which one counts, so none does.
        let alone = bearer(offer.headers);
        let (token, owner) = match self.check(alone, offer.path).await? {
            Ok(good) => good,
            Err(refusal) => {
                if !offer.again {
                    self.audit(offer, presented, refusal).await;
                }
                return Ok(Outcome::Failed);
            }
        };
        if !offer.again {
            self.uses.note(&token, self.foundation.ambient.now());
        }
        let (is_delegated, tenants) = (token.delegation.is_some(), token.tenants());
        let principal = Principal {
            subject: token.owner,
            email: owner.email.map(Into::into),
            roles: owner.roles,
            credential: Credential::ApiToken {
                id: token.id,
                scopes: token.scopes,
                expires_at: token.expires_at,
                tenants,
            },
        };
        let authenticated = Authenticated::new(Identity::Known(Arc::new(principal)));
        Ok(Outcome::Authenticated(Authenticated { is_delegated, ..authenticated }))
    }

    fn failure_wipes(&self) -> bool {
        true
    }
}

/// The first bearer that has the form of an API token.
fn presented(headers: &HeaderMap) -> Option<&str> {
    bearer_tokens(headers).find(|token| token.starts_with(tokens::PREFIX))
}

impl Refusal {
    fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::OwnerMissing => "owner_missing",
            Self::OwnerDisabled => "owner_disabled",
            Self::WrongAudience => "wrong_audience",
        }
    }
}
