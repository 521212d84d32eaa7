//! The screens in a real browser: on a phone and on a desktop, light and dark, in both built-in languages, with a
//! product's name and color. axe-core finds nothing in any of them, and each has a link or a button.

use serde_json::{Value, json};

use crate::console::{EXAMINE, axe};
use crate::harness::{Browser, Database, Launch, PASSWORD, Scripts, Server};

const ADA: &str = "ada@example.com";

/// A color with too little contrast on light and on dark backgrounds, unless it is adjusted.
const BRANDED: &str =
    "[branding]\nname = \"Acme & Söhne\"\ncolor = \"#ffd400\"\nsupport_url = \"https://help.example.com\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_is_accessible_in_every_size_color_and_language() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let Some(axe) = axe() else { return };
    for (look, configuration) in [("plain", ""), ("branded", BRANDED)] {
        let server = Launch::configured(configuration).start(&Database::Sqlite).await;
        let at = |path: &str| format!("http://{}{path}", server.address());
        server.client().register(ADA).await.is(200);
        let link = mailed(&server).await;
        for language in ["en", "de"] {
            browser.reads(language).await;
            browser.open(&at("/login")).await;
            let outside = [
                ("login", "/login".to_owned()),
                ("register", "/register".to_owned()),
                ("forgot", "/forgot-password".to_owned()),
                ("expired", "/reset-password?token=x".to_owned()),
                ("magic-link", link.clone()),
                ("expired-magic-link", "/auth/magic-link/verify?token=x".to_owned()),
                ("missing", "/nowhere".to_owned()),
                ("home", "/".to_owned()),
            ];
            for (name, path) in outside {
                look_at(&browser, &axe, &at(&path), language, &format!("{look}-{name}")).await;
            }
            sign_in(&browser, &server).await;
            for page in ["sign-in", "second-factor", "devices", "tokens", "data"] {
                let (path, name) = (format!("/account/{page}"), format!("{look}-account-{page}"));
                look_at(&browser, &axe, &at(&path), language, &name).await;
            }
            browser.submit("form[action='/auth/logout']").await;
            browser.waits_for("//form[@action='/auth/login']").await;
        }
    }
}

/// Checks a page on a phone and on a desktop, light and dark.
async fn look_at(browser: &Browser, axe: &str, url: &str, language: &str, name: &str) {
    browser.open(url).await;
    for (width, height) in [(390, 844), (1280, 900)] {
        for scheme in ["light", "dark"] {
            let shown = format!("{name}-{language}-{width}-{scheme}");
            browser.emulates(width, height, scheme).await;
            let found = browser.run_with(("axe", axe), EXAMINE).await;
            assert_eq!(found["violations"], json!([]), "{shown}: {found:#}");
            assert_eq!(found["wider"], json!(0), "{shown} scrolls sideways: {found:#}");
            let page = browser.run(PAGE, json!([])).await;
            assert_eq!(page["language"], language, "{shown}");
            assert!(page["links"].as_u64().unwrap() > 0, "{shown} leads nowhere");
            browser.picture(&shown).await;
        }
    }
}

/// Facts about a page: its language, and the number of links and buttons in its main part.
const PAGE: &str = r#"
arguments[0]({
  language: document.documentElement.lang,
  links: document.querySelectorAll("main a[href], main button").length,
});
"#;

async fn sign_in(browser: &Browser, server: &Server) {
    browser.open(&format!("http://{}/login?next=/account/devices", server.address())).await;
    browser.fill_by_name("email", ADA).await;
    browser.fill_by_name("password", PASSWORD).await;
    browser.waits_for("//form[@action='/auth/login']").await;
    browser.submit("form[action='/auth/login']").await;
    browser.waits_for("//section[@id='sessions']").await;
}

/// A link that signs in. The tests only open its page.
async fn mailed(server: &Server) -> String {
    server.client().post("/auth/magic-link/send", &json!({ "email": ADA })).await.is(200);
    let mails = server.client().get("/dev/mail.json").await.is(200).json();
    let link = mails.as_array().unwrap().iter().find_map(|mail| mail["links"][0].as_str());
    let (_, path) = link.expect("a link was mailed").split_once("/auth/").unwrap();
    format!("/auth/{path}")
}

/// A chosen language persists, takes precedence over the browser's, and returns to the page where it was chosen.
#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_chooses_a_language_and_reads_mails_in_it() {
    let Some(browser) = Browser::start(Scripts::Off).await else { return };
    let server = Launch::dev().start(&Database::Sqlite).await;
    let at = |path: &str| format!("http://{}{path}", server.address());
    browser.open(&at("/login?next=/account")).await;
    browser.sees("Sign in").await;
    browser.follow("Deutsch").await;
    browser.sees("Anmelden").await;
    assert_eq!(browser.path().await, "/login?next=/account");
    browser.follow("Vergessen?").await;
    browser.fill("E-Mail-Adresse", "nobody@example.com").await;
    browser.press("Link senden").await;
    browser.sees("Sehen Sie in Ihre Mails").await;
    browser.open(&at("/login?next=/account")).await;
    browser.fill_by_id("email", ADA).await;
    browser.press("Stattdessen Link per Mail").await;
    browser.sees("Eine Mail mit einem Link ist unterwegs an ada@example.com.").await;
    let mails = server.client().get("/dev/mail.json").await.is(200).json();
    let mail = mails.as_array().unwrap().iter().find(|mail| mail["to"] == ADA).unwrap();
    assert_eq!(mail["subject"], "Anmeldung bei Gatewright");
    assert!(text(&mail["text"]).starts_with("Guten Tag,"), "{mail}");
    // A request in English gets a mail in English.
    let english = json!({ "email": "bob@example.com" });
    server.client().post("/auth/magic-link/send", &english).await.is(200);
    let mails = server.client().get("/dev/mail.json").await.is(200).json();
    let mail = mails.as_array().unwrap().iter().find(|mail| mail["to"] == "bob@example.com").unwrap();
    assert_eq!(mail["subject"], "Sign in to Gatewright");
    browser.open(&at("/login")).await;
    browser.follow("English").await;
    browser.sees("Sign in").await;
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
