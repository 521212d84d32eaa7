//! Every setting that can weaken a protection, with what the server does about it. It is long because it has every setting.

use std::collections::BTreeSet;

use gatewright::Config;
use gatewright::config::{Loader, Problem};

use super::SECRET;
use Outcome::{Refused, Warned};

/// What the start and `check` do with a value that weakens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// They refuse it.
    Refused,
    /// They warn.
    Warned,
}

/// A setting with a value that weakens a protection.
struct Row {
    setting: &'static str,
    /// Whether dev mode is on.
    dev: bool,
    text: &'static str,
    outcome: Outcome,
}

/// A row outside dev mode.
const fn row(setting: &'static str, text: &'static str, outcome: Outcome) -> Row {
    Row { setting, dev: false, text, outcome }
}

const fn dev(setting: &'static str, text: &'static str, outcome: Outcome) -> Row {
    Row { setting, dev: true, text, outcome }
}

/// A hook without its URL.
macro_rules! HOOK {
    () => {
        "[[entity]]\nname = \"posts\"\n[[hook]]\nentity = \"posts\"\non = [\"before_create\"]\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n"
    };
}

const ROWS: &[Row] = &[
    // Everybody signs in as anybody.
    dev("server.dev_mode", "[server]\nlisten = \"0.0.0.0:80\"", Refused),
    dev("server.dev_mode", "[server]\npublic_url = \"https://example.com\"", Refused),
    dev("server.allow_public_dev_mode", "[server]\nlisten = \"0.0.0.0:80\"\nallow_public_dev_mode = true", Warned),
    dev(
        "server.allow_public_dev_mode",
        "[server]\npublic_url = \"https://example.com\"\nallow_public_dev_mode = true",
        Warned,
    ),
    // Clients choose the address that limits count.
    row("server.trusted_proxies", "[server]\ntrusted_proxies = [\"0.0.0.0/0\"]", Refused),
    row("server.trusted_proxies", "[server]\ntrusted_proxies = [\"::/0\"]", Refused),
    row("server.trusted_proxies", "[server]\ntrusted_proxies = [\"0.0.0.0/1\", \"128.0.0.0/1\"]", Refused),
    row("server.trusted_proxies", "[server]\ntrusted_proxies = [\"::ffff:0:0/96\"]", Refused),
    row("server.trusted_proxies", "[server]\ntrusted_proxies = [\"64.0.0.0/4\"]", Warned),
    dev("server.trusted_proxies", "[server]\ntrusted_proxies = [\"0.0.0.0/0\"]", Warned),
    dev("server.trusted_proxies", "[server]\ntrusted_proxies = [\"2000::/3\"]", Warned),
    row(
        "auth.limits.login.trust_forwarded_for",
        "[server]\nlisten = \"0.0.0.0:80\"\n[auth.limits.login]\ntrust_forwarded_for = true",
        Warned,
    ),
    // Everybody lists the accounts of all.
    row(
        "auth.directory.read",
        "[[auth.profile.field]]\nname = \"nick\"\ntype = \"string\"\n[auth.directory]\nread = \"true\"\nfields = [\"nick\"]",
        Warned,
    ),
    row(
        "auth.directory.scope",
        "[auth.directory]\nread = \"@roles has 'x'\"\nfields = [\"email\"]\nscope = \"all\"\n[[entity]]\nname = \"notes\"\nmulti_tenant = true",
        Warned,
    ),
    row(
        "view.all_tenants",
        "[[entity]]\nname = \"notes\"\nmulti_tenant = true\n\
         [[view]]\nname = \"counts\"\nsql = \"SELECT 'all' AS id FROM notes\"\nall_tenants = true",
        Warned,
    ),
    row("view.sql", "[[view]]\nname = \"seen\"\nsql = \"SELECT id FROM sessions\"", Refused),
    // Guessing is not limited.
    row("auth.limits.login.max_attempts", "[auth.limits.login]\nmax_attempts = 100000", Warned),
    row("auth.limits.login.window_seconds", "[auth.limits.login]\nwindow_seconds = 1", Warned),
    row("auth.limits.login.block_seconds", "[auth.limits.login]\nblock_seconds = 1", Warned),
    row("server.max_connections_per_address", "[server]\nmax_connections_per_address = 0", Warned),
    row("events.allow_client_slow_mode", "[events]\nallow_client_slow_mode = true", Warned),
    // Secrets that can be guessed.
    row("auth.jwt_secret", "[auth]\njwt_secret = \"short\"", Refused),
    row("auth.jwt_secret", "[auth]\njwt_secret = \"\"", Refused),
    row("auth.jwt_previous_secrets", "[auth]\njwt_previous_secrets = [\"short\"]", Refused),
    row("auth.jwt_previous_secrets", "[auth]\njwt_previous_secrets = [\"\"]", Refused),
    row("csrf.secret", "[csrf]\nenabled = true\nsecret = \"short\"", Refused),
    row("csrf.secret", "[csrf]\nenabled = true", Refused),
    row(
        "csrf.previous_secrets",
        "[csrf]\nsecret = \"0123456789abcdef0123456789abcdef\"\nprevious_secrets = [\"short\"]",
        Refused,
    ),
    // Passwords that are guessed first, and stolen codes.
    row("auth.impersonation", "[auth]\nimpersonation = true\n[admin]\nenabled = true", Warned),
    row("auth.allow_weak_hashes", "[auth]\nallow_weak_hashes = true", Warned),
    row("auth.password_policy.common", "[auth.password_policy]\ncommon = false", Warned),
    row("auth.password_policy.personal", "[auth.password_policy]\npersonal = false", Warned),
    row(
        "auth.oauth.google.send_pkce",
        "[auth.oauth]\nstate_secret = \"0123456789abcdef0123456789abcdef\"\n\
         [auth.oauth.google]\nclient_id = \"a\"\nclient_secret = \"a\"\nsend_pkce = false",
        Warned,
    ),
    row(
        "auth.oauth.oidc.send_pkce",
        "[auth.oauth]\nstate_secret = \"0123456789abcdef0123456789abcdef\"\n\
         [[auth.oauth.oidc]]\nname = \"a\"\nissuer = \"https://example.com\"\nclient_id = \"a\"\n\
         client_secret = \"a\"\nsend_pkce = false",
        Warned,
    ),
    row(
        "auth.oauth.oidc.send_nonce",
        "[auth.oauth]\nstate_secret = \"0123456789abcdef0123456789abcdef\"\n\
         [[auth.oauth.oidc]]\nname = \"a\"\nissuer = \"https://example.com\"\nclient_id = \"a\"\n\
         client_secret = \"a\"\nsend_nonce = false",
        Warned,
    ),
    row("auth.oauth.state_secret", "[auth.oauth]\nstate_secret = \"short\"", Refused),
    row(
        "auth.oauth.state_previous_secrets",
        "[auth.oauth]\nstate_secret = \"0123456789abcdef0123456789abcdef\"\nstate_previous_secrets = [\"short\"]",
        Refused,
    ),
    row(
        "auth.oauth.state_previous_secrets",
        "[auth.oauth]\nstate_secret = \"0123456789abcdef0123456789abcdef\"\nstate_previous_secrets = [\"\"]",
        Refused,
    ),
    row("auth.oauth.token_encryption_key", "[auth.oauth]\ntoken_encryption_key = \"short\"", Refused),
    row(
        "auth.oauth.token_previous_encryption_keys",
        "[auth.oauth]\ntoken_encryption_key = \"0123456789abcdef0123456789abcdef\"\n\
         token_previous_encryption_keys = [\"short\"]",
        Refused,
    ),
    row(
        "outbox.consumer.secret",
        "[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"a\"\nevent = \"entity.created\"\nurl = \"https://a\"\n\
         secret = \"whsec_AAAA\"",
        Refused,
    ),
    row(
        "outbox.consumer.previous_secret",
        "[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"a\"\nevent = \"entity.created\"\nurl = \"https://a\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nprevious_secret = \"whsec_AAAA\"",
        Refused,
    ),
    row("auth.keys.secret", "[auth.keys]\nsecret = \"short\"", Refused),
    row("auth.keys.previous_secrets", "[auth.keys]\nprevious_secrets = [\"short\"]", Refused),
    row("auth.keys.rotate_days", "[auth.keys]\nrotate_days = 3651", Refused),
    row("auth.keys.rotate_days", "[auth]\njwt_algorithm = \"ES256\"\n[auth.keys]\nrotate_days = 0", Warned),
    row("auth.keys.files", "[auth]\njwt_algorithm = \"ES256\"\n[auth.keys]\nfiles = [\"/nowhere.pem\"]", Refused),
    row("auth.bcrypt_cost", "[auth]\nbcrypt_cost = 4", Warned),
    // Credentials that live long, or that nobody notices.
    row("auth.magic_link.ttl_seconds", "[auth.magic_link]\nttl_seconds = 1000000", Warned),
    row("auth.password_reset.ttl_seconds", "[auth.password_reset]\nttl_seconds = 1000000", Warned),
    row("auth.email_verification.ttl_seconds", "[auth.email_verification]\nttl_seconds = 1000000", Warned),
    row("auth.jwt_expiry_seconds", "[auth]\njwt_expiry_seconds = 400000000", Refused),
    row("auth.session_ttl_seconds", "[auth]\nsession_ttl_seconds = 400000000", Refused),
    row(
        "authorization_server.access_token_ttl_seconds",
        "[authorization_server]\nenabled = true\naccess_token_ttl_seconds = 1000000",
        Refused,
    ),
    row(
        "authorization_server.refresh_token_ttl_seconds",
        "[authorization_server]\nenabled = true\nrefresh_token_ttl_seconds = 100000000",
        Refused,
    ),
    row("auth.new_device_notice", "[auth]\nnew_device_notice = false", Warned),
    row("audit.enabled", "[audit]\nenabled = false", Warned),
    row(
        "auth.allow_in_memory_stores",
        "[database]\nurl = \"sqlite::memory:\"\n[auth]\nallow_in_memory_stores = true",
        Warned,
    ),
    // Administrators.
    row("admin.require_two_factor", "[admin]\nenabled = true\nrequire_two_factor = false", Warned),
    row("admin.fresh_sign_in_seconds", "[admin]\nenabled = true\nfresh_sign_in_seconds = 1000000", Warned),
    row("auth.default_roles", "[admin]\nenabled = true\n[auth]\ndefault_roles = [\"admin\"]", Warned),
    // Other origins, and text that others can read. What is named is allowed, and nothing broader can be named.
    row("server.app_url", "[server]\napp_url = \"http://app.example.com\"", Refused),
    row("auth.redirect_urls", "[auth]\nredirect_urls = [\"http://app.example.com\"]", Refused),
    row("browser_backend.allowed_origins", "[browser_backend]\nallowed_origins = [\"*\"]", Refused),
    row(
        "auth.passkeys.origins",
        "[server]\npublic_url = \"https://example.com\"\n\
         [auth.passkeys]\norigins = [\"https://*.example.com\", \"http://a.example.com\"]",
        Refused,
    ),
    row(
        "auth.passkeys.rp_id",
        "[server]\npublic_url = \"https://app.example.com\"\n[auth.passkeys]\nrp_id = \"example.org\"",
        Refused,
    ),
    row(
        "auth.oauth.oidc.issuer",
        "[[auth.oauth.oidc]]\nname = \"a\"\nissuer = \"http://example.com\"\nclient_id = \"a\"\nclient_secret = \"a\"",
        Refused,
    ),
    row(
        "auth.oauth.google.authorize_url",
        "[auth.oauth.google]\nclient_id = \"a\"\nclient_secret = \"a\"\nauthorize_url = \"http://example.com\"",
        Refused,
    ),
    row(
        "auth.oauth.google.token_url",
        "[auth.oauth.google]\nclient_id = \"a\"\nclient_secret = \"a\"\ntoken_url = \"http://example.com\"",
        Refused,
    ),
    row(
        "auth.oauth.google.userinfo_url",
        "[auth.oauth.google]\nclient_id = \"a\"\nclient_secret = \"a\"\nuserinfo_url = \"http://example.com\"",
        Refused,
    ),
    row(
        "auth.oauth.github.emails_url",
        "[auth.oauth.github]\nclient_id = \"a\"\nclient_secret = \"a\"\nemails_url = \"http://example.com\"",
        Refused,
    ),
    row("server.public_url", "[server]\npublic_url = \"http://example.com\"", Warned),
    row("email.smtp_url", "[email]\nsmtp_url = \"smtp://mail.example.com\"\nfrom = \"a@example.com\"", Warned),
    row(
        "email.smtp_url",
        "[email]\nsmtp_url = \"smtp://a:b@mail.example.com?tls=none\"\nfrom = \"a@example.com\"",
        Warned,
    ),
    row("database.url", "[database]\nurl = \"postgres://a:b@db.example/x?sslmode=disable\"", Warned),
    row("database.url", "[database]\nurl = \"postgres://a:b@db.example/x?sslmode=prefer\"", Warned),
    row("database.url", "[database]\nurl = \"postgres://a:b@db.example/x?sslmode=allow\"", Refused),
    row("database.url", "[database]\nurl = \"postgres://a:b@db.example/x?sslmode=disable&sslrootcert=a.pem\"", Refused),
    row(
        "database.direct_url",
        "[database]\nurl = \"postgres://a:b@db.example/x\"\ndirect_url = \"postgres://a:b@db.example/x?sslmode=disable\"",
        Warned,
    ),
    row("outbox.allow_private_networks", "[outbox]\nenabled = true\nallow_private_networks = true", Warned),
    row(
        "outbox.consumer.url",
        "[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"a\"\nevent = \"entity.created\"\n\
         url = \"http://example.com\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"",
        Warned,
    ),
    row(
        "job.allow_private",
        "[[job]]\nname = \"a\"\nschedule = \"0 3 * * *\"\nurl = \"https://a\"\nallow_private = true\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"",
        Warned,
    ),
    row(
        "job.url",
        "[[job]]\nname = \"a\"\nschedule = \"0 3 * * *\"\nurl = \"http://example.com\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"",
        Warned,
    ),
    row(
        "job.secret",
        "[[job]]\nname = \"a\"\nschedule = \"0 3 * * *\"\nurl = \"https://a\"\nsecret = \"whsec_AAAA\"",
        Refused,
    ),
    row("hook.allow_private", concat!(HOOK!(), "url = \"https://a\"\nallow_private = true"), Warned),
    row("hook.on_error", concat!(HOOK!(), "url = \"https://a\"\non_error = \"ignore\""), Warned),
    row("hook.url", concat!(HOOK!(), "url = \"http://example.com\""), Warned),
    row("hook.url", concat!(HOOK!(), "url = \"http://10.0.0.1\""), Refused),
    row(
        "hook.secret",
        "[[entity]]\nname = \"posts\"\n[[hook]]\nentity = \"posts\"\non = [\"before_create\"]\nurl = \"https://a\"\n\
         secret = \"whsec_AAAA\"",
        Refused,
    ),
];

/// The other settings: they declare what the application is, or how large. By section.
const HARMLESS: &[(&str, &str)] = &[
    (
        "server",
        "listen pid_file api_prefix json_case request_timeout_seconds export_timeout_seconds max_body_bytes max_connections memory_budget_bytes idempotency_max_bytes \
         slow_reader_seconds drain_seconds",
    ),
    // No level logs a secret.
    ("log", "level format access"),
    ("server.tls", "certificate key redirect_http"),
    (
        "database",
        "create_tables max_connections list_timeout_seconds list_search_bytes lists_per_caller \
         lists_per_address",
    ),
    (
        "auth",
        "guests guest_days enabled base_path registration require_verified_email on_account_delete password_hash jwt_algorithm plugins account_pages \
         max_body_bytes",
    ),
    ("auth.two_factor", "issuer"),
    (
        "auth.profile.field",
        "name type required unique index hidden read_only default min max pattern to many renamed_from description values \
         of max_items unique_items on_delete public read write sequence",
    ),
    // 8 at least.
    ("auth.password_policy", "min_length"),
    ("auth.magic_link", "template"),
    ("auth.oauth.google", "client_id client_secret redirect_url"),
    ("auth.oauth.github", "client_id client_secret redirect_url"),
    ("auth.oauth.apple", "client_id team_id key_id private_key redirect_url scopes"),
    ("auth.oauth.discord", "client_id client_secret redirect_url scopes"),
    ("auth.oauth.facebook", "client_id client_secret redirect_url scopes"),
    ("auth.oauth.gitlab", "client_id client_secret redirect_url scopes"),
    ("auth.oauth.linkedin", "client_id client_secret redirect_url scopes"),
    // Another tenant's account is another user.
    ("auth.oauth.microsoft", "client_id client_secret tenant redirect_url scopes"),
    ("auth.oauth.slack", "client_id client_secret redirect_url scopes"),
    ("auth.oauth.spotify", "client_id client_secret redirect_url scopes"),
    ("auth.oauth.twitch", "client_id client_secret redirect_url scopes"),
    ("auth.oauth.x", "client_id client_secret redirect_url scopes"),
    ("auth.oauth.oauth2", "name label client_id client_secret redirect_url scopes token_auth issuer"),
    ("auth.oauth.oauth2.claims", "subject email name picture email_verified"),
    ("auth.oauth.oidc", "name label client_id client_secret redirect_url scopes jwks_cache_seconds"),
    ("auth.oauth.oidc.claims", "subject email name picture email_verified"),
    ("email", "from templates"),
    ("branding", "name logo logo_dark color radius support_url terms_url privacy_url languages languages_folder"),
    ("functions", "folder memory_bytes write_timeout_ms timeout_ms job_timeout_ms allow_hosts secrets"),
    ("job", "name schedule timezone emit"),
    ("hook", "entity on timeout_ms"),
    ("roles", "NAME"),
    ("csrf", "enabled"),
    ("rate_limit", "store redis_url"),
    ("rate_limit.api", "key per_second burst"),
    (
        "events",
        "enabled fanout fanout_url heartbeat_seconds max_subscribers max_subscribers_per_caller \
         max_subscribers_per_address replay_bytes replay_seconds block_timeout_seconds",
    ),
    ("tenancy", "header self_service"),
    ("tenancy.roles", "NAME"),
    ("audit", "retention_days entities"),
    (
        "entity",
        "name table crud mcp search_fields max_list_limit renamed_from description label owner_field cross_owner_read \
         cross_owner_write cursor_fields public multi_tenant soft_delete client_ids unique index",
    ),
    ("auth.directory", "fields"),
    ("view", "name crud mcp search_fields cursor_fields max_list_limit description label owner_field cross_owner_read"),
    ("view.access", "read export"),
    ("view.rules", "read"),
    ("view.field", "name type hidden description to read values of"),
    (
        "storage",
        "anonymous_bytes_per_day backend keep_deleted_days path quota_per_user_bytes reserve_bytes staged_per_user_bytes \
         upload_ttl_seconds",
    ),
    ("storage.s3", "access_key_id bucket endpoint path_style prefix region secret_access_key"),
    ("entity.access", "read create update delete export"),
    ("entity.search", "language"),
    ("entity.search.fields", "NAME"),
    ("entity.rules", "read create update delete update_before update_after"),
    ("entity.check", "rule message field"),
    (
        "entity.field",
        "name type required unique index hidden read_only default min max pattern to many renamed_from description values \
         of max_items unique_items on_delete read write sequence accept keep_metadata max_bytes metadata public thumbnails",
    ),
    ("outbox", "retention_seconds max_bytes enabled poll_interval_ms max_attempts handler_grace_seconds lease_seconds"),
    ("outbox.consumer", "name event entities previous pull"),
    ("authorization_server", "enabled dynamic_registration client_metadata_documents openid"),
    ("authorization_server.claims", "NAME"),
    ("mcp", "enabled anonymous"),
    ("admin", "enabled role"),
    ("docs", "enabled"),
];

/// The rows, those of the limit `login` for every limit, and those of the provider `google` for every provider that has
/// the same setting.
fn rows() -> Vec<(String, bool, String, Outcome)> {
    let settings: BTreeSet<String> =
        Config::settings().iter().map(|setting| path(&setting.section, setting.key)).collect();
    let sections: BTreeSet<String> = Config::settings().into_iter().map(|setting| setting.section).collect();
    let mut rows = provider_rows();
    for Row { setting, dev, text, outcome } in ROWS {
        let own =
            ["auth.limits.login", "auth.oauth.google"].into_iter().find(|own| setting.starts_with(&format!("{own}.")));
        let group = own.and_then(|own| own.rsplit_once('.')).map(|(group, _)| format!("{group}."));
        let alike = sections.iter().filter(|section| group.as_ref().is_some_and(|group| section.starts_with(group)));
        for section in alike {
            let renamed = |text: &str| text.replace(own.unwrap(), section);
            // A provider of a list, and Apple, have rows of their own.
            let is_apart = ["auth.oauth.apple", "auth.oauth.oauth2", "auth.oauth.oidc"].contains(&&**section);
            if !is_apart && settings.contains(&renamed(setting)) {
                rows.push((renamed(setting), *dev, renamed(text), *outcome));
            }
        }
        if own.is_none() {
            rows.push(((*setting).to_owned(), *dev, (*text).to_owned(), *outcome));
        }
    }
    rows
}

/// Those of providers with metadata, and of OAuth 2.0 services.
fn provider_rows() -> Vec<(String, bool, String, Outcome)> {
    let mut rows = Vec::new();
    let mut row = |section: &str, head: &str, registration: &str, key: &str, value: &str, outcome| {
        let text = format!(
            "[auth.oauth]\nstate_secret = \"{SECRET}\"\n{head}\nclient_id = \"a\"\n{registration}{key} = {value}\n"
        );
        rows.push((format!("{section}.{key}"), false, text, outcome));
    };
    let apple = format!("team_id = \"ABCDE12345\"\nkey_id = \"ABCDE12345\"\nprivate_key = {}\n", super::APPLE_KEY);
    for name in ["apple", "gitlab", "linkedin", "microsoft", "slack", "twitch"] {
        let registration = if name == "apple" { &*apple } else { "client_secret = \"a\"\n" };
        let (section, head) = (format!("auth.oauth.{name}"), format!("[auth.oauth.{name}]"));
        let mut of = |key: &str, value: &str, outcome| row(&section, &head, registration, key, value, outcome);
        of(if name == "microsoft" { "authority" } else { "issuer" }, "\"http://example.com\"", Refused);
        if name != "linkedin" {
            of("send_nonce", "false", Warned);
        }
        if name == "apple" {
            of("send_pkce", "false", Warned);
        }
    }
    let urls = ["authorize_url", "token_url", "userinfo_url"];
    for (key, value, outcome) in
        urls.map(|key| (key, "\"http://example.com\"", Refused)).into_iter().chain([("send_pkce", "false", Warned)])
    {
        let others = urls.into_iter().filter(|url| *url != key).map(|url| format!("{url} = \"https://a.example\"\n"));
        let registration = format!("client_secret = \"a\"\nname = \"a\"\n{}", others.collect::<String>());
        row("auth.oauth.oauth2", "[[auth.oauth.oauth2]]", &registration, key, value, outcome);
    }
    rows
}

fn path(section: &str, key: &str) -> String {
    format!("{section}.{key}")
}

/// What the loader says about a setting: as `serve` and `check` do, which use it.
fn outcome(setting: &str, dev: bool, text: &str) -> Option<Outcome> {
    let mut loader = Loader::text("f.toml", text);
    if dev {
        loader = loader.dev_mode();
    } else if setting != "auth.jwt_secret" {
        loader = loader.environment(super::variables([("GATEWRIGHT__AUTH__JWT_SECRET", SECRET)]));
    }
    let about = |problems: &[Problem]| problems.iter().any(|problem| named(problem) == setting);
    match loader.load_with_warnings() {
        Err(problems) => about(&problems.0).then_some(Refused),
        Ok((config, warnings)) => {
            // The start logs the warnings of the configuration alone.
            let logged = config.warnings().iter().any(|warning| without_numbers(&warning.key) == setting);
            assert_eq!(logged, about(&warnings), "{setting}: `serve` and `check` differ");
            logged.then_some(Warned)
        }
    }
}

/// The setting that a problem is about.
fn named(problem: &Problem) -> String {
    without_numbers(problem.message.split_once(": ").map_or("", |(key, _)| key))
}

/// `outbox.consumer[0].url` as `outbox.consumer.url`.
fn without_numbers(key: &str) -> String {
    key.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

#[test]
fn what_weakens_a_protection_is_refused_or_named() {
    for (setting, dev, text, expected) in rows() {
        assert_eq!(outcome(&setting, dev, &text), Some(expected), "{setting}, for:\n{text}");
        // Nothing is said of the setting where it does not weaken.
        let other =
            if setting == "auth.jwt_secret" { format!("[auth]\njwt_secret = \"{SECRET}\"") } else { String::new() };
        assert_eq!(outcome(&setting, dev, &other), None, "{setting}");
    }
}

#[test]
fn every_setting_is_in_the_table_or_harmless() {
    let settings: BTreeSet<String> =
        Config::settings().iter().map(|setting| path(&setting.section, setting.key)).collect();
    let weakening: BTreeSet<String> = rows().into_iter().map(|(setting, ..)| setting).collect();
    let harmless: BTreeSet<String> =
        HARMLESS.iter().flat_map(|(section, keys)| keys.split(' ').map(|key| path(section, key))).collect();
    let both: Vec<_> = weakening.intersection(&harmless).collect();
    assert_eq!(both, Vec::<&String>::new(), "in both lists");
    let known: BTreeSet<String> = weakening.union(&harmless).cloned().collect();
    let new: Vec<_> = settings.difference(&known).collect();
    assert_eq!(new, Vec::<&String>::new(), "can a value of it weaken a protection? Add a row to one of the lists");
    let gone: Vec<_> = known.difference(&settings).collect();
    assert_eq!(gone, Vec::<&String>::new(), "no settings");
}
