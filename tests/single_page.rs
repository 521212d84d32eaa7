//! A single-page application on its own origin: its users leave it for a mailed link, a password reset or a provider,
//! and return signed in to the page where they began.

use std::fs;

use serde_json::Value;

use crate::harness::{Browser, Database, IdentityProvider, Launch, PASSWORD, Pages, Scripts, Server, Site};

const ADA: &str = "ada@example.com";

/// The application. `BASE` is the address of the service.
const APPLICATION: &str = r##"<!doctype html>
<title>Application</title>
<p id="who">Asking</p>
<label for="email">Your email</label><input id="email">
<button id="link">Mail me a link</button>
<button id="forgot">Forgot my password</button>
<button id="leave">Leave</button>
<a id="provider">Sign in with First</a>
<script>
  const base = "BASE", here = location.href;
  const email = () => document.querySelector("#email").value;
  const say = (text) => { document.querySelector("#who").textContent = text; };
  const send = async (path, body) => {
    const token = await (await fetch(base + "/auth/csrf", { credentials: "include" })).json();
    const headers = { "Content-Type": "application/json", "X-CSRF-Token": token.csrfToken };
    const init = { method: "POST", credentials: "include", headers, body: JSON.stringify(body) };
    const answer = await fetch(base + path, init);
    return answer.status + " " + await answer.text();
  };
  const show = async () => {
    const answer = await fetch(base + "/auth/me", { credentials: "include" });
    say(answer.ok ? "You are " + (await answer.json()).user.email : "You are nobody");
  };
  document.querySelector("#link").onclick = async () => say("Link: " + await send("/auth/magic-link/send", { email: email(), next: here }));
  document.querySelector("#forgot").onclick = async () => say("Reset: " + await send("/auth/forgot-password", { email: email(), next: here }));
  document.querySelector("#leave").onclick = async () => { await send("/auth/logout", {}); await show(); };
  document.querySelector("#provider").href = base + "/auth/oauth/first?next=" + encodeURIComponent(here);
  show();
</script>
"##;

struct Place {
    server: Server,
    provider: IdentityProvider,
    application: Pages,
}

impl Place {
    async fn start() -> Option<Self> {
        let mut server = Launch::dev().start(&Database::Sqlite).await;
        let base = format!("http://{}", server.address());
        let provider = IdentityProvider::start("ES256", "first.example", &format!("{base}/auth/oauth/first/callback"))?;
        let application = Site::default().text("", &APPLICATION.replace("BASE", &base)).serve().await;
        let origin = application.origin("127.0.0.1");
        let configuration = format!(
            "[browser_backend]\nallowed_origins = [\"{origin}\"]\n[auth]\nredirect_urls = [\"{origin}/board\"]\n\
             [auth.oauth]\nstate_secret = \"a secret for tests alone, long enough\"\n{}",
            provider.configuration("first"),
        );
        // The server and the application know each other's addresses only after both have started.
        server.kill();
        fs::write(server.folder().join("gatewright.toml"), configuration).unwrap();
        server.restart();
        Some(Self { server, provider, application })
    }

    /// A page of the application.
    fn page(&self, path: &str) -> String {
        format!("{}{path}", self.application.origin("127.0.0.1"))
    }

    /// The latest link of this kind that was mailed to Ada.
    async fn link(&self, kind: &str) -> String {
        let mails = self.server.client().get("/dev/mail.json").await.is(200).json();
        let links = mails.as_array().unwrap().iter().filter_map(|mail| mail["links"].as_array()).flatten();
        links.filter_map(Value::as_str).find(|link| link.contains(kind)).expect("a link was mailed").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_return_signed_in_after_a_link_a_reset_and_a_provider() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let Some(place) = Place::start().await else { return };
    let board = place.page("/board/42?tab=notes");

    browser.open(&board).await;
    browser.sees("You are nobody").await;
    browser.fill("Your email", ADA).await;
    browser.press("Mail me a link").await;
    browser.sees("Link: 200").await;
    browser.open(&place.link("/magic-link/verify").await).await;
    browser.press("Sign in").await;
    browser.arrives(&board).await;
    browser.sees("You are ada@example.com").await;
    browser.press("Leave").await;
    browser.sees("You are nobody").await;

    browser.fill("Your email", ADA).await;
    browser.press("Forgot my password").await;
    browser.sees("Reset: 200").await;
    browser.open(&place.link("/reset-password").await).await;
    browser.fill("New password", PASSWORD).await;
    browser.press("Set password").await;
    browser.sees("Password changed").await;
    browser.follow("Sign in").await;
    browser.fill("Email", ADA).await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Sign in").await;
    browser.arrives(&board).await;
    browser.sees("You are ada@example.com").await;
    browser.press("Leave").await;
    browser.sees("You are nobody").await;

    browser.follow("Sign in with First").await;
    browser.sees("Sign-in").await;
    assert!(browser.url().await.starts_with(&place.provider.issuer));
    browser.fill_by_name("login", "ann").await;
    browser.fill_by_name("password", "anything").await;
    browser.press("Sign-in").await;
    browser.press("Continue").await;
    browser.arrives(&board).await;
    browser.sees("You are ann@first.example").await;
}

/// A link with a `next` that is not allowed leads to the service itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_next_that_is_not_allowed_leads_to_the_service() {
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let Some(place) = Place::start().await else { return };
    let elsewhere = Pages::serve("<h1>elsewhere</h1>").await;
    let here = format!("http://{}/", place.server.address());
    for next in [
        place.page("/boards"),
        place.page("/board/../boards"),
        place.page("/board/%2e%2e/boards"),
        place.page("/board").replace("://", "://board@"),
        place.page("/board").replace("127.0.0.1", "127.0.0.1.example.com"),
        elsewhere.origin("127.0.0.1"),
    ] {
        let query = next.replace('%', "%25").replace('&', "%26");
        browser.open(&format!("{here}auth/oauth/first?next={query}")).await;
        // The provider asks for consent once, and then recognizes its user.
        browser.waits_for("//*[@name='login'] | //h1 | //button[normalize-space(.)='Continue']").await;
        if browser.texts("input[name=login]").await.len() == 1 {
            browser.fill_by_name("login", "ann").await;
            browser.fill_by_name("password", "anything").await;
            browser.press("Sign-in").await;
            browser.press("Continue").await;
        } else if browser.texts("button").await.iter().any(|name| name == "Continue") {
            browser.press("Continue").await;
        }
        browser.arrives(&here).await;
        browser.sees("Signed in as ann@first.example").await;
        browser.press("Sign out").await;
        browser.sees("create an account").await;
    }
}
