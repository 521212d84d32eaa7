//! The document against the mounted routes, and against data that must not be in it.

use std::collections::BTreeSet;

use gatewright::config::Loader;
use gatewright::openapi::document;
use gatewright_testing::TestApp;
use http::Method;
use serde_json::{Value, json};

/// Screens and other routes for people, which are not part of the interface for programs.
const PAGES: &[&str] = &[
    "/",
    "/login",
    "/register",
    "/two-factor",
    "/forgot-password",
    "/reset-password",
    "/magic-link",
    "/device",
    "/account",
    "/complete-profile",
    "/dev/mail",
    "/dev/mail.json",
    "/api/docs/{file}",
    "/admin",
    "/admin/{*page}",
    "/admin/",
    "/admin/assets/{file}",
];

const EVERYTHING: &str = r#"
[[auth.profile.field]]
name = "display_name"
type = "string"
required = true
public = true
[authorization_server]
enabled = true
dynamic_registration = true
[outbox]
enabled = true
[[outbox.consumer]]
name = "crm"
event = "entity.created"
pull = true
[[entity]]
name = "posts"
owner_field = "user_id"
soft_delete = true
search_fields = ["title"]
access = { create = "posts:write" }
[[entity.field]]
name = "title"
type = "string"
required = true
min = 2
max = 20
pattern = "^[a-z]"
[[entity.field]]
name = "net_price"
type = "decimal"
[[entity.field]]
name = "state"
type = "enum"
values = ["draft", "out"]
default = "draft"
[[entity.field]]
name = "tags"
type = "list"
of = "enum"
values = ["a", "b"]
max_items = 20
unique_items = true
[[entity.field]]
name = "secret_canary"
type = "string"
hidden = true
[[entity.field]]
name = "hits"
type = "int"
read_only = true
default = 0
[[entity]]
name = "internal_canary"
crud = false
mcp = false
[[entity]]
name = "projects"
multi_tenant = true
[[entity.field]]
name = "title"
type = "string"
"#;

#[tokio::test]
async fn every_mounted_route_is_in_the_document() {
    for app in TestApp::on_every_engine(EVERYTHING).await {
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let mounted = mounted(&app).await;
        assert!(mounted.len() > 30, "the list of routes is read: {mounted:?}");
        let told = operations(&document);
        let missing: Vec<_> = mounted.iter().filter(|route| !told.contains(*route)).collect();
        assert!(missing.is_empty(), "mounted, but not in the document: {missing:?}");
        let ghosts: Vec<_> = told.iter().filter(|route| !mounted.contains(*route)).collect();
        assert!(ghosts.is_empty(), "in the document, but not mounted: {ghosts:?}");
    }
}

/// Method and path of every route, except pages. A path lists its methods when it is requested with one
/// that no path has.
async fn mounted(app: &TestApp) -> BTreeSet<(String, String)> {
    let listed = format!("{:?}", app.app().router());
    let mut routes = BTreeSet::new();
    for path in paths(&listed) {
        let below =
            |page: &str| page != "/" && path.starts_with(&format!("{page}/")) && !path.starts_with("/admin/api/");
        if PAGES.iter().any(|page| path == *page || below(page)) {
            continue;
        }
        let anybody = app.anonymous();
        let request = anybody.request(Method::from_bytes(b"BREW").unwrap(), &path.replace(['{', '}'], ""));
        let answer = anybody.send(request.body(axum::body::Body::empty()).unwrap()).await.is(405);
        let allowed = answer.header("allow").unwrap_or_else(|| panic!("{path} says what it allows")).to_owned();
        let methods = allowed.split(',').map(str::trim).filter(|method| *method != "HEAD");
        routes.extend(methods.map(|method| (method.to_lowercase(), path.clone())));
    }
    routes
}

/// The paths in the router's own description of itself.
pub(super) fn paths(listed: &str) -> BTreeSet<String> {
    let quoted = listed.split('"').skip(1).step_by(2);
    quoted.filter(|text| text.starts_with('/') && !text.contains("__private")).map(str::to_owned).collect()
}

fn operations(document: &Value) -> BTreeSet<(String, String)> {
    let paths = document["paths"].as_object().unwrap();
    let methods = |(path, item): (&String, &Value)| {
        let path = path.clone();
        let methods: Vec<_> = item.as_object().unwrap().keys().cloned().collect();
        methods.into_iter().map(move |method| (method, path.clone()))
    };
    paths.iter().flat_map(methods).collect()
}

#[tokio::test]
async fn the_document_needs_no_credentials_and_supports_if_none_match() {
    for app in TestApp::on_every_engine(EVERYTHING).await {
        let answer = app.anonymous().get("/openapi.json").await.is(200);
        let (etag, anybody) = (answer.header("etag").unwrap().to_owned(), app.anonymous());
        let request = anybody.request(Method::GET, "/openapi.json").header("if-none-match", etag);
        anybody.send(request.body(axum::body::Body::empty()).unwrap()).await.is(304);
    }
}

#[test]
fn hidden_and_unserved_items_are_not_in_the_document() {
    let told = told(EVERYTHING, false);
    for canary in ["secret_canary", "secretCanary", "internal_canary", "InternalCanary"] {
        assert!(!told.to_string().contains(canary), "{canary}");
    }
}

#[test]
fn a_fields_schema_describes_its_input_and_output() {
    let schemas = &told(EVERYTHING, false)["components"]["schemas"];
    let title = &schemas["PostsCreate"]["properties"]["title"];
    assert_eq!(
        (&title["minLength"], &title["maxLength"], &title["pattern"]),
        (&json!(2), &json!(20), &json!("^[a-z]"))
    );
    assert_eq!(schemas["PostsCreate"]["required"], json!(["title"]));
    assert_eq!(schemas["PostsCreate"]["additionalProperties"], json!(false));
    assert_eq!(schemas["PostsUpdate"].get("required"), None);
    assert_eq!(schemas["Posts"]["properties"]["state"]["enum"], json!(["draft", "out", null]));
    assert_eq!(schemas["Posts"]["properties"]["hits"]["readOnly"], json!(true));
    assert_eq!(schemas["Posts"]["properties"]["netPrice"]["type"], json!(["string", "null"]));
    let words = json!({"type": "string", "enum": ["a", "b"]});
    let list = json!({"type": "array", "items": words, "description": "A list."});
    assert_eq!(schemas["Posts"]["properties"]["tags"], list);
    let mut written = json!({"type": "array", "items": words, "description": "A list.", "default": []});
    (written["maxItems"], written["uniqueItems"]) = (json!(20), json!(true));
    assert_eq!(schemas["PostsCreate"]["properties"]["tags"], written);
    let change = &schemas["PostsUpdate"]["properties"]["tags"]["anyOf"];
    assert_eq!(change[0], written);
    for (index, operator) in [(1, "$append"), (2, "$remove")] {
        assert_eq!(change[index]["properties"][operator]["items"], words, "{change}");
        assert_eq!(change[index]["required"], json!([operator]), "{change}");
    }
    let required: Vec<&str> =
        schemas["Posts"]["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(required, ["id", "title", "netPrice", "state", "tags", "hits", "createdAt", "updatedAt", "deletedAt"]);
}

#[test]
fn keys_are_spelled_as_on_the_wire() {
    let told = told(EVERYTHING, true);
    let record = &told["components"]["schemas"]["Posts"]["properties"];
    assert!(record.get("net_price").is_some() && record.get("created_at").is_some(), "{record}");
    let mut names = Vec::new();
    properties(&told, &mut names);
    let camel: Vec<&String> = names.iter().filter(|name| name.contains(|c: char| c.is_ascii_uppercase())).collect();
    assert!(names.len() > 300 && camel.is_empty(), "{} names, and of them {camel:?}", names.len());
}

/// The names of all properties of all schemas.
fn properties(document: &Value, names: &mut Vec<String>) {
    match document {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                names.extend(properties.keys().cloned());
            }
            members.values().for_each(|member| properties(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, names)),
        _ => {}
    }
}

#[test]
fn the_tools_are_open_to_anonymous_callers_only_where_they_are() {
    for (configuration, is_open) in [
        ("", true),
        ("[authorization_server]\nenabled = true\n", false),
        ("[authorization_server]\nenabled = true\n[mcp]\nanonymous = true\n", true),
    ] {
        let told = told(&format!("[server]\npublic_url = \"http://localhost:8080\"\n{configuration}"), false);
        let post = &told["paths"]["/mcp"]["post"];
        let optional = post["security"].as_array().unwrap().contains(&serde_json::json!({}));
        assert_eq!((optional, post["responses"].get("401").is_some()), (is_open, true), "{configuration}");
    }
}

#[test]
fn only_enabled_features_are_in_the_document() {
    let without = told("[auth]\nenabled = false\n[[entity]]\nname = \"posts\"\npublic = true\n", false);
    let paths: Vec<&String> = without["paths"].as_object().unwrap().keys().collect();
    assert!(paths.iter().all(|path| !path.starts_with("/auth")), "{paths:?}");
    assert_eq!(without["components"].get("securitySchemes"), None);
    let core = told("[auth]\nplugins = [\"core\"]\n", false);
    assert!(core["paths"].get("/auth/login").is_some() && core["paths"].get("/auth/magic-link/send").is_none());
}

/// The document of a configuration.
fn told(configuration: &str, snake: bool) -> Value {
    let case = if snake { "[server]\njson_case = \"snake\"\n" } else { "" };
    let config = Loader::text("f.toml", format!("{case}{configuration}")).dev_mode().load().unwrap();
    serde_json::to_value(document(&config).unwrap()).unwrap()
}
