//! The docs page in a real browser that can reach only this computer: sign in, try calls, sign out.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Browser, Database, Launch, PASSWORD, Scripts, Server, node_tools};

const NOTES: &str = r#"
[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "title"
type = "string"
required = true
"#;

/// Opens an operation of the page and executes it.
const EXECUTE: &str = r#"
const [operation, done] = arguments;
const block = () => document.getElementById(operation);
const until = (find, then, tries = 200) => {
  const found = find();
  if (found) then(found);
  else if (tries) setTimeout(() => until(find, then, tries - 1), 25);
  else done({ missing: operation, page: document.body.innerText.slice(0, 2000) });
};
until(block, () => {
  if (!block().classList.contains("is-open")) block().querySelector(".opblock-summary-control").click();
  // The page redraws an operation shortly after it was opened; clicks before that are lost.
  until(() => block().querySelector(".btn.execute"), () => setTimeout(() => {
    block().querySelector(".btn.execute").click();
    done({});
  }, 1000));
});
"#;

/// Everything that the page has loaded, and everything that its policy blocked.
const LOADED: &str = r#"
const [done] = arguments;
done(performance.getEntriesByType("resource").map(entry => entry.name));
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_docs_page_signs_in_and_sends_requests_without_any_other_host() {
    for csrf in ["", "[csrf]\nenabled = true\n"] {
        let server = Launch::configured(&format!("{csrf}{NOTES}")).start(&Database::Sqlite).await;
        let Some(browser) = Browser::start(Scripts::On).await else { return };
        try_calls(&server, &browser, if csrf.is_empty() { "plain" } else { "csrf" }).await;
    }
}

async fn try_calls(server: &Server, browser: &Browser, shown: &str) {
    let origin = format!("http://{}", server.address());
    let picture = async |name: &str| browser.picture(&format!("docs-{shown}-{name}")).await;
    browser.open(&format!("{origin}/api/docs")).await;
    browser.sees("Create a record of notes").await;
    browser.sees("Create an account").await;
    picture("stranger").await;

    // Without a sign-in, the call itself is refused.
    execute(browser, "notes", "listNotes", 401).await;

    browser.follow("Sign in").await;
    browser.sees("Email me a link instead").await;
    browser.follow("Create one").await;
    browser.fill("Email", "ada@example.com").await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Create account").await;
    browser.sees("Signed in as ada@example.com").await;
    assert_eq!(browser.path().await, "/api/docs");

    execute(browser, "notes", "createNotes", 201).await;
    picture("made").await;
    execute(browser, "notes", "listNotes", 200).await;
    browser.waits_for("//*[@id='operations-notes-listNotes']//*[contains(@class,'live-responses-table')]//*[contains(., '\"total\": 1')]").await;
    picture("listed").await;

    let loaded = browser.run(LOADED, json!([])).await;
    let loaded: Vec<&str> = loaded.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(loaded.len() >= 6, "{loaded:?}");
    for address in &loaded {
        let own = address.starts_with(&format!("{origin}/")) || address.starts_with("data:");
        assert!(own, "{address} is elsewhere");
    }

    browser.press("Sign out").await;
    browser.waits_for("//*[@id='caller']//a[normalize-space(.)='Sign in']").await;
    execute(browser, "notes", "createNotes", 401).await;
}

/// Executes an operation with the page's default input, and waits for this status.
async fn execute(browser: &Browser, tag: &str, operation: &str, status: u16) {
    let id = format!("operations-{tag}-{operation}");
    assert_eq!(browser.run(EXECUTE, json!([id])).await, json!({}));
    let answered = format!(
        "//*[@id='{id}']//*[contains(@class,'live-responses-table')]\
         //td[contains(@class,'response-col_status') and starts-with(normalize-space(.), '{status}')]"
    );
    browser.waits_for(&answered).await;
}

/// Opens operations of every kind and executes one of them.
const OPEN: &str = r#"
const done = arguments[arguments.length - 1];
const operations = ["createNotes", "listNotes", "updateNotes", "deleteNotes"];
const blocks = () => operations.map((name) => document.getElementById(`operations-notes-${name}`));
const until = (holds, then, tries = 2400) => holds() ? then() : tries ? setTimeout(() => until(holds, then, tries - 1), 25) : done(false);
until(() => blocks().every(Boolean), () => {
  blocks().filter((block) => !block.classList.contains("is-open")).forEach((block) => block.querySelector(".opblock-summary-control").click());
  until(() => blocks().every((block) => block.querySelector(".btn.execute")), () => setTimeout(() => {
    blocks()[1].querySelector(".btn.execute").click();
    until(() => blocks()[1].querySelector(".curl-command button[aria-label]"), () => done(true));
  }, 1000));
});
"#;

/// The findings of axe, and how far the page scrolls sideways.
const EXAMINE: &str = r#"
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done({
  violations: violations.map(({ id, nodes }) => ({ id, nodes: nodes.slice(0, 5).map(({ html, failureSummary }) => [html, failureSummary]) })),
  wider: Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth),
  dark: document.documentElement.classList.contains("dark-mode"),
}), (error) => done({ violations: String(error) }));
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_docs_page_is_accessible_in_both_color_schemes_and_on_a_phone() {
    let server = Launch::configured(NOTES).start(&Database::Sqlite).await;
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let Some(tools) = node_tools() else { return };
    let axe = fs::read_to_string(tools.join("node_modules/axe-core/axe.min.js")).expect("axe-core is installed");
    for (width, height) in [(390, 844), (1280, 900)] {
        for scheme in ["light", "dark"] {
            let shown = format!("{width}, {scheme}");
            browser.emulates(width, height, scheme).await;
            browser.open(&format!("http://{}/api/docs", server.address())).await;
            browser.sees("Create a record of notes").await;
            // The opened operations are the same at any width, and slow to check.
            let states: &[bool] = if width == 390 { &[false, true] } else { &[false] };
            for opened in states.iter().copied() {
                if opened {
                    assert_eq!(browser.run(OPEN, json!([])).await, json!(true), "{shown}");
                }
                let found = browser.run_with(("axe", &axe), EXAMINE).await;
                assert_eq!(found["violations"], json!([]), "{shown}, opened: {opened}: {found:#}");
                assert_eq!(found["wider"], json!(0), "{shown} scrolls sideways: {found:#}");
                assert_eq!(found["dark"], json!(scheme == "dark"), "{shown}");
            }
            browser.picture(&format!("docs-{width}-{scheme}")).await;
        }
    }
}
