use axum::body::{Body, Bytes};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;

/// The response to a request.
#[derive(Debug)]
pub struct Answer {
    request: String,
    status: StatusCode,
    headers: HeaderMap,
    bytes: Bytes,
    text: String,
}

impl Answer {
    pub(crate) async fn read(request: String, response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("the body arrives whole").to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self { request, status: parts.status, headers: parts.headers, bytes, text }
    }

    /// Checks the status.
    ///
    /// # Panics
    /// When it is another one; the message shows the body.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}: {}", self.request, self.text);
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// A header's value, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body as JSON, if it is any.
    pub fn json_if_any(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok()
    }

    /// The body.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{} answers JSON: {}", self.request, self.text))
    }

    /// The part of the JSON body at `pointer` (RFC 6901); null if there is none.
    #[track_caller]
    pub fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    /// Name and value of every cookie that is set; an empty value removes it.
    pub fn set_cookies(&self) -> Vec<(String, String)> {
        let all = self.headers.get_all(header::SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        all.filter_map(|cookie| cookie.split(';').next()?.split_once('='))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect()
    }
}
