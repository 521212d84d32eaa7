//! Hostile text in every input of the service: it is treated as data or refused, and never run.
//!
//! The parameters of lists have their own test in the crate of entities; this is the whole server with every other input:
//! paths, headers, bodies, batches, streams and the arguments of tools.

use gatewright_testing::{Actor, Answer, TestApp};
use http::{HeaderValue, Method};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[[entity]]
name = "notes"
owner_field = "user_id"
multi_tenant = true
soft_delete = true
search_fields = ["title"]
max_list_limit = 1000
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "extra"
type = "json"
[[entity.field]]
name = "topic"
type = "relation"
to = "topics"
[[entity.field]]
name = "secret"
type = "string"
hidden = true
default = "canary-91c"
[[entity]]
name = "topics"
[[entity.field]]
name = "title"
type = "string"
"#;

/// Text that ends strings, statements, comments, lines, patterns, paths, numbers, headers and documents.
const HOSTILE: [&str; 26] = [
    "'",
    "\"",
    "`",
    "\\",
    "\\'; DELETE FROM notes; --",
    "%",
    "--",
    "/* */",
    ";",
    "1' OR '1'='1",
    "x') OR 1=1; DROP TABLE notes; --",
    "' UNION SELECT id, password_hash FROM users --",
    "$1",
    "?1 ?2 ?3",
    ":a @b $c",
    "\u{0}",
    "\u{202e}\u{feff}\u{1F4A9}",
    "a\r\nX-Injected: 1",
    "data: {}\n\nevent: entity.created",
    "../../etc/passwd",
    "..%2f..%2f",
    "{\"$gt\":\"\"}",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "<script>alert(1)</script>",
    "99999999999999999999999999999999999999e999",
];

/// Every parameter that a list takes, and a comparison of each kind.
const PARAMETERS: [&str; 22] = [
    "page",
    "limit",
    "sort",
    "cursor",
    "direction",
    "total",
    "group",
    "sum",
    "min",
    "max",
    "avg",
    "fields",
    "include",
    "q",
    "filter",
    "trashed",
    "title",
    "title_gt",
    "title_like",
    "title_in",
    "title_null",
    "topic",
];

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_treated_as_text_everywhere() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let plain = app.signed_in("ada@example.com").await;
        app.join("ada@example.com", "acme").await;
        let ada = plain.clone().sending("x-tenant-id", "acme");
        let topic = ada.post("/topics", json!({ "title": "kept" })).await.is(201).at("/data/id");
        let note = ada.post("/notes", json!({ "title": "kept", "topic": topic })).await.is(201);
        let kept = note.at("/data");
        for text in HOSTILE {
            let mut answers = Vec::new();
            paths(&ada, text, &mut answers).await;
            headers(&plain, &ada, note.header("location").unwrap(), text, &mut answers).await;
            bodies(&ada, note.header("location").unwrap(), text, &mut answers).await;
            streams(&ada, text, &mut answers).await;
            tools(&ada, &kept["id"], text, &mut answers).await;
            for (what, answer) in &answers {
                unmoved(&app, what, text, answer);
            }
            assert_eq!(ada.get(note.header("location").unwrap()).await.is(200).at("/data"), kept, "{text:?}");
        }
        for table in ["users", "notes", "topics", "tenant_members", "audit_log"] {
            let rows = app.app().db().query(format!("SELECT * FROM {table}"), vec![]).await.unwrap();
            assert!(!rows.is_empty(), "{table} is there");
        }
        // Text that was accepted as data is stored unchanged.
        let sent = ada.get("/notes?limit=1000&sort=id").await.is(200).json();
        let titles: Vec<&str> =
            sent["data"].as_array().unwrap().iter().filter_map(|note| note["title"].as_str()).collect();
        let stored = HOSTILE.iter().filter(|text| !text.contains('\0'));
        for text in stored {
            assert_eq!(titles.iter().filter(|title| *title == text).count(), 3, "{}: {text:?}", app.engine());
        }
    }
}

/// The answer is neither a 5xx nor reveals internals.
fn unmoved(app: &TestApp, what: &str, text: &str, answer: &Answer) {
    let place = format!("{}, {what}, {text:?}: {} {}", app.engine(), answer.status(), answer.text());
    assert!(answer.status() < 500, "{place}");
    let inner = answer.json_if_any().and_then(|json| json.pointer("/result/structuredContent/status")?.as_u64());
    assert!(inner.is_none_or(|status| status < 500), "{place}");
    assert!(answer.json_if_any().is_none_or(|json| json.get("error").is_none() || what == "tool's name"), "{place}");
    assert_eq!(answer.header("x-injected"), None, "{place}");
    for word in ["canary", "password_hash", "SELECT", "sqlite", "postgres", "syntax error", "panicked"] {
        assert!(text.contains(word) || !answer.text().contains(word), "{place}");
    }
}

type Answers = Vec<(String, Answer)>;

async fn paths(ada: &Actor, text: &str, answers: &mut Answers) {
    let coded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    for (method, path) in [
        (Method::GET, format!("/notes/{coded}")),
        (Method::GET, format!("/notes/{coded}?include=topic")),
        (Method::PATCH, format!("/notes/{coded}")),
        (Method::PUT, format!("/notes/{coded}")),
        (Method::DELETE, format!("/notes/{coded}")),
        (Method::POST, format!("/notes/{coded}/_restore")),
        (Method::GET, format!("/{coded}")),
    ] {
        let answer = ada.json(method.clone(), &path, &json!({ "title": "x" })).await;
        assert!([400, 404].contains(&answer.status()), "{method} {path}: {}", answer.text());
        answers.push((format!("{method} {path}"), answer));
    }
    for name in PARAMETERS {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair(name, text).finish();
        for path in [format!("/notes?{query}"), format!("/notes/nope?{query}"), format!("/notes?cursor=&{query}")] {
            answers.push((path.clone(), ada.get(&path).await));
        }
    }
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair(text, "x").finish();
    answers.push(("a parameter's name".to_owned(), ada.get(&format!("/notes?{query}")).await.is(400)));
}

async fn headers(plain: &Actor, ada: &Actor, note: &str, text: &str, answers: &mut Answers) {
    // A value that is invalid in a header cannot be sent.
    let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) else { return };
    for (actor, name, method, path) in [
        (plain, "x-tenant-id", Method::GET, "/notes"),
        (plain, "x-tenant-id", Method::POST, "/notes"),
        (plain, "x-tenant-id", Method::GET, "/notes/_events"),
        (ada, "if-match", Method::PATCH, note),
        (ada, "if-match", Method::DELETE, note),
        (ada, "if-none-match", Method::GET, note),
        (ada, "x-request-id", Method::GET, note),
        (ada, "content-type", Method::POST, "/notes"),
        (ada, "accept", Method::POST, "/mcp"),
        (ada, "mcp-session-id", Method::POST, "/mcp"),
        (ada, "mcp-protocol-version", Method::POST, "/mcp"),
    ] {
        let request = actor.request(method, path).header(name, value.clone());
        let request = if name == "content-type" { request } else { request.header("content-type", "application/json") };
        let answer = actor.send(request.body(json!({ "title": "never" }).to_string().into()).unwrap()).await;
        let expected: &[u16] = match name {
            "x-tenant-id" => &[400, 403],
            "if-match" => &[412],
            "content-type" => &[415],
            _ => &[200, 400, 406],
        };
        assert!(expected.contains(&answer.status()), "{name}: {text:?} {} {}", answer.status(), answer.text());
        answers.push((name.to_owned(), answer));
    }
}

async fn bodies(ada: &Actor, note: &str, text: &str, answers: &mut Answers) {
    let storable = !text.contains('\0');
    let made = |good: u16| if storable { good } else { 422 };
    answers.push(("a value".to_owned(), ada.post("/notes", json!({ "title": text })).await.is(made(201))));
    let batch = json!({ "items": [{ "title": text }] });
    answers.push(("a batch's value".to_owned(), ada.post("/notes/_batch", batch).await.is(made(200))));
    let json = ada.post("/notes", json!({ "extra": { text: [text] } })).await.is(made(201));
    answers.push(("a JSON value".to_owned(), json));
    for body in [json!({ text: 1 }), json!({ "topic": text }), json!({ "extra": 1, text: null })] {
        answers.push((format!("create {body}"), ada.post("/notes", body.clone()).await.is(422)));
        answers.push((format!("patch {body}"), ada.patch(note, body.clone()).await.is(422)));
        answers.push(("batch".to_owned(), ada.post("/notes/_batch", json!({ "items": [body] })).await.is(422)));
    }
    for body in [json!({ "items": [{ "id": text, "title": "x" }] }), json!({ text: [] }), json!({ "items": text })] {
        let answer = ada.patch("/notes/_batch", body.clone()).await;
        assert!([404, 422].contains(&answer.status()), "{body}: {}", answer.text());
        answers.push((format!("batch patch {body}"), answer));
    }
    let gone = ada.json(Method::DELETE, "/notes/_batch", &json!({ "ids": [text] })).await.is(404);
    answers.push(("batch delete".to_owned(), gone));
    let raw = ada.request(Method::POST, "/notes").header("content-type", "application/json");
    answers.push(("a body".to_owned(), ada.send(raw.body(text.to_owned().into()).unwrap()).await));
}

async fn streams(ada: &Actor, text: &str, answers: &mut Answers) {
    for name in ["filter", "slow", "subscriber_id", text] {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair(name, text).finish();
        if let Err(refusal) = ada.open(&format!("/notes/_events?{query}")).await {
            answers.push((format!("a stream's {name}"), refusal.is(400)));
        }
    }
}

async fn tools(ada: &Actor, note: &Value, text: &str, answers: &mut Answers) {
    let mut calls = vec![
        ("notes_get", json!({ "id": text })),
        ("notes_get", json!({ "id": note, "fields": text })),
        ("notes_get", json!({ "id": note, "include": text })),
        ("notes_get", json!({ "id": note, text: "x" })),
        ("notes_create", json!({ "title": text })),
        ("notes_create", json!({ "topic": text })),
        ("notes_create", json!({ text: "x" })),
        ("notes_update", json!({ "id": text, "title": "x" })),
        ("notes_update", json!({ "id": note, text: "x" })),
        ("notes_delete", json!({ "id": text })),
        ("notes_delete", json!({ "id": text, text: text })),
        ("notes_list", json!({ text: text })),
        ("notes_list", json!({ "filter": format!("title = '{text}'") })),
        ("notes_list", json!({ "filter": format!("{text} = 'x'") })),
    ];
    calls.extend(PARAMETERS.map(|name| ("notes_list", json!({ name: text }))));
    calls.extend(PARAMETERS.map(|name| ("notes_list", json!({ name: [text, text] }))));
    for (name, arguments) in calls {
        let answer = ada.call_tool(name, arguments.clone()).await.is(200);
        answers.push((format!("{name} {arguments}"), answer));
    }
    answers.push(("tool's name".to_owned(), ada.call_tool(text, json!({})).await));
    answers.push(("tool's name".to_owned(), ada.rpc(text, json!({})).await));
}
