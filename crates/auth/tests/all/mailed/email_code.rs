//! Codes by mail: signing in by six digits, with the cookie of a browser or with the request of an app.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use gatewright_auth::{AuthConfig, MailKind, Registration};
use gatewright_base::Secret;
use gatewright_db::testing::TestDb;
use http::header::SET_COOKIE;
use serde_json::{Value, json};

use super::{Place, plugins, with_public_url};
use crate::support::{ANN, Answer, Call, Factor, PASSWORD, databases, unlimited};

const SEND: &str = "/auth/email-code/send";
const VERIFY: &str = "/auth/email-code/verify";
const EVE: &str = "eve@example.com";

/// What an app has after it asked for a code, and the code in the mail.
#[derive(Clone)]
struct Asked {
    email: String,
    request: String,
    cookie: String,
    code: String,
}

impl Asked {
    fn body(&self) -> Value {
        json!({ "email": self.email, "code": self.code, "request": self.request })
    }

    fn with_code(&self, code: &str) -> Value {
        json!({ "email": self.email, "code": code, "request": self.request })
    }

    /// Another code of six digits.
    fn wrong(&self, number: u32) -> Value {
        let right: u32 = self.code.parse().unwrap();
        self.with_code(&format!("{:06}", (right + 1 + number) % 1_000_000))
    }
}

/// The cookie of a request.
fn cookie_of(answer: &Answer) -> String {
    let lines = answer.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
    let line = lines.into_iter().find(|line| line.starts_with("__Host-svc_email_code=")).unwrap();
    assert!(line.contains("; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=600"), "{line}");
    line.split(';').next().unwrap().to_owned()
}

/// A place where only the limits of codes themselves refuse.
async fn place(db: &TestDb) -> Place {
    place_with(db, |_| ()).await
}

async fn place_with(db: &TestDb, change: impl FnOnce(&mut AuthConfig)) -> Place {
    let mut config = with_public_url();
    config.limits.email_code.policy = unlimited();
    change(&mut config);
    Place::with(config, |builder| plugins(builder).database(db.db.clone())).await
}

impl Place {
    async fn ask(&self, email: &str) -> Asked {
        let answer = Call::post(SEND).json(&json!({ "email": email })).send(&self.site).await.expect(200);
        let mail = self.mails().await.pop().expect("a mail was sent");
        assert_eq!((mail.kind, mail.to.as_str()), (MailKind::EmailCode, email));
        let request = answer.json()["request"].as_str().unwrap().to_owned();
        let code = mail.code.as_ref().unwrap().expose().to_owned();
        Asked { email: email.to_owned(), cookie: cookie_of(&answer), request, code }
    }

    async fn by_code(&self, body: &Value) -> Answer {
        Call::post(VERIFY).json(body).send(&self.site).await
    }
}

#[track_caller]
fn is_refused(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (401, &json!("invalid_code")), "{answer:?}");
    assert!(answer.cookie().is_none());
}

#[tokio::test]
async fn an_app_without_cookies_signs_in_by_code_and_request_once() {
    for db in databases().await {
        let place = place(&db).await;
        let asked = place.ask(ANN).await;
        assert!(asked.code.len() == 6 && asked.code.bytes().all(|byte| byte.is_ascii_digit()), "{}", asked.code);
        let typed = format!(" {} {} ", &asked.code[..3], &asked.code[3..]);
        let session = place.by_code(&asked.with_code(&typed)).await.expect(200);
        assert_eq!(
            (&session.json()["user"]["email"], &session.json()["user"]["roles"]),
            (&json!(ANN), &json!(["user"]))
        );
        let me = place.site.me(&session).await.expect(200).json();
        assert_eq!(me["emailVerified"], true, "{}", db.name);
        Call::get("/whoami").bearer(&session.token()).send(&place.site).await.expect(200);
        let names = place.site.audited().iter().map(|kind| kind.name()).collect::<Vec<_>>();
        assert_eq!(names, ["emailcode.requested", "register.succeeded", "emailcode.consumed", "login.succeeded"]);
        let again = place.by_code(&asked.body()).await;
        is_refused(&again);
    }
}

#[tokio::test]
async fn a_browser_signs_in_by_the_code_and_its_cookie() {
    for db in databases().await {
        let place = place(&db).await;
        let asked = place.ask(ANN).await;
        let body = json!({ "email": ANN, "code": asked.code });
        let session = Call::post(VERIFY).json(&body).cookie(&asked.cookie).send(&place.site).await.expect(200);
        assert_eq!(session.json()["user"]["email"], ANN);
        let removed = session.headers.get_all(SET_COOKIE).iter().any(|line| {
            let line = line.to_str().unwrap();
            line.starts_with("__Host-svc_email_code=;") && line.contains("Max-Age=0")
        });
        assert!(removed, "{session:?}");
    }
}

/// The attack: somebody reads a code over a shoulder, or in a log of mails, and has no request.
#[tokio::test]
async fn a_code_is_useless_without_its_own_request_or_cookie() {
    for db in databases().await {
        let place = place(&db).await;
        let (mine, other, eve) = (place.ask(ANN).await, place.ask(ANN).await, place.ask(EVE).await);
        let body = |email: &str, request: Option<&str>| match request {
            Some(request) => json!({ "email": email, "code": mine.code, "request": request }),
            None => json!({ "email": email, "code": mine.code }),
        };
        let flipped = {
            let mut text = mine.request.clone().into_bytes();
            text[20] = if text[20] == b'A' { b'B' } else { b'A' };
            String::from_utf8(text).unwrap()
        };
        for request in [None, Some(""), Some("x"), Some(&*other.request), Some(&*eve.request), Some(&*flipped)] {
            let refused = place.by_code(&body(ANN, request)).await;
            is_refused(&refused);
        }
        // The right request for another address.
        is_refused(&place.by_code(&body(EVE, Some(&mine.request))).await);
        is_refused(&place.by_code(&body("not an address", Some(&mine.request))).await);
        // In a browser that asked for another code, its cookie decides.
        let elsewhere = Call::post(VERIFY).json(&mine.body()).cookie(&other.cookie).send(&place.site).await;
        is_refused(&elsewhere);
        // A cookie of another kind of mail is none of this one.
        let (_, value) = mine.cookie.split_once('=').unwrap();
        let swapped = format!("__Host-svc_magic_link={value}");
        let call = Call::post("/auth/magic-link/verify").json(&json!({ "code": mine.code })).cookie(&swapped);
        is_refused(&call.send(&place.site).await);
        place.by_code(&mine.body()).await.expect(200);
    }
}

/// A request is no longer than its address makes it, and neither it nor the database contains the code.
#[tokio::test]
async fn neither_the_request_nor_the_database_contains_the_code() {
    for db in databases().await {
        let place = place(&db).await;
        let asked = place.ask(ANN).await;
        let bytes = URL_SAFE_NO_PAD.decode(&asked.request).unwrap();
        assert!(!bytes.windows(6).any(|part| part == asked.code.as_bytes()));
        assert!(!bytes.windows(ANN.len()).any(|part| part == ANN.as_bytes()));
        let sql = "SELECT token_hash, purpose, email, user_id, next, demand FROM single_use_tokens";
        let rows = db.db.query(sql, Vec::new()).await.unwrap();
        assert_eq!(rows.len(), 1);
        let hash: Vec<u8> = rows[0].get("token_hash").unwrap();
        let code = asked.code.as_bytes();
        assert_eq!(hash.len(), 32);
        assert!(!hash.windows(6).any(|part| part == code) && !bytes.windows(32).any(|part| part == hash));
        assert_eq!(rows[0].get::<Option<String>>("next").unwrap(), None);
        let mut codes = HashSet::from([asked.code]);
        for _ in 0..4 {
            codes.insert(place.ask(ANN).await.code);
        }
        assert!(codes.len() > 1, "codes are random");
    }
}

#[tokio::test]
async fn a_mail_has_five_attempts_also_if_twenty_come_at_once() {
    for db in databases().await {
        let place = place(&db).await;
        let asked = place.ask(ANN).await;
        for guess in 0..5 {
            is_refused(&place.by_code(&asked.wrong(guess)).await);
        }
        let limited = place.by_code(&asked.body()).await.expect(429);
        assert_eq!(limited.body, "rate limit exceeded");

        let asked = place.ask(ANN).await;
        let guesses: Vec<Value> = (0..20).map(|guess| asked.wrong(guess)).collect();
        let statuses = join_all(guesses.iter().map(|guess| place.by_code(guess))).await;
        let statuses: Vec<_> = statuses.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 5, "{} {statuses:?}", db.name);
        place.by_code(&asked.body()).await.expect(429);
        // The owner asks for another code.
        let asked = place.ask(ANN).await;
        place.by_code(&asked.body()).await.expect(200);
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_uses_of_a_code_on_two_replicas_signs_in() {
    for db in databases().await {
        let (one, two) = (place(&db).await, place(&db).await);
        let asked = one.ask(ANN).await;
        let body = asked.body();
        let tries = (0..20).map(|index| if index % 2 == 0 { one.by_code(&body) } else { two.by_code(&body) });
        let statuses: Vec<_> = join_all(tries).await.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{} {statuses:?}", db.name);
        assert!(statuses.iter().all(|status| matches!(status, 200 | 401 | 429)), "{} {statuses:?}", db.name);
    }
}

/// The attack: many networks, each with mails and attempts of its own, guess at one mailbox.
#[tokio::test]
async fn wrong_codes_from_many_networks_are_limited_by_mailbox_and_known_devices_are_not_locked_out() {
    for db in databases().await {
        let place = place(&db).await;
        let first = place.ask(ANN).await;
        let signed_in = place.by_code(&first.body()).await.expect(200);
        let device = signed_in.headers.get_all(SET_COOKIE).iter().find_map(|line| {
            let pair = line.to_str().unwrap().split(';').next().unwrap();
            pair.contains("svc_device").then(|| pair.to_owned())
        });
        let (mut wrong, mut refused) = (0, false);
        'guessing: for network in 0..8_u8 {
            let peer: &'static str = format!("198.51.100.{}", network + 1).leak();
            let send = Call::post(SEND).from(peer).json(&json!({ "email": ANN }));
            let request = send.send(&place.site).await.expect(200).json()["request"].as_str().unwrap().to_owned();
            let code = place.mails().await.pop().unwrap().code.unwrap().expose().to_owned();
            let asked = Asked { request, code, cookie: String::new(), email: ANN.to_owned() };
            for guess in 0..5 {
                let answer = Call::post(VERIFY).from(peer).json(&asked.wrong(guess)).send(&place.site).await;
                if answer.status.as_u16() == 429 {
                    refused = true;
                    break 'guessing;
                }
                wrong += 1;
            }
        }
        assert!(refused && wrong == 20, "{wrong} guesses on {}", db.name);
        let asked = place.ask(ANN).await;
        place.by_code(&asked.body()).await.expect(429);
        let device = device.expect("the browser is a known device");
        let here = Call::post(VERIFY).json(&asked.body()).cookie(&device).send(&place.site).await;
        here.expect(200);
        // Magic links work, and so do other mailboxes.
        let link = place.magic_token(ANN).await;
        place.redeem(&link).await.expect(200);
        let eve = place.ask(EVE).await;
        place.by_code(&eve.body()).await.expect(200);
    }
}

/// A stranger's own requests use up nothing of a mailbox that they do not know a request of.
#[tokio::test]
async fn requests_of_one_mailbox_count_for_no_other() {
    for db in databases().await {
        let place = place(&db).await;
        let eve = place.ask(EVE).await;
        for _ in 0..30 {
            let body = json!({ "email": ANN, "code": eve.code, "request": eve.request });
            is_refused(&place.by_code(&body).await);
        }
        let ann = place.ask(ANN).await;
        place.by_code(&ann.body()).await.expect(200);
        place.by_code(&eve.body()).await.expect(200);
    }
}

#[tokio::test]
async fn failures_are_limited_by_address_and_a_success_is_given_back() {
    for db in databases().await {
        let place = place_with(&db, |config| config.limits.email_code = AuthConfig::default().limits.email_code).await;
        let asked = place.ask(ANN).await;
        place.by_code(&asked.body()).await.expect(200);
        for _ in 0..10 {
            is_refused(&place.by_code(&json!({ "email": ANN, "code": "123456", "request": "x" })).await);
        }
        place.by_code(&json!({ "email": ANN, "code": "123456", "request": "x" })).await.expect(429);
    }
}

#[tokio::test]
async fn a_code_ends_after_ten_minutes() {
    for db in databases().await {
        let place = place(&db).await;
        let (soon, late) = (place.ask(ANN).await, place.ask(ANN).await);
        place.site.advance(599);
        place.by_code(&soon.body()).await.expect(200);
        place.site.advance(1);
        is_refused(&place.by_code(&late.body()).await);
    }
}

/// Neither the answer nor the mail reveals whether there is an account, an open registration, or a mail at all.
#[tokio::test]
async fn unknown_addresses_get_the_same_answer() {
    for db in databases().await {
        let place = place_with(&db, |config| config.registration = Registration::Closed).await;
        let accounts = place.site.auth.accounts();
        accounts.create(ANN, Some(Secret::new(PASSWORD)), None).await.unwrap();
        let mut told = Vec::new();
        for email in [ANN, "bob@example.com"] {
            let mut requests = Vec::new();
            // More than are mailed.
            for _ in 0..12 {
                let answer = Call::post(SEND).json(&json!({ "email": email })).send(&place.site).await.expect(200);
                let body = answer.json();
                assert_eq!((body["sent"].as_bool(), body.as_object().unwrap().len()), (Some(true), 2));
                requests.push(body["request"].as_str().unwrap().to_owned());
                assert!(cookie_of(&answer).ends_with(requests.last().unwrap()));
            }
            let mut statuses = Vec::new();
            for request in [&requests[0], &requests[11]] {
                for _ in 0..6 {
                    let body = json!({ "email": email, "code": "12345", "request": request });
                    let refused = place.by_code(&body).await;
                    statuses.push((refused.status.as_u16(), refused.body));
                }
            }
            let length = |text: &String| URL_SAFE_NO_PAD.decode(text).unwrap().len() - email.len();
            told.push((requests.iter().map(length).collect::<Vec<_>>(), statuses));
        }
        assert_eq!(told[0], told[1], "{}", db.name);
        let mails = place.mails().await;
        let count = |email: &str| mails.iter().filter(|mail| mail.to.as_str() == email).count();
        assert_eq!((count(ANN), count("bob@example.com")), (10, 10));
        // Only the owner of the mailbox is told that registration is closed.
        let bob = mails.iter().rev().find(|mail| mail.to.as_str() == "bob@example.com").unwrap();
        assert_eq!(bob.lifetime.as_secs(), 600);
    }
}

#[tokio::test]
async fn registration_disabled_accounts_second_factors_and_claims_are_as_for_magic_links() {
    for db in databases().await {
        let (place, factor) = Place::with_factor(&db.db).await;
        // Eve registers Ann's address and waits.
        let jwt = place.site.register_ann().await.token();
        let session = place.site.login_ann().await.expect(200);
        place.site.advance(1);
        factor.set(Factor::Enrolled);
        let asked = place.ask(ANN).await;
        let ann = place.by_code(&asked.body()).await.expect(200);
        assert!(ann.json().get("two_factor_required").is_none(), "Eve's second factor is gone");
        place.site.me(&session).await.expect(401);
        assert!(!place.is_good(&jwt).await, "{}", db.name);
        place.site.login(ANN, PASSWORD).await.expect(401);

        factor.set(Factor::Enrolled);
        let asked = place.ask(ANN).await;
        let pending = place.by_code(&asked.body()).await.expect(200);
        assert_eq!(pending.json()["two_factor_required"], true);
        assert!(pending.json().get("token").is_none());
        place.site.me(&pending).await.expect(403);

        let before = place.ask(ANN).await;
        let user = place.site.auth.accounts().find(ANN).await.unwrap();
        place.site.auth.accounts().disable(&user.id).await.unwrap();
        is_refused(&place.by_code(&before.body()).await);
        let asked = place.ask(ANN).await;
        let refused = place.by_code(&asked.body()).await.expect(401);
        assert_eq!(refused.json()["code"], "invalid_credentials");
        assert!(refused.cookie().is_none());
    }
    for db in databases().await {
        let place = place_with(&db, |config| config.registration = Registration::Closed).await;
        let asked = place.ask("bob@example.com").await;
        let refused = place.by_code(&asked.body()).await.expect(403);
        assert_eq!(refused.json()["code"], "registration_closed");
        assert!(refused.cookie().is_none());
    }
    for db in databases().await {
        let place = place_with(&db, |config| config.require_verified_email = true).await;
        place.site.register_ann().await;
        let asked = place.ask(ANN).await;
        let session = place.by_code(&asked.body()).await.expect(200);
        assert_eq!(place.site.me(&session).await.expect(200).json()["emailVerified"], true);
    }
}

#[tokio::test]
async fn a_page_of_another_or_a_sibling_site_cannot_sign_its_visitor_in_by_code() {
    for db in databases().await {
        let place = place(&db).await;
        let eve = place.ask(EVE).await;
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "null"),
        ] {
            for call in [
                Call::post(VERIFY).json(&eve.body()),
                Call::post(VERIFY).form(&[("email", EVE), ("code", &eve.code), ("request", &eve.request)]),
            ] {
                let answer = call.header(name, value).send(&place.site).await.expect(403);
                assert!(answer.body.contains("cross-site request refused") && answer.cookie().is_none());
            }
        }
        place.by_code(&eve.body()).await.expect(200);
    }
}

#[tokio::test]
async fn a_form_gets_a_page_for_the_digits_and_goes_on_to_next() {
    for db in databases().await {
        let Place { site, post } = place(&db).await;
        let place = Place { site: site.and_screens(), post };
        let fields = [("email", ANN), ("next", "/deep")];
        let page = Call::post(SEND).form(&fields).send(&place.site).await.expect(200);
        let cookie = cookie_of(&page);
        for part in [
            "action=\"/auth/email-code/verify\"",
            "inputmode=\"numeric\"",
            "name=\"email\" value=\"ann@example.com\"",
            "name=\"next\" value=\"/deep\"",
        ] {
            assert!(page.body.contains(part), "{part}: {}", page.body);
        }
        assert!(!page.body.contains("a link") && !page.body.contains("the link"), "the mail has none: {}", page.body);
        let code = place.mails().await.pop().unwrap().code.unwrap().expose().to_owned();
        let wrong = if code == "000000" { "000001" } else { "000000" };
        let typed = async |code: &str| {
            let fields = [("email", ANN), ("code", code), ("next", "/deep")];
            Call::post(VERIFY).form(&fields).cookie(&cookie).send(&place.site).await
        };
        let again = typed(wrong).await.expect(401);
        assert!(again.body.contains("role=\"alert\"") && again.body.contains("inputmode=\"numeric\""), "{again:?}");
        let answer = typed(&code).await.expect(303);
        assert_eq!(answer.location(), Some("/deep"));
        assert!(answer.cookie().is_some());
    }
}

#[tokio::test]
async fn nothing_but_an_address_asks_for_a_code() {
    for db in databases().await {
        let place = place(&db).await;
        for body in [
            json!({}),
            json!({ "email": "x" }),
            json!({ "email": "ann@example.com\r\nBcc: eve@example.com" }),
            json!({ "email": ANN, "more": true }),
        ] {
            Call::post(SEND).json(&body).send(&place.site).await.expect(422);
        }
        assert!(place.mails().await.is_empty());
        for body in [json!({}), json!({ "email": ANN }), json!({ "email": ANN, "code": 123_456 })] {
            place.by_code(&body).await.expect(422);
        }
    }
}
