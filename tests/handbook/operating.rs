//! The pages on operating: metrics and alerts exist, defences have their tests, and SQL runs.

use std::{collections::BTreeSet, fs, path::Path};

use super::pages::{handbook, root};
use crate::harness::{Database, Launch, Receiver, gatewright};

const RULES: &str = "packaging/prometheus/gatewright.rules.yml";

#[test]
fn every_test_that_a_page_names_exists() {
    let mut source = String::new();
    for folder in ["crates", "tests", "xtask"] {
        read(&root().join(folder), &mut source);
    }
    for (page, least) in [("docs/security-model.md", 40), ("SECURITY.md", 8), ("docs/dev/tests.md", 40)] {
        let page = fs::read_to_string(root().join(page)).unwrap();
        let rows = page.lines().filter(|line| line.starts_with("| "));
        let named: Vec<&str> = rows.flat_map(named_in_last_cell).collect();
        let missing: Vec<_> = named.iter().filter(|name| !is_test(&source, name)).collect();
        assert!(missing.is_empty(), "no such tests: {missing:?}");
        assert!(named.len() >= least, "{named:?}");
    }
}

/// The names in backticks in the last cell of a table's row, if it contains nothing else.
fn named_in_last_cell(row: &str) -> impl Iterator<Item = &str> {
    let cell = row.trim_end_matches([' ', '|']).rsplit_once(" | ").map_or("", |(_, cell)| cell);
    let only_names = cell.split('`').step_by(2).all(|between| between.trim_matches([' ', ',']).is_empty());
    cell.split('`').skip(1).step_by(2).filter(move |_| only_names)
}

/// Whether a function of that name is a test.
fn is_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else { return false };
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    attributes.contains("#[test]") || attributes.contains("#[tokio::test")
}

fn read(folder: &Path, text: &mut String) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("node_modules") {
            read(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("gatewright_") && !word.ends_with('_'));
    names.map(|name| name.strip_suffix("_bucket").unwrap_or(name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_alerts_and_of_the_handbook_exists() {
    let Some(database) = Database::postgres().await else { return };
    let (receiver, url) = Receiver::start().await;
    receiver.lock().takes_bad = true;
    let server = crate::outbox::launch(&url).env("GATEWRIGHT__EVENTS__FANOUT", "postgres");
    let server =
        server.env("GATEWRIGHT__EMAIL__SMTP_URL", "smtp://127.0.0.1:9").env("GATEWRIGHT__EMAIL__FROM", "a@example.com");
    // Without a secret, mails would wait only in memory.
    let server = server.env("GATEWRIGHT__AUTH__JWT_SECRET", "a secret for tests alone, long enough");
    let server = server.start(&database).await;
    let client = server.client();
    client.post("/posts", &serde_json::json!({ "title": "one" })).await.is(201);
    crate::outbox::until("it is delivered", async || !receiver.records("/good").is_empty()).await;
    let shown = metrics(&client.get("/metrics").await.is(200).text);
    for page in [RULES, "docs/monitoring.md", "docs/events.md", "docs/outbox.md", "docs/limits.md"] {
        let named = metrics(&fs::read_to_string(root().join(page)).unwrap());
        let missing: Vec<_> = named.iter().filter(|name| !shown.contains(*name) && !is_crate(name)).collect();
        assert!(missing.is_empty(), "{page}: no such metrics: {missing:?}\n{shown:?}");
    }
}

/// Whether this is a crate's name in a path, not a metric.
fn is_crate(name: &str) -> bool {
    name.strip_prefix("gatewright_").is_some_and(|name| root().join("crates").join(name).is_dir())
}

#[test]
fn the_alerts_are_well_formed_and_explained() {
    let rules = fs::read_to_string(root().join(RULES)).unwrap();
    let page = fs::read_to_string(root().join("docs/monitoring.md")).unwrap();
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 8, "{alerts:?}");
    for alert in &alerts {
        assert!(page.contains(&format!("| `{alert}` |")), "docs/monitoring.md does not explain {alert}");
    }
    assert_eq!(rules.matches("expr:").count(), alerts.len());
    assert_eq!(rules.matches("summary:").count(), alerts.len());
    assert_eq!(rules.matches('(').count(), rules.matches(')').count());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_sql_runs_on_postgres() {
    let Some(database) = Database::postgres().await else { return };
    let entity = |name: &str| format!("[[entity]]\nname = \"{name}\"\n");
    let field = |name: &str| format!("[[entity.field]]\nname = \"{name}\"\ntype = \"string\"\n");
    let (projects, posts) =
        (entity("projects") + &field("name"), entity("posts") + &field("title") + &field("headline"));
    let server = Launch::configured(&(projects + &posts)).start(&database).await;
    let ended = gatewright(server.folder(), &["migrate", "--database", &database.url()], "");
    assert_eq!(ended.status, 0, "{}", ended.err);
    for page in handbook() {
        for block in page.blocks().into_iter().filter(|block| block.language == "sql") {
            // The page names the reader's role. The tests' role has another name.
            let statements = block.code.replace("ROLE gatewright", "ROLE CURRENT_USER");
            database.execute(server.folder(), &format!("{statements} -- {}", block.place)).await;
        }
    }
}
