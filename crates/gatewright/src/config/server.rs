use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gatewright_base::JsonCase;
use gatewright_http::TrustedProxies;
use url::Url;

use super::read::Section;

/// `[server]`: where the server listens and what holds for every request.
#[derive(Debug, Clone)]
pub struct Server {
    /// The address to listen on. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address that the outside world uses: in mails, redirects and origin checks. Absent: `http://` and the
    /// listening address.
    pub public_url: Option<Url>,
    /// Relaxes what only makes sense with HTTPS and real mail. Never in production.
    pub dev_mode: bool,
    /// A path that entity routes are mounted under, such as `/api`; empty for none. Absent: none, or `/api` with
    /// `[browser_backend]`.
    pub api_prefix: Option<String>,
    /// How multi-word JSON keys are spelled.
    pub json_case: JsonCase,
    /// How long an answer may take. Event streams are exempt.
    pub request_timeout: Duration,
    /// The largest request body in bytes.
    pub max_body_bytes: usize,
    /// Connections at a time; more are told to come again. An open event stream is one of them.
    pub max_connections: usize,
    /// Connections of one address at a time; an IPv6 address is counted with its /64, and eight times as many are the limit of
    /// its /48. Absent: 1,000, and any number from loopback addresses. Zero: any number. Trusted proxies are not counted.
    pub max_connections_per_address: Option<usize>,
    /// The most bytes that request bodies and answers take together, at least 64 MiB. One caller gets a quarter of it.
    pub memory_budget_bytes: usize,
    /// How long a client may hold up an answer: over each such period it must take at least 8 KiB per second.
    pub slow_reader: Duration,
    /// How long the server still answers after a stop was asked for, closing the connection after each answer, while
    /// `/readyz` is 503. Absent: 2 seconds, or none in dev mode.
    pub drain: Option<Duration>,
    /// Allows dev mode on an address that other computers can reach. Whoever reaches it can sign in as anybody.
    pub allow_public_dev_mode: bool,
    /// The proxies whose `X-Forwarded-For` is believed. In a configuration file, naming any turns `trust_forwarded_for` on
    /// for every limiter that does not set it.
    pub trusted_proxies: TrustedProxies,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            public_url: None,
            dev_mode: false,
            api_prefix: None,
            json_case: JsonCase::Camel,
            request_timeout: Duration::from_secs(30),
            max_body_bytes: 1 << 20,
            max_connections: 20_000,
            max_connections_per_address: None,
            memory_budget_bytes: 256 << 20,
            slow_reader: Duration::from_secs(30),
            drain: None,
            allow_public_dev_mode: false,
            trusted_proxies: TrustedProxies::default(),
        }
    }
}

impl Server {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            listen: section.value("listen", default.listen),
            public_url: section.optional("public_url"),
            dev_mode: section.value("dev_mode", default.dev_mode),
            api_prefix: section.optional("api_prefix"),
            json_case: section.value("json_case", default.json_case),
            request_timeout: section.seconds("request_timeout_seconds", default.request_timeout),
            max_body_bytes: section.value("max_body_bytes", default.max_body_bytes),
            max_connections: section.value("max_connections", default.max_connections),
            max_connections_per_address: section.optional("max_connections_per_address"),
            memory_budget_bytes: section.value("memory_budget_bytes", default.memory_budget_bytes),
            slow_reader: section.seconds("slow_reader_seconds", default.slow_reader),
            drain: section.optional("drain_seconds").map(Duration::from_secs),
            allow_public_dev_mode: section.value("allow_public_dev_mode", default.allow_public_dev_mode),
            trusted_proxies: section.value("trusted_proxies", default.trusted_proxies),
        }
    }
}
