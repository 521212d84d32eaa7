//! What the script of the pages adds to forms, in a real browser: by keyboard alone, without a second sending, and with codes
//! that send themselves.

use serde_json::{Value, json};

use crate::harness::{Browser, Database, Launch, PASSWORD, Scripts, Server};

const ADA: &str = "ada@example.com";
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// The element that has the focus: its id, or its words.
const FOCUS: &str =
    "const at = document.activeElement; arguments[0](at.id || at.getAttribute('aria-label') || at.textContent.trim());";

/// Sends the first form twice, and keeps the page. Each sending says whether the page prevented it.
const TWICE: &str = r#"
const form = document.forms[0], prevented = [];
form.noValidate = true;
addEventListener("submit", (event) => { prevented.push(event.defaultPrevented); event.preventDefault(); });
form.requestSubmit();
form.requestSubmit();
const state = () => [prevented, form.getAttribute("aria-busy"), [...form.querySelectorAll("button")].every((button) => button.disabled)];
setTimeout(() => arguments[0](state()), 200);
"#;

/// The rules of a new password that are ticked off.
const MET: &str =
    "arguments[0]([...document.querySelectorAll('[data-rule][data-met]')].map((rule) => rule.dataset.rule));";

async fn place() -> Option<(Browser, Server)> {
    let browser = Browser::start(Scripts::On).await?;
    Some((browser, Launch::dev().start(&Database::Sqlite).await))
}

fn at(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address())
}

/// Presses Tab until this element has the focus, and returns what had it in between.
async fn tab_to(browser: &Browser, wanted: &str) -> Vec<String> {
    let mut passed = Vec::new();
    for _ in 0..40 {
        browser.key(TAB).await;
        let focus = browser.run(FOCUS, json!([])).await.as_str().unwrap_or_default().to_owned();
        if focus == wanted {
            return passed;
        }
        passed.push(focus);
    }
    panic!("{wanted} is not reached: {passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_signs_in_and_opens_a_form_with_the_keyboard_alone() {
    let Some((browser, server)) = place().await else { return };
    server.client().register(ADA).await.is(200);
    browser.open(&at(&server, "/login?next=/account/sign-in")).await;
    assert_eq!(browser.run(FOCUS, json!([])).await, "email", "the first field has the focus");
    browser.types(ADA).await;
    assert!(tab_to(&browser, "password").await.is_empty(), "nothing is between address and password");
    browser.types(PASSWORD).await;
    // The password is shown and hidden again.
    assert!(tab_to(&browser, "Show the password").await.is_empty());
    let kind = "arguments[0](document.getElementById('password').type);";
    for expected in ["text", "password"] {
        browser.key(ENTER).await;
        assert_eq!(browser.run(kind, json!([])).await, expected);
    }
    assert_eq!(tab_to(&browser, "Sign in").await, ["Forgot?"]);
    browser.key(ENTER).await;
    browser.arrives(&at(&server, "/account/sign-in")).await;
    tab_to(&browser, "Change password").await;
    browser.key(ENTER).await;
    assert!(tab_to(&browser, "current-password").await.is_empty(), "the form is open, and next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_sent_once_and_a_new_password_is_ticked_off() {
    let Some((browser, server)) = place().await else { return };
    browser.open(&at(&server, "/login")).await;
    assert_eq!(browser.run(TWICE, json!([])).await, json!([[false, true], "true", true]));
    browser.open(&at(&server, "/register")).await;
    browser.fill("Email", ADA).await;
    for (password, met) in [
        ("short", json!(["personal"])),
        ("ada", json!([])),
        (ADA, json!(["length"])),
        ("correct horse battery", json!(["length", "personal"])),
    ] {
        browser.fill("Password", password).await;
        assert_eq!(browser.run(MET, json!([])).await, met, "{password}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_by_mail_is_sent_by_itself_and_a_wrong_one_is_told_at_its_field() {
    let Some((browser, server)) = place().await else { return };
    browser.open(&at(&server, "/login?next=/account/devices")).await;
    // An address that is none is told at its field, and kept.
    browser.fill("Email", "ada@").await;
    browser.press("Email me a code instead").await;
    browser.waits_for("//*[@id='email' and @aria-describedby='email-message' and @value='ada@']").await;
    browser.fill("Email", ADA).await;
    browser.press("Email me a code instead").await;
    browser.sees("A mail with a code of six digits is on its way to ada@example.com.").await;
    let waits = "arguments[0](document.querySelector('button[data-wait]').disabled);";
    assert_eq!(browser.run(waits, json!([])).await, true, "another mail has to wait");
    let code = code(&server).await;
    let wrong = if code == "000000" { "111111" } else { "000000" };
    browser.fill("Code from the mail", wrong).await;
    browser.waits_for("//*[@id='code' and contains(@aria-describedby, 'code-message')]").await;
    browser.sees("invalid or expired code").await;
    browser.fill("Code from the mail", &code).await;
    browser.arrives(&at(&server, "/account/devices")).await;
}

/// The code in the latest mail.
async fn code(server: &Server) -> String {
    let mails = server.client().get("/dev/mail.json").await.is(200).json();
    let text = mails.as_array().unwrap().iter().find_map(|mail| mail["text"].as_str().filter(|_| mail["to"] == ADA));
    let is_code = |word: &&str| word.len() == 6 && word.bytes().all(|byte| byte.is_ascii_digit());
    let text: &str = text.unwrap_or_else(|| panic!("{}", Value::clone(&mails)));
    text.split(|letter: char| !letter.is_ascii_digit()).find(is_code).unwrap_or_else(|| panic!("{text}")).to_owned()
}
