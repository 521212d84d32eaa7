use std::fmt::Write;
use std::net::SocketAddr;
use std::task::Poll;

use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use super::Site;

/// A query of one parameter.
pub(crate) fn query(name: &str, value: &str) -> String {
    url::form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish()
}

/// One request, being written.
pub(crate) struct Call {
    request: http::request::Builder,
    body: Vec<u8>,
    peer: &'static str,
}

impl Call {
    pub(crate) fn new(method: Method, path: &str) -> Self {
        Self { request: Request::builder().method(method).uri(path), body: Vec::new(), peer: "203.0.113.7" }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.request = self.request.header(name, value.as_ref());
        self
    }

    pub(crate) fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header(CONTENT_TYPE.as_str(), content_type)
    }

    pub(crate) fn json(self, value: &Value) -> Self {
        self.body("application/json", value.to_string())
    }

    pub(crate) fn form(self, fields: &[(&str, &str)]) -> Self {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.body("application/x-www-form-urlencoded", body)
    }

    pub(crate) fn multipart(self, fields: &[(&str, &str)]) -> Self {
        let mut body = String::new();
        for (name, value) in fields {
            // Writing to a String cannot fail.
            let _ = write!(body, "--xx\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        }
        self.body("multipart/form-data; boundary=xx", body + "--xx--\r\n")
    }

    /// Sends the cookies that `answer` set.
    pub(crate) fn cookie_of(self, answer: &Answer) -> Self {
        let cookie = answer.cookie().expect("the answer set a session cookie");
        self.cookie(&cookie)
    }

    pub(crate) fn cookie(self, pair: &str) -> Self {
        self.header(COOKIE.as_str(), pair)
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    pub(crate) fn from(mut self, peer: &'static str) -> Self {
        self.peer = peer;
        self
    }

    /// The same headers, and no body, for another request.
    pub(crate) fn again(&self, method: Method, path: &str) -> Self {
        let headers = self.request.headers_ref().cloned().unwrap_or_default();
        let mut other = Self { peer: self.peer, ..Self::new(method, path) };
        other.request.headers_mut().expect("a sound request").extend(headers);
        other
    }

    /// Whether it is a request of `door`: a method and the path of a route, such as `DELETE /auth/tokens/{id}`.
    pub(crate) fn is_of(&self, door: &str) -> bool {
        let (Some(method), Some(uri)) = (self.request.method_ref(), self.request.uri_ref()) else { return false };
        let (of_method, of_path) = door.split_once(' ').unwrap();
        let (mut path, mut template) = (uri.path().split('/'), of_path.split('/'));
        let fits = template.by_ref().all(|part| path.next().is_some_and(|own| part.starts_with('{') || own == part));
        method == of_method && fits && path.next().is_none()
    }

    /// Sends it, and drops it when it would be polled once more after `polls` times: its client has disconnected. `None` if it
    /// was not answered before that.
    pub(crate) async fn cut(self, site: &Site, polls: usize) -> Option<StatusCode> {
        let (mut answer, mut left) = (Box::pin(site.router.clone().oneshot(self.request())), polls);
        std::future::poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            answer.as_mut().poll(context).map(|answer| Some(answer.unwrap().status()))
        })
        .await
    }

    fn request(self) -> Request<Body> {
        let mut request = self.request.body(Body::from(self.body)).unwrap();
        let peer = SocketAddr::new(self.peer.parse().unwrap(), 1000);
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    }

    pub(crate) async fn send(self, site: &Site) -> Answer {
        let response = site.router.clone().oneshot(self.request()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The markup of a page without this crate's own scripts, each of which its policy must name by its hash.
    #[track_caller]
    pub(crate) fn markup(&self) -> String {
        let scripts = [include_str!("../../../src/screens/pages.js"), include_str!("../../../src/screens/passkeys.js")];
        let policy = self.headers["content-security-policy"].to_str().unwrap();
        scripts.iter().fold(self.body.clone(), |markup, script| {
            let element = format!("<script>{script}</script>");
            let hash = format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
            assert_eq!(markup.contains(&element), policy.contains(&hash), "{policy}");
            markup.replacen(&element, "", 1)
        })
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn token(&self) -> String {
        self.json()["token"].as_str().unwrap_or_else(|| panic!("no token: {self:?}")).to_owned()
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION).map(|value| value.to_str().unwrap())
    }

    /// The whole `Set-Cookie` line of the session, if there is one.
    pub(crate) fn set_cookie(&self) -> Option<&str> {
        self.headers.get(SET_COOKIE).map(|value| value.to_str().unwrap())
    }

    /// The session cookie as the browser sends it back, if there is one that is not empty.
    pub(crate) fn cookie(&self) -> Option<String> {
        let pair = self.set_cookie()?.split(';').next()?.to_owned();
        (!pair.ends_with('=')).then_some(pair)
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }
}
