//! Invitations that were pending while those to accounts and those to tenants were two tables.

use std::sync::Arc;

use gatewright_auth::plugins::tenants::{SqlMemberships, TenantsPlugin};
use gatewright_auth::{AuthConfig, Registration};
use gatewright_db::testing::TestDb;
use gatewright_db::{Step, params};
use gatewright_tenancy::{COMPONENT, INVITATION_STEPS, INVITATIONS, STEPS};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{ACCEPT, Place, into_acme};
use crate::mailed::Post;
use crate::support::{ANN, Call, PASSWORD, Site, config, databases, invitation};

/// 32 bytes of base64url, for the link, and what each table kept of them.
fn token(of: u8) -> (String, Vec<u8>, Vec<u8>) {
    let letter = char::from(b'A' + of);
    let text = format!("{}A", String::from(letter).repeat(42));
    let mut bytes = Vec::new();
    for chunk in text.as_bytes().chunks(4) {
        let bits = chunk.iter().fold(0_u32, |bits, digit| (bits << 6) | u32::from(digit - b'A'));
        let bits = bits << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    assert_eq!(bytes.len(), 32);
    let key = Sha256::digest(&bytes);
    let of_tenant = Sha256::new().chain_update("tenant invitation").chain_update(key).finalize();
    (text, key.to_vec(), of_tenant.to_vec())
}

async fn migrate(db: &TestDb, component: &'static str, steps: &'static [Step]) {
    gatewright_db::migrate(&db.db, component, steps).await.unwrap();
}

/// The pending invitations, in whichever table.
async fn pending(db: &TestDb, sql: &'static str) -> Vec<[Option<String>; 5]> {
    let rows = db.db.query(sql, vec![]).await.unwrap();
    let row = |row: &gatewright_db::Row| {
        ["id", "email", "tenant", "tenant_roles", "invited_by"].map(|name| row.get::<Option<String>>(name).unwrap())
    };
    let mut found: Vec<_> = rows.iter().map(row).collect();
    found.sort();
    found
}

#[tokio::test]
async fn pending_invitations_of_both_tables_survive_and_their_links_work() {
    for tenancy_first in [true, false] {
        for db in databases().await {
            migrate(&db, INVITATIONS, &INVITATION_STEPS[..1]).await;
            migrate(&db, COMPONENT, &STEPS[..2]).await;
            let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
            let later = now + SignedDuration::from_hours(24);
            let (by_operator, of_account, _) = token(1);
            let (by_member, _, of_tenant) = token(2);
            let sql = "INSERT INTO users_invitations \
                       (id, token_hash, email, roles, tenant, tenant_roles, invited_by, created_at, expires_at) \
                       VALUES ('i-1', ?1, 'new@example.com', '[\"editor\"]', '', '[]', NULL, ?2, ?3)";
            db.db.execute(sql, params![of_account, now, later]).await.unwrap();
            let sql = "INSERT INTO tenant_invitations \
                       (id, tenant_id, email, roles, token_hash, invited_by, created_at, expires_at) \
                       VALUES ('i-2', 'acme', ?4, '[\"admin\"]', ?1, 'the-owner', ?2, ?3)";
            db.db.execute(sql, params![of_tenant, now, later, ANN]).await.unwrap();
            let sql = "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at, roles) \
                       VALUES ('acme', 'user', 'the-owner', ?1, '[\"owner\"]')";
            db.db.execute(sql, params![now]).await.unwrap();
            let before = pending(
                &db,
                "SELECT id, email, tenant, tenant_roles, invited_by FROM users_invitations UNION ALL \
                 SELECT id, email, tenant_id, roles, invited_by FROM tenant_invitations",
            )
            .await;
            assert_eq!(before.len(), 2);

            if tenancy_first {
                migrate(&db, COMPONENT, STEPS).await;
                migrate(&db, INVITATIONS, INVITATION_STEPS).await;
            } else {
                migrate(&db, INVITATIONS, INVITATION_STEPS).await;
                migrate(&db, COMPONENT, STEPS).await;
            }
            let after =
                pending(&db, "SELECT id, email, tenant, tenant_roles, invited_by FROM account_invitations").await;
            assert_eq!(after, before, "{}", db.name);

            let place = Place::on(&db, Registration::Invite).await;
            let listed = place.site.auth.accounts().invitations(None).await.unwrap();
            assert_eq!(listed.iter().filter(|open| open.expires_at == later).count(), 2, "{}", db.name);
            // Only existing accounts invite.
            let owner = place.site.auth.accounts().create("owner@example.com", None, None).await.unwrap();
            for sql in [
                "UPDATE account_invitations SET invited_by = ?1 WHERE invited_by = 'the-owner'",
                "UPDATE tenant_members SET member_id = ?1 WHERE member_id = 'the-owner'",
            ] {
                assert_eq!(db.db.execute(sql, params![&owner.id]).await.unwrap(), 1);
            }
            place.register("new@example.com", Some(&by_operator)).await.expect(200);
            let new = place.site.auth.accounts().find("new@example.com").await.unwrap();
            assert!(new.roles.contains("editor"));
            // The link of a tenant's mail led elsewhere.
            let link =
                Call::get(&format!("/auth/tenants/accept?token={by_member}")).send(&place.site).await.expect(303);
            assert_eq!(link.location(), Some(&*format!("/register?invite={by_member}")));
            place.register(ANN, Some(&by_member)).await.expect(200);
            let ann = place.site.auth.accounts().find(ANN).await.unwrap();
            let joined = (ann.id.as_str().to_owned(), "acme".to_owned(), "[\"admin\"]".to_owned());
            assert!(place.joined().await.contains(&joined), "{}", db.name);
            assert!(place.site.auth.accounts().invitations(None).await.unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn an_invitation_from_before_claims_keeps_its_row_and_its_link() {
    for db in databases().await {
        migrate(&db, INVITATIONS, &INVITATION_STEPS[..2]).await;
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let later = now + SignedDuration::from_hours(24);
        let (link, key, _) = token(3);
        let sql = "INSERT INTO account_invitations (id, token_hash, email, roles, tenant, tenant_roles, sender, \
                   invited_by, created_at, expires_at) \
                   VALUES ('i-3', ?1, ?4, '[\"editor\"]', 'acme', '[\"member\"]', 'operator', NULL, ?2, ?3)";
        db.db.execute(sql, params![key, now, later, ANN]).await.unwrap();
        let read = "SELECT id, email, tenant, tenant_roles, invited_by FROM account_invitations";
        let before = pending(&db, read).await;
        migrate(&db, INVITATIONS, INVITATION_STEPS).await;
        assert_eq!((pending(&db, read).await, before.len()), (before, 1), "{}", db.name);
        let place = Place::on(&db, Registration::Invite).await;
        assert_eq!(place.site.auth.accounts().invitations(None).await.unwrap()[0].expires_at, later);
        place.register(ANN, Some(&link)).await.expect(200);
        assert_eq!(place.joined().await.len(), 1);
        assert!(place.site.auth.accounts().find(ANN).await.unwrap().roles.contains("editor"));
    }
}

/// Without screens there is a page of its own, and with the tenants plugin alone there is all that it needs.
#[tokio::test]
async fn without_screens_an_invitation_has_a_page() {
    for db in databases().await {
        migrate(&db, COMPONENT, STEPS).await;
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com".parse().unwrap());
        let site = Site::with_ambient(AuthConfig { public_url, ..config() }, |builder, ambient| {
            let tenants = TenantsPlugin::new(Arc::new(SqlMemberships::new(db.db.clone(), ambient.clone())));
            builder.database(db.db.clone()).mailer(post.clone()).plugin(tenants)
        })
        .await;
        let ann = site.signed_in_ann().await;
        let new = into_acme(invitation(ANN), &["member"]);
        let link = site.auth.accounts().invite(new).await.unwrap().link;
        let token = link.expose().split_once("?invite=").unwrap().1.to_owned();
        for path in [format!("{ACCEPT}?invite={token}"), format!("/auth/tenants/accept?token={token}")] {
            let page = Call::get(&path).send(&site).await.expect(200);
            assert!(page.body.contains("acme") && !page.body.contains("<form"), "{}", page.body);
            let page = Call::get(&path).cookie_of(&ann).send(&site).await.expect(200);
            assert!(page.body.contains("action=\"/auth/invitations/accept\""), "{}", page.body);
        }
        let done = Call::post(ACCEPT).form(&[("invite", &*token)]).cookie_of(&ann).send(&site).await.expect(200);
        assert!(done.body.contains("You are a member of acme now."), "{}", done.body);
        let body: Value = json!({ "email": "eve@example.com", "password": PASSWORD, "invite": token });
        Call::post("/auth/register").json(&body).send(&site).await.expect(401);
    }
}
