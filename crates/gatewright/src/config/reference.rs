//! The handbook's page on configuration has every key that is read and no other, with the defaults that hold.

use std::collections::BTreeSet;
use std::fs;

use toml::{Table, Value};

use super::read::ASKED;
use crate::Config;

/// With one of each section that is not read unless it is there. `pull` decides which other keys a consumer has.
const ONE_OF_EACH: &str = r#"
[email]
[browser_backend]
[rate_limit.api]
[auth.oauth.google]
[auth.oauth.github]
[[auth.oauth.oidc]]
[[auth.profile.field]]
[[outbox.consumer]]
[[entity]]
[[entity.field]]
"#;

/// A configuration without mistakes, for trying defaults.
const FINE: &str = r#"
[auth]
jwt_secret = "a secret for tests alone, long enough"
[email]
smtp_url = "smtp://localhost"
from = "a@example.com"
[rate_limit.api]
[[auth.profile.field]]
name = "nickname"
type = "string"
[outbox]
enabled = true
[[outbox.consumer]]
name = "billing"
event = "entity.created"
pull = true
[[entity]]
name = "posts"
[[entity.field]]
name = "title"
type = "string"
"#;

/// Keys whose absence is a value of its own, which means the same as the default of the page.
const ABSENT_IS_OWN: [&str; 4] =
    ["server.api_prefix", "admin.enabled", "entity.max_list_limit", "entity.field.on_delete"];

/// A key on the page.
struct Row {
    path: String,
    /// The default, if it is one value.
    default: Option<String>,
}

/// The rows of all tables. Headings such as `[auth.limits.NAME]` name the section; keys that begin with another section
/// are whole paths.
fn rows() -> Vec<Row> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).unwrap();
    let (mut sections, mut rows) = (Vec::new(), Vec::new());
    for line in page.lines() {
        if line.starts_with('#') {
            sections = words(line).map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
        }
        let Some((keys, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once(" | ")) else { continue };
        let default = rest.split(" | ").next().unwrap_or_default().trim();
        let default =
            default.strip_prefix('`').and_then(|text| text.strip_suffix('`')).filter(|text| !text.contains('`'));
        for key in words(&format!("`{keys}")) {
            let whole = key.starts_with("auth.");
            let prefixes = if whole || sections.is_empty() { vec![String::new()] } else { sections.clone() };
            for section in prefixes {
                let path = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
                rows.push(Row { path, default: default.map(str::to_owned) });
            }
        }
    }
    assert!(rows.len() > 150, "only {} keys were found", rows.len());
    rows
}

/// What a line has in backticks.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The paths that reading asks for. The limiters all have the same keys.
fn asked() -> BTreeSet<String> {
    ASKED.take();
    for consumer in ["", "pull = true"] {
        let text = ONE_OF_EACH.replace("[[outbox.consumer]]", &format!("[[outbox.consumer]]\n{consumer}"));
        // What is missing there does not keep the rest from being read.
        assert!(Config::from_toml("one of each", &text).is_err());
    }
    let normal = |path: String| {
        let path = path.replace("[0]", "");
        match path.strip_prefix("auth.limits.").map(|rest| rest.split_once('.')) {
            Some(Some((_, key))) => format!("auth.limits.NAME.{key}"),
            Some(None) => "auth.limits.NAME".to_owned(),
            None => path,
        }
    };
    ASKED.take().into_iter().map(normal).collect()
}

#[test]
fn the_page_has_every_key_that_is_read_and_no_other() {
    let (asked, rows) = (asked(), rows());
    let below = |path: &str, of: &str| path.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'));
    let is_there =
        |path: &&String| rows.iter().any(|row| row.path == **path || below(path, &row.path) || below(&row.path, path));
    // Their keys are the operator's own words.
    let is_free = |path: &&String| ["roles", "tenancy.roles"].contains(&&***path);
    let missing: Vec<_> = asked.iter().filter(|path| !is_there(path) && !is_free(path)).collect();
    let unknown: Vec<_> = rows.iter().map(|row| &row.path).filter(|path| !asked.contains(*path)).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "docs/configuration.md lacks {missing:?} and has {unknown:?}");
}

#[test]
fn each_default_on_the_page_is_the_one_that_holds() {
    let shown = |table: &Table| Config::from_toml("defaults", &table.to_string()).map(|config| format!("{config:?}"));
    let fine: Table = FINE.parse().unwrap();
    let expected = shown(&fine).unwrap();
    let mut tried = 0;
    let mut wrong = Vec::new();
    for Row { path, default } in rows() {
        let Some(default) = default else { continue };
        let path = path.replace("NAME", "login");
        let Ok(value) = format!("value = {default}").parse::<Table>() else { continue };
        let mut table = fine.clone();
        if ABSENT_IS_OWN.contains(&&*path) || !set(&mut table, &path, &value["value"]) {
            continue;
        }
        tried += 1;
        match shown(&table) {
            Ok(same) if same == expected => {}
            Ok(_) => wrong.push(format!("{path} = {default} is not the default")),
            Err(error) => wrong.push(format!("{path} = {default}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 80, "only {tried} defaults were tried");
}

/// Sets what is not set yet. Sections that are not there stay away where being there means something.
fn set(table: &mut Table, path: &str, value: &Value) -> bool {
    let Some((section, rest)) = path.split_once('.') else {
        return table.insert(path.to_owned(), value.clone()).is_none();
    };
    if ["browser_backend", "google", "github", "oidc"].contains(&section) {
        return false;
    }
    let below = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    match below {
        Value::Table(below) => set(below, rest, value),
        Value::Array(items) => {
            items.first_mut().and_then(Value::as_table_mut).is_some_and(|item| set(item, rest, value))
        }
        _ => false,
    }
}
