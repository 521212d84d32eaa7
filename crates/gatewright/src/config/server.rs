use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gatewright_base::JsonCase;
use gatewright_http::TrustedProxies;
use url::Url;

use super::read::Section;

/// `[server]`: the listening address and settings for every request.
#[derive(Debug, Clone)]
pub struct Server {
    /// The address to listen on. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The public URL, for mails, redirects and origin checks. Absent: `http://` and the listening address.
    pub public_url: Option<Url>,
    /// Relaxes checks that need HTTPS and real mail. Never use it in production.
    pub dev_mode: bool,
    /// A path that entity routes are mounted under, such as `/api`; empty for none. Absent: none, or `/api` with
    /// `[browser_backend]`.
    pub api_prefix: Option<String>,
    /// The case of multi-word JSON keys.
    pub json_case: JsonCase,
    /// How long an answer may take. Event streams are exempt.
    pub request_timeout: Duration,
    /// The largest request body in bytes.
    pub max_body_bytes: usize,
    /// The maximum number of open connections; further ones get 503. An open event stream is one of them.
    pub max_connections: usize,
    /// The maximum number of open connections of one address. IPv6 addresses are counted by their /64; the limit of a
    /// /48 is eight times as high. Absent: 1,000, and no limit for loopback addresses. Zero: no limit. Trusted proxies
    /// are not counted.
    pub max_connections_per_address: Option<usize>,
    /// The maximum number of bytes that request bodies and answers take together, at least 64 MiB. One caller gets at
    /// most a quarter.
    pub memory_budget_bytes: usize,
    /// The period over which the speed of a client is measured: in each such period it must read at least 8 KiB per
    /// second.
    pub slow_reader: Duration,
    /// How long the server continues to answer after a stop is requested. It closes the connection after each answer,
    /// and `/readyz` is 503. Absent: 2 seconds, or none in dev mode.
    pub drain: Option<Duration>,
    /// Allows dev mode on an address that other computers can reach. Anybody who can reach it can sign in as any user.
    pub allow_public_dev_mode: bool,
    /// The proxies whose `X-Forwarded-For` is trusted. In a configuration file, setting it enables
    /// `trust_forwarded_for` for every limiter that does not set it.
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
            listen: section.value("listen", default.listen, "The address to listen on. Port 0 takes a free one."),
            public_url: section.derived(
                "public_url",
                "`http://` and `listen`",
                "The address that clients use: in mails, redirects and origin checks. Never taken from a \
                 request.",
            ),
            dev_mode: section.value(
                "dev_mode",
                default.dev_mode,
                "Plain-HTTP cookies and no lockout of logins per address. `--dev` sets it. Refused if `listen` \
                 is not a loopback address.",
            ),
            api_prefix: section.derived(
                "api_prefix",
                "`\"\"`; `\"/api\"` with `[browser_backend]`",
                "A path to mount entity routes under.",
            ),
            json_case: section.value(
                "json_case",
                default.json_case,
                "Spelling of multi-word JSON keys in answers. Requests may use either.",
            ),
            request_timeout: section.seconds(
                "request_timeout_seconds",
                default.request_timeout,
                "How long a request may take until its answer begins: then 503, or 408 where its own body did \
                 not arrive. Event streams are exempt. 1 to 86400.",
            ),
            max_body_bytes: section.value(
                "max_body_bytes",
                default.max_body_bytes,
                "Largest request body; a larger one is 413, which names the limit and the key.",
            ),
            max_connections: section.value(
                "max_connections",
                default.max_connections,
                "Connections at once per process, streams included; one more is 503. Fewer if the process may \
                 not open so many files.",
            ),
            max_connections_per_address: section.derived(
                "max_connections_per_address",
                "`1000`; no limit for loopback addresses",
                "Connections at once from one address; the next is 503. IPv6 by its /64, and eight times as \
                 many for its /48. 0: no limit. If it is set, it applies to loopback addresses too. Trusted \
                 proxies are not counted.",
            ),
            memory_budget_bytes: section.value(
                "memory_budget_bytes",
                default.memory_budget_bytes,
                "[Memory](limits.md#memory) that request bodies and answers take together; past it 503 with \
                 `over_budget`. At least 64 MiB and four times `max_body_bytes`: one caller gets a quarter.",
            ),
            slow_reader: section.seconds(
                "slow_reader_seconds",
                default.slow_reader,
                "Over each such period, a client that holds up an answer must take at least 8 KiB per second, \
                 or its connection is closed.",
            ),
            drain: section
                .derived(
                    "drain_seconds",
                    "`2`; `0` in dev mode",
                    "How long the server still answers after SIGTERM, with `Connection: close` and `/readyz` 503. \
                 At most 300. See [stopping](deployment.md#stopping).",
                )
                .map(Duration::from_secs),
            allow_public_dev_mode: section.value(
                "allow_public_dev_mode",
                default.allow_public_dev_mode,
                "Allows `dev_mode` on any address. Everybody who reaches it can read `/dev/mail`, that is, sign \
                 in as anybody. `--allow-public-dev` sets it.",
            ),
            trusted_proxies: section
                .derived(
                    "trusted_proxies",
                    "`[]`",
                    "Networks whose `X-Forwarded-For` is trusted. If it is not empty, `trust_forwarded_for` is on \
                 for every limiter that does not set it.",
                )
                .unwrap_or_default(),
        }
    }
}
