//! Hostile identifiers, on every route of the OpenAPI document: in each parameter of a path, each query parameter, each
//! header, and each text of a body. None is a 5xx, and none is answered in another way than an unknown one.
//!
//! The routes come from the document, which another test compares with the mounted routes. So a new route is covered.

use std::collections::BTreeMap;

use axum::body::Body;
use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Roles, Subject};
use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use serde_json::{Map, Value, json};

use super::admin::operator;

const CONFIG: &str = concat!(
    r#"
[authorization_server]
enabled = true
dynamic_registration = true
[auth.oauth.google]
client_id = "c"
client_secret = "s"
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
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "topic"
type = "relation"
to = "topics"
"#,
    entity!(public "topics" "title"),
    entity!(multi_tenant "projects" "title"),
);

/// Well formed, and nobody's.
const UNKNOWN: &str = "01983d1e-0000-7000-8000-00000000dead";
const EMAIL: &str = "ada@example.com";
/// In the records of another account.
const CANARY: &str = "canary-of-bob";

/// Identifiers that nothing has, percent-encoded. `known` are ids of records and accounts that exist, some of them not
/// the caller's: another spelling of an id is not the id, except that the digits of a UUID have no case.
fn hostile(known: &[String]) -> Vec<String> {
    let mut all: Vec<String> = [
        "%00",
        "a%00b",
        "%FF",
        "%C0%AF",
        "%ED%A0%80",
        "..%2F..%2Fetc%2Fpasswd",
        "%2E%2E",
        "%27%20OR%20%271%27=%271",
        "%22",
        "%60",
        "%5C",
        "%25",
        "%2500",
        "%F0%9F%98%80",
        "%E2%80%AE",
        "%EF%BB%BF",
        "e%CC%81",
        "%0A",
        "%0D%0AX-Injected:%20y",
        "%7F",
        "%20",
        "null",
        "undefined",
        "-1",
        "9223372036854775808",
        "1e400",
        "%7B%7D",
        "%5B%5D",
        "*",
        "%3Cscript%3E",
        "%24%7B7*7%7D",
        "00000000-0000-0000-0000-000000000000",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push("x".repeat(10_000));
    all.push("%C3%A9".repeat(3_000));
    for id in known.iter().map(String::as_str).chain([UNKNOWN]) {
        all.extend([format!("%7B{id}%7D"), format!("{id}%00"), format!("%20{id}"), id.replace('-', "")]);
    }
    all
}

/// The texts for queries, headers and bodies: fewer, because there are many of these.
const TEXTS: [&str; 8] =
    ["%00", "a%00b", "%FF", "%27%20OR%20%271%27=%271", "%F0%9F%98%80", "%E2%80%AE", "9223372036854775808", "1e400"];

/// The text of which an identifier is the encoded form.
fn decoded(encoded: &str) -> String {
    let mut bytes = encoded.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let digits = if byte == b'%' { [bytes.next(), bytes.next()] } else { [None, None] };
        decoded.push(match digits {
            [Some(first), Some(second)] => u8::from_str_radix(&String::from_utf8_lossy(&[first, second]), 16).unwrap(),
            _ => byte,
        });
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// One operation of the document.
struct Operation {
    method: Method,
    path: String,
    described: Value,
}

impl Operation {
    fn all(document: &Value) -> Vec<Self> {
        let paths = document["paths"].as_object().unwrap();
        let of_path = |(path, item): (&String, &Value)| {
            let operation = |(method, described): (&String, &Value)| Self {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                described: described.clone(),
            };
            item.as_object().unwrap().iter().map(operation).collect::<Vec<_>>()
        };
        paths.iter().flat_map(of_path).collect()
    }

    fn path_parameters(&self) -> Vec<String> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(str::to_owned).collect()
    }

    fn parameters(&self, place: &str, document: &Value) -> Vec<String> {
        let listed = self.described["parameters"].as_array().cloned().unwrap_or_default();
        let resolved = listed.iter().map(|parameter| resolve(parameter, document));
        resolved.filter(|one| one["in"] == place).map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The path with these values, and otherwise with names that exist and ids that do not.
    fn at(&self, values: &BTreeMap<String, String>) -> String {
        let part = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            None => part.to_owned(),
            Some(name) => values.get(name).cloned().unwrap_or_else(|| self.usual(name).to_owned()),
        };
        self.path.split('/').map(part).collect::<Vec<_>>().join("/")
    }

    fn usual(&self, name: &str) -> &'static str {
        match name {
            "entity" => "posts",
            "name" | "consumer" if self.path.starts_with("/consumers") => "crm",
            "provider" => "google",
            _ => UNKNOWN,
        }
    }

    /// A body that the schema allows, with `text` for every text that has no fixed form.
    fn body(&self, document: &Value, text: &str) -> Option<Value> {
        let body = resolve(&self.described["requestBody"], document);
        body["content"]["application/json"].get("schema").map(|schema| example(schema, document, text, 0))
    }

    async fn send(&self, actor: &Actor, path: &str, body: Option<&Value>) -> Answer {
        if self.method == Method::GET && (self.path.ends_with("_events") || self.path.ends_with("/events")) {
            return match actor.open(path).await {
                Ok(_stream) => actor.get("/healthz").await,
                Err(refusal) => refusal,
            };
        }
        match body {
            Some(body) => actor.json(self.method.clone(), path, body).await,
            None => actor.send(actor.request(self.method.clone(), path).body(Body::empty()).unwrap()).await,
        }
    }
}

fn resolve(value: &Value, document: &Value) -> Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).cloned().unwrap_or_default(),
        None => value.clone(),
    }
}

fn example(schema: &Value, document: &Value, text: &str, depth: usize) -> Value {
    let schema = resolve(schema, document);
    for of in ["oneOf", "anyOf", "allOf"] {
        if let Some(first) = schema[of].as_array().and_then(|all| all.first()).filter(|_| depth < 8) {
            return example(first, document, text, depth + 1);
        }
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].as_array().and_then(|all| all.first())) {
        return value.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().cloned().unwrap_or_default(),
        kind => kind.clone(),
    };
    match kind.as_str() {
        Some("object") | None if depth < 8 => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let filled = properties.iter().map(|(name, one)| (name.clone(), example(one, document, text, depth + 1)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        Some("array") => json!([example(&schema["items"], document, text, depth + 1)]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        _ => json!(text),
    }
}

/// The status, and the code of a problem.
fn shape(answer: &Answer) -> (u16, String) {
    let code = answer.json_if_any().and_then(|body| body["code"].as_str().map(str::to_owned));
    (answer.status(), code.unwrap_or_default())
}

struct Callers {
    all: Vec<(&'static str, Actor)>,
    known: Vec<String>,
    document: Value,
}

async fn callers(app: &TestApp) -> Callers {
    let admin = operator(app).await;
    let user = app.signed_in(EMAIL).await;
    let bob = app.signed_in("bob@example.com").await;
    let post = bob.post("/posts", json!({ "title": CANARY })).await.is(201).at("/data/id");
    let own = user.post("/posts", json!({ "title": "own" })).await.is(201).at("/data/id");
    let tenant = bob.post("/auth/tenants", json!({ "name": CANARY })).await;
    let auth = app.app().auth().unwrap();
    let service = auth.service_accounts().unwrap().create("worker", Roles::default()).await.unwrap();
    let draft = TokenDraft::parse("worker", &["consumers:crm"], 0).unwrap();
    let issued = auth.api_tokens().unwrap().issue(Subject::Service(service.id), draft).await.unwrap();
    let program = app.anonymous().bearing(issued.plaintext.expose());
    let mut known = vec![app.user_id("bob@example.com").await.to_string()];
    let made = [Some(post), Some(own), tenant.json_if_any().map(|body| body["tenant"]["id"].clone())];
    known.extend(made.into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned)));
    let document = app.anonymous().get("/openapi.json").await.is(200).json();
    Callers { all: vec![("user", user), ("administrator", admin), ("program", program)], known, document }
}

#[tokio::test]
async fn a_hostile_identifier_in_a_path_is_answered_like_an_unknown_one() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let Callers { all, known, document } = callers(&app).await;
        let operations = Operation::all(&document);
        let (mut doors, mut wrong) = (0, Vec::new());
        for operation in &operations {
            let body = operation.body(&document, "text");
            for parameter in operation.path_parameters() {
                doors += 1;
                for (name, actor) in &all {
                    let with = |value: &str| BTreeMap::from([(parameter.clone(), value.to_owned())]);
                    let path = operation.at(&with(UNKNOWN));
                    let expected = shape(&operation.send(actor, &path, body.as_ref()).await);
                    for value in hostile(&known) {
                        let answer = operation.send(actor, &operation.at(&with(&value)), body.as_ref()).await;
                        let (status, _) = shape(&answer);
                        let is_same = shape(&answer) == expected || matches!(status, 400 | 404 | 422);
                        let leaks = *name != "administrator" && answer.text().contains(CANARY);
                        if status >= 500 || !is_same || leaks {
                            let (method, shown) = (&operation.method, value.chars().take(60).collect::<String>());
                            wrong.push(format!(
                                "{name}: {method} {} {{{parameter}}}={shown}: {:?}, not {expected:?}",
                                operation.path,
                                shape(&answer)
                            ));
                        }
                    }
                }
            }
        }
        assert!(doors > 40, "the document has parameters: {doors}");
        assert!(wrong.is_empty(), "{}: {} wrong:\n{}", app.engine(), wrong.len(), wrong.join("\n"));
    }
}

/// RFC 9562, section 4: a UUID is read in any case.
#[tokio::test]
async fn a_get_of_an_id_in_upper_case_is_a_get_of_the_id_at_every_path_of_the_document() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let Callers { all, known, document } = callers(&app).await;
        let (mut doors, mut found) = (0, 0);
        for operation in Operation::all(&document).iter().filter(|operation| operation.method == Method::GET) {
            for parameter in operation.path_parameters() {
                doors += 1;
                for (name, actor) in &all {
                    for id in &known {
                        let at = |id: String| operation.at(&BTreeMap::from([(parameter.clone(), id)]));
                        let lower = operation.send(actor, &at(id.clone()), None).await;
                        let upper = operation.send(actor, &at(id.to_uppercase()), None).await;
                        let case = format!("{}: {name}: {} {{{parameter}}}", app.engine(), operation.path);
                        assert_eq!(shape(&upper), shape(&lower), "{case}");
                        if lower.status() == 200 && !operation.path.ends_with("events") {
                            found += 1;
                            assert_eq!(upper.json()["data"], lower.json()["data"], "{case}");
                        }
                    }
                }
            }
        }
        assert!(doors > 8 && found > 8, "{doors} {found}");
    }
}

#[tokio::test]
async fn a_hostile_text_in_a_query_a_header_or_a_body_is_never_a_5xx() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let Callers { mut all, document, .. } = callers(&app).await;
        let long = "x".repeat(10_000);
        let operations = Operation::all(&document);
        let (mut doors, mut wrong) = (0, Vec::new());
        for operation in &operations {
            // They end the sessions that the test uses.
            let ends_session = ["/logout", "/auth/sessions", "/admin/api/users", "/auth/me", "deletion"];
            let is_write = operation.method != Method::GET;
            if is_write && ends_session.iter().any(|path| operation.path.contains(path)) {
                continue;
            }
            let path = operation.at(&BTreeMap::new());
            for (name, actor) in &mut all {
                let usual = operation.body(&document, "text");
                let mut check = |what: String, answer: &Answer| {
                    doors += 1;
                    if answer.status() >= 500 || (*name != "administrator" && answer.text().contains(CANARY)) {
                        let what = what.chars().take(100).collect::<String>();
                        let text = answer.text().chars().take(200).collect::<String>();
                        wrong.push(format!(
                            "{name}: {} {} {what}: {}: {text}",
                            operation.method,
                            operation.path,
                            answer.status()
                        ));
                    }
                };
                for value in TEXTS.into_iter().chain([&*long]) {
                    for parameter in operation.parameters("query", &document) {
                        let path = format!("{path}?{parameter}={value}");
                        let answer = operation.send(actor, &path, usual.as_ref()).await;
                        check(format!("?{parameter}={value}"), &answer);
                    }
                    let text = decoded(value);
                    if let Some(body) = operation.body(&document, &text) {
                        let answer = operation.send(actor, &path, Some(&body)).await;
                        check(format!("body with {value}"), &answer);
                    }
                    for header in operation.parameters("header", &document) {
                        let Ok(bytes) = http::HeaderValue::from_bytes(text.as_bytes()) else { continue };
                        let request = actor.request(operation.method.clone(), &path).header(&*header, bytes);
                        let request = request.header("content-type", "application/json");
                        let body = usual.as_ref().map_or_else(Body::empty, |body| Body::from(body.to_string()));
                        if !operation.path.ends_with("events") {
                            check(format!("{header}: {value}"), &actor.send(request.body(body).unwrap()).await);
                        }
                    }
                }
                if actor.get("/auth/me").await.status() == 401 && *name == "user" {
                    actor.sign_in(EMAIL).await.is(200);
                }
            }
        }
        assert!(doors > 2_000, "the document has queries and bodies: {doors}");
        assert!(wrong.is_empty(), "{}: {} wrong:\n{}", app.engine(), wrong.len(), wrong.join("\n"));
    }
}
