use std::path::PathBuf;
use std::time::Duration;

use gatewright_auth::jwt::JwtAlgorithm;
use gatewright_auth::password::{PasswordAlgorithm, PasswordPolicy};
use gatewright_auth::{AccountPage, Limits, Registration};
use gatewright_base::{Roles, Secret};
use gatewright_entities::ProfileField;
use gatewright_entities::operations::OwnedRecords;
use url::Url;

use super::read::{FromNode, Keyword, Node, Report, Section};
use super::{Directory, Keys, OAuth, entity, limits};

/// `[auth]`: accounts, sessions and the ways to sign in.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch")]
pub struct Auth {
    /// Whether accounts are enabled.
    pub enabled: bool,
    /// The path of the endpoints.
    pub base_path: String,
    /// Signs JSON web tokens. The other keys are derived from it, each with a label. Empty in dev mode: a random one
    /// for each run of the process.
    pub jwt_secret: Secret,
    /// Earlier secrets, whose tokens are still accepted.
    pub jwt_previous_secrets: Vec<Secret>,
    /// How long a JSON web token lasts.
    pub jwt_expiry: Duration,
    /// How JSON web tokens are signed.
    pub jwt_algorithm: JwtAlgorithm,
    /// The key pairs of JSON web tokens.
    pub keys: Keys,
    /// How long a session lasts.
    pub session_ttl: Duration,
    /// The roles of a new account.
    pub default_roles: Roles,
    /// The URLs outside the server that `next` may name.
    pub redirect_urls: Vec<Url>,
    /// Who may register.
    pub registration: Registration,
    /// Whether sign-in refuses an account whose email address is not verified.
    pub require_verified_email: bool,
    /// Whether people may use the service before they register.
    pub guests: bool,
    /// After how many idle days a guest is deleted.
    pub guest_days: u32,
    /// Whether operators may act as users.
    pub impersonation: bool,
    /// Whether accounts get a mail about a sign-in from an unknown device.
    pub new_device_notice: bool,
    /// What happens to the records that a deleted account owns.
    pub on_account_delete: OwnedRecords,
    /// The fields of profiles.
    pub profile: Vec<ProfileField>,
    /// The accounts as a read-only entity; absent: there is none.
    pub directory: Option<Directory>,
    /// How new passwords are hashed: `password_hash` and `bcrypt_cost`.
    pub password: PasswordAlgorithm,
    /// What new passwords must meet.
    pub password_policy: PasswordPolicy,
    /// Whether imported hashes of one SHA-256 or SHA-512 are accepted, until the account's next sign-in.
    pub allow_weak_hashes: bool,
    /// Allows in-memory stores: their sessions end with the process and are not shared.
    pub allow_in_memory_stores: bool,
    /// The pages of `/account`. Absent: all.
    pub account_pages: Option<Vec<AccountPage>>,
    /// The enabled plugins. Absent: all.
    pub plugins: Option<Vec<Plugin>>,
    /// The largest request body of the endpoints in bytes.
    pub max_body_bytes: usize,
    /// The lockout limiters of the endpoints.
    pub limits: Limits,
    /// How long a magic link lasts.
    pub magic_link_ttl: Duration,
    /// A template for the page that confirms a magic link, in place of the built-in one.
    pub magic_link_template: Option<PathBuf>,
    /// How long an email verification token lasts.
    pub email_verification_ttl: Duration,
    /// How long a password reset token lasts.
    pub password_reset_ttl: Duration,
    /// The issuer: the name that authenticator apps show with the code.
    pub two_factor_issuer: String,
    /// The relying party of passkeys.
    pub passkeys: Passkeys,
    /// Sign-in with other providers.
    pub oauth: OAuth,
}

/// `[auth.passkeys]`: the relying party of passkeys.
#[derive(Debug, Clone, Default)]
pub struct Passkeys {
    /// The relying party id: a parent domain of the host of `server.public_url`. Absent: that host.
    pub rp_id: Option<String>,
    /// Further origins that may use these passkeys.
    pub origins: Vec<String>,
}

/// The parts of authentication that can be enabled separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// Register, login, logout and the current user.
    Core,
    /// Sign-in with a link in a mail.
    MagicLink,
    /// Sign-in with six digits in a mail.
    EmailCode,
    /// Sign-in with OAuth 2.0 and OpenID Connect providers.
    OAuth,
    /// TOTP and backup codes.
    TwoFactor,
    /// Linked provider accounts.
    Accounts,
    /// Verification of the account's email address.
    EmailVerification,
    /// Password reset with a mailed link.
    PasswordReset,
    /// Scoped API tokens.
    Tokens,
    /// Accounts by invitation.
    Invitations,
    /// Changes of the email address.
    EmailChange,
    /// Passkeys.
    Passkeys,
    /// Deletion of accounts by their owners.
    AccountDeletion,
    /// Export of accounts by their owners.
    AccountExport,
}

impl Plugin {
    /// Every plugin: the default of `auth.plugins`.
    pub const ALL: &[Self] = &[
        Self::Core,
        Self::MagicLink,
        Self::EmailCode,
        Self::OAuth,
        Self::TwoFactor,
        Self::Accounts,
        Self::EmailVerification,
        Self::PasswordReset,
        Self::Tokens,
        Self::Invitations,
        Self::EmailChange,
        Self::Passkeys,
        Self::AccountDeletion,
        Self::AccountExport,
    ];

    /// The plugin's name in a configuration.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, plugin)| *plugin == self).map_or("", |(word, _)| word)
    }
}

impl Keyword for Plugin {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("core", Self::Core),
        ("magic_link", Self::MagicLink),
        ("email_code", Self::EmailCode),
        ("oauth", Self::OAuth),
        ("two_factor", Self::TwoFactor),
        ("accounts", Self::Accounts),
        ("email_verification", Self::EmailVerification),
        ("password_reset", Self::PasswordReset),
        ("tokens", Self::Tokens),
        ("invitations", Self::Invitations),
        ("email_change", Self::EmailChange),
        ("passkeys", Self::Passkeys),
        ("account_deletion", Self::AccountDeletion),
        ("account_export", Self::AccountExport),
    ];
}

impl Keyword for AccountPage {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("profile", Self::Profile),
        ("sign-in", Self::SignIn),
        ("second-factor", Self::SecondFactor),
        ("devices", Self::Devices),
        ("organisations", Self::Organisations),
        ("programs", Self::Programs),
        ("tokens", Self::Tokens),
        ("data", Self::Data),
    ];
}

impl Keyword for OwnedRecords {
    const WORDS: &'static [(&'static str, Self)] = &[("keep", Self::Keep), ("delete", Self::Delete)];
}

impl Keyword for Registration {
    const WORDS: &'static [(&'static str, Self)] =
        &[("open", Self::Open), ("invite", Self::Invite), ("closed", Self::Closed)];
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            enabled: true,
            base_path: "/auth".to_owned(),
            jwt_secret: Secret::new(""),
            jwt_previous_secrets: Vec::new(),
            jwt_expiry: Duration::from_hours(1),
            jwt_algorithm: JwtAlgorithm::default(),
            keys: Keys::default(),
            session_ttl: Duration::from_hours(168),
            default_roles: ["user"].into_iter().collect(),
            redirect_urls: Vec::new(),
            registration: Registration::Open,
            require_verified_email: false,
            guests: false,
            guest_days: 30,
            impersonation: false,
            new_device_notice: true,
            on_account_delete: OwnedRecords::default(),
            profile: Vec::new(),
            directory: None,
            password: PasswordAlgorithm::default(),
            password_policy: PasswordPolicy::default(),
            allow_weak_hashes: false,
            allow_in_memory_stores: false,
            account_pages: None,
            plugins: None,
            max_body_bytes: 16 * 1024,
            limits: Limits::default(),
            magic_link_ttl: Duration::from_mins(15),
            magic_link_template: None,
            email_verification_ttl: Duration::from_hours(24),
            password_reset_ttl: Duration::from_hours(1),
            two_factor_issuer: "Gatewright".to_owned(),
            passkeys: Passkeys::default(),
            oauth: OAuth::default(),
        }
    }
}

impl Auth {
    /// Reads the section. `behind_proxies`: whether the server has trusted proxies.
    pub(super) fn read(section: &mut Section<'_>, behind_proxies: bool) -> Self {
        let default = Self::default();
        let (magic_link_ttl, magic_link_template) =
            section.section("magic_link", |s| magic_link(s, default.magic_link_ttl));
        Self {
            enabled: section.value("enabled", default.enabled, "Whether accounts are enabled."),
            base_path: section.value("base_path", default.base_path, "Path of the endpoints."),
            jwt_secret: section.value(
                "jwt_secret",
                default.jwt_secret,
                "Key that signs JWTs; other keys are derived from it. Required outside dev mode, at least 32 bytes \
                 (`gatewright secret`).",
            ),
            jwt_previous_secrets: section.value(
                "jwt_previous_secrets",
                default.jwt_previous_secrets,
                "Earlier secrets whose JWTs are still accepted, for [rotation](deployment.md#rotating-secrets).",
            ),
            jwt_expiry: section.seconds(
                "jwt_expiry_seconds",
                default.jwt_expiry,
                "Lifetime of a JWT. This and the lifetimes below are at most ten years.",
            ),
            jwt_algorithm: jwt_algorithm(section),
            keys: section.section("keys", Keys::read),
            session_ttl: section.seconds(
                "session_ttl_seconds",
                default.session_ttl,
                "Lifetime of a session: seven days.",
            ),
            default_roles: section.value(
                "default_roles",
                default.default_roles,
                "Roles of a new account. Never taken from a request.",
            ),
            redirect_urls: section.value(
                "redirect_urls",
                default.redirect_urls,
                "URLs of a front end on another origin that `next` may name. See [returning to a front \
                 end](authentication.md#returning-to-a-front-end).",
            ),
            registration: section.value(
                "registration",
                default.registration,
                "Who may register: everybody, [invited](authentication.md#invitations) addresses, or nobody; \
                 then `gatewright user create` creates accounts.",
            ),
            require_verified_email: section.value(
                "require_verified_email",
                default.require_verified_email,
                "Refuses the sign-in of an account whose email address is not verified: 403 `email_unverified`.",
            ),
            guests: guests(section),
            guest_days: guest_days(section),
            impersonation: impersonation(section),
            new_device_notice: new_device_notice(section),
            on_account_delete: section.value(
                "on_account_delete",
                default.on_account_delete,
                "What happens to the records that a [deleted account](authentication.md#deleting-an-account) \
                 owns: they are kept without an owner, or deleted.",
            ),
            profile: section.section("profile", |s| s.sections("field", entity::profile_field)),
            directory: section.optional_section("directory", Directory::read),
            password: password(section),
            password_policy: section.section("password_policy", password_policy),
            allow_weak_hashes: allow_weak_hashes(section),
            allow_in_memory_stores: section.value(
                "allow_in_memory_stores",
                default.allow_in_memory_stores,
                "Allows an in-memory database on a single server: sessions end with the process.",
            ),
            account_pages: account_pages(section),
            plugins: section.derived("plugins", "all", "The enabled parts of authentication."),
            max_body_bytes: section.value(
                "max_body_bytes",
                default.max_body_bytes,
                "The largest request body below `base_path`. Above it: 413. At least 1024.",
            ),
            limits: section.section("limits", |s| limits::read(s, behind_proxies)),
            magic_link_ttl,
            magic_link_template,
            email_verification_ttl: section.section("email_verification", |s| {
                s.seconds("ttl_seconds", default.email_verification_ttl, "Lifetime of a link that verifies an address.")
            }),
            password_reset_ttl: section.section("password_reset", |s| {
                s.seconds("ttl_seconds", default.password_reset_ttl, "Lifetime of a link that resets a password.")
            }),
            two_factor_issuer: section.section("two_factor", |s| {
                s.value(
                    "issuer",
                    default.two_factor_issuer,
                    "Name that authenticator apps show: 1 to 64 characters, no colon.",
                )
            }),
            passkeys: section.section("passkeys", Passkeys::read),
            oauth: section.section("oauth", OAuth::read),
        }
    }
}

fn guest_days(section: &mut Section<'_>) -> u32 {
    let default = Auth::default().guest_days;
    section.value("guest_days", default, "Days after which an idle guest is deleted with its records: 1 to 365.")
}

fn account_pages(section: &mut Section<'_>) -> Option<Vec<AccountPage>> {
    let about =
        "The pages of [`/account`](authentication.md#the-account-pages). A page that is not listed does not exist.";
    section.derived("account_pages", "all", about)
}

fn new_device_notice(section: &mut Section<'_>) -> bool {
    section.value(
        "new_device_notice",
        Auth::default().new_device_notice,
        "Sends a mail to an account after a sign-in from an unknown device. See [known \
         devices](authentication.md#known-devices).",
    )
}

impl Passkeys {
    fn read(section: &mut Section<'_>) -> Self {
        Self {
            rp_id: section.derived(
                "rp_id",
                "the host of `server.public_url`",
                "Domain that browsers create passkeys for: that host or a parent domain of it.",
            ),
            origins: section.value(
                "origins",
                Vec::new(),
                "Origins of front ends on that domain or its subdomains that may use the passkeys.",
            ),
        }
    }
}

/// The lifetime of a magic link, and the template of its page.
fn magic_link(section: &mut Section<'_>, ttl: Duration) -> (Duration, Option<PathBuf>) {
    let template = section.derived::<String>(
        "template",
        "built in",
        "File of a [minijinja](https://docs.rs/minijinja) template for the page that confirms a magic link. Its \
         variables are `email`, `action`, `token` and `csrf` (absent if CSRF tokens are off). It must show the last \
         three in a form. Checked at start.",
    );
    (section.seconds("ttl_seconds", ttl, "Lifetime of a magic link."), template.map(PathBuf::from))
}

fn jwt_algorithm(section: &mut Section<'_>) -> JwtAlgorithm {
    section.value(
        "jwt_algorithm",
        JwtAlgorithm::default(),
        "How JWTs are signed. With any other than HS256, a service that verifies them cannot sign them: see \
         [keys](authentication.md#verify-a-jwt-in-another-service).",
    )
}

fn guests(section: &mut Section<'_>) -> bool {
    section.value("guests", false, "Lets people use the service [as guests](guests.md) before they register.")
}

fn impersonation(section: &mut Section<'_>) -> bool {
    section.value(
        "impersonation",
        false,
        "Lets administrators [act as a user](admin.md#act-as-a-user) for at most an hour. Needs the admin API and the audit \
         log.",
    )
}

fn allow_weak_hashes(section: &mut Section<'_>) -> bool {
    section.value(
        "allow_weak_hashes",
        false,
        "Accepts [imported hashes](old-passwords.md) of one SHA-256 or SHA-512, until the account's next sign-in.",
    )
}

/// The two values of `password_hash`.
#[derive(Clone, Copy, PartialEq)]
enum Hash {
    Bcrypt,
    Argon2id,
}

impl Keyword for Hash {
    const WORDS: &'static [(&'static str, Self)] = &[("bcrypt", Self::Bcrypt), ("argon2id", Self::Argon2id)];
}

fn password(section: &mut Section<'_>) -> PasswordAlgorithm {
    let cost = section.value("bcrypt_cost", 12_u32, "Base-2 logarithm of the rounds: 4 to 31.");
    match section.value(
        "password_hash",
        Hash::Bcrypt,
        "How new passwords are hashed. Hashes of the other algorithm stay valid and are replaced at the next \
         sign-in.",
    ) {
        Hash::Bcrypt => PasswordAlgorithm::Bcrypt { cost },
        Hash::Argon2id => PasswordAlgorithm::argon2id(),
    }
}

/// `[auth.password_policy]`: what new passwords must meet.
fn password_policy(section: &mut Section<'_>) -> PasswordPolicy {
    let default = PasswordPolicy::default();
    PasswordPolicy {
        min_length: section.value("min_length", default.min_length, "The fewest characters: 8 to 64."),
        common: section.value(
            "common",
            default.common,
            "Refuses the [most common passwords](authentication.md#passwords) and those that continue one pattern, in \
             any case.",
        ),
        personal: section.value(
            "personal",
            default.personal,
            "Refuses the account's address, its part before the `@` (with or without a `+tag`), its `display_name` and \
             the host of `server.public_url`, in any case.",
        ),
    }
}

impl FromNode for Roles {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        Vec::<String>::from_node(node, report).map(Self::from)
    }

    fn kind() -> String {
        Vec::<String>::kind()
    }
}
