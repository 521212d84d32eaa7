use gatewright_base::testing::cancel_after;
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::json;

use super::super::admin::{id_of, operator};
use super::{
    BASE, ENTITIES, MCP, answered, authorize, code, connected, exchange, form, parameter, press, public_client,
    refresh, text,
};

#[tokio::test]
async fn a_program_gets_tokens_by_consent_and_refreshes_them() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        user.post("/notes", json!({ "title": "mine" })).await.is(201);
        let client = public_client(&app).await;

        let page = user.get(&authorize(&client, &[])).await.is(200);
        for words in ["Notes Reader", "ada@example.com", "read notes", "app.example.com"] {
            assert!(page.text().contains(words), "{words}: {}", page.text());
        }
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("form-action 'self' https://app.example.com;"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        let german = user.clone().sending("accept-language", "de");
        let in_german = german.get(&authorize(&client, &[("scope", "notes:read notes:write")])).await.is(200);
        for words in ["notes lesen", "notes anlegen, ändern und löschen"] {
            assert!(in_german.text().contains(words), "{words}: {}", in_german.text());
        }

        let answer = press(&user, page.text(), "allow").await.is(303);
        let pairs = answered(&answer);
        assert_eq!(parameter(&pairs, "state").as_deref(), Some("the state"));
        assert_eq!(parameter(&pairs, "iss").as_deref(), Some(BASE));
        let code = parameter(&pairs, "code").unwrap();
        let answer = exchange(&app, &client, &code, &[]).await.is(200);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let tokens = answer.json();
        assert_eq!((&tokens["token_type"], &tokens["expires_in"]), (&json!("Bearer"), &json!(3600)), "{tokens}");
        assert_eq!(tokens["scope"], "notes:read");

        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        assert_eq!(program.get("/notes").await.is(200).at("/data/0/title"), "mine");
        program.post("/notes", json!({ "title": "x" })).await.is(403);
        program.get("/drafts").await.is(403);
        program.get("/auth/tokens").await.is(401);

        app.wait(SignedDuration::from_mins(61));
        let expired = program.get("/notes").await.is(401);
        let challenge = expired.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        let next = refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(200).json();
        let program = app.anonymous().bearing(&text(&next, "access_token"));
        program.get("/notes").await.is(200);
        assert_ne!(text(&next, "refresh_token"), text(&tokens, "refresh_token"));
    }
}

#[tokio::test]
async fn consent_is_remembered_for_the_client_and_its_scopes() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (user, client, _) = connected(&app, &[]).await;
        user.get(&authorize(&client, &[])).await.is(303);
        user.get(&authorize(&client, &[("scope", "notes:read notes:write")])).await.is(200);
        user.get(&authorize(&client, &[("resource", MCP)])).await.is(200);
        user.get(&authorize(&client, &[("prompt", "consent")])).await.is(200);
        let other = app.signed_in("bob@example.com").await;
        other.get(&authorize(&client, &[])).await.is(200);
        let another = public_client(&app).await;
        user.get(&authorize(&another, &[])).await.is(200);
    }
}

/// A HEAD would issue a code and show it to nobody.
#[tokio::test]
async fn head_of_the_authorization_endpoint_issues_no_code() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        code(&user, &client, &[]).await;
        let count = async || app.app().db().query("SELECT id FROM oauth2_grants", vec![]).await.unwrap().len();
        let before = count().await;
        let request = user.request(http::Method::HEAD, &authorize(&client, &[])).body("".into()).unwrap();
        let answer = user.send(request).await;
        assert_eq!((answer.status(), answer.header("allow")), (405, Some("GET, POST")), "{}", app.engine());
        assert_eq!(count().await, before, "{}", app.engine());
    }
}

#[tokio::test]
async fn a_program_learns_which_scope_it_lacks_and_where_to_get_it() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (user, _, tokens) = connected(&app, &[]).await;
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        let api = format!("{BASE}/.well-known/oauth-protected-resource");
        let wanted = |resource: &str, scope: &str| {
            format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{resource}\"")
        };
        let refused = program.post("/notes", json!({ "title": "x" })).await.is(403);
        assert_eq!(refused.header("www-authenticate"), Some(&*wanted(&api, "notes:write")));
        let refused = program.get("/drafts").await.is(403);
        assert_eq!(refused.header("www-authenticate"), Some(&*wanted(&api, "drafts:read")));

        // Tools: by the status, since a client does not read the text for the model.
        let client = public_client(&app).await;
        let code = code(&user, &client, &[("resource", MCP)]).await;
        let tokens = exchange(&app, &client, &code, &[("resource", MCP)]).await.is(200).json();
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        let call = |name: &str| json!({ "name": name, "arguments": { "title": "x" } });
        program.rpc("tools/call", json!({ "name": "notes_list", "arguments": {} })).await.is(200);
        let refused = program.rpc("tools/call", call("notes_create")).await.is(403);
        let tools = format!("{api}/mcp");
        assert_eq!(refused.header("www-authenticate"), Some(&*wanted(&tools, "notes:write")));
        assert_eq!(user.get("/notes").await.is(200).at("/total"), json!(0));

        // For a token that a person pasted there is no consent: the tool names the missing scope.
        let pasted = user.post("/auth/tokens", json!({ "name": "ci", "scopes": ["notes:read"] })).await.is(200);
        let pasted = app.anonymous().bearing(pasted.at("/token").as_str().unwrap());
        let answer = pasted.rpc("tools/call", call("notes_create")).await.is(200);
        assert_eq!(answer.at("/result/isError"), json!(true), "{}", answer.text());
        assert!(answer.text().contains("notes:write"), "{}", answer.text());
        let refused = pasted.post("/notes", json!({ "title": "x" })).await.is(403);
        assert_eq!(refused.header("www-authenticate"), Some(&*wanted(&api, "notes:write")));
    }
}

#[tokio::test]
async fn an_invalid_refresh_spends_nothing_and_one_of_twenty_succeeds() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (_, client, tokens) = connected(&app, &[]).await;
        let token = text(&tokens, "refresh_token");
        let pairs = |name: &'static str, value: &'static str| {
            [("grant_type", "refresh_token"), ("client_id", &*client), ("refresh_token", &*token), (name, value)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        for (name, value) in [("scope", "notes:write"), ("scope", "nosuch:read"), ("resource", MCP), ("resource", "x")]
        {
            let pairs = pairs(name, value);
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
            form(&app.anonymous(), "/auth/oauth2/token", &pairs).await.is(400);
        }
        let tries = (0..20).map(|_| refresh(&app, &client, &token));
        let won = futures_util::future::join_all(tries).await.into_iter().filter(|answer| answer.status() == 200);
        assert!(won.count() <= 1, "one refresh at most");
        refresh(&app, &client, &token).await.is(400);
    }
}

#[tokio::test]
async fn a_refused_consent_is_sent_to_the_client() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        let page = user.get(&authorize(&client, &[])).await.is(200);
        let pairs = answered(&press(&user, page.text(), "deny").await.is(303));
        assert_eq!(parameter(&pairs, "error").as_deref(), Some("access_denied"));
        assert_eq!(parameter(&pairs, "code"), None);
        user.get(&authorize(&client, &[])).await.is(200);
    }
}

#[tokio::test]
async fn a_browser_without_a_session_signs_in_first_and_returns() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let client = public_client(&app).await;
        let address = authorize(&client, &[]);
        let answer = app.anonymous().get(&address).await.is(303);
        let login = answer.header("location").unwrap();
        let (path, query) = login.split_once('?').unwrap();
        let next: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        assert_eq!((path, next), ("/login", vec![("next".to_owned(), address)]));
    }
}

#[tokio::test]
async fn a_user_disconnects_a_program_and_its_tokens_end() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (user, client, tokens) = connected(&app, &[]).await;
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.get("/notes").await.is(200);
        let page = user.get("/account/programs").await.is(200);
        assert!(
            page.text().contains("Connected applications") && page.text().contains("read notes"),
            "{}",
            page.text()
        );
        let end = page.text().split("action=\"/account/programs/").nth(1).unwrap().split('"').next().unwrap();
        form(&user, &format!("/account/programs/{end}"), &[]).await.is(303);
        program.get("/notes").await.is(401);
        refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400);
        user.get(&authorize(&client, &[])).await.is(200);
        assert!(user.get("/account/programs").await.text().contains("No application is connected."));
        // A program of another user is not listed.
        let other = app.signed_in("bob@example.com").await;
        let pairs: [(&str, &str); 0] = [];
        form(&other, &format!("/account/programs/{end}"), &pairs).await.is(303);
    }
}

#[tokio::test]
async fn disabling_an_account_disconnects_its_programs_for_good() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (user, client, tokens) = connected(&app, &[]).await;
        let issued = user.post("/auth/tokens", json!({ "name": "CI", "scopes": ["notes:read"] })).await.is(200);
        let own = app.anonymous().bearing(issued.at("/token").as_str().unwrap());
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.get("/notes").await.is(200);
        let (accounts, id) = (app.app().auth().unwrap().accounts(), app.user_id("ada@example.com").await);
        // The first try ends the grant but not its tokens.
        let db = app.app().db();
        db.execute("ALTER TABLE api_tokens RENAME TO hidden_tokens", vec![]).await.unwrap();
        accounts.disable(&id).await.unwrap_err();
        db.execute("ALTER TABLE hidden_tokens RENAME TO api_tokens", vec![]).await.unwrap();
        accounts.disable(&id).await.unwrap();
        program.get("/notes").await.is(401);
        accounts.enable(&id).await.unwrap();
        program.get("/notes").await.is(401);
        refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400);
        own.get("/notes").await.is(200);
    }
}

/// Two connections of one user and program, and what the user posts to end them.
struct Connections {
    programs: Vec<Actor>,
    refresh: String,
    end: String,
}

async fn connections(app: &TestApp, user: &Actor, client: &str) -> Connections {
    let (mut programs, mut refresh) = (Vec::new(), String::new());
    for _ in 0..2 {
        let code = code(user, client, &[]).await;
        let tokens = exchange(app, client, &code, &[]).await.is(200).json();
        programs.push(app.anonymous().bearing(&text(&tokens, "access_token")));
        refresh = text(&tokens, "refresh_token");
    }
    for program in &programs {
        program.get("/notes").await.is(200);
    }
    let page = user.get("/account/programs").await.is(200);
    let end = page.text().split("action=\"/account/programs/").nth(1).unwrap().split('"').next().unwrap();
    Connections { programs, refresh, end: format!("/account/programs/{end}") }
}

impl Connections {
    async fn are_over(&self, app: &TestApp, client: &str, when: &str) {
        for program in &self.programs {
            assert_eq!(program.get("/notes").await.status(), 401, "{when}, {}", app.engine());
        }
        refresh(app, client, &self.refresh).await.is(400);
    }
}

#[tokio::test]
async fn a_disconnection_that_fails_half_way_can_be_repeated() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        let connections = connections(&app, &user, &client).await;
        // Its grants are still found, but not its access tokens.
        let db = app.app().db();
        db.execute("ALTER TABLE api_tokens RENAME TO hidden_tokens", vec![]).await.unwrap();
        form(&user, &connections.end, &[]).await.is(503);
        db.execute("ALTER TABLE hidden_tokens RENAME TO api_tokens", vec![]).await.unwrap();
        for program in &connections.programs {
            program.get("/notes").await.is(200);
        }
        let page = user.get("/account/programs").await.is(200);
        assert!(page.text().contains(&connections.end), "it is listed: {}", page.text());
        form(&user, &connections.end, &[]).await.is(303);
        connections.are_over(&app, &client, "after a failure").await;
        assert!(user.get("/account/programs").await.text().contains("No application is connected."));
    }
}

/// A caller who disconnects at any moment can repeat the request.
#[tokio::test]
async fn a_disconnection_whose_caller_leaves_can_be_repeated() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        let (mut moments, mut waits) = (0, 1);
        loop {
            let connections = connections(&app, &user, &client).await;
            let asked = cancel_after(waits, form(&user, &connections.end, &[])).await;
            let was_answered = asked.is_some();
            form(&user, &connections.end, &[]).await.is(303);
            connections.are_over(&app, &client, &format!("after {waits} waits")).await;
            // A wait for a commit is polled many times.
            (moments, waits) = (moments + 1, waits + 1 + waits / 2);
            if was_answered {
                break;
            }
        }
        // It runs to its end in a task of its own.
        assert!(moments > 1, "a disconnection takes more than {moments} moments, {}", app.engine());
    }
}

/// Only an operator ends a user's connection, and no other connection ends.
#[tokio::test]
async fn an_operator_disconnects_a_program_of_one_user() {
    let config = format!("[audit]\nentities = true\n{ENTITIES}");
    for app in TestApp::on_every_engine(&config).await {
        let (ada, client, tokens) = connected(&app, &[]).await;
        let bob = app.signed_in("bob@example.com").await;
        let code = code(&bob, &client, &[]).await;
        let of_bob = exchange(&app, &client, &code, &[]).await.is(200).json();
        let (ada_id, bob_id) = (id_of(&app, "ada@example.com").await, id_of(&app, "bob@example.com").await);
        let operator = operator(&app).await;
        let at = |id: &str| format!("/admin/api/users/{id}/connections");
        let listed = operator.get(&at(&ada_id)).await.is(200);
        assert_eq!(
            (listed.at("/data/0/name"), listed.at("/data/0/scopes")),
            (json!("Notes Reader"), json!(["notes:read"]))
        );
        assert_eq!(listed.at("/data/0/client"), json!(client));
        assert!(!listed.text().contains(&text(&tokens, "refresh_token")), "{}", listed.text());
        let id = listed.at("/data/0/id").as_str().unwrap().to_owned();

        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.get("/notes").await.is(200);
        // Neither their users nor the program itself can, nor through another user.
        for (actor, status) in [(&ada, 403), (&bob, 403), (&program, 403), (&app.anonymous(), 401)] {
            actor.get(&at(&ada_id)).await.is(status);
            actor.delete(&format!("{}/{id}", at(&ada_id))).await.is(status);
        }
        operator.delete(&format!("{}/{id}", at(&bob_id))).await.is(404);
        operator.get(&at("nobody")).await.is(404);
        program.get("/notes").await.is(200);

        operator.delete(&format!("{}/{id}", at(&ada_id))).await.is(204);
        program.get("/notes").await.is(401);
        refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400);
        ada.get(&authorize(&client, &[])).await.is(200);
        operator.delete(&format!("{}/{id}", at(&ada_id))).await.is(404);
        assert_eq!(operator.get(&at(&ada_id)).await.is(200).at("/data"), json!([]));
        app.anonymous().bearing(&text(&of_bob, "access_token")).get("/notes").await.is(200);
        let audit = operator.get(&format!("/admin/api/audit?user={ada_id}&limit=50")).await.is(200);
        assert!(audit.text().contains("oauth2.revoked"), "{}", audit.text());
        let acts = operator.get("/admin/api/audit?kind=admin.acted&limit=50").await.is(200);
        assert!(acts.text().contains(&id), "{}", acts.text());
    }
}

#[tokio::test]
async fn metadata_and_challenges_lead_a_client_to_the_server() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let anonymous = app.anonymous();
        let refused = anonymous.rpc("tools/list", json!({})).await.is(401);
        let metadata = format!("{BASE}/.well-known/oauth-protected-resource/mcp");
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.starts_with(&format!("Bearer resource_metadata=\"{metadata}\"")), "{challenge}");
        assert!(challenge.contains("scope=\"notes:read notes:write"), "{challenge}");
        // A client that begins with GET is challenged too.
        assert_eq!(anonymous.get("/mcp").await.is(401).header("www-authenticate").unwrap(), challenge);
        let refused = anonymous.get("/notes").await.is(401);
        let api = format!("resource_metadata=\"{BASE}/.well-known/oauth-protected-resource\"");
        assert!(refused.header("www-authenticate").unwrap().contains(&api));

        let resource = anonymous.get("/.well-known/oauth-protected-resource/mcp").await.is(200).json();
        assert_eq!((&resource["resource"], &resource["authorization_servers"]), (&json!(MCP), &json!([BASE])));
        let resource = anonymous.get("/.well-known/oauth-protected-resource").await.is(200).json();
        assert_eq!(resource["resource"], BASE);
        let server = anonymous.get("/.well-known/oauth-authorization-server").await.is(200).json();
        for (name, value) in [
            ("issuer", json!(BASE)),
            ("authorization_endpoint", json!(format!("{BASE}/auth/oauth2/authorize"))),
            ("token_endpoint", json!(format!("{BASE}/auth/oauth2/token"))),
            ("registration_endpoint", json!(format!("{BASE}/auth/oauth2/register"))),
            ("code_challenge_methods_supported", json!(["S256"])),
            ("authorization_response_iss_parameter_supported", json!(true)),
            ("client_id_metadata_document_supported", json!(true)),
        ] {
            assert_eq!(server[name], value, "{name}");
        }
        assert!(server["scopes_supported"].as_array().unwrap().contains(&json!("notes:write")));
    }
}

#[tokio::test]
async fn anonymous_callers_use_the_tools_only_where_that_is_configured() {
    for app in TestApp::on_every_engine(&format!("[mcp]\nanonymous = true\n{ENTITIES}")).await {
        app.anonymous().rpc("tools/list", json!({})).await.is(200);
    }
}

#[tokio::test]
async fn a_token_is_valid_only_at_its_own_resource() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        let code_of_api = code(&user, &client, &[]).await;
        let api = exchange(&app, &client, &code_of_api, &[]).await.is(200).json();
        let code_of_mcp = code(&user, &client, &[("resource", MCP)]).await;
        let mcp = exchange(&app, &client, &code_of_mcp, &[("resource", MCP)]).await.is(200).json();
        let (api, mcp) = (text(&api, "access_token"), text(&mcp, "access_token"));
        app.anonymous().bearing(&api).get("/notes").await.is(200);
        app.anonymous().bearing(&api).rpc("tools/list", json!({})).await.is(401);
        app.anonymous().bearing(&mcp).get("/notes").await.is(401);
        app.anonymous().bearing(&mcp).get("/notes/_events").await.is(401);
        let tools = app.anonymous().bearing(&mcp).rpc("tools/list", json!({})).await.is(200);
        assert!(tools.text().contains("notes_list") && !tools.text().contains("notes_create"), "{}", tools.text());
    }
}
