//! The list of the pages that the tour visits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages of each template. Pages without a template (refusals, the home page) are at the end.
pub(super) const PAGES: &[(&str, &[&str])] = &[
    ("ask.html", &["email-change", "email-change-elsewhere", "email-undo"]),
    ("backup_codes.html", &["backup-codes"]),
    (
        "check_mail.html",
        &["link-mailed", "reset-mailed", "reset-code-wrong", "verification-mailed", "email-change-mailed"],
    ),
    ("code.html", &["reset-mailed", "magic-link-elsewhere"]),
    ("complete_profile.html", &["complete-profile", "complete-profile-empty"]),
    ("confirm_address.html", &["verification-claims"]),
    ("confirm_link.html", &["magic-link", "magic-link-elsewhere"]),
    ("consent.html", &["consent", "consent-one-tenant", "consent-tenants", "device-consent"]),
    ("device.html", &["device", "device-wrong"]),
    ("end_session.html", &["end-session"]),
    ("enroll.html", &["enroll", "enroll-wrong"]),
    ("forgot_password.html", &["forgot"]),
    ("hidden.html", &["login"]),
    ("invited.html", &["invited", "invited-signed-in", "invited-other"]),
    ("login.html", &["login", "login-wrong", "login-as-other"]),
    ("note.html", &["verified", "reset-done", "invited-joined", "email-changed", "email-undone", "deleted"]),
    ("passkey_sign_in.html", &["login", "challenge"]),
    ("profile_inputs.html", &["register-profile", "complete-profile"]),
    ("register.html", &["register", "register-profile", "register-taken", "register-invited"]),
    ("reset_password.html", &["reset"]),
    ("two_factor.html", &["challenge", "challenge-wrong"]),
    ("message.html", &["login-wrong", "register-taken"]),
    ("providers.html", &["login", "register"]),
    ("reset_others.html", &["reset"]),
    ("secret.html", &["login", "register"]),
    ("account/address.html", &["account-sign-in"]),
    ("account/browsers.html", &["account-devices"]),
    ("account/deletion.html", &["account-data", "account-data-opened", "account-deletion-wrong"]),
    ("account/email.html", &["account-sign-in-opened", "account-code"]),
    ("account/export.html", &["account-data"]),
    ("account/fresh.html", &["account-sign-in-opened", "account-two-factor-opened"]),
    ("account/new_token.html", &["new-token"]),
    ("account/organisations.html", &["account-organisations", "account-organisations-opened"]),
    ("account/page.html", &["account-devices", "account-devices-opened"]),
    ("account/passkeys.html", &["account-passkeys"]),
    ("account/password.html", &["account-sign-in-opened", "account-without-password"]),
    ("account/profile.html", &["account-profile", "account-profile-opened", "account-profile-saved"]),
    ("account/programs.html", &["account-programs", "account-programs-opened"]),
    ("account/providers.html", &["account-sign-in"]),
    (
        "account/second_factor.html",
        &["account-second-factor", "account-second-factor-opened", "account-two-factor", "account-two-factor-opened"],
    ),
    ("account/tokens.html", &["account-tokens", "account-tokens-opened", "account-tokens-listed"]),
    (
        "",
        &[
            "home",
            "home-signed-in",
            "missing",
            "expired-magic-link",
            "expired-reset",
            "expired-verification",
            "expired-email-change",
            "expired-email-undo",
            "expired-invitation",
            "provider-refused",
            "consent-of-nobody",
            "locked-out",
        ],
    ),
];

/// A new template needs a page on the tour.
#[test]
fn every_template_is_on_the_tour() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/auth/src/screens/templates");
    let names = |folder: PathBuf, under: &str| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        files.map(|entry| format!("{under}{}", entry.file_name().to_str().unwrap())).collect::<Vec<_>>()
    };
    let mut templates = names(folder.clone(), "");
    templates.extend(names(folder.join("account"), "account/"));
    let listed: BTreeSet<&str> = PAGES.iter().map(|(template, _)| *template).collect();
    let missing: Vec<_> = templates.iter().filter(|template| !listed.contains(&***template)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(listed.len(), templates.len() + 1, "{listed:?}");
}
