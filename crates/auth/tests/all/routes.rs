//! Every route of authentication is limited, or there is a reason why it need not be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::email_code::EmailCodePlugin;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_limits::Policy;
use serde_json::json;

use crate::mailed::Post;
use crate::support::{Call, Site, config, databases, limit_by_address};

enum Guard {
    /// It has a limit per address that counts every request: if one is allowed, the second is 429.
    Requests,
    /// It takes a proof, and its limit per address counts failures alone.
    Failures,
    /// It has no limit, for this reason.
    Free(&'static str),
}
use Guard::{Failures, Free, Requests};

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
const ROUTES: [(&str, Guard); 85] = [
    ("/language", Free("keeps the choice of a language in a cookie, and nothing else")),
    ("/login", Failures),
    ("/register", Requests),
    ("/logout", Free(OWN)),
    ("/me", Free(OWN)),
    ("/csrf", Free("hands out a token for the caller's own cookie")),
    ("/sessions", Free(OWN)),
    ("/sessions/{id}", Free(OWN)),
    ("/devices", Free(OWN)),
    ("/devices/{id}", Free(OWN)),
    ("/anonymous", Failures),
    ("/magic-link/send", Requests),
    ("/magic-link/verify", Free(MAILED)),
    ("/email-code/send", Requests),
    ("/email-code/verify", Failures),
    ("/send-verification", Requests),
    ("/verify-email", Free(MAILED)),
    ("/invitations/accept", Free(TOKEN)),
    ("/invitations/{token}", Free(TOKEN)),
    ("COMPLETE", Free(SIGNED_IN)),
    ("/change-email", Free(FRESH)),
    ("/change-email/confirm", Free(MAILED)),
    ("/change-email/undo", Free(TOKEN)),
    ("/account/email", Free(FRESH)),
    ("/delete-account", Free(FRESH)),
    ("/account/delete", Free(FRESH)),
    ("/export", Free(FRESH)),
    ("/account/export", Free(FRESH)),
    ("/forgot-password", Requests),
    ("/reset-password", Failures),
    ("/2fa/enroll", Free(SIGNED_IN)),
    ("/2fa/verify", Failures),
    ("/2fa/challenge", Failures),
    ("/2fa/disable", Failures),
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
    ("TOKEN", Free(PROGRAM)),
    ("REVOKE", Free(PROGRAM)),
    ("INTROSPECT", Free(PROGRAM)),
    ("DEVICE", Free("is limited for each address, which its own test shows; takes nothing that could be guessed")),
    ("REGISTER", Free("is limited for each address by the limit of registrations, which its own test shows")),
    ("JWKS", Free(DOCUMENT)),
    ("SERVER", Free(DOCUMENT)),
    ("OPENID", Free(DOCUMENT)),
    ("USERINFO", Free(PROGRAM)),
    ("end_session::PATH", Free("ends the caller's own session; takes nothing that could be guessed")),
    ("RESOURCE", Free(DOCUMENT)),
    ("&format!(\"{RESOURCE}{path}\")", Free(DOCUMENT)),
    ("/account/programs/{id}/end", Free(OWN)),
    ("/passkeys", Free(OWN)),
    ("/passkeys/{id}", Free(OWN)),
    ("/passkeys/register/options", Free(PASSWORD)),
    ("/passkeys/register", Free(TOKEN)),
    ("/passkeys/login/options", Free("hands out a challenge for the caller's own cookie; keeps nothing")),
    ("/passkeys/login", Failures),
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
    ("page.path()", Free(OWN)),
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

/// A success at one of these is given back, so that people who share an address do not lock each other out. Everything else counts as
/// it comes: a request for a mail succeeds for everybody.
#[test]
fn a_limit_counts_failures_alone_exactly_where_a_proof_is_taken() {
    let mut written = BTreeMap::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut written);
    // `limited` and `disable` are `guarded_proof` too, as the next line shows.
    let two_factor = include_str!("../../src/plugins/two_factor/http.rs");
    assert!(
        two_factor.contains("let limited = |route| guarded_proof(")
            && two_factor.contains("let disable = guarded_proof(")
    );
    // A guest that is known already proves so by its session.
    let guests = include_str!("../../src/plugins/guests/http.rs");
    assert!(guests.contains("let arrive = guarded_proof("));
    for (path, guard) in &ROUTES {
        let gives_back = |words: &[&str]| words.iter().any(|word| written[*path].contains(word));
        match guard {
            Failures => assert!(
                gives_back(&["guarded_proof(", "limited(post", "\"/2fa/disable\", disable", "\"/anonymous\", arrive"]),
                "{}",
                written[*path]
            ),
            Requests => assert!(gives_back(&[", guarded("]), "{}", written[*path]),
            Free(_) => {}
        }
    }
}

/// Reads the paths of `.route(` in code that is neither comment nor test, with their file and handler.
pub(crate) fn collect(folder: &Path, written: &mut BTreeMap<String, String>) {
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
            let handler: String = route.chars().take(120).collect();
            written.insert(name.unwrap_or_default().to_owned(), format!("{}: {handler}", path.display()));
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
        limit_by_address(&mut config.limits, once);
        let site = Site::with(config, |builder| {
            let builder =
                builder.database(db.db.clone()).mailer(Arc::new(Post::default())).plugin(MagicLinkPlugin::new());
            let builder = builder.plugin(EmailVerificationPlugin::new()).plugin(PasswordResetPlugin::new());
            let builder = builder.plugin(EmailCodePlugin);
            builder.plugin(TwoFactorPlugin::new("Test")).plugin(PasskeysPlugin::new("Test"))
        })
        .await;
        let limited = ROUTES.iter().filter(|(_, guard)| matches!(guard, Requests));
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
