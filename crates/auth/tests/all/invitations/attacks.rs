use std::sync::Arc;

use gatewright_auth::plugins::invitations::NewInvitation;
use gatewright_auth::{EmailAddress, Registration};
use gatewright_base::{Secret, TenantId};
use serde_json::json;

use super::{ACCEPT, Place};
use crate::support::{ANN, Call, PASSWORD, databases};

const EVE: &str = "eve@example.com";

#[tokio::test]
async fn of_many_that_come_with_one_invitation_one_gets_an_account() {
    for db in databases().await {
        let place = Arc::new(Place::on(&db, Registration::Invite).await);
        let token = place.invite(ANN).await;
        let tries: Vec<_> = (0..20)
            .map(|_| {
                let (place, token) = (place.clone(), token.clone());
                tokio::spawn(async move { place.register(ANN, Some(&token)).await.status.as_u16() })
            })
            .collect();
        let mut made = 0;
        for one in tries {
            let status = one.await.unwrap();
            assert!([200, 401, 403, 409, 429].contains(&status), "{status}");
            made += usize::from(status == 200);
        }
        assert_eq!(made, 1, "{}", db.name);
    }
}

#[tokio::test]
async fn what_a_disabled_account_has_sent_admits_nobody() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let accounts = place.site.auth.accounts();
        let sender = accounts.create("boss@example.com", None, None).await.unwrap().id;
        let new = NewInvitation::new(EmailAddress::parse(ANN).unwrap()).invited_by(sender.clone());
        let token = place.invite_to(new).await;
        accounts.disable(&sender).await.unwrap();
        place.register(ANN, Some(&token)).await.expect(403);
        accounts.enable(&sender).await.unwrap();
        place.register(ANN, Some(&token)).await.expect(200);
    }
}

#[tokio::test]
async fn of_many_acceptances_one_counts() {
    for db in databases().await {
        let place = Arc::new(Place::on(&db, Registration::Open).await);
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        let invitation = NewInvitation::new(EmailAddress::parse(ANN).unwrap());
        let token = place.invite_to(invitation.tenant(TenantId::parse("acme").unwrap(), Vec::new())).await;
        let tries: Vec<_> = (0..20)
            .map(|_| {
                let (place, token, session) = (place.clone(), token.clone(), session.clone());
                tokio::spawn(async move { place.accept(&session, &token).await.status.as_u16() })
            })
            .collect();
        let mut accepted = 0;
        for one in tries {
            accepted += usize::from(one.await.unwrap() == 200);
        }
        assert_eq!((accepted, place.joined().await.len()), (1, 1), "{}", db.name);
    }
}

#[tokio::test]
async fn an_invitation_is_for_its_address_alone() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite(ANN).await;
        let other = place.register(EVE, Some(&token)).await.expect(422);
        assert!(!other.body.contains(ANN), "{}", other.body);
        place.site.auth.accounts().create(EVE, Some(Secret::new(PASSWORD)), None).await.unwrap();
        place.site.advance(1);
        let eve = place.site.login(EVE, PASSWORD).await;
        assert_eq!(place.accept(&eve, &token).await.expect(403).json()["code"], "other_address");
        // Nothing of it cost the invitation.
        place.register(ANN, Some(&token)).await.expect(200);
    }
}

/// A stranger who registered the address before its owner was invited gets nothing by waiting.
#[tokio::test]
async fn a_stranger_with_the_address_gains_nothing() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        place.site.register_ann().await;
        let stranger = place.site.login_ann().await;
        let invitation = NewInvitation::new(EmailAddress::parse(ANN).unwrap());
        place.invite_to(invitation.roles(Some(["admin"].into_iter().collect()))).await;
        for guess in ["", "x", &"A".repeat(43)] {
            place.accept(&stranger, guess).await.expect(401);
        }
        assert!(!place.site.auth.accounts().find(ANN).await.unwrap().roles.contains("admin"));
    }
}

#[tokio::test]
async fn accepting_takes_a_session_and_a_page_of_this_site() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        let jwt = place.site.register_ann().await.token();
        let token = place.invite(ANN).await;
        let body = json!({ "invite": token });
        Call::post(ACCEPT).json(&body).send(&place.site).await.expect(401);
        Call::post(ACCEPT).json(&body).bearer(&jwt).send(&place.site).await.expect(401);
        let session = place.site.login_ann().await;
        let form = [("invite", &*token)];
        let crossing = Call::post(ACCEPT).form(&form).header("origin", "https://evil.example").cookie_of(&session);
        crossing.send(&place.site).await.expect(403);
        place.accept(&session, &token).await.expect(200);
    }
}

#[tokio::test]
async fn what_fails_half_way_leaves_the_invitation_open() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let invitation = NewInvitation::new(EmailAddress::parse(ANN).unwrap());
        let token = place.invite_to(invitation.tenant(TenantId::parse("acme").unwrap(), Vec::new())).await;
        place.hides_members(true).await;
        let failed = place.register(ANN, Some(&token)).await.expect(503);
        assert!(!failed.body.contains("tenant_members"), "{}", failed.body);
        place.hides_members(false).await;
        place.site.advance(1);
        let session = place.site.login_ann().await.expect(200);
        place.accept(&session, &token).await.expect(200);
        assert_eq!(place.joined().await.len(), 1, "{}", db.name);
    }
}

#[tokio::test]
async fn the_table_holds_no_token() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite(ANN).await;
        let rows = db.db.query("SELECT * FROM account_invitations", vec![]).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert!(!format!("{rows:?}").contains(&token));
    }
}

#[tokio::test]
async fn a_later_invitation_replaces_the_one_before_and_roles_add_up() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        let invitation = |role: &str| {
            let invitation = NewInvitation::new(EmailAddress::parse(ANN).unwrap());
            invitation.tenant(TenantId::parse("acme").unwrap(), vec![role.to_owned()])
        };
        let first = place.invite_to(invitation("admin")).await;
        let second = place.invite_to(invitation("editor")).await;
        place.accept(&session, &first).await.expect(401);
        place.accept(&session, &second).await.expect(200);
        let third = place.invite_to(invitation("auditor")).await;
        place.accept(&session, &third).await.expect(200);
        let joined = place.joined().await;
        assert_eq!(joined.len(), 1, "{joined:?}");
        let roles = &joined[0].2;
        assert!(roles.contains("editor") && roles.contains("auditor") && !roles.contains("admin"), "{roles}");
    }
}
