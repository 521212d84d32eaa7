use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use gatewright_base::JsonCase;
use gatewright_http::TrustedProxies;
use url::Url;

use super::listen::{Listen, Listens, Tls};
use super::read::Section;

/// `[server]`: the listening address and settings for every request.
#[derive(Debug, Clone)]
pub struct Server {
    /// The addresses and sockets to listen on.
    pub listen: Vec<Listen>,
    /// `[server.tls]`; absent: plain HTTP.
    pub tls: Option<Tls>,
    /// The public URL, for mails, redirects and origin checks. Absent: `http://` and the listening address.
    pub public_url: Option<Url>,
    /// The front end, to which flows without `next` lead. Absent: the page `/` of this server.
    pub app_url: Option<Url>,
    /// Relaxes checks that need HTTPS and real mail. Never use it in production.
    pub dev_mode: bool,
    /// A path that entity routes are mounted under, such as `/api`; empty for none. Absent: none, or `/api` with
    /// `[browser_backend]`.
    pub api_prefix: Option<String>,
    /// The case of multi-word JSON keys.
    pub json_case: JsonCase,
    /// How long an answer may take. Event streams are exempt.
    pub request_timeout: Duration,
    /// How long an export of all records may take.
    pub export_timeout: Duration,
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
    /// The most bytes of all answers that are kept for requests with an `Idempotency-Key`.
    pub idempotency_max_bytes: u64,
    /// The period over which the speed of a client is measured: in each such period it must read at least 8 KiB per
    /// second.
    pub slow_reader: Duration,
    /// How long the server continues to answer after a stop is requested. It closes the connection after each answer,
    /// and `/readyz` is 503. Absent: 2 seconds, or none in dev mode.
    pub drain: Option<Duration>,
    /// A file that the server holds locked, with the number of its process.
    pub pid_file: Option<PathBuf>,
    /// Allows dev mode with a listening address or a public URL that other computers can reach. Anybody who can reach it can sign in as any user.
    pub allow_public_dev_mode: bool,
    /// The proxies whose `X-Forwarded-For` is trusted. In a configuration file, setting it enables
    /// `trust_forwarded_for` for every limiter that does not set it.
    pub trusted_proxies: TrustedProxies,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Tcp(DEFAULT)],
            tls: None,
            public_url: None,
            app_url: None,
            dev_mode: false,
            api_prefix: None,
            json_case: JsonCase::Camel,
            request_timeout: Duration::from_secs(30),
            export_timeout: Duration::from_hours(1),
            max_body_bytes: 1 << 20,
            max_connections: 20_000,
            max_connections_per_address: None,
            memory_budget_bytes: 256 << 20,
            idempotency_max_bytes: 1 << 30,
            slow_reader: Duration::from_secs(30),
            drain: None,
            pid_file: None,
            allow_public_dev_mode: false,
            trusted_proxies: TrustedProxies::default(),
        }
    }
}

const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

impl Server {
    /// The first address of `listen`. If it has only sockets: the default.
    pub fn address(&self) -> SocketAddr {
        self.addresses().next().unwrap_or(DEFAULT)
    }

    /// The addresses of `listen`.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listen.iter().filter_map(Listen::address)
    }

    /// Whether other computers cannot reach the server without a proxy.
    pub(crate) fn is_local(&self) -> bool {
        self.addresses().all(|address| address.ip().to_canonical().is_loopback())
    }

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            listen: listen(section, default.listen),
            tls: section.optional_section("tls", Tls::read),
            public_url: section.derived(
                "public_url",
                "`http://`, or `https://` with `[server.tls]`, and the first address of `listen`",
                "The public address of the server, for mails, redirects and origin checks. Never taken from a \
                 request.",
            ),
            app_url: section.optional(
                "app_url",
                "The address of your front end. Sign-ins, registrations, invitations, password resets and other flows lead to \
                 it unless they have another allowed `next`. `next` may name addresses at or below it. Without it, they lead \
                 to the server's page `/`.",
            ),
            dev_mode: section.value(
                "dev_mode",
                default.dev_mode,
                "Plain-HTTP cookies and no lockout of sign-ins and registrations per address. `--dev` sets it. Refused if \
                 the address of `listen` or the host of `public_url` is not this computer's own (`127.0.0.1`, `localhost`).",
            ),
            api_prefix: section.derived(
                "api_prefix",
                "`\"\"`; `\"/api\"` with `[browser_backend]`",
                "A path to mount entity routes under.",
            ),
            json_case: section.value(
                "json_case",
                default.json_case,
                "Case of multi-word JSON keys in responses. Requests may use either case.",
            ),
            request_timeout: section.seconds(
                "request_timeout_seconds",
                default.request_timeout,
                "The maximum time until the response to a request begins. After that: 503, or 408 if the request body \
                 has not arrived. Event streams are exempt. 1 to 86400.",
            ),
            export_timeout: export_timeout(section, default.export_timeout),
            max_body_bytes: section.value(
                "max_body_bytes",
                default.max_body_bytes,
                "The largest request body. Above it: 413, which names the limit and the key.",
            ),
            max_connections: section.value(
                "max_connections",
                default.max_connections,
                "The maximum number of open connections per process, including streams. Above it: 503. Fewer if the \
                 process may not open as many files.",
            ),
            max_connections_per_address: section.derived(
                "max_connections_per_address",
                "`1000`; no limit for loopback addresses",
                "The maximum number of open connections from one address. Above it: 503. IPv6 addresses are counted \
                 by /64, and eight times as many are allowed for each /48. 0: no limit. If it is set, it applies to \
                 loopback addresses too. Trusted proxies are not counted.",
            ),
            memory_budget_bytes: section.value(
                "memory_budget_bytes",
                default.memory_budget_bytes,
                "[Memory](limits.md#memory) for request bodies and responses together. Above it: 503 `over_budget`. \
                 At least 64 MiB and four times `max_body_bytes`: one caller gets at most a quarter.",
            ),
            idempotency_max_bytes: section.value(
                "idempotency_max_bytes",
                default.idempotency_max_bytes,
                "Room in the database for answers to requests with an [`Idempotency-Key`](entities.md#idempotency). Above it, \
                 the oldest are removed within a minute.",
            ),
            slow_reader: section.seconds(
                "slow_reader_seconds",
                default.slow_reader,
                "In each period of this length, a client that delays an answer must read at least 8 KiB per second. \
                 Otherwise its connection is closed.",
            ),
            drain: section
                .derived(
                    "drain_seconds",
                    "`2`; `0` in dev mode",
                    "How long the server continues to answer after SIGTERM, with `Connection: close` and `/readyz` \
                     503. At most 300. See [stopping](deployment.md#stopping).",
                )
                .map(Duration::from_secs),
            pid_file: pid_file(section),
            allow_public_dev_mode: section.value(
                "allow_public_dev_mode",
                default.allow_public_dev_mode,
                "Allows `dev_mode` with any `listen` and `public_url`. Everybody who can reach it can read \
                 `/dev/mail` and so sign in as any user. `--allow-public-dev` sets it.",
            ),
            trusted_proxies: trusted_proxies(section),
        }
    }
}

fn listen(section: &mut Section<'_>, default: Vec<Listen>) -> Vec<Listen> {
    let about = "The address to listen on, or several: `[\"0.0.0.0:443\", \"unix:/run/gatewright/http\"]`. Port 0 selects a \
                 free port. A [Unix socket](deployment.md#unix-sockets) has the mode 0660.";
    section.value("listen", Listens(default), about).0
}

fn trusted_proxies(section: &mut Section<'_>) -> TrustedProxies {
    let about = "Networks whose `X-Forwarded-For` is trusted; `\"unix\"` for those who connect to a Unix socket. If it is not empty, \
                 `trust_forwarded_for` is on for every limiter that does not set it. Half of all IPv4 or IPv6 addresses or more is refused \
                 outside dev mode.";
    section.derived("trusted_proxies", "`[]`", about).unwrap_or_default()
}

fn pid_file(section: &mut Section<'_>) -> Option<PathBuf> {
    let about = "An absolute path. While the server runs, the file has the number of its process and is locked. \
                 [`gatewright reload`](operations.md#reloading) finds the server by it. On SQLite it is not needed.";
    section.optional::<String>("pid_file", about).map(PathBuf::from)
}

fn export_timeout(section: &mut Section<'_>, default: Duration) -> Duration {
    let about = "The maximum time of an [export](queries.md#export). After that the connection is closed before the end. 1 to 86400.";
    section.seconds("export_timeout_seconds", default, about)
}
