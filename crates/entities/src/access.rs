//! Who may do what: identity × entity × action → how far the caller reaches, or why not.
//!
//! One pure function, [`decide`], asked by every operation and by the event streams, so that REST, tools and streams
//! cannot differ. It looks in this order, and the first that refuses is the answer:
//!
//! 1. a caller who owes a second factor counts as anonymous where anybody may call, and is refused everywhere else;
//! 2. a token's scopes, where the scope guard stands: they bound what its owner could do, never widen it;
//! 3. the entity's own demand: nothing (`public`), somebody signed in, or a permission that the caller's roles bring;
//! 4. the tenant: a multi-tenant entity needs one, which the caller belongs to, and shows nothing of any other;
//! 5. ownership: an owned entity without somebody who could own is refused, and shows everybody their own records.

use std::sync::Arc;

use gatewright_base::{Identity, Permission, Principal, RolePermissions, TenantId};
use gatewright_db::Value;

use crate::condition::Bound;
use crate::condition::bound::Form;

/// What a caller wants to do with an entity's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// List, get, or follow the event stream.
    Read,
    /// Make a record.
    Create,
    /// Change a record.
    Update,
    /// Delete a record.
    Delete,
}

impl Action {
    /// The four of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Create, Self::Update, Self::Delete];

    /// The word that a configuration uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// The verb of the scope that a token needs.
    pub fn scope_verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create | Self::Update | Self::Delete => "write",
        }
    }
}

/// What an action asks of its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: anybody may.
    Public,
    /// Somebody signed in.
    SignedIn,
    /// Somebody whose roles bring this.
    Permission(Permission),
}

/// An entity's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What a scope must name: the table, which is the first segment of the path.
    pub resource: Arc<str>,
    /// For [`Action::Read`].
    pub read: Demand,
    /// For [`Action::Create`].
    pub create: Demand,
    /// For [`Action::Update`].
    pub update: Demand,
    /// For [`Action::Delete`].
    pub delete: Demand,
    /// Whether records have owners, who alone see and change them.
    pub owned: bool,
    /// Holders of this read the records of every owner.
    pub cross_owner_read: Option<Permission>,
    /// Holders of this change and delete the records of every owner. It gives no right to read them.
    pub cross_owner_write: Option<Permission>,
    /// Whether records belong to tenants, whose members alone see and change them.
    pub multi_tenant: bool,
}

impl Rules {
    /// What `action` asks of its caller.
    pub fn demand(&self, action: Action) -> &Demand {
        match action {
            Action::Read => &self.read,
            Action::Create => &self.create,
            Action::Update => &self.update,
            Action::Delete => &self.delete,
        }
    }
}

/// What holds for all entities of a program.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Which permissions each role brings.
    pub roles: RolePermissions,
    /// Whether tokens are held to their scopes.
    pub scope_guard: bool,
}

/// What is known of a request's tenant: which it named, and whether the caller belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// The request named none.
    #[default]
    Unnamed,
    /// It named something that can be no tenant's identifier, or more than one.
    Unreadable,
    /// The caller does not belong to the one it named.
    Stranger,
    /// The caller belongs to this one.
    Member(TenantId),
}

/// How far an allowed caller reaches: every record, or those of one owner, of one tenant, or those of which access rules
/// hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reach {
    owner: Option<Arc<str>>,
    tenant: Option<TenantId>,
    /// Access rules that must hold of a record.
    conditions: Vec<Bound>,
}

impl Reach {
    /// Every record.
    pub const ALL: Self = Self { owner: None, tenant: None, conditions: Vec::new() };

    /// The records that this account owns.
    pub fn of_owner(owner: impl Into<Arc<str>>) -> Self {
        Self { owner: Some(owner.into()), ..Self::ALL }
    }

    /// The same, within this tenant alone.
    pub fn within(self, tenant: TenantId) -> Self {
        Self { tenant: Some(tenant), ..self }
    }

    /// The owner that records must have, where there is one.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// The tenant that records must belong to, on multi-tenant entities.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Whether a record of `owner` and `tenant` lies within. With access rules none does: the database decides those.
    pub fn covers(&self, owner: Option<&str>, tenant: Option<&str>) -> bool {
        self.conditions.is_empty() && self.bounds(owner, tenant)
    }

    /// The same apart from access rules.
    pub(crate) fn bounds(&self, owner: Option<&str>, tenant: Option<&str>) -> bool {
        self.owner().is_none_or(|mine| owner == Some(mine))
            && self.tenant().is_none_or(|mine| tenant == Some(mine.as_str()))
    }

    /// The same, as far as a rule holds too.
    pub(crate) fn under(mut self, rule: Option<Bound>) -> Self {
        self.conditions.extend(rule);
        self
    }

    /// The access rules.
    pub(crate) fn conditions(&self) -> &[Bound] {
        &self.conditions
    }

    /// The parameters of the conditions that bound a statement to this: the tenant, the owner, those of the rules.
    pub(crate) fn params(&self) -> Vec<Value> {
        let tenant = self.tenant.as_ref().map(TenantId::as_str);
        let mut params: Vec<Value> = tenant.into_iter().chain(self.owner()).map(Value::from).collect();
        for bound in &self.conditions {
            params.extend(bound.sql("", 1, Form::Single).1);
        }
        params
    }

    /// The rules as SQL, each after AND, their parameters numbered from `next`.
    pub(crate) fn rules_sql(&self, table: &str, mut next: usize, form: Form) -> String {
        let mut sql = String::new();
        for bound in &self.conditions {
            let (condition, params) = bound.sql(table, next, form);
            sql.push_str(" AND ");
            sql.push_str(&condition);
            next += params.len();
        }
        sql
    }
}

/// Why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody that we know: 401.
    #[error("authentication is required")]
    Unauthenticated,
    /// A second factor is owed: 403.
    #[error("two-factor verification required")]
    SecondFactor,
    /// The token has not the scope: 403.
    #[error("the token lacks the scope {resource}:{verb}")]
    OutOfScope {
        /// The table.
        resource: Arc<str>,
        /// `read` or `write`.
        verb: &'static str,
    },
    /// The roles do not bring the permission: 403.
    #[error("the permission {0} is required")]
    Forbidden(Permission),
    /// The entity is multi-tenant, and the request names no tenant: 400.
    #[error("a tenant is required")]
    NoTenant,
    /// What the request names can be no tenant, or is more than one: 400.
    #[error("one tenant is required, named by 1 to 200 visible characters")]
    UnreadableTenant,
    /// The caller does not belong to the tenant that the request names: 403.
    #[error("you are not a member of this tenant")]
    NotMember,
}

/// Decides.
pub fn decide(
    policy: &Policy,
    rules: &Rules,
    identity: &Identity,
    standing: &Standing,
    action: Action,
) -> Result<Reach, Refusal> {
    let (principal, unknown) = match identity {
        Identity::Pending(_) => (None, Refusal::SecondFactor),
        Identity::Anonymous => (None, Refusal::Unauthenticated),
        Identity::Known(principal) => (Some(&**principal), Refusal::Unauthenticated),
    };
    if let Some(principal) = principal {
        within_scopes(policy, rules, principal, action)?;
    }
    let signed_in = || principal.ok_or_else(|| unknown.clone());
    match rules.demand(action) {
        Demand::Public => {}
        Demand::SignedIn => drop(signed_in()?),
        Demand::Permission(permission) => {
            if !policy.roles.permit(&signed_in()?.roles, permission) {
                return Err(Refusal::Forbidden(permission.clone()));
            }
        }
    }
    let reach = if rules.multi_tenant {
        // Nobody belongs to a tenant who is nobody.
        signed_in()?;
        match standing {
            Standing::Unnamed => return Err(Refusal::NoTenant),
            Standing::Unreadable => return Err(Refusal::UnreadableTenant),
            Standing::Stranger => return Err(Refusal::NotMember),
            Standing::Member(tenant) => Reach::ALL.within(tenant.clone()),
        }
    } else {
        Reach::ALL
    };
    if !rules.owned {
        return Ok(reach);
    }
    let principal = signed_in()?;
    let crossing = match action {
        Action::Read => &rules.cross_owner_read,
        Action::Update | Action::Delete => &rules.cross_owner_write,
        // A new record is the caller's own.
        Action::Create => &None,
    };
    match crossing {
        Some(permission) if policy.roles.permit(&principal.roles, permission) => Ok(reach),
        _ => Ok(Reach { owner: Some(principal.subject.as_str().into()), ..reach }),
    }
}

fn within_scopes(policy: &Policy, rules: &Rules, principal: &Principal, action: Action) -> Result<(), Refusal> {
    let verb = action.scope_verb();
    if policy.scope_guard && !principal.in_scope(&rules.resource, verb) {
        return Err(Refusal::OutOfScope { resource: rules.resource.clone(), verb });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gatewright_base::{Credential, Grant, Grants, Scope, Scopes, Subject};
    use jiff::Timestamp;

    use super::*;

    fn policy() -> Policy {
        let roles = BTreeMap::from([
            ("editor".to_owned(), Grants::parse(["posts:read", "posts:write"]).unwrap()),
            ("auditor".to_owned(), Grants::parse(["posts:read", "posts:audit"]).unwrap()),
            ("admin".to_owned(), Grants::parse(["*"]).unwrap()),
        ]);
        Policy { roles: RolePermissions::new(roles), scope_guard: true }
    }

    fn rules(demand: impl Fn(Action) -> Demand, owned: bool) -> Rules {
        Rules {
            resource: "posts".into(),
            read: demand(Action::Read),
            create: demand(Action::Create),
            update: demand(Action::Update),
            delete: demand(Action::Delete),
            owned,
            cross_owner_read: None,
            cross_owner_write: None,
            multi_tenant: false,
        }
    }

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    fn by_permission(action: Action) -> Demand {
        Demand::Permission(permission(if action == Action::Read { "posts:read" } else { "posts:write" }))
    }

    fn known(subject: Subject, roles: &[&str], credential: Credential) -> Identity {
        let roles = roles.iter().copied().collect();
        Identity::Known(Arc::new(Principal { subject, email: None, roles, credential }))
    }

    fn user(roles: &[&str]) -> Identity {
        let credential = Credential::Jwt { expires_at: Timestamp::MAX };
        known(Subject::User("u1".parse_id()), roles, credential)
    }

    fn token(roles: &[&str], scopes: &[&str]) -> Identity {
        let scopes = scopes.iter().map(|scope| scope.parse::<Scope>().unwrap()).collect::<Scopes>();
        let credential = Credential::ApiToken { id: "t1".parse_id(), scopes, expires_at: None };
        known(Subject::Service("s1".parse_id()), roles, credential)
    }

    fn grant(scopes: &[&str]) -> Identity {
        let scopes = scopes.iter().map(|scope| scope.parse::<Scope>().unwrap()).collect::<Scopes>();
        let grant =
            Grant { surface: "widget".into(), origin: "https://a.example".into(), scopes, expires_at: Timestamp::MAX };
        known(Subject::User("u1".parse_id()), &[], Credential::Grant(grant))
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
    fn the_table_of_access() {
        use Action::{Create, Delete, Read, Update};

        let public = rules(|_| Demand::Public, false);
        let plain = rules(|_| Demand::SignedIn, false);
        let permitted = rules(by_permission, false);
        let owned = rules(|_| Demand::SignedIn, true);
        let owned_permitted = rules(by_permission, true);
        let moderated = Rules { cross_owner_write: Some(permission("posts:audit")), ..owned.clone() };
        let audited = Rules { cross_owner_read: Some(permission("posts:audit")), ..owned_permitted.clone() };
        let reads_open = Rules { read: Demand::Public, ..permitted.clone() };
        let pending = Identity::Pending("u1".parse_id());

        let all = Ok(Reach::ALL);
        let mine = || Ok(Reach::of_owner("u1"));
        let no_one = Err(Refusal::Unauthenticated);
        let half = Err(Refusal::SecondFactor);
        let lacks = |text: &str| Err(Refusal::Forbidden(permission(text)));
        let narrow = |verb| Err(Refusal::OutOfScope { resource: "posts".into(), verb });
        let table = [
            ("public, anybody", &public, Identity::Anonymous, Read, all.clone()),
            ("public, anybody", &public, Identity::Anonymous, Delete, all.clone()),
            ("public, a second factor owed", &public, pending.clone(), Read, all.clone()),
            ("public, a second factor owed", &public, pending.clone(), Create, all.clone()),
            ("public, a token without the scope", &public, token(&[], &["other:read"]), Read, narrow("read")),
            ("public, a token with it", &public, token(&[], &["posts:read"]), Read, all.clone()),
            ("nothing said, anybody", &plain, Identity::Anonymous, Read, no_one.clone()),
            ("nothing said, a second factor owed", &plain, pending.clone(), Read, half.clone()),
            ("nothing said, somebody", &plain, user(&[]), Update, all.clone()),
            ("permission, anybody", &permitted, Identity::Anonymous, Read, no_one.clone()),
            ("permission, no role", &permitted, user(&[]), Read, lacks("posts:read")),
            ("permission, editor", &permitted, user(&["editor"]), Create, all.clone()),
            ("permission, auditor reads", &permitted, user(&["auditor"]), Read, all.clone()),
            ("permission, auditor writes", &permitted, user(&["auditor"]), Delete, lacks("posts:write")),
            ("permission, admin", &permitted, user(&["admin"]), Delete, all.clone()),
            ("reads open, anybody reads", &reads_open, Identity::Anonymous, Read, all.clone()),
            ("reads open, a second factor owed, reads", &reads_open, pending.clone(), Read, all.clone()),
            ("reads open, a second factor owed, writes", &reads_open, pending.clone(), Update, half.clone()),
            ("permission, a second factor owed", &permitted, pending.clone(), Read, half.clone()),
            ("reads open, anybody writes", &reads_open, Identity::Anonymous, Create, no_one.clone()),
            ("owned, anybody", &owned, Identity::Anonymous, Read, no_one.clone()),
            ("owned, anybody writes", &owned, Identity::Anonymous, Create, no_one.clone()),
            ("owned, somebody", &owned, user(&[]), Read, mine()),
            ("owned, admin has no short cut", &owned, user(&["admin"]), Update, mine()),
            ("owned, a second factor owed", &owned, pending.clone(), Read, half.clone()),
            ("owned, a service", &owned, token(&[], &["*:*"]), Read, Ok(Reach::of_owner("s1"))),
            ("owned and permission, no role", &owned_permitted, user(&[]), Read, lacks("posts:read")),
            ("owned and permission, editor", &owned_permitted, user(&["editor"]), Delete, mine()),
            ("cross-owner, editor", &audited, user(&["editor"]), Read, mine()),
            ("cross-owner, auditor reads", &audited, user(&["auditor"]), Read, all.clone()),
            ("cross-owner, admin writes", &audited, user(&["admin"]), Update, mine()),
            ("cross-owner write, nobody's moderator", &moderated, user(&["editor"]), Delete, mine()),
            ("cross-owner write, a moderator deletes", &moderated, user(&["auditor"]), Delete, all.clone()),
            ("cross-owner write, a moderator updates", &moderated, user(&["auditor"]), Update, all.clone()),
            ("cross-owner write, a moderator reads", &moderated, user(&["auditor"]), Read, mine()),
            ("cross-owner write, a moderator creates", &moderated, user(&["auditor"]), Create, mine()),
            ("token, empty scopes", &plain, token(&["admin"], &[]), Read, narrow("read")),
            ("token, read does not write", &plain, token(&["admin"], &["posts:read"]), Create, narrow("write")),
            ("token, write does not read", &plain, token(&["admin"], &["posts:write"]), Read, narrow("read")),
            ("token, any verb", &plain, token(&[], &["posts:*"]), Delete, all.clone()),
            ("token, any resource", &plain, token(&[], &["*:write"]), Update, all.clone()),
            ("token, scopes do not widen roles", &permitted, token(&[], &["*:*"]), Read, lacks("posts:read")),
            ("grant, within", &owned, grant(&["posts:read"]), Read, mine()),
            ("grant, beyond", &owned, grant(&["posts:read"]), Create, narrow("write")),
        ];
        for (case, rules, identity, action, expected) in table {
            assert_eq!(decide(&policy(), rules, &identity, &Standing::Unnamed, action), expected, "{case}, {action:?}");
        }
    }

    #[test]
    fn without_the_guard_scopes_are_advice() {
        let policy = Policy { scope_guard: false, ..policy() };
        let plain = rules(|_| Demand::SignedIn, false);
        assert_eq!(decide(&policy, &plain, &token(&[], &[]), &Standing::Unnamed, Action::Delete), Ok(Reach::ALL));
    }

    #[test]
    fn a_tenant_is_named_and_belonged_to() {
        let plain = Rules { multi_tenant: true, ..rules(|_| Demand::SignedIn, false) };
        let permitted = Rules { multi_tenant: true, ..rules(by_permission, false) };
        let owned = Rules { multi_tenant: true, ..rules(|_| Demand::SignedIn, true) };
        let audited = Rules { cross_owner_read: Some(permission("posts:audit")), ..owned.clone() };
        let open = Rules { multi_tenant: true, ..rules(|_| Demand::Public, false) };
        let acme = || TenantId::parse("acme").unwrap();
        let member = Standing::Member(acme());
        let table = [
            ("nobody", &plain, Identity::Anonymous, &member, Err(Refusal::Unauthenticated)),
            ("nobody, though anybody may", &open, Identity::Anonymous, &member, Err(Refusal::Unauthenticated)),
            ("a second factor owed", &plain, Identity::Pending("u1".parse_id()), &member, Err(Refusal::SecondFactor)),
            ("a second factor owed", &open, Identity::Pending("u1".parse_id()), &member, Err(Refusal::SecondFactor)),
            ("none named", &plain, user(&[]), &Standing::Unnamed, Err(Refusal::NoTenant)),
            ("none to read", &plain, user(&[]), &Standing::Unreadable, Err(Refusal::UnreadableTenant)),
            ("a stranger", &plain, user(&["admin"]), &Standing::Stranger, Err(Refusal::NotMember)),
            ("no permission", &permitted, user(&[]), &member, Err(Refusal::Forbidden(permission("posts:read")))),
            ("a member", &plain, user(&[]), &member, Ok(Reach::ALL.within(acme()))),
            ("a member's own", &owned, user(&[]), &member, Ok(Reach::of_owner("u1").within(acme()))),
            ("a member who reads all", &audited, user(&["auditor"]), &member, Ok(Reach::ALL.within(acme()))),
            ("a token's owner", &plain, token(&[], &["*:*"]), &member, Ok(Reach::ALL.within(acme()))),
            ("a token's stranger", &plain, token(&[], &["*:*"]), &Standing::Stranger, Err(Refusal::NotMember)),
        ];
        for (case, rules, identity, standing, expected) in table {
            assert_eq!(decide(&policy(), rules, &identity, standing, Action::Read), expected, "{case}");
        }
        // An entity without tenants does not care for what a request names.
        let single = rules(|_| Demand::SignedIn, false);
        assert_eq!(decide(&policy(), &single, &user(&[]), &Standing::Stranger, Action::Read), Ok(Reach::ALL));
    }

    #[test]
    fn nothing_is_owned_by_nobody() {
        let mine = Reach::of_owner("u1");
        assert!(mine.covers(Some("u1"), None));
        assert!(!mine.covers(Some("u2"), None));
        assert!(!mine.covers(None, None));
        assert!(Reach::ALL.covers(None, None));
        let ours = mine.within(TenantId::parse("acme").unwrap());
        assert!(ours.covers(Some("u1"), Some("acme")));
        assert!(!ours.covers(Some("u1"), Some("other")));
        assert!(!ours.covers(Some("u1"), None));
        assert!(!ours.covers(Some("u2"), Some("acme")));
    }
}
