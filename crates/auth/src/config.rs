use std::time::Duration;

use gatewright_base::Roles;
use gatewright_http::RedirectUrls;
use gatewright_limits::Policy;
use http::HeaderName;
use url::Url;

use crate::init_error::AuthInitError;
use crate::jwt::JwtConfig;
use crate::password::PasswordAlgorithm;

/// How authentication behaves. The default is production's posture and lacks nothing but a JWT secret.
///
/// What plugins are there, and which stores, is the builder's business: [`Auth::builder`](crate::Auth::builder).
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct AuthConfig {
    /// For development alone: a plain cookie named `session_id`, a random JWT secret if none is set, in-memory stores
    /// allowed, and no per-address limit on sign-ins. The per-account limit stays.
    pub dev_mode: bool,
    /// The path under which the routes lie: `/auth`.
    pub base_path: String,
    /// The address at which browsers reach the service. Links in mails are built from it alone, and its origin counts
    /// as the service's own beside the request's `Host`.
    pub public_url: Option<Url>,
    /// The path of the tool surface (MCP), such as `/mcp`. The authorization server issues tokens for it apart from those for
    /// everything else.
    pub tools_path: Option<String>,
    /// Where beside the service's own paths `next` may lead: the front end's addresses, when it is served from another
    /// origin. Each allows its exact origin, and its path as a prefix at a segment boundary.
    pub redirect_urls: Vec<Url>,
    /// Secrets and lifetime of JWTs.
    pub jwt: JwtConfig,
    /// How long a session lives: seven days.
    pub session_ttl: Duration,
    /// The roles of every new account: `user`. Never taken from a request.
    pub default_roles: Roles,
    /// Who may have an account.
    pub registration: Registration,
    /// Whether an account whose mailbox was never proven is refused at sign-in.
    pub require_verified_email: bool,
    /// How new passwords are hashed.
    pub password: PasswordAlgorithm,
    /// Allows in-memory stores outside dev mode: for a single node that may forget everything at a restart.
    pub allow_in_memory_stores: bool,
    /// Whether the tables are made when missing. If not, the operator makes them, and starting without them fails.
    pub create_tables: bool,
    /// Whether sign-in and registration answer with a JWT. Off for a backend of browsers alone, whose scripts must not
    /// hold a credential.
    pub tokens_in_responses: bool,
    /// Forces the production cookie even in dev mode.
    pub always_secure_cookies: bool,
    /// How long events stay in the audit log: 400 days. `None`: for ever. [`Auth::sweep`](crate::Auth::sweep) removes
    /// older ones.
    pub audit_retention: Option<Duration>,
    /// Whether an account is mailed a notice when somebody signs in to it from a device that it has not used before. Only
    /// where there is a database, a public address and a mailer.
    pub new_device_notice: bool,
    /// The header that names a request's tenant, where a host has one. The stream of a ticket has the tenant of the request
    /// that made the ticket.
    pub tenant_header: Option<HeaderName>,
    /// The brute-force limits.
    pub limits: Limits,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            dev_mode: false,
            base_path: "/auth".to_owned(),
            public_url: None,
            tools_path: None,
            redirect_urls: Vec::new(),
            jwt: JwtConfig::default(),
            session_ttl: Duration::from_hours(7 * 24),
            default_roles: ["user"].into_iter().collect(),
            registration: Registration::Open,
            require_verified_email: false,
            password: PasswordAlgorithm::default(),
            allow_in_memory_stores: false,
            create_tables: true,
            tokens_in_responses: true,
            always_secure_cookies: false,
            audit_retention: Some(Duration::from_hours(400 * 24)),
            new_device_notice: true,
            tenant_header: None,
            limits: Limits::default(),
        }
    }
}

/// Who may have an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registration {
    /// Everybody.
    #[default]
    Open,
    /// Those whose address was invited.
    Invite,
    /// Nobody: accounts are made by trusted server code alone.
    Closed,
}

/// One limit for each thing that could be guessed at or flooded. Every one is on by default, with 10 attempts in 15
/// minutes and a block of 30; a large number of attempts loosens it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Sign-ins per address (`login_ip`).
    pub login: Limit,
    /// Sign-ins per account (`login_account`), right or wrong, wherever they come from. Never relaxed in dev mode.
    pub login_account: Limit,
    /// Registrations per address (`register`).
    pub register: Limit,
    /// Magic links sent per address (`magic_link`).
    pub magic_link: Limit,
    /// Second-factor codes per address (`twofa`). Those that disable a factor are counted apart (`twofa_disable`).
    pub two_factor: Limit,
    /// Second-factor codes per account (`twofa_account`). Those that disable a factor are counted apart
    /// (`twofa_disable_account`). Never relaxed in dev mode.
    pub two_factor_account: Limit,
    /// Password resets asked for and redeemed, per address (`password_reset`).
    pub password_reset: Limit,
    /// Verification mails per address (`email_verification`).
    pub email_verification: Limit,
    /// Callbacks of providers per address (`oauth`), each of which makes this service call the provider.
    pub oauth: Limit,
}

/// One limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limit {
    /// The numbers.
    pub policy: Policy,
    /// Whether `X-Forwarded-For` says which address a request counts against.
    pub trust_forwarded_for: bool,
}

impl AuthConfig {
    /// Checks what the types cannot.
    pub(crate) fn check(&self) -> Result<(), AuthInitError> {
        let wrong = |setting, problem: &str| Err(AuthInitError::Setting { setting, problem: problem.to_owned() });
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
        let path = self.base_path.as_str();
        if !path.starts_with('/') || path.ends_with('/') || path.contains("//") || !path.chars().all(plain) {
            return wrong("base_path", "it starts with a slash, ends without one, and has plain segments: /auth");
        }
        if self.session_ttl.as_secs() == 0 {
            return wrong("session_ttl_seconds", "a session lives for at least one second");
        }
        if let Err(problem) = self.password.check() {
            return wrong("password_hash", &problem);
        }
        if let Err(problem) = RedirectUrls::parse(&self.redirect_urls) {
            return wrong("redirect_urls", &problem.to_string());
        }
        match &self.public_url {
            Some(url) if gatewright_http::Origin::of(url).is_none() => {
                wrong("public_url", "it is an http:// or https:// address")
            }
            _ => Ok(()),
        }
    }

    /// Whether cookies are `__Host-` ones that travel over HTTPS alone.
    pub(crate) fn secure_cookies(&self) -> bool {
        !self.dev_mode || self.always_secure_cookies
    }
}
