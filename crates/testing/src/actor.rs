use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use gatewright::base::Identity;
use http::{Method, Request, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::app::PASSWORD;
use crate::{Answer, Stream};

/// A user of the application: keeps cookies as a browser does, or has a token.
#[derive(Debug, Clone)]
pub struct Actor {
    router: Router,
    cookies: BTreeMap<String, String>,
    bearer: Option<String>,
    identity: Option<Identity>,
    headers: Vec<(&'static str, String)>,
    address: IpAddr,
}

impl Actor {
    pub(crate) fn new(router: Router) -> Self {
        Self {
            router,
            cookies: BTreeMap::new(),
            bearer: None,
            identity: None,
            headers: Vec::new(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    /// The same person with this bearer token.
    pub fn bearing(mut self, token: &str) -> Self {
        self.bearer = Some(token.to_owned());
        self
    }

    /// The same user, with this identity from a program's own middleware.
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The same user, who sends this header with every request.
    pub fn sending(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// The same person from another address.
    pub fn from_address(mut self, address: IpAddr) -> Self {
        self.address = address;
        self
    }

    /// The cookies that the application has set, by name.
    pub fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// Signs in by password and keeps the cookie.
    pub async fn sign_in(&mut self, email: &str) -> Answer {
        let answer = self.post("/auth/login", json!({ "email": email, "password": PASSWORD })).await;
        self.keep_cookies(&answer);
        answer
    }

    /// Signs out and drops the cookie.
    pub async fn sign_out(&mut self) -> Answer {
        let answer = self.post("/auth/logout", json!({})).await;
        self.keep_cookies(&answer);
        answer
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path).body(Body::empty()).expect("a request")).await
    }

    /// POST with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.json(Method::POST, path, &body).await
    }

    /// PATCH with a JSON body.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.json(Method::PATCH, path, &body).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path).body(Body::empty()).expect("a request")).await
    }

    /// Opens the event stream of `table`.
    ///
    /// # Panics
    /// When the stream is refused.
    pub async fn watch(&self, table: &str) -> Stream {
        match self.open(&format!("/{table}/_events")).await {
            Ok(stream) => stream,
            Err(refusal) => panic!("the stream opens: {}", refusal.text()),
        }
    }

    /// Opens the event stream at `path`, or returns the refusal.
    pub async fn open(&self, path: &str) -> Result<Stream, Answer> {
        let request = self.request(Method::GET, path).body(Body::empty()).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("routers do not fail");
        if response.status() == 200 {
            return Ok(Stream::new(response.into_body()));
        }
        Err(Answer::read(path.to_owned(), response).await)
    }

    /// Sends a message to the tool surface.
    pub async fn rpc(&self, method: &str, params: Value) -> Answer {
        let request = self
            .request(Method::POST, "/mcp")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.send(request.body(Body::from(message.to_string())).expect("a request")).await
    }

    /// Calls a tool.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Answer {
        self.rpc("tools/call", json!({ "name": name, "arguments": arguments })).await
    }

    /// A request with this actor's credentials, to be finished by the test.
    pub fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8080");
        if !cookies.is_empty() {
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        if let Some(token) = &self.bearer {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if let Some(identity) = &self.identity {
            request = request.extension(identity.clone());
        }
        request.extension(ConnectInfo(SocketAddr::new(self.address, 40_000)))
    }

    /// Sends a finished request.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        let what = format!("{} {}", request.method(), request.uri());
        let response = self.router.clone().oneshot(request).await.expect("routers do not fail");
        Answer::read(what, response).await
    }

    /// Stores the answer's cookies as a browser does.
    pub fn keep_cookies(&mut self, answer: &Answer) {
        for (name, value) in answer.set_cookies() {
            if value.is_empty() {
                self.cookies.remove(&name)
            } else {
                self.cookies.insert(name, value)
            };
        }
    }

    /// Any method with a JSON body.
    pub async fn json(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.request(method, path).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.to_string())).expect("a request")).await
    }
}
