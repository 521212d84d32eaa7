//! HTTP requests to addresses that other users choose: a webhook's receiver, a client's metadata document.
//!
//! Such a user must not reach addresses that only this server can reach (server-side request forgery). So names are
//! resolved here, addresses that are not public are left out, and the connection uses the resolved addresses. Redirects
//! are not followed, and no proxy is used: both would bypass the check.

mod addresses;
mod guard;

use std::time::Duration;

use http::header::{ACCEPT, HeaderMap};
use http::{Method, StatusCode};
use reqwest::RequestBuilder;
use url::Url;

pub use addresses::is_public;

use guard::{Guard, NotPublic, check_literal};

/// Sends requests to addresses that other users choose. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Outbound {
    http: reqwest::Client,
    private_networks: bool,
}

/// A whole answer with a status of success.
#[derive(Debug)]
pub struct Answer {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

/// Why there is no answer. Messages contain no part of the URL, which may contain secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutboundError {
    /// The address is loopback, private or otherwise not on the public Internet.
    #[error("the address is loopback, private or otherwise not public")]
    Address,
    /// A status that is not success.
    #[error("the answer has the status {0}")]
    Status(u16),
    /// A body that is too long.
    #[error("the answer is too long")]
    TooLong,
    /// No answer in time.
    #[error("there was no answer in time")]
    Timeout,
    /// No connection was made.
    #[error("no connection could be made")]
    Connect,
    /// The connection broke.
    #[error("the connection broke before there was an answer")]
    Broken,
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be built")]
    Client,
}

impl Outbound {
    /// A client whose requests end after `timeout`, which includes connecting and the whole answer. `private_networks`:
    /// whether addresses that are not public are allowed.
    pub fn new(timeout: Duration, private_networks: bool) -> Result<Self, OutboundError> {
        let http = reqwest::Client::builder()
            .timeout(timeout)
            // The target of a redirect is not checked.
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would resolve the name itself, past the guard.
            .no_proxy()
            .referer(false)
            .user_agent(concat!("Gatewright/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Guard { private_networks })
            .build()
            .map_err(|_| OutboundError::Client)?;
        Ok(Self { http, private_networks })
    }

    /// Begins a request to `url`.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, OutboundError> {
        // An address in the URL itself is never resolved, so that the guard does not see it.
        check_literal(url, self.private_networks)?;
        Ok(self.http.request(method, url.clone()))
    }

    /// Gets a document of at most `longest` bytes.
    pub async fn get(&self, url: &Url, accept: &str, longest: usize) -> Result<Answer, OutboundError> {
        let request = self.request(Method::GET, url)?.header(ACCEPT, accept);
        let mut response = request.send().await?;
        if response.status() != StatusCode::OK {
            return Err(OutboundError::Status(response.status().as_u16()));
        }
        let headers = response.headers().clone();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > longest {
                return Err(OutboundError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { headers, body })
    }
}

impl From<NotPublic> for OutboundError {
    fn from(NotPublic: NotPublic) -> Self {
        Self::Address
    }
}

impl From<reqwest::Error> for OutboundError {
    fn from(error: reqwest::Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if inner.is::<NotPublic>() {
                return Self::Address;
            }
            cause = inner.source();
        }
        if error.is_timeout() {
            Self::Timeout
        } else if error.is_connect() {
            Self::Connect
        } else {
            Self::Broken
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn private_addresses_and_names_are_refused_before_connecting() {
        let outbound = Outbound::new(Duration::from_secs(5), false).unwrap();
        for url in [
            "http://127.0.0.1:1/",
            "http://2130706433:1/",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]:1/",
            "http://169.254.169.254/",
            "http://localhost:1/",
            "https://localhost:1/",
        ] {
            let refused = outbound.get(&Url::parse(url).unwrap(), "*/*", 10).await.err();
            assert_eq!(refused, Some(OutboundError::Address), "{url}");
        }
    }

    /// Answers one request with `answer`.
    async fn answering(answer: &'static str) -> Url {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        url
    }

    #[tokio::test]
    async fn a_document_is_read_up_to_its_limit_and_redirects_are_not_followed() {
        let outbound = Outbound::new(Duration::from_secs(5), true).unwrap();
        let url = answering("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody").await;
        assert_eq!(outbound.get(&url, "*/*", 4).await.unwrap().body, b"body");
        let url = answering("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nbody!").await;
        assert_eq!(outbound.get(&url, "*/*", 4).await.err(), Some(OutboundError::TooLong));
        let url = answering("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(outbound.get(&url, "*/*", 4).await.err(), Some(OutboundError::Status(302)));
    }
}
