//! Every page of the console, by its own links, on a declaration that has every feature, on both engines: no page shows an error, no
//! answer is a server error, and the browser's console stays empty.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::console::enter;
use crate::harness::{Answer, Browser, Client, Database, Launch, Receiver, Scripts, Server, gatewright};
use crate::outbox::until;

/// Every feature of a declaration: tenants, owners, rules, trash, hidden fields, every type, relations of every kind, a table that is
/// not named as its entity, profile fields.
const EVERYTHING: &str = r#"
[authorization_server]
enabled = true
[email]
smtp_url = "smtp://127.0.0.1:9"
from = "a@example.com"
[audit]
entities = true
[[auth.profile.field]]
name = "display_name"
type = "string"
public = true
[[entity]]
name = "project"
table = "projects"
multi_tenant = true
owner_field = "user_id"
soft_delete = true
search_fields = ["title"]
[entity.rules]
read = "title != 'private'"
[[entity.field]]
name = "title"
type = "string"
required = true
[[entity.field]]
name = "pin"
type = "string"
hidden = true
[[entity]]
name = "tasks"
multi_tenant = true
[[entity.field]]
name = "title"
type = "string"
required = true
[[entity.field]]
name = "body"
type = "text"
[[entity.field]]
name = "amount"
type = "int"
[[entity.field]]
name = "ratio"
type = "float"
[[entity.field]]
name = "price"
type = "decimal"
[[entity.field]]
name = "done"
type = "bool"
[[entity.field]]
name = "due"
type = "date"
[[entity.field]]
name = "moment"
type = "timestamp"
[[entity.field]]
name = "code"
type = "uuid"
[[entity.field]]
name = "extra"
type = "json"
[[entity.field]]
name = "days"
type = "list"
of = "enum"
values = ["mon", "tue"]
default = ["mon"]
[[entity.field]]
name = "state"
type = "enum"
values = ["open", "closed"]
[[entity.field]]
name = "project"
type = "relation"
to = "project"
on_delete = "cascade"
[[entity.field]]
name = "assignee"
type = "relation"
to = "users"
on_delete = "set_null"
[[entity]]
name = "notes"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "task"
type = "relation"
to = "tasks"
on_delete = "restrict"
"#;

fn launch(receiver: &str) -> Launch {
    Launch::configured(&format!(
        "[auth]\njwt_secret = \"a secret for tests alone, long enough\"\n[outbox]\nenabled = true\nmax_attempts = 1\npoll_interval_ms = 100\n\
         [[outbox.consumer]]\nname = \"bad\"\nevent = \"entity.created\"\nurl = \"{receiver}/bad\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nentities = [\"notes\"]\n{EVERYTHING}"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_of_the_console_leads_to_a_page_without_an_error() {
    let (_receiver, url) = Receiver::start().await;
    for database in [Some(Database::Sqlite), Database::postgres().await].into_iter().flatten() {
        let server = launch(&url).start(&database).await;
        let Some(browser) = Browser::start(Scripts::On).await else { return };
        if !enter(&server, &browser, &database).await {
            return;
        }
        let tasks = fill(&server, &database).await;
        until("a delivery is dead", async || browser.run(DEAD, json!([])).await == json!(true)).await;
        // Of the way in, on which the console was closed.
        drop(browser.console_errors().await);
        let mut waiting = vec!["/admin".to_owned()];
        let mut seen: BTreeSet<String> = waiting.iter().cloned().collect();
        let mut records = BTreeSet::new();
        while let Some(path) = waiting.pop() {
            browser.open(&format!("http://{}{path}", server.address())).await;
            let page = browser.run(EXAMINE, json!([])).await;
            assert_eq!(page["faults"], json!([]), "{path}: {page:#}");
            assert_eq!(browser.console_errors().await, [""; 0], "{path}");
            if let Some(record) = path.strip_prefix("/admin/records/") {
                records.insert(record.split('?').next().unwrap_or(record).to_owned());
            }
            let links = page["links"].as_array().unwrap().iter().filter_map(Value::as_str);
            for link in links.filter(|link| !link.starts_with("/admin/api")) {
                if seen.insert(link.to_owned()) {
                    waiting.push(link.to_owned());
                }
            }
            assert!(seen.len() < 400, "the pages have no end: {seen:?}");
        }
        for task in &tasks {
            assert!(records.contains(&format!("tasks/{task}")), "a list leads to each record: {records:?}");
        }
        for kind in ["projects/", "notes/"] {
            assert!(records.iter().any(|record| record.starts_with(kind)), "{kind}: {records:?}");
        }
        assert!(seen.iter().any(|path| path.starts_with("/admin/users/")), "{seen:?}");
        assert!(seen.iter().any(|path| path.starts_with("/admin/tenants/")), "{seen:?}");
        keeps_the_tenant(&server, &browser, &tasks[0]).await;
    }
}

/// From a list of one tenant to a record, its relation and back, each within the tenant.
async fn keeps_the_tenant(server: &Server, browser: &Browser, task: &str) {
    let at = |path: &str| format!("http://{}{path}", server.address());
    browser.open(&at("/admin/records/tasks?tenant=acme")).await;
    browser.waits_for(&format!("//a[@aria-label='Open {task}' and contains(@href, 'tenant=acme')]")).await;
    browser.open(&at(&format!("/admin/records/tasks/{task}?tenant=acme"))).await;
    browser.waits_for("//dl//a[contains(@href, '/admin/records/project') and contains(@href, 'tenant=acme')]").await;
    browser.waits_for("//a[contains(@href, '/admin/explain') and contains(@href, 'tenant=acme')]").await;
    browser.waits_for("//table//a[contains(@href, '/admin/records/tasks/') and contains(@href, 'tenant=acme')]").await;
    browser.press("Delete").await;
    browser.sees("cannot be undone").await;
    browser.waits_for("//dialog//button[normalize-space(.)='Cancel']").await;
    browser.press("Cancel").await;
    browser.open(&at(&format!("/admin/records/tasks/{task}?tenant=zenith"))).await;
    browser.sees("Not found").await;
}

/// Two tenants with records of each entity, some in the trash; mails, tokens, lockouts and a delivery that is dead. Returns the tasks.
async fn fill(server: &Server, database: &Database) -> Vec<String> {
    let mut tasks = Vec::new();
    for (tenant, email) in [("acme", "ann@example.com"), ("zenith", "bob@example.com")] {
        let client = server.client();
        let me = client.register(email).await.is(200).json();
        client.log_in(email).await.is(200);
        let url = database.url();
        let words = ["tenant", "add-member", tenant, email, "--unverified", "--database", &url];
        let added = tokio::task::block_in_place(|| gatewright(server.folder(), &words, ""));
        assert_eq!(added.status, 0, "{added:?}");
        let made = async |table: &str, body: Value| {
            let request = client.request(Method::POST, &format!("/{table}")).header("x-tenant-id", tenant).json(&body);
            let made = Answer::read(request).await.is(201).json();
            made["data"]["id"].as_str().unwrap().to_owned()
        };
        let project = made("projects", json!({ "title": tenant })).await;
        let task = made("tasks", json!({
            "title": "everything", "body": "long", "amount": 3, "ratio": 0.5, "price": "1.50", "done": true, "due": "2026-01-31",
            "moment": "2026-01-31T00:00:00Z", "code": "019c0000-0000-7000-8000-000000000000", "extra": { "a": [1] }, "state": "open",
            "project": project, "assignee": me["user"]["id"],
        }))
        .await;
        made("tasks", json!({ "title": "nothing" })).await;
        made("notes", json!({ "title": "about it", "task": task })).await;
        let gone = made("notes", json!({ "title": "gone" })).await;
        Answer::read(client.request(Method::DELETE, &format!("/notes/{gone}"))).await.is(204);
        misbehaves(server, &client, email).await;
        tasks.push(task);
    }
    tasks
}

/// What else the console shows of an account: an API token, a mail that waits, a failed sign-in.
async fn misbehaves(server: &Server, client: &Client, email: &str) {
    client.post("/auth/tokens", &json!({ "name": "reader", "scopes": ["notes:read"] })).await;
    client.post("/auth/forgot-password", &json!({ "email": email })).await.is(200);
    let guess = json!({ "email": email, "password": "not the password" });
    server.client().post("/auth/login", &guess).await.is(401);
}

const DEAD: &str = r#"
const done = arguments[arguments.length - 1];
fetch("/admin/api/outbox/deliveries?status=dead").then((answer) => answer.json()).then(({ data }) => done(data.length > 0));
"#;

/// Waits until the page is drawn. Its faults (messages, stray words, answers that failed, exceptions), and its links.
const EXAMINE: &str = r#"
const done = arguments[arguments.length - 1];
const text = (node) => (node.textContent || "").trim();
const examine = () => {
  const main = document.getElementById("main");
  if (!main.querySelector("h1")) return setTimeout(examine, 20);
  const faults = [...main.querySelectorAll("[role=alert]")].map(text);
  const words = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const inside = words.currentNode.parentElement.closest("pre, code, option, .cut, dd, td");
    if (!inside && /^(false|true|null|undefined|NaN|\[object .*)$/.test(text(words.currentNode))) faults.push(`a stray ${text(words.currentNode)}`);
  }
  if (/undefined|NaN|\[object /.test(text(main))) faults.push(/.{0,30}(undefined|NaN|\[object ).{0,30}/.exec(text(main))[0]);
  for (const { name, responseStatus } of performance.getEntriesByType("resource")) {
    if (responseStatus >= 400) faults.push(`${responseStatus} ${name}`);
  }
  const links = [...document.querySelectorAll("a[href]")].filter((to) => to.origin === location.origin && to.pathname.startsWith("/admin"));
  done({ faults, title: document.title, links: links.map((to) => to.pathname + to.search) });
};
examine();
"#;
