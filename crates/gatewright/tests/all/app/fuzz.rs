//! Random requests cause no panic, no 500 and no redirect to another origin.
//!
//! Bodies of every kind, cookies, bearer tokens and `next` are random, half of them close to valid ones, against the
//! routes of sign-in, of the account and of an entity. `GATEWRIGHT_TEST_FUZZ_CASES` says how many; in CI they are few.

use axum::body::Body;
use gatewright::http::Next;
use gatewright_testing::{Actor, Answer, TestApp};
use http::{HeaderValue, Method};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

const ROUTES: [(&str, &str); 35] = [
    ("POST", "/auth/register"),
    ("POST", "/auth/login"),
    ("POST", "/auth/logout"),
    ("POST", "/auth/change-password"),
    ("GET", "/auth/me"),
    ("GET", "/auth/sessions"),
    ("DELETE", "/auth/sessions/x"),
    ("POST", "/auth/magic-link/send"),
    ("POST", "/auth/email-code/send"),
    ("POST", "/auth/email-code/verify"),
    ("GET", "/auth/magic-link/verify"),
    ("POST", "/auth/magic-link/verify"),
    ("POST", "/auth/send-verification"),
    ("GET", "/auth/verify-email"),
    ("POST", "/auth/verify-email"),
    ("POST", "/auth/forgot-password"),
    ("POST", "/auth/reset-password"),
    ("POST", "/auth/2fa/enroll"),
    ("POST", "/auth/2fa/verify"),
    ("POST", "/auth/2fa/challenge"),
    ("POST", "/auth/2fa/disable"),
    ("GET", "/auth/2fa/backup-codes"),
    ("GET", "/auth/csrf"),
    ("GET", "/login"),
    ("GET", "/register"),
    ("GET", "/two-factor"),
    ("GET", "/reset-password"),
    ("GET", "/account"),
    ("GET", "/account/devices"),
    ("GET", "/complete-profile"),
    ("POST", "/account/password"),
    ("POST", "/account/two-factor/disable"),
    ("POST", "/account/sessions/x/end"),
    ("POST", "/notes"),
    ("PATCH", "/notes/x"),
];

const CONFIG: &str = "[[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\n[[entity.field]]\nname = \"text\"\n\
                      type = \"text\"\n[[entity.field]]\nname = \"extra\"\ntype = \"json\"\n";

/// One request, as drawn.
#[derive(Debug, Clone)]
struct Shot {
    route: (&'static str, &'static str),
    query: Vec<u8>,
    content_type: Vec<u8>,
    body: Vec<u8>,
    cookie: Option<Vec<u8>>,
    bearer: Option<Vec<u8>>,
    /// Whether the real session is sent, and the real token.
    signed_in: bool,
    origin: Option<Vec<u8>>,
}

#[test]
fn random_requests_cause_no_500_and_no_open_redirect() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for csrf in ["", "[csrf]\nenabled = true\n"] {
        let config = format!("{}{csrf}{CONFIG}", unlimited());
        let app = runtime.block_on(TestApp::on_every_engine(&config)).remove(0);
        let (actor, token) = runtime.block_on(signed_in(&app, !csrf.is_empty()));
        let settings = Config { cases: cases(), failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(settings).run(&shot(), |shot| {
            let answer = runtime.block_on(fire(&app, &actor, token.as_deref(), &shot));
            prop_assert!(answer.status() != 500, "{}", answer.text());
            if let Some(location) = answer.header("location") {
                prop_assert!(Next::parse(location).is_some(), "leads to {location}");
            }
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
    }
}

fn cases() -> u32 {
    std::env::var("GATEWRIGHT_TEST_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// Limits would answer before what is to be tried.
fn unlimited() -> String {
    let limits = [
        "login_account",
        "register",
        "magic_link",
        "email_code",
        "two_factor",
        "two_factor_account",
        "password_reset",
        "email_verification",
    ];
    limits.map(|limit| format!("[auth.limits.{limit}]\nmax_attempts = 4000000\n")).concat()
}

async fn signed_in(app: &TestApp, csrf: bool) -> (Actor, Option<String>) {
    let mut actor = app.anonymous();
    for path in ["/auth/register", "/auth/login"] {
        let token = if csrf { Some(token(&mut actor).await) } else { None };
        let request = actor.request(Method::POST, path).header("content-type", "application/json");
        let request = token.iter().fold(request, |request, token| request.header("x-csrf-token", token));
        let body = json!({ "email": "ada@example.com", "password": "correct horse battery" });
        let answer = actor.send(request.body(Body::from(body.to_string())).unwrap()).await.is(200);
        actor.keep_cookies(&answer);
    }
    let token = if csrf { Some(token(&mut actor).await) } else { None };
    (actor, token)
}

async fn token(actor: &mut Actor) -> String {
    let answer = actor.get("/auth/csrf").await.is(200);
    actor.keep_cookies(&answer);
    answer.at("/csrfToken").as_str().unwrap().to_owned()
}

async fn fire(app: &TestApp, actor: &Actor, token: Option<&str>, shot: &Shot) -> Answer {
    let (method, path) = shot.route;
    let query: String = shot.query.iter().copied().filter(u8::is_ascii_graphic).map(char::from).collect();
    // A query that cannot be part of a URL cannot be sent: the request has none then.
    let path = format!("{path}?{query}").parse::<http::Uri>().map_or_else(|_| path.to_owned(), |uri| uri.to_string());
    let from = if shot.signed_in { actor.clone() } else { app.anonymous() };
    let mut request = from.request(method.parse().unwrap(), &path);
    let fields = [
        ("content-type", Some(&shot.content_type)),
        ("authorization", shot.bearer.as_ref()),
        ("cookie", shot.cookie.as_ref()),
        ("origin", shot.origin.as_ref()),
    ];
    for (name, value) in fields {
        if let Some(value) = value.and_then(|bytes| HeaderValue::from_bytes(bytes).ok()) {
            request = request.header(name, value);
        }
    }
    if let (true, Some(token)) = (shot.signed_in, token) {
        request = request.header("x-csrf-token", token);
    }
    app.anonymous().send(request.body(Body::from(shot.body.clone())).unwrap()).await
}

fn shot() -> impl Strategy<Value = Shot> {
    let head = (select(&ROUTES[..]), query(), any::<bool>());
    let credentials = (
        prop::option::weighted(0.4, cookie()),
        prop::option::weighted(0.3, bearer()),
        prop::option::weighted(0.2, origin()),
    );
    (head, typed_body(), credentials).prop_map(
        |((route, query, signed_in), (content_type, body), (cookie, bearer, origin))| Shot {
            route,
            query,
            content_type,
            body,
            cookie,
            bearer,
            signed_in,
            origin,
        },
    )
}

/// Names that handlers look for, and others.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "email",
            "password",
            "next",
            "token",
            "code",
            "currentPassword",
            "current_password",
            "roles",
            "_csrf",
            "text",
            "extra",
            "id",
            "user_id"
        ])
        .prop_map(str::to_owned),
        "[a-z_\\[\\].%]{0,12}",
        any::<String>(),
    ]
}

/// Values with a meaning for some handler, and others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        next(),
        select(vec![
            "ada@example.com",
            "correct horse battery",
            "",
            "0",
            "000000",
            "null",
            "true",
            "ADA@EXAMPLE.COM ",
            "a@b",
            "ß@ß.ß",
            "\u{0}",
            "\u{202e}x"
        ])
        .prop_map(str::to_owned),
        "[0-9A-Za-z_-]{43}",
        any::<String>(),
        ".{0,400}",
    ]
}

/// Redirect targets, some of them on other origins.
fn next() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "/",
        "//",
        "\\",
        "%2f",
        "%5c",
        "%25",
        "..",
        ".",
        "evil.example",
        "@",
        ":",
        "?",
        "#",
        "http:",
        "https://",
        "javascript:",
        "\t",
        "\r\n",
        " ",
        "é",
        "a",
    ]);
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((name(), text()), 0..6)
}

fn query() -> impl Strategy<Value = Vec<u8>> {
    let good = pairs().prop_map(|pairs| {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish().into_bytes()
    });
    prop_oneof![3 => bent(good), 1 => prop::collection::vec(any::<u8>(), 0..60)]
}

/// A body with its content type.
fn typed_body() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let json = bent(json().prop_map(|value| value.to_string().into_bytes()))
        .prop_map(|body| (b"application/json".to_vec(), body));
    let form = query().prop_map(|body| (b"application/x-www-form-urlencoded".to_vec(), body));
    let multipart = bent(pairs().prop_map(|pairs| {
        let part = |(name, value): (String, String)| {
            format!("--xx\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        (pairs.into_iter().map(part).collect::<String>() + "--xx--\r\n").into_bytes()
    }))
    .prop_map(|body| (b"multipart/form-data; boundary=xx".to_vec(), body));
    let kinds = select(vec![
        "application/json; charset=latin1",
        "multipart/form-data",
        "multipart/form-data; boundary=\"",
        "text/plain",
        "application/x-www-form-urlencoded; x",
        "",
    ]);
    let odd =
        (kinds, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(kind, body)| (kind.as_bytes().to_vec(), body));
    prop_oneof![3 => json, 3 => form, 3 => multipart, 1 => odd]
}

fn cookie() -> impl Strategy<Value = Vec<u8>> {
    let named = (
        select(vec![
            "session_id",
            "__Host-session",
            "csrf",
            "__Host-csrf",
            "svc_oauth_state",
            "__Host-svc_oauth_binding",
        ]),
        prop_oneof!["[0-9A-Za-z_-]{0,90}", any::<String>()],
    )
        .prop_map(|(name, value)| format!("{name}={value}").into_bytes());
    prop_oneof![3 => bent(named), 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

fn bearer() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        "svc_[0-9a-f]{40}",
        "svc_.{0,50}",
        "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,50}",
        Just("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.".to_owned()),
        any::<String>()
    ];
    let scheme = select(vec!["Bearer ", "bearer\t", "Bearer  ", "Basic ", ""]);
    (scheme, token).prop_map(|(scheme, token)| format!("{scheme}{token}").into_bytes())
}

fn origin() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(b"http://127.0.0.1:8080".to_vec()), Just(b"null".to_vec()), next().prop_map(String::into_bytes)]
}

/// As it is, or cut short, or with a byte changed.
fn bent(good: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (good, prop::option::weighted(0.4, (any::<prop::sample::Index>(), prop::option::of(any::<u8>())))).prop_map(
        |(mut bytes, bend)| {
            match bend {
                Some((at, Some(byte))) if !bytes.is_empty() => {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                Some((at, None)) if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
                _ => {}
            }
            bytes
        },
    )
}
