//! Every list of the admin API over a million records and 100,000 users: first pages, last pages, searches, filters.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use gatewright_db::{Db, Engine, Options, params};
use gatewright_servers::PrivatePostgres;

use crate::child::Server;
use crate::load::Connection;

/// Records and audit events, unless the command line says otherwise. There is one user for ten of them.
const RECORDS: u32 = 1_000_000;
/// How often each page is read.
const READS: usize = 20;
/// A page that takes longer is slow.
const SLOW: Duration = Duration::from_millis(250);

/// Prints the median and the longest time of each page, the slowest first.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let records = arguments.first().map_or(Ok(RECORDS), |text| text.parse())?;
    ensure!(records >= 10_000, "pages far from the first need at least 10,000 records");
    let folder = tempfile::tempdir()?;
    let mut report = String::new();
    let file = format!("sqlite://{}", folder.path().join("console.db").display());
    measure(folder.path(), &file, "SQLite", records, &mut report).await?;
    match PrivatePostgres::start() {
        Err(missing) => writeln!(report, "Postgres: left out, {missing}")?,
        Ok(server) => measure(folder.path(), &server.url(), "Postgres", records, &mut report).await?,
    }
    println!("\n{report}");
    Ok(())
}

async fn measure(folder: &Path, url: &str, name: &str, records: u32, report: &mut String) -> anyhow::Result<()> {
    let config = folder.join("gatewright.toml");
    std::fs::write(&config, CONFIGURATION)?;
    let binary = std::env::current_exe()?.with_file_name("gatewright");
    ensure!(binary.exists(), "build the server first: cargo build --release -p gatewright-cli");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(arguments).args(["--database", url, "--config"]).arg(&config).env("RUST_LOG", "error");
        command
    };
    let run = |arguments: &[&str]| -> anyhow::Result<String> {
        let done = command(arguments).output()?;
        ensure!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8(done.stdout)?)
    };
    run(&["migrate"])?;
    fill(url, records).await?;
    run(&["service-account", "create", "bench"])?;
    let token = run(&["token", "issue", "--service", "bench", "--name", "bench", "--scopes", "admin:read"])?;
    let server = Server::start(&mut command(&["serve", "--dev", "--listen", "127.0.0.1:0"]))?;
    let mut connection = Connection::open(server.address).await?;
    let mut measured = Vec::new();
    for (what, path) in pages(records) {
        let request =
            format!("GET /admin/api{path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\r\n", token.trim());
        let mut times = Vec::with_capacity(READS);
        for _ in 0..READS {
            let start = Instant::now();
            connection.exchange(request.as_bytes()).await.with_context(|| path.clone())?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        measured.push((times[READS / 2], times[READS - 1], what));
    }
    measured.sort_unstable();
    writeln!(report, "{name}, {records} records, {} users: median, longest", records / 10)?;
    for (median, longest, what) in measured.iter().rev() {
        let mark = if *median > SLOW { "  SLOW" } else { "" };
        writeln!(report, "{:>9.1} ms {:>9.1} ms  {what}{mark}", millis(*median), millis(*longest))?;
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// What each page of the console reads.
fn pages(records: u32) -> Vec<(&'static str, String)> {
    let (users, last) = (records / 10, records / 50);
    let id = |number: u32| format!("018f0000-0000-7000-8000-{number:012}");
    let (middle, end) = (id(users / 2), id(records - 1));
    let page = |what, path: &str| (what, path.to_owned());
    vec![
        page("users, first page", "/users"),
        ("users, last page", format!("/users?cursor=user{:07}@example.com", users - 60)),
        ("users, searched by the beginning of the address", format!("/users?q=user00{}", users / 2000)),
        page("users, a search without a result", "/users?q=nobody"),
        ("users, by id", format!("/users?q={middle}")),
        ("a user", format!("/users/{middle}")),
        ("a user's sessions", format!("/users/{middle}/sessions")),
        ("a user's tokens", format!("/users/{middle}/tokens")),
        page("the entities", "/records"),
        page("records, first page", "/records/posts?limit=50&cursor="),
        page("records, first page with the number of all", "/records/posts?limit=50"),
        ("records, last page by number", format!("/records/posts?limit=50&page={last}")),
        page("records, searched", "/records/posts?limit=50&cursor=&q=1234"),
        page("records, a search without a result", "/records/posts?limit=50&cursor=&q=nowhere"),
        page("records, filtered, many match", "/records/posts?limit=50&cursor=&filter=state%20%3D%20'out'"),
        page(
            "records, filtered, few match, with an index",
            "/records/posts?limit=50&cursor=&filter=number%20%3D%204711",
        ),
        page(
            "records, filtered, few match, without an index",
            "/records/posts?limit=50&cursor=&filter=title%20%3D%20'Post%204711'",
        ),
        page("records, sorted with an index", "/records/posts?limit=50&cursor=&sort=-number"),
        page("records, sorted without an index", "/records/posts?limit=50&cursor=&sort=title"),
        page("records, the trash", "/records/posts?limit=50&cursor=&trashed=only"),
        ("a record", format!("/records/posts/{end}")),
        page("audit log, first page", "/audit?limit=50"),
        page("audit log, of a frequent kind", "/audit?limit=50&kind=login.succeeded"),
        page("audit log, of a rare kind", "/audit?limit=50&kind=account.deleted"),
        page("audit log, of a kind that never happened", "/audit?limit=50&kind=nothing"),
        ("audit log, of a user", format!("/audit?limit=50&user={middle}")),
        ("audit log, about a record", format!("/audit?limit=50&subject=posts/{end}")),
        page("audit log, of a day", "/audit?limit=50&since=2026-01-03T00:00:00Z&until=2026-01-04T00:00:00Z"),
        page("tenants", "/tenants"),
        ("tenants, last page", format!("/tenants?cursor=tenant{:07}", users / 10 - 60)),
        page("the members of a tenant", "/tenants/tenant0000007/members"),
        page("invitations", "/invitations"),
        page("service accounts", "/service-accounts"),
        page("outbox, consumers", "/outbox"),
        page("outbox, failing deliveries", "/outbox/deliveries"),
        page("mail queue", "/mails"),
        page("mail queue, of a recipient", "/mails?recipient=user0000007@example.com"),
        page("lockouts", "/lockouts"),
        page("health", "/health"),
        page("series", "/series"),
        page("pending migrations", "/migrations"),
    ]
}

async fn fill(url: &str, records: u32) -> anyhow::Result<()> {
    let db = Db::open(url, Options { statement_timeout: Duration::from_mins(30), ..Options::default() }).await?;
    let (rows, digits): (_, fn(&str, usize) -> String) = match db.engine() {
        Engine::Sqlite => {
            ("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)", |number, width| {
                format!("printf('%0{width}d', {number})")
            })
        }
        Engine::Postgres => {
            ("WITH n AS (SELECT i FROM generate_series(0, ?1::bigint - 1) AS g(i))", |number, width| {
                format!("lpad(({number})::text, {width}, '0')")
            })
        }
    };
    let id = |number: &str| format!("'018f0000-0000-7000-8000-' || {}", digits(number, 12));
    // A minute between two of them.
    let (time, truth, nothing) = match db.engine() {
        Engine::Sqlite => (
            "strftime('%Y-%m-%dT%H:%M:%S', 1767225600 + i * 60 % 31536000, 'unixepoch') || '.000000Z'",
            "1",
            "CASE WHEN i % 50 = 0 THEN '2026-01-02T03:04:05.000006Z' END",
        ),
        Engine::Postgres => (
            "to_timestamp(1767225600 + i * 60 % 31536000)",
            "true",
            "CASE WHEN i % 50 = 0 THEN '2026-01-02T03:04:05.000006Z'::timestamptz END",
        ),
    };
    let json = if db.engine() == Engine::Postgres { "::jsonb" } else { "" };
    let users = i64::from(records / 10);
    let email = format!("'user' || {} || '@example.com'", digits("i", 7));
    let statements = [
        (
            users,
            format!(
                "INSERT INTO users (id, email, password_set, roles, email_verified, created_at, updated_at) \
                 {rows} SELECT {}, {email}, {truth}, '[\"user\"]', {truth}, {time}, {time} FROM n",
                id("i")
            ),
        ),
        (
            i64::from(records),
            format!(
                "INSERT INTO posts (id, title, state, number, user_id, created_at, updated_at, deleted_at) \
                 {rows} SELECT {}, 'Post ' || i, CASE i % 3 WHEN 0 THEN 'draft' ELSE 'out' END, i % 100000, {}, \
                 {time}, {time}, {nothing} FROM n",
                id("i"),
                id(&format!("i % {users}"))
            ),
        ),
        (
            i64::from(records),
            format!(
                "INSERT INTO audit_log (id, kind, user_id, remote, subject, meta, created_at) \
                 {rows} SELECT {}, CASE WHEN i = 7 THEN 'account.deleted' WHEN i % 2 = 0 THEN 'login.succeeded' \
                 ELSE 'entity.updated' END, {}, '192.0.2.1', 'posts/' || {}, '{{}}'{json}, {time} FROM n",
                id("i"),
                id(&format!("i % {users}")),
                id("i")
            ),
        ),
        (
            users,
            format!(
                "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at) \
                 {rows} SELECT 'tenant' || {}, 'user', {}, {time} FROM n",
                digits("i / 10", 7),
                id("i")
            ),
        ),
        (
            10_000,
            format!(
                "INSERT INTO mail_queue (id, kind, recipient, status, attempts, last_error, created_at, next_attempt_at, \
                 expires_at) {rows} SELECT {}, 'magic_link', {email}, 'failed', 3, 'the mail server refuses: 550', \
                 {time}, {time}, {time} FROM n",
                id("i")
            ),
        ),
    ];
    for (count, sql) in statements {
        db.execute(sql, params![count]).await?;
    }
    db.execute("ANALYZE", vec![]).await?;
    db.close().await;
    Ok(())
}

const CONFIGURATION: &str = r#"
[auth]
jwt_secret = "0123456789-0123456789-0123456789"
[audit]
entities = true
retention_days = 0
[outbox]
enabled = true
[email]
smtp_url = "smtp://127.0.0.1:9"
from = "bench@example.com"
[[entity]]
name = "posts"
owner_field = "user_id"
soft_delete = true
search_fields = ["title"]
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "state"
type = "enum"
values = ["draft", "out"]
[[entity.field]]
name = "number"
type = "int"
index = true
[[entity]]
name = "invoices"
multi_tenant = true
[[entity.field]]
name = "number"
type = "int"
"#;
