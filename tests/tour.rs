//! Visits every page of an account in a real browser: on a phone and on a desktop, light and dark, in both built-in
//! languages. axe-core finds nothing on any of them, none scrolls sideways, and each has a link or a button.

mod device;
mod pages;
mod scripts;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::accounts::authenticator_code;
use crate::connections::Program;
use crate::console::{EXAMINE, axe};
use crate::harness::{Answer, Browser, Database, Launch, PASSWORD, Scripts, Server, gatewright};
use scripts::{OPENED, PAGE, REFUSAL, UNGUARDED};

const CONFIGURATION: &str = r#"
[server]
dev_mode = true
[auth.oauth]
state_secret = "a secret for tests alone, long enough"
[auth.oauth.github]
client_id = "a-client"
client_secret = "a-secret"
[[auth.profile.field]]
name = "display_name"
type = "string"
max = 60
[[auth.profile.field]]
name = "about"
type = "text"
[[auth.profile.field]]
name = "birthday"
type = "date"
[[auth.profile.field]]
name = "newsletter"
type = "bool"
[[auth.profile.field]]
name = "team"
type = "enum"
values = ["design", "engineering"]
[auth.limits.magic_link]
max_attempts = 1000
[authorization_server]
openid = true
enabled = true
[[entity]]
name = "notes"
multi_tenant = true
[[entity.field]]
name = "title"
type = "string"
"#;

/// Another service, which requires fields of the profile.
const REQUIRED: &str = r#"
[server]
dev_mode = true
[[auth.profile.field]]
name = "display_name"
type = "string"
required = true
[[auth.profile.field]]
name = "team"
type = "enum"
values = ["design", "engineering"]
required = true
"#;

/// A visitor who goes from page to page, in one language.
struct Tour<'a> {
    server: &'a Server,
    browser: &'a Browser,
    axe: &'a str,
    language: &'static str,
    seen: RefCell<BTreeSet<String>>,
    /// Mailed links that were used.
    links: RefCell<BTreeSet<String>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_an_account_is_accessible_in_every_size_and_color_in_english() {
    every_page("en").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_an_account_is_accessible_in_every_size_and_color_in_german() {
    every_page("de").await;
}

async fn every_page(language: &'static str) {
    let Some(axe) = axe() else { return };
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let server = Launch::configured(CONFIGURATION).start(&Database::Sqlite).await;
    browser.reads(language).await;
    let tour = Tour {
        server: &server,
        browser: &browser,
        axe: &axe,
        language,
        seen: RefCell::default(),
        links: RefCell::default(),
    };
    tour.outside().await;
    tour.mailed_links().await;
    tour.invitations().await;
    tour.consent().await;
    tour.account().await;
    tour.another_address().await;
    let is_whole = tour.second_factor().await;
    tour.the_end().await;
    let required = Launch::configured(REQUIRED).start(&Database::Sqlite).await;
    let other = Tour { server: &required, seen: tour.seen.clone(), links: RefCell::default(), ..tour };
    other.required_fields().await;
    let listed: BTreeSet<String> =
        pages::PAGES.iter().flat_map(|(_, pages)| *pages).map(|page| (*page).to_owned()).collect();
    if is_whole {
        assert_eq!(*other.seen.borrow(), listed, "{language}");
    }
}

impl Tour<'_> {
    /// The pages that are open to everybody.
    async fn outside(&self) {
        for (name, path) in [
            ("home", "/"),
            ("login", "/login"),
            ("register", "/register"),
            ("forgot", "/forgot-password"),
            ("missing", "/nowhere"),
            ("expired-magic-link", "/auth/magic-link/verify?token=x"),
            ("expired-reset", "/reset-password?token=x"),
            ("expired-verification", "/auth/verify-email?token=x"),
            ("expired-email-change", "/auth/change-email/confirm?token=x"),
            ("expired-email-undo", "/auth/change-email/undo?token=x"),
            ("expired-invitation", "/register?invite=x"),
            ("provider-refused", "/auth/oauth/github/callback?error=access_denied"),
            ("consent-of-nobody", "/auth/oauth2/authorize?client_id=nobody"),
        ] {
            self.open(path).await;
            self.look(name).await;
        }
        self.server.client().register(&self.ada()).await.is(200);
        self.open("/login?next=/account").await;
        self.type_credentials("not the password").await;
        self.browser.submit("form[action='/auth/login']").await;
        self.look("login-wrong").await;
        self.open("/register").await;
        self.type_credentials(PASSWORD).await;
        self.browser.submit("form[action='/auth/register']").await;
        self.look("register-taken").await;
        // Another account, until it is locked out.
        let guess = json!({ "email": "locked@example.com", "password": "not the password" });
        while self.server.client().post("/auth/login", &guess).await.status != 429 {}
        self.open("/login").await;
        self.browser.fill_by_name("email", "locked@example.com").await;
        self.browser.fill_by_name("password", "not the password").await;
        self.browser.submit("form[action='/auth/login']").await;
        self.look("locked-out").await;
    }

    /// Mailed links that are opened while signed out.
    async fn mailed_links(&self) {
        self.open("/login").await;
        self.browser.fill_by_id("email", &self.ada()).await;
        self.browser.submit_by("button[formaction='/auth/magic-link/send']").await;
        self.look("link-mailed").await;
        self.open(&self.link("/magic-link/verify").await).await;
        self.look("magic-link").await;
        // Requested in another browser, so that this one types the code.
        let other = self.server.client();
        let form = [("email", self.ada())];
        Answer::read(other.request(Method::POST, "/auth/magic-link/send").form(&form)).await.is(200);
        self.open(&self.link("/magic-link/verify").await).await;
        self.look("magic-link-elsewhere").await;

        self.open("/forgot-password").await;
        self.browser.fill_by_name("email", &self.ada()).await;
        self.browser.submit("form[action='/auth/forgot-password']").await;
        self.look("reset-mailed").await;
        self.browser.fill_by_name("code", "AAAA-AAAA").await;
        self.browser.fill_by_name("password", PASSWORD).await;
        self.browser.submit("form[action='/auth/reset-password']").await;
        self.look("reset-code-wrong").await;
        self.open(&self.link("/reset-password").await).await;
        self.look("reset").await;
        self.browser.fill_by_name("password", PASSWORD).await;
        self.browser.submit("form[action='/auth/reset-password']").await;
        self.look("reset-done").await;

        // Bob's address is not verified: the link that he requested in another browser claims the account.
        let bob = self.server.client();
        bob.register(&self.bob()).await.is(200);
        bob.log_in(&self.bob()).await.is(200);
        bob.post("/auth/send-verification", &json!({})).await.is(200);
        self.open(&self.link("/verify-email").await).await;
        self.look("verification-claims").await;
        self.sign_in(&self.bob(), PASSWORD, "/account/sign-in").await;
        self.browser.submit("form[action='/auth/send-verification']").await;
        self.look("verification-mailed").await;
        self.open(&self.link("/verify-email").await).await;
        self.look("verified").await;
        self.sign_out().await;
    }

    /// Fields that every account has to fill: at the registration, or after a magic link created the account.
    async fn required_fields(&self) {
        self.open("/register").await;
        self.look("register-profile").await;
        self.open("/login").await;
        self.browser.fill_by_id("email", &self.ada()).await;
        self.browser.submit_by("button[formaction='/auth/magic-link/send']").await;
        self.open(&self.link("/magic-link/verify").await).await;
        self.browser.submit("form[action='/auth/magic-link/verify']").await;
        self.look("complete-profile").await;
        self.browser.run(UNGUARDED, json!([])).await;
        self.browser.submit("form[action='/complete-profile']").await;
        self.look("complete-profile-empty").await;
    }

    async fn invitations(&self) {
        // Another browser of Ada, in which she connects a program while she belongs to no tenant.
        let ada = self.server.client();
        ada.log_in(&self.ada()).await.is(200);
        Program::connect(self.server, &Database::Sqlite, &ada, "An agent", "notes:read").await;
        let new = self.invite(&format!("new-{}@example.com", self.language), "acme");
        self.open(&new).await;
        self.look("register-invited").await;
        let ada = self.invite(&self.ada(), "acme");
        self.open(&ada).await;
        self.look("invited").await;
        self.sign_in(&self.bob(), PASSWORD, "/").await;
        self.look("home-signed-in").await;
        self.open(&ada).await;
        self.look("invited-other").await;
        self.open("/login").await;
        self.look("login-as-other").await;
        self.sign_out().await;
        self.sign_in(&self.ada(), PASSWORD, &ada).await;
        self.look("invited-signed-in").await;
        self.browser.submit("form[action='/auth/invitations/accept']").await;
        self.look("invited-joined").await;
    }

    /// A program requests consent from Ada in one tenant and then two, and from Bob in none. Then a device does.
    async fn consent(&self) {
        let callback = "http://127.0.0.1:9/callback";
        let words = ["client", "create", "An agent <of> somebody", "--redirect-uri", callback, "--public", "--json"];
        let made: Value = serde_json::from_str(&self.run(&words)).unwrap();
        let path = format!(
            "/auth/oauth2/authorize?response_type=code&client_id={}&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback\
             &scope=notes%3Aread%20notes%3Awrite&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256",
            made["client_id"].as_str().unwrap()
        );
        self.open(&path).await;
        self.look("consent-one-tenant").await;
        self.run(&["tenant", "add-member", "globex-with-a-rather-long-name", &self.ada(), "--unverified"]);
        self.open(&path).await;
        self.look("consent-tenants").await;
        self.sign_out().await;
        self.sign_in(&self.bob(), PASSWORD, &path).await;
        self.look("consent").await;
        self.device(made["client_id"].as_str().unwrap()).await;
        self.sign_out().await;
    }

    /// The account and its sections, empty and full.
    async fn account(&self) {
        self.sign_in(&self.ada(), PASSWORD, "/account").await;
        for page in ["profile", "sign-in", "second-factor", "devices", "organisations", "programs", "tokens", "data"] {
            self.open(&format!("/account/{page}")).await;
            self.look(&format!("account-{page}")).await;
            self.browser.run(OPENED, json!([])).await;
            self.look(&format!("account-{page}-opened")).await;
        }
        self.browser.fill_by_id("delete-confirm", "somebody@example.com").await;
        self.browser.fill_by_id("delete-password", PASSWORD).await;
        self.browser.submit("form:has(#delete-confirm)").await;
        self.look("account-deletion-wrong").await;
        self.open("/account/profile").await;
        self.browser.fill_by_name("profile_display_name", "Ada Lovelace").await;
        self.browser.submit("#profile form").await;
        self.look("account-profile-saved").await;
        self.open("/account/tokens").await;
        self.browser.fill_by_id("token-name", "Nightly export of everything that there is").await;
        self.browser.submit("form:has(#token-name)").await;
        self.look("new-token").await;
        // A passkey, in addition to another browser and a program.
        let authenticator = self.browser.authenticator().await;
        self.open("/account/sign-in").await;
        self.browser.fill_by_id("passkey-password", PASSWORD).await;
        self.browser.submit("form[data-add]").await;
        self.browser.waits_for("//*[@id='passkeys']//p[@role='status']").await;
        self.look("account-passkeys").await;
        self.open("/account/tokens").await;
        self.look("account-tokens-listed").await;
        // The virtual authenticator would sign in by itself on every prompt.
        for passkey in self.browser.passkeys(&authenticator).await {
            self.browser.forgets_passkey(&authenticator, &passkey).await;
        }
    }

    async fn another_address(&self) {
        self.open("/account/sign-in").await;
        self.browser.fill_by_id("new-email", &format!("ada.new-{}@example.com", self.language)).await;
        self.browser.fill_by_id("email-password", PASSWORD).await;
        self.browser.submit("form:has(#new-email)").await;
        self.look("email-change-mailed").await;
        self.open("/account/sign-in").await;
        self.look("account-code").await;
        let link = self.link("/change-email/confirm").await;
        self.open(&link).await;
        self.look("email-change").await;
        self.browser.forgets_cookie("svc_email_change").await;
        self.open(&link).await;
        self.look("email-change-elsewhere").await;
    }

    /// Turns the second factor on, and passes its challenge. `false` without an authenticator.
    async fn second_factor(&self) -> bool {
        self.open("/account/second-factor").await;
        self.browser.submit("form[action='/auth/2fa/enroll']").await;
        self.look("enroll").await;
        let secret = self.browser.texts("code").await.remove(0).replace(' ', "");
        self.browser.fill_by_name("code", "000000").await;
        self.browser.submit("form[action='/auth/2fa/verify']").await;
        self.look("enroll-wrong").await;
        let Some(code) = authenticator_code(&secret) else { return false };
        self.browser.fill_by_name("code", &code).await;
        self.browser.submit("form[action='/auth/2fa/verify']").await;
        self.look("backup-codes").await;
        let codes = self.browser.texts("code").await;
        self.open("/account/second-factor").await;
        self.look("account-two-factor").await;
        self.browser.run(OPENED, json!([])).await;
        self.look("account-two-factor-opened").await;
        self.sign_out().await;
        self.sign_in(&self.ada(), PASSWORD, "/account/devices").await;
        self.look("challenge").await;
        self.browser.fill_by_name("code", "000000").await;
        self.browser.submit("form[action='/auth/2fa/challenge']").await;
        self.look("challenge-wrong").await;
        self.browser.fill_by_id("backup-code", &codes[0]).await;
        self.browser.submit("form:has(#backup-code)").await;
        self.browser.waits_for("//section[@id='sessions']").await;
        self.sign_out().await;
        true
    }

    /// Bob changes his address, undoes that, and deletes his account. A user without a password opens the account page.
    async fn the_end(&self) {
        self.sign_in(&self.bob(), PASSWORD, "/account/sign-in").await;
        self.browser.fill_by_id("new-email", &format!("bob.new-{}@example.com", self.language)).await;
        self.browser.fill_by_id("email-password", PASSWORD).await;
        self.browser.submit("form:has(#new-email)").await;
        self.open(&self.link("/change-email/confirm").await).await;
        self.browser.submit("form[action='/auth/change-email/confirm']").await;
        self.look("email-changed").await;
        self.open(&self.link("/change-email/undo").await).await;
        self.look("email-undo").await;
        self.browser.submit("form[action='/auth/change-email/undo']").await;
        self.look("email-undone").await;

        let cleo = format!("cleo-{}@example.com", self.language);
        self.open("/login?next=/account/sign-in").await;
        self.browser.fill_by_id("email", &cleo).await;
        self.browser.submit_by("button[formaction='/auth/magic-link/send']").await;
        self.open(&self.link("/magic-link/verify").await).await;
        self.browser.submit("form[action='/auth/magic-link/verify']").await;
        self.browser.waits_for("//section[@id='password']").await;
        self.look("account-without-password").await;
        self.open("/account/data").await;
        self.browser.fill_by_id("delete-confirm", &cleo).await;
        self.browser.submit("form:has(#delete-confirm)").await;
        self.look("deleted").await;
    }

    fn ada(&self) -> String {
        format!("ada-{}@example.com", self.language)
    }

    fn bob(&self) -> String {
        format!("bob-{}@example.com", self.language)
    }

    /// Passkeys need a host name: browsers refuse them for IP addresses.
    fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address().replace("127.0.0.1", "localhost"))
    }

    async fn open(&self, path: &str) {
        self.browser.open(&self.at(path)).await;
    }

    fn run(&self, words: &[&str]) -> String {
        let url = Database::Sqlite.url();
        let words = [words, &["--database", &url]].concat();
        let ended = tokio::task::block_in_place(|| gatewright(self.server.folder(), &words, ""));
        assert_eq!(ended.status, 0, "{words:?}: {ended:?}");
        ended.out
    }

    async fn type_credentials(&self, password: &str) {
        self.browser.fill_by_name("email", &self.ada()).await;
        self.browser.fill_by_name("password", password).await;
    }

    async fn sign_in(&self, email: &str, password: &str, next: &str) {
        let query = reqwest::Url::parse_with_params("http://x", [("next", next)]).unwrap().query().unwrap().to_owned();
        self.open(&format!("/login?{query}")).await;
        self.browser.fill_by_name("email", email).await;
        self.browser.fill_by_name("password", password).await;
        self.browser.submit("form[action='/auth/login']").await;
        self.browser.waits_for("//body[not(.//form[@action='/auth/login'])]").await;
    }

    async fn sign_out(&self) {
        self.open("/").await;
        self.browser.submit("form[action='/auth/logout']").await;
        self.browser.waits_for("//body[not(.//form[@action='/auth/logout'])]").await;
    }

    /// The path of the latest mailed link of this kind. Waits for one that it has not returned before: a submitted form
    /// may still be in progress.
    async fn link(&self, kind: &str) -> String {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let mails = self.server.client().get("/dev/mail.json").await.is(200).json();
            let links = mails.as_array().unwrap().iter().filter_map(|mail| mail["links"].as_array()).flatten();
            let latest = links.filter_map(Value::as_str).find(|link| link.contains(kind));
            if let Some(link) = latest.filter(|link| self.links.borrow_mut().insert((*link).to_owned())) {
                return path_of(link);
            }
            assert!(Instant::now() < deadline, "no further link to {kind} was mailed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Invites an address, and returns the path of the link.
    fn invite(&self, email: &str, tenant: &str) -> String {
        let said = self.run(&["user", "invite", email, "--tenant", tenant]);
        let link = said.split_whitespace().find(|word| word.contains("/register?invite=")).expect("it prints the link");
        path_of(link)
    }

    /// Waits until the page's refusal, if any, is inside the window: the page scrolls after it is drawn.
    async fn sees_refusal(&self, name: &str) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while let Some(top) = self.browser.run(REFUSAL, json!([])).await.as_f64() {
            assert!(Instant::now() < deadline, "{name}: the refusal is not in view, at {top}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Checks the current page on a phone and on a desktop, light and dark.
    async fn look(&self, name: &str) {
        self.sees_refusal(name).await;
        for (width, height) in [(390, 844), (1280, 900)] {
            for scheme in ["light", "dark"] {
                let shown = format!("{name}-{}-{width}-{scheme}", self.language);
                self.browser.emulates(width, height, scheme).await;
                let found = self.browser.run_with(("axe", self.axe), EXAMINE).await;
                assert_eq!(found["violations"], json!([]), "{shown}: {found:#}");
                assert_eq!(found["wider"], json!(0), "{shown} scrolls sideways: {found:#}");
                let page = self.browser.run(PAGE, json!([])).await;
                assert_eq!(page["language"], self.language, "{shown}");
                assert!(page["ways"].as_u64().unwrap() > 0, "{shown} leads nowhere");
                assert_eq!(page["cut"], json!([]), "{shown}: texts are cut off");
                self.browser.whole_picture(&shown).await;
            }
        }
        self.seen.borrow_mut().insert(name.to_owned());
    }
}

/// The path and query of an address.
fn path_of(link: &str) -> String {
    let (_, rest) = link.split_once("://").unwrap();
    rest[rest.find('/').unwrap()..].to_owned()
}
