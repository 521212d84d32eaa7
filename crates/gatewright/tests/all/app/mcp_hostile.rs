//! The tool surface and hostile messages.

use axum::body::Body;
use futures_util::future::join_all;
use gatewright_testing::{Actor, Answer, TestApp};
use http::header;
use serde_json::{Value, json};

use super::mcp::{ENTITIES, body, failed, message, rpc, tools, worked};

async fn raw(actor: &Actor, text: String) -> Answer {
    actor.send(message(actor).body(Body::from(text)).unwrap()).await
}

/// How many notes an account has, by REST.
async fn notes(actor: &Actor) -> u64 {
    actor.get("/notes").await.is(200).json()["total"].as_u64().unwrap()
}

#[tokio::test]
async fn too_deep_or_too_long_messages_are_refused_without_affecting_others() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let nested = |open: &str, close: &str, depth: usize| format!("{}0{}", open.repeat(depth), close.repeat(depth));
        let within = |arguments: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"notes_create","arguments":{{"title":{arguments}}}}}}}"#
            )
        };
        for text in [
            within(&nested("[", "]", 20_000)),
            within(&nested("{\"a\":", "}", 20_000)),
            nested("[", "]", 100_000),
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, nested("[", "]", 20_000)),
        ] {
            let answer = raw(&ada, text).await.is(400);
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert!(answer.text().len() < 1_000, "{}", answer.text());
        }
        // As deep as a message may be, and deeper than a filter may be.
        for filter in [nested("(", ")", 9), nested("!(", ")", 5_000), format!("title in [{}]", "1,".repeat(2_000))] {
            assert_eq!(failed(&ada, "notes_list", json!({ "filter": filter })).await["status"], 400);
        }
        let wide: Value =
            (0..5_000).map(|n| (format!("title_{n}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(failed(&ada, "notes_list", wide).await["status"], 400);
        // Without a length that says so beforehand, too.
        let long = " ".repeat(3 * 1024 * 1024);
        let parts =
            futures_util::stream::iter(long.into_bytes().chunks(64 * 1024).map(<[u8]>::to_vec).collect::<Vec<_>>());
        let parts = futures_util::StreamExt::map(parts, Ok::<_, std::io::Error>);
        ada.send(message(&ada).body(Body::from_stream(parts)).unwrap()).await.is(413);
        assert_eq!(notes(&ada).await, 0);
    }
}

#[tokio::test]
async fn unknown_tool_names_are_refused_with_a_short_message() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let long = "notes_list".repeat(1_000);
        for name in [
            "",
            "notes",
            "NOTES_LIST",
            " notes_list",
            "notes_list\0",
            "notes_list; DROP TABLE notes",
            "notes_restore",
            "notes_batch",
            "notes__events",
            "internal_list",
            "users_list",
            "sessions_get",
            "api_tokens_create",
            "event_outbox_list",
            "../notes_list",
            &long,
        ] {
            let answer = rpc(&ada, "tools/call", json!({ "name": name, "arguments": {} })).await;
            assert!(answer.status() < 500 && answer.text().len() < 500, "{name}: {}", answer.text());
            assert_eq!(answer.json()["error"]["code"], -32602, "{name}: {}", answer.text());
        }
        for method in ["resources/list", "prompts/list", "completion/complete", "logging/setLevel", "tasks/list", "x"] {
            let answer = rpc(&ada, method, json!({})).await;
            assert!(answer.status() < 500, "{method} {}", answer.text());
            let nothing = ["resources", "prompts"].map(|kind| json!({ kind: [] }));
            let result = answer.json().get("result").cloned();
            assert!(result.is_none_or(|result| nothing.contains(&result)), "{method}: {}", answer.text());
        }
        let absent = rpc(&ada, "no/such/method", json!({})).await.json()["error"].clone();
        assert_eq!(absent, json!({ "code": -32601, "message": "there is no method \"no/such/method\"" }));
        let misfit = rpc(&ada, "tools/call", json!({ "name": 7 })).await.json()["error"].clone();
        assert_eq!(misfit, json!({ "code": -32602, "message": "invalid parameters of tools/call" }));
        for params in [
            json!({ "name": 7 }),
            json!({ "name": ["notes_list"] }),
            json!({}),
            json!([]),
            json!("notes_list"),
            json!({ "name": "notes_create", "arguments": "title" }),
            json!({ "name": "notes_create", "arguments": [{ "title": "x" }] }),
        ] {
            let answer = rpc(&ada, "tools/call", params.clone()).await;
            let refused = answer.status() == 400 || answer.json().get("error").is_some();
            assert!(answer.status() < 500 && refused, "{params}: {} {}", answer.status(), answer.text());
        }
        assert_eq!(notes(&ada).await, 0);
    }
}

/// A call without an id expects no answer. It must not cause a write without a result.
#[tokio::test]
async fn notifications_and_batches_of_messages_do_nothing() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let params = json!({ "name": "notes_create", "arguments": { "title": "x" } });
        let quiet = json!({ "jsonrpc": "2.0", "method": "tools/call", "params": params });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        assert!(raw(&ada, quiet.to_string()).await.status() < 500);
        for several in [json!([call, call]), json!([]), json!([quiet])] {
            raw(&ada, several.to_string()).await.is(400);
        }
        for version in [json!("1.0"), json!(2.0), Value::Null] {
            let mut other = call.clone();
            other["jsonrpc"] = version;
            assert!(raw(&ada, other.to_string()).await.status() < 500);
        }
        assert_eq!(notes(&ada).await, 0);
        raw(&ada, call.to_string()).await.is(200);
        assert_eq!(notes(&ada).await, 1, "the same with an id is a call");
    }
}

/// There are no protocol sessions that could be planted or taken over.
#[tokio::test]
async fn a_protocol_session_id_is_ignored() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let mut ada = app.signed_in("ada@example.com").await;
        let ask = async |actor: &Actor, method: &str, params: Value| {
            let request = message(actor).header("mcp-session-id", "planted").header("last-event-id", "1");
            let answer = actor.send(request.body(body(method, &params)).unwrap()).await.is(200);
            assert_eq!(answer.header("mcp-session-id"), None);
            answer.json()["result"].clone()
        };
        let begin = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let list = || json!({ "name": "notes_list", "arguments": {} });
        ask(&ada, "initialize", begin).await;
        assert_eq!(ask(&ada, "tools/call", list()).await["isError"], false);
        assert_eq!(ask(&app.anonymous(), "tools/call", list()).await["structuredContent"]["status"], 401);

        // Tools that were listed for a caller work while the caller is signed in.
        let before = ada.clone();
        assert_eq!(tools(&before).await.len(), 10);
        ada.sign_out().await;
        assert_eq!(ask(&before, "tools/call", list()).await["structuredContent"]["status"], 401);
        assert_eq!(tools(&before).await.len(), 3);
    }
}

#[tokio::test]
async fn parallel_callers_each_get_their_own_answer() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let bob = app.signed_in("bob@example.com").await;
        let anonymous = app.anonymous();
        let calls = (0..120).map(|turn| {
            let actor = [&ada, &bob, &anonymous][turn % 3].clone();
            async move {
                let params = json!({ "name": "notes_create", "arguments": { "title": turn.to_string() } });
                let text = json!({ "jsonrpc": "2.0", "id": turn, "method": "tools/call", "params": params });
                (turn, raw(&actor, text.to_string()).await.is(200).json())
            }
        });
        for (turn, answer) in join_all(calls).await {
            assert_eq!(answer["id"], turn, "{answer}");
            let content = &answer["result"]["structuredContent"];
            let expected = if turn % 3 == 2 { json!(401) } else { Value::Null };
            assert_eq!(content.get("status").unwrap_or(&Value::Null), &expected, "{answer}");
            if turn % 3 < 2 {
                assert_eq!(content["data"]["title"], turn.to_string());
            }
        }
        assert_eq!((notes(&ada).await, notes(&bob).await), (40, 40), "{}", app.engine());
        let one = worked(&ada, "notes_list", json!({ "limit": 1 })).await["data"][0]["id"].clone();
        let deletions = join_all((0..20).map(|_| {
            let request = message(&ada).header(header::ACCEPT_LANGUAGE, "en");
            let params = json!({ "name": "notes_delete", "arguments": { "id": one } });
            ada.send(request.body(body("tools/call", &params)).unwrap())
        }))
        .await;
        let won = deletions.iter().filter(|answer| answer.json()["result"]["isError"] == false).count();
        assert_eq!(won, 1, "{}", app.engine());
    }
}
