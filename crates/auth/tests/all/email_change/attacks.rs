use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::MailKind;
use gatewright_auth::tokens::TokenDraft;
use gatewright_base::testing::cancel_after;
use gatewright_base::{Secret, Subject};
use serde_json::json;

use super::{CONFIRM, NEW, Place, UNDO};
use crate::support::{ANN, Call, PASSWORD, WRONG, databases};
use crate::two_factor::{enroll, enroll_ann};

const EVE: &str = "eve@example.com";

/// A person at an open browser has a session, and nothing else.
#[tokio::test]
async fn a_session_without_fresh_proof_changes_nothing() {
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
async fn guesses_are_limited_and_do_not_lock_out_the_owner() {
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
async fn the_answer_does_not_reveal_whether_the_address_is_taken() {
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
        place.confirm(&session, &token).await.expect(409);
        place.site.me(&session).await.expect(200);
        assert_eq!(place.site.auth.accounts().find(ANN).await.unwrap().email.as_str(), ANN);
    }
}

/// A thief who knows the password takes the account over. Its owner gets it back, and the thief loses all access.
#[tokio::test]
async fn undoing_a_change_restores_the_owner_and_removes_the_thiefs_access() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let thief = place.site.login_ann().await;
        let undo = place.change(&thief, ANN, EVE).await;
        // The thief adds a token, a second factor and an own undo link, and another account takes the owner's address.
        let call = Call::post("/auth/tokens").json(&json!({ "name": "mine", "scopes": ["*:*"] })).cookie_of(&thief);
        let token = call.send(&place.site).await.expect(200).token();
        let body = json!({ "email": "eve@second.example", "password": PASSWORD });
        Call::post("/auth/change-email").json(&body).cookie_of(&thief).send(&place.site).await.expect(200);
        let second = place.token(MailKind::EmailChange, "eve@second.example").await;
        place.confirm(&thief, &second).await.expect(200);
        let thiefs_undo = place.token(MailKind::EmailChanged, EVE).await;
        place.site.register(ANN).await;
        let squatter = place.site.login_ann().await.expect(200);
        enroll(&place.site, thief.clone()).await;

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
        // The account that had taken the address gets another one, and keeps the rest.
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
async fn a_new_password_a_logout_everywhere_or_disabling_cancels_a_pending_change() {
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
async fn one_of_many_parallel_confirmations_or_undos_succeeds() {
    for db in databases().await {
        let place = Arc::new(Place::on(&db).await);
        let session = place.site.login_ann().await;
        place.ask(&session, NEW).await.expect(200);
        let token = place.token(MailKind::EmailChange, NEW).await;
        let race = async |path: &'static str, token: &str| {
            let tries: Vec<_> = (0..20)
                .map(|_| {
                    let (place, cookie) = (place.clone(), session.cookie().unwrap());
                    let call = Call::post(path).json(&json!({ "token": token })).cookie(&cookie);
                    tokio::spawn(async move { call.send(&place.site).await.status.as_u16() })
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
async fn the_tables_contain_no_token() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = enroll_ann(&place.site).await;
        let body = json!({ "email": NEW, "password": PASSWORD, "code": ann.app.code(&place.site) });
        Call::post("/auth/change-email").json(&body).cookie_of(&ann.session).send(&place.site).await.expect(200);
        let token = place.token(MailKind::EmailChange, NEW).await;
        place.confirm(&ann.session, &token).await.expect(200);
        let undo = place.token(MailKind::EmailChanged, ANN).await;
        for table in ["users_email_changes", "single_use_tokens"] {
            let rows = db.db.query(format!("SELECT * FROM {table}"), vec![]).await.unwrap();
            let text = format!("{rows:?}");
            assert!(!text.contains(&token) && !text.contains(&undo), "{table}");
        }
    }
}

/// The attack: two changes, and the thief undoes the second one with the link that came to the first thief's address.
#[tokio::test]
async fn a_thief_cannot_invalidate_the_owners_undo_link() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        let ann = place.prove_ann().await;
        let mut thief = place.site.login_ann().await;
        let undo = place.change(&thief, ANN, EVE).await;
        let mut thiefs = Vec::new();
        for round in 0..3 {
            let second = format!("eve@second{round}.example");
            let back = place.change(&thief, EVE, &second).await;
            place.post_token(UNDO, &back).await.expect(200);
            assert_eq!(accounts.find(EVE).await.unwrap().id, ann, "{}", db.name);
            place.post_token(UNDO, &back).await.expect(401);
            thiefs.push(back);
            // The undoing dropped the password. The thief sets another one by the address that they have now.
            let body = json!({ "email": EVE });
            Call::post("/auth/forgot-password").json(&body).send(&place.site).await.expect(200);
            let reset = place.token(MailKind::PasswordReset, EVE).await;
            let body = json!({ "token": reset, "password": PASSWORD });
            Call::post("/auth/reset-password").json(&body).send(&place.site).await.expect(200);
            place.site.advance(3600);
            thief = place.site.login(EVE, PASSWORD).await.expect(200);
        }
        // The maximum number of changes does not displace the owner's either.
        let mut from = EVE.to_owned();
        for n in 0..4 {
            let to = format!("eve@n{n}.example");
            thiefs.push(place.change(&thief, &from, &to).await);
            from = to;
        }
        assert_eq!(place.ask(&thief, NEW).await.expect(409).json()["code"], "too_many_changes");

        place.post_token(UNDO, &undo).await.expect(200);
        assert_eq!(accounts.find(ANN).await.unwrap().id, ann);
        place.site.me(&thief).await.expect(401);
        for token in thiefs.iter().chain([&undo]) {
            place.post_token(UNDO, token).await.expect(401);
        }
        assert_eq!(accounts.find(ANN).await.unwrap().id, ann, "{}", db.name);
    }
}

/// The thief undoes the second change while the owner undoes the first one.
#[tokio::test]
async fn if_owner_and_thief_undo_at_once_the_owner_gets_the_account() {
    for db in databases().await {
        let place = Arc::new(Place::on(&db).await);
        let accounts = place.site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap().id;
        for round in 0..10 {
            let thief = place.site.login_ann().await.expect(200);
            let undo = place.change(&thief, ANN, EVE).await;
            let thiefs = place.change(&thief, EVE, "eve@second.example").await;
            let send = |token: String| {
                let place = place.clone();
                tokio::spawn(async move { place.post_token(UNDO, &token).await.status.as_u16() })
            };
            let (first, second) = if round % 2 == 0 { (&undo, &thiefs) } else { (&thiefs, &undo) };
            let answers = [send(first.clone()), send(second.clone())];
            let mut statuses = Vec::new();
            for answer in answers {
                statuses.push(answer.await.unwrap());
            }
            assert_eq!(statuses[round % 2], 200, "{statuses:?}");
            assert_eq!(accounts.find(ANN).await.unwrap().id, ann, "round {round} on {}", db.name);
            place.post_token(UNDO, &thiefs).await.expect(401);
            place.site.advance(3600);
            accounts.set_password(&ann, Secret::new(PASSWORD)).await.unwrap();
            place.site.advance(1);
        }
    }
}

/// The attack: the owner, locked out, asks for a link to sign in, and gets a new account that keeps the old one from them.
#[tokio::test]
async fn a_former_address_is_reserved_while_its_change_can_be_undone() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        let ann = place.prove_ann().await;
        let bob = place.site.signed_in("bob@example.com").await;
        let thief = place.site.login_ann().await.expect(200);
        let undo = place.change(&thief, ANN, EVE).await;

        // Registration, and another account's change, behave as with an address that somebody has.
        let register = async |email: &str| {
            let body = json!({ "email": email, "password": PASSWORD });
            Call::post("/auth/register").json(&body).send(&place.site).await
        };
        let (taken, kept) = (register(EVE).await.expect(409), register(ANN).await.expect(409));
        assert_eq!(taken.json(), kept.json());
        let before = place.mails().await;
        let (taken, kept) = (place.ask(&bob, EVE).await.expect(200), place.ask(&bob, ANN).await.expect(200));
        assert_eq!((taken.body, place.mails().await), (kept.body, before));

        // A person who requests a link for that address gets a mail that explains how to restore the account.
        let mut reminders = Vec::new();
        for path in ["/auth/magic-link/send", "/auth/forgot-password"] {
            let kept = Call::post(path).json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
            reminders.push(place.token(MailKind::EmailChanged, ANN).await);
            let free =
                Call::post(path).json(&json!({ "email": "free@example.com" })).send(&place.site).await.expect(200);
            assert_eq!(kept.body, free.body);
        }
        assert!(accounts.find(ANN).await.is_err());
        let mails = place.mails().await;
        for n in 0..60 {
            let call = Call::post("/auth/magic-link/send").from(format!("192.0.2.{}", n % 2).leak());
            call.json(&json!({ "email": ANN })).send(&place.site).await;
        }
        assert!(place.mails().await - mails <= 20, "reminders have a budget");

        // The owner's own link works whatever was requested since.
        let look =
            async |token: &str| Call::get(&format!("{UNDO}?token={token}")).send(&place.site).await.status.as_u16();
        assert_eq!((look(&undo).await, look(&reminders[0]).await), (200, 401));
        place.post_token(UNDO, &undo).await.expect(200);
        assert_eq!(accounts.find(ANN).await.unwrap().id, ann, "{}", db.name);

        // The link of a reminder works too.
        accounts.set_password(&ann, Secret::new(PASSWORD)).await.unwrap();
        place.site.advance(3601);
        let thief = place.site.login_ann().await.expect(200);
        let undo = place.change(&thief, ANN, EVE).await;
        Call::post("/auth/forgot-password").json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        let reminder = place.token(MailKind::EmailChanged, ANN).await;
        assert_ne!(reminder, undo);
        place.post_token(UNDO, &reminder).await.expect(200);
        place.post_token(UNDO, &undo).await.expect(401);
        assert_eq!(accounts.find(ANN).await.unwrap().id, ann, "{}", db.name);

        // An account that an operator made there signs in by mail like any other.
        accounts.set_password(&ann, Secret::new(PASSWORD)).await.unwrap();
        place.site.advance(3601);
        let owner = place.site.login_ann().await.expect(200);
        let undo = place.change(&owner, ANN, NEW).await;
        let made = accounts.create(ANN, None, None).await.unwrap();
        Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        let magic = place.token(MailKind::MagicLink, ANN).await;
        place.post_token("/auth/magic-link/verify", &magic).await.expect(200);
        accounts.delete(&made.id).await.unwrap();
        place.post_token(UNDO, &undo).await.expect(200);

        // The account may take the address back itself, and after seven days anybody may have it.
        accounts.set_password(&ann, Secret::new(PASSWORD)).await.unwrap();
        place.site.advance(3601);
        let owner = place.site.login_ann().await.expect(200);
        place.change(&owner, ANN, NEW).await;
        place.change(&owner, NEW, ANN).await;
        place.change(&owner, ANN, NEW).await;
        register(ANN).await.expect(409);
        place.site.advance(7 * 24 * 3600);
        register(ANN).await.expect(200);
    }
}

/// An address that was never proven is not reserved, so that a stranger cannot block the owner of an address.
#[tokio::test]
async fn an_unproven_former_address_is_not_reserved_and_its_undo_names_the_next_step() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap().id;
        let thief = place.site.login_ann().await.expect(200);
        let undo = place.change(&thief, ANN, EVE).await;
        Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        let magic = place.token(MailKind::MagicLink, ANN).await;
        place.post_token("/auth/magic-link/verify", &magic).await.expect(200);
        let other = accounts.find(ANN).await.unwrap().id;
        assert_ne!(other, ann);
        let refused = place.post_token(UNDO, &undo).await.expect(409).json();
        assert_eq!(refused["code"], "former_address_taken");
        assert!(refused["detail"].as_str().unwrap().contains("delete it or change its address"), "{refused}");
        assert_eq!(accounts.find(ANN).await.unwrap().id, other, "the other account is untouched");
        accounts.delete(&other).await.unwrap();
        place.post_token(UNDO, &undo).await.expect(200);
        assert_eq!(accounts.find(ANN).await.unwrap().id, ann, "{}", db.name);
    }
}

/// Whenever a caller disconnects: a change has its notice, and an undo is complete; or neither has begun, and its link works.
#[tokio::test]
async fn a_client_that_disconnects_stops_neither_the_notice_nor_the_undo() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        let ann = place.prove_ann().await;
        let mut moments = 0;
        loop {
            let thief = place.site.login_ann().await.expect(200);
            place.ask(&thief, EVE).await.expect(200);
            let token = place.token(MailKind::EmailChange, EVE).await;
            moments += 1;
            let was_confirmed = cancel_after(moments, place.confirm(&thief, &token)).await.is_some();
            until(async || {
                let again = place.confirm(&thief, &token).await.status.as_u16();
                assert!([200, 401, 409].contains(&again), "moment {moments}: {again}");
                place.mails().await;
                accounts.find(EVE).await.is_ok()
                    && place.post.mails.lock().last().is_some_and(|mail| mail.kind == MailKind::EmailChanged)
            })
            .await;

            let undo = place.token(MailKind::EmailChanged, ANN).await;
            let was_undone = cancel_after(moments, place.post_token(UNDO, &undo)).await.is_some();
            until(async || {
                let again = place.post_token(UNDO, &undo).await.status.as_u16();
                assert!([200, 401, 409].contains(&again), "moment {moments}: {again}");
                let is_back = accounts.find(ANN).await.is_ok_and(|account| account.id == ann && !account.password_set);
                is_back && place.site.me(&thief).await.status == 401
            })
            .await;
            if was_confirmed && was_undone {
                break;
            }
            // A request that was cut runs to its end.
            place.site.auth.settle(Duration::from_mins(1)).await;
            accounts.set_password(&ann, Secret::new(PASSWORD)).await.unwrap();
            place.site.advance(3601);
        }
        assert!(moments >= 2, "{moments}, {}", db.name);
    }
}

/// Waits for work that continues without its caller.
async fn until(mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..200 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not go on to its end");
}
