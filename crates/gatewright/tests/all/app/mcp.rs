//! The tool surface as a client meets it, and as an attacker does.

use std::sync::Arc;

use axum::body::Body;
use gatewright_base::{
    Credential, Grant, Identity, Principal, Roles, Scope, Scopes, Subject, TenantLimit, TokenId, UserId,
};
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) const ENTITIES: &str = r#"
[roles]
editor = ["articles:write"]

[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "title"
type = "string"
required = true
max = 20
[[entity.field]]
name = "net_price"
type = "decimal"
[[entity.field]]
name = "canary_secret"
type = "string"
hidden = true

[[entity]]
name = "articles"
access = { read = "public", create = "articles:write", update = "articles:write", delete = "articles:write" }
[[entity.field]]
name = "title"
type = "string"

[[entity]]
name = "internal"
public = true
mcp = false
[[entity.field]]
name = "title"
type = "string"
"#;

#[tokio::test]
async fn tools_create_read_change_list_and_delete_a_record() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let made = worked(&ada, "notes_create", json!({ "title": "one", "netPrice": "9.90" })).await;
        let id = made["data"]["id"].as_str().unwrap();
        assert_eq!((&made["data"]["title"], &made["data"]["netPrice"]), (&json!("one"), &json!("9.9")));
        let changed = worked(&ada, "notes_update", json!({ "id": id, "title": "two" })).await;
        assert_eq!(changed["data"]["title"], "two");
        assert_eq!(worked(&ada, "notes_get", json!({ "id": id })).await, changed);
        worked(&ada, "notes_create", json!({ "title": "other" })).await;
        let listed =
            worked(&ada, "notes_list", json!({ "filter": "title = \"two\"", "limit": 1, "sort": "-createdAt" })).await;
        assert_eq!(
            (&listed["data"][0]["id"], &listed["total"], &listed["hasMore"]),
            (&json!(id), &json!(1), &json!(false))
        );
        let by_suffix = worked(&ada, "notes_list", json!({ "title_in": ["two", "three"] })).await;
        assert_eq!(by_suffix["total"], 1);
        let few = worked(&ada, "notes_get", json!({ "id": id, "fields": "title" })).await;
        assert_eq!(few["data"]["title"], "two");
        assert!(few["data"].get("netPrice").is_none(), "{few}");
        let start = worked(&ada, "notes_list", json!({ "cursor": "", "limit": 1 })).await;
        let cursor = start["cursor"].as_str().unwrap();
        let rest = worked(&ada, "notes_list", json!({ "cursor": cursor, "limit": 1 })).await;
        assert_eq!((&rest["data"][0]["title"], &rest["hasMore"]), (&json!("other"), &json!(false)));
        let mut forged = cursor.to_owned();
        forged.replace_range(0..1, if cursor.starts_with('A') { "B" } else { "A" });
        assert_eq!(failed(&ada, "notes_list", json!({ "cursor": forged })).await["status"], 400);
        // What REST answers is the same.
        let rest = ada.get("/notes?filter=title%20=%20%22two%22&limit=1&sort=-createdAt").await.is(200).json();
        assert_eq!(listed, rest);
        let gone = worked(&ada, "notes_delete", json!({ "id": id })).await;
        assert_eq!(gone, json!({ "deleted": true, "id": id }));
        assert_eq!(failed(&ada, "notes_get", json!({ "id": id })).await["status"], 404);
    }
}

#[tokio::test]
async fn a_caller_sees_the_tools_that_they_may_call() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let notes = ["notes_list", "notes_group", "notes_get", "notes_create", "notes_update", "notes_delete"];
        let read = ["articles_list", "articles_group", "articles_get"];
        let write = ["articles_create", "articles_update", "articles_delete"];
        assert_eq!(tools(&app.anonymous()).await, read);
        let ada = app.signed_in("ada@example.com").await;
        // The tool for several entities is there for callers who may write to any.
        assert_eq!(tools(&ada).await, [&notes[..], &read, &["batch"]].concat());
        app.grant("ada@example.com", &["user", "editor"]).await;
        assert_eq!(tools(&ada).await, [&notes[..], &read, &write, &["batch"]].concat());
        assert_eq!(failed(&app.anonymous(), "articles_create", json!({ "title": "x" })).await["status"], 401);
        assert_eq!(failed(&app.anonymous(), "notes_list", json!({})).await["status"], 401);
    }
}

#[tokio::test]
async fn an_entity_without_tools_has_none_and_a_disabled_surface_is_404() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let answer = call(&app.anonymous(), "internal_list", json!({})).await.json();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    for app in TestApp::on_every_engine("[mcp]\nenabled = false\n").await {
        rpc(&app.anonymous(), "tools/list", json!({})).await.is(404);
    }
}

#[tokio::test]
async fn the_tools_describe_their_arguments_and_effects() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let listed = rpc(&ada, "tools/list", json!({})).await.is(200).json();
        let tool = |name: &str| {
            let tools = listed["result"]["tools"].as_array().unwrap();
            tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name} in {listed}")).clone()
        };
        let create = tool("notes_create");
        assert_eq!(create["inputSchema"]["required"], json!(["title"]));
        assert_eq!(create["inputSchema"]["properties"]["title"]["maxLength"], 20);
        assert_eq!(create["inputSchema"]["properties"]["netPrice"]["type"], json!(["string", "null"]));
        assert_eq!(create["inputSchema"]["additionalProperties"], false);
        assert_eq!(tool("notes_update")["inputSchema"]["required"], json!(["id"]));
        for (name, reads, destroys) in [
            ("notes_list", true, false),
            ("notes_group", true, false),
            ("notes_get", true, false),
            ("notes_create", false, false),
            ("notes_update", false, true),
            ("notes_delete", false, true),
        ] {
            let hints = tool(name)["annotations"].clone();
            assert_eq!(
                (&hints["readOnlyHint"], &hints["destructiveHint"]),
                (&json!(reads), &json!(destroys)),
                "{name}"
            );
        }
        assert!(!listed.to_string().to_lowercase().contains("canary"), "{listed}");
        assert!(tool("notes_list")["description"].as_str().unwrap().contains("netPrice (decimal)"));
        let arguments = tool("notes_list")["inputSchema"]["properties"].clone();
        assert!(
            arguments["filter"]["description"].as_str().unwrap().contains("has (a JSON list contains"),
            "{arguments}"
        );
        let arguments = tool("notes_group")["inputSchema"]["properties"].clone();
        for name in ["filter", "group", "sum", "min", "max", "avg", "count_distinct", "timezone", "utc_offset"] {
            assert!(arguments[name]["description"].is_string(), "{name}: {arguments}");
        }
    }
}

#[tokio::test]
async fn invalid_arguments_are_reported_by_field_and_nothing_is_written() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let problem =
            failed(&ada, "notes_create", json!({ "title": "x".repeat(21), "netPrice": "much", "b": 1 })).await;
        assert_eq!(problem["status"], 422);
        let fields: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
        assert_eq!(fields, ["title", "netPrice", "b"]);
        for (name, arguments, status) in [
            ("notes_create", json!({ "title": "x", "netPrice": 9.99 }), 400),
            ("notes_create", json!({ "title": "x", "canarySecret": "y" }), 422),
            ("notes_list", json!({ "filter": "canarySecret = 1" }), 400),
            ("notes_list", json!({ "sort": "canary_secret" }), 400),
            ("notes_list", json!({ "filter": { "title": "x" } }), 400),
            ("notes_list", json!({ "nonsense": 1 }), 400),
            ("notes_get", json!({}), 400),
            ("notes_get", json!({ "id": 7 }), 400),
            ("notes_get", json!({ "id": "x", "title": "y" }), 400),
            ("notes_delete", json!({ "id": ["x"] }), 400),
        ] {
            let problem = failed(&ada, name, arguments.clone()).await;
            assert_eq!(problem["status"], status, "{name} {arguments}: {problem}");
        }
        assert_eq!(worked(&ada, "notes_list", json!({})).await["total"], 0);
        let hidden = failed(&ada, "notes_list", json!({ "filter": "canarySecret = 1" })).await.to_string();
        let unknown = failed(&ada, "notes_list", json!({ "filter": "absentSecret = 1" })).await.to_string();
        assert_eq!(hidden.replace("canary", "absent"), unknown, "a hidden field is refused like an absent one");
    }
}

/// Each message is served with the identity of its sender, in any order.
#[tokio::test]
async fn concurrent_callers_are_never_confused() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let bob = app.with_jwt("bob@example.com").await;
        let one = |actor: Actor, name: &'static str| {
            tokio::spawn(async move {
                for turn in 0..10 {
                    let title = format!("{name} {turn}");
                    let made = worked(&actor, "notes_create", json!({ "title": title })).await;
                    worked(&actor, "notes_get", json!({ "id": made["data"]["id"] })).await;
                }
                let listed = worked(&actor, "notes_list", json!({ "limit": 100 })).await;
                let titles: Vec<_> =
                    listed["data"].as_array().unwrap().iter().map(|note| note["title"].to_string()).collect();
                assert_eq!(titles.len(), 10);
                assert!(titles.iter().all(|title| title.contains(name)), "{name}: {titles:?}");
                listed["data"][0]["id"].clone()
            })
        };
        let (first, second) = (one(ada.clone(), "ada"), one(bob.clone(), "bob"));
        let (adas, bobs) = (first.await.unwrap(), second.await.unwrap());
        for (actor, id) in [(&ada, bobs), (&bob, adas)] {
            for tool in ["notes_get", "notes_delete"] {
                assert_eq!(failed(actor, tool, json!({ "id": id })).await["status"], 404, "{tool}");
            }
        }
        let anonymous = app.anonymous();
        let request = message(&anonymous);
        let request = request
            .header("mcp-session-id", "somebody's")
            .body(body("tools/call", &json!({ "name": "notes_list", "arguments": {} })));
        let answer = anonymous.send(request.unwrap()).await.json();
        assert_eq!(answer["result"]["structuredContent"]["status"], 401, "{answer}");
    }
}

#[tokio::test]
async fn a_token_reaches_the_tables_and_verbs_of_its_scopes() {
    let open = format!(
        "[auth]\nenabled = false\n{}",
        ENTITIES.replace("articles:write", "public").replace("editor = [\"public\"]", "")
    );
    for app in TestApp::on_every_engine(&open).await {
        let listed = |identity: Identity| {
            let anonymous = app.anonymous();
            async move {
                let request = message(&anonymous).extension(identity);
                names(&anonymous.send(request.body(body("tools/list", &json!({}))).unwrap()).await.is(200).json())
            }
        };
        assert_eq!(listed(scoped(&["notes:read"])).await, ["notes_list", "notes_group", "notes_get"]);
        assert_eq!(listed(scoped(&["notes:write"])).await, ["notes_create", "notes_update", "notes_delete", "batch"]);
        let all = ["notes_list", "notes_group", "notes_get", "articles_list", "articles_group", "articles_get"];
        assert_eq!(listed(scoped(&["*:read"])).await, all);
        assert!(listed(scoped(&["mcp:read", "mcp:write"])).await.is_empty(), "the surface itself is no table");
        assert!(listed(scoped(&[])).await.is_empty());

        let anonymous = app.anonymous();
        let params = json!({ "name": "articles_create", "arguments": { "title": "x" } });
        let request = message(&anonymous).extension(scoped(&["notes:write"]));
        let answer = anonymous.send(request.body(body("tools/call", &params)).unwrap()).await.is(200).json();
        assert_eq!(answer["result"]["structuredContent"]["status"], 403, "{answer}");
        assert_eq!(answer["result"]["isError"], true);
    }
}

#[tokio::test]
async fn a_pending_session_and_a_delegated_grant_are_always_refused() {
    for app in TestApp::on_every_engine(&format!("[auth]\nenabled = false\n{ENTITIES}")).await {
        let grant = Grant {
            surface: "widget".into(),
            origin: "https://widget.example".into(),
            scopes: ["*:*".parse::<Scope>().unwrap()].into_iter().collect(),
            expires_at: Timestamp::MAX,
        };
        for identity in [Identity::Pending(UserId::parse("u1").unwrap()), bearing(Credential::Grant(grant))] {
            for method in ["initialize", "tools/list", "ping"] {
                let anonymous = app.anonymous();
                let request = message(&anonymous).extension(identity.clone());
                anonymous.send(request.body(body(method, &json!({}))).unwrap()).await.is(403);
            }
        }
    }
}

#[tokio::test]
async fn another_site_s_page_and_a_rebound_host_are_refused() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let params = json!({ "name": "articles_list", "arguments": {} });
        for (name, value) in [
            (header::ORIGIN, "https://evil.example"),
            (header::ORIGIN, "null"),
            (header::ORIGIN, "http://127.0.0.1:9999"),
        ] {
            let request = message(&ada).header(name, value);
            ada.send(request.body(body("tools/call", &params)).unwrap()).await.is(403);
        }
        let mut request = message(&ada).body(body("tools/call", &params)).unwrap();
        request.headers_mut().insert(header::HOST, "evil.example:8080".parse().unwrap());
        ada.send(request).await.is(403);
        let request = message(&ada).header(header::ORIGIN, "http://127.0.0.1:8080");
        ada.send(request.body(body("tools/call", &params)).unwrap()).await.is(200);
    }
}

const JSON: &str = "application/json";
const BOTH: &str = "application/json, text/event-stream";

#[tokio::test]
async fn an_invalid_message_is_a_problem() {
    for app in TestApp::on_every_engine(&format!("[server]\nmax_body_bytes = 2048\n{ENTITIES}")).await {
        let anonymous = app.anonymous();
        anonymous.get("/mcp").await.is(405);
        anonymous.delete("/mcp").await.is(405);
        let send = |kind: &'static str, accept: &'static str, text: String| {
            let anonymous = app.anonymous();
            async move {
                let request = anonymous
                    .request(Method::POST, "/mcp")
                    .header(header::CONTENT_TYPE, kind)
                    .header(header::ACCEPT, accept);
                anonymous.send(request.body(Body::from(text)).unwrap()).await
            }
        };
        let long = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "x": "y".repeat(4096) } })
            .to_string();
        for (kind, accept, text, status) in [
            (JSON, BOTH, long, 413),
            ("text/plain", BOTH, "{}".to_owned(), 415),
            (JSON, JSON, "{}".to_owned(), 406),
            (JSON, BOTH, String::new(), 400),
            (JSON, BOTH, "{".to_owned(), 400),
            (JSON, BOTH, "{}".to_owned(), 400),
            (JSON, BOTH, "[]".to_owned(), 400),
            (JSON, BOTH, "[".repeat(1000), 400),
        ] {
            let shown = text.chars().take(40).collect::<String>();
            let answer = send(kind, accept, text).await;
            assert_eq!(
                (answer.status(), answer.header("content-type")),
                (status, Some("application/problem+json")),
                "{shown}"
            );
        }
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
        for accept in ["*/*", "application/*, text/*", "text/event-stream, */*;q=0.1"] {
            let answer = send(JSON, accept, ping.clone()).await;
            assert_eq!(answer.status(), 200, "{accept}: {}", answer.text());
        }
        let answer = rpc(&anonymous, "no/such/method", json!({})).await;
        assert_eq!(answer.json()["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn initialize_returns_the_server_info_and_no_session() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = rpc(&app.anonymous(), "initialize", params).await.is(200);
        assert_eq!(answer.header("mcp-session-id"), None);
        assert_eq!(answer.json()["result"]["serverInfo"]["name"], "gatewright");
        assert!(answer.json()["result"]["capabilities"].get("tools").is_some());
    }
}

/// The bearer of a token with these scopes.
pub(super) fn scoped(scopes: &[&str]) -> Identity {
    bearing(Credential::ApiToken {
        id: TokenId::parse("t1").unwrap(),
        scopes: scopes.iter().map(|scope| scope.parse::<Scope>().unwrap()).collect::<Scopes>(),
        expires_at: None,
        tenants: TenantLimit::default(),
    })
}

fn bearing(credential: Credential) -> Identity {
    let subject = Subject::User(UserId::parse("u1").unwrap());
    Identity::Known(Arc::new(Principal { subject, email: None, roles: Roles::default(), credential }))
}

pub(super) async fn tools(actor: &Actor) -> Vec<String> {
    names(&rpc(actor, "tools/list", json!({})).await.is(200).json())
}

pub(super) fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The structured content of a tool that works.
pub(super) async fn worked(actor: &Actor, name: &str, arguments: Value) -> Value {
    let answer = call(actor, name, arguments).await.is(200).json();
    assert_eq!(answer["result"]["isError"], false, "{name}: {answer}");
    let text: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, answer["result"]["structuredContent"]);
    text
}

/// The problem of a tool that fails.
pub(super) async fn failed(actor: &Actor, name: &str, arguments: Value) -> Value {
    let answer = call(actor, name, arguments).await.is(200).json();
    assert_eq!(answer["result"]["isError"], true, "{name}: {answer}");
    answer["result"]["structuredContent"].clone()
}

pub(super) async fn call(actor: &Actor, name: &str, arguments: Value) -> Answer {
    rpc(actor, "tools/call", json!({ "name": name, "arguments": arguments })).await
}

pub(super) async fn rpc(actor: &Actor, method: &str, params: Value) -> Answer {
    actor.send(message(actor).body(body(method, &params)).unwrap()).await
}

pub(super) fn message(actor: &Actor) -> http::request::Builder {
    actor
        .request(Method::POST, "/mcp")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
}

pub(super) fn body(method: &str, params: &Value) -> Body {
    Body::from(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string())
}
