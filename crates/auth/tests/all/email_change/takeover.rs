//! Attacks by which an undo of a change of address would hand an account over: to the stranger who registered the
//! victim's address, or to the thief who added a credential before the change.

use futures_util::future::join_all;
use gatewright_auth::password::PasswordAlgorithm;
use gatewright_auth::{AuthConfig, MailKind};
use serde_json::json;

use super::{NEW, Place, UNDO};
use crate::support::{ANN, Call, PASSWORD, config, databases, set_proven};
use crate::two_factor::enroll;

const EVE: &str = "eve@example.com";

/// The stranger registers the victim's address, adds a credential, and changes the address. The victim presses undo.
#[tokio::test]
async fn an_undo_by_a_victim_who_never_had_the_account_leaves_the_stranger_nothing() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        let stranger = place.site.login_ann().await;
        let mut passkey = place.add_passkey(&stranger, "mine").await;
        let body = json!({ "name": "mine", "scopes": ["*:*"] });
        let token =
            Call::post("/auth/tokens").json(&body).cookie_of(&stranger).send(&place.site).await.expect(200).token();
        // Long ago, so that it is not the age that removes them.
        place.site.advance(20 * 24 * 3600);
        let stranger = place.site.login_ann().await;
        let undo = place.change(&stranger, ANN, EVE).await;
        assert_eq!(place.passkey_login(&mut passkey).await, 200);

        place.post_token(UNDO, &undo).await.expect(200);
        let ann = accounts.find(ANN).await.unwrap();
        assert!(ann.email_verified && !ann.password_set, "{}", db.name);
        assert_eq!(place.passkey_login(&mut passkey).await, 401, "{}", db.name);
        place.site.me(&stranger).await.expect(401);
        assert_eq!(Call::get("/whoami").bearer(&token).send(&place.site).await.json(), "anonymous");
        for address in [ANN, EVE] {
            assert_ne!(place.site.login(address, PASSWORD).await.status, 200);
        }
    }
}

#[tokio::test]
async fn an_undo_by_a_victim_removes_the_second_factor_of_the_stranger() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        let stranger = place.site.login_ann().await;
        let enrolled = enroll(&place.site, stranger).await;
        let body = json!({ "email": EVE, "password": PASSWORD, "code": enrolled.app.code(&place.site) });
        Call::post("/auth/change-email").json(&body).cookie_of(&enrolled.session).send(&place.site).await.expect(200);
        let token = place.token(MailKind::EmailChange, EVE).await;
        place.confirm(&enrolled.session, &token).await.expect(200);
        let undo = place.token(MailKind::EmailChanged, ANN).await;
        place.site.advance(6 * 24 * 3600);
        place.post_token(UNDO, &undo).await.expect(200);
        let ann = accounts.find(ANN).await.unwrap();
        assert!(!accounts.has_second_factor(&ann.id).await.unwrap(), "{}", db.name);
    }
}

/// The thief of a proven account adds a passkey seconds before the change. The owner's passkey of before stays, and the
/// mails name the thief's.
#[tokio::test]
async fn a_passkey_added_seconds_before_the_change_is_removed_and_named_in_the_mails() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.prove_ann().await;
        let owner = place.site.login_ann().await;
        let mut own = place.add_passkey(&owner, "owners").await;
        place.site.advance(7 * 24 * 3600 + 1);
        let thief = place.site.login_ann().await;
        let mut thiefs = place.add_passkey(&thief, "thiefs").await;
        let body = json!({ "name": "thiefs token", "scopes": ["*:*"] });
        let token =
            Call::post("/auth/tokens").json(&body).cookie_of(&thief).send(&place.site).await.expect(200).token();
        place.site.advance(5);
        let undo = place.change(&thief, ANN, EVE).await;
        let named = |mail: &gatewright_auth::Mail| mail.credentials.join("\n");
        let notice = place.post.mails.lock().last().map(named).unwrap();
        assert!(notice.contains("thiefs") && notice.contains("thiefs token") && !notice.contains("owners"), "{notice}");

        place.post_token(UNDO, &undo).await.expect(200);
        assert_eq!(place.passkey_login(&mut thiefs).await, 401, "{}", db.name);
        assert_eq!(place.passkey_login(&mut own).await, 200, "{}", db.name);
        assert_eq!(Call::get("/whoami").bearer(&token).send(&place.site).await.json(), "anonymous");
        place.site.me(&thief).await.expect(401);
        place.mails().await;
        let undone =
            place.post.mails.lock().iter().rev().find(|mail| mail.kind == MailKind::EmailChangeUndone).cloned();
        let undone = undone.expect("the owner gets a mail");
        assert_eq!(undone.to.as_str(), ANN);
        assert!(named(&undone).contains("thiefs") && !named(&undone).contains("owners"), "{:?}", undone.credentials);
        assert_eq!(place.site.auth.accounts().find(ANN).await.unwrap().id, ann);
    }
}

/// A factor that is older than seven days stays. Backup codes that a thief drew before the change go.
#[tokio::test]
async fn backup_codes_drawn_before_the_change_are_removed_and_the_older_factor_stays() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        let ann = place.prove_ann().await;
        let enrolled = enroll(&place.site, place.site.login_ann().await).await;
        place.site.advance(8 * 24 * 3600);
        let pending = place.site.login_ann().await;
        let answer = async |session: &crate::support::Answer, code: &str| {
            let call = Call::post("/auth/2fa/challenge").json(&json!({ "code": code })).cookie_of(session);
            call.send(&place.site).await
        };
        let thief = answer(&pending, &enrolled.app.code(&place.site)).await.expect(200);
        let codes = Call::get("/auth/2fa/backup-codes").cookie_of(&thief).send(&place.site).await.expect(200).json();
        let codes: Vec<String> = serde_json::from_value(codes["backupCodes"].clone()).unwrap();
        place.site.advance(60);
        let body = json!({ "email": EVE, "password": PASSWORD, "code": enrolled.app.code(&place.site) });
        Call::post("/auth/change-email").json(&body).cookie_of(&thief).send(&place.site).await.expect(200);
        let token = place.token(MailKind::EmailChange, EVE).await;
        place.confirm(&thief, &token).await.expect(200);
        let undo = place.token(MailKind::EmailChanged, ANN).await;
        place.post_token(UNDO, &undo).await.expect(200);
        assert!(accounts.has_second_factor(&ann).await.unwrap(), "{}", db.name);
        accounts.set_password(&ann, gatewright_base::Secret::new(PASSWORD)).await.unwrap();
        place.site.advance(60);
        let pending = place.site.login_ann().await.expect(200);
        answer(&pending, &codes[0]).await.expect(401);
        answer(&pending, &enrolled.app.code(&place.site)).await.expect(200);
    }
}

/// An undone change is no proof of the address that the account had in between, or of one that was restored before.
#[tokio::test]
async fn only_the_undo_of_its_own_mailbox_makes_an_address_proven() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let accounts = place.site.auth.accounts();
        set_proven(&db.db, ANN, true).await;
        let session = place.site.login_ann().await;
        let first = place.change(&session, ANN, NEW).await;
        let second = place.change(&session, NEW, EVE).await;
        place.post_token(UNDO, &second).await.expect(200);
        assert!(accounts.find(NEW).await.unwrap().email_verified, "{}", db.name);
        place.post_token(UNDO, &first).await.expect(200);
        assert!(accounts.find(ANN).await.unwrap().email_verified, "{}", db.name);
        assert!(accounts.find(NEW).await.is_err() && accounts.find(EVE).await.is_err());
    }
}

/// Wrong passwords of others stretch the wait. The session was valid when the request came in.
#[tokio::test]
async fn a_change_that_waits_for_its_hash_while_the_account_is_claimed_is_refused() {
    for db in databases().await {
        let config = AuthConfig { password: PasswordAlgorithm::Bcrypt { cost: 10 }, ..config() };
        let place = Place::with(&db, config).await;
        let thief = place.site.login_ann().await;
        Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        let link = place.token(MailKind::MagicLink, ANN).await;
        place.site.advance(60);
        let names: Vec<String> = (0..16).map(|n| format!("n{n}@example.com")).collect();
        let others = join_all(names.iter().map(|name| place.site.login(name, "a wrong password")));
        let claim = async {
            place.post_token("/auth/magic-link/verify", &link).await.expect(200);
            place.site.advance(60);
        };
        let (_, asked, ()) = tokio::join!(others, place.ask(&thief, EVE), claim);
        asked.expect(401);
        place.mails().await;
        assert!(place.post.mails.lock().iter().all(|mail| mail.kind != MailKind::EmailChange), "{}", db.name);
        let ann = place.site.auth.accounts().find(ANN).await.unwrap();
        assert!(ann.email_verified && !ann.password_set, "{}", db.name);
    }
}
