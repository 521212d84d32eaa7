use std::time::Duration;

use gatewright_outbound::{Outbound, OutboundError};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use url::Url;

use super::super::consumer::Advice;

/// How long an endpoint may take, connecting included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer is read, so that its connection can be used again. It is thrown away.
const ANSWER: usize = 16 * 1024;
/// How long that may take once the status is known.
const REST: Duration = Duration::from_secs(1);
/// The longest wait that an endpoint can ask for.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// Calls one URL.
pub(super) struct Client {
    http: Outbound,
    url: Url,
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The endpoint has an address that is not allowed for webhooks.
    #[error("webhooks do not go to loopback, private and other addresses that are not public")]
    Address,
    /// The endpoint answered with this status.
    #[error("the endpoint answered {0}")]
    Status(u16),
    /// The endpoint took too long.
    #[error("the endpoint did not answer within 10 seconds")]
    Timeout,
    /// No connection was opened.
    #[error("no connection could be made to the endpoint")]
    Connect,
    /// The connection broke.
    #[error("the connection broke before there was an answer")]
    Broken,
}

impl From<OutboundError> for Refused {
    fn from(error: OutboundError) -> Self {
        match error {
            OutboundError::Address => Self::Address,
            OutboundError::Status(status) => Self::Status(status),
            OutboundError::Timeout => Self::Timeout,
            OutboundError::Connect => Self::Connect,
            _ => Self::Broken,
        }
    }
}

impl Client {
    pub(super) fn new(url: Url, private_networks: bool) -> Result<Self, OutboundError> {
        Ok(Self { http: Outbound::new(TIMEOUT, private_networks)?, url })
    }

    /// `now` is for an answer that names a time.
    pub(super) async fn post(
        &self,
        id: &str,
        now: Timestamp,
        signatures: &str,
        body: Vec<u8>,
    ) -> Result<(), (Refused, Advice)> {
        let silent = |error: OutboundError| (error.into(), Advice::None);
        let request = self
            .http
            .request(Method::POST, &self.url)
            .map_err(silent)?
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now.as_second())
            .header("webhook-signature", signatures)
            .body(body);
        let mut response = request.send().await.map_err(|error| silent(error.into()))?;
        let status = response.status();
        let advice = advice(status, response.headers(), now);
        let rest = async {
            let mut read = 0;
            while read < ANSWER
                && let Ok(Some(chunk)) = response.chunk().await
            {
                read += chunk.len();
            }
        };
        // The status has decided already.
        let _read_or_not = tokio::time::timeout(REST, rest).await;
        if status.is_success() { Ok(()) } else { Err((Refused::Status(status.as_u16()), advice)) }
    }
}

/// What an answer says about later webhooks (Standard Webhooks, "Delivery success and failure").
fn advice(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Advice {
    if status == StatusCode::GONE {
        return Advice::Never;
    }
    match headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|text| retry_after(text, now)) {
        Some(wait) => Advice::After(wait.min(LONGEST_WAIT)),
        None => match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Advice::Busy,
            _ => Advice::None,
        },
    }
}

/// Seconds, or a time (RFC 9110, section 10.2.3). A time in the past asks for no wait.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds are a long time too.
        return Some(text.parse().map_or(LONGEST_WAIT, Duration::from_secs));
    }
    let time = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(time.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Calls the endpoint with this body.
    async fn call(client: &Client, body: &[u8]) -> Result<(), Refused> {
        client.post("id", Timestamp::UNIX_EPOCH, "v1,x", body.to_vec()).await.map_err(|(why, _)| why)
    }

    #[test]
    fn an_answer_says_when_to_try_again() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let after = |seconds| Advice::After(Duration::from_secs(seconds));
        for (status, header, expected) in [
            (500, None, Advice::None),
            (404, None, Advice::None),
            (302, None, Advice::None),
            (410, None, Advice::Never),
            (410, Some("5"), Advice::Never),
            (429, None, Advice::Busy),
            (502, None, Advice::Busy),
            (504, None, Advice::Busy),
            (429, Some("120"), after(120)),
            (503, Some(" 0 "), after(0)),
            (500, Some("7"), after(7)),
            (503, Some("Fri, 02 Jan 2026 03:05:05 GMT"), after(60)),
            (503, Some("Fri, 02 Jan 2026 03:04:00 GMT"), after(0)),
            (503, Some("Fri, 02 Jan 2099 03:04:00 GMT"), after(24 * 3600)),
            (503, Some("99999999999999999999999"), after(24 * 3600)),
            (503, Some("100000"), after(24 * 3600)),
            (429, Some("-1"), Advice::Busy),
            (429, Some("1.5"), Advice::Busy),
            (429, Some("soon"), Advice::Busy),
            (429, Some(""), Advice::Busy),
            (503, Some("soon"), Advice::None),
        ] {
            let value = header.map(|text| (RETRY_AFTER, http::HeaderValue::from_str(text).unwrap()));
            let headers: HeaderMap = value.into_iter().collect();
            let found = advice(StatusCode::from_u16(status).unwrap(), &headers, now);
            assert_eq!(found, expected, "{status} {header:?}");
        }
    }

    #[tokio::test]
    async fn private_addresses_and_names_are_refused_before_a_connection() {
        for url in [
            "http://127.0.0.1:1/",
            "http://2130706433:1/",
            "http://0x7f.1:1/",
            "http://0177.0.0.1:1/",
            "http://127.1:1/",
            "http://127.0.0.1.:1/",
            "http://%31%32%37.0.0.1:1/",
            "http://\u{2460}\u{2461}\u{2466}.0.0.1:1/",
            "http://1.1.1.1@127.0.0.1:1/",
            "http://0.0.0.0:1/",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]:1/",
            "http://[64:ff9b::a9fe:a9fe]:1/",
            "http://[2002:7f00:1::]:1/",
            "http://169.254.169.254/",
            "http://localhost:1/",
            "https://localhost:1/",
        ] {
            let client = Client::new(Url::parse(url).unwrap(), false).unwrap();
            assert_eq!(call(&client, b"").await, Err(Refused::Address), "{url}");
        }
    }

    /// An endpoint that sends `answer` and then repeats `rest` as long as the client reads.
    async fn endpoint(answer: &'static str, rest: &'static [u8]) -> (Client, tokio::task::JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1024];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
            if rest.is_empty() {
                // Until the client stops reading.
                while let Ok(1..) = stream.read(&mut buffer).await {}
            }
            while stream.write_all(rest).await.is_ok() && !rest.is_empty() {}
        });
        (Client::new(url, true).unwrap(), serving)
    }

    #[tokio::test]
    async fn an_endless_body_is_not_read_completely() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n";
        let (client, serving) = endpoint(head, &[b'x'; 4096]).await;
        assert_eq!(call(&client, b"").await, Ok(()));
        // The endpoint notices that the client stopped reading.
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn an_endless_head_is_not_read_completely() {
        let (client, serving) = endpoint("HTTP/1.1 200 OK\r\nx: ", &[b'x'; 4096]).await;
        assert_eq!(call(&client, b"").await, Err(Refused::Broken));
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_does_not_answer_or_finish_times_out() {
        let (silent, _serving) = endpoint("", b"").await;
        assert_eq!(call(&silent, b"").await, Err(Refused::Timeout));
        let (stuck, _serving) = endpoint("HTTP/1.1 200 OK\r\n", b"").await;
        assert_eq!(call(&stuck, b"").await, Err(Refused::Timeout));
    }

    #[tokio::test]
    async fn an_untrusted_certificate_is_refused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("https://localhost:{}", listener.local_addr().unwrap().port())).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let named = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = named.self_signed(&key).unwrap().der().clone();
        let config = tokio_rustls::rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.serialize_der().try_into().unwrap())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let accepted = tokio::spawn(async move { acceptor.accept(listener.accept().await.unwrap().0).await.is_ok() });
        let client = Client::new(url, true).unwrap();
        assert_eq!(call(&client, b"canary").await, Err(Refused::Connect));
        assert!(!accepted.await.unwrap(), "nothing was sent");
    }
}
