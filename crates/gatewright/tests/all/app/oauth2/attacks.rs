//! The attacks of RFC 9700 and of the security page of the MCP specification, each by its name there.

use axum::body::Body;
use futures_util::future::join_all;
use gatewright_testing::TestApp;
use http::{Method, header};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    CALLBACK, ENTITIES, MCP, VERIFIER, answered, authorize, code, connected, exchange, form, hidden, parameter, press,
    public_client, refresh, text,
};

/// Code injection, PKCE downgrade, redirect manipulation, mix-up of clients: every binding of a code, one by one.
#[tokio::test]
async fn a_code_is_bound_to_client_redirect_verifier_and_resource() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let (client, other) = (public_client(&app).await, public_client(&app).await);
        for (changes, error) in [
            (&[("client_id", &*other)][..], "invalid_grant"),
            (&[("code_verifier", "another-verifier-of-forty-three-characters-x")], "invalid_grant"),
            (&[("code_verifier", "")], "invalid_request"),
            (&[("redirect_uri", "https://app.example.com/other")], "invalid_grant"),
            (&[("redirect_uri", "")], "invalid_grant"),
            (&[("resource", MCP)], "invalid_target"),
            (&[("resource", "https://evil.example")], "invalid_target"),
            (&[("code", "gwc_guess")], "invalid_grant"),
            (&[("grant_type", "password")], "unsupported_grant_type"),
        ] {
            let code = code(&user, &client, &[]).await;
            let refused = exchange(&app, &client, &code, changes).await.is(400).json();
            assert_eq!(refused["error"], error, "{changes:?}");
        }
        let code = code(&user, &client, &[]).await;
        app.wait(jiff::SignedDuration::from_secs(61));
        exchange(&app, &client, &code, &[]).await.is(400);
        // A client id that no database can store is unknown like any other.
        let unknown = exchange(&app, "nobody", &code, &[]).await;
        let impossible = exchange(&app, "no\0body", &code, &[]).await;
        assert_eq!((impossible.status(), impossible.json()), (unknown.status(), unknown.json()), "{}", app.engine());
    }
}

#[tokio::test]
async fn a_request_without_pkce_is_refused_before_the_user_is_asked() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        for changes in [
            [("code_challenge", ""), ("code_challenge_method", "")],
            [("code_challenge", VERIFIER), ("code_challenge_method", "plain")],
            [("code_challenge_method", ""), ("x", "y")],
        ] {
            let pairs = answered(&user.get(&authorize(&client, &changes)).await.is(303));
            assert_eq!(parameter(&pairs, "error").as_deref(), Some("invalid_request"), "{changes:?}");
        }
    }
}

#[tokio::test]
async fn no_answer_goes_to_an_unregistered_redirect_uri() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        for redirect in [
            "https://evil.example/callback",
            "https://app.example.com/callback/../evil",
            "https://app.example.com.evil.example/callback",
            "https://app.example.com@evil.example/callback",
            "https://app.example.com\\@evil.example/callback",
            "https://app.example.com/callback#x",
            "https://app.example.com/callback?x=1",
            "http://app.example.com/callback",
            "//app.example.com/callback",
            "javascript:alert(1)",
        ] {
            let answer = user.get(&authorize(&client, &[("redirect_uri", redirect)])).await.is(400);
            assert_eq!(answer.header("location"), None, "{redirect}");
        }
        user.get(&authorize("nobody", &[])).await.is(400);
    }
}

/// A replayed code ends the tokens that it gave.
#[tokio::test]
async fn a_reused_code_revokes_its_tokens() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        let code = code(&user, &client, &[]).await;
        let tokens = exchange(&app, &client, &code, &[]).await.is(200).json();
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.get("/notes").await.is(200);
        exchange(&app, &client, &code, &[]).await.is(400);
        program.get("/notes").await.is(401);
        refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400);
        assert_eq!(audited(&app, "oauth2.replay_detected").await, 1);
    }
}

#[tokio::test]
async fn a_reused_refresh_token_ends_its_family() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (_, client, first) = connected(&app, &[]).await;
        let second = refresh(&app, &client, &text(&first, "refresh_token")).await.is(200).json();
        refresh(&app, &client, &text(&first, "refresh_token")).await.is(400);
        refresh(&app, &client, &text(&second, "refresh_token")).await.is(400);
        app.anonymous().bearing(&text(&second, "access_token")).get("/notes").await.is(401);
        assert_eq!(audited(&app, "oauth2.replay_detected").await, 1);
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_redemptions_succeeds() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        let first = code(&user, &client, &[]).await;
        let tries = join_all((0..20).map(|_| exchange(&app, &client, &first, &[]))).await;
        let won: Vec<Value> = tries.iter().filter(|answer| answer.status() == 200).map(|won| won.json()).collect();
        assert_eq!(won.len(), 1, "{}", app.engine());
        assert!(tries.iter().all(|answer| matches!(answer.status(), 200 | 400)));

        let other = public_client(&app).await;
        let second = code(&user, &other, &[]).await;
        let tokens = exchange(&app, &other, &second, &[]).await.is(200).json();
        let token = text(&tokens, "refresh_token");
        let tries = join_all((0..20).map(|_| refresh(&app, &other, &token))).await;
        assert_eq!(tries.iter().filter(|answer| answer.status() == 200).count(), 1, "{}", app.engine());
    }
}

/// Cross-site request forgery and tampering with the consent form.
#[tokio::test]
async fn a_consent_form_is_valid_only_in_its_own_session_and_for_its_own_request() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (ada, bob) = (app.signed_in("ada@example.com").await, app.signed_in("bob@example.com").await);
        let client = public_client(&app).await;
        let page = ada.get(&authorize(&client, &[])).await.is(200).text().to_owned();
        press(&bob, &page, "allow").await.is(403);
        press(&app.anonymous(), &page, "allow").await.is(401);
        let (request, seal) = (hidden(&page, "request"), hidden(&page, "seal"));
        for (request, seal) in [
            (request.replace("notes%3Aread", "notes%3Awrite"), seal.clone()),
            (request.clone(), String::new()),
            (request.clone(), seal.replace(&seal[..4], "AAAA")),
            (format!("{request}&scope=drafts:write"), seal.clone()),
        ] {
            let pairs = [("request", &*request), ("seal", &*seal), ("decision", "allow")];
            form(&ada, "/auth/oauth2/authorize", &pairs).await.is(403);
        }
        // From another site, with the browser's cookies.
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("request", &*request), ("seal", &*seal), ("decision", "allow")])
            .finish();
        let forged = ada
            .request(Method::POST, "/auth/oauth2/authorize")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ORIGIN, "https://evil.example");
        ada.send(forged.body(Body::from(body)).unwrap()).await.is(403);
        press(&ada, &page, "allow").await.is(303);
    }
}

/// Scope escalation: at the request, at the refresh, and by what the client registered for.
#[tokio::test]
async fn scopes_never_grow() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (user, client, tokens) = connected(&app, &[]).await;
        for scope in ["*:*", "notes:*", "*:read", "admin:write", "notes", "openid"] {
            let pairs = answered(&user.get(&authorize(&client, &[("scope", scope)])).await.is(303));
            assert_eq!(parameter(&pairs, "error").as_deref(), Some("invalid_scope"), "{scope}");
        }
        let token = text(&tokens, "refresh_token");
        for scope in ["notes:write", "notes:read drafts:read", "*:*"] {
            let pairs = [
                ("grant_type", "refresh_token"),
                ("client_id", &*client),
                ("refresh_token", &*token),
                ("scope", scope),
            ];
            let refused = form(&app.anonymous(), "/auth/oauth2/token", &pairs).await.is(400).json();
            assert_eq!(refused["error"], "invalid_scope", "{scope}");
        }
        // An invalid request does not spend the token.
        refresh(&app, &client, &token).await.is(200);
    }
}

/// Access tokens cannot create credentials, and lose what their user loses.
#[tokio::test]
async fn a_token_never_does_more_than_its_user() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (_, _, tokens) = connected(&app, &[("scope", "notes:read notes:write drafts:read drafts:write")]).await;
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.post("/auth/tokens", json!({ "name": "x", "scopes": ["*:*"] })).await.is(401);
        program.get("/account").await.is(401);
        let other = app.signed_in("bob@example.com").await;
        let id = other.post("/notes", json!({ "title": "x" })).await.is(201).at("/data/id");
        program.get(&format!("/notes/{}", id.as_str().unwrap())).await.is(404);
        let client = public_client(&app).await;
        let asked = program.get(&authorize(&client, &[])).await;
        assert!(!matches!(asked.status(), 200 | 303), "a token consents to nothing: {}", asked.status());
    }
}

/// SSRF by a client's metadata document.
#[tokio::test]
async fn a_document_at_a_private_address_is_never_fetched() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        for url in [
            "http://127.0.0.1:1/client.json",
            "file:///etc/passwd",
            "https://user@127.0.0.1/client.json",
            "https://127.0.0.1:1/",
        ] {
            let refused = user.get(&authorize(url, &[("redirect_uri", CALLBACK)])).await.is(400);
            assert!(refused.text().contains("unknown client"), "{url}: {}", refused.text());
        }
        // Dev mode reads documents on this computer; there is none.
        let refused = user.get(&authorize("https://127.0.0.1:1/client.json", &[])).await.is(400);
        assert!(refused.text().contains("cannot be fetched, or is not valid"), "{}", refused.text());
        // The fetches of one user are limited without affecting others.
        let address = authorize("https://127.0.0.1:1/client.json", &[]);
        join_all((0..12).map(|_| user.get(&address))).await;
        user.get(&authorize("https://127.0.0.1:1/client.json", &[])).await.is(503);
        let other = app.signed_in("bob@example.com").await;
        other.get(&authorize("https://127.0.0.1:1/client.json", &[])).await.is(400);
        // An anonymous request causes no fetch.
        app.anonymous().get(&authorize("https://127.0.0.1:1/client.json", &[])).await.is(303);
    }
}

/// Clients that registered themselves, each from the network that an expression over its number `i` names.
/// `user`: an expression for the user who has connected a client, if one has.
async fn registered(app: &TestApp, clients: u32, network: &str, user: Option<&str>) {
    let db = app.app().db();
    let sql = format!(
        "INSERT INTO oauth2_clients (id, name, source, redirect_uris, created_at, network) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {clients}) \
         SELECT 'flood-' || i, 'Flood', 'registration', '[\"{CALLBACK}\"]', c.created_at, {network} \
         FROM n, (SELECT created_at FROM oauth2_clients ORDER BY created_at LIMIT 1) c"
    );
    db.execute(sql, vec![]).await.unwrap();
    if let Some(user) = user {
        let sql = format!(
            "INSERT INTO oauth2_consents (id, user_id, client_id, resource, tenant_id, client_name, scopes, created_at) \
             SELECT 'consent-' || id, {user}, id, 'r', '', 'Flood', '[]', created_at FROM oauth2_clients WHERE name = 'Flood'"
        );
        db.execute(sql, vec![]).await.unwrap();
    }
}

/// Each network has 50 clients of a full table.
const NETWORKS: &str = "'10.' || (i % 200) || '.0.0/16'";

async fn flood_left(app: &TestApp) -> usize {
    let sql = "SELECT id FROM oauth2_clients WHERE source = 'registration' AND name = 'Flood'";
    app.app().db().query(sql, vec![]).await.unwrap().len()
}

/// The attack: clients from one IPv6 /48, each /64 within its limit, fill the table.
#[tokio::test]
async fn one_network_cannot_fill_the_table_of_clients() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let mut ids = Vec::new();
        for n in 0..504_u32 {
            let from = app.anonymous().from_address(format!("2001:db8:7:{n:x}::1").parse().unwrap());
            let client =
                from.post("/auth/oauth2/register", json!({ "redirect_uris": [CALLBACK] })).await.is(201).json();
            ids.push(text(&client, "client_id"));
            app.wait(SignedDuration::from_millis(1));
        }
        let kept = app.app().auth().unwrap().oauth2_clients().unwrap().list().await.unwrap();
        assert_eq!(kept.len(), 500);
        assert!(kept.iter().all(|client| !ids[..4].contains(&client.id)), "the oldest make room");
        let elsewhere = app.anonymous().from_address("203.0.113.200".parse().unwrap());
        elsewhere.post("/auth/oauth2/register", json!({ "redirect_uris": [CALLBACK] })).await.is(201);
    }
}

/// The attack from many networks: a client that registers now is served, and what users have connected stays.
#[tokio::test]
async fn a_full_table_displaces_unconnected_clients_and_otherwise_answers_503() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        public_client(&app).await;
        registered(&app, 10_000, NETWORKS, None).await;
        let register =
            async || app.anonymous().post("/auth/oauth2/register", json!({ "redirect_uris": [CALLBACK] })).await;
        let honest = text(&register().await.is(201).json(), "client_id");
        assert_eq!(flood_left(&app).await, 9_999);
        let user = app.signed_in("ada@example.com").await;
        code(&user, &honest, &[]).await;

        let sql = "DELETE FROM oauth2_clients WHERE name = 'Flood'";
        app.app().db().execute(sql, vec![]).await.unwrap();
        registered(&app, 9_999, NETWORKS, Some("'user-' || id")).await;
        let full = register().await.is(503);
        assert_eq!(
            (full.header("retry-after"), full.json()["error"].as_str()),
            (Some("3600"), Some("temporarily_unavailable"))
        );
        assert_eq!(flood_left(&app).await, 9_999, "nothing that users connected is displaced");
        code(&user, &honest, &[]).await;
    }
}

/// The attack: a few accounts connect as many clients as they may, and so keep the whole table.
#[tokio::test]
async fn fifty_accounts_do_not_end_registration() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let register = async |from: &str| {
            let from = app.anonymous().from_address(from.parse().unwrap());
            from.post("/auth/oauth2/register", json!({ "redirect_uris": [CALLBACK] })).await
        };
        let honest = text(&register("203.0.113.1").await.is(201).json(), "client_id");
        let user = app.signed_in("ada@example.com").await;
        code(&user, &honest, &[]).await;
        let by_account = "'user-' || (CAST(substr(id, 7) AS int) % 50)";
        for (what, network, by) in
            [("fifty accounts", NETWORKS, by_account), ("accounts of one network", "'10.1.0.0/16'", "'user-' || id")]
        {
            registered(&app, 9_999, network, Some(by)).await;
            let tries = (0..20).map(|n| register(["203.0.113.2", "203.0.113.3", "203.0.113.4", "203.0.113.5"][n % 4]));
            let tries = join_all(tries).await;
            assert!(tries.iter().all(|answer| answer.status() == 201), "{what} on {}", app.engine());
            code(&user, &honest, &[]).await;
            for sql in [
                "DELETE FROM oauth2_consents WHERE client_name = 'Flood'",
                "DELETE FROM oauth2_clients WHERE id NOT IN (SELECT client_id FROM oauth2_consents)",
            ] {
                app.app().db().execute(sql, vec![]).await.unwrap();
            }
        }
        // Connections that are over keep nothing, whoever has made them.
        registered(&app, 9_999, NETWORKS, Some("'user-' || id")).await;
        app.wait(SignedDuration::from_hours(24 * 31));
        register("203.0.113.6").await.is(201);
    }
}

/// How many audit events of a kind there are.
async fn audited(app: &TestApp, kind: &str) -> usize {
    let sql = "SELECT kind FROM audit_log WHERE kind = ?1";
    app.app().db().query(sql, gatewright_db::params![kind]).await.unwrap().len()
}
