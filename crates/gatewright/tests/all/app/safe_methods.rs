//! No safe method changes anything: GET, HEAD and OPTIONS are sent to every route of the description, as every kind of
//! caller, and the whole database is compared before and after.
//!
//! The routes are those of the router itself, pages included. A GET with an effect is named
//! in [`EFFECTS`] with the reason; HEAD of it is 405, and OPTIONS never has one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Roles, Subject};
use gatewright_testing::{Actor, TestApp};
use http::Method;
use serde_json::json;

use super::openapi;

const PASSWORD: &str = "correct horse battery";

const CONFIG: &str = concat!(
    r#"
[roles]
admin = ["*"]
[authorization_server]
enabled = true
dynamic_registration = true
[auth.oauth.github]
client_id = "id"
client_secret = "secret"
[outbox]
enabled = true
poll_interval_ms = 3600000
lease_seconds = 3600
[[outbox.consumer]]
name = "crm"
event = "entity.created"
pull = true
[[entity]]
name = "projects"
multi_tenant = true
[[entity.field]]
name = "title"
type = "string"
"#,
    entity!(public "posts" "title"),
);

/// A GET that changes rows, the tables that it may change, and why.
const EFFECTS: [(&str, &[&str], &str); 2] = [
    ("/consumers/{name}/events", &["event_outbox_delivery"], "a pull reserves the events that it returns"),
    ("/auth/2fa/backup-codes", &["two_factor_backup_codes"], "it replaces the codes of a caller with two factors"),
];

/// Columns that note when a session or a token was last used.
const USES: [(&str, &str); 2] = [("sessions", "last_seen_at"), ("api_tokens", "last_used_at")];
/// Tables of notes: what is counted for limits, what operators looked at, and the heartbeats of relays.
const NOTES: [&str; 4] = ["rate_buckets", "rate_limits", "audit_log", "event_outbox_relay"];

/// Every row of every table, by the table.
type Contents = BTreeMap<String, BTreeSet<String>>;

async fn contents(app: &TestApp, tables: &[String]) -> Contents {
    let mut contents = Contents::new();
    for table in tables.iter().filter(|table| !NOTES.contains(&table.as_str())) {
        let uses: Vec<&str> = USES.iter().filter(|(of, _)| of == table).map(|(_, column)| *column).collect();
        let shape = gatewright_db::schema::describe(app.app().db(), table).await.unwrap().unwrap();
        let columns: Vec<String> = shape
            .columns
            .iter()
            .filter(|column| !uses.contains(&&*column.name))
            .map(|column| gatewright_db::dialect::quoted(&column.name))
            .collect();
        let sql = format!("SELECT {} FROM {}", columns.join(", "), gatewright_db::dialect::quoted(table));
        let rows = app.app().db().query(sql, vec![]).await.unwrap();
        contents.insert(table.clone(), rows.iter().map(|row| format!("{:?}", row.values())).collect());
    }
    contents
}

/// The tables of the database.
async fn tables(app: &TestApp) -> Vec<String> {
    let sql = if app.engine() == "postgres" {
        "SELECT tablename::text AS name FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
    } else {
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1"
    };
    let rows = app.app().db().query(sql, vec![]).await.unwrap();
    rows.iter().map(|row| row.get("name").unwrap()).collect()
}

/// Waits until the event of a record has its delivery, which is made after the answer.
async fn until_delivered(app: &TestApp) {
    let delivered = async {
        while app.app().db().query("SELECT 1 FROM event_outbox_delivery", vec![]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), delivered).await.expect("a delivery within a minute");
}

/// What differs, by table.
fn changed(before: &Contents, after: &Contents) -> Vec<String> {
    after.iter().filter(|(table, rows)| before.get(*table) != Some(rows)).map(|(table, _)| table.clone()).collect()
}

/// The kinds of callers.
async fn callers(app: &TestApp) -> Vec<(&'static str, Actor)> {
    let auth = app.app().auth().unwrap();
    let accounts = auth.accounts();
    let mut callers = vec![("anonymous", app.anonymous())];
    for (name, roles) in [("a user", &["user"][..]), ("an admin", &["user", "admin"])] {
        let email = format!("{}@example.com", name.replace(' ', "-"));
        let roles = Some(roles.iter().copied().collect::<Roles>());
        let user = accounts.create(&email, Some(gatewright::base::Secret::new(PASSWORD)), roles).await.unwrap();
        let mut actor = app.anonymous();
        let jwt = actor.sign_in(&email).await.is(200).at("/token").as_str().unwrap_or_default().to_owned();
        callers.push((name, actor));
        if !jwt.is_empty() {
            callers.push(("a JWT", app.anonymous().bearing(&jwt)));
        }
        let draft = TokenDraft::parse("token", &["*:*"], 0).unwrap();
        let issued = auth.api_tokens().unwrap().issue(Subject::User(user.id), draft).await.unwrap();
        callers.push(("a token", app.anonymous().bearing(issued.plaintext.expose())));
    }
    let service = auth.service_accounts().unwrap().create("worker", Roles::default()).await.unwrap();
    let draft = TokenDraft::parse("worker", &["*:*"], 0).unwrap();
    let issued = auth.api_tokens().unwrap().issue(Subject::Service(service.id), draft).await.unwrap();
    callers.push(("a service", app.anonymous().bearing(issued.plaintext.expose())));
    callers
}

/// The paths of the router, and the same with names of existing things in them where there are any.
fn paths(app: &TestApp, record: &str) -> Vec<(String, String)> {
    let filled = |path: &str| {
        let path = path.replace("{name}", "crm").replace("{entity}", "posts").replace("{provider}", "github");
        let path = if path.starts_with("/posts/") { path.replace("{id}", record) } else { path };
        let parts = path.split('/').map(|part| if part.starts_with('{') { "unknown" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let paths = openapi::paths(&format!("{:?}", app.app().router()));
    paths.into_iter().map(|path| (path.clone(), filled(&path))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_safe_method_changes_a_row_except_the_named_ones() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let callers = callers(&app).await;
        let made = app.anonymous().post("/posts", json!({ "title": "first" })).await.is(201);
        let record = made.at("/data/id").as_str().unwrap().to_owned();
        let paths = paths(&app, &record);
        assert!(paths.len() > 60, "{}", paths.len());
        let tables = tables(&app).await;
        until_delivered(&app).await;
        let mut wrong = Vec::new();
        let mut seen = BTreeSet::new();
        let mut before = contents(&app, &tables).await;
        for (name, caller) in &callers {
            for (path, filled) in &paths {
                let effect = EFFECTS.iter().find(|(of, ..)| of == path);
                for method in [Method::HEAD, Method::OPTIONS, Method::GET] {
                    let request = caller.request(method.clone(), filled).body(String::new().into()).unwrap();
                    // A stream does not end.
                    let answered = tokio::time::timeout(Duration::from_secs(2), caller.send(request)).await;
                    let status = answered.map_or(200, |answer| answer.status());
                    let after = contents(&app, &tables).await;
                    let changed = changed(&std::mem::replace(&mut before, after.clone()), &after);
                    let allowed = effect.filter(|_| method == Method::GET).map_or(&[][..], |(_, tables, _)| tables);
                    if changed.iter().any(|table| !allowed.contains(&&**table)) {
                        wrong.push(format!("{name}: {method} {path} ({status}) changes {changed:?}"));
                    }
                    if !changed.is_empty() {
                        seen.insert(path.clone());
                    }
                    if effect.is_some() && method == Method::HEAD && status != 405 {
                        wrong.push(format!("{name}: HEAD {path} is {status}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", app.engine(), wrong.join("\n"));
        assert!(seen.contains("/consumers/{name}/events"), "the comparison sees a pull: {seen:?}");
    }
}
