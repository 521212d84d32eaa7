//! The OpenAPI document and the tools, used by independent programs: validators, a fuzzer, the protocol's official
//! client.

use std::{env, fs, path::Path};

use serde_json::{Value, json};

use crate::harness::{Database, Launch, Server, gatewright, node_tools, python_tools, run};

/// A configuration with every kind of field and every kind of access.
const ENTITIES: &str = r#"
[roles]
editor = ["articles:write"]
[[entity]]
name = "notes"
owner_field = "user_id"
soft_delete = true
search_fields = ["title"]
[[entity.field]]
name = "title"
type = "string"
required = true
min = 1
max = 40
[[entity.field]]
name = "net_price"
type = "decimal"
max = "9999999999999999.99"
[[entity.field]]
name = "state"
type = "enum"
values = ["draft", "out"]
default = "draft"
[[entity.field]]
name = "rank"
type = "int"
min = -5
[[entity.field]]
name = "weight"
type = "float"
[[entity.field]]
name = "done"
type = "bool"
[[entity.field]]
name = "due"
type = "date"
[[entity.field]]
name = "seen_at"
type = "timestamp"
[[entity.field]]
name = "code"
type = "uuid"
unique = true
[[entity.field]]
name = "extra"
type = "json"
[[entity.field]]
name = "tags"
type = "list"
of = "string"
max_items = 20
unique_items = true
[[entity.field]]
name = "sums"
type = "list"
of = "decimal"
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
pattern = "^[A-Za-z ]+$"
[[entity.field]]
name = "note"
type = "relation"
to = "notes"
on_delete = "set_null"
[[entity]]
name = "board"
public = true
[[entity.field]]
name = "text"
type = "text"
required = true
[[entity.field]]
name = "hits"
type = "int"
read_only = true
default = 0
"#;

#[tokio::test(flavor = "multi_thread")]
async fn two_validators_accept_the_document() {
    let (Some(python), Some(node)) = (python_tools(), node_tools()) else { return };
    let server = Launch::configured(ENTITIES).start(&Database::Sqlite).await;
    let answered = server.client().get("/openapi.json").await.is(200).text;
    for (name, text, words) in [
        ("camel", ENTITIES.to_owned(), &[][..]),
        ("snake", format!("[server]\njson_case = \"snake\"\napi_prefix = \"/api\"\n{ENTITIES}"), &[]),
        ("without_accounts", "[auth]\nenabled = false\n[mcp]\nenabled = false\n".to_owned(), &[]),
        ("served", String::new(), &[answered]),
    ] {
        let folder = server.folder().join(name);
        fs::create_dir(&folder).unwrap();
        let document = match words {
            [text] => text.clone(),
            _ => printed(&folder, &text),
        };
        let file = folder.join("openapi.json");
        fs::write(&file, document).unwrap();
        run(python.join("openapi-spec-validator"), &[file.as_os_str()]).await;
        run(node.join("node_modules/.bin/validate-api"), &[file.as_os_str()]).await;
    }
}

/// The output of `gatewright openapi` for this configuration, which has no secret.
fn printed(folder: &Path, configuration: &str) -> String {
    fs::write(folder.join("gatewright.toml"), configuration).unwrap();
    let printed = gatewright(folder, &["openapi"], "");
    assert_eq!((printed.status, &*printed.err), (0, ""));
    printed.out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fuzzer_finds_no_answer_that_the_document_lacks() {
    let Some(python) = python_tools() else { return };
    // Once on each engine: a run takes most of a minute.
    let server = Launch::configured(ENTITIES).start(&Database::Sqlite).await;
    fuzz(&python, &server, None).await;
    let database = Database::postgres().await.unwrap_or(Database::Sqlite);
    let server = Launch::configured(ENTITIES).start(&database).await;
    let editor = editor(&server, &database).await;
    fuzz(&python, &server, Some(&editor)).await;
}

/// Runs the fuzzer on everything except streams, which stay open, and metrics, which have no schema.
async fn fuzz(python: &Path, server: &Server, bearer: Option<&str>) {
    let url = format!("http://{}/openapi.json", server.address());
    let header = bearer.map(|token| format!("Authorization: Bearer {token}"));
    let mut words = vec![
        "run",
        &url,
        "--no-color",
        "--seed",
        "4711",
        "--max-examples",
        "6",
        "--workers",
        "1",
        "--phases",
        "examples,coverage,fuzzing",
        "--exclude-path-regex",
        "/_events$",
        "--request-timeout",
        "20",
        "--generation-database",
        "none",
        "--checks",
        "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance",
    ];
    if let Some(header) = &header {
        words.extend(["--header", header]);
    }
    run(python.join("schemathesis"), &words).await;
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_uses_the_tools() {
    let Some(_) = node_tools() else { return };
    for database in Database::all().await {
        let server = Launch::configured(ENTITIES).start(&database).await;
        let token = editor(&server, &database).await;
        let url = format!("http://{}/mcp", server.address());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/mcp-client.mjs");
        let report: Value = serde_json::from_str(&run(node(), &[script, &url, &token]).await).unwrap();
        assert_eq!(report["server"], "gatewright");
        let board = ["board_list", "board_group", "board_get", "board_create", "board_update", "board_delete"];
        let open: Vec<&str> =
            ["articles_list", "articles_group", "articles_get"].into_iter().chain(board).chain(["batch"]).collect();
        assert_eq!(report["nobody"], json!(open));
        assert_eq!(report["refused"]["structuredContent"]["status"], 401);
        assert_eq!(report["tools"].as_array().unwrap().len(), 19);
        assert_eq!(report["made"]["structuredContent"]["data"]["netPrice"], "9007199254740993.1");
        assert_eq!(report["changed"]["structuredContent"]["data"]["title"], "three");
        assert_eq!(report["page"]["structuredContent"]["data"][0].as_object().unwrap().len(), 2);
        assert_eq!(report["next"]["structuredContent"]["data"][0]["title"], "two");
        assert_eq!(report["found"]["structuredContent"]["total"], 1);
        assert_eq!(report["invalid"]["isError"], true);
        let errors = &report["invalid"]["structuredContent"]["errors"];
        assert_eq!((&errors[0]["field"], &errors[1]["field"]), (&json!("title"), &json!("netPrice")));
        assert_eq!(report["gone"]["structuredContent"]["deleted"], true);
        assert_eq!(report["missing"]["structuredContent"]["status"], 404);
        assert_eq!(report["unknown"], -32602);
        let refusals: Vec<bool> = (0..20).map(|turn| turn % 2 == 0).collect();
        assert_eq!(report["many"], json!(refusals), "nobody is refused, and Ada is not");
        assert!(!report.to_string().to_lowercase().contains("canary"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_lists_and_calls_tools() {
    let Some(tools) = node_tools() else { return };
    let server = Launch::configured(ENTITIES).start(&Database::Sqlite).await;
    let url = format!("http://{}/mcp", server.address());
    let inspector = tools.join("node_modules/@modelcontextprotocol/inspector-cli/build/cli.js");
    let inspector = inspector.to_str().unwrap();
    let listed = run(node(), &[inspector, "--cli", &url, "--transport", "http", "--method", "tools/list"]).await;
    assert!(listed.contains("\"board_list\"") && !listed.contains("\"notes_list\""), "{listed}");
    let words =
        ["--transport", "http", "--method", "tools/call", "--tool-name", "board_create", "--tool-arg", "text=hello"];
    let made = run(node(), &[&[inspector, "--cli", &*url][..], &words].concat()).await;
    assert!(made.contains("hello"), "{made}");
    server.client().get("/board?text=hello").await.is(200).json()["total"]
        .as_u64()
        .filter(|total| *total == 1)
        .unwrap();
}

/// A JWT of a user who may write articles.
async fn editor(server: &Server, database: &Database) -> String {
    // Not the address of the document's examples, which the fuzzer registers.
    let email = "grace@example.com";
    server.client().register(email).await.is(200);
    let words = ["user", "set-roles", email, "user,editor", "--unverified", "--database", &database.url()];
    assert_eq!(gatewright(server.folder(), &words, "").status, 0);
    let signed_in = server.client().log_in(email).await.is(200).json();
    signed_in["token"].as_str().unwrap().to_owned()
}

fn node() -> String {
    env::var("GATEWRIGHT_TEST_NODE").unwrap_or_else(|_| "node".to_owned())
}
