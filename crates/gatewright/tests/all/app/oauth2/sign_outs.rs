//! Sign-outs by OpenID Connect: a program signs its user out, and programs are told that a session has ended.

use std::sync::Arc;

use gatewright::auth::plugins::authorization_server::{ClientPurpose, RelyingParty};
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use url::form_urlencoded;

use super::openid::{OPENID, SIGN_IN, again, claims};
use super::{CALLBACK, authorize, code, exchange, form, hidden, public_client, text};

/// A client of the operator's with these wishes.
async fn party(app: &TestApp, relying_party: RelyingParty) -> String {
    let redirect_uris = vec![CALLBACK.to_owned()];
    let purpose = ClientPurpose::Users { redirect_uris, scopes: None, confidential: false, relying_party };
    app.app().auth().unwrap().oauth2_clients().unwrap().create("Wiki", purpose).await.unwrap().0.id
}

pub(super) fn end(pairs: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("/auth/oauth2/end_session?{query}")
}

#[tokio::test]
async fn a_program_signs_its_user_out() {
    const AFTER: &str = "https://app.example.com/bye";
    for app in TestApp::on_every_engine(OPENID).await {
        let wishes = RelyingParty { post_logout_redirect_uris: vec![AFTER.to_owned()], ..RelyingParty::default() };
        let client = party(&app, wishes).await;
        app.signed_in("ada@example.com").await;
        let login = async || {
            let user = again(&app, "ada@example.com").await;
            let code = code(&user, &client, &[("scope", "openid")]).await;
            let tokens = exchange(&app, &client, &code, &[]).await.is(200).json();
            (user, text(&tokens, "id_token"))
        };
        let (user, hint) = login().await;
        // Only registered addresses, exactly.
        for uri in ["https://app.example.com/bye/", "https://app.example.com/bye?x", "https://evil.example/", CALLBACK]
        {
            let to = end(&[("id_token_hint", &hint), ("post_logout_redirect_uri", uri)]);
            user.get(&to).await.is(400);
        }
        user.get(&end(&[("id_token_hint", &hint), ("client_id", "another")])).await.is(400);
        user.get("/auth/me").await.is(200);
        // With the token of this session the user is not asked, also if it has expired.
        app.wait(SignedDuration::from_hours(2));
        let pairs = [("id_token_hint", &*hint), ("post_logout_redirect_uri", AFTER), ("state", "a b&c")];
        let gone = user.get(&end(&pairs)).await.is(303);
        assert_eq!(gone.header("location"), Some("https://app.example.com/bye?state=a+b%26c"), "{}", app.engine());
        assert!(gone.header("set-cookie").unwrap().contains("Max-Age=0"));
        user.get("/auth/me").await.is(401);
        // A second time, without a session.
        assert!(user.get(&end(&pairs)).await.is(303).header("location").unwrap().starts_with(AFTER));

        // Without the token, or with one of another session or user, the user decides.
        let (other, _) = login().await;
        let bob = app.signed_in("bob@example.com").await;
        for (actor, hint) in [(&other, Some(&*hint)), (&bob, Some(&*hint)), (&other, None), (&other, Some("e30.e30.x"))]
        {
            let pairs: Vec<_> = hint.map(|hint| ("id_token_hint", hint)).into_iter().collect();
            let page = actor.get(&end(&pairs)).await.is(200);
            assert!(page.text().contains("Sign out?"), "{}", page.text());
            actor.get("/auth/me").await.is(200);
        }
        let pairs = [("client_id", &*client), ("post_logout_redirect_uri", AFTER)];
        let page = other.get(&end(&pairs)).await.is(200);
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("form-action 'self' https://app.example.com;"), "{policy}");
        let (request, seal) = (hidden(page.text(), "request"), hidden(page.text(), "seal"));
        let press = async |actor: &Actor, request: &str, decision: &str| {
            let pairs = [("request", request), ("seal", &*seal), ("decision", decision)];
            form(actor, "/auth/oauth2/end_session", &pairs).await
        };
        press(&other, &request, "stay").await.is(200);
        // The form is of this session and this request.
        press(&bob, &request, "sign_out").await.is(403);
        press(&other, &request.replace("bye", "by"), "sign_out").await.is(403);
        other.get("/auth/me").await.is(200);
        let gone = press(&other, &request, "sign_out").await.is(303);
        assert_eq!(gone.header("location"), Some(AFTER));
        other.get("/auth/me").await.is(401);
        bob.get("/auth/me").await.is(200);
        // A program's own form is repeated as a GET, which has the cookie.
        let posted = form(&app.anonymous(), "/auth/oauth2/end_session", &pairs).await.is(303);
        assert!(posted.header("location").unwrap().starts_with("/auth/oauth2/end_session?client_id="));
    }
}

/// Anybody can register a client, sign in to it with an account of their own, and publish an address with its `id_token`.
#[tokio::test]
async fn a_token_of_another_session_leads_no_browser_anywhere_and_ends_nothing() {
    const EVIL: &str = "https://evil.example/";
    for app in TestApp::on_every_engine(OPENID).await {
        let body = json!({ "redirect_uris": [CALLBACK], "post_logout_redirect_uris": [EVIL] });
        let evil = text(&app.anonymous().post("/auth/oauth2/register", body).await.is(201).json(), "client_id");
        let thief = app.signed_in("thief@example.com").await;
        let stolen = code(&thief, &evil, &[("scope", "openid")]).await;
        let hint = text(&exchange(&app, &evil, &stolen, &[]).await.is(200).json(), "id_token");
        let to = end(&[("id_token_hint", &hint), ("post_logout_redirect_uri", EVIL)]);
        let page = app.anonymous().get(&to).await.is(200);
        assert!(page.text().contains(EVIL), "a link, and no redirect");
        let victim = app.signed_in("ada@example.com").await;
        let page = victim.get(&to).await.is(200);
        let (request, seal) = (hidden(page.text(), "request"), hidden(page.text(), "seal"));
        let pairs = [("request", &*request), ("seal", &*seal), ("decision", "sign_out")];
        // The seal is of this form alone.
        form(&victim, "/auth/oauth2/authorize", &pairs).await.is(403);
        victim.get("/auth/me").await.is(200);
        form(&victim, "/auth/oauth2/end_session", &pairs).await.is(200);
        victim.get("/auth/me").await.is(401);
        // With its own session the client is known.
        assert_eq!(thief.get(&to).await.is(303).header("location"), Some(EVIL), "{}", app.engine());
        // A program's own form, with what no header may contain.
        let odd =
            form(&app.anonymous(), "/auth/oauth2/end_session", &[("state", "a\r\nset-cookie: x=y")]).await.is(303);
        assert!(odd.header("set-cookie").is_none() && odd.header("location").unwrap().contains("%0D%0A"));
    }
}

/// The `id_token` of a device names no session.
#[tokio::test]
async fn a_device_signs_nobody_out() {
    for app in TestApp::on_every_engine(OPENID).await {
        let (user, client) = (app.signed_in("ada@example.com").await, public_client(&app).await);
        let asked = [("client_id", &*client), ("scope", "openid")];
        let begun = form(&app.anonymous(), "/auth/oauth2/device_authorization", &asked).await.is(200).json();
        let page = form(&user, "/device", &[("user_code", &text(&begun, "user_code"))]).await.is(200);
        let (request, seal) = (hidden(page.text(), "request"), hidden(page.text(), "seal"));
        form(&user, "/device", &[("request", &*request), ("seal", &*seal), ("decision", "allow")]).await.is(200);
        let code = text(&begun, "device_code");
        let grant = "urn:ietf:params:oauth:grant-type:device_code";
        let pairs = [("grant_type", grant), ("client_id", &*client), ("device_code", &*code)];
        let tokens = form(&app.anonymous(), "/auth/oauth2/token", &pairs).await.is(200).json();
        let page = user.get(&end(&[("id_token_hint", &text(&tokens, "id_token"))])).await.is(200);
        assert!(page.text().contains("Sign out?"), "{}", app.engine());
        user.get("/auth/me").await.is(200);
    }
}

/// What a program of the tests was told, and how it answers.
struct Program {
    uri: String,
    told: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<Vec<&'static str>>>,
}

impl Program {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/logout", listener.local_addr().unwrap());
        let (told, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (of_program, says) =
            (Arc::<Mutex<Vec<String>>>::clone(&told), Arc::<Mutex<Vec<&'static str>>>::clone(&answers));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let mut buffer = [0; 4_096];
                loop {
                    let read = stream.read(&mut buffer).await.unwrap_or(0);
                    request.extend_from_slice(&buffer[..read]);
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let length = text
                        .to_ascii_lowercase()
                        .split("content-length: ")
                        .nth(1)
                        .and_then(|rest| rest.split('\r').next()?.parse::<usize>().ok());
                    let whole = text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length.unwrap_or(0));
                    if whole || read == 0 {
                        break;
                    }
                }
                of_program.lock().await.push(String::from_utf8_lossy(&request).into_owned());
                let status = says.lock().await.pop().unwrap_or("200 OK");
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { uri, told, answers }
    }

    /// The claims of the next logout token.
    async fn next(&self, app: &TestApp) -> (Value, Value) {
        for _ in 0..600 {
            if let Some(request) = self.told.lock().await.pop() {
                assert!(request.starts_with("POST /logout"), "{request}");
                let body = request.split_once("\r\n\r\n").unwrap().1;
                let token = body.strip_prefix("logout_token=").expect("a logout token");
                return claims(app, token).await;
            }
            app.wait(SignedDuration::from_secs(1));
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("the program was not told")
    }
}

/// However a session ends, and again until the program has heard it.
#[tokio::test]
async fn programs_are_told_that_a_session_has_ended() {
    for app in TestApp::on_every_engine(OPENID).await {
        let program = Program::listen().await;
        let wishes = RelyingParty { backchannel_logout_uri: Some(program.uri.clone()), ..RelyingParty::default() };
        let client = party(&app, wishes).await;
        for (round, way) in ["logout", "another session", "end of all", "disabled"].into_iter().enumerate() {
            let user = app.signed_in(&format!("ada{round}@example.com")).await;
            let code = code(&user, &client, &[("scope", "openid")]).await;
            let tokens = exchange(&app, &client, &code, &[]).await.is(200).json();
            let (_, signed_in) = claims(&app, &text(&tokens, "id_token")).await;
            tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
            assert!(program.told.lock().await.is_empty(), "the session is there");
            if round == 0 {
                // The program is not there, then it fails.
                *program.answers.lock().await = vec!["503 Service Unavailable", "400 Bad Request"];
            }
            match way {
                "logout" => drop(user.post("/auth/logout", json!({})).await.is(204)),
                "another session" => {
                    let other = again(&app, &format!("ada{round}@example.com")).await;
                    let sid = signed_in["sid"].as_str().unwrap();
                    other.delete(&format!("/auth/sessions/{sid}")).await.is(204);
                }
                "end of all" => {
                    let id = gatewright_base::UserId::parse(signed_in["sub"].as_str().unwrap()).unwrap();
                    app.app().auth().unwrap().accounts().sign_out_everywhere(&id).await.unwrap();
                }
                _ => {
                    let id = gatewright_base::UserId::parse(signed_in["sub"].as_str().unwrap()).unwrap();
                    app.app().auth().unwrap().accounts().disable(&id).await.unwrap();
                }
            }
            let times = if round == 0 { 3 } else { 1 };
            for _ in 0..times {
                let (header, told) = program.next(&app).await;
                assert_eq!(header["typ"], "logout+jwt", "{way}");
                for name in ["iss", "aud", "sub", "sid"] {
                    assert_eq!(told[name], signed_in[name], "{way} {name} {told}");
                }
                assert!(told["events"]["http://schemas.openid.net/event/backchannel-logout"].is_object(), "{told}");
                assert!(told["jti"].is_string() && told.get("nonce").is_none(), "{told}");
                assert_eq!(told["exp"].as_i64().unwrap() - told["iat"].as_i64().unwrap(), 120);
            }
            let left = async || app.app().db().query("SELECT id FROM oauth2_logouts", vec![]).await.unwrap().len();
            for _ in 0..100 {
                if left().await == 0 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            assert_eq!(left().await, 0, "{way} {}", app.engine());
            assert!(program.told.lock().await.is_empty(), "{way}: once");
        }
    }
}

#[tokio::test]
async fn the_wishes_of_a_client_that_registers_itself_are_checked() {
    let app = TestApp::on_every_engine(OPENID).await.remove(0);
    for uri in ["http://10.0.0.1/", "https://user:pw@app.example.com/", "ftp://app.example.com/"] {
        let body = json!({ "redirect_uris": [CALLBACK], "backchannel_logout_uri": uri });
        let refused = app.anonymous().post("/auth/oauth2/register", body).await.is(400).json();
        assert_eq!(refused["error"], "invalid_client_metadata", "{uri}");
    }
    let body =
        json!({ "redirect_uris": [CALLBACK], "post_logout_redirect_uris": null, "backchannel_logout_uri": null });
    app.anonymous().post("/auth/oauth2/register", body).await.is(201);
    let body = json!({
        "redirect_uris": [CALLBACK], "backchannel_logout_uri": "https://app.example.com/logout",
        "post_logout_redirect_uris": ["https://app.example.com/bye"],
    });
    let registered = app.anonymous().post("/auth/oauth2/register", body).await.is(201).json();
    assert_eq!(registered["backchannel_logout_uri"], "https://app.example.com/logout");
    assert_eq!(registered["post_logout_redirect_uris"], json!(["https://app.example.com/bye"]));
    let page = app
        .signed_in("ada@example.com")
        .await
        .get(&authorize(&text(&registered, "client_id"), &[("scope", SIGN_IN)]))
        .await;
    let page = page.is(200);
    for words in ["know which account is yours, and its roles", "read your profile", "read your address"] {
        assert!(page.text().contains(words), "{words}: {}", page.text());
    }
}
