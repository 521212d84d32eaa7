//! Who confirms a change of address: the account's holder, not only the reader of the new mailbox.

use gatewright_auth::MailKind;
use serde_json::json;

use super::{CONFIRM, NEW, Place};
use crate::support::{ANN, Answer, Call, PASSWORD, databases};

/// The attacker's account asks for the victim's address, by a script and by a form. The victim, or their mail scanner,
/// opens the link and presses the button.
#[tokio::test]
async fn a_victim_or_a_mail_scanner_with_the_link_changes_nothing() {
    for db in databases().await {
        for by_form in [false, true] {
            let place = Place::on(&db).await;
            let attacker = place.site.login_ann().await;
            let call = Call::post("/auth/change-email").cookie_of(&attacker);
            let body = [("email", NEW), ("password", PASSWORD)];
            let call =
                if by_form { call.form(&body) } else { call.json(&json!({ "email": NEW, "password": PASSWORD })) };
            call.send(&place.site).await.expect(200);
            let token = place.token(MailKind::EmailChange, NEW).await;
            let mail = place.post.mails.lock().last().unwrap().clone();
            assert_eq!(
                mail.account.as_ref().map(gatewright_auth::EmailAddress::as_str),
                Some(ANN),
                "the mail names the account"
            );

            for query in ["", "&bound=", "&bound=false", "&demand=nothing"] {
                let page =
                    Call::get(&format!("{CONFIRM}?token={token}{query}")).send(&place.site).await.expect(200).body;
                assert!(page.contains(ANN) && page.contains(NEW) && page.contains("name=\"code\""), "{page}");
            }
            let forms: [&[(&str, &str)]; 3] = [
                &[("token", &token)],
                &[("token", &token), ("code", "")],
                &[("token", &token), ("bound", "false"), ("demand", "nothing")],
            ];
            for form in forms {
                let answer = Call::post(CONFIRM).form(form).send(&place.site).await;
                assert!([401, 403].contains(&answer.status.as_u16()), "{answer:?}");
            }
            let refused = place.post_token(CONFIRM, &token).await.expect(403).json();
            assert_eq!(refused["code"], "confirmation_required");
            // The code of the mail, which the victim has, is not the one that the page shows.
            let code = mail.code.unwrap();
            let with_code = json!({ "token": token, "code": code.expose() });
            Call::post(CONFIRM).json(&with_code).send(&place.site).await.expect(401);
            // A session of another account is not one of this account.
            let victim = place.site.signed_in("victim@example.com").await;
            place.confirm(&victim, &token).await.expect(403);
            let accounts = place.site.auth.accounts();
            assert!(accounts.find(NEW).await.is_err(), "{}", db.name);
            // The link still works for the account's holder.
            place.confirm(&attacker, &token).await.expect(200);
            assert!(accounts.find(NEW).await.unwrap().email_verified);
            for address in [NEW, "victim@example.com"] {
                accounts.delete(&accounts.find(address).await.unwrap().id).await.unwrap();
            }
        }
    }
}

/// The six digits of a page.
fn shown(page: &str) -> String {
    let main = page.split_once("<main>").expect("a page").1;
    let digits = |text: &&str| text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    let found: Vec<_> = main.split(|c: char| !c.is_ascii_alphanumeric()).filter(digits).collect();
    assert_eq!(found.len(), 1, "{main}");
    found[0].to_owned()
}

fn mail_cookie(answer: &Answer) -> String {
    let lines = answer.headers.get_all(http::header::SET_COOKIE).iter().map(|line| line.to_str().unwrap());
    let line = lines.into_iter().find(|line| line.starts_with("__Host-svc_email_change=")).unwrap();
    line.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_code_on_the_page_that_asked_confirms_in_another_browser() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        let form = [("email", NEW), ("password", PASSWORD)];
        let asked =
            Call::post("/auth/change-email").form(&form).cookie_of(&session).send(&place.site).await.expect(200);
        let code = shown(&asked.body);
        // The account page shows it too, to the browser that requested the change.
        let cookies = format!("{}; {}", session.cookie().unwrap(), mail_cookie(&asked));
        let account = Call::get("/account/sign-in").cookie(&cookies).send(&place.site).await.expect(200).body;
        assert!(account.contains(&code), "{account}");
        let other = Call::get("/account/sign-in").cookie_of(&session).send(&place.site).await.expect(200).body;
        assert!(!other.contains(&code));
        let token = place.token(MailKind::EmailChange, NEW).await;
        let mail = place.post.mails.lock().last().unwrap().clone();
        assert!(!format!("{} {}", mail.link.expose(), mail.code.unwrap().expose()).contains(&code));
        let wrong =
            Call::post(CONFIRM).form(&[("token", &*token), ("code", "000000")]).send(&place.site).await.expect(401);
        assert!(wrong.body.contains("name=\"code\""), "{}", wrong.body);
        let done = Call::post(CONFIRM).form(&[("token", &token), ("code", &code)]).send(&place.site).await.expect(200);
        assert!(done.body.contains("Address changed"));
        assert!(place.site.auth.accounts().find(NEW).await.unwrap().email_verified, "{}", db.name);
    }
}

/// Six digits are few, so a link allows five attempts.
#[tokio::test]
async fn guesses_of_the_shown_code_are_limited_for_each_link() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let session = place.site.login_ann().await;
        let form = [("email", NEW), ("password", PASSWORD)];
        let asked =
            Call::post("/auth/change-email").form(&form).cookie_of(&session).send(&place.site).await.expect(200);
        let (code, token) = (shown(&asked.body), place.token(MailKind::EmailChange, NEW).await);
        let guess = async |code: &str| {
            let body = json!({ "token": token, "code": code });
            Call::post(CONFIRM).json(&body).send(&place.site).await.status.as_u16()
        };
        let guesses: Vec<String> = (0..20).map(|n| format!("{n:06}")).filter(|guess| *guess != code).collect();
        let answers = futures_util::future::join_all(guesses.iter().map(|code| guess(code))).await;
        assert_eq!(answers.iter().filter(|status| **status == 401).count(), 5, "{answers:?}");
        assert_eq!(guess(&code).await, 429, "{}", db.name);
        // The holder's session needs no code.
        place.confirm(&session, &token).await.expect(200);
    }
}

/// A session whose second factor is pending is not a session of the account, and neither is one that has ended.
#[tokio::test]
async fn a_pending_or_ended_session_confirms_nothing() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = crate::two_factor::enroll_ann(&place.site).await;
        let body = json!({ "email": NEW, "password": PASSWORD, "code": ann.app.code(&place.site) });
        Call::post("/auth/change-email").json(&body).cookie_of(&ann.session).send(&place.site).await.expect(200);
        let token = place.token(MailKind::EmailChange, NEW).await;
        let pending = place.site.login_ann().await.expect(200);
        place.confirm(&pending, &token).await.expect(403);
        let other = place.site.login_ann().await.expect(200);
        Call::post("/auth/logout").cookie_of(&other).send(&place.site).await;
        place.confirm(&other, &token).await.expect(403);
        assert!(place.site.auth.accounts().find(NEW).await.is_err(), "{}", db.name);
    }
}
