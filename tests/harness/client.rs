//! An HTTP client that keeps cookies.

use std::time::Duration;

use reqwest::{Method, StatusCode, Url, header::HeaderMap};
use serde_json::{Value, json};

use super::{PASSWORD, Stream};

#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        let http = reqwest::Client::builder()
            .cookie_store(true)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            .build()
            .unwrap();
        Self { http, base: format!("http://{address}") }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).timeout(Duration::from_mins(1))
    }

    /// A request to any address, including other hosts. Cookies depend on the host, not on the port.
    pub(crate) fn request_at(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        self.http.request(method, url).timeout(Duration::from_mins(1))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::read(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::read(self.request(Method::POST, path).json(body)).await
    }

    /// Creates an account, without signing in.
    pub(crate) async fn register(&self, email: &str) -> Answer {
        self.post("/auth/register", &json!({ "email": email, "password": PASSWORD })).await
    }

    /// Signs in, and keeps the session cookie.
    pub(crate) async fn log_in(&self, email: &str) -> Answer {
        self.post("/auth/login", &json!({ "email": email, "password": PASSWORD })).await
    }

    /// A request whose answer has no end.
    pub(crate) fn stream(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}{path}", self.base))
    }

    /// Opens the event stream of a table. Returns after the server has accepted it.
    pub(crate) async fn listen(&self, table: &str) -> Stream {
        let response = self.http.get(format!("{}/{table}/_events", self.base)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Stream::new(response)
    }
}

impl Answer {
    pub(crate) async fn read(request: reqwest::RequestBuilder) -> Self {
        Self::try_read(request).await.unwrap()
    }

    pub(crate) async fn try_read(request: reqwest::RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Self { status, headers, text: response.text().await? })
    }

    /// Fails the test unless this is the status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}
