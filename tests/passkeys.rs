//! Passkeys in a real browser with a virtual authenticator: created on `/account`, used on `/login` with the button and
//! with the browser's autofill, in place of a code, and as the only way to sign in. A page of another origin cannot use
//! them.

use serde_json::{Value, json};

use crate::accounts::authenticator_code;
use crate::harness::{Browser, Database, Launch, PASSWORD, Pages, Scripts, Server};

const ADA: &str = "ada@example.com";

/// A server with a host name: browsers refuse passkeys for IP addresses.
struct Place {
    server: Server,
    here: String,
}

impl Place {
    async fn start() -> Self {
        let server = Launch::dev().start(&Database::Sqlite).await;
        let here = format!("http://{}", server.address().replace("127.0.0.1", "localhost"));
        Self { server, here }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.here)
    }

    async fn register(&self, browser: &Browser) {
        browser.open(&self.at("/register?next=/account")).await;
        browser.fill("Email", ADA).await;
        browser.fill("Password", PASSWORD).await;
        browser.press("Create account").await;
        browser.sees("Signed in as ada@example.com").await;
    }

    /// Signs up with a mailed link, so that there is no password.
    async fn register_without_password(&self, browser: &Browser) {
        browser.open(&self.at("/login?next=/account")).await;
        browser.fill_by_id("email", ADA).await;
        browser.press("Email me a link instead").await;
        browser.sees("Check your mail").await;
        let mails = self.server.client().get("/dev/mail.json").await.is(200).json();
        let link = mails[0]["links"][0].as_str().unwrap();
        let (_, path) = link.split_once("/auth/").unwrap();
        browser.open(&self.at(&format!("/auth/{path}"))).await;
        browser.press("Sign in").await;
        browser.sees("You sign in without a password").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passkey_signs_in_with_autofill_with_the_button_and_in_place_of_a_code() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let place = Place::start().await;
    let authenticator = browser.authenticator().await;
    place.register(&browser).await;

    // With a wrong password, no passkey is added.
    browser.fill_by_id("passkey-password", "not the password").await;
    browser.press("Add a passkey").await;
    browser.waits_for("//*[@data-passkeys]//*[@role='alert' and not(@hidden)]").await;
    assert!(browser.passkeys(&authenticator).await.is_empty());
    browser.open(&place.at("/account")).await;
    browser.fill_by_id("passkey-password", PASSWORD).await;
    browser.press("Add a passkey").await;
    browser.sees("The passkey was added.").await;
    let passkeys = browser.passkeys(&authenticator).await;
    assert_eq!((passkeys.len(), &passkeys[0]["rpId"]), (1, &json!("localhost")), "{passkeys:?}");
    assert_eq!(passkeys[0]["isResidentCredential"], true);

    // The browser offers the passkey in the form for passwords, and the virtual authenticator accepts for its user.
    browser.open(&place.at("/account")).await;
    browser.press("Sign out").await;
    browser.arrives(&place.at("/")).await;
    browser.sees("Signed in as ada@example.com").await;

    // Without a passkey the browser offers none. With it again, the button signs in and redirects to the requested
    // page.
    browser.forgets_passkey(&authenticator, &passkeys[0]).await;
    browser.press_and_leave("Sign out").await;
    browser.open(&place.at("/account")).await;
    browser.sees("Sign in with a passkey").await;
    let counted = json!({ "signCount": 100 });
    browser.takes_passkey(&authenticator, &merged(&passkeys[0], &counted)).await;
    browser.press("Sign in with a passkey").await;
    browser.arrives(&place.at("/account/sign-in")).await;
    browser.sees("Signed in as ada@example.com").await;

    // With a second factor: after the password, the server asks for a code, and the passkey replaces the code.
    browser.open(&place.at("/account/second-factor")).await;
    browser.press("Set up an authenticator app").await;
    browser.sees("Scan this picture").await;
    let secret = browser.texts("code").await.remove(0).replace(' ', "");
    let Some(code) = authenticator_code(&secret) else { return };
    browser.fill("Code", &code).await;
    browser.press("Turn on").await;
    browser.sees("Backup codes").await;
    browser.forgets_passkey(&authenticator, &passkeys[0]).await;
    browser.open(&place.at("/account")).await;
    browser.press("Sign out").await;
    browser.sees("Sign in with a passkey").await;
    browser.fill("Email", ADA).await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Sign in").await;
    browser.sees("Two-factor authentication").await;
    let counted = json!({ "signCount": 200 });
    browser.takes_passkey(&authenticator, &merged(&passkeys[0], &counted)).await;
    browser.press("Sign in with a passkey").await;
    browser.sees("Signed in as ada@example.com").await;
    // A sign-in with only the passkey satisfies the second factor too.
    browser.press_and_leave("Sign out").await;
    browser.open(&place.at("/login?next=/account")).await;
    browser.arrives(&place.at("/account/sign-in")).await;
    browser.follow("Second factor").await;
    browser.sees("Signing in takes a code").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passkey_as_the_only_sign_in_method_cannot_be_removed() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let place = Place::start().await;
    let authenticator = browser.authenticator().await;
    place.register_without_password(&browser).await;
    browser.press("Add a passkey").await;
    browser.sees("The passkey was added.").await;
    browser.press("Remove").await;
    browser.waits_for("//*[@id='passkeys']/p[@role='alert']").await;
    browser.open(&place.at("/account")).await;
    browser.press("Sign out").await;
    browser.arrives(&place.at("/")).await;
    browser.sees("Signed in as ada@example.com").await;
    assert_eq!(browser.passkeys(&authenticator).await.len(), 1);
}

/// The attack: a page of another origin shows the service's challenge to its visitor's passkey, and forwards the
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_cannot_use_a_passkey() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let place = Place::start().await;
    let elsewhere = Pages::serve("<h1>elsewhere</h1>").await;
    let _authenticator = browser.authenticator().await;
    place.register(&browser).await;
    browser.fill_by_id("passkey-password", PASSWORD).await;
    browser.press("Add a passkey").await;
    browser.sees("The passkey was added.").await;

    for (origin, works) in
        [(elsewhere.origin("localhost"), false), (elsewhere.origin("127.0.0.1"), false), (place.at("/healthz"), true)]
    {
        let eve = place.server.client();
        let options = eve.post("/auth/passkeys/login/options", &json!({})).await.is(200).json();
        browser.open(&origin).await;
        let answer = browser.run(USE, json!([options])).await;
        if let Some(refused) = answer["refused"].as_str() {
            // The browser itself refuses, because the passkey does not belong to the page's origin.
            assert!(!works && refused.contains("SecurityError"), "{origin}: {answer}");
            continue;
        }
        let login = eve.post("/auth/passkeys/login", &answer["credential"]).await;
        if works {
            assert_eq!(login.is(200).json()["user"]["email"], ADA);
        } else {
            assert_eq!(login.is(401).json()["code"], "invalid_passkey", "{origin}");
            eve.get("/auth/me").await.is(401);
        }
    }
}

/// Asks the authenticator to sign, like the service's own script.
const USE: &str = r#"
const [options, done] = arguments;
(async () => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  const credential = await navigator.credentials.get({ publicKey });
  done({ credential: credential.toJSON() });
})().catch((error) => done({ refused: error.name + ": " + error.message }));
"#;

/// `base` with the members of `over`.
fn merged(base: &Value, over: &Value) -> Value {
    let mut merged = base.clone();
    for (name, value) in over.as_object().unwrap() {
        merged[name] = value.clone();
    }
    merged
}
