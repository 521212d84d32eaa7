//! The console in a real browser that can reach only this computer: every page on a phone and on a desktop, light and
//! dark; stored values that try to run as scripts; and the tasks of operators.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::accounts::authenticator_code;
use crate::connections::Program;
use crate::harness::{
    Answer, Browser, Client, Database, Launch, PASSWORD, Receiver, Scripts, Server, gatewright, node_tools,
};
use crate::outbox::until;

const ADA: &str = "ada@example.com";

/// Stored attacks. Each would set `pwned` or create an element with that name.
const ATTACKS: [&str; 8] = [
    "<img src=x onerror=\"window.pwned=1\">",
    "<script>window.pwned=1</script>",
    "\"><svg onload=window.pwned=1>",
    "</textarea><pwned-element></pwned-element>",
    "' onfocus='window.pwned=1' autofocus='",
    "javascript:window.pwned=1",
    "../../../pwned?x=<pwned-element>",
    "{{constructor.constructor('window.pwned=1')()}}\u{202e}",
];

fn launch(receiver: &str) -> Launch {
    Launch::configured(&format!(
        "[authorization_server]\nenabled = true\n[email]\nsmtp_url = \"smtp://127.0.0.1:9\"\nfrom = \"a@example.com\"\n\
         [auth]\njwt_secret = \"a secret for tests alone, long enough\"\n\
         [audit]\nentities = true\n[auth.limits.login_account]\nmax_attempts = 3\n\
         [outbox]\nenabled = true\nmax_attempts = 1\npoll_interval_ms = 100\n\
         [[outbox.consumer]]\nname = \"bad\"\nevent = \"entity.created\"\nurl = \"{receiver}/bad\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nentities = [\"posts\"]\n\
         [[entity]]\nname = \"posts\"\nowner_field = \"user_id\"\nsoft_delete = true\nsearch_fields = [\"title\"]\n\
         label = \"title\"\ndescription = \"What people write.\"\n\
         [[entity.field]]\nname = \"title\"\ntype = \"string\"\nrequired = true\n\
         [[entity.field]]\nname = \"body\"\ntype = \"text\"\n\
         [[entity.field]]\nname = \"extra\"\ntype = \"json\"\n\
         [[entity.field]]\nname = \"state\"\ntype = \"enum\"\nvalues = [\"draft\", \"out\"]\n\
         [[entity]]\nname = \"invoices\"\nmulti_tenant = true\n\
         [[entity.field]]\nname = \"number\"\ntype = \"int\"\n"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_on_every_screen_and_no_value_becomes_script() {
    let (_receiver, url) = Receiver::start().await;
    let server = launch(&url).start(&Database::Sqlite).await;
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let Some(axe) = axe() else { return };
    if !enter(&server, &browser, &Database::Sqlite).await {
        return;
    }
    let (post, user) = plant(&server).await;
    let event = dead_delivery(&server, &browser).await;
    let pages = [
        ("overview", "/admin".to_owned(), "Requests"),
        ("users", "/admin/users".to_owned(), ADA),
        ("users-none", "/admin/users?q=nobody".to_owned(), "No address begins with that."),
        ("user", format!("/admin/users/{user}"), "mallory@example.com"),
        ("invitations", "/admin/invitations".to_owned(), "No invitation is open."),
        ("services", "/admin/service-accounts".to_owned(), "There is no service account."),
        ("tenants", "/admin/tenants".to_owned(), "No tenant has members yet."),
        ("tenant", "/admin/tenants/acme".to_owned(), "Nobody belongs to this tenant."),
        ("records", "/admin/records".to_owned(), "posts"),
        ("list", "/admin/records/posts".to_owned(), "<script>"),
        ("record", format!("/admin/records/posts/{post}"), "Who changed it"),
        ("explain", "/admin/explain".to_owned(), "Explain access"),
        ("live", "/admin/events".to_owned(), "The same stream for a program"),
        ("outbox", "/admin/outbox".to_owned(), "the endpoint answered 500"),
        ("delivery", format!("/admin/outbox/{event}"), "Last error of bad"),
        ("mails", "/admin/mails".to_owned(), "the mail server cannot be reached"),
        ("mails-none", "/admin/mails?status=expired".to_owned(), "No mail matches."),
        ("lockouts", "/admin/lockouts".to_owned(), "Lockouts"),
        ("audit", "/admin/audit".to_owned(), "login.succeeded"),
        ("system", "/admin/system".to_owned(), "Pending migrations"),
        ("missing", "/admin/nothing".to_owned(), "There is no such page."),
    ];
    for (width, height) in [(390, 844), (1280, 900)] {
        for scheme in ["light", "dark"] {
            browser.emulates(width, height, scheme).await;
            for (name, path, words) in &pages {
                let shown = format!("{name} at {width}, {scheme}");
                browser.open(&format!("http://{}{path}", server.address())).await;
                browser.sees(words).await;
                let found = browser.run_with(("axe", &axe), EXAMINE).await;
                assert_eq!(found["violations"], json!([]), "{shown}: {found:#}");
                assert_eq!(found["pwned"], json!(false), "{shown}: {found:#}");
                assert_eq!(found["wider"], json!(0), "{shown} scrolls sideways: {found:#}");
                let origin = format!("http://{}/", server.address());
                for address in found["loaded"].as_array().unwrap() {
                    assert!(address.as_str().unwrap().starts_with(&origin), "{shown} loads {address}");
                }
                browser.picture(&format!("console-{name}-{width}-{scheme}")).await;
            }
        }
    }
}

/// The findings of axe, whether a value became a script or markup, how far the page scrolls sideways, and what it
/// loaded.
pub(crate) const EXAMINE: &str = r#"
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done({
  violations: violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html, failureSummary }) => [html, failureSummary]) })),
  pwned: "pwned" in window || document.querySelector("pwned-element, main img, main script, svg[onload]") !== null,
  wider: Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth),
  loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
}), (error) => done({ violations: String(error) }));
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_and_fixes_problems() {
    let (receiver, url) = Receiver::start().await;
    let server = launch(&url).start(&Database::Sqlite).await;
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let at = |path: &str| format!("http://{}{path}", server.address());

    // An anonymous visitor is redirected to the sign-in and back. A user without the role gets an explanation.
    browser.open(&at("/admin/outbox")).await;
    browser.sees("Sign in").await;
    assert_eq!(browser.path().await, "/login?next=%2Fadmin%2Foutbox");
    let slash = server.client().get("/admin/").await.is(308);
    assert_eq!(slash.header("location"), "/admin");
    if !enter(&server, &browser, &Database::Sqlite).await {
        return;
    }

    // The webhook is failing.
    let bob = server.client();
    bob.register("bob@example.com").await.is(200);
    bob.log_in("bob@example.com").await.is(200);
    bob.post("/auth/forgot-password", &json!({ "email": "bob@example.com" })).await.is(200);
    let post = bob.post("/posts", &json!({ "title": "first" })).await.is(201).json();
    let post = post["data"]["id"].as_str().unwrap().to_owned();
    dead_delivery(&server, &browser).await;
    browser.open(&at("/admin")).await;
    browser.follow("Outbox").await;
    browser.sees("the endpoint answered 500").await;
    receiver.lock().takes_bad = true;
    browser.press("Replay").await;
    browser.sees("It is delivered again.").await;
    until("the receiver has the event", async || !receiver.records("/bad").is_empty()).await;

    // A customer gets no mail.
    browser.follow("Mail queue").await;
    browser.fill_by_name("recipient", "bob@example.com").await;
    browser.arrives(&at("/admin/mails?recipient=bob%40example.com")).await;
    browser.sees("Password reset").await;
    browser.sees("the mail server cannot be reached").await;
    browser.press("Discard").await;
    browser.sees("Discard this mail to bob@example.com? It is not sent.").await;
    browser.submit_by("dialog button.danger").await;
    browser.sees("The mail is discarded.").await;

    // A customer is locked out.
    let guess = json!({ "email": "bob@example.com", "password": "not the password" });
    while server.client().post("/auth/login", &guess).await.status != 429 {}
    browser.follow("Lockouts").await;
    browser.sees("too many failed sign-ins to this account").await;
    browser.press("Unlock").await;
    browser.sees("Nobody is locked out.").await;
    server.client().log_in("bob@example.com").await.is(200);

    // Search while typing. The address contains the search, and the back button restores it.
    browser.follow("Users").await;
    browser.fill_by_name("q", "bob").await;
    browser.arrives(&at("/admin/users?q=bob")).await;
    browser.follow("bob@example.com").await;
    browser.sees("Sign out everywhere").await;
    browser.back().await;
    browser.arrives(&at("/admin/users?q=bob")).await;
    browser.follow("bob@example.com").await;
    browser.sees("Sign out everywhere").await;
    browser.press("Sign out everywhere").await;
    browser.sees("End all sessions and JSON web tokens of bob@example.com?").await;
    browser.waits_for("//dialog//button[normalize-space(.)='Cancel']").await;
    browser.press("Cancel").await;
    bob.get("/auth/me").await.is(200);

    // A customer's program misbehaves.
    let program = Program::connect(&server, &Database::Sqlite, &bob, "Hasty Agent", "posts:read").await;
    program.get(&server, "/posts").await.is(200);
    browser.open(&browser.url().await).await;
    browser.sees("Hasty Agent").await;
    browser.press("Disconnect").await;
    browser.sees("Disconnect Hasty Agent from bob@example.com? Its tokens stop working at once.").await;
    browser.waits_for("//dialog//button[normalize-space(.)='Cancel']").await;
    browser.press("Cancel").await;
    program.get(&server, "/posts").await.is(200);
    browser.press("Disconnect").await;
    browser.sees("Disconnect Hasty Agent from bob@example.com? Its tokens stop working at once.").await;
    browser.submit_by("dialog button.danger").await;
    browser.sees("The program is disconnected.").await;
    program.get(&server, "/posts").await.is(401);
    program.refresh(&server).await.is(400);
    browser.sees("No program is connected.").await;

    // Who changed this record?
    browser.open(&at(&format!("/admin/records/posts/{post}"))).await;
    browser.sees("Who changed it").await;
    browser.fill_by_name("title", " and second").await;
    browser.press("Save").await;
    browser.sees("The record is saved.").await;
    browser.sees("PATCH /admin/api/records/{entity}/{id}").await;
    browser.sees("first and second").await;
    assert_eq!(bob.get(&format!("/posts/{post}")).await.is(200).json()["data"]["title"], "first and second");
    browser.press("Delete").await;
    browser.sees("The record is in the trash.").await;
    bob.get(&format!("/posts/{post}")).await.is(404);
    browser.press("Undo").await;
    browser.sees("Who changed it").await;
    bob.get(&format!("/posts/{post}")).await.is(200);

    // Later, from the trash.
    browser.press("Delete").await;
    browser.sees("The record is in the trash.").await;
    browser.open(&at("/admin/records/posts?trashed=only")).await;
    browser.waits_for(&format!("//a[@title='{post}']")).await;
    browser.open(&at(&format!("/admin/records/posts/{post}"))).await;
    browser.sees("This record is deleted. Programs do not see it.").await;
    browser.press("Restore").await;
    browser.sees("The record is restored.").await;
    bob.get(&format!("/posts/{post}")).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_of_the_banner_creates_an_administrator() {
    let server = Launch::dev().start(&Database::Sqlite).await;
    let line = server.wait_for_output(|lines| lines.iter().find(|line| line.starts_with("for the console")).cloned());
    assert_eq!(
        line,
        "for the console: gatewright user create EMAIL --admin --dev, then turn on the second factor at /account"
    );
    let database = Database::Sqlite.url();
    let words = ["user", "create", ADA, "--admin", "--dev", "--password-stdin", "--database", &database];
    let made = tokio::task::block_in_place(|| gatewright(server.folder(), &words, PASSWORD));
    assert_eq!(made.status, 0, "{made:?}");
    let client = server.client();
    let answer = client.log_in(ADA).await.is(200).json();
    assert_eq!(answer["user"]["roles"], json!(["user", "admin"]));
    assert_eq!(client.get("/admin/api/me").await.is(403).json()["code"], "two_factor_required");
}

/// Registers Ada in the browser, gives her the role, and verifies her second factor. `false` without an authenticator.
pub(crate) async fn enter(server: &Server, browser: &Browser, database: &Database) -> bool {
    let at = |path: &str| format!("http://{}{path}", server.address());
    browser.open(&at("/register?next=/admin")).await;
    browser.fill("Email", ADA).await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Create account").await;
    browser.sees("The console is closed to this account").await;
    browser.sees("the role \"admin\" is required").await;
    let url = database.url();
    let words = ["user", "set-roles", ADA, "user,admin", "--unverified", "--database", &url];
    let given = tokio::task::block_in_place(|| gatewright(server.folder(), &words, ""));
    assert_eq!(given.status, 0, "{given:?}");
    browser.open(&at("/admin")).await;
    browser.sees("two-factor verification required").await;
    browser.follow("your account page").await;
    browser.press("Set up an authenticator app").await;
    browser.sees("Scan this picture").await;
    let secret = browser.texts("code").await.remove(0).replace(' ', "");
    let Some(code) = authenticator_code(&secret) else { return false };
    browser.fill("Code", &code).await;
    browser.press("Turn on").await;
    browser.sees("Backup codes").await;
    browser.open(&at("/admin")).await;
    browser.sees("Overview").await;
    true
}

/// Stores attacks wherever others can store something: records, a program's name, a token's name, the audit log.
/// Returns the ids of a record and of the attacker.
async fn plant(server: &Server) -> (String, String) {
    let mallory = server.client();
    let me = mallory.register("mallory@example.com").await.is(200).json();
    let login = json!({ "email": "mallory@example.com", "password": PASSWORD });
    let request = mallory.request(Method::POST, "/auth/login").header("user-agent", ATTACKS[0]).json(&login);
    Answer::read(request).await.is(200);
    mallory.post("/auth/forgot-password", &json!({ "email": "mallory@example.com" })).await.is(200);
    let mut post = Value::Null;
    for attack in ATTACKS {
        let extra = json!({ (attack): [attack], "plain": attack });
        let body = json!({ "title": attack, "body": attack, "extra": extra, "state": "draft" });
        post = mallory.post("/posts", &body).await.is(201).json();
        token(&mallory, attack).await;
    }
    Program::connect(server, &Database::Sqlite, &mallory, ATTACKS[0], "posts:read").await;
    (text(&post["data"]["id"]), text(&me["user"]["id"]))
}

/// Names of tokens accept no control characters. A refused name is not stored.
async fn token(client: &Client, name: &str) {
    client.post("/auth/tokens", &json!({ "name": name, "scopes": ["posts:read"] })).await;
}

/// Waits for a dead delivery, and returns its event.
async fn dead_delivery(server: &Server, browser: &Browser) -> String {
    let poster = server.client();
    poster.register("poster@example.com").await.is(200);
    poster.log_in("poster@example.com").await.is(200);
    poster.post("/posts", &json!({ "title": "told" })).await.is(201);
    browser.open(&format!("http://{}/admin/outbox?status=dead", server.address())).await;
    let mut event = String::new();
    until("a delivery is dead", async || {
        let found = browser.run(DEAD, json!([])).await;
        event = found.as_str().unwrap_or_default().to_owned();
        !event.is_empty()
    })
    .await;
    event
}

const DEAD: &str = r#"
const done = arguments[arguments.length - 1];
fetch("/admin/api/outbox/deliveries?status=dead").then((answer) => answer.json()).then(({ data }) => done(data[0]?.eventId || ""));
"#;

/// The source of axe-core, at the version that `tests/tools` pins.
pub(crate) fn axe() -> Option<String> {
    let folder = node_tools()?;
    Some(fs::read_to_string(folder.join("node_modules/axe-core/axe.min.js")).expect("axe-core is installed"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
