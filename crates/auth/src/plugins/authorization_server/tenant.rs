use gatewright_base::{Scopes, Subject, TenantId, UserId};
use gatewright_http::Problem;
use gatewright_tenancy::{TenantOfUser, TenantStoreError};

use super::error::Failure;
use super::rows::Grant;
use super::server::Server;
use crate::problem;

/// The tenants that a request can be allowed for. They are the user's at this moment.
pub(super) struct Choice(Vec<TenantOfUser>);

/// Why the user cannot choose a tenant.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChoiceError {
    /// The client gets no answer, because it would reveal the user's tenants.
    #[error("you are not a member of the tenant that this application asks for")]
    NotMember,
    #[error(transparent)]
    Store(#[from] TenantStoreError),
}

/// The form names no tenant of the choice.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotOffered;

impl Choice {
    /// The tenants that the page names.
    pub(super) fn offered(&self) -> &[TenantOfUser] {
        &self.0
    }

    /// Whether the user has to choose.
    pub(super) fn is_open(&self) -> bool {
        self.0.len() > 1
    }

    /// The tenant, if there is exactly one.
    pub(super) fn only(&self) -> Option<&TenantId> {
        self.0.first().filter(|_| !self.is_open()).map(|tenant| &tenant.id)
    }

    /// The tenant that the form names. It must be one of those offered: they may have changed since the page was shown.
    pub(super) fn taken(&self, named: Option<&str>) -> Result<Option<TenantId>, NotOffered> {
        match named.filter(|named| !named.is_empty()) {
            None if self.0.is_empty() => Ok(None),
            None => Err(NotOffered),
            Some(named) => {
                let found = self.0.iter().find(|tenant| tenant.id.as_str() == named);
                found.map(|tenant| Some(tenant.id.clone())).ok_or(NotOffered)
            }
        }
    }
}

impl Server {
    /// The tenants in which `user` can allow the requested scopes. None if no requested scope covers data of tenants.
    pub(super) async fn choice(
        &self,
        user: &UserId,
        scopes: &Scopes,
        named: Option<&TenantId>,
    ) -> Result<Choice, ChoiceError> {
        let Some(store) = self.core.tenants.as_ref().filter(|_| self.supported().reach_tenants(scopes)) else {
            return Ok(Choice(Vec::new()));
        };
        let mut tenants = store.tenants_of(user).await?;
        if let Some(named) = named {
            tenants.retain(|tenant| tenant.id == *named);
            if tenants.is_empty() {
                return Err(ChoiceError::NotMember);
            }
        }
        Ok(Choice(tenants))
    }

    /// Whether the user of a grant is still a member of its tenant.
    pub(super) async fn is_in_its_tenant(&self, grant: &Grant) -> Result<bool, Failure> {
        let Some(tenant) = &grant.tenant else { return Ok(true) };
        let Some(store) = &self.core.tenants else { return Ok(false) };
        let user = Subject::User(grant.user.clone());
        Ok(store.roles(tenant, &user).await.map_err(Failure::store)?.is_some())
    }
}

impl From<ChoiceError> for Problem {
    fn from(error: ChoiceError) -> Self {
        match error {
            ChoiceError::NotMember => Self::forbidden(error.to_string()),
            ChoiceError::Store(error) => problem::store_failed(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use gatewright_base::Roles;

    use super::*;

    #[test]
    fn a_form_takes_a_tenant_that_is_offered() {
        let tenant = |id: &str| TenantId::parse(id).unwrap();
        let choice = |ids: &[&str]| {
            let offered = |id: &&str| TenantOfUser { id: tenant(id), name: (*id).to_owned(), roles: Roles::default() };
            Choice(ids.iter().map(offered).collect())
        };
        for (offered, named, taken) in [
            (&[][..], None, Ok(None)),
            (&[], Some(""), Ok(None)),
            (&[], Some("acme"), Err(NotOffered)),
            (&["acme"], Some("acme"), Ok(Some(tenant("acme")))),
            (&["acme"], None, Err(NotOffered)),
            (&["acme"], Some("other"), Err(NotOffered)),
            (&["acme", "other"], Some("other"), Ok(Some(tenant("other")))),
            (&["acme", "other"], Some(""), Err(NotOffered)),
            (&["acme", "other"], Some("third"), Err(NotOffered)),
        ] {
            assert_eq!(choice(offered).taken(named), taken, "{offered:?} {named:?}");
        }
        for (offered, is_open, only) in
            [(&[][..], false, None), (&["acme"], false, Some(tenant("acme"))), (&["acme", "other"], true, None)]
        {
            let choice = choice(offered);
            assert_eq!((choice.is_open(), choice.only().cloned()), (is_open, only), "{offered:?}");
        }
    }
}
