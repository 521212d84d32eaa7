//! A user with a real browser, first without scripts: registers, turns the second factor on, signs out and in, opens
//! the account page, and resets the password by mail.

use serde_json::Value;

use crate::accounts::authenticator_code;
use crate::harness::{Browser, Database, Launch, PASSWORD, Scripts, Server};

const ADA: &str = "ada@example.com";
const NEW: &str = "another horse battery";
const NEWEST: &str = "yet another horse battery";

#[tokio::test(flavor = "multi_thread")]
async fn an_account_works_without_scripts() {
    for csrf in ["", "[csrf]\nenabled = true\n"] {
        let server = Launch::configured(csrf).start(&Database::Sqlite).await;
        let Some(browser) = Browser::start(Scripts::Off).await else { return };
        let shown = if csrf.is_empty() { "plain" } else { "csrf" };
        live(&server, &browser, shown).await;
    }
}

async fn live(server: &Server, browser: &Browser, shown: &str) {
    let at = |path: &str| format!("http://{}{path}", server.address());
    let picture = async |name: &str| browser.picture(&format!("{shown}-{name}")).await;

    // Open the account page: an anonymous visitor must sign in first, and has no account yet.
    browser.open(&at("/account")).await;
    browser.sees("Sign in").await;
    picture("login").await;
    browser.follow("Create one").await;
    browser.fill("Email", ADA).await;
    browser.fill("Password", PASSWORD).await;
    picture("register").await;
    browser.press("Create account").await;
    browser.sees("Signed in as ada@example.com").await;
    assert_eq!(browser.path().await, "/account/sign-in");
    picture("account").await;
    browser.follow("Second factor").await;

    // Turn on the second factor, with an authenticator app.
    browser.press("Set up an authenticator app").await;
    browser.sees("Scan this picture").await;
    picture("enroll").await;
    let secret = browser.texts("code").await.remove(0).replace(' ', "");
    browser.fill("Code", "000000").await;
    browser.press("Turn on").await;
    browser.sees("The code is wrong.").await;
    let Some(code) = authenticator_code(&secret) else { return };
    browser.fill("Code", &code).await;
    browser.press("Turn on").await;
    browser.sees("Backup codes").await;
    picture("backup-codes").await;
    let backup_codes = browser.texts("code").await;
    assert_eq!(backup_codes.len(), 10);
    browser.follow("Continue").await;
    browser.sees("Signing in takes a code").await;
    picture("account-two-factor").await;

    // Sign out, sign in, and pass the challenge with backup codes, since the app's code of this half minute is used up.
    browser.press("Sign out").await;
    browser.sees("Sign in").await;
    browser.open(&at("/account")).await;
    sign_in(browser, "incorrect horse battery").await;
    browser.sees("Email or password is wrong.").await;
    picture("login-failed").await;
    sign_in(browser, PASSWORD).await;
    browser.sees("Two-factor authentication").await;
    picture("challenge").await;
    // Pages that require the second factor are not open yet.
    browser.open(&at("/account")).await;
    browser.sees("Use a backup code").await;
    pass(browser, &backup_codes[0]).await;
    browser.sees("Signed in as ada@example.com").await;

    // Change the password.
    browser.fill("Current password", "incorrect horse battery").await;
    browser.fill("New password", NEW).await;
    browser.press("Change password").await;
    browser.sees("the current password is wrong").await;
    picture("account-problem").await;
    browser.fill("Current password", PASSWORD).await;
    browser.fill("New password", NEW).await;
    browser.press("Change password").await;
    browser.sees("Your password was changed").await;
    picture("account-changed").await;
    browser.resize(400, 900).await;
    picture("account-phone").await;
    browser.resize(900, 1200).await;

    prove_mailbox(server, browser).await;

    // Reset a forgotten password.
    browser.press("Sign out").await;
    browser.sees("Sign in").await;
    browser.follow("Forgot?").await;
    browser.fill("Email", ADA).await;
    picture("forgot").await;
    browser.press("Send link").await;
    browser.sees("Check your mail").await;
    picture("check-mail").await;
    browser.open(&link(server, "/reset-password").await).await;
    browser.fill("New password", NEWEST).await;
    picture("reset").await;
    browser.press("Set password").await;
    browser.sees("Password changed").await;
    picture("reset-done").await;
    browser.follow("Sign in").await;
    sign_in(browser, NEW).await;
    browser.sees("Email or password is wrong.").await;
    sign_in(browser, NEWEST).await;
    browser.sees("Two-factor authentication").await;
    pass(browser, &backup_codes[1]).await;
    browser.sees("Signed in as").await;

    // Turn the second factor off.
    browser.open(&at("/account/second-factor")).await;
    browser.fill("Code", &backup_codes[1]).await;
    browser.press("Turn off").await;
    browser.sees("The code is wrong.").await;
    browser.fill("Code", &backup_codes[2]).await;
    browser.press("Turn off").await;
    browser.sees("Two-factor authentication is off").await;

    // Sign in with a mailed link. Opening it only shows a page to confirm.
    browser.press("Sign out").await;
    browser.sees("Email me a link instead").await;
    browser.fill_by_id("email", ADA).await;
    browser.press("Email me a link instead").await;
    browser.sees("Check your mail").await;
    browser.open(&link(server, "/magic-link/verify").await).await;
    browser.sees("You are about to sign in as ada@example.com").await;
    picture("magic-link").await;
    browser.press("Sign in").await;
    browser.sees("Signed in as ada@example.com").await;
    picture("home").await;
}

async fn sign_in(browser: &Browser, password: &str) {
    browser.fill("Email", ADA).await;
    browser.fill("Password", password).await;
    browser.press("Sign in").await;
}

/// Passes the challenge with a backup code.
async fn pass(browser: &Browser, code: &str) {
    browser.fill("Backup code", code).await;
    browser.submit("form:has(#backup-code)").await;
}

/// Verifies the address within the session. A password reset of an account with an unverified address would remove the
/// second factor too.
async fn prove_mailbox(server: &Server, browser: &Browser) {
    browser.press("Mail me a link to confirm it").await;
    browser.sees("Check your mail").await;
    browser.open(&link(server, "/auth/verify-email").await).await;
    browser.open(&format!("http://{}/account", server.address())).await;
    browser.waits_for("//*[@id='address']//*[normalize-space(.)='confirmed']").await;
}

/// The latest link of this kind in the development mailbox.
async fn link(server: &Server, kind: &str) -> String {
    let mails = server.client().get("/dev/mail.json").await.is(200).json();
    let links = mails.as_array().unwrap().iter().filter_map(|mail| mail["links"].as_array()).flatten();
    let links: Vec<_> = links.filter_map(Value::as_str).filter(|link| link.contains(kind)).collect();
    assert_eq!(links.len(), 1, "{mails}");
    links[0].to_owned()
}
