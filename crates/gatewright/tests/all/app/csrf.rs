//! CSRF in the server: service.md's section row by row, on every screen and endpoint.

use std::time::Duration;

use axum::body::Body;
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use serde_json::{Value, json};

const CSRF: &str = "[csrf]\nenabled = true\n[[entity]]\nname = \"notes\"\npublic = true\n\
                    [[entity.field]]\nname = \"text\"\ntype = \"text\"\n";
const ADA: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery";

/// A browser's tab: keeps every cookie that it is given.
struct Tab(Actor);

impl Tab {
    async fn get(&mut self, path: &str) -> Answer {
        let answer = self.0.get(path).await;
        self.0.keep_cookies(&answer);
        answer
    }

    /// The token that a script gets.
    async fn token(&mut self) -> String {
        self.get("/auth/csrf").await.is(200).at("/csrfToken").as_str().unwrap().to_owned()
    }

    async fn send(&mut self, path: &str, headers: &[(&str, &str)], body: String) -> Answer {
        let request = self.0.request(Method::POST, path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = self.0.send(request.body(Body::from(body)).unwrap()).await;
        self.0.keep_cookies(&answer);
        answer
    }

    async fn form(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let body: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", value.replace('@', "%40").replace(' ', "+")))
            .collect();
        self.send(path, &[("content-type", "application/x-www-form-urlencoded")], body.join("&")).await
    }

    async fn json(&mut self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> = [("content-type", "application/json")].iter().chain(headers).copied().collect();
        self.send(path, &headers, body.to_string()).await
    }

    /// Loads a screen and sends its first form, with the hidden field that it carries.
    async fn submit(&mut self, screen: &str, action: &str, fields: &[(&str, &str)]) -> Answer {
        let page = self.get(screen).await.is(200);
        let token = field(page.text());
        let fields: Vec<_> = [("_csrf", &*token)].iter().chain(fields).copied().collect();
        self.form(action, &fields).await
    }

    async fn register(&mut self) {
        self.submit("/register", "/auth/register", &[("email", ADA), ("password", PASSWORD)]).await.is(303);
    }
}

fn field(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"_csrf\" value=\"").unwrap_or_else(|| panic!("no token in {page}"));
    rest.split_once('"').unwrap().0.to_owned()
}

fn refused(answer: Answer) {
    let answer = answer.is(403);
    assert!(answer.text().contains("csrf token missing or invalid"), "{}", answer.text());
}

#[tokio::test]
async fn a_request_that_changes_something_needs_the_token_in_field_or_header() {
    for app in TestApp::on_every_engine(CSRF).await {
        let mut tab = Tab(app.anonymous());
        let note = json!({ "text": "x" });
        refused(tab.json("/notes", &note, &[]).await);
        refused(tab.form("/auth/register", &[("email", ADA), ("password", PASSWORD)]).await);
        refused(tab.json("/auth/login", &json!({ "email": ADA, "password": PASSWORD }), &[]).await);
        let token = tab.token().await;
        refused(tab.json("/notes", &note, &[]).await);
        refused(tab.json("/notes", &note, &[("x-csrf-token", "nonsense")]).await);
        let made = tab.json("/notes", &note, &[("x-csrf-token", &token)]).await.is(201);
        let path = made.header("location").unwrap().to_owned();
        let remove = tab.0.request(Method::DELETE, &path).body(Body::empty()).unwrap();
        refused(tab.0.send(remove).await);
        let remove = tab.0.request(Method::DELETE, &path).header("x-csrf-token", &token).body(Body::empty()).unwrap();
        tab.0.send(remove).await.is(204);
        tab.get("/notes").await.is(200);
        tab.form("/auth/register", &[("email", ADA), ("password", PASSWORD), ("_csrf", &token)]).await.is(303);
        // A token of another session is not valid.
        refused(Tab(app.anonymous()).json("/notes", &note, &[("x-csrf-token", &token)]).await);
    }
}

#[tokio::test]
async fn a_credential_that_no_browser_sends_by_itself_needs_no_token() {
    for app in TestApp::on_every_engine(CSRF).await {
        let mut tab = Tab(app.anonymous());
        let token = tab.token().await;
        let body = json!({ "email": ADA, "password": PASSWORD });
        let jwt = tab.json("/auth/register", &body, &[("x-csrf-token", &token)]).await.is(200).at("/token");
        let note = json!({ "text": "x" });
        let bearer = format!("Bearer {}", jwt.as_str().unwrap());
        for (header, value, status) in [
            ("authorization", &*bearer, 201),
            ("authorization", "Bearer svc_0000000000000000000000000000000000000000", 201),
            ("x-api-key", "anything", 201),
            ("authorization", "Basic YTpi", 403),
            ("authorization", "Bearer", 403),
        ] {
            let mut program = Tab(app.anonymous());
            program.json("/notes", &note, &[(header, value)]).await.is(status);
        }
    }
}

#[tokio::test]
async fn a_token_is_valid_only_for_the_session_it_was_issued_to() {
    for app in TestApp::on_every_engine(CSRF).await {
        let mut tab = Tab(app.anonymous());
        let before = tab.token().await;
        let planted = tab.0.cookies()["csrf"].clone();
        tab.register().await;
        assert_ne!(tab.0.cookies()["csrf"], planted, "the sign-in changed the cookie at once");
        let note = json!({ "text": "x" });
        refused(tab.json("/notes", &note, &[("x-csrf-token", &before)]).await);
        let signed_in = tab.token().await;
        tab.json("/notes", &note, &[("x-csrf-token", &signed_in)]).await.is(201);
        // The attack: the attacker who planted the cookie knows a matching token.
        let session = tab.0.cookies()["session_id"].clone();
        let victim = app.anonymous().request(Method::POST, "/notes");
        let victim = victim.header(header::COOKIE, format!("session_id={session}; csrf={planted}"));
        let victim = victim.header("x-csrf-token", &before).header("content-type", "application/json");
        refused(app.anonymous().send(victim.body(Body::from("{}")).unwrap()).await);

        let bound = tab.0.cookies()["csrf"].clone();
        tab.form("/auth/logout", &[]).await.is(303);
        assert_ne!(tab.0.cookies()["csrf"], bound, "and so did the sign-out");
        refused(tab.json("/notes", &note, &[("x-csrf-token", &signed_in)]).await);
    }
}

#[tokio::test]
async fn a_pending_session_is_a_session_of_its_own() {
    for app in TestApp::on_every_engine(CSRF).await {
        let mut tab = Tab(app.anonymous());
        tab.register().await;
        let token = tab.token().await;
        let begun = tab.json("/auth/2fa/enroll", &json!({}), &[("x-csrf-token", &token)]).await.is(200);
        let secret = begun.at("/secret").as_str().unwrap().to_owned();
        let code = totp(&app, &secret);
        tab.json("/auth/2fa/verify", &json!({ "code": code }), &[("x-csrf-token", &token)]).await.is(200);
        tab.form("/auth/logout", &[]).await.is(303);
        app.wait(jiff::SignedDuration::from_secs(30));

        let login = tab.submit("/login", "/auth/login", &[("email", ADA), ("password", PASSWORD)]).await.is(303);
        assert_eq!(login.header("location"), Some("/two-factor"));
        let pending = tab.token().await;
        let page = tab.get("/two-factor").await.is(200);
        assert_eq!(page.text().matches("name=\"_csrf\"").count(), 3);
        refused(tab.form("/auth/2fa/challenge", &[("code", &totp(&app, &secret))]).await);
        let fields = [("code", &*totp(&app, &secret)), ("_csrf", &field(page.text()))];
        tab.form("/auth/2fa/challenge", &fields).await.is(303);
        tab.get("/auth/me").await.is(200);
        refused(tab.json("/notes", &json!({}), &[("x-csrf-token", &pending)]).await);
    }
}

#[tokio::test]
async fn signing_out_needs_no_token_but_a_cross_site_form_is_refused() {
    for app in TestApp::on_every_engine(CSRF).await {
        let mut tab = Tab(app.anonymous());
        tab.register().await;
        let form = ("content-type", "application/x-www-form-urlencoded");
        let stranger = [form, ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
        tab.send("/auth/logout", &stranger, String::new()).await.is(403);
        tab.get("/auth/me").await.is(200);
        for near in ["/auth/logout/", "/auth/login"] {
            let answer = tab.form(near, &[]).await;
            assert!([403, 404].contains(&answer.status()), "{near}: {}", answer.status());
        }
        tab.form("/auth/logout", &[]).await.is(303);
        tab.get("/auth/me").await.is(401);
    }
}

#[tokio::test]
async fn every_screen_and_the_magic_links_page_carry_the_field() {
    for app in TestApp::on_every_engine(CSRF).await {
        let mut tab = Tab(app.anonymous());
        for (screen, forms) in [("/login", 1), ("/register", 1), ("/forgot-password", 1)] {
            let page = tab.get(screen).await.is(200);
            assert_eq!(page.text().matches("<form").count(), forms, "{screen}");
            assert_eq!(page.text().matches("name=\"_csrf\"").count(), forms, "{screen}");
            assert_eq!(page.header("cache-control"), Some("no-store"), "{screen}");
        }
        tab.submit("/login", "/auth/magic-link/send", &[("email", ADA)]).await.is(200);
        let mails = app.anonymous().get("/dev/mail.json").await.is(200).json();
        let link = mails[0]["links"][0].as_str().unwrap().to_owned();
        let (_, path) = link.split_once("8080").unwrap();
        let page = tab.get(path).await.is(200);
        let token = path.split_once("token=").unwrap().1;
        refused(tab.form("/auth/magic-link/verify", &[("token", token)]).await);
        let fields = [("token", token), ("_csrf", &field(page.text()))];
        tab.form("/auth/magic-link/verify", &fields).await.is(303);
        tab.get("/auth/me").await.is(200);

        tab.submit("/forgot-password", "/auth/forgot-password", &[("email", ADA)]).await.is(200);
        app.app().auth().unwrap().settle(Duration::from_secs(10)).await;
        let mails = app.anonymous().get("/dev/mail.json").await.is(200).json();
        let links = mails.as_array().unwrap().iter().flat_map(|mail| mail["links"].as_array().unwrap());
        let link = links.filter_map(Value::as_str).find(|link| link.contains("/reset-password?token=")).unwrap();
        let page = tab.get(link.split_once("8080").unwrap().1).await.is(200);
        assert_eq!(page.text().matches("name=\"_csrf\"").count(), 1, "{}", page.text());
        assert_eq!(page.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn the_cookie_follows_the_scheme_that_a_trusted_proxy_names() {
    let trusting = format!("[server]\ntrusted_proxies = [\"127.0.0.1/32\"]\n{CSRF}");
    let elsewhere = format!("[server]\ntrusted_proxies = [\"10.0.0.0/8\"]\n{CSRF}");
    for (config, proto, expected) in [
        (&*trusting, "https", "__Host-csrf"),
        (&*trusting, "http", "csrf"),
        (&*elsewhere, "https", "csrf"),
        (CSRF, "https", "__Host-csrf"),
    ] {
        for app in TestApp::on_every_engine(config).await {
            let anybody = app.anonymous();
            let request = anybody.request(Method::GET, "/auth/csrf").header("x-forwarded-proto", proto);
            let answer = anybody.send(request.body(Body::empty()).unwrap()).await.is(200);
            let line = answer.header("set-cookie").unwrap();
            assert!(line.starts_with(&format!("{expected}=")), "{line}");
            assert!(line.contains("HttpOnly") && line.contains("SameSite=Lax") && line.contains("Path=/"), "{line}");
            assert_eq!(line.contains("Secure"), expected.starts_with("__Host-"), "{line}");
        }
    }
}

#[tokio::test]
async fn a_stale_cookie_is_replaced_by_the_refusal_and_by_the_next_page() {
    for app in TestApp::on_every_engine(CSRF).await {
        let mut tab = Tab(app.anonymous());
        tab.token().await;
        let stale = tab.0.cookies()["csrf"].clone();
        let session = {
            let mut other = Tab(app.anonymous());
            other.register().await;
            other.0.cookies()["session_id"].clone()
        };
        let cookies = format!("session_id={session}; csrf={stale}");
        let fresh = |answer: &Answer| answer.set_cookies().into_iter().find(|(name, _)| name == "csrf");
        for path in ["/auth/csrf", "/notes"] {
            let method = if path == "/notes" { Method::POST } else { Method::GET };
            let request = app.anonymous().request(method, path).header(header::COOKIE, &cookies);
            let answer = app.anonymous().send(request.body(Body::empty()).unwrap()).await;
            let (_, value) = fresh(&answer).unwrap_or_else(|| panic!("{path} heals nothing"));
            assert_ne!(value, stale, "{path}");
        }
        // A post from another site comes without the cookie, and must not replace the good one.
        let stranger = app.anonymous().post("/notes", json!({})).await;
        assert!(fresh(&stranger).is_none());
    }
}

#[tokio::test]
async fn open_forms_work_after_a_change_of_secret_if_the_old_one_is_listed() {
    let with = |csrf: &str| CSRF.replacen("enabled = true\n", &format!("enabled = true\n{csrf}\n"), 1);
    let before = TestApp::on_every_engine(&with("secret = \"one\"")).await.remove(0);
    let rotated = TestApp::on_every_engine(&with("secret = \"two\"\nprevious_secrets = [\"one\"]")).await.remove(0);
    let dropped = TestApp::on_every_engine(&with("secret = \"two\"")).await.remove(0);
    let mut tab = Tab(before.anonymous());
    let token = tab.token().await;
    for (app, status) in [(&rotated, 201), (&dropped, 403)] {
        let request = app.anonymous().request(Method::POST, "/notes").header("x-csrf-token", &token);
        let request = request.header(header::COOKIE, format!("csrf={}", tab.0.cookies()["csrf"]));
        let request = request.header("content-type", "application/json").body(Body::from("{\"text\":\"x\"}"));
        app.anonymous().send(request.unwrap()).await.is(status);
    }
}

#[tokio::test]
async fn the_token_endpoint_uses_the_configured_key_case_and_is_404_without_csrf() {
    for app in TestApp::on_every_engine(&format!("[server]\njson_case = \"snake\"\n{CSRF}")).await {
        let answer = app.anonymous().get("/auth/csrf").await.is(200);
        assert_eq!(answer.at("/csrf_token").as_str().unwrap().len(), 128);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for app in TestApp::on_every_engine(&format!("[auth]\nbase_path = \"/identity\"\n{CSRF}")).await {
        app.anonymous().get("/identity/csrf").await.is(200);
        app.anonymous().post("/identity/logout", json!({})).await.is(204);
    }
    for app in TestApp::on_every_engine("").await {
        app.anonymous().get("/auth/csrf").await.is(404);
        app.anonymous().post("/auth/logout", json!({})).await.is(204);
    }
}

/// The code of an authenticator at the application's time.
fn totp(app: &TestApp, secret: &str) -> String {
    let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
    let authenticator = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    authenticator.generate(u64::try_from(app.now().as_second()).unwrap()).to_string()
}
