//! Every key of the configuration file, from the code that reads it. The tables are between marks that name their
//! sections, each below a heading and a text that are written by hand.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, ensure};
use gatewright::Config;
use gatewright::config::{Absent, Setting};

/// A mark is `<!-- settings: SECTION -->`, or names several sections with the same keys.
const BEGIN: &str = "<!-- settings: ";
const END: &str = "<!-- end -->\n";

/// The page with new tables. Fails if it lacks a section or names one that does not exist.
pub(super) fn rewritten(page: &str) -> anyhow::Result<String> {
    let settings = Config::settings();
    let mut left: BTreeSet<&str> = settings.iter().map(|setting| &*setting.section).collect();
    let mut parts = page.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (names, rest) = part.split_once(" -->\n").context("a mark of settings has no end")?;
        let (_, rest) = rest.split_once(END).with_context(|| format!("the table of {names} has no end: {END}"))?;
        let mut tables = Vec::new();
        for name in names.split(' ') {
            ensure!(left.remove(name), "[{name}] is no section of the configuration, or stands twice in the page");
            tables.push(table(settings.iter().filter(|setting| setting.section == name)));
        }
        tables.dedup();
        ensure!(tables.len() == 1, "these sections have different keys: {names}");
        let _infallible = write!(text, "{BEGIN}{names} -->\n{}{END}{rest}", tables.concat());
    }
    ensure!(left.is_empty(), "the page has no table for {left:?}");
    Ok(text)
}

fn table<'a>(settings: impl Iterator<Item = &'a Setting>) -> String {
    let mut text = String::from("\n| Key | Type | Default | What it does |\n|---|---|---|---|\n");
    for Setting { key, kind, default, about, .. } in settings {
        let default = match default {
            Absent::Refused => "required".to_owned(),
            Absent::Nothing => String::new(),
            Absent::Value(toml) => format!("`{toml}`"),
            Absent::Derived(words) => (*words).to_owned(),
            _ => "unknown".to_owned(),
        };
        let _infallible = writeln!(text, "| `{key}` | {kind} | {default} | {} |", about.replace('|', "\\|"));
    }
    text.push('\n');
    text
}
