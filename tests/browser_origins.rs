//! A real browser on several origins, with the browser backend: what an allowed page can do, and what other pages
//! cannot.
//!
//! `127.0.0.1` with another port is another origin of the same site; `localhost` is another site.

use serde_json::{Value, json};

use crate::harness::{Browser, Database, Launch, PASSWORD, Pages, Scripts, Server};

const ADA: &str = "ada@example.com";
const EVE: &str = "eve@example.com";

/// The requests of an application's page: all with credentials, and mutating ones with the CSRF token.
const CALL: &str = r#"
const [base, method, path, body, token, done] = arguments;
(async () => {
  const headers = {};
  if (body !== null) headers["Content-Type"] = "application/json";
  if (token) {
    const answer = await fetch(base + "/auth/csrf", { credentials: "include" });
    headers["X-CSRF-Token"] = (await answer.json()).csrfToken;
  }
  const init = { method, headers, credentials: "include" };
  if (body !== null) init.body = JSON.stringify(body);
  const answer = await fetch(base + path, init);
  const text = await answer.text();
  done({ status: answer.status, body: text ? JSON.parse(text) : null });
})().catch(error => done({ refused: String(error) }));
"#;

struct Place {
    server: Server,
    allowed: Pages,
    other: Pages,
}

impl Place {
    async fn start() -> Self {
        let (allowed, other) = (Pages::serve("<h1>app</h1>").await, Pages::serve("<h1>other</h1>").await);
        let config = format!(
            "[browser_backend]\nallowed_origins = [\"{}\"]\n[[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\n\
             [[entity.field]]\nname = \"text\"\ntype = \"text\"\n",
            allowed.origin("127.0.0.1")
        );
        let server = Launch::configured(&config).start(&Database::Sqlite).await;
        Self { server, allowed, other }
    }

    fn base(&self) -> String {
        format!("http://{}", self.server.address())
    }

    async fn call(&self, browser: &Browser, method: &str, path: &str, body: Value, token: bool) -> Value {
        browser.run(CALL, json!([self.base(), method, path, body, token])).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_page_works_with_credentials_and_no_other_page_does() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let place = Place::start().await;
    let ada = json!({ "email": ADA, "password": PASSWORD });
    browser.open(&place.allowed.origin("127.0.0.1")).await;
    let registered = place.call(&browser, "POST", "/auth/register", ada.clone(), true).await;
    assert_eq!((&registered["status"], &registered["body"]["token"]), (&json!(200), &Value::Null), "{registered}");
    let login = place.call(&browser, "POST", "/auth/login", ada.clone(), true).await;
    assert_eq!((&login["status"], &login["body"]["token"]), (&json!(200), &Value::Null), "{login}");
    let me = place.call(&browser, "GET", "/auth/me", Value::Null, false).await;
    assert_eq!(me["body"]["user"]["email"], ADA, "{me}");
    let made = place.call(&browser, "POST", "/api/notes", json!({ "text": "mine" }), true).await;
    assert_eq!(made["status"], 201, "{made}");
    let id = made["body"]["data"]["id"].as_str().unwrap().to_owned();
    let without = place.call(&browser, "POST", "/api/notes", json!({ "text": "no token" }), false).await;
    assert_eq!((&without["status"], &without["body"]["code"]), (&json!(403), &json!("csrf")));
    // PATCH and DELETE need their own preflight.
    let changed = place.call(&browser, "PATCH", &format!("/api/notes/{id}"), json!({ "text": "still" }), true).await;
    assert_eq!(changed["status"], 200, "{changed}");
    // The cookies belong to the server's origin, and scripts cannot read them.
    assert_eq!(browser.run("arguments[0](document.cookie)", json!([])).await, "");
    browser.open(&format!("{}/login", place.base())).await;
    let cookies = browser.cookies().await;
    assert!(cookies.iter().any(|name| name == "__Host-session"), "{cookies:?}");
    assert!(cookies.iter().any(|name| name == "__Host-csrf"), "{cookies:?}");

    // Pages that are not allowed, of the same site or of another, can read nothing and change nothing.
    for origin in [place.other.origin("127.0.0.1"), place.other.origin("localhost"), place.allowed.origin("localhost")]
    {
        browser.open(&origin).await;
        for (method, path, body) in [
            ("GET", "/auth/me", Value::Null),
            ("GET", "/auth/csrf", Value::Null),
            ("GET", "/api/notes", Value::Null),
            ("POST", "/api/notes", json!({ "text": "theirs" })),
            ("DELETE", &*format!("/api/notes/{id}"), Value::Null),
        ] {
            let refused = place.call(&browser, method, path, body, false).await;
            assert!(refused["refused"].is_string(), "{origin}: {method} {path} came back with {refused}");
        }
    }
    browser.open(&place.allowed.origin("127.0.0.1")).await;
    let list = place.call(&browser, "GET", "/api/notes", Value::Null, false).await;
    assert_eq!((&list["body"]["total"], &list["body"]["data"][0]["text"]), (&json!(1), &json!("still")), "{list}");
    let out = place.call(&browser, "POST", "/auth/logout", json!({}), false).await;
    assert_eq!(out["status"], 204, "{out}");
    assert_eq!(place.call(&browser, "GET", "/auth/me", Value::Null, false).await["status"], 401);
}

/// The attack: a page makes its visitor's browser send a form, for which browsers send no preflight.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_page_cannot_sign_in_or_out_or_redeem_a_link() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    for (backend, csrf) in [(true, ""), (false, ""), (false, "[csrf]\nenabled = true\n")] {
        let place = if backend {
            Place::start().await
        } else {
            let server = Launch::configured(csrf).start(&Database::Sqlite).await;
            Place { server, allowed: Pages::serve("").await, other: Pages::serve("").await }
        };
        let base = place.base();
        // Eve wants Ada to be signed in to Eve's account.
        register(&browser, &place, EVE).await;
        register(&browser, &place, ADA).await;
        browser.open(&format!("{base}/login")).await;
        sign_in(&browser, ADA).await;
        let eves_link = eves_link(&browser, &place).await;
        let token = eves_link.split_once("token=").unwrap().1.to_owned();
        let attacks = [
            ("/auth/login", json!({ "email": EVE, "password": PASSWORD })),
            ("/auth/register", json!({ "email": "fresh@example.com", "password": PASSWORD })),
            ("/auth/logout", json!({})),
            ("/auth/magic-link/verify", json!({ "token": token })),
        ];
        for origin in [place.other.origin("127.0.0.1"), place.other.origin("localhost")] {
            for (path, fields) in &attacks {
                for enctype in ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"] {
                    browser.open(&origin).await;
                    submit(&browser, &format!("{base}{path}"), enctype, fields).await;
                    browser.open(&base).await;
                    browser.sees("Signed in as ada@example.com").await;
                }
            }
        }
        // The attack did not use up the link: its own page redeems it.
        browser.open(&eves_link).await;
        browser.press("Sign in").await;
        browser.sees("Signed in as eve@example.com").await;
        browser.press("Sign out").await;
        browser.sees("create an account").await;
    }
}

async fn register(browser: &Browser, place: &Place, email: &str) {
    browser.open(&format!("{}/register", place.base())).await;
    browser.fill("Email", email).await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Create account").await;
    browser.sees(&format!("Signed in as {email}")).await;
    browser.press("Sign out").await;
    browser.sees("create an account").await;
}

async fn sign_in(browser: &Browser, email: &str) {
    browser.fill("Email", email).await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Sign in").await;
    browser.sees(&format!("Signed in as {email}")).await;
}

/// Requested on the server's own page, and read from Eve's mailbox.
async fn eves_link(browser: &Browser, place: &Place) -> String {
    let script = r#"
        const [email, done] = arguments;
        (async () => {
          const form = new URLSearchParams({ email });
          const token = await fetch("/auth/csrf");
          if (token.ok) form.set("_csrf", (await token.json()).csrfToken);
          done((await fetch("/auth/magic-link/send", { method: "POST", body: form })).status);
        })().catch(error => done(String(error)));"#;
    // The policy of the server's pages forbids inline scripts. The driver's scripts run anyway, except for their
    // connections.
    browser.open(&format!("{}/healthz", place.base())).await;
    assert_eq!(browser.run(script, json!([EVE])).await, 200);
    let mails = place.server.client().get("/dev/mail.json").await.is(200).json();
    let mail = mails.as_array().unwrap().iter().find(|mail| mail["to"] == EVE).expect("Eve has mail").clone();
    mail["links"][0].as_str().unwrap().to_owned()
}

/// Makes the page submit its own form, and waits until the browser shows the target.
async fn submit(browser: &Browser, action: &str, enctype: &str, fields: &Value) {
    let script = r#"
        const [action, enctype, fields, done] = arguments;
        const form = document.createElement("form");
        Object.assign(form, { action, enctype, method: "POST" });
        for (const [name, value] of Object.entries(fields)) {
          const input = document.createElement("input");
          Object.assign(input, { type: "hidden", name, value });
          form.append(input);
        }
        document.body.append(form);
        done(null);
        setTimeout(() => form.submit(), 0);"#;
    browser.run(script, json!([action, enctype, fields])).await;
    browser.arrives(action).await;
}
