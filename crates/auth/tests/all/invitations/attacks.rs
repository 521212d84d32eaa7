use std::sync::Arc;

use futures_util::future::join_all;
use gatewright_auth::plugins::invitations::NewInvitation;
use gatewright_auth::{AccountError, Registration};
use gatewright_base::Secret;
use gatewright_base::testing::cancel_after;
use gatewright_db::params;
use serde_json::json;

use super::{ACCEPT, Place, editor, into_acme};
use crate::support::{ANN, Call, PASSWORD, databases, invitation};

const EVE: &str = "eve@example.com";

fn to_acme(email: &str) -> NewInvitation {
    into_acme(invitation(email), &["member"])
}

#[tokio::test]
async fn one_of_many_parallel_registrations_with_one_invitation_succeeds() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite(ANN).await;
        let answers = join_all((0..20).map(|_| place.register(ANN, Some(&token)))).await;
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        assert!(statuses.iter().all(|status| [200, 401, 403, 409, 429].contains(status)), "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{}", db.name);
    }
}

#[tokio::test]
async fn invitations_of_a_disabled_account_are_invalid() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let accounts = place.site.auth.accounts();
        let sender = accounts.create("boss@example.com", None, None).await.unwrap().id;
        let new = invitation(ANN).invited_by(sender.clone());
        let token = place.invite_to(new).await;
        accounts.disable(&sender).await.unwrap();
        place.register(ANN, Some(&token)).await.expect(403);
        accounts.enable(&sender).await.unwrap();
        place.register(ANN, Some(&token)).await.expect(200);
    }
}

#[tokio::test]
async fn one_of_many_parallel_acceptances_succeeds() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        let session = place.site.signed_in_ann().await;
        let token = place.invite_to(into_acme(invitation(ANN), &[])).await;
        let answers = join_all((0..20).map(|_| place.accept(&session, &token))).await;
        let accepted = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!((accepted, place.joined().await.len()), (1, 1), "{}", db.name);
    }
}

#[tokio::test]
async fn an_invitation_is_valid_only_for_its_address() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite(ANN).await;
        let other = place.register(EVE, Some(&token)).await.expect(403);
        assert_eq!(other.json()["code"], "registration_closed");
        assert!(!other.body.contains(ANN), "{}", other.body);
        place.site.auth.accounts().create(EVE, Some(Secret::new(PASSWORD)), None).await.unwrap();
        place.site.advance(1);
        let eve = place.site.login(EVE, PASSWORD).await;
        assert_eq!(place.accept(&eve, &token).await.expect(403).json()["code"], "other_address");
        // None of it spent the invitation.
        place.register(ANN, Some(&token)).await.expect(200);
    }
}

/// A stranger who registered the address before its owner was invited gains nothing.
#[tokio::test]
async fn a_stranger_who_registered_the_address_gains_nothing() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        let stranger = place.site.signed_in_ann().await;
        place.invite_to(invitation(ANN).roles(Some(["admin"].into_iter().collect()))).await;
        for guess in ["", "x", &"A".repeat(43)] {
            place.accept(&stranger, guess).await.expect(401);
        }
        assert!(!place.site.auth.accounts().find(ANN).await.unwrap().roles.contains("admin"));
    }
}

#[tokio::test]
async fn accepting_needs_a_session_and_a_same_site_page() {
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
async fn a_failed_acceptance_leaves_the_invitation_open() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite_to(into_acme(invitation(ANN), &[])).await;
        place.hides_members(true).await;
        let failed = place.register(ANN, Some(&token)).await.expect(503);
        assert!(!failed.body.contains("tenant_members"), "{}", failed.body);
        place.hides_members(false).await;
        assert!(place.site.auth.accounts().find(ANN).await.is_err(), "{}: no account without its membership", db.name);
        place.register(ANN, Some(&token)).await.expect(200);
        assert_eq!((place.open().await, place.joined().await.len()), (0, 1), "{}", db.name);
    }
}

/// The invitation and the membership are one transaction.
#[tokio::test]
async fn a_membership_that_cannot_begin_does_not_spend_the_invitation() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        let session = place.site.signed_in_ann().await;
        let token = place.invite_to(to_acme(ANN)).await;
        // Between the two, a second member of a tenant is one too many for the table.
        let other = "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at, roles) \
                     VALUES ('acme', 'service', 'robot', ?1, '[]')";
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        db.db.execute(other, params![at]).await.unwrap();
        db.db.execute("CREATE UNIQUE INDEX one_member ON tenant_members (tenant_id)", vec![]).await.unwrap();
        place.accept(&session, &token).await.expect(503);
        assert_eq!(place.open().await, 1, "{}", db.name);
        db.db.execute("DROP INDEX one_member", vec![]).await.unwrap();
        place.accept(&session, &token).await.expect(200);
        assert_eq!((place.open().await, place.joined().await.len()), (0, 2), "{}", db.name);
    }
}

/// A server that stops, or a database that fails, between what an invitation gives and the end of the invitation.
#[tokio::test]
async fn roles_and_accounts_are_given_if_and_only_if_the_invitation_is_spent() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        let session = place.site.signed_in_ann().await;
        let token = place.invite_to(editor(ANN)).await;
        let of_eve = place.invite_to(editor(EVE)).await;
        // The last statement of the transaction fails: somebody refers to the invitations.
        let refer = "CREATE TABLE holds_them (id TEXT REFERENCES account_invitations (id))";
        db.db.execute(refer, vec![]).await.unwrap();
        db.db.execute("INSERT INTO holds_them SELECT id FROM account_invitations", vec![]).await.unwrap();
        place.accept(&session, &token).await.expect(503);
        place.register(EVE, Some(&of_eve)).await.expect(503);
        let accounts = place.site.auth.accounts();
        assert!(!accounts.find(ANN).await.unwrap().roles.contains("editor"), "{}", db.name);
        assert!(accounts.find(EVE).await.is_err(), "{}", db.name);
        db.db.execute("DROP TABLE holds_them", vec![]).await.unwrap();
        place.accept(&session, &token).await.expect(200);
        place.register(EVE, Some(&of_eve)).await.expect(200);
        for email in [ANN, EVE] {
            assert!(accounts.find(email).await.unwrap().roles.contains("editor"), "{}", db.name);
        }
        assert_eq!(place.open().await, 0, "{}", db.name);
    }
}

/// A withdrawal succeeds, or is answered that it is too late.
#[tokio::test]
async fn a_withdrawal_either_precedes_or_follows_twenty_parallel_acceptances() {
    for db in databases().await {
        let place = Arc::new(Place::on(&db, Registration::Open).await);
        let (mut withdrawn, accounts) = (0, place.site.auth.accounts());
        for round in 0..8 {
            let email = format!("user{round}@example.com");
            let session = place.site.signed_in(&email).await;
            let token = place.invite_to(into_acme(editor(&email), &["member"])).await;
            let id = accounts.invitations(None).await.unwrap()[0].id.clone();
            let accept = || {
                let (place, token, session) = (place.clone(), token.clone(), session.clone());
                tokio::spawn(async move { place.accept(&session, &token).await.status.as_u16() })
            };
            let (before, after) = (round * 20 / 7, 20 - round * 20 / 7);
            let mut tries: Vec<_> = (0..before).map(|_| accept()).collect();
            let withdraw = {
                let accounts = accounts.clone();
                tokio::spawn(async move { accounts.withdraw_invitation(&id, None).await.unwrap() })
            };
            tries.extend((0..after).map(|_| accept()));
            let mut accepted = 0;
            for one in tries {
                let status = one.await.unwrap();
                assert!([200, 401].contains(&status), "{status}");
                accepted += usize::from(status == 200);
            }
            let won = withdraw.await.unwrap();
            assert_eq!(accepted, usize::from(!won), "{}", db.name);
            assert_eq!(accounts.find(&email).await.unwrap().roles.contains("editor"), !won, "{}", db.name);
            withdrawn += usize::from(won);
            assert_eq!(place.joined().await.len(), round + 1 - withdrawn, "{}", db.name);
            assert_eq!(place.open().await, 0, "{}", db.name);
            place.site.advance(3600);
        }
    }
}

/// A replacement includes the roles of the replaced invitation, or comes after its acceptance.
#[tokio::test]
async fn a_replaced_invitation_is_invalid() {
    for db in databases().await {
        let place = Arc::new(Place::on(&db, Registration::Open).await);
        let accounts = place.site.auth.accounts();
        for round in 0..8 {
            let email = format!("user{round}@example.com");
            let session = place.site.signed_in(&email).await;
            let token = place.invite_to(editor(&email)).await;
            let accept = {
                let (place, token, session) = (place.clone(), token.clone(), session.clone());
                tokio::spawn(async move { place.accept(&session, &token).await.status.as_u16() })
            };
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            accounts.invite(invitation(&email)).await.unwrap();
            let status = accept.await.unwrap();
            assert!([200, 401].contains(&status), "{status}");
            let is_editor = accounts.find(&email).await.unwrap().roles.contains("editor");
            assert_eq!(is_editor, status == 200, "{}", db.name);
            assert_eq!(place.open().await, round + 1, "{}", db.name);
            place.site.advance(3600);
        }
    }
}

/// What a server leaves behind that stops before the membership begins.
#[tokio::test]
async fn an_invitation_that_a_stopped_server_was_accepting_works_again_after_a_minute() {
    for db in databases().await {
        for registers in [false, true] {
            let place = Place::on(&db, Registration::Open).await;
            let email = format!("user{registers}@example.com");
            let token = place.invite_to(to_acme(&email)).await;
            let id = place.site.auth.accounts().invitations(None).await.unwrap()[0].id.clone();
            let until = place.site.ambient.now() + jiff::SignedDuration::from_secs(60);
            let claim = "UPDATE account_invitations SET claimed_until = ?1, claimed_by = 'a stopped server'";
            db.db.execute(claim, params![until]).await.unwrap();
            place.site.advance(15);
            let session = if registers {
                let refused = place.register(&email, Some(&token)).await.expect(409);
                assert_eq!(refused.json()["code"], "invitation_claimed");
                None
            } else {
                let session = place.site.signed_in(&email).await;
                let refused = place.accept(&session, &token).await.expect(409);
                assert_eq!(refused.json()["code"], "invitation_claimed");
                assert_eq!(refused.headers["retry-after"], "44");
                Some(session)
            };
            // An invitation that may be being accepted cannot be withdrawn or replaced; it is listed.
            let accounts = place.site.auth.accounts();
            assert!(matches!(accounts.withdraw_invitation(&id, None).await, Err(AccountError::InvitationClaimed(_))));
            assert!(matches!(accounts.invite(to_acme(&email)).await, Err(AccountError::InvitationClaimed(_))));
            assert_eq!(accounts.invitations(None).await.unwrap()[0].id, id);
            place.site.advance(45);
            match session {
                Some(session) => place.accept(&session, &token).await.expect(200),
                None => place.register(&email, Some(&token)).await.expect(200),
            };
            assert_eq!(place.open().await, 0);
        }
        let joined = db.db.query("SELECT member_id FROM tenant_members", vec![]).await.unwrap();
        assert_eq!(joined.len(), 2, "{}", db.name);
    }
}

/// Whenever a caller disconnects, the invitation was accepted, or is open and works at once.
#[tokio::test]
async fn a_client_that_disconnects_while_accepting_does_not_waste_the_invitation() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        let mut moments = 0;
        loop {
            let email = format!("user{moments}@example.com");
            let session = place.site.signed_in(&email).await;
            let token = place.invite_to(to_acme(&email)).await;
            moments += 1;
            let was_answered = cancel_after(moments, place.accept(&session, &token)).await.is_some();
            // It continues without the caller, or never began.
            while place.is_open_once_nobody_accepts().await {
                let status = place.accept(&session, &token).await.status.as_u16();
                assert!([200, 401, 409].contains(&status), "moment {moments}: {status}");
            }
            assert_eq!(place.joined().await.len(), moments, "{}", db.name);
            if was_answered {
                break;
            }
            place.site.advance(3600);
        }
        assert!(moments >= 2, "{moments}, {}", db.name);
    }
}

#[tokio::test]
async fn a_client_that_disconnects_while_registering_does_not_waste_the_invitation() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let mut moments = 0;
        loop {
            let email = format!("user{moments}@example.com");
            let token = place.invite_to(to_acme(&email)).await;
            moments += 1;
            let was_answered = cancel_after(moments, place.register(&email, Some(&token))).await.is_some();
            while place.is_open_once_nobody_accepts().await {
                let status = place.register(&email, Some(&token)).await.status.as_u16();
                assert!([200, 403, 409].contains(&status), "moment {moments}: {status}");
            }
            place.site.login(&email, PASSWORD).await.expect(200);
            assert_eq!(place.joined().await.len(), moments, "{}", db.name);
            if was_answered {
                break;
            }
            place.site.advance(3600);
        }
        assert!(moments >= 2, "{moments}, {}", db.name);
    }
}

#[tokio::test]
async fn one_of_many_invitations_sent_at_once_is_open() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        for to_tenant in [false, true] {
            let new = if to_tenant { to_acme(ANN) } else { invitation(ANN) };
            let accounts = place.site.auth.accounts();
            let sent = join_all((0..20).map(|_| accounts.invite(new.clone()))).await;
            let sent: Vec<_> = sent.into_iter().map(|invitation| invitation.unwrap().id).collect();
            let open = accounts.invitations(None).await.unwrap();
            assert_eq!(open.len(), 1 + usize::from(to_tenant), "{}", db.name);
            assert!(sent.contains(&open.iter().find(|open| open.tenant.is_some() == to_tenant).unwrap().id));
        }
    }
}

#[tokio::test]
async fn the_table_contains_no_token() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite(ANN).await;
        let rows = db.db.query("SELECT * FROM account_invitations", vec![]).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert!(!format!("{rows:?}").contains(&token));
    }
}

#[tokio::test]
async fn a_later_invitation_replaces_the_earlier_one_and_roles_add_up() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        let session = place.site.signed_in_ann().await;
        let as_role = |role: &str| into_acme(invitation(ANN), &[role]);
        let first = place.invite_to(as_role("admin")).await;
        let second = place.invite_to(as_role("editor")).await;
        place.accept(&session, &first).await.expect(401);
        place.accept(&session, &second).await.expect(200);
        let third = place.invite_to(as_role("auditor")).await;
        place.accept(&session, &third).await.expect(200);
        let joined = place.joined().await;
        assert_eq!(joined.len(), 1, "{joined:?}");
        let roles = &joined[0].2;
        assert!(roles.contains("editor") && roles.contains("auditor") && !roles.contains("admin"), "{roles}");
    }
}
