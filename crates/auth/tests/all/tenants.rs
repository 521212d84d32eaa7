//! Tenants over HTTP: creators, members, invitations, and attacks to get in or to stay in.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::tenants::{SqlMemberships, TenantsPlugin};
use gatewright_auth::{AuthConfig, MailKind, Registration};
use gatewright_base::{Secret, TenantId};
use gatewright_db::params;
use gatewright_db::testing::TestDb;
use gatewright_tenancy::{COMPONENT, STEPS};
use http::Method;
use serde_json::{Value, json};

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, config, databases, invitation};
use gatewright_base::testing::Log;

const BOB: &str = "bob@example.com";
/// Where every invitation is accepted.
const ACCEPT: &str = "/auth/invitations/accept";
const EVE: &str = "eve@example.com";

pub(crate) struct Place {
    pub(crate) site: Site,
    pub(crate) post: Arc<Post>,
}

impl Place {
    pub(crate) async fn on(db: &TestDb) -> Self {
        Self::with(db, |plugin| plugin).await
    }

    async fn with(db: &TestDb, change: impl FnOnce(TenantsPlugin) -> TenantsPlugin) -> Self {
        Self::under(db, Registration::Open, change).await
    }

    async fn under(
        db: &TestDb,
        registration: Registration,
        change: impl FnOnce(TenantsPlugin) -> TenantsPlugin,
    ) -> Self {
        gatewright_db::migrate(&db.db, COMPONENT, STEPS).await.unwrap();
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com".parse().unwrap());
        let config = AuthConfig { public_url, registration, ..config() };
        let site = Site::with_ambient(config, |builder, ambient| {
            let store = Arc::new(SqlMemberships::new(db.db.clone(), ambient.clone()));
            let plugin = change(TenantsPlugin::new(store).roles(["editor"]));
            builder.database(db.db.clone()).plugin(EmailVerificationPlugin::new()).plugin(plugin).mailer(post.clone())
        })
        .await;
        Self { site: site.and_screens(), post }
    }

    async fn call(&self, by: &Answer, method: Method, path: &str, body: &Value) -> Answer {
        let call = Call::new(method, &format!("/auth/tenants{path}")).cookie_of(by);
        if body.is_null() { call.send(&self.site).await } else { call.json(body).send(&self.site).await }
    }

    pub(crate) async fn get(&self, by: &Answer, path: &str) -> Answer {
        self.call(by, Method::GET, path, &Value::Null).await
    }

    /// Makes a tenant and returns its id.
    pub(crate) async fn made(&self, by: &Answer) -> String {
        let answer = self.call(by, Method::POST, "", &json!({ "name": "Acme" })).await.expect(201);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Invites somebody and returns the token of the mail.
    async fn invited(&self, by: &Answer, tenant: &str, email: &str, roles: &[&str]) -> String {
        let body = json!({ "email": email, "roles": roles });
        self.call(by, Method::POST, &format!("/{tenant}/members"), &body).await.expect(201);
        self.token().await
    }

    /// The token of the newest mail.
    pub(crate) async fn token(&self) -> String {
        self.site.auth.settle(Duration::from_mins(1)).await;
        let mails = self.post.mails.lock();
        let mail = mails.last().unwrap();
        assert_eq!(mail.kind, MailKind::Invitation);
        mail.link.expose().strip_prefix("https://app.example.com/register?invite=").unwrap().to_owned()
    }

    pub(crate) async fn accept(&self, by: &Answer, token: &str) -> Answer {
        Call::post(ACCEPT).json(&json!({ "invite": token })).cookie_of(by).send(&self.site).await
    }

    /// A new user who is a member with these roles.
    async fn member(&self, by: &Answer, tenant: &str, email: &str, roles: &[&str]) -> (Answer, String) {
        let person = self.site.signed_in(email).await;
        let token = self.invited(by, tenant, email, roles).await;
        self.accept(&person, &token).await.expect(200);
        let id = person.json()["user"]["id"].as_str().unwrap().to_owned();
        (person, id)
    }

    async fn roles_of(&self, by: &Answer) -> Value {
        self.get(by, "").await.expect(200).json()["tenants"].clone()
    }
}

fn id(person: &Answer) -> String {
    person.json()["user"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_tenant_is_created_and_its_members_join_and_change_roles() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        assert_eq!(place.roles_of(&ann).await, json!([]));
        let tenant = place.made(&ann).await;
        assert_eq!(place.roles_of(&ann).await, json!([{ "id": tenant, "name": "Acme", "roles": ["owner"] }]));

        let bob = place.site.signed_in(BOB).await;
        let token = place.invited(&ann, &tenant, " Bob@Example.com ", &["editor"]).await;
        // Invited is not in yet.
        assert_eq!(place.roles_of(&bob).await, json!([]));
        let listed = place.get(&ann, &format!("/{tenant}/members")).await.expect(200).json();
        assert_eq!(listed["members"].as_array().unwrap().len(), 1);
        assert_eq!(listed["members"][0]["email"], ANN);
        assert_eq!(listed["invitations"][0]["email"], BOB);
        let joined = place.accept(&bob, &token).await.expect(200).json();
        assert_eq!(joined, json!({ "accepted": true, "tenant": tenant }));
        assert_eq!(place.roles_of(&bob).await, json!([{ "id": tenant, "name": "Acme", "roles": ["editor"] }]));
        assert_eq!(place.get(&ann, &format!("/{tenant}/members")).await.json()["invitations"], json!([]));

        let path = format!("/{tenant}/members/{}", id(&bob));
        let changed = place.call(&ann, Method::PATCH, &path, &json!({ "roles": ["admin", "editor"] })).await;
        assert_eq!(changed.expect(200).json()["roles"], json!(["admin", "editor"]));
        place.call(&bob, Method::DELETE, &path, &Value::Null).await.expect(204);
        assert_eq!(place.roles_of(&bob).await, json!([]));
        place.get(&bob, &format!("/{tenant}/members")).await.expect(404);
        let kinds = place.site.audited();
        for kind in [
            AuditKind::TenantCreated,
            AuditKind::InvitationCreated,
            AuditKind::InvitationAccepted,
            AuditKind::TenantRolesChanged,
            AuditKind::TenantMemberRemoved,
        ] {
            assert!(kinds.contains(&kind), "{kind}");
        }
    }
}

#[tokio::test]
async fn an_invitation_works_once_for_its_address_within_seven_days() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.made(&ann).await;
        let (bob, eve) = (place.site.signed_in(BOB).await, place.site.signed_in(EVE).await);

        let token = place.invited(&ann, &tenant, BOB, &["member"]).await;
        // No session, and another user's.
        let body = json!({ "invite": token });
        Call::post(ACCEPT).json(&body).send(&place.site).await.expect(401);
        assert_eq!(place.accept(&eve, &token).await.expect(403).json()["code"], "other_address");
        // The page names the tenant and changes nothing.
        let page = Call::get(&format!("/register?invite={token}")).send(&place.site).await.expect(200);
        assert!(page.body.contains("Acme") && page.body.contains("/login?next="), "{}", page.body);
        // One of many parallel acceptances with the same token spends it.
        let tries = join_all((0..20).map(|_| place.accept(&bob, &token))).await;
        let won = tries.iter().filter(|answer| answer.status.as_u16() == 200).count();
        assert_eq!(won, 1, "{}", db.name);
        // 409: while the one accepts it.
        assert!(tries.iter().all(|answer| [200, 401, 409].contains(&answer.status.as_u16())));

        // A newer one for the same address replaces the older.
        let older = place.invited(&ann, &tenant, EVE, &["member"]).await;
        let newer = place.invited(&ann, &tenant, EVE, &["member"]).await;
        place.accept(&eve, &older).await.expect(401);
        place.site.advance(7 * 86_400 - 60);
        let eve = place.site.login(EVE, PASSWORD).await.expect(200);
        Call::get(&format!("/register?invite={newer}")).send(&place.site).await.expect(200);
        place.site.advance(60);
        place.accept(&eve, &newer).await.expect(401);
    }
}

/// A stranger learns nothing, a member manages nobody, and an admin cannot exceed their own rank.
#[tokio::test]
async fn members_cannot_exceed_their_roles() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.made(&ann).await;
        let (bob, bob_id) = place.member(&ann, &tenant, BOB, &["member"]).await;
        let (carl, carl_id) = place.member(&ann, &tenant, "carl@example.com", &["admin"]).await;
        let eve = place.site.signed_in(EVE).await;
        let members = format!("/{tenant}/members");
        let at = |id: &str| format!("{members}/{id}");
        let (ann_id, none) = (id(&ann), Value::Null);
        let owner = json!({ "roles": ["owner"] });
        let invite = |roles: Value| json!({ "email": "dan@example.com", "roles": roles });
        let table = [
            // As if the tenant were not there.
            (&eve, Method::GET, members.clone(), none.clone(), 404),
            (&eve, Method::POST, members.clone(), invite(json!(["member"])), 404),
            (&eve, Method::PATCH, at(&bob_id), owner.clone(), 404),
            (&eve, Method::DELETE, at(&bob_id), none.clone(), 404),
            (&eve, Method::DELETE, at(&id(&eve)), none.clone(), 404),
            (&eve, Method::GET, "/no-such-tenant/members".to_owned(), none.clone(), 404),
            (&bob, Method::GET, members.clone(), none.clone(), 403),
            (&bob, Method::POST, members.clone(), invite(json!(["member"])), 403),
            (&bob, Method::PATCH, at(&bob_id), owner.clone(), 403),
            (&bob, Method::DELETE, at(&carl_id), none.clone(), 403),
            (&carl, Method::PATCH, at(&carl_id), owner.clone(), 403),
            (&carl, Method::PATCH, at(&bob_id), owner.clone(), 403),
            (&carl, Method::PATCH, at(&ann_id), json!({ "roles": ["member"] }), 403),
            (&carl, Method::DELETE, at(&ann_id), none.clone(), 403),
            (&carl, Method::POST, members.clone(), invite(json!(["owner"])), 403),
            (&carl, Method::POST, members.clone(), invite(json!(["edtor"])), 422),
            (&carl, Method::POST, members.clone(), invite(json!([])), 422),
            (&carl, Method::POST, members.clone(), json!({ "email": "dan", "roles": ["member"] }), 422),
            (&carl, Method::DELETE, at("nobody"), none.clone(), 404),
            (&ann, Method::DELETE, at(&ann_id), none.clone(), 409),
            (&ann, Method::PATCH, at(&ann_id), json!({ "roles": ["admin"] }), 409),
            (&carl, Method::PATCH, at(&bob_id), json!({ "roles": ["editor"] }), 200),
            (&carl, Method::GET, members.clone(), none.clone(), 200),
        ];
        for (who, method, path, body, status) in table {
            let answer = place.call(who, method.clone(), &path, &body).await;
            assert_eq!(answer.status.as_u16(), status, "{method} {path} {body}: {answer:?}");
        }
        // Only a session manages tenants.
        let token = ann.token();
        Call::get("/auth/tenants").bearer(&token).send(&place.site).await.expect(401);
        assert_eq!(place.roles_of(&ann).await[0]["roles"], json!(["owner"]));
    }
}

#[tokio::test]
async fn a_full_list_keeps_its_invitations_and_accepts_a_replacement() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.made(&ann).await;
        place.invited(&ann, &tenant, BOB, &["member"]).await;
        let fill = async |numbers: std::ops::Range<usize>| {
            let sql = "INSERT INTO account_invitations (id, token_hash, email, tenant, tenant_roles, sender, created_at, expires_at) \
                       SELECT ?1, ?2, ?1, tenant, tenant_roles, 'operator', created_at, expires_at \
                       FROM account_invitations WHERE email = ?3";
            for number in numbers {
                let (email, key) = (format!("user{number}@example.com"), number.to_be_bytes().repeat(4));
                db.db.execute(sql, params![email, key, BOB]).await.unwrap();
            }
        };
        let (path, of_bob) = (format!("/{tenant}/members"), "SELECT id FROM account_invitations WHERE email = ?1");
        let invite = async |email: &str, status: u16| -> String {
            place.call(&ann, Method::POST, &path, &json!({ "email": email })).await.expect(status);
            db.db.query(of_bob, params![BOB]).await.unwrap()[0].get("id").unwrap()
        };
        fill(0..199).await;
        let first = invite(EVE, 409).await;
        let second = invite(BOB, 201).await;
        assert_ne!(first, second, "a newer one takes its place");
        fill(199..201).await; // Operators sent more.
        assert_eq!(invite(BOB, 409).await, second, "{}", db.name);
    }
}

/// A removed member cannot return with invitations that they sent before.
#[tokio::test]
async fn the_invitations_of_a_removed_admin_are_gone() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.made(&ann).await;
        let (bob, bob_id) = place.member(&ann, &tenant, BOB, &["admin"]).await;
        let eve = place.site.signed_in(EVE).await;
        let by_bob = place.invited(&bob, &tenant, EVE, &["admin"]).await;
        let path = format!("/{tenant}/members/{bob_id}");
        place.call(&ann, Method::DELETE, &path, &Value::Null).await.expect(204);
        place.accept(&eve, &by_bob).await.expect(401);
        // So are withdrawn ones.
        let token = place.invited(&ann, &tenant, EVE, &["member"]).await;
        let listed = place.get(&ann, &format!("/{tenant}/members")).await.json();
        let invitation = listed["invitations"][0]["id"].as_str().unwrap();
        let path = format!("/{tenant}/invitations/{invitation}");
        place.call(&ann, Method::DELETE, &path, &Value::Null).await.expect(204);
        place.call(&ann, Method::DELETE, &path, &Value::Null).await.expect(404);
        place.accept(&eve, &token).await.expect(401);
    }
}

/// An invitation belongs to its tenant: managers of another tenant can neither see nor withdraw it.
#[tokio::test]
async fn an_invitation_of_another_tenant_is_not_accessible() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let (ann, eve) = (place.site.signed_in(ANN).await, place.site.signed_in(EVE).await);
        let (acme, other) = (place.made(&ann).await, place.made(&eve).await);
        let bob = place.site.signed_in(BOB).await;
        let token = place.invited(&ann, &acme, BOB, &["member"]).await;
        let listed = place.get(&ann, &format!("/{acme}/members")).await.json();
        let id = listed["invitations"][0]["id"].as_str().unwrap();
        let withdraw = async |tenant: &str| {
            let path = format!("/{tenant}/invitations/{id}");
            place.call(&eve, Method::DELETE, &path, &Value::Null).await.expect(404)
        };
        // No answer reveals whether there is such an invitation or such a tenant.
        assert_eq!(withdraw(&other).await.json()["code"], withdraw(&acme).await.json()["code"]);
        assert_eq!(place.get(&eve, &format!("/{other}/members")).await.json()["invitations"], json!([]));
        place.accept(&bob, &token).await.expect(200);
        assert_eq!(place.roles_of(&bob).await[0]["id"], acme);
    }
}

/// An invitation grants what its sender may grant when it is accepted, whatever the table contains.
#[tokio::test]
async fn an_invitation_grants_no_more_than_its_sender_may_grant_at_acceptance() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.made(&ann).await;
        let (bob, bob_id) = place.member(&ann, &tenant, BOB, &["owner"]).await;
        let eve = place.site.signed_in(EVE).await;
        // An admin by now, who may invite, though no owners.
        let as_owner = place.invited(&bob, &tenant, EVE, &["owner"]).await;
        let path = format!("/{tenant}/members/{bob_id}");
        place.call(&ann, Method::PATCH, &path, &json!({ "roles": ["admin"] })).await.expect(200);
        place.accept(&eve, &as_owner).await.expect(401);
        Call::get(&format!("/register?invite={as_owner}")).cookie_of(&eve).send(&place.site).await.expect(401);
        assert_eq!(place.roles_of(&eve).await, json!([]));
        let as_member = place.invited(&bob, &tenant, EVE, &["member"]).await;
        // As if the invitation had been sent while its sender was removed.
        let sql = "DELETE FROM tenant_members WHERE member_id = ?1";
        db.db.execute(sql, params![&*bob_id]).await.unwrap();
        place.accept(&eve, &as_member).await.expect(401);
        assert_eq!(place.roles_of(&eve).await, json!([]), "{}", db.name);
    }
}

/// Operators and members use one mechanism: a later invitation replaces an earlier one, and one list shows both.
#[tokio::test]
async fn operators_and_members_invite_alike() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let (ann, bob) = (place.site.signed_in(ANN).await, place.site.signed_in(BOB).await);
        let tenant = place.made(&ann).await;
        let by_ann = place.invited(&ann, &tenant, BOB, &["editor"]).await;
        let new = invitation(BOB).tenant(TenantId::parse(&tenant).unwrap(), vec!["admin".to_owned()]);
        place.site.auth.accounts().invite(new).await.unwrap();
        let by_operator = place.token().await;
        let listed = place.get(&ann, &format!("/{tenant}/members")).await.json();
        assert_eq!(listed["invitations"].as_array().unwrap().len(), 1);
        assert_eq!(listed["invitations"][0]["roles"], json!(["admin"]));
        assert_eq!(place.site.auth.accounts().invitations(None).await.unwrap().len(), 1);
        place.accept(&bob, &by_ann).await.expect(401);
        // It does not depend on a membership, so it stays when members change.
        place.accept(&bob, &by_operator).await.expect(200);
        assert_eq!(place.roles_of(&bob).await[0]["roles"], json!(["admin"]));
    }
}

/// A person without an account registers with the same link, also if registration needs an invitation, and sees the tenant.
#[tokio::test]
async fn a_person_without_an_account_joins_by_registering() {
    for db in databases().await {
        for registration in [Registration::Open, Registration::Invite, Registration::Closed] {
            let place = Place::under(&db, registration, |plugin| plugin).await;
            let owner = format!("owner-{registration:?}@example.com").to_lowercase();
            let invited = format!("invited-{registration:?}@example.com").to_lowercase();
            place.site.auth.accounts().create(&owner, Some(Secret::new(PASSWORD)), None).await.unwrap();
            place.site.advance(1);
            let ann = place.site.login(&owner, PASSWORD).await.expect(200);
            let tenant = place.made(&ann).await;
            let token = place.invited(&ann, &tenant, &invited, &["editor"]).await;
            let page = Call::get(&format!("/register?invite={token}")).send(&place.site).await;
            let body = json!({ "email": invited, "password": PASSWORD, "invite": token });
            let register = Call::post("/auth/register").json(&body);
            if registration == Registration::Closed {
                page.expect(403);
                register.send(&place.site).await.expect(403);
                continue;
            }
            assert!(page.expect(200).body.contains("<strong>Acme</strong>"), "{}", db.name);
            register.send(&place.site).await.expect(200);
            place.site.advance(1);
            let new = place.site.login(&invited, PASSWORD).await.expect(200);
            assert_eq!(place.roles_of(&new).await[0]["roles"], json!(["editor"]));
            assert!(!place.site.auth.accounts().find(&invited).await.unwrap().roles.contains("editor"));
        }
    }
}

#[tokio::test]
async fn if_two_owners_leave_at_once_one_stays() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let bob = place.site.signed_in(BOB).await;
        for round in 0..5 {
            let tenant = place.made(&ann).await;
            let token = place.invited(&ann, &tenant, BOB, &["owner"]).await;
            place.accept(&bob, &token).await.expect(200);
            let (of_ann, of_bob) =
                (format!("/{tenant}/members/{}", id(&ann)), format!("/{tenant}/members/{}", id(&bob)));
            let leave = |who, path| place.call(who, Method::DELETE, path, &Value::Null);
            let (one, other) = tokio::join!(leave(&ann, &of_ann), leave(&bob, &of_bob));
            let mut statuses = [one.status.as_u16(), other.status.as_u16()];
            statuses.sort_unstable();
            assert_eq!(statuses, [204, 409], "{}, round {round}", db.name);
        }
    }
}

#[tokio::test]
async fn creating_tenants_can_be_off_and_is_limited() {
    for db in databases().await {
        let place = Place::with(&db, |plugin| plugin.self_service(false)).await;
        let ann = place.site.signed_in(ANN).await;
        let answer = place.call(&ann, Method::POST, "", &json!({ "name": "Acme" })).await.expect(403);
        assert_eq!(answer.json()["code"], "tenant_creation_closed");

        let place = Place::on(&db).await;
        let bob = place.site.signed_in(BOB).await;
        for name in ["", " ", "a\nb", &"x".repeat(101)] {
            place.call(&bob, Method::POST, "", &json!({ "name": name })).await.expect(422);
        }
        place.call(&bob, Method::POST, "", &json!({ "name": "Acme", "id": "mine" })).await.expect(422);
        for _ in 0..30 {
            place.call(&bob, Method::POST, "", &json!({ "name": "Acme" })).await.expect(201);
        }
        place.call(&bob, Method::POST, "", &json!({ "name": "Acme" })).await.expect(429);
        // Mails to one mailbox are limited too.
        let tenant = place.roles_of(&bob).await[0]["id"].as_str().unwrap().to_owned();
        let mut statuses = Vec::new();
        for _ in 0..12 {
            let body = json!({ "email": EVE });
            let answer = place.call(&bob, Method::POST, &format!("/{tenant}/members"), &body).await;
            statuses.push(answer.status.as_u16());
        }
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 10);
        assert_eq!(statuses.last(), Some(&429));
    }
}

#[tokio::test]
async fn members_are_listed_in_pages_and_removed_with_their_account() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.made(&ann).await;
        let (bob, _) = place.member(&ann, &tenant, BOB, &["member"]).await;
        place.member(&ann, &tenant, EVE, &["member"]).await;
        let path = format!("/{tenant}/members");
        let first = place.get(&ann, &format!("{path}?limit=2")).await.expect(200).json();
        assert_eq!((first["members"].as_array().unwrap().len(), &first["hasMore"]), (2, &json!(true)));
        let cursor = first["cursor"].as_str().unwrap();
        let rest = place.get(&ann, &format!("{path}?limit=2&cursor={cursor}")).await.expect(200).json();
        assert_eq!((rest["members"].as_array().unwrap().len(), &rest["hasMore"]), (1, &json!(false)));
        for wrong in ["limit=0", "limit=201", "cursor=x", "cursor=user:%20"] {
            place.get(&ann, &format!("{path}?{wrong}")).await.expect(400);
        }
        let bob_id = gatewright_base::UserId::parse(&id(&bob)).unwrap();
        place.site.auth.accounts().delete(&bob_id).await.unwrap();
        assert_eq!(place.get(&ann, &path).await.json()["members"].as_array().unwrap().len(), 2);
    }
}

/// The token of an invitation is in the mail and in the page that its owner opened.
#[tokio::test]
async fn no_token_is_in_logs_audit_events_answers_or_tables() {
    let log = Log::default();
    let _recording = log.record();
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.made(&ann).await;
        let bob = place.site.signed_in(BOB).await;
        let token = place.invited(&ann, &tenant, BOB, &["member"]).await;
        let mut shown = vec![place.get(&ann, &format!("/{tenant}/members")).await.body];
        let rows = db.db.query("SELECT * FROM account_invitations", Vec::new()).await.unwrap();
        assert_eq!(rows.len(), 1);
        shown.push(format!("{rows:?}"));
        shown.push(place.accept(&bob, &token).await.expect(200).body);
        shown.push(place.accept(&bob, &token).await.expect(401).body);
        shown.push(format!("{:?} {:?}", place.site.audit.events(), place.post.mails.lock()));
        shown.push(log.text());
        for text in &shown {
            assert!(!text.contains(&token), "{}: {text}", db.name);
        }
    }
}
