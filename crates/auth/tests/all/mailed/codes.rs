//! Codes in mails: typed in the requesting browser, in place of the link.

use futures_util::future::join_all;
use gatewright_auth::{AuthConfig, MailKind};
use gatewright_db::testing::TestDb;
use http::header::SET_COOKIE;
use serde_json::{Value, json};

use super::{FORGOT, NEW_PASSWORD, Place, RESET, SEND, VERIFY};
use crate::support::{ANN, Answer, Call, PASSWORD, databases, unlimited};

const VERIFY_EMAIL: &str = "/auth/verify-email";

/// A browser that asked for a mail, and the code that came with it.
struct Asked {
    cookie: String,
    code: String,
    token: String,
}

/// The cookie with which an answer lets its browser type a code.
fn cookie_of(answer: &Answer, name: &str) -> String {
    let lines = answer.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
    let prefix = format!("__Host-svc_{name}=");
    let line = lines.into_iter().find(|line| line.starts_with(&prefix)).unwrap_or_else(|| panic!("{answer:?}"));
    assert!(line.contains("; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age="), "{line}");
    line.split(';').next().unwrap().to_owned()
}

async fn place(db: &TestDb) -> Place {
    let place = Place::on(&db.db).await;
    place.site.register_ann().await;
    place
}

impl Place {
    /// The browser after it requested a mail with this call.
    async fn asked(&self, call: Call, name: &str, kind: MailKind) -> Asked {
        let answer = call.send(&self.site).await.expect(200);
        let token = self.token(kind, ANN).await;
        let code = self.mails().await.last().unwrap().code.as_ref().unwrap().expose().to_owned();
        Asked { cookie: cookie_of(&answer, name), code, token }
    }

    async fn magic(&self) -> Asked {
        self.asked(Call::post(SEND).json(&json!({ "email": ANN })), "magic_link", MailKind::MagicLink).await
    }

    async fn bring(&self, path: &str, asked: &Asked, body: &Value) -> Answer {
        Call::post(path).json(body).cookie(&asked.cookie).send(&self.site).await
    }
}

#[tokio::test]
async fn a_code_works_like_its_link_in_the_requesting_browser() {
    for db in databases().await {
        let place = place(&db).await;
        let magic = place.magic().await;
        let typed = format!(" {} ", magic.code.to_lowercase().replace('-', " "));
        let session = place.bring(VERIFY, &magic, &json!({ "code": typed })).await.expect(200);
        assert_eq!(session.json()["user"]["email"], ANN);
        let removed = session.headers.get_all(SET_COOKIE).iter().any(|line| {
            let line = line.to_str().unwrap();
            line.starts_with("__Host-svc_magic_link=;") && line.contains("Max-Age=0")
        });
        assert!(removed, "{session:?}");

        let reset = place
            .asked(Call::post(FORGOT).json(&json!({ "email": ANN })), "password_reset", MailKind::PasswordReset)
            .await;
        let body = json!({ "code": reset.code, "password": NEW_PASSWORD });
        place.bring(RESET, &reset, &body).await.expect(200);
        place.site.advance(1);
        let session = place.site.login(ANN, NEW_PASSWORD).await.expect(200);

        let call = Call::post("/auth/send-verification").json(&json!({})).cookie_of(&session);
        let verification = place.asked(call, "email_verification", MailKind::EmailVerification).await;
        let body = json!({ "code": verification.code });
        let verified = place.bring(VERIFY_EMAIL, &verification, &body).await.expect(200);
        assert_eq!(verified.json(), json!({ "verified": true }));
    }
}

#[tokio::test]
async fn a_code_of_another_browser_is_refused_and_attempts_are_limited() {
    for db in databases().await {
        let place = place(&db).await;
        let (other, first, mine) = (place.magic().await, place.magic().await, place.magic().await);
        let reset = place
            .asked(Call::post(FORGOT).json(&json!({ "email": ANN })), "password_reset", MailKind::PasswordReset)
            .await;
        let change = |at: usize| {
            let mut symbols: Vec<char> = mine.code.chars().collect();
            symbols[at] = if symbols[at] == '7' { '8' } else { '7' };
            symbols.into_iter().collect::<String>()
        };
        // Each with a mail of its own, so that no limit answers in its place.
        for code in
            [String::new(), "0000-0000".to_owned(), change(0), change(8), mine.code[..8].to_owned(), other.code.clone()]
        {
            let asked = place.magic().await;
            let refused = place.bring(VERIFY, &asked, &json!({ "code": code })).await.expect(401);
            assert_eq!(refused.json()["code"], "invalid_code", "{code}");
            place.site.advance(300);
        }
        // Neither the cookie of another browser, nor none, nor one of another purpose.
        place.bring(VERIFY, &first, &json!({ "code": mine.code })).await.expect(401);
        Call::post(VERIFY).json(&json!({ "code": mine.code })).send(&place.site).await.expect(401);
        let (_, value) = reset.cookie.split_once('=').unwrap();
        let swapped = Asked { cookie: format!("__Host-svc_magic_link={value}"), ..reset };
        place.bring(VERIFY, &swapped, &json!({ "code": swapped.code })).await.expect(401);

        let mine = place.magic().await;
        for guess in 0..5 {
            place.bring(VERIFY, &mine, &json!({ "code": format!("0000-000{guess}") })).await.expect(401);
        }
        let limited = place.bring(VERIFY, &mine, &json!({ "code": mine.code })).await.expect(429);
        assert_eq!(limited.body, "rate limit exceeded");
        // The owner has the link still, and a further mail.
        place.redeem(&mine.token).await.expect(200);
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_uses_of_link_and_code_succeeds() {
    for db in databases().await {
        let place = place(&db).await;
        let asked = place.magic().await;
        let by_code = json!({ "code": asked.code });
        let tries = (0..20).map(|number| {
            let place = &place;
            let (asked, by_code) = (&asked, &by_code);
            async move {
                match number % 5 {
                    0 => place.bring(VERIFY, asked, by_code).await,
                    _ => place.redeem(&asked.token).await,
                }
                .status
                .as_u16()
            }
        });
        let statuses = join_all(tries).await;
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{} {statuses:?}", db.name);
        place.redeem(&asked.token).await.expect(401);
        place.bring(VERIFY, &asked, &by_code).await.expect(401);
    }
}

#[tokio::test]
async fn a_code_ends_with_its_link() {
    for db in databases().await {
        let place = place(&db).await;
        let (spent, late) = (place.magic().await, place.magic().await);
        place.redeem(&spent.token).await.expect(200);
        place.bring(VERIFY, &spent, &json!({ "code": spent.code })).await.expect(401);
        place.site.advance(15 * 60);
        place.bring(VERIFY, &late, &json!({ "code": late.code })).await.expect(401);
    }
}

/// Neither the answer, nor the cookie, nor the refusal of a code reveals whether there is an account.
#[tokio::test]
async fn a_reset_for_an_unknown_address_is_indistinguishable_from_a_real_one() {
    for db in databases().await {
        let mut config = super::with_public_url();
        config.limits.password_reset.policy = unlimited();
        let place = Place::with(config, |builder| super::plugins(builder).database(db.db.clone())).await;
        place.site.register_ann().await;
        let mut told = Vec::new();
        for email in [ANN, "abc@example.com"] {
            for form in [false, true] {
                let call = Call::post(FORGOT);
                let call = if form { call.form(&[("email", email)]) } else { call.json(&json!({ "email": email })) };
                let answer = call.send(&place.site).await.expect(200);
                let cookie = cookie_of(&answer, "password_reset");
                let mut statuses = Vec::new();
                for _ in 0..6 {
                    let body = json!({ "code": "0000-0000", "password": NEW_PASSWORD });
                    let refused = Call::post(RESET).json(&body).cookie(&cookie).send(&place.site).await;
                    statuses.push((refused.status.as_u16(), refused.body));
                }
                assert_eq!((statuses[4].0, statuses[5].0), (401, 429));
                told.push((form, cookie.len(), answer.body.replace(email, "the address"), statuses));
            }
        }
        let of_unknown = told.split_off(2);
        assert_eq!(told, of_unknown);
    }
}

/// Each mail has its own few attempts, so a stranger cannot lock out the owner's code. The guesses per mailbox are limited by
/// the number of its mails: a code whose mail was not sent is invalid.
#[tokio::test]
async fn a_strangers_guesses_do_not_use_up_the_owners_code() {
    for db in databases().await {
        let unlimited = |mut config: AuthConfig| {
            config.limits.magic_link.policy = unlimited();
            config
        };
        let config = unlimited(super::with_public_url());
        let place = Place::with(config, |builder| super::plugins(builder).database(db.db.clone())).await;
        place.site.register_ann().await;
        let mine = place.magic().await;
        for _ in 0..30 {
            let answer = Call::post(SEND).json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
            let cookie = cookie_of(&answer, "magic_link");
            let mut statuses = Vec::new();
            for _ in 0..6 {
                let body = json!({ "code": "0000-0000" });
                statuses.push(Call::post(VERIFY).json(&body).cookie(&cookie).send(&place.site).await.status.as_u16());
            }
            assert_eq!(statuses, [401, 401, 401, 401, 401, 429]);
        }
        assert!(place.mails().await.len() <= 20, "{}", place.mails().await.len());
        place.bring(VERIFY, &mine, &json!({ "code": mine.code })).await.expect(200);
    }
}

#[tokio::test]
async fn the_magic_link_page_requires_the_code_in_another_browser() {
    for db in databases().await {
        let Place { site, post } = place(&db).await;
        let place = Place { site: site.and_screens(), post };
        // By a form.
        let call = Call::post(SEND).form(&[("email", ANN)]);
        let answer = call.send(&place.site).await.expect(200);
        assert!(answer.body.contains("name=\"code\"") && answer.body.contains("action=\"/auth/magic-link/verify\""));
        let cookie = cookie_of(&answer, "magic_link");
        let mail = place.mails().await.pop().unwrap();
        let (path, token) =
            mail.link.expose().strip_prefix("https://app.example.com").unwrap().split_once("token=").unwrap();
        let page = format!("{path}token={token}");
        let here = Call::get(&page).cookie(&cookie).send(&place.site).await.expect(200).body;
        assert!(here.contains("autofocus>Sign in") && !here.contains("name=\"code\""), "{here}");
        let elsewhere = Call::get(&page).send(&place.site).await.expect(200).body;
        assert!(elsewhere.contains("name=\"code\" type=\"text\"") && elsewhere.contains("required"), "{elsewhere}");
        // A program that presses buttons.
        for code in ["", "0000-0000"] {
            let pressed = Call::post(VERIFY)
                .form(&[("token", token), ("code", code), ("bound", "true")])
                .send(&place.site)
                .await
                .expect(401);
            assert!(
                pressed.body.contains("invalid or expired code") && pressed.body.contains("name=\"code\""),
                "{pressed:?}"
            );
        }
        let code = mail.code.as_ref().unwrap().expose();
        Call::post(VERIFY).form(&[("token", token), ("code", code)]).send(&place.site).await.expect(303);

        // By a program: its link is as it was.
        let asked = place.magic().await;
        let page = Call::get(&format!("{VERIFY}?token={}", asked.token)).send(&place.site).await.expect(200).body;
        assert!(!page.contains("name=\"code\""), "{page}");
    }
}

/// What the link needs is stored with its token. The bearer leaves out, adds and changes everything that they can.
#[tokio::test]
async fn a_link_that_a_form_requested_demands_the_code_whatever_its_bearer_sends() {
    for db in databases().await {
        let place = place(&db).await;
        Call::post(SEND).form(&[("email", ANN)]).send(&place.site).await.expect(200);
        let mail = place.mails().await.pop().unwrap();
        let token = mail.link.expose().split_once("token=").unwrap().1;
        for query in ["", "&bound=", "&bound=false"] {
            let page = Call::get(&format!("{VERIFY}?token={token}{query}")).send(&place.site).await.expect(200).body;
            assert!(page.contains("name=\"code\""), "{query}: {page}");
        }
        Call::post(VERIFY).form(&[("token", token)]).send(&place.site).await.expect(401);
        Call::post(VERIFY).form(&[("token", token), ("bound", "false")]).send(&place.site).await.expect(401);
        for body in [json!({ "token": token }), json!({ "token": token, "bound": null, "demand": "nothing" })] {
            let refused = Call::post(VERIFY).json(&body).send(&place.site).await.expect(401);
            assert_eq!(refused.json()["code"], "invalid_code", "{}", db.name);
        }
        // A cookie of another mail is not one of this mail.
        let other = Call::post(SEND).form(&[("email", "eve@example.com")]).send(&place.site).await.expect(200);
        let cookie = cookie_of(&other, "magic_link");
        Call::post(VERIFY).json(&json!({ "token": token })).cookie(&cookie).send(&place.site).await.expect(401);
        let code = mail.code.as_ref().unwrap().expose();
        Call::post(VERIFY).json(&json!({ "token": token, "code": code })).send(&place.site).await.expect(200);
    }
}

/// The person who types the code there has no session: an unproven account is claimed.
#[tokio::test]
async fn the_verification_page_requires_the_code_in_another_browser() {
    for db in databases().await {
        let Place { site, post } = place(&db).await;
        let place = Place { site: site.and_screens(), post };
        let session = place.site.login_ann().await.expect(200);
        let call = Call::post("/auth/send-verification").form(&[]).cookie_of(&session);
        let answer = call.send(&place.site).await.expect(200);
        assert!(answer.body.contains("name=\"code\"") && answer.body.contains("action=\"/auth/verify-email\""));
        let cookie = cookie_of(&answer, "email_verification");
        let mail = place.mails().await.pop().unwrap();
        let (path, token) =
            mail.link.expose().strip_prefix("https://app.example.com").unwrap().split_once("token=").unwrap();
        let page = || Call::get(&format!("{path}token={token}")).header("accept", "text/html");
        let here = page().cookie(&cookie).send(&place.site).await.expect(200).body;
        assert!(here.contains("action=\"/auth/verify-email\"") && !here.contains("name=\"code\""), "{here}");
        let elsewhere = page().send(&place.site).await.expect(200).body;
        assert!(elsewhere.contains("name=\"code\" type=\"text\"") && elsewhere.contains("required"), "{elsewhere}");
        let proven = async || place.site.auth.accounts().find(ANN).await.unwrap().email_verified;
        let press = async |code: &str| {
            let form = [("token", token), ("code", code), ("bound", "true")];
            Call::post(VERIFY_EMAIL).form(&form).send(&place.site).await
        };
        for code in ["", "0000-0000"] {
            let refused = press(code).await.expect(401).body;
            assert!(refused.contains("invalid or expired code") && refused.contains("name=\"code\""), "{refused}");
        }
        assert!(!proven().await, "{}", db.name);
        press(mail.code.as_ref().unwrap().expose()).await.expect(200);
        assert!(proven().await, "{}", db.name);
        // The browser that asked is not the one that has proven the mailbox.
        place.site.me(&session).await.expect(401);
    }
}

/// A person types codes, step by step.
#[tokio::test]
async fn the_pages_accept_codes_and_show_errors() {
    for db in databases().await {
        let Place { site, post } = place(&db).await;
        let place = Place { site: site.and_screens(), post };
        let answer = Call::post(FORGOT).form(&[("email", ANN)]).send(&place.site).await.expect(200);
        let cookie = cookie_of(&answer, "password_reset");
        place.mails().await;
        let send = async |code: &str, password: &str| {
            let fields = [("code", code), ("password", password)];
            Call::post(RESET).form(&fields).cookie(&cookie).send(&place.site).await
        };
        let code = place.mails().await.last().unwrap().code.as_ref().unwrap().expose().to_owned();
        // Short passwords use up no attempt.
        for _ in 0..6 {
            assert!(send(&code, "short").await.expect(422).body.contains("name=\"code\""));
        }
        assert!(send("0000-0000", NEW_PASSWORD).await.expect(401).body.contains("invalid or expired code"));
        send(&code, NEW_PASSWORD).await.expect(200);
        place.site.advance(1);
        place.site.login(ANN, PASSWORD).await.expect(401);
        place.site.login(ANN, NEW_PASSWORD).await.expect(200);
    }
}
