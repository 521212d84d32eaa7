//! Tools with entity tags and tenants, and the format of their answers.

use futures_util::future::join_all;
use gatewright_testing::{Actor, TestApp};
use http::header;
use serde_json::{Value, json};

use super::mcp::{ENTITIES, body, failed, message, names, rpc, scoped, worked};

#[tokio::test]
async fn a_change_and_a_deletion_can_be_made_conditional() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let made = worked(&ada, "notes_create", json!({ "title": "one" })).await;
        let (id, tag) = (made["data"]["id"].clone(), made["_etag"].clone());
        let path = format!("/notes/{}", id.as_str().unwrap());
        let rest = ada.get(&path).await.is(200);
        assert_eq!(rest.header("etag").unwrap(), format!("\"{}\"", tag.as_str().unwrap()), "it is that of REST");
        assert_eq!(worked(&ada, "notes_get", json!({ "id": id })).await["_etag"], tag);

        // One of the callers who read the same state writes, and the others are refused.
        let tries = (0..20).map(|turn| {
            let arguments = json!({ "id": id, "_etag": tag, "title": turn.to_string() });
            rpc_call(&ada, "notes_update", arguments)
        });
        let answers = join_all(tries).await;
        let (won, lost): (Vec<&Value>, Vec<&Value>) = answers.iter().partition(|answer| answer["isError"] == false);
        assert_eq!(won.len(), 1, "{}: {answers:?}", app.engine());
        assert!(lost.iter().all(|answer| answer["structuredContent"]["status"] == 412), "{lost:?}");
        let fresh = won[0]["structuredContent"]["_etag"].clone();
        assert_ne!(fresh, tag);

        assert_eq!(failed(&ada, "notes_delete", json!({ "id": id, "_etag": tag })).await["status"], 412);
        assert_eq!(failed(&ada, "notes_delete", json!({ "id": id, "_etag": 7 })).await["status"], 400);
        assert_eq!(failed(&ada, "notes_create", json!({ "title": "x", "_etag": tag })).await["status"], 400);
        worked(&ada, "notes_delete", json!({ "id": id, "_etag": fresh })).await;
        ada.get(&path).await.is(404);
    }
}

#[tokio::test]
async fn a_true_tag_of_an_unreadable_record_is_answered_like_a_wrong_one_by_tools() {
    let open = format!("[auth]\nenabled = false\n{}", entity!(public "posts" "title"));
    for app in TestApp::on_every_engine(&open).await {
        let made = worked(&app.anonymous(), "posts_create", json!({ "title": "PIN 4711" })).await;
        let (id, tag) = (made["data"]["id"].clone(), made["_etag"].as_str().unwrap());
        let wrong = "0".repeat(tag.len());
        let writer = app.anonymous().with_identity(scoped(&["posts:write"]));
        let reader = app.anonymous().with_identity(scoped(&["posts:write", "posts:read"]));
        assert_eq!(failed(&writer, "posts_get", json!({ "id": id })).await["status"], 403);
        for (tool, title) in [("posts_update", None), ("posts_update", Some("PIN 4711")), ("posts_delete", None)] {
            let arguments = |tag: &str| {
                let mut arguments = json!({ "id": id, "_etag": tag });
                if let Some(title) = title {
                    arguments["title"] = title.into();
                }
                arguments
            };
            let expected = failed(&writer, tool, arguments(&wrong)).await;
            assert_eq!(expected["status"], 412, "{expected}");
            assert_eq!(failed(&writer, tool, arguments(tag)).await, expected, "{}", app.engine());
            assert_eq!(failed(&reader, tool, arguments(&wrong)).await["status"], 412);
        }
        worked(&reader, "posts_update", json!({ "id": id, "_etag": tag })).await;
        worked(&reader, "posts_delete", json!({ "id": id, "_etag": tag })).await;
    }
}

const SHARED: &str = concat!(
    r#"
[tenancy]
header = "X-Workspace"
"#,
    entity!(multi_tenant "notes" "title"),
);

#[tokio::test]
async fn the_tenant_is_named_by_the_same_header_as_in_rest() {
    for app in TestApp::on_every_engine(SHARED).await {
        let (ada, bob) = (app.signed_in("ada@example.com").await, app.signed_in("bob@example.com").await);
        for (workspace, email) in
            [("acme", "ada@example.com"), ("other", "ada@example.com"), ("other", "bob@example.com")]
        {
            app.join(email, workspace).await;
        }
        let ask = async |actor: &Actor, workspaces: &[&str], method: &str, params: Value| {
            let request = workspaces.iter().fold(message(actor), |request, name| request.header("X-Workspace", *name));
            actor.send(request.body(body(method, &params)).unwrap()).await.is(200).json()
        };
        let call = async |actor: &Actor, workspaces: &[&str], name: &str, arguments: Value| {
            ask(actor, workspaces, "tools/call", json!({ "name": name, "arguments": arguments })).await["result"]
                .clone()
        };
        let made = call(&ada, &["acme"], "notes_create", json!({ "title": "of acme" })).await;
        let id = made["structuredContent"]["data"]["id"].clone();
        for (actor, workspaces, status) in [
            (&ada, &[][..], 400),
            (&ada, &["acme", "other"], 400),
            (&ada, &["nosuch"], 403),
            (&bob, &["acme"], 403),
            // A member of both finds the record only in its own tenant.
            (&ada, &["other"], 404),
            (&bob, &["other"], 404),
            (&app.anonymous(), &["acme"], 401),
        ] {
            let arguments = json!({ "id": id });
            for (name, arguments) in [
                ("notes_get", arguments.clone()),
                ("notes_update", json!({ "id": id, "title": "taken" })),
                ("notes_delete", arguments),
            ] {
                let refused = call(actor, workspaces, name, arguments).await;
                assert_eq!(refused["isError"], true, "{name} {workspaces:?} {refused}");
                assert_eq!(refused["structuredContent"]["status"], status, "{} {name} {workspaces:?}", app.engine());
            }
            // An argument does not act as a header.
            let named = call(actor, workspaces, "notes_list", json!({ "X-Workspace": "acme" })).await;
            assert_eq!(named["isError"], true, "{named}");
            let named = call(actor, workspaces, "notes_create", json!({ "title": "x", "tenantId": "acme" })).await;
            assert_eq!(named["isError"], true, "{named}");
        }
        assert_eq!(call(&ada, &["acme"], "notes_list", json!({})).await["structuredContent"]["total"], 1);

        for (actor, workspaces, count) in
            [(&ada, &["acme"][..], 7), (&ada, &[], 0), (&bob, &["acme"], 0), (&bob, &["other"], 7)]
        {
            assert_eq!(names(&ask(actor, workspaces, "tools/list", json!({})).await).len(), count, "{workspaces:?}");
        }
    }
}

/// A strict client refuses answers that do not match the schema, including problems.
#[tokio::test]
async fn every_answer_fits_the_frame_that_its_tool_declares() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let listed = rpc(&ada, "tools/list", json!({})).await.is(200).json();
        let fits = |name: &str, answer: &Value| {
            let tools = listed["result"]["tools"].as_array().unwrap();
            let schema = &tools.iter().find(|tool| tool["name"] == name).unwrap()["outputSchema"];
            assert_eq!((&schema["type"], schema.get("required")), (&json!("object"), None));
            let members = answer.as_object().unwrap();
            for (key, schema) in schema["properties"].as_object().unwrap() {
                if let Some(value) = members.get(key) {
                    let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
                    let kind = match value {
                        Value::Null => "null",
                        Value::Bool(_) => "boolean",
                        Value::Number(_) => "integer",
                        Value::String(_) => "string",
                        Value::Array(_) => "array",
                        Value::Object(_) => "object",
                    };
                    assert!(kinds.contains(&json!(kind)), "{name} {key}: {schema} {answer}");
                }
            }
            let known: Vec<&String> = members.keys().filter(|key| schema["properties"].get(*key).is_some()).collect();
            let problem = members.contains_key("status");
            assert!(problem || known.len() == members.len(), "{name}: {known:?} {answer}");
        };
        let made = worked(&ada, "notes_create", json!({ "title": "one" })).await;
        let id = &made["data"]["id"];
        fits("notes_create", &made);
        for (name, arguments) in [
            ("notes_get", json!({ "id": id })),
            ("notes_list", json!({})),
            ("notes_list", json!({ "cursor": "" })),
            ("notes_list", json!({ "cursor": "", "limit": 1 })),
            ("notes_group", json!({ "group": "title", "count_distinct": "netPrice" })),
            ("notes_update", json!({ "id": id, "title": "two" })),
            ("notes_delete", json!({ "id": id })),
        ] {
            fits(name, &worked(&ada, name, arguments).await);
        }
        for (name, arguments) in [
            ("notes_get", json!({ "id": id })),
            ("notes_list", json!({ "page": "x" })),
            ("notes_group", json!({})),
            ("notes_create", json!({})),
            ("notes_update", json!({ "id": id })),
            ("notes_delete", json!({ "id": id })),
        ] {
            fits(name, &failed(&ada, name, arguments).await);
        }
    }
}

async fn rpc_call(actor: &Actor, name: &str, arguments: Value) -> Value {
    let request = message(actor).header(header::ORIGIN, "http://127.0.0.1:8080");
    let params = json!({ "name": name, "arguments": arguments });
    actor.send(request.body(body("tools/call", &params)).unwrap()).await.is(200).json()["result"].clone()
}

/// What a schema allows, the tool takes, and the other way round.
#[tokio::test]
async fn the_pattern_of_a_decimal_is_what_its_tools_accept() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let listed = ada.rpc("tools/list", json!({})).await.is(200).json();
        let tools = listed["result"]["tools"].as_array().unwrap();
        for tool in ["notes_create", "notes_update"] {
            let schema = &tools.iter().find(|described| described["name"] == tool).unwrap()["inputSchema"];
            let price = &schema["properties"]["netPrice"];
            // A change takes a value or an operator.
            let value = if price["anyOf"].is_array() { &price["anyOf"][0] } else { price };
            let pattern = value["pattern"].as_str().unwrap();
            let pattern = regex::Regex::new(pattern).unwrap();
            for (text, is_decimal) in [
                ("1", true),
                ("-1.50", true),
                ("007", true),
                ("0.10", true),
                ("1e3", true),
                ("1.5E-3", true),
                ("1e+3", true),
                ("12345678901234567890123456789012345678", true),
                ("", false),
                ("-", false),
                ("+1", false),
                (".5", false),
                ("5.", false),
                (".", false),
                ("e3", false),
                (".e3", false),
                ("1e", false),
                ("1,5", false),
                ("1.2.3", false),
                (" 1", false),
                ("1 ", false),
                ("1\n", false),
                ("0x10", false),
                ("NaN", false),
                ("Infinity", false),
                ("\u{661}", false),
            ] {
                assert_eq!(pattern.is_match(text), is_decimal, "{text:?}");
                let made = worked(&ada, "notes_create", json!({ "title": "t" })).await;
                let mut arguments = json!({ "title": "t", "netPrice": text });
                if tool == "notes_update" {
                    arguments["id"] = made["data"]["id"].clone();
                }
                let answer = rpc_call(&ada, tool, arguments).await;
                assert_eq!(answer["isError"] != true, is_decimal, "{tool} {text:?}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn lists_of_the_protocol_refuse_invented_cursors() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        for list in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
            for cursor in ["", "invented", "eyJwYWdlIjoyfQ"] {
                let answer = ada.rpc(list, json!({ "cursor": cursor })).await.json();
                assert_eq!(answer["error"]["code"], -32602, "{list} {cursor}: {answer}");
            }
            let answer = ada.rpc(list, json!({})).await.json();
            assert!(answer["result"].is_object(), "{list}: {answer}");
            assert!(answer["result"]["nextCursor"].is_null(), "{list}: {answer}");
        }
    }
}
