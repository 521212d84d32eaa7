use gatewright_auth::Registration;
use gatewright_auth::jwt::JwtAlgorithm;
use gatewright_auth::password::{PasswordAlgorithm, PasswordPolicy};
use gatewright_entities::{DeclarationError, Profile};
use gatewright_http::RedirectUrls;
use url::{Host, Url};

use super::{Faults, is_loopback};
use crate::config::{Config, Plugin};

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let auth = &config.auth;
    if !auth.enabled {
        return;
    }
    secrets(config, faults);
    faults.require(
        path_is_sound(&auth.base_path),
        "auth.base_path",
        "must be a path such as \"/auth\": starting with a slash, not ending with one, of letters, digits, `-` and `_`",
    );
    for (key, time) in [
        ("auth.jwt_expiry_seconds", auth.jwt_expiry),
        ("auth.session_ttl_seconds", auth.session_ttl),
        ("auth.magic_link.ttl_seconds", auth.magic_link_ttl),
        ("auth.email_verification.ttl_seconds", auth.email_verification_ttl),
        ("auth.password_reset.ttl_seconds", auth.password_reset_ttl),
    ] {
        faults.require(!time.is_zero(), key, "must be at least 1");
        faults.require(time <= LONGEST, key, "must be at most ten years (315360000)");
    }
    let (fewest, most) = (PasswordPolicy::FEWEST, PasswordPolicy::LONGEST_MINIMUM);
    faults.require(
        (fewest..=most).contains(&auth.password_policy.min_length),
        "auth.password_policy.min_length",
        format!("must be {fewest} to {most}, is {}", auth.password_policy.min_length),
    );
    if let PasswordAlgorithm::Bcrypt { cost } = auth.password {
        faults.require((4..=31).contains(&cost), "auth.bcrypt_cost", format!("must be 4 to 31, is {cost}"));
    }
    faults.require(
        auth.default_roles.iter().all(|role| !role.trim().is_empty()),
        "auth.default_roles",
        "a role needs a name",
    );
    plugins(config, faults);
    passkeys(config, faults);
    profile(config, faults);
    let urls = auth.redirect_urls.iter().enumerate().map(|(index, url)| (format!("auth.redirect_urls[{index}]"), url));
    let app = config.server.app_url.iter().map(|url| ("server.app_url".to_owned(), url));
    for (key, url) in urls.chain(app) {
        if let Err(problem) = RedirectUrls::parse(std::slice::from_ref(url)) {
            faults.add(&*key, problem.to_string());
        }
        let plain = url.scheme() == "http" && !is_loopback(url) && !config.server.dev_mode;
        faults.require(!plain, key, "must be https outside dev mode, except on this computer");
    }
    let has = |plugin| config.plugins().contains(&plugin);
    faults.require(
        auth.registration != Registration::Invite || has(Plugin::Invitations),
        "auth.registration",
        "is \"invite\", and `invitations` is not among `auth.plugins`",
    );
    faults.require(
        !auth.require_verified_email || has(Plugin::EmailVerification),
        "auth.require_verified_email",
        "is on, and `email_verification` is not among `auth.plugins`",
    );
    faults.require(
        !auth.require_verified_email || may_mail(config),
        "auth.require_verified_email",
        "needs [email]: nobody could verify an address",
    );
    let issuer = auth.two_factor_issuer.trim();
    faults.require(
        (1..=64).contains(&issuer.chars().count()) && !issuer.contains(|c: char| c == ':' || c.is_control()),
        "auth.two_factor.issuer",
        "must have 1 to 64 characters and no colon, which ends the name in authenticator apps",
    );
    if let Some(path) = &auth.magic_link_template
        && let Err(error) = std::fs::read_to_string(path)
    {
        faults.add("auth.magic_link.template", format!("{} cannot be read: {error}", path.display()));
    }
    faults.require(
        config.server.dev_mode || auth.allow_in_memory_stores || !config.database.in_memory(),
        "database.url",
        "sessions and second factors would be stored only in memory and end with the process: name a file, or set \
         `auth.allow_in_memory_stores = true` to accept that",
    );
}

pub(super) fn warn(config: &Config, warnings: &mut Faults) {
    if config.auth.enabled {
        warn_of_no_sign_in(config, warnings);
    }
}

/// Without a mail sender, nobody can reset a forgotten password. A program may set its own sender, so only a
/// configuration file gets this warning. Authentication itself logs a warning if it has no sender.
pub(super) fn warn_of_mail(config: &Config, warnings: &mut Faults) {
    let has = |plugin| config.plugins().contains(&plugin);
    let resets = config.auth.enabled && has(Plugin::Core) && has(Plugin::PasswordReset);
    if resets && !may_mail(config) {
        warnings.add(
            "email",
            "is missing, and this server sends no mail: nobody can reset a forgotten password. Add `[email]`, or leave \
             \"password_reset\" out of `auth.plugins`",
        );
    }
}

/// Whether mails can be sent, according to the configuration. In a build without the feature `mail`, the program sends
/// them.
fn may_mail(config: &Config) -> bool {
    config.email.is_some() || config.server.dev_mode || cfg!(not(feature = "mail"))
}

fn plugins(config: &Config, faults: &mut Faults) {
    let plugins = config.plugins();
    for (index, plugin) in plugins.iter().enumerate() {
        faults.require(
            !plugins[..index].contains(plugin),
            format!("auth.plugins[{index}]"),
            format!("\"{}\" is named twice; name it once", plugin.as_str()),
        );
    }
}

/// What the start refuses too, where passkeys can be used: at a host with a name.
fn passkeys(config: &Config, faults: &mut Faults) {
    let url = config.public_url();
    let Some(Host::Domain(host)) = url.host().filter(|_| config.plugins().contains(&Plugin::Passkeys)) else { return };
    let is_within = |host: &str, domain: &str| {
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) && !domain.is_empty()
    };
    let passkeys = &config.auth.passkeys;
    let rp_id = passkeys.rp_id.as_deref().unwrap_or(host);
    faults.require(
        is_within(host, rp_id),
        "auth.passkeys.rp_id",
        format!("must be {host}, the host of `server.public_url`, or a parent domain of it"),
    );
    for (index, text) in passkeys.origins.iter().enumerate() {
        let origin = Url::parse(text).ok().filter(|url| url.origin().ascii_serialization() == *text);
        let fits = origin.is_some_and(|url| {
            let safe = url.scheme() == "https" || url.host_str() == Some("localhost");
            safe && url.host_str().is_some_and(|host| is_within(host, rp_id))
        });
        let message = format!("must be an https:// origin of {rp_id} or of a domain below it");
        faults.require(fits, format!("auth.passkeys.origins[{index}]"), message);
    }
}

fn profile(config: &Config, faults: &mut Faults) {
    let declared = Profile::declare(&config.auth.profile, config.server.json_case);
    for DeclarationError { location, message, .. } in declared.err().into_iter().flat_map(|errors| errors.0) {
        let field = location.field.map(|field| format!("[{field}]")).unwrap_or_default();
        let attribute = location.attribute.map(|attribute| format!(".{attribute}")).unwrap_or_default();
        faults.add(format!("auth.profile.field{field}{attribute}"), message);
    }
}

/// Warns if no enabled plugin signs people in: with a password, a passkey, a mailed link or a provider.
fn warn_of_no_sign_in(config: &Config, warnings: &mut Faults) {
    let ways = |plugin: &Plugin| match plugin {
        Plugin::Core | Plugin::Passkeys => true,
        Plugin::MagicLink | Plugin::EmailCode => may_mail(config),
        Plugin::OAuth => config.auth.oauth.has_providers(),
        Plugin::TwoFactor
        | Plugin::Accounts
        | Plugin::EmailVerification
        | Plugin::PasswordReset
        | Plugin::Tokens
        | Plugin::Invitations
        | Plugin::EmailChange
        | Plugin::AccountDeletion
        | Plugin::AccountExport => false,
    };
    if config.plugins().iter().any(ways) {
        return;
    }
    let tokens = if config.plugins().contains(&Plugin::Tokens) { "Only API tokens work. " } else { "" };
    warnings.add(
        "auth.plugins",
        format!(
            "leaves no way to sign in. {tokens}Add \"core\" (passwords), \"magic_link\" or \"email_code\" (need `[email]`) or \"oauth\" \
             (needs a provider), or set `auth.enabled = false`"
        ),
    );
}

fn secrets(config: &Config, faults: &mut Faults) {
    let auth = &config.auth;
    if auth.jwt_secret.is_empty() && !auth.jwt_previous_secrets.is_empty() {
        faults.add(
            "auth.jwt_previous_secrets",
            "previous secrets without `auth.jwt_secret`: new tokens could not be signed",
        );
    } else if auth.jwt_secret.is_empty() && !config.server.dev_mode {
        faults.add(
            "auth.jwt_secret",
            "is required outside dev mode: put the output of `gatewright secret` there or into \
             GATEWRIGHT__AUTH__JWT_SECRET",
        );
    }
    faults.require_length(config, "auth.jwt_secret", &auth.jwt_secret);
    for (index, secret) in auth.jwt_previous_secrets.iter().enumerate() {
        let key = format!("auth.jwt_previous_secrets[{index}]");
        faults.require(!secret.is_empty(), &*key, "must not be empty: anybody could sign with it");
        faults.require_length(config, &key, secret);
    }
    keys(config, faults);
}

/// The key pairs of JSON web tokens.
fn keys(config: &Config, faults: &mut Faults) {
    let keys = &config.auth.keys;
    faults.require(keys.rotate_days <= 3650, "auth.keys.rotate_days", "must be at most 3650");
    faults.require_length(config, "auth.keys.secret", &keys.secret);
    for (index, secret) in keys.previous_secrets.iter().enumerate() {
        let key = format!("auth.keys.previous_secrets[{index}]");
        faults.require(!secret.is_empty(), &*key, "must not be empty");
        faults.require_length(config, &key, secret);
    }
    faults.require(
        keys.files.is_empty() || config.auth.jwt_algorithm != JwtAlgorithm::Hs256,
        "auth.keys.files",
        "needs `auth.jwt_algorithm`: with HS256, `auth.jwt_secret` signs",
    );
    for (index, path) in keys.files.iter().enumerate() {
        if let Err(error) = std::fs::read_to_string(path) {
            faults.add(format!("auth.keys.files[{index}]"), format!("{} cannot be read: {error}", path.display()));
        }
    }
}

const LONGEST: std::time::Duration = std::time::Duration::from_hours(87600);

/// Whether `path` is one or more plain segments, each after a slash.
pub(super) fn path_is_sound(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|rest| {
        rest.split('/').all(|segment| {
            !segment.is_empty()
                && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        })
    })
}
