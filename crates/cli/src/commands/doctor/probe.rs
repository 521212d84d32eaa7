use std::time::{Duration, Instant};

use gatewright_base::Ambient;
use reqwest::header::{HeaderMap, ORIGIN};
use reqwest::{Certificate, Client, Response, redirect};
use serde_json::Value;
use url::Url;

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stream may take until its first bytes. A server sends them at once.
const FIRST_WORD: Duration = Duration::from_secs(5);
/// The maximum number of bytes that are read of an answer.
const MAX_BYTES: usize = 4 << 20;

/// Sends requests to a deployment.
pub(super) struct Probe {
    base: Url,
    http: Client,
    ambient: Ambient,
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) took: Duration,
}

/// How a stream began.
pub(super) enum Beginning {
    /// It began with these bytes.
    Bytes(Vec<u8>),
    /// It did not begin: this status instead, for example because it needs credentials.
    Status(u16),
    /// No byte of the body arrived in time.
    Silence,
}

impl Probe {
    /// Also trusts `authorities`.
    pub(super) fn new(base: Url, authorities: Vec<Certificate>) -> reqwest::Result<Self> {
        let http = Client::builder()
            .connect_timeout(TIMEOUT)
            .tls_certs_merge(authorities)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("gatewright-doctor/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { base, http, ambient: Ambient::system() })
    }

    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// The time of this computer, in seconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.ambient.now().as_second()
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, String> {
        self.ask(path, None).await
    }

    /// The same, as a page of another origin would send it.
    pub(super) async fn get_from(&self, path: &str, origin: &'static str) -> Result<Answer, String> {
        self.ask(path, Some(origin)).await
    }

    pub(super) async fn first_bytes(&self, path: &str) -> Beginning {
        let begun = tokio::time::timeout(FIRST_WORD, async {
            let mut response = self.http.get(self.at(path)).send().await.ok()?;
            if !response.status().is_success() {
                return Some(Beginning::Status(response.status().as_u16()));
            }
            Some(Beginning::Bytes(response.chunk().await.ok()??.to_vec()))
        });
        begun.await.ok().flatten().unwrap_or(Beginning::Silence)
    }

    async fn ask(&self, path: &str, origin: Option<&'static str>) -> Result<Answer, String> {
        let started = Instant::now();
        let request = self.http.get(self.at(path)).timeout(TIMEOUT);
        let request = match origin {
            Some(origin) => request.header(ORIGIN, origin),
            None => request,
        };
        let response = request.send().await.map_err(|error| reason(&error))?;
        let took = started.elapsed();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, body: body(response).await.map_err(|error| reason(&error))?, took })
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }
}

impl Answer {
    pub(super) fn json(&self) -> Option<Value> {
        (self.status == 200).then(|| serde_json::from_slice(&self.body).ok()).flatten()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

async fn body(mut response: Response) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            break;
        }
    }
    Ok(body)
}

/// The innermost cause, which is the most specific: an unknown host name, an untrusted certificate.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
