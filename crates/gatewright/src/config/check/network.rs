use std::time::Duration;

use gatewright_db::Db;
use url::{Host, Url};

use super::Faults;
use super::auth::path_is_sound;
use crate::config::{Config, Listen};

/// First segments of the server's own paths. Neither the entity prefix nor the auth path may begin with them.
const OWN_PATHS: [&str; 13] = [
    "account",
    "dev",
    "docs",
    "forgot-password",
    "healthz",
    "login",
    "mcp",
    "metrics",
    "openapi",
    "readyz",
    "register",
    "reset-password",
    "two-factor",
];

/// One caller gets a quarter of the budget: enough for two of the largest answers.
const MIN_BUDGET: usize = 64 << 20;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let server = &config.server;
    if let Some(url) = &server.public_url {
        public_url(config, url, faults);
    }
    listen(config, faults);
    prefixes(config, faults);
    faults.require(!server.request_timeout.is_zero(), "server.request_timeout_seconds", "must be at least 1");
    faults.require(
        server.request_timeout <= Duration::from_hours(24),
        "server.request_timeout_seconds",
        "must be at most a day (86400)",
    );
    faults.require(
        !server.export_timeout.is_zero() && server.export_timeout <= Duration::from_hours(24),
        "server.export_timeout_seconds",
        "must be 1 to 86400: at most a day",
    );
    faults.require(
        server.memory_budget_bytes >= MIN_BUDGET && server.memory_budget_bytes / 4 >= server.max_body_bytes,
        "server.memory_budget_bytes",
        format!(
            "must be at least {MIN_BUDGET} and at least four times `server.max_body_bytes`: one caller gets a quarter"
        ),
    );
    faults.require(!server.slow_reader.is_zero(), "server.slow_reader_seconds", "must be at least 1");
    faults.require(
        !config.auth.enabled || config.auth.max_body_bytes >= 1024,
        "auth.max_body_bytes",
        "must be at least 1024: a form with an address and a password needs this much",
    );
    faults.require(
        config.drain() <= Duration::from_mins(5),
        "server.drain_seconds",
        "must be at most 300: a stop takes this long",
    );
    faults.require(
        server.pid_file.as_ref().is_none_or(|file| file.is_absolute()),
        "server.pid_file",
        "must be an absolute path, such as \"/run/gatewright/gatewright.pid\": commands run in other folders",
    );
    faults.require(server.max_body_bytes > 0, "server.max_body_bytes", "must be at least 1");
    faults.require(config.database.max_connections > 0, "database.max_connections", "must be at least 1");
    let list_timeout = config.database.list_timeout;
    faults.require(!list_timeout.is_zero(), "database.list_timeout_seconds", "must be at least 1");
    let url = config.database.url.expose();
    if !["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        faults.add("database.url", "must start with sqlite:// or postgres://");
    } else if let Err(error) = Db::check_url(url)
        && !config.database.in_memory()
    {
        faults.add("database.url", error.to_string());
    }
    if let Some(direct) = &config.database.direct_url {
        let is_postgres = |url: &str| url.starts_with("postgres://") || url.starts_with("postgresql://");
        if !is_postgres(direct.expose()) {
            faults.add("database.direct_url", "must start with postgres://");
        } else if !is_postgres(url) {
            faults.add("database.direct_url", "is only for a `database.url` that is a pooler before Postgres");
        } else if let Err(error) = Db::check_url(direct.expose()) {
            faults.add("database.direct_url", error.to_string());
        }
    }
}

pub(super) fn warn(config: &Config, warnings: &mut Faults) {
    let plain = config.server.public_url.as_ref().is_some_and(|url| url.scheme() == "http" && !is_loopback(url));
    if plain && !config.server.dev_mode && config.auth.enabled {
        warnings.add(
            "server.public_url",
            "is plain http: outside dev mode the session cookie needs HTTPS, so browsers drop it and nobody stays signed \
             in",
        );
    }
    let server = &config.server;
    let is_https = server.public_url.as_ref().is_some_and(|url| url.scheme() == "https");
    if is_https && server.tls.is_none() && server.is_local() && server.trusted_proxies.is_empty() {
        warnings.add(
            "server.trusted_proxies",
            "is empty, and `public_url` is https while the server listens on a loopback address: a proxy on this computer \
             seems to be in front. Every client then counts as the proxy, and ten failed logins of one lock out all. Set \
             `trusted_proxies = [\"127.0.0.1\"]`",
        );
    }
}

/// Whether the URL names this computer itself. Browsers trust such a URL like HTTPS.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

fn public_url(config: &Config, url: &Url, faults: &mut Faults) {
    let key = "server.public_url";
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        faults.add(key, "must be an http:// or https:// URL with a host");
        return;
    }
    faults.require(
        url.username().is_empty() && url.password().is_none(),
        key,
        "must not contain a user name or a password: it is public",
    );
    faults.require(
        url.path() == "/" && url.query().is_none() && url.fragment().is_none(),
        key,
        "must be only an origin, such as \"https://example.com\", without path or query: paths are appended to it",
    );
    faults.require(
        config.browser_backend.is_none() || url.scheme() == "https" || is_loopback(url),
        key,
        "must be https (or a loopback host) when [browser_backend] is on: its cookies need HTTPS",
    );
}

fn listen(config: &Config, faults: &mut Faults) {
    let server = &config.server;
    let has_address = server.addresses().next().is_some();
    faults.require(!server.listen.is_empty(), "server.listen", "must name at least one address");
    for (index, listen) in server.listen.iter().enumerate() {
        if let Listen::Unix(path) = listen {
            let key =
                if server.listen.len() == 1 { "server.listen".to_owned() } else { format!("server.listen[{index}]") };
            faults.require(path.is_absolute(), key, "must be an absolute path, such as \"unix:/run/gatewright/http\"");
        }
    }
    faults.require(
        has_address || server.public_url.is_some(),
        "server.public_url",
        "is required if the server listens on Unix sockets only: no address follows from them",
    );
    let Some(tls) = &server.tls else { return };
    faults.require(has_address, "server.tls", "needs an address in `server.listen`: Unix sockets are not encrypted");
    let is_plain = server.public_url.as_ref().is_some_and(|url| url.scheme() == "http");
    faults.require(!is_plain, "server.public_url", "must be https if `server.tls` is set");
    faults.require(
        tls.redirect_http.is_none() || server.public_url.is_some(),
        "server.tls.redirect_http",
        "needs `server.public_url`, to which it leads",
    );
    if !server.dev_mode
        && let Err(error) = crate::serve::load_tls(tls)
    {
        faults.add(error.key, error.message);
    }
}

fn prefixes(config: &Config, faults: &mut Faults) {
    let prefix = config.api_prefix();
    let key = "server.api_prefix";
    if !prefix.is_empty() {
        faults.require(
            path_is_sound(prefix),
            key,
            "must be empty or a path such as \"/api\": starting with a slash, not ending with one",
        );
        faults.require(!is_own(prefix), key, format!("{prefix} is one of the server's own paths"));
    }
    if config.auth.enabled {
        let base = &*config.auth.base_path;
        faults.require(!is_own(base), "auth.base_path", format!("{base} is one of the server's own paths"));
        // An invalid path is reported by another check.
        let overlap = !prefix.is_empty() && path_is_sound(base) && (is_within(base, prefix) || is_within(prefix, base));
        faults.require(
            !overlap,
            "auth.base_path",
            format!("{base} and the entities' prefix {prefix} must not contain each other"),
        );
    }
}

fn is_own(path: &str) -> bool {
    path.split('/').nth(1).is_some_and(|first| OWN_PATHS.contains(&first))
}

/// Whether `path` is `base` or lies below it.
fn is_within(path: &str, base: &str) -> bool {
    path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
