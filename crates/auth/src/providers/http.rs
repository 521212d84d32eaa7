//! The HTTP client for providers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use gatewright_base::Secret;
use http::header::{ACCEPT, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::ProviderError;
use super::endpoint::Endpoint;
use crate::init_error::AuthInitError;

/// How long a provider may take, connecting and the whole answer included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of an answer. The largest that are met, key sets and listings, have some tens of thousands.
const MAX_ANSWER: usize = 512 * 1024;

/// Calls providers. Cheap to clone; clones share their connections.
///
/// Redirects are not followed, because a redirect would send secrets to a host that is not configured. The platform's
/// verifier checks TLS certificates. The system's proxy (`HTTPS_PROXY`), which sees only host names, is used except for
/// this computer.
#[derive(Debug, Clone)]
pub struct ProviderHttp {
    secure: reqwest::Client,
    loopback: reqwest::Client,
}

/// A provider's response. The body may contain tokens.
pub(super) struct Answer {
    status: StatusCode,
    throttled: bool,
    body: Zeroizing<Vec<u8>>,
}

impl ProviderHttp {
    /// A new client. One is enough for all providers.
    pub fn new() -> Result<Self, AuthInitError> {
        let builder = || {
            reqwest::Client::builder()
                .timeout(TIMEOUT)
                .connect_timeout(CONNECT_TIMEOUT)
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                // GitHub refuses callers without one.
                .user_agent(concat!("Gatewright/", env!("CARGO_PKG_VERSION")))
        };
        let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let here = here.map(|address| SocketAddr::new(address, 0));
        // A host that may use plain http must be this computer, whatever a resolver returns.
        let loopback = builder().no_proxy().resolve_to_addrs("localhost", &here).build();
        let secure = builder().https_only(true).build();
        match (secure, loopback) {
            (Ok(secure), Ok(loopback)) => Ok(Self { secure, loopback }),
            (Err(error), _) | (_, Err(error)) => Err(AuthInitError::Setting {
                setting: "auth.oauth",
                problem: format!("the HTTP client for providers cannot be built: {error}"),
            }),
        }
    }

    pub(super) async fn get(&self, endpoint: &Endpoint, bearer: Option<&Secret>) -> Result<Answer, ProviderError> {
        let request = self.client(endpoint).get(endpoint.url().clone());
        send(match bearer {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        })
        .await
    }

    /// Posts a form. `basic` are the client's id and secret, encoded, where they go into a header.
    pub(super) async fn post(
        &self,
        endpoint: &Endpoint,
        form: &[(&str, &str)],
        basic: Option<(&str, &Secret)>,
    ) -> Result<Answer, ProviderError> {
        let request = self.client(endpoint).post(endpoint.url().clone()).form(form);
        send(match basic {
            Some((id, secret)) => request.basic_auth(id, Some(secret.expose())),
            None => request,
        })
        .await
    }

    fn client(&self, endpoint: &Endpoint) -> &reqwest::Client {
        if endpoint.is_loopback() { &self.loopback } else { &self.secure }
    }
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether the provider reports too many requests. GitHub also uses 403 for that.
    pub(super) fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// The JSON of a successful response.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, ProviderError> {
        if !self.status.is_success() {
            return Err(self.refused());
        }
        self.json_of_any_status()
    }

    pub(super) fn json_of_any_status<T: DeserializeOwned>(&self) -> Result<T, ProviderError> {
        // The parser's own message quotes the invalid text.
        serde_json::from_slice(&self.body).map_err(|_| ProviderError::Malformed("it is not the expected JSON"))
    }

    /// The error for a status other than success.
    pub(super) fn refused(&self) -> ProviderError {
        match self.status.as_u16() {
            _ if self.throttled => ProviderError::Unavailable("it answered that it gets too many requests"),
            300..=399 => ProviderError::Malformed("it redirects, and redirects are not followed"),
            500..=599 => ProviderError::Failed("it answered with a server error"),
            401 | 403 => ProviderError::refused("access_denied"),
            _ => ProviderError::Malformed("its status is unexpected"),
        }
    }
}

async fn send(request: RequestBuilder) -> Result<Answer, ProviderError> {
    let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
    let mut response = request.send().await.map_err(|error| failed(&error))?;
    let status = response.status();
    let throttled = throttled(status, response.headers());
    let mut body = Zeroizing::new(Vec::new());
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(ProviderError::Malformed("it is longer than 512 KiB"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, throttled, body })
}

/// [Rate limits at GitHub](https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api): a 403
/// because of a limit has one of the two headers.
fn throttled(status: StatusCode, headers: &HeaderMap) -> bool {
    let spent =
        headers.contains_key(RETRY_AFTER) || headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0");
    status == StatusCode::TOO_MANY_REQUESTS || (status == StatusCode::FORBIDDEN && spent)
}

/// The error, without the URL and without the request.
fn failed(error: &reqwest::Error) -> ProviderError {
    ProviderError::Unavailable(if error.is_timeout() {
        "it did not answer within 10 seconds"
    } else if error.is_connect() {
        "no connection could be made"
    } else {
        "the connection broke before there was an answer"
    })
}
