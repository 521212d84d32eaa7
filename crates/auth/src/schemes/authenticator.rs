use std::sync::Arc;

use gatewright_base::{Ambient, Credential, Grant, Identity, Principal, Subject, TenantLimit};
use gatewright_tenancy::TenantStore;
use http::HeaderMap;
use http::header::ORIGIN;

use super::{Authenticated, Bearer, Offer, Outcome, SchemeUnavailable, Schemes, bearer};
use crate::stream_tickets::tickets::Tickets;
use crate::users::{UserStore, UserStoreError};

/// Asks the schemes in their order and makes one identity of their answers. The rules are at the top of this module.
pub(crate) struct Authenticator {
    pub(crate) schemes: Schemes,
    pub(crate) users: Arc<dyn UserStore>,
    pub(crate) ambient: Ambient,
    /// Tickets for event streams, if there is a database.
    pub(crate) tickets: Option<Tickets>,
    /// The tenants that accounts manage, if there are any.
    pub(crate) tenants: Option<Arc<dyn TenantStore>>,
}

impl Authenticator {
    /// Whether a request with these headers carries any credential. If not, it is anonymous and costs no query.
    pub(crate) fn is_requested(&self, headers: &HeaderMap) -> bool {
        self.schemes.iter().any(|scheme| scheme.is_requested(headers))
    }

    /// The request's identity. `host` is the identity that a program's own middleware established before.
    pub(crate) async fn authenticate(
        &self,
        offer: &Offer<'_>,
        host: Option<&Identity>,
    ) -> Result<Authenticated, SchemeUnavailable> {
        let mut found = match host {
            Some(identity) => Authenticated::new(self.still_good(identity, offer).await?),
            None => Authenticated::default(),
        };
        let mut refused = Bearer::NotRefused;
        for scheme in &self.schemes {
            if (scheme.is_ambient() && host.is_some()) || !scheme.is_requested(offer.headers) {
                continue;
            }
            let outcome = scheme.authenticate(offer).await?;
            if matches!(outcome, Outcome::Failed) && !scheme.is_ambient() && bearer(offer.headers).is_some() {
                refused = Bearer::Refused;
            }
            match outcome {
                Outcome::Authenticated(authenticated) => found = authenticated,
                Outcome::Failed if scheme.failure_wipes() => found = Authenticated::default(),
                Outcome::NotRequested | Outcome::Failed => {}
            }
        }
        if !self.is_in_its_tenant(&found.identity).await? {
            return Ok(Authenticated { bearer: Bearer::Refused, ..Authenticated::default() });
        }
        Ok(Authenticated { bearer: refused, ..found })
    }

    /// Whether the owner of a credential that is limited to one tenant is still a member of it. When the membership
    /// ends, the credential ends too, also for data without tenants.
    async fn is_in_its_tenant(&self, identity: &Identity) -> Result<bool, SchemeUnavailable> {
        let Some(principal) = identity.principal() else { return Ok(true) };
        let TenantLimit::Only(tenant) = principal.credential.tenants() else { return Ok(true) };
        let Some(tenants) = &self.tenants else { return Ok(false) };
        Ok(tenants.roles(tenant, &principal.subject).await.map_err(SchemeUnavailable::new)?.is_some())
    }

    /// A host's identity, checked again. A grant that has expired, or that is used from another origin than its own,
    /// counts as anonymous. Later checks (`again`) also load the current user.
    async fn still_good(&self, identity: &Identity, offer: &Offer<'_>) -> Result<Identity, SchemeUnavailable> {
        let Identity::Known(principal) = identity else { return Ok(identity.clone()) };
        if let Credential::Grant(grant) = &principal.credential
            && (is_elsewhere(offer.headers, grant) || grant.expires_at <= self.ambient.now())
        {
            return Ok(Identity::Anonymous);
        }
        let (true, Subject::User(id)) = (offer.again, &principal.subject) else { return Ok(identity.clone()) };
        match self.users.find_by_id(id).await {
            Ok(user) if user.disabled => Ok(Identity::Anonymous),
            Ok(user) => {
                let live = Principal {
                    email: user.address().cloned().map(Into::into),
                    roles: user.roles,
                    ..Principal::clone(principal)
                };
                Ok(Identity::Known(Arc::new(live)))
            }
            Err(UserStoreError::NotFound) => Ok(Identity::Anonymous),
            Err(error) => Err(SchemeUnavailable::new(error)),
        }
    }
}

/// Whether a browser reports that a request comes from an origin other than the grant's: by `Origin` or, if it sends
/// none (a picture, a script tag), by `Sec-Fetch-Site`.
fn is_elsewhere(headers: &HeaderMap, grant: &Grant) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    if origins.peek().is_none() {
        return headers.get_all("sec-fetch-site").iter().any(|site| site == "cross-site");
    }
    origins.any(|origin| origin.as_bytes() != grant.origin.as_bytes())
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.schemes.iter().map(|scheme| scheme.name()).collect();
        f.debug_struct("Authenticator").field("schemes", &names).finish_non_exhaustive()
    }
}
