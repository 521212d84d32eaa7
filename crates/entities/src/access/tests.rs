use std::collections::BTreeMap;

use gatewright_base::{Credential, Grant, Grants, Scope, Scopes, Subject, TenantId, TenantLimit};
use jiff::Timestamp;

use super::*;
use crate::tenancy::Membership;

fn policy() -> Policy {
    let roles = BTreeMap::from([
        ("editor".to_owned(), Grants::parse(["posts:read", "posts:write"]).unwrap()),
        ("auditor".to_owned(), Grants::parse(["posts:read", "posts:audit"]).unwrap()),
        ("admin".to_owned(), Grants::parse(["*"]).unwrap()),
    ]);
    Policy { roles: RolePermissions::new(roles), scope_guard: true, ..Policy::default() }
}

fn rules(demand: impl Fn(Action) -> Demand, owned: bool) -> Rules {
    Rules {
        resource: "posts".into(),
        read: demand(Action::Read),
        create: demand(Action::Create),
        update: demand(Action::Update),
        delete: demand(Action::Delete),
        export: None,
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
    let credential =
        Credential::ApiToken { id: "t1".parse_id(), scopes, expires_at: None, tenants: TenantLimit::default() };
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
fn every_row_of_the_access_table_holds() {
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
fn without_the_guard_scopes_are_not_checked() {
    let policy = Policy { scope_guard: false, ..policy() };
    let plain = rules(|_| Demand::SignedIn, false);
    assert_eq!(decide(&policy, &plain, &token(&[], &[]), &Standing::Unnamed, Action::Delete), Ok(Reach::ALL));
}

#[test]
fn a_request_needs_a_tenant_and_a_membership() {
    let plain = Rules { multi_tenant: true, ..rules(|_| Demand::SignedIn, false) };
    let permitted = Rules { multi_tenant: true, ..rules(by_permission, false) };
    let owned = Rules { multi_tenant: true, ..rules(|_| Demand::SignedIn, true) };
    let audited = Rules { cross_owner_read: Some(permission("posts:audit")), ..owned.clone() };
    let open = Rules { multi_tenant: true, ..rules(|_| Demand::Public, false) };
    let acme = || TenantId::parse("acme").unwrap();
    let member = Standing::Member(acme().into());
    let table = [
        ("nobody", &plain, Identity::Anonymous, &member, Err(Refusal::Unauthenticated)),
        ("nobody, though anybody may", &open, Identity::Anonymous, &member, Err(Refusal::Unauthenticated)),
        ("a second factor owed", &plain, Identity::Pending("u1".parse_id()), &member, Err(Refusal::SecondFactor)),
        ("a second factor owed", &open, Identity::Pending("u1".parse_id()), &member, Err(Refusal::SecondFactor)),
        ("none named", &plain, user(&[]), &Standing::Unnamed, Err(Refusal::NoTenant(TENANT_HEADER.to_string()))),
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
    // An entity without tenants ignores the tenant that a request names.
    let single = rules(|_| Demand::SignedIn, false);
    assert_eq!(decide(&policy(), &single, &user(&[]), &Standing::Stranger, Action::Read), Ok(Reach::ALL));
}

#[test]
fn roles_within_a_tenant_permit_there_and_nowhere_else() {
    let tenant_roles = BTreeMap::from([
        ("editor".to_owned(), Grants::parse(["posts:read"]).unwrap()),
        ("auditor".to_owned(), Grants::parse(["posts:read", "posts:audit"]).unwrap()),
    ]);
    // Account roles of the same names must not count as tenant roles, and tenant roles must not count as account roles.
    let policy = Policy { roles: RolePermissions::default(), ..policy() };
    let policy = Policy { tenant_roles: RolePermissions::new(tenant_roles), ..policy };
    let ours = Rules { multi_tenant: true, ..rules(by_permission, false) };
    let owned =
        Rules { multi_tenant: true, cross_owner_read: Some(permission("posts:audit")), ..rules(by_permission, true) };
    let single = rules(by_permission, false);
    let acme = |roles: &[&str]| Membership {
        tenant: TenantId::parse("acme").unwrap(),
        roles: roles.iter().copied().collect(),
    };
    let lacks = || Err(Refusal::Forbidden(permission("posts:read")));
    let table = [
        ("an editor of the tenant", &ours, user(&[]), Standing::Member(acme(&["editor"])), Ok(acme(&["editor"]))),
        ("a member without roles", &ours, user(&[]), Standing::Member(acme(&[])), lacks()),
        ("a role of the account alone", &ours, user(&["editor"]), Standing::Member(acme(&[])), lacks()),
        ("a stranger", &ours, user(&[]), Standing::Stranger, lacks()),
        ("no tenant named", &ours, user(&[]), Standing::Unnamed, Err(Refusal::NoTenant(TENANT_HEADER.to_string()))),
        ("two tenants named", &ours, user(&[]), Standing::Unreadable, Err(Refusal::UnreadableTenant)),
        ("an entity without tenants", &single, user(&[]), Standing::Member(acme(&["editor"])), lacks()),
        ("a reader of all owners", &owned, user(&[]), Standing::Member(acme(&["auditor"])), Ok(acme(&["auditor"]))),
        (
            "a token is bounded by its scopes",
            &ours,
            token(&[], &["other:read"]),
            Standing::Member(acme(&["editor"])),
            Err(Refusal::OutOfScope { resource: "posts".into(), verb: "read" }),
        ),
    ];
    for (case, rules, identity, standing, expected) in table {
        let expected = expected.map(|membership| Reach::ALL.within(membership));
        assert_eq!(decide(&policy, rules, &identity, &standing, Action::Read), expected, "{case}");
    }
}

#[test]
fn an_anonymous_caller_owns_nothing() {
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
