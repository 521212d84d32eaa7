use gatewright_base::{Credential, Identity, Permission, RolePermissions, Subject, TenantLimit, TokenId};
use gatewright_http::Problem;

use super::RESOURCE;

/// Admits an API token with the scope `consumers:{name}`, if its owner has the permission of that name. A service
/// account has the permissions of its tokens' scopes. Returns the token: leases belong to it.
///
/// It does not check whether the consumer exists: a caller without permission must not find out.
pub(super) fn admit(identity: &Identity, roles: &RolePermissions, name: &str) -> Result<TokenId, Problem> {
    let principal = match identity {
        Identity::Anonymous => return Err(Problem::unauthorized("authentication is required")),
        Identity::Pending(_) => {
            return Err(Problem::forbidden("two-factor verification required").with_code("two_factor_required"));
        }
        Identity::Known(principal) => principal,
    };
    let Credential::ApiToken { id, scopes, tenants, .. } = &principal.credential else {
        return Err(Problem::forbidden("a consumer is open to API tokens only").with_code("api_token_required"));
    };
    if !scopes.cover(RESOURCE, name) {
        let demand: String = name.chars().take(64).collect();
        let detail = format!("the token lacks the scope {RESOURCE}:{demand}");
        return Err(Problem::forbidden(detail).with_code("insufficient_scope"));
    }
    // Events of all tenants pass here.
    if *tenants != TenantLimit::Unlimited {
        return Err(Problem::forbidden("a consumer is not open to programs that a user connected"));
    }
    let permitted = match &principal.subject {
        Subject::Service(_) => true,
        Subject::User(_) => format!("{RESOURCE}:{name}")
            .parse::<Permission>()
            .is_ok_and(|permission| roles.permit(&principal.roles, &permission)),
    };
    if permitted { Ok(id.clone()) } else { Err(Problem::forbidden("forbidden")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use gatewright_base::{Grant, Grants, Principal, Roles, Scopes};
    use jiff::Timestamp;

    use super::*;

    fn known(subject: Subject, roles: &[&str], credential: Credential) -> Identity {
        let roles = roles.iter().copied().collect::<Roles>();
        Identity::Known(Arc::new(Principal { subject, email: None, roles, credential }))
    }

    fn user(roles: &[&str], credential: Credential) -> Identity {
        known(Subject::User("u".parse_id()), roles, credential)
    }

    fn token(scopes: &[&str]) -> Credential {
        limited(scopes, TenantLimit::Unlimited)
    }

    fn limited(scopes: &[&str], tenants: TenantLimit) -> Credential {
        Credential::ApiToken { id: "t".parse_id(), scopes: scoped(scopes), expires_at: None, tenants }
    }

    fn scoped(scopes: &[&str]) -> Scopes {
        scopes.iter().map(|scope| scope.parse::<gatewright_base::Scope>().unwrap()).collect()
    }

    fn only(tenant: &str) -> TenantLimit {
        TenantLimit::Only(tenant.parse_id())
    }

    trait ParseId {
        fn parse_id<T>(&self) -> gatewright_base::Id<T>;
    }
    impl ParseId for str {
        fn parse_id<T>(&self) -> gatewright_base::Id<T> {
            gatewright_base::Id::parse(self).unwrap()
        }
    }

    #[test]
    fn a_token_with_the_scope_passes_and_nothing_else() {
        let roles = RolePermissions::new(BTreeMap::from([
            ("worker".to_owned(), Grants::parse(["consumers:crm"]).unwrap()),
            ("admin".to_owned(), Grants::parse(["*"]).unwrap()),
        ]));
        let service = |scopes: &[&str]| known(Subject::Service("s".parse_id()), &[], token(scopes));
        let session = Credential::Session { id: "s".parse_id(), two_factor_verified: true, impersonated_by: None };
        let jwt = Credential::Jwt { expires_at: Timestamp::MAX };
        let grant = Credential::Grant(Grant {
            surface: "widget".into(),
            origin: "https://a.example".into(),
            scopes: scoped(&["*:*"]),
            expires_at: Timestamp::MAX,
        });
        for (case, identity, refused) in [
            ("nobody", Identity::Anonymous, Some(401)),
            ("a second factor owed", Identity::Pending("u".parse_id()), Some(403)),
            ("a session of an admin", user(&["admin"], session), Some(403)),
            ("a JWT of an admin", user(&["admin"], jwt), Some(403)),
            ("a grant of an admin", user(&["admin"], grant), Some(403)),
            ("a user's token", user(&["worker"], token(&["consumers:crm"])), None),
            ("a user's token for any consumer", user(&["worker"], token(&["consumers:*"])), None),
            ("a user's token for everything", user(&["admin"], token(&["*:*"])), None),
            ("a user without the permission", user(&[], token(&["consumers:crm"])), Some(403)),
            ("a user's token for another consumer", user(&["admin"], token(&["consumers:mail"])), Some(403)),
            ("a user's token without scopes", user(&["admin"], token(&[])), Some(403)),
            ("a token of one tenant", user(&["admin"], limited(&["*:*"], only("acme"))), Some(403)),
            ("a token of no tenant", user(&["admin"], limited(&["*:*"], TenantLimit::Nowhere)), Some(403)),
            ("a service's token", service(&["consumers:crm"]), None),
            ("a service's token for another consumer", service(&["consumers:mail", "crm:read"]), Some(403)),
        ] {
            let status = admit(&identity, &roles, "crm").err().map(|problem| problem.status().as_u16());
            assert_eq!(status, refused, "{case}");
        }
        for name in ["", "*", "crm:x", "\u{0}", "Crm"] {
            assert!(admit(&user(&["admin"], token(&["*:*"])), &roles, name).is_err(), "{name:?} is no permission");
        }
    }
}
