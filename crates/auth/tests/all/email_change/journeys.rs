use gatewright_auth::MailKind;
use serde_json::json;

use super::{CONFIRM, NEW, Place, UNDO};
use crate::support::{ANN, Call, PASSWORD, databases, set_proven};
use crate::two_factor::enroll_ann;

#[tokio::test]
async fn an_address_is_changed_from_the_new_mailbox_and_undone_from_the_former_one() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        assert_eq!(place.ask(&session, NEW).await.expect(200).json(), json!({ "sent": true }));
        let token = place.token(MailKind::EmailChange, NEW).await;
        let page =
            Call::get(&format!("{CONFIRM}?token={token}")).cookie_of(&session).send(&place.site).await.expect(200);
        assert!(page.body.contains(NEW) && page.body.contains(ANN), "{}", page.body);
        assert!(!page.body.contains("name=\"code\""), "{}", page.body);
        place.site.login_ann().await.expect(200);
        place.confirm(&session, &token).await.expect(200);
        place.confirm(&session, &token).await.expect(401);
        let me = place.site.me(&session).await.expect(200).json();
        assert_eq!((me["user"]["email"].as_str(), me["emailVerified"].as_bool()), (Some(NEW), Some(true)));
        place.site.login_ann().await.expect(401);
        place.site.login(NEW, PASSWORD).await.expect(200);

        let undo = place.token(MailKind::EmailChanged, ANN).await;
        let page = Call::get(&format!("{UNDO}?token={undo}")).send(&place.site).await.expect(200);
        assert!(page.body.contains(ANN), "{}", page.body);
        place.site.me(&session).await.expect(200);
        place.post_token(UNDO, &undo).await.expect(200);
        place.post_token(UNDO, &undo).await.expect(401);
        place.site.me(&session).await.expect(401);
        let ann = place.site.auth.accounts().find(ANN).await.unwrap();
        assert!(!ann.password_set && ann.email_verified, "{}", db.name);
        assert!(place.site.auth.accounts().find(NEW).await.is_err());
        let names: Vec<_> = place.site.audited().iter().map(|kind| kind.name()).collect();
        for kind in ["email.change_requested", "email.changed", "email.change_undone"] {
            assert!(names.contains(&kind), "{names:?}");
        }
    }
}

#[tokio::test]
async fn the_account_page_form_requests_a_change_and_shows_errors() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        let page = place.site.account(&session.cookie().unwrap()).await;
        assert!(page.contains("action=\"/account/email#change-email\""), "{page}");
        let send = async |fields: &[(&str, &str)]| {
            Call::post("/account/email").form(fields).cookie_of(&session).send(&place.site).await
        };
        let wrong = send(&[("email", NEW), ("password", "wrong")]).await.expect(401);
        assert!(wrong.body.contains("Email or password is wrong."), "{}", wrong.body);
        send(&[("email", "nonsense"), ("password", PASSWORD)]).await.expect(422);
        let answer = send(&[("email", NEW), ("password", PASSWORD)]).await.expect(303);
        assert_eq!(answer.location(), Some("/account/sign-in?done=email-requested#change-email"));
        let token = place.token(MailKind::EmailChange, NEW).await;
        let done =
            Call::post(CONFIRM).form(&[("token", &token)]).cookie_of(&session).send(&place.site).await.expect(200);
        assert!(done.body.contains("Address changed"));
    }
}

#[tokio::test]
async fn the_second_factor_is_required_again_and_a_code_works_once() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = enroll_ann(&place.site).await;
        let ask = async |code: Option<&str>| {
            let mut body = json!({ "email": NEW, "password": PASSWORD });
            if let Some(code) = code {
                body["code"] = code.into();
            }
            Call::post("/auth/change-email").json(&body).cookie_of(&ann.session).send(&place.site).await
        };
        assert_eq!(ask(None).await.expect(403).json()["code"], "two_factor_required");
        assert_eq!(ask(Some("")).await.expect(403).json()["code"], "two_factor_required");
        assert_eq!(ask(Some("000000")).await.expect(401).json()["code"], "invalid_code");
        let code = ann.app.code(&place.site);
        ask(Some(&code)).await.expect(200);
        ask(Some(&code)).await.expect(401);
        ask(Some(&ann.codes[0])).await.expect(200);
        // A factor from more than seven days before the change survives the undo, if the old mailbox was proven.
        set_proven(&db.db, ANN, true).await;
        place.site.advance(7 * 24 * 3600);
        let session = place.site.login_ann().await;
        let body = json!({ "code": ann.app.code(&place.site) });
        let session =
            Call::post("/auth/2fa/challenge").json(&body).cookie_of(&session).send(&place.site).await.expect(200);
        place.site.advance(60);
        let body = json!({ "email": NEW, "password": PASSWORD, "code": ann.app.code(&place.site) });
        Call::post("/auth/change-email").json(&body).cookie_of(&session).send(&place.site).await.expect(200);
        let token = place.token(MailKind::EmailChange, NEW).await;
        place.confirm(&session, &token).await.expect(200);
        let undo = place.token(MailKind::EmailChanged, ANN).await;
        place.post_token(UNDO, &undo).await.expect(200);
        let id = place.site.auth.accounts().find(ANN).await.unwrap().id;
        assert!(place.site.auth.accounts().disable_two_factor(&id).await.unwrap(), "{}", db.name);
    }
}

#[tokio::test]
async fn an_account_without_a_password_needs_a_recent_session() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let bob = "bob@example.com";
        place.site.auth.accounts().create(bob, None, None).await.unwrap();
        Call::post("/auth/magic-link/send").json(&json!({ "email": bob })).send(&place.site).await.expect(200);
        let token = place.token(MailKind::MagicLink, bob).await;
        let session = place.post_token("/auth/magic-link/verify", &token).await.expect(200);
        let ask = async || {
            let body = json!({ "email": "bob@new.example.com" });
            Call::post("/auth/change-email").json(&body).cookie_of(&session).send(&place.site).await
        };
        place.site.advance(299);
        ask().await.expect(200);
        place.site.advance(2);
        assert_eq!(ask().await.expect(403).json()["code"], "session_too_old");
    }
}

#[tokio::test]
async fn the_code_of_the_mail_confirms_in_the_requesting_browser_with_its_session() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        let form = [("email", NEW), ("password", PASSWORD)];
        let asked =
            Call::post("/auth/change-email").form(&form).cookie_of(&session).send(&place.site).await.expect(200);
        let lines = asked.headers.get_all(http::header::SET_COOKIE).iter().map(|line| line.to_str().unwrap());
        let line = lines.into_iter().find(|line| line.starts_with("__Host-svc_email_change=")).unwrap();
        let cookie = line.split(';').next().unwrap();
        place.mails().await;
        let mail = place.post.mails.lock().last().unwrap().clone();
        let page = mail.link.expose().strip_prefix("https://app.example.com").unwrap().to_owned();
        let elsewhere = Call::get(&page).send(&place.site).await.expect(200).body;
        assert!(elsewhere.contains("name=\"code\""), "{elsewhere}");
        let both = format!("{cookie}; {}", session.cookie().unwrap());
        let here = Call::get(&page).cookie(&both).send(&place.site).await.expect(200).body;
        assert!(!here.contains("name=\"code\""), "{here}");
        let code = json!({ "code": mail.code.as_ref().unwrap().expose() });
        Call::post(CONFIRM).json(&code).send(&place.site).await.expect(401);
        Call::post(CONFIRM).json(&code).cookie(cookie).send(&place.site).await.expect(403);
        Call::post(CONFIRM).json(&code).cookie(&both).send(&place.site).await.expect(200);
        place.site.login(NEW, PASSWORD).await.expect(200);
    }
}
