//! The authorization server: programs that get tokens by consent, and attacks.

mod attacks;
mod clients;
mod connect;
mod device;
mod openid;
mod registered;
mod sign_outs;
mod tenants;

use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gatewright::auth::plugins::authorization_server::{ClientPurpose, RelyingParty};
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::{Url, form_urlencoded};

const ENTITIES: &str = concat!(
    r#"
[authorization_server]
enabled = true
dynamic_registration = true
"#,
    entity!(owned "notes" "title"),
    entity!(owned "drafts" "title"),
);

/// The public address of the tests' applications.
const BASE: &str = "http://127.0.0.1:8080";
const MCP: &str = "http://127.0.0.1:8080/mcp";
const CALLBACK: &str = "https://app.example.com/callback";
const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// The S256 challenge of [`VERIFIER`].
fn challenge() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

/// A public client of the operator's.
async fn public_client(app: &TestApp) -> String {
    let purpose = ClientPurpose::Users {
        redirect_uris: vec![CALLBACK.to_owned()],
        scopes: None,
        confidential: false,
        relying_party: RelyingParty::default(),
    };
    let clients = app.app().auth().unwrap().oauth2_clients().unwrap();
    clients.create("Notes Reader", purpose).await.unwrap().0.id
}

/// The address of an authorization request, with `changes` to its usual parameters; an empty value takes one away.
fn authorize(client: &str, changes: &[(&str, &str)]) -> String {
    let challenge = challenge();
    let usual = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", CALLBACK),
        ("scope", "notes:read"),
        ("state", "the state"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let mut pairs: Vec<(&str, &str)> = usual.iter().chain(changes).copied().collect();
    pairs.reverse();
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (index, (name, value)) in pairs.iter().enumerate() {
        if !value.is_empty() && !pairs[..index].iter().any(|(earlier, _)| earlier == name) {
            query.append_pair(name, value);
        }
    }
    format!("/auth/oauth2/authorize?{}", query.finish())
}

/// POSTs a form.
async fn form(actor: &Actor, path: &str, pairs: &[(&str, &str)]) -> Answer {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let request = actor.request(Method::POST, path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    actor.send(request.body(Body::from(body)).unwrap()).await
}

/// The value of a hidden field of a page.
fn hidden(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.split_once(&start).unwrap_or_else(|| panic!("the page has {name}: {page}")).1;
    rest.split_once('"').unwrap().0.replace("&amp;", "&")
}

/// Presses a button of the consent page and returns where the browser goes.
async fn press(actor: &Actor, page: &str, decision: &str) -> Answer {
    let (request, seal) = (hidden(page, "request"), hidden(page, "seal"));
    let pairs = [("request", &*request), ("seal", &*seal), ("decision", decision)];
    form(actor, "/auth/oauth2/authorize", &pairs).await
}

/// The parameters of a redirect to the client.
fn answered(answer: &Answer) -> Vec<(String, String)> {
    let location = answer.header("location").expect("the browser goes on");
    let url = Url::parse(location).unwrap_or_else(|_| panic!("to the client: {location}"));
    assert!(location.starts_with(CALLBACK), "{location}");
    url.query_pairs().into_owned().collect()
}

fn parameter(pairs: &[(String, String)], name: &str) -> Option<String> {
    pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
}

/// The code that a user's consent gives a client.
async fn code(user: &Actor, client: &str, changes: &[(&str, &str)]) -> String {
    let page = user.get(&authorize(client, changes)).await;
    let answer = if page.status() == 200 { press(user, page.text(), "allow").await } else { page };
    parameter(&answered(&answer.is(303)), "code").expect("a code")
}

/// Exchanges a code, with `changes` to the usual parameters.
async fn exchange(app: &TestApp, client: &str, code: &str, changes: &[(&str, &str)]) -> Answer {
    let mut pairs = vec![
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ];
    for (name, value) in changes {
        pairs.retain(|(found, _)| found != name);
        if !value.is_empty() {
            pairs.push((name, value));
        }
    }
    form(&app.anonymous(), "/auth/oauth2/token", &pairs).await
}

async fn refresh(app: &TestApp, client: &str, token: &str) -> Answer {
    let pairs = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
    form(&app.anonymous(), "/auth/oauth2/token", &pairs).await
}

/// A user, a client and the tokens that the user's consent gave it.
async fn connected(app: &TestApp, changes: &[(&str, &str)]) -> (Actor, String, Value) {
    let user = app.signed_in("ada@example.com").await;
    let client = public_client(app).await;
    let code = code(&user, &client, changes).await;
    let tokens = exchange(app, &client, &code, &[]).await.is(200).json();
    (user, client, tokens)
}

fn text(tokens: &Value, name: &str) -> String {
    tokens[name].as_str().unwrap_or_else(|| panic!("{name} in {tokens}")).to_owned()
}
