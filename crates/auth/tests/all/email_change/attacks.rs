use std::sync::Arc;

use gatewright_auth::MailKind;
use gatewright_auth::tokens::TokenDraft;
use gatewright_base::{Secret, Subject};
use serde_json::json;

use super::{CONFIRM, NEW, Place, UNDO};
use crate::support::{ANN, Call, PASSWORD, WRONG, databases};
use crate::two_factor::enroll_ann;

const EVE: &str = "eve@example.com";

/// Who found an open browser has a session, and nothing else.
#[tokio::test]
async fn a_session_alone_changes_nothing() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        let jwt = session.token();
        for body in [
            json!({ "email": EVE }),
            json!({ "email": EVE, "password": WRONG }),
            json!({ "email": EVE, "password": "" }),
        ] {
            let answer = Call::post("/auth/change-email").json(&body).cookie_of(&session).send(&place.site).await;
            assert!([401, 422].contains(&answer.status.as_u16()), "{answer:?}");
        }
        let body = json!({ "email": EVE, "password": PASSWORD });
        Call::post("/auth/change-email").json(&body).bearer(&jwt).send(&place.site).await.expect(401);
        Call::post("/auth/change-email").json(&body).send(&place.site).await.expect(401);
        let form = [("email", EVE), ("password", PASSWORD)];
        let crossing = Call::post("/auth/change-email").form(&form).header("origin", "https://evil.example");
        crossing.cookie_of(&session).send(&place.site).await.expect(403);
        assert_eq!(place.mails().await, 0);
    }
}

#[tokio::test]
async fn guesses_are_counted_and_the_owner_still_signs_in() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        for _ in 0..10 {
            let body = json!({ "email": EVE, "password": WRONG });
            Call::post("/auth/change-email").json(&body).cookie_of(&session).send(&place.site).await.expect(401);
        }
        place.ask(&session, EVE).await.expect(429);
        place.site.login_ann().await.expect(200);
    }
}

#[tokio::test]
async fn whether_somebody_has_the_address_is_not_told() {
    for db in databases().await {
        let place = Place::on(&db).await;
        place.site.register(EVE).await;
        let session = place.site.login_ann().await;
        let answer = place.ask(&session, EVE).await.expect(200);
        assert_eq!(place.mails().await, 0);
        let free = place.ask(&session, NEW).await.expect(200);
        assert_eq!(answer.body, free.body);
        assert_eq!(place.mails().await, 1);
        // Taken between the mail and its confirmation.
        place.site.register(NEW).await;
        let token = place.token(MailKind::EmailChange, NEW).await;
        place.post_token(CONFIRM, &token).await.expect(409);
        place.site.me(&session).await.expect(200);
        assert_eq!(place.site.auth.accounts().find(ANN).await.unwrap().email.as_str(), ANN);
    }
}

/// A thief who knows the password takes the account over. Its owner gets it back, and the thief keeps nothing.
#[tokio::test]
async fn the_owner_gets_everything_back_and_the_thief_keeps_nothing() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let thief = place.site.login_ann().await;
        let undo = place.change(&thief, ANN, EVE).await;
        // The thief settles in: a token, a second factor, a change of their own to undo, and the owner's address.
        let call = Call::post("/auth/tokens").json(&json!({ "name": "mine", "scopes": ["*:*"] })).cookie_of(&thief);
        let token = call.send(&place.site).await.expect(200).token();
        let body = json!({ "email": "eve@second.example", "password": PASSWORD });
        Call::post("/auth/change-email").json(&body).cookie_of(&thief).send(&place.site).await.expect(200);
        let second = place.token(MailKind::EmailChange, "eve@second.example").await;
        place.post_token(CONFIRM, &second).await.expect(200);
        let thiefs_undo = place.token(MailKind::EmailChanged, EVE).await;
        place.site.register(ANN).await;
        let squatter = place.site.login_ann().await.expect(200);
        let enrolled = Call::post("/auth/2fa/enroll").json(&json!({})).cookie_of(&thief).send(&place.site).await;
        let app = crate::two_factor::Authenticator::new(enrolled.expect(200).json()["secret"].as_str().unwrap());
        let code = json!({ "code": app.code(&place.site) });
        Call::post("/auth/2fa/verify").json(&code).cookie_of(&thief).send(&place.site).await.expect(200);

        place.site.advance(6 * 24 * 3600);
        place.post_token(UNDO, &undo).await.expect(200);
        let ann = place.site.auth.accounts().find(ANN).await.unwrap();
        assert!(!ann.password_set && ann.email_verified);
        place.site.me(&thief).await.expect(401);
        assert_eq!(Call::get("/whoami").bearer(&token).send(&place.site).await.json(), "anonymous");
        place.post_token(UNDO, &thiefs_undo).await.expect(401);
        place.post_token(UNDO, &undo).await.expect(401);
        assert!(!place.site.auth.accounts().disable_two_factor(&ann.id).await.unwrap(), "the thief's factor is gone");
        for address in [EVE, "eve@second.example", ANN] {
            assert_ne!(place.site.login(address, PASSWORD).await.status, 200, "{address}");
        }
        // Who squatted the address has another one, and the rest of their account.
        let displaced = place.site.me(&squatter).await.expect(200).json();
        assert!(displaced["user"]["email"].as_str().unwrap().ends_with("@displaced.invalid"), "{displaced}");
        // The owner signs in by mail.
        Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        let magic = place.token(MailKind::MagicLink, ANN).await;
        let owner = place.post_token("/auth/magic-link/verify", &magic).await.expect(200);
        assert_eq!(place.site.me(&owner).await.json()["user"]["id"], ann.id.as_str());
    }
}

#[tokio::test]
async fn a_request_dies_with_a_new_password_a_logout_everywhere_and_a_disabled_account() {
    for db in databases().await {
        for way in 0..3 {
            let place = Place::on(&db).await;
            let accounts = place.site.auth.accounts();
            let session = place.site.login_ann().await;
            place.ask(&session, NEW).await.expect(200);
            let token = place.token(MailKind::EmailChange, NEW).await;
            let ann = accounts.find(ANN).await.unwrap().id;
            place.site.advance(1);
            match way {
                0 => accounts.set_password(&ann, Secret::new("another horse battery")).await.unwrap(),
                1 => drop(accounts.sign_out_everywhere(&ann).await.unwrap()),
                _ => accounts.disable(&ann).await.unwrap(),
            }
            place.post_token(CONFIRM, &token).await.expect(401);
            assert!(accounts.find(NEW).await.is_err(), "{way} {}", db.name);
            accounts.delete(&ann).await.unwrap();
        }
    }
}

#[tokio::test]
async fn of_many_confirmations_and_many_undoings_one_counts() {
    for db in databases().await {
        let place = Arc::new(Place::on(&db).await);
        let session = place.site.login_ann().await;
        place.ask(&session, NEW).await.expect(200);
        let token = place.token(MailKind::EmailChange, NEW).await;
        let race = async |path: &'static str, token: &str| {
            let tries: Vec<_> = (0..20)
                .map(|_| {
                    let (place, token) = (place.clone(), token.to_owned());
                    tokio::spawn(async move { place.post_token(path, &token).await.status.as_u16() })
                })
                .collect();
            let mut won = 0;
            for one in tries {
                won += usize::from(one.await.unwrap() == 200);
            }
            won
        };
        assert_eq!(race(CONFIRM, &token).await, 1, "{}", db.name);
        let undo = place.token(MailKind::EmailChanged, ANN).await;
        assert_eq!(place.mails().await, 2);
        assert_eq!(race(UNDO, &undo).await, 1, "{}", db.name);
    }
}

#[tokio::test]
async fn the_number_of_changes_is_bounded_and_each_can_be_undone_for_seven_days() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        let mut from = ANN.to_owned();
        let mut first = String::new();
        for n in 0..5 {
            let to = format!("ann@n{n}.example.com");
            let undo = place.change(&session, &from, &to).await;
            if n == 0 {
                first = undo;
            }
            from = to;
        }
        assert_eq!(place.ask(&session, NEW).await.expect(409).json()["code"], "too_many_changes");
        place.site.advance(7 * 24 * 3600 - 1);
        let look = async || Call::get(&format!("{UNDO}?token={first}")).send(&place.site).await.status.as_u16();
        assert_eq!(look().await, 200);
        place.site.advance(1);
        assert_eq!(look().await, 401);
        assert!(place.site.auth.sweep().await >= 5);
        // Tokens that trusted code issues are the account's own.
        let id = place.site.auth.accounts().find(&from).await.unwrap().id;
        let draft = TokenDraft::parse("CI", &[""; 0], 0).unwrap();
        place.site.auth.api_tokens().unwrap().issue(Subject::User(id), draft).await.unwrap();
    }
}

#[tokio::test]
async fn the_tables_hold_no_token() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = enroll_ann(&place.site).await;
        let body = json!({ "email": NEW, "password": PASSWORD, "code": ann.app.code(&place.site) });
        Call::post("/auth/change-email").json(&body).cookie_of(&ann.session).send(&place.site).await.expect(200);
        let token = place.token(MailKind::EmailChange, NEW).await;
        place.post_token(CONFIRM, &token).await.expect(200);
        let undo = place.token(MailKind::EmailChanged, ANN).await;
        for table in ["users_email_changes", "single_use_tokens"] {
            let rows = db.db.query(format!("SELECT * FROM {table}"), vec![]).await.unwrap();
            let text = format!("{rows:?}");
            assert!(!text.contains(&token) && !text.contains(&undo), "{table}");
        }
    }
}
