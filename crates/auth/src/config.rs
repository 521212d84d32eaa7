use std::time::Duration;

use gatewright_base::Roles;
use gatewright_http::RedirectUrls;
use gatewright_limits::Policy;
use http::HeaderName;
use url::Url;

use crate::init_error::AuthInitError;
use crate::jwt::JwtConfig;
use crate::password::{PasswordAlgorithm, PasswordPolicy};
use crate::screens::account::AccountPage;

/// The configuration of authentication. The default is for production and needs only a JWT secret.
///
/// Plugins and stores are added to the builder: [`Auth::builder`](crate::Auth::builder).
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch")]
pub struct AuthConfig {
    /// Only for development: a cookie named `session_id` that works over plain HTTP, a random JWT secret if none is
    /// set, in-memory stores allowed, and no per-address limit on sign-ins and registrations. The per-account limit stays.
    pub dev_mode: bool,
    /// The path under which the routes are mounted: `/auth`.
    pub base_path: String,
    /// The URL at which browsers reach the service. Links in mails are built only from it. Its origin counts as the
    /// service's own, as does that of the request's `Host`.
    pub public_url: Option<Url>,
    /// The path of the tool surface (MCP), such as `/mcp`. The authorization server issues separate tokens for it.
    pub tools_path: Option<String>,
    /// The URLs outside the service that `next` may name: those of a front end on another origin. Each allows its exact
    /// origin, and its path as a prefix at a segment boundary.
    pub redirect_urls: Vec<Url>,
    /// The front end, to which flows without `next` lead. It is allowed like [`redirect_urls`](Self::redirect_urls).
    pub app_url: Option<Url>,
    /// Secrets and lifetime of JWTs.
    pub jwt: JwtConfig,
    /// The lifetime of a session: seven days by default.
    pub session_ttl: Duration,
    /// The roles of every new account: `user`. Never taken from a request.
    pub default_roles: Roles,
    /// Who may register.
    pub registration: Registration,
    /// Whether an account whose mailbox was never proven is refused at sign-in.
    pub require_verified_email: bool,
    /// How new passwords are hashed.
    pub password: PasswordAlgorithm,
    /// What new passwords must meet.
    pub password_policy: PasswordPolicy,
    /// Whether imported accounts may sign in with hashes of one SHA-256 or SHA-512 (`$sha256$salt$…`), once: the hash is
    /// then replaced. A copy of such hashes is as good as a list of passwords.
    pub allow_weak_hashes: bool,
    /// Allows in-memory stores outside dev mode: for a single server that may lose their data at a restart.
    pub allow_in_memory_stores: bool,
    /// Whether missing tables are created. If not, the operator creates them, and a start without them fails.
    pub create_tables: bool,
    /// Whether sign-in and registration answer with a JWT. Turn it off for a backend only for browsers, whose scripts
    /// must not hold a credential.
    pub tokens_in_responses: bool,
    /// Forces the production cookie even in dev mode.
    pub always_secure_cookies: bool,
    /// How long events stay in the audit log: 400 days by default. `None`: without limit.
    /// [`Auth::sweep`](crate::Auth::sweep) removes older ones.
    pub audit_retention: Option<Duration>,
    /// Whether an account gets a mail when it is used to sign in from an unknown device. Needs a database, a public
    /// URL and a mailer.
    pub new_device_notice: bool,
    /// The header that names a request's tenant, if the host has one. A stream that is opened with a ticket has the
    /// tenant of the request that created the ticket.
    pub tenant_header: Option<HeaderName>,
    /// Whether people may use the service before they register: `None` by default, they may not.
    pub guests: Option<Guests>,
    /// Whether operators may act as users, and which: `None` by default, nobody may.
    pub impersonation: Option<Impersonation>,
    /// The pages of `/account` that exist, if their plugins do: all by default.
    pub account_pages: Vec<AccountPage>,
    /// The brute-force limits.
    pub limits: Limits,
}

/// Accounts without an address, for people who have not registered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guests {
    /// Guests that were not used for this long are deleted with their records.
    pub idle: Duration,
}

/// Lets operators act as users for at most an hour, in sessions that cannot change credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    /// The role of operators. They act as users without it.
    pub role: String,
    /// Whether an operator must have proven a second factor in their own session.
    pub require_two_factor: bool,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            dev_mode: false,
            base_path: "/auth".to_owned(),
            public_url: None,
            tools_path: None,
            redirect_urls: Vec::new(),
            app_url: None,
            jwt: JwtConfig::default(),
            session_ttl: Duration::from_hours(7 * 24),
            default_roles: ["user"].into_iter().collect(),
            registration: Registration::Open,
            require_verified_email: false,
            password: PasswordAlgorithm::default(),
            password_policy: PasswordPolicy::default(),
            allow_weak_hashes: false,
            allow_in_memory_stores: false,
            create_tables: true,
            tokens_in_responses: true,
            always_secure_cookies: false,
            audit_retention: Some(Duration::from_hours(400 * 24)),
            new_device_notice: true,
            tenant_header: None,
            guests: None,
            impersonation: None,
            account_pages: AccountPage::ALL.to_vec(),
            limits: Limits::default(),
        }
    }
}

/// Who may register.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registration {
    /// All callers.
    #[default]
    Open,
    /// Those whose address was invited.
    Invite,
    /// No caller: only trusted server code creates accounts.
    Closed,
}

/// The limits against guessing and flooding. Each is enabled by default, with 10 attempts in 15 minutes and a block of
/// 30 minutes. To relax one, set a large number of attempts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sign-ins per address (`login_ip`).
    pub login: Limit,
    /// Sign-ins per account (`login_account`), right or wrong, wherever they come from. Never relaxed in dev mode.
    pub login_account: Limit,
    /// Registrations per address (`register`).
    pub register: Limit,
    /// Magic links sent per address (`magic_link`).
    pub magic_link: Limit,
    /// New guests per address (`anonymous`).
    pub anonymous: Limit,
    /// Codes by mail per address, requested (`email_code`) and wrongly typed (`email_code_verify`).
    pub email_code: Limit,
    /// Wrong user codes of devices per address (`device`), and devices that begin (`device_authorization`). 30 in 15
    /// minutes.
    pub device: Limit,
    /// Second-factor codes per address (`twofa`). Codes that disable a factor are counted separately (`twofa_disable`).
    pub two_factor: Limit,
    /// Second-factor codes per account (`twofa_account`). Codes that disable a factor are counted separately
    /// (`twofa_disable_account`). Never relaxed in dev mode.
    pub two_factor_account: Limit,
    /// Password resets, requested and redeemed, per address (`password_reset`).
    pub password_reset: Limit,
    /// Verification mails per address (`email_verification`).
    pub email_verification: Limit,
    /// Callbacks of providers per address (`oauth`), each of which makes this service call the provider.
    pub oauth: Limit,
}

impl Limits {
    /// The attempts of [`device`](Self::device) by default: a code is typed wrong more easily than a password.
    pub const DEVICE_ATTEMPTS: u32 = 30;
}

impl Default for Limits {
    fn default() -> Self {
        let usual = Limit::default();
        let of_devices = Policy::new(Self::DEVICE_ATTEMPTS, Duration::ZERO, Duration::ZERO);
        Self {
            login: usual,
            login_account: usual,
            register: usual,
            magic_link: usual,
            anonymous: usual,
            email_code: usual,
            device: Limit { policy: of_devices, ..usual },
            two_factor: usual,
            two_factor_account: usual,
            password_reset: usual,
            email_verification: usual,
            oauth: usual,
        }
    }
}

/// One limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limit {
    /// The numbers.
    pub policy: Policy,
    /// Whether the client address is read from `X-Forwarded-For`.
    pub trust_forwarded_for: bool,
}

impl AuthConfig {
    /// Checks constraints that the types cannot express.
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
        if let Some(Err(problem)) = self.app_url.as_ref().map(|url| RedirectUrls::default().home(url)) {
            return wrong("app_url", &problem.to_string());
        }
        match &self.public_url {
            Some(url) if gatewright_http::Origin::of(url).is_none() => {
                wrong("public_url", "it is an http:// or https:// address")
            }
            _ => Ok(()),
        }
    }

    /// Whether cookies are `__Host-` ones that are sent only over HTTPS.
    pub(crate) fn secure_cookies(&self) -> bool {
        !self.dev_mode || self.always_secure_cookies
    }
}
