//! Every route of authentication is limited, or there is a reason why it need not be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_limits::Policy;
use serde_json::json;

use crate::mailed::Post;
use crate::support::{Call, Site, config, databases};

enum Guard {
    /// It has a limit per address: if one request is allowed, the second is 429.
    Limited,
    /// It has no limit, for this reason.
    Free(&'static str),
}
use Guard::{Free, Limited};

const OWN: &str = "shows or ends what is the caller's own; takes nothing that could be guessed";
const PAGE: &str = "shows a form; nothing can be guessed at or sent by it";
const TOKEN: &str = "takes a token of 256 random bits, which nobody guesses";
const MAILED: &str =
    "takes a token of 256 random bits, or a code whose attempts its flow counts, which its own test shows";
const DOCUMENT: &str = "returns a document that is the same for everybody";
const PROGRAM: &str = "takes codes, tokens and secrets of 160 random bits or more, which nobody guesses";
const SIGNED_IN: &str = "takes nothing that could be guessed, from an interactive session alone";
const FRESH: &str = "its fresh proof counts passwords and codes as attempts of the account";
const INVITING: &str = "its flow counts what an account makes and sends, which its own test shows";
const PASSWORD: &str = "its flow counts the current password as an attempt of the account";

/// Each path as it is written beside `.route(`, relative to where it is mounted.
const ROUTES: [(&str, Guard); 74] = [
    ("/language", Free("keeps the choice of a language in a cookie, and nothing else")),
    ("/login", Limited),
    ("/register", Limited),
    ("/logout", Free(OWN)),
    ("/me", Free(OWN)),
    ("/csrf", Free("hands out a token for the caller's own cookie")),
    ("/sessions", Free(OWN)),
    ("/sessions/{id}", Free(OWN)),
    ("/devices", Free(OWN)),
    ("/devices/{id}", Free(OWN)),
    ("/magic-link/send", Limited),
    ("/magic-link/verify", Free(MAILED)),
    ("/send-verification", Limited),
    ("/verify-email", Free(MAILED)),
    ("/invitations/accept", Free(TOKEN)),
    ("/change-email", Free(FRESH)),
    ("/change-email/confirm", Free(MAILED)),
    ("/change-email/undo", Free(TOKEN)),
    ("/account/email", Free(FRESH)),
    ("/delete-account", Free(FRESH)),
    ("/account/delete", Free(FRESH)),
    ("/export", Free(FRESH)),
    ("/account/export", Free(FRESH)),
    ("/forgot-password", Limited),
    ("/reset-password", Limited),
    ("/2fa/enroll", Free(SIGNED_IN)),
    ("/2fa/verify", Limited),
    ("/2fa/challenge", Limited),
    ("/2fa/disable", Limited),
    ("/2fa/backup-codes", Free("takes no code, and only a session that has proven its second factor")),
    ("/tokens", Free(SIGNED_IN)),
    ("/tokens/{id}", Free(OWN)),
    (
        "/stream-ticket",
        Free("is limited for each account, which its own test shows; takes nothing that could be guessed"),
    ),
    ("/accounts", Free(OWN)),
    ("/unlink/{provider}", Free(OWN)),
    ("/oauth/{provider}", Free("begins a flow that the provider ends; keeps nothing but a cookie")),
    ("/oauth/{provider}/link", Free(SIGNED_IN)),
    (
        "/oauth/{provider}/callback",
        Free("is limited as well, which its own test shows: it comes by GET, with a signed state"),
    ),
    ("/change-password", Free(PASSWORD)),
    ("/oauth2/authorize", Free(SIGNED_IN)),
    ("/oauth2/token", Free(PROGRAM)),
    ("/oauth2/revoke", Free(PROGRAM)),
    ("/oauth2/introspect", Free(PROGRAM)),
    ("/oauth2/register", Free("is limited for each address by the limit of registrations, which its own test shows")),
    ("SERVER", Free(DOCUMENT)),
    ("RESOURCE", Free(DOCUMENT)),
    ("&format!(\"{RESOURCE}{path}\")", Free(DOCUMENT)),
    ("/account/programs/{id}/end", Free(OWN)),
    ("/passkeys", Free(OWN)),
    ("/passkeys/{id}", Free(OWN)),
    ("/passkeys/register/options", Free(PASSWORD)),
    ("/passkeys/register", Free(TOKEN)),
    ("/passkeys/login/options", Free("hands out a challenge for the caller's own cookie; keeps nothing")),
    ("/passkeys/login", Limited),
    ("/account/passkeys/{id}/remove", Free(OWN)),
    ("/tenants", Free(INVITING)),
    ("/tenants/accept", Free(TOKEN)),
    ("/tenants/{id}/members", Free(INVITING)),
    ("/tenants/{id}/members/{member}", Free(SIGNED_IN)),
    ("/tenants/{id}/invitations/{invitation}", Free(SIGNED_IN)),
    // Screens, at the root.
    ("FORGOT_PATH", Free(PAGE)),
    ("RESET_PATH", Free(PAGE)),
    ("PATH", Free(PAGE)),
    ("/account", Free(OWN)),
    ("/account/profile", Free(OWN)),
    ("/account/password", Free(PASSWORD)),
    ("/account/sessions/end-others", Free(OWN)),
    ("/account/sessions/{id}/end", Free(OWN)),
    ("/account/devices/forget-others", Free(OWN)),
    ("/account/devices/{id}/forget", Free(OWN)),
    ("/account/tokens", Free(SIGNED_IN)),
    ("/account/tokens/{id}/revoke", Free(OWN)),
    ("/account/two-factor/disable", Free("its flow counts the code as an attempt of the account")),
    ("/account/providers/{provider}/unlink", Free(OWN)),
];

#[test]
fn every_route_is_limited_or_has_a_reason() {
    let known: BTreeSet<&str> = ROUTES.iter().map(|(path, _)| *path).collect();
    assert_eq!(known.len(), ROUTES.len(), "each is listed once");
    let mut written = BTreeMap::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut written);
    assert!(written.len() >= 20, "the sources are read: {written:?}");
    let unlisted: Vec<_> = written.iter().filter(|(path, _)| !known.contains(path.as_str())).collect();
    assert!(unlisted.is_empty(), "put a limit before these, or give the reason here why they need none: {unlisted:?}");
    assert!(ROUTES.iter().all(|(_, guard)| !matches!(guard, Free(reason) if reason.len() < 20)));
}

/// Reads the arguments of `.route(` in code that is neither comment nor test, with their file.
fn collect(folder: &Path, written: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, written);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for (_, route) in code.match_indices(".route(").map(|(at, name)| code.split_at(at + name.len())) {
            let route = route.trim_start();
            let name = match route.strip_prefix('"') {
                Some(literal) => literal.split('"').next(),
                None => route.split(',').next(),
            };
            written.insert(name.unwrap_or_default().to_owned(), path.display().to_string());
        }
    }
}

#[tokio::test]
async fn a_limited_route_refuses_the_second_request_where_one_is_allowed() {
    const PEERS: [&str; 10] = [
        "198.51.100.1",
        "198.51.100.2",
        "198.51.100.3",
        "198.51.100.4",
        "198.51.100.5",
        "198.51.100.6",
        "198.51.100.7",
        "198.51.100.8",
        "198.51.100.9",
        "198.51.100.10",
    ];
    for db in databases().await {
        let mut config = config();
        config.public_url = Some("https://example.com".parse().unwrap());
        let once = Policy::new(1, Duration::from_mins(15), Duration::from_mins(30));
        let limits = &mut config.limits;
        for limit in [
            &mut limits.login,
            &mut limits.register,
            &mut limits.magic_link,
            &mut limits.two_factor,
            &mut limits.password_reset,
            &mut limits.email_verification,
        ] {
            limit.policy = once;
        }
        let site = Site::with(config, |builder| {
            let builder =
                builder.database(db.db.clone()).mailer(Arc::new(Post::default())).plugin(MagicLinkPlugin::new());
            let builder = builder.plugin(EmailVerificationPlugin::new()).plugin(PasswordResetPlugin::new());
            builder.plugin(TwoFactorPlugin::new("Test")).plugin(PasskeysPlugin::new("Test"))
        })
        .await;
        let limited = ROUTES.iter().filter(|(_, guard)| matches!(guard, Limited));
        for ((path, _), peer) in limited.zip(PEERS) {
            let call = || Call::post(&format!("/auth{path}")).from(peer).json(&json!({})).send(&site);
            let first = call().await;
            assert!(![404, 429].contains(&first.status.as_u16()), "{path}: {first:?}");
            let second = call().await;
            assert_eq!((second.status.as_u16(), &*second.body), (429, "rate limit exceeded"), "{path}, {}", db.name);
            assert_eq!(second.headers["retry-after"], "1800");
        }
    }
}
