use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Shares, Turn, UserId};
use gatewright_limits::{Limiter, Policy};
use gatewright_outbound::{Outbound, OutboundError};
use http::header::CACHE_CONTROL;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use super::client::{Client, ClientKind, Source};
use super::client_metadata::Metadata;
use crate::foundation::Foundation;

/// Reads Client ID Metadata Documents: clients whose identifier is the `https` URL of a JSON document about them.
///
/// An attacker chooses the URL. So it is fetched only for a signed-in user, a few times a minute, from public addresses,
/// without redirects, and at most 64 KiB of it. All failures look alike.
#[derive(Clone)]
pub(super) struct Documents(Option<Arc<Inner>>);

struct Inner {
    http: Outbound,
    foundation: Foundation,
    kept: Mutex<HashMap<Url, Kept>>,
    /// Fetches of one user.
    by_user: Limiter,
    seats: Seats,
}

/// Limits of concurrent fetches: of all users together, of one user and from one host. So a few accounts with hosts that
/// never answer leave places to others.
struct Seats {
    of_user: Shares<UserId>,
    of_host: Shares<String>,
    all: Shares<()>,
}

struct Kept {
    client: Client,
    until: Timestamp,
}

/// Why a client's document is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("client metadata documents are turned off")]
    Off,
    #[error("too many client documents are being fetched")]
    Busy,
    /// It was not fetched, or is not valid. The reason is only in the log: a user chooses the address, and the reason would
    /// reveal which addresses and ports answer to this server.
    #[error("the client's metadata document cannot be fetched, or is not valid")]
    Unusable,
    /// The table of registered clients could not be read.
    #[error(transparent)]
    Store(gatewright_db::Error),
}

/// Why a document is not used, for the log.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("it cannot be fetched: {0}")]
    Fetch(#[from] OutboundError),
    #[error("it is not valid: {0}")]
    Invalid(&'static str),
}

/// How long a document is cached by default.
const USUAL: SignedDuration = SignedDuration::from_mins(5);
/// The maximum time that a document is cached, whatever it says.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// Documents that are kept at a time.
const CAPACITY: usize = 1_000;
/// Longest document, in bytes.
const MAX_BYTES: usize = 64 * 1024;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Fetches of one user in a minute.
const FETCHES: u32 = 10;
/// Fetches at a time.
const SEATS: usize = 16;
/// The most of them for one user, and the most for one host.
const SHARE: usize = 2;
/// How long a fetch waits for its seats.
const QUEUE: Duration = Duration::from_secs(3);

impl Documents {
    /// A reader, or one that refuses every document. `private_networks`: whether documents at loopback and private addresses
    /// are read.
    pub(super) fn new(foundation: &Foundation, enabled: bool, private_networks: bool) -> Result<Self, OutboundError> {
        if !enabled {
            return Ok(Self(None));
        }
        let policy = Policy::new(FETCHES, Duration::from_mins(1), Duration::from_mins(1));
        Ok(Self(Some(Arc::new(Inner {
            http: Outbound::new(TIMEOUT, private_networks)?,
            foundation: foundation.clone(),
            kept: Mutex::default(),
            by_user: Limiter::in_memory("oauth2_documents", policy, foundation.ambient.clone()),
            seats: Seats::new(),
        }))))
    }

    /// The client whose identifier is `url`.
    pub(super) async fn client(&self, url: Url, user: &UserId) -> Result<Client, DocumentError> {
        let inner = self.0.as_ref().ok_or(DocumentError::Off)?;
        let now = inner.foundation.ambient.now();
        if let Some(kept) = inner.kept.lock().get(&url).filter(|kept| kept.until > now) {
            return Ok(kept.client.clone());
        }
        if inner.by_user.attempt(user.as_str()).await.is_err() {
            return Err(DocumentError::Busy);
        }
        let seats = timeout(QUEUE, inner.seats.take(user, &url)).await;
        let _seats = seats.map_err(|_| DocumentError::Busy)?;
        let (began, fetched) = (Instant::now(), inner.fetch(&url, now).await);
        let (client, lasts) = match fetched {
            Ok(fetched) => fetched,
            Err(fault) => {
                tracing::warn!(%url, user = user.as_str(), %fault, "a client's metadata document is refused");
                // A port that refuses at once takes as long as one that never answers.
                sleep_until(began + TIMEOUT).await;
                return Err(DocumentError::Unusable);
            }
        };
        if !lasts.is_zero() {
            let mut kept = inner.kept.lock();
            if kept.len() >= CAPACITY {
                kept.retain(|_, kept| kept.until > now);
            }
            if kept.len() < CAPACITY {
                let until = now.checked_add(lasts).unwrap_or(Timestamp::MAX);
                kept.insert(url, Kept { client: client.clone(), until });
            }
        }
        Ok(client)
    }
}

impl Inner {
    /// The client, and how long its document may be cached.
    async fn fetch(&self, url: &Url, now: Timestamp) -> Result<(Client, SignedDuration), Fault> {
        let answer = self.http.get(url, "application/json", MAX_BYTES).await?;
        let openid = self.foundation.jwts.id_tokens().is_some();
        let client = read(url, &answer.body, now, openid)?;
        Ok((client, lifetime(answer.headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()))))
    }
}

impl Seats {
    fn new() -> Self {
        Self { of_user: Shares::new(SHARE), of_host: Shares::new(SHARE), all: Shares::new(SEATS) }
    }

    /// Waits for the seats of a fetch, the least contended first, so that waiting for a slow host does not block
    /// others.
    async fn take(&self, user: &UserId, url: &Url) -> [Turn; 3] {
        let of_user = self.of_user.take(user.clone()).await;
        let of_host = self.of_host.take(url.host_str().unwrap_or_default().to_owned()).await;
        [of_user, of_host, self.all.take(()).await]
    }
}

/// The client that a document describes. A document that names another client is refused.
fn read(url: &Url, body: &[u8], now: Timestamp, openid: bool) -> Result<Client, Fault> {
    let metadata: Metadata =
        serde_json::from_slice(body).map_err(|_| Fault::Invalid("it is not the JSON of client metadata"))?;
    if metadata.client_id.as_deref() != Some(url.as_str()) {
        return Err(Fault::Invalid("its client_id is not its own URL"));
    }
    if !matches!(metadata.token_endpoint_auth_method.as_deref(), None | Some("none")) {
        return Err(Fault::Invalid("its token_endpoint_auth_method is not none"));
    }
    let name = match &metadata.client_name {
        Some(_) => metadata.name().map_err(|error| Fault::Invalid(error.description))?,
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    Ok(Client {
        id: url.as_str().to_owned(),
        name,
        kind: ClientKind::Public,
        source: Source::Document,
        redirects: metadata.redirects().map_err(|error| Fault::Invalid(error.description))?,
        scopes: None,
        identity: metadata.relying_party(openid).map_err(|error| Fault::Invalid(error.description))?,
        created_at: now,
    })
}

/// How long a document may be cached, by its `Cache-Control` (RFC 9111, section 5.2.2).
fn lifetime(cache_control: Option<&str>) -> SignedDuration {
    let Some(text) = cache_control else { return USUAL };
    let directives = text.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    let mut lifetime = USUAL;
    for directive in directives {
        match directive.split_once('=') {
            None if directive == "no-store" || directive == "no-cache" => return SignedDuration::ZERO,
            Some(("max-age", seconds)) => {
                let seconds = seconds.trim_matches('"').parse().unwrap_or(0);
                lifetime = SignedDuration::from_secs(seconds).clamp(SignedDuration::ZERO, LONGEST);
            }
            _ => {}
        }
    }
    lifetime
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_cached_as_long_as_it_says_and_at_most_an_hour() {
        for (header, seconds) in [
            (None, 300),
            (Some("public"), 300),
            (Some("max-age=60"), 60),
            (Some("public, Max-Age=\"60\""), 60),
            (Some("max-age=999999999"), 3_600),
            (Some("max-age=-5"), 0),
            (Some("max-age=nonsense"), 0),
            (Some("no-store"), 0),
            (Some("no-cache, max-age=60"), 0),
        ] {
            assert_eq!(lifetime(header), SignedDuration::from_secs(seconds), "{header:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_and_a_host_have_a_share_of_the_seats() {
        let seats = Seats::new();
        let take = async |user: &str, host: &str| {
            let (user, url) = (UserId::parse(user).unwrap(), format!("https://{host}/c.json").parse().unwrap());
            timeout(QUEUE, seats.take(&user, &url)).await.ok()
        };
        // The attack: four accounts, each with their own slow hosts, use all places that they get.
        let mut held = Vec::new();
        for user in 0..4 {
            for n in 0..6 {
                held.extend(take(&format!("thief{user}"), &format!("slow{n}.evil{user}.example")).await);
            }
        }
        assert_eq!(held.len(), 4 * SHARE);
        let honest = take("honest", "app.example").await;
        assert!(honest.is_some(), "another user is served meanwhile");
        // Many accounts with one host use only that host's share.
        let mut one_host = Vec::new();
        for user in 0..4 {
            one_host.extend(take(&format!("other{user}"), "app.example").await);
        }
        assert_eq!(one_host.len(), SHARE - 1);
        drop(one_host);
        assert!(take("late", "app.example").await.is_some());
        // A waiting fetch gets a place that is released.
        let waiting = take("thief0", "app.example");
        let give_back = async {
            tokio::task::yield_now().await;
            held.clear();
        };
        let (waited, ()) = tokio::join!(waiting, give_back);
        assert!(waited.is_some());
        drop((waited, honest));
        assert!(take("last", "last.example").await.is_some());
    }

    #[test]
    fn a_document_is_only_valid_for_its_own_url() {
        let url: Url = "https://app.example.com/client.json".parse().unwrap();
        let good = r#"{"client_id":"https://app.example.com/client.json","client_name":"App","redirect_uris":["https://app.example.com/cb"]}"#;
        let read = |text: &str| read(&url, text.as_bytes(), Timestamp::UNIX_EPOCH, true);
        let client = read(good).unwrap();
        assert_eq!((&*client.name, client.host().as_deref()), ("App", Some("app.example.com")));
        for bad in [
            good.replace("client.json\",", "other.json\","),
            good.replace("\"client_id\"", "\"id\""),
            good.replace("[\"https://app.example.com/cb\"]", "[]"),
            good.replace("https://app.example.com/cb", "javascript:alert(1)"),
            good.replace("\"client_name\"", "\"token_endpoint_auth_method\":\"client_secret_basic\",\"client_name\""),
            good.replace("\"App\"", "\"A\u{200b}pp\""),
            good.replace("\"App\"", "\"\u{202e}ppA\""),
            good.replace("\"client_name\"", "\"grant_types\":[\"client_credentials\"],\"client_name\""),
            "[]".to_owned(),
            String::new(),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
