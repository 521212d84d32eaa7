//! The CSRF middleware as an application mounts it, with a browser that keeps its cookies.

mod bodies;
mod cookies;
mod sessions;
mod tokens;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{any, get, post as route};
use futures_util::StreamExt as _;
use gatewright_base::{Ambient, Secret};
use gatewright_http::csrf::csrf_token;
use gatewright_http::{Csrf, CsrfBinding, CsrfToken};
use http::StatusCode;
use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use jiff::Timestamp;

use crate::support::{Answer, send};

const SECRET: &str = "a secret of more than thirty-two bytes";
const FORM: &str = "application/x-www-form-urlencoded";

fn csrf() -> Csrf {
    with_secret(SECRET, 1)
}

fn with_secret(secret: &str, seed: u64) -> Csrf {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, seed);
    Csrf::new(&Secret::new(secret), ambient).unwrap()
}

/// Resolves the session as authentication does: whatever the cookie `sid` holds.
async fn sessions(mut request: Request, next: Next) -> Response {
    if let Some(id) = gatewright_http::cookies::read(request.headers(), "sid").filter(|id| !id.is_empty()) {
        request.extensions_mut().insert(CsrfBinding::session(id));
    }
    next.run(request).await
}

fn app(csrf: Csrf) -> Router {
    Router::new()
        .route("/form", get(async |csrf: CsrfToken| Html(format!("<form>{}</form>", csrf.field()))))
        .route("/plain", get(async || "nothing to send here"))
        .route("/echo", any(async |body: Bytes| body))
        .route("/hook", any(async || "hooked"))
        .route("/count", route(count))
        .route("/auth/csrf", get(csrf_token))
        .route("/login", route(async || [(SET_COOKIE, "sid=s1; Path=/")]))
        .route("/login-rebinding", route(login_rebinding))
        .route("/logout", route(async || [(SET_COOKIE, "sid=; Path=/; Max-Age=0")]))
        .layer(csrf)
        .layer(from_fn(sessions))
}

async fn login_rebinding() -> Response {
    let mut response = [(SET_COOKIE, "sid=s1; Path=/")].into_response();
    response.extensions_mut().insert(CsrfBinding::session("s1"));
    response
}

async fn count(body: Body) -> String {
    let bytes = body.into_data_stream().fold(0, async |sum, chunk| sum + chunk.unwrap().len()).await;
    bytes.to_string()
}

/// A simple browser: it stores the cookies of plain HTTP and sends them back.
#[derive(Clone)]
struct Browser {
    app: Router,
    cookies: Vec<(String, String)>,
}

impl Browser {
    fn new(app: Router) -> Self {
        Self { app, cookies: Vec::new() }
    }

    async fn send(&mut self, request: http::request::Builder, body: impl Into<Body>) -> Answer {
        let mut request = request.body(body.into()).unwrap();
        let line: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !line.is_empty() {
            request.headers_mut().insert(COOKIE, line.join("; ").parse().unwrap());
        }
        let answer = send(&self.app, request).await;
        for cookie in set_cookies(&answer) {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.retain(|(kept, _)| kept != name);
            if !cookie.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }

    /// Loads the page and reads the token out of its form.
    async fn token(&mut self) -> String {
        let page = self.send(Request::get("/form"), "").await;
        token_in(&page.text)
    }

    async fn post_token(&mut self, path: &str, token: &str) -> Answer {
        self.send(Request::post(path).header(CONTENT_TYPE, FORM), format!("a=b&_csrf={token}")).await
    }

    fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.iter().find(|(kept, _)| kept == name).map(|(_, value)| value.as_str())
    }
}

fn token_in(page: &str) -> String {
    let start = page.find("name=\"_csrf\" value=\"").unwrap() + "name=\"_csrf\" value=\"".len();
    page[start..].split('"').next().unwrap().to_owned()
}

fn set_cookies(answer: &Answer) -> Vec<String> {
    answer.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

fn assert_refused(answer: &Answer, what: &str) {
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{what}: {answer:?}");
    assert!(answer.text.contains("csrf token missing or invalid"), "{what}: {answer:?}");
}

fn multipart(boundary: &str, parts: &[(&str, &str)]) -> String {
    let part = |(name, value): &(&str, &str)| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!("{}--{boundary}--\r\n", parts.concat())
}
