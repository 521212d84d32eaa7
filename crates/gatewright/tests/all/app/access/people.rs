//! The identities, each with the credentials that the server gave them.

use std::sync::Arc;

use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Ambient, Credential, Grant, Identity, Principal, Scope, Secret, Subject, TenantId};
use gatewright::entities::tenancy::SqlMemberships;
use gatewright_db::params;
use gatewright_testing::{Actor, TestApp};
use serde_json::json;

/// The tenant that everybody names.
pub(super) const TENANT: &str = "acme";
/// A tenant that nobody names.
pub(super) const ELSEWHERE: &str = "globex";
const PASSWORD: &str = "correct horse battery";

/// A line of the table.
pub(super) struct Person {
    pub(super) name: &'static str,
    pub(super) actor: Actor,
    /// Who owns what is theirs.
    pub(super) id: String,
    /// Whether the tool surface refuses them as a whole.
    pub(super) barred_from_tools: bool,
}

/// Makes people.
struct Maker<'a> {
    app: &'a TestApp,
    people: Vec<Person>,
}

pub(super) async fn people(app: &TestApp) -> Vec<Person> {
    let mut make = Maker { app, people: Vec::new() };
    let no_roles: &[&str] = &[];
    make.add("anonymous", naming(app.anonymous()), "nobody");
    for (name, roles, tenant) in [
        ("a stranger", no_roles, None),
        ("a member", no_roles, Some(TENANT)),
        ("a member by JWT", no_roles, Some(TENANT)),
        ("a reader", &["reader"], Some(TENANT)),
        ("a writer", &["writer"], Some(TENANT)),
        ("an editor", &["editor"], Some(TENANT)),
        ("an auditor", &["auditor"], Some(TENANT)),
        ("an admin", &["admin"], Some(TENANT)),
        ("an admin of another tenant", &["admin"], Some(ELSEWHERE)),
        ("an admin who names no tenant", &["admin"], Some(TENANT)),
    ] {
        let account = make.account(roles, tenant).await;
        let (session, jwt) = make.sign_in(&account.email).await;
        let actor = match name {
            "a member by JWT" => naming(app.anonymous().bearing(&jwt)),
            "an admin who names no tenant" => session,
            _ => naming(session),
        };
        make.add(name, actor, account.id.as_str());
    }
    for (name, roles, scopes) in [
        ("a member's token to read", no_roles, &["*:read"][..]),
        ("an admin's token to read", &["admin"], &["*:read"]),
        ("an editor's token to write", &["editor"], &["*:write"]),
        ("an editor's token for everything", &["editor"], &["*:*"]),
        ("an editor's token for one table", &["editor"], &["plain:*", "doors:read"]),
        ("an admin's token for something else", &["admin"], &["elsewhere:*"]),
        ("an admin's token for nothing", &["admin"], &[]),
    ] {
        let account = make.account(roles, Some(TENANT)).await;
        let actor = make.token(Subject::User(account.id.clone()), scopes).await;
        make.add(name, actor, account.id.as_str());
    }
    for (name, disabled) in [("a service that edits", false), ("a disabled service", true)] {
        let services = app.app().auth().unwrap().service_accounts().unwrap();
        let service = services.create(name, ["editor"].into_iter().collect()).await.unwrap();
        make.join(&Subject::Service(service.id.clone()), TENANT).await;
        let actor = make.token(Subject::Service(service.id.clone()), &["*:*"]).await;
        if disabled {
            services.disable(&service.id).await.unwrap();
        }
        make.add(name, actor, service.id.as_str());
    }
    make.pending().await;
    make.deleted().await;
    make.signed_out().await;
    make.delegated().await;
    make.people
}

/// An account.
struct Account {
    email: String,
    id: gatewright::base::UserId,
}

impl Maker<'_> {
    fn add(&mut self, name: &'static str, actor: Actor, id: &str) {
        self.people.push(Person { name, actor, id: id.to_owned(), barred_from_tools: false });
    }

    /// A new user with an address of their own.
    async fn account(&self, roles: &[&str], tenant: Option<&str>) -> Account {
        let accounts = self.app.app().auth().unwrap().accounts();
        let email = format!("{}@example.com", uuid());
        let roles = ["user"].iter().chain(roles).copied().collect();
        let user = accounts.create(&email, Some(Secret::new(PASSWORD)), Some(roles)).await.unwrap();
        if let Some(tenant) = tenant {
            self.join(&Subject::User(user.id.clone()), tenant).await;
        }
        Account { email, id: user.id }
    }

    async fn join(&self, subject: &Subject, tenant: &str) {
        let memberships = SqlMemberships::new(self.app.app().db().clone(), Ambient::system());
        assert!(memberships.add(&TenantId::parse(tenant).unwrap(), subject).await.unwrap());
    }

    /// The session of an account, and its JWT.
    async fn sign_in(&self, email: &str) -> (Actor, String) {
        let mut actor = self.app.anonymous();
        let answer = actor.sign_in(email).await.is(200);
        (actor, answer.at("/token").as_str().unwrap_or_default().to_owned())
    }

    async fn token(&self, owner: Subject, scopes: &[&str]) -> Actor {
        let tokens = self.app.app().auth().unwrap().api_tokens().unwrap();
        let issued = tokens.issue(owner, TokenDraft::parse("token", scopes, 0).unwrap()).await.unwrap();
        naming(self.app.anonymous().bearing(issued.plaintext.expose()))
    }

    /// Enrolled, and signed in again by password alone.
    async fn pending(&mut self) {
        let account = self.account(&["admin"], Some(TENANT)).await;
        let (session, _) = self.sign_in(&account.email).await;
        let secret = session.post("/auth/2fa/enroll", json!({})).await.is(200).at("/secret");
        let secret = totp_rs::Secret::try_from_base32(secret.as_str().unwrap()).unwrap();
        let authenticator = totp_rs::Builder::new().with_secret(secret).build().unwrap();
        let code = authenticator.generate(u64::try_from(self.app.now().as_second()).unwrap()).to_string();
        session.post("/auth/2fa/verify", json!({ "code": code })).await.is(200);
        let (half, _) = self.sign_in(&account.email).await;
        let half = naming(half);
        self.add("an admin who owes a second factor", half, account.id.as_str());
        self.people.last_mut().unwrap().barred_from_tools = true;
    }

    async fn deleted(&mut self) {
        let account = self.account(&["admin"], Some(TENANT)).await;
        let (session, jwt) = self.sign_in(&account.email).await;
        let token = self.token(Subject::User(account.id.clone()), &["*:*"]).await;
        let delete = "DELETE FROM users WHERE email = ?1";
        self.app.app().db().execute(delete, params![account.email]).await.unwrap();
        let (session, jwt) = (naming(session), naming(self.app.anonymous().bearing(&jwt)));
        self.add("a deleted admin's session", session, account.id.as_str());
        self.add("a deleted admin's JWT", jwt, account.id.as_str());
        self.add("a deleted admin's token", token, account.id.as_str());
    }

    async fn signed_out(&mut self) {
        let account = self.account(&["admin"], Some(TENANT)).await;
        let (session, _) = self.sign_in(&account.email).await;
        let stolen = naming(session.clone());
        session.clone().sign_out().await.is(204);
        self.add("an admin's session that ended", stolen, account.id.as_str());
    }

    /// An identity that a program's own middleware may put on a request.
    async fn delegated(&mut self) {
        let account = self.account(&["editor"], Some(TENANT)).await;
        let grant = Grant {
            surface: "widget".into(),
            origin: "https://widget.example".into(),
            scopes: ["*:read".parse::<Scope>().unwrap()].into_iter().collect(),
            expires_at: jiff::Timestamp::MAX,
        };
        let identity = Identity::Known(Arc::new(Principal {
            subject: Subject::User(account.id.clone()),
            email: None,
            roles: ["editor"].into_iter().collect(),
            credential: Credential::Grant(grant),
        }));
        let actor = naming(self.app.anonymous().with_identity(identity));
        self.add("an editor's grant to read", actor, account.id.as_str());
        self.people.last_mut().unwrap().barred_from_tools = true;
    }
}

/// The same person, naming the tenant.
fn naming(actor: Actor) -> Actor {
    actor.sending("x-tenant-id", TENANT)
}

/// A new name.
fn uuid() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("p{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}
