use std::time::Duration;

use gatewright_auth::{Limit, Limits};
use gatewright_base::Secret;
use gatewright_limits::Policy;

use super::read::{Keyword, Section};

/// `[auth.limits]`: one section for each lockout limiter. If the server is `behind_proxies`, the default of
/// `trust_forwarded_for` is true: the peer's address is the proxy's there, and one client would lock out everybody.
pub(super) fn read(section: &mut Section<'_>, behind_proxies: bool) -> Limits {
    let limit = |section: &mut Section<'_>| limit(section, behind_proxies);
    Limits {
        login: section.section("login", limit),
        login_account: section.section("login_account", limit),
        register: section.section("register", limit),
        magic_link: section.section("magic_link", limit),
        anonymous: section.section("anonymous", limit),
        email_code: section.section("email_code", limit),
        device: section.section("device", |section| limit_of(section, behind_proxies, Limits::DEVICE_ATTEMPTS)),
        two_factor: section.section("two_factor", limit),
        two_factor_account: section.section("two_factor_account", limit),
        password_reset: section.section("password_reset", limit),
        email_verification: section.section("email_verification", limit),
        oauth: section.section("oauth", limit),
    }
}

/// A number that is zero means its default.
fn limit(section: &mut Section<'_>, behind_proxies: bool) -> Limit {
    limit_of(section, behind_proxies, 0)
}

/// The same with another default of attempts.
fn limit_of(section: &mut Section<'_>, behind_proxies: bool, attempts: u32) -> Limit {
    let default = Policy::new(attempts, Duration::ZERO, Duration::ZERO);
    let attempts = section.value("max_attempts", default.max_attempts(), "Attempts allowed within the window.");
    let attempts = if attempts == 0 { default.max_attempts() } else { attempts };
    let window = section.seconds("window_seconds", default.window(), "Length of the window.");
    let block = section.seconds("block_seconds", default.block(), "Length of the block after too many attempts.");
    let trust_forwarded_for = section.derived(
        "trust_forwarded_for",
        "`true` if `server.trusted_proxies` is not empty, else `false`",
        "Take the client's address from `X-Forwarded-For`. See [limits](limits.md#the-clients-address).",
    );
    Limit {
        policy: Policy::new(attempts, window, block),
        trust_forwarded_for: trust_forwarded_for.unwrap_or(behind_proxies),
    }
}

/// `[rate_limit]`: where limiters count, and the token bucket of entity routes.
#[derive(Debug, Clone, Default)]
pub struct RateLimit {
    /// Where the limiters count.
    pub store: LimitStore,
    /// The URL of the Redis server; may contain a password.
    pub redis_url: Option<Secret>,
    /// The token bucket. Absent: off.
    pub api: Option<TokenBucket>,
}

/// Where limiters count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitStore {
    /// In this process.
    #[default]
    Memory,
    /// In the database, shared by all replicas.
    Database,
    /// In Redis, shared by all replicas.
    Redis,
}

impl Keyword for LimitStore {
    const WORDS: &'static [(&'static str, Self)] =
        &[("memory", Self::Memory), ("database", Self::Database), ("redis", Self::Redis)];
}

/// A sustained rate with bursts.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenBucket {
    /// Who has a separate bucket.
    pub key: BucketKey,
    /// Requests per second.
    pub per_second: f64,
    /// The size of a burst, in requests.
    pub burst: u32,
}

/// Who has a separate token bucket. Anonymous callers always have one for each address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BucketKey {
    /// Each signed-in caller. All their credentials share it.
    #[default]
    User,
    /// Each API token, within a common limit for all tokens of one owner; and each signed-in caller without a token.
    Token,
    /// Each address, for all callers together.
    Address,
}

impl Keyword for BucketKey {
    const WORDS: &'static [(&'static str, Self)] =
        &[("user", Self::User), ("token", Self::Token), ("address", Self::Address)];
}

impl RateLimit {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            store: section.value(
                "store",
                default.store,
                "[Where limiters count](limits.md#where-attempts-are-counted): in the memory of each server, or \
                 shared by all.",
            ),
            redis_url: section
                .optional("redis_url", "`redis://…` or `rediss://…`, for `\"redis\"`.")
                .filter(|url: &Secret| !url.is_empty()),
            api: section.optional_section("api", |s| TokenBucket {
                key: s.value(
                    "key",
                    BucketKey::default(),
                    "What has a bucket: each signed-in `\"user\"`, also each API `\"token\"`, or each `\"address\"`.",
                ),
                per_second: s.value("per_second", 50.0, "Requests per second."),
                burst: s.value("burst", 100_u32, "The size of a burst, in requests."),
            }),
        }
    }
}
