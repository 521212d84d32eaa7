use axum::Router;
use axum::routing::post as route;
use gatewright_base::{JsonCase, Secret};
use gatewright_http::{Kind, Submission};
use http::Request;
use serde::Deserialize;

use crate::support::{Answer, post, send};

const FORM: Option<&str> = Some("application/x-www-form-urlencoded");
const JSON: Option<&str> = Some("application/json");
const MULTIPART: Option<&str> = Some("multipart/form-data; boundary=XX");

#[derive(Deserialize)]
struct Login {
    email: String,
    password: Secret,
    remember_me: Option<bool>,
    device_id: Option<i64>,
    #[serde(default)]
    scopes: Vec<String>,
}

fn login() -> Router {
    Router::new().route(
        "/",
        route(async |login: Submission<Login>| {
            let next = login.next.map_or("-".to_owned(), |next| next.to_string());
            let Login { email, password, remember_me, device_id, scopes } = login.value;
            let (kind, password) = (login.kind, password.expose().to_owned());
            format!("{kind:?} {email} {password} {remember_me:?} {device_id:?} {scopes:?} {next}")
        }),
    )
}

fn multipart(fields: &[(&str, &str)]) -> String {
    let part = |(name, value): &(&str, &str)| {
        format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    fields.iter().map(part).collect::<String>() + "--XX--\r\n"
}

async fn answer(content_type: Option<&str>, body: impl Into<axum::body::Body>) -> Answer {
    send(&login(), post(content_type, body)).await
}

#[tokio::test]
async fn the_same_fields_arrive_by_json_form_and_multipart() {
    let json = r#"{"email":"a@b.c","password":"p w+","rememberMe":true,"deviceId":7,"scopes":["x","y"],"next":"/n"}"#;
    let form = "email=a%40b.c&password=p+w%2b&rememberMe=on&device_id=7&scopes=x&scopes=y&next=/n&roles=admin";
    let parts = multipart(&[
        ("email", "a@b.c"),
        ("password", "p w+"),
        ("remember_me", "true"),
        ("deviceId", "7"),
        ("scopes", "x"),
        ("scopes", "y"),
        ("next", "/n"),
        ("_csrf", "t"),
    ]);
    let fields = "a@b.c p w+ Some(true) Some(7) [\"x\", \"y\"] /n";
    assert_eq!(answer(JSON, json).await.text, format!("Json {fields}"));
    assert_eq!(answer(FORM, form).await.text, format!("Form {fields}"));
    assert_eq!(answer(MULTIPART, parts).await.text, format!("Multipart {fields}"));
}

#[tokio::test]
async fn empty_inputs_of_a_form_are_absent_where_that_is_possible() {
    let answer = answer(FORM, "email=a&password=&rememberMe=&deviceId=&next=").await;
    assert_eq!(answer.text, "Form a  None None [] /");
}

#[tokio::test]
async fn next_is_read_from_body_or_query_and_never_leaves_the_origin() {
    let cases = [
        ("/", "", "-"),
        ("/?next=/home", "", "/home"),
        ("/?next=%2Fhome%3Fa%3Db", "", "/home?a=b"),
        ("/?next=/query", "&next=/body", "/body"),
        ("/?next=/query", "&next=https://evil.com", "/"),
        ("/?next=//evil.com", "", "/"),
        ("/?next=https://evil.com", "", "/"),
        ("/?next=/%5Cevil.com", "", "/"),
        ("/?x=%ff&next=/home", "", "-"),
        ("/?next=/a&next=/b", "", "-"),
    ];
    for (uri, rest, expected) in cases {
        let mut request = post(FORM, format!("email=a&password=b{rest}"));
        *request.uri_mut() = uri.parse().unwrap();
        let answer = send(&login(), request).await;
        assert_eq!(answer.text.rsplit(' ').next(), Some(expected), "{uri} {rest} {answer:?}");
    }
}

#[tokio::test]
async fn a_refused_form_gets_a_page_and_refused_json_a_problem() {
    let form = answer(FORM, "email=%3Cscript%3E").await;
    assert_eq!(form.status, 422);
    assert_eq!(form.header("content-type"), "text/html; charset=utf-8");
    assert!(form.text.contains("password") && !form.text.contains("<script"), "{form:?}");
    let json = answer(JSON, r#"{"email":"a"}"#).await;
    assert_eq!(json.status, 422);
    assert_eq!(json.json()["errors"][0]["field"], "password");
    assert_eq!(json.json()["errors"][0]["code"], "required");
}

#[tokio::test]
async fn other_content_types_are_a_415() {
    let body = r#"{"email":"a","password":"b"}"#;
    for content_type in [Some("text/plain"), Some("application/xml"), Some("nonsense"), None, Some("")] {
        let answer = answer(content_type, body).await;
        assert_eq!(answer.status, 415, "{content_type:?}");
        assert!(answer.detail().contains("application/json"), "{answer:?}");
    }
    assert_eq!(answer(None, "").await.status, 415, "fields are needed and nothing names the type");
}

/// What `curl -d` sends without a content type header.
#[tokio::test]
async fn json_sent_as_a_form_is_reported_as_json() {
    for body in [r#"{"email":"a","password":"canary"}"#, " \n\t{}", "{", "[1]"] {
        let answer = answer(FORM, body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (415, "application/problem+json"),
            "{body}"
        );
        assert!(answer.detail().contains("send Content-Type: application/json"), "{answer:?}");
        assert!(!answer.text.contains("canary"));
    }
    // As browsers write a field of that name.
    assert_eq!(answer(FORM, "%7B=x&email=a&password=b").await.status, 200);
}

#[tokio::test]
async fn an_empty_body_is_accepted_if_no_field_is_required() {
    #[derive(Deserialize)]
    struct Everything {
        all: Option<bool>,
    }
    let router = Router::new().route("/", route(async |logout: Submission<()>| format!("{:?}", logout.kind))).route(
        "/all",
        route(async |logout: Submission<Everything>| format!("{:?} {:?}", logout.kind, logout.value.all)),
    );
    for (content_type, body, expected) in [
        (None, "", "Json"),
        (JSON, "", "Json"),
        (JSON, "{}", "Json"),
        (JSON, r#"{"anything":[1]}"#, "Json"),
        (FORM, "", "Form"),
        (FORM, "_csrf=x&next=/", "Form"),
        (FORM, "{}", "Json"),
        (MULTIPART, "--XX--\r\n", "Multipart"),
    ] {
        let answer = send(&router, post(content_type, body)).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, expected), "{content_type:?} {body}");
    }
    assert_eq!(send(&router, post(Some("text/plain"), "")).await.status, 415);
    let request = Request::post("/all").body("".into()).unwrap();
    assert_eq!(send(&router, request).await.text, "Json None");
}

#[tokio::test]
async fn hostile_forms_are_refused_in_plain_words() {
    let many = "a=b&".repeat(300);
    let many_parts = multipart(&[("a", "b"); 300]);
    let file = "--XX\r\nContent-Disposition: form-data; name=\"email\"; filename=\"x\"\r\n\r\na\r\n--XX--\r\n";
    let nameless = "--XX\r\nContent-Disposition: form-data\r\n\r\na\r\n--XX--\r\n";
    let huge_header = format!("--XX\r\nX-A: {}\r\n\r\na\r\n--XX--\r\n", "h".repeat(1_000_000));
    let many_headers = format!("--XX\r\n{}\r\na\r\n--XX--\r\n", "X-A: b\r\n".repeat(100_000));
    let cases: Vec<(Option<&str>, Vec<u8>, u16, &str)> = vec![
        (FORM, "email=a&email=b&password=p".into(), 400, "email: is given more than once"),
        (FORM, "remember_me=1&rememberMe=0&email=a&password=p".into(), 400, "given more than once"),
        (FORM, many.into(), 400, "more than 256 fields"),
        (FORM, b"email=\xff\xfe&password=p".to_vec(), 400, "not valid UTF-8"),
        (FORM, "email=%ff&password=p".into(), 400, "not valid UTF-8"),
        (FORM, "email=%00&password=p".into(), 422, "null character"),
        (FORM, "email=a&password=p&deviceId=seven".into(), 422, "deviceId"),
        (FORM, "email=a&password=p&deviceId=99999999999999999999".into(), 422, "deviceId"),
        (FORM, "email=a&password=p&rememberMe=maybe".into(), 422, "rememberMe"),
        (MULTIPART, many_parts.into(), 400, "more than 256 fields"),
        (MULTIPART, file.into(), 400, "files are not accepted"),
        (MULTIPART, nameless.into(), 400, "no name"),
        (MULTIPART, "".into(), 400, "malformed"),
        (MULTIPART, "--XX\r\n".into(), 400, "malformed"),
        (MULTIPART, "no boundary at all".into(), 400, "malformed"),
        (MULTIPART, huge_header.into(), 400, "name"),
        (MULTIPART, many_headers.into(), 400, "malformed"),
        (MULTIPART, "--XX\r\n".repeat(100_000).into(), 400, "malformed"),
        (Some("multipart/form-data"), "".into(), 400, "no boundary"),
        (Some("multipart/form-data; boundary="), "".into(), 400, ""),
        (MULTIPART, multipart(&[("email", "a"), ("email", "b"), ("password", "p")]).into(), 400, "more than once"),
    ];
    for (content_type, body, status, expected) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = answer(content_type, body).await;
        assert_eq!(answer.status, status, "{shown} {answer:?}");
        assert!(answer.text.contains(expected), "{shown} {answer:?}");
    }
}

#[tokio::test]
async fn a_missing_field_is_named_in_the_case_of_the_wire() {
    #[derive(Deserialize)]
    struct Body {
        #[expect(dead_code, reason = "only its absence matters")]
        display_name: String,
    }
    let router = Router::new().route("/", route(async |_: Submission<Body>| ""));
    let camel = send(&router, post(JSON, "{}")).await;
    assert_eq!(camel.json()["errors"][0]["field"], "displayName");
    let snake = send(&router.layer(axum::Extension(JsonCase::Snake)), post(JSON, "{}")).await;
    assert_eq!(snake.json()["errors"][0]["field"], "display_name");
}

#[tokio::test]
async fn a_flow_answers_its_own_failures_in_the_callers_language() {
    let problem = || gatewright_http::Problem::unauthorized("invalid credentials");
    for (kind, expected) in [
        (Kind::Json, "application/problem+json"),
        (Kind::Form, "text/html; charset=utf-8"),
        (Kind::Multipart, "text/html; charset=utf-8"),
    ] {
        let response = kind.refuse(problem());
        assert_eq!((response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()), (401, expected));
    }
}
