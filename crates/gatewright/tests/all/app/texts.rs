//! Every text that a page or a mail uses is in the catalogues, and every text of the catalogues is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Keys that are put together while the program runs, by how they begin.
const COMPUTED: [&str; 3] = ["status.", "problem.", "field."];

/// Texts that look like a key: the names of audit events, and a setting.
const OTHERS: [&str; 2] = ["audit/kind.rs", "two_factor.issuer"];

/// Sources that hold texts: of Rust, and of templates.
const SOURCES: [&str; 4] = ["http/src", "auth/src", "mail/src", "gatewright/src"];

#[test]
fn sources_and_catalogue_have_the_same_keys() {
    let catalogue = catalogue();
    let sections: BTreeSet<&str> = catalogue.keys().filter_map(|key| key.split('.').next()).collect();
    let (mut named, mut unknown) = (BTreeSet::new(), Vec::new());
    for (path, text) in sources() {
        for literal in literals(&text) {
            let is_key = literal.split_once('.').is_some_and(|(section, _)| sections.contains(section));
            let is_file =
                [".html", ".txt", ".js", ".css", ".rs", ".toml"].iter().any(|ending| literal.ends_with(ending));
            if !is_key || is_file || OTHERS.iter().any(|other| path.ends_with(other) || literal == *other) {
                continue;
            }
            if !catalogue.contains_key(literal) {
                unknown.push(format!("{path}: {literal}"));
            }
            named.insert(literal.to_owned());
        }
    }
    assert!(unknown.is_empty(), "not in the English catalogue: {unknown:#?}");
    assert!(named.len() > 150, "the sources are read: {}", named.len());
    let is_computed = |key: &str| COMPUTED.iter().any(|start| key.starts_with(start));
    let unused: Vec<_> = catalogue.keys().filter(|key| !is_computed(key) && !named.contains(*key)).collect();
    assert!(unused.is_empty(), "nothing asks for these: {unused:#?}");
}

fn is_kind(path: &str, extension: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|found| found == extension)
}

/// `t("key", a=…, b=…)` gives a text exactly the values that it names.
#[test]
fn templates_give_a_text_the_values_that_it_names() {
    let catalogue = catalogue();
    let (mut calls, mut wrong) = (0, Vec::new());
    for (path, text) in sources().into_iter().filter(|(path, _)| is_kind(path, "html") || is_kind(path, "txt")) {
        for call in ["t(\"", "plain(\"", "words(\""] {
            for (at, _) in text.match_indices(call) {
                let (key, rest) = text[at + call.len()..].split_once('"').unwrap();
                let arguments = rest.split_once(')').map_or("", |(arguments, _)| arguments);
                let given: BTreeSet<&str> = arguments
                    .split(',')
                    .filter_map(|argument| argument.split_once('=').map(|(name, _)| name.trim()))
                    .collect();
                let expected: BTreeSet<&str> = places(&catalogue[key]).filter(|name| *name != "product").collect();
                calls += 1;
                if given != expected {
                    wrong.push(format!("{path}: {key} is given {given:?}, names {expected:?}"));
                }
            }
        }
    }
    assert!(calls > 100, "the templates are read: {calls}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The codes that authentication answers with have a sentence for people in every language.
#[test]
fn every_code_of_authentication_has_a_sentence() {
    let catalogue = catalogue();
    let mut codes = BTreeSet::new();
    for (_, text) in sources().into_iter().filter(|(path, _)| path.contains("auth/src") && is_kind(path, "rs")) {
        for (at, call) in text.match_indices("with_code(\"") {
            let code = text[at + call.len()..].split('"').next().unwrap();
            codes.insert(code.to_owned());
        }
    }
    // Those of answers that programs alone get.
    let programs = [
        "invalid_ticket",
        "insufficient_scope",
        "referenced",
        "tenant_creation_closed",
        "last_owner",
        "too_many_tenants",
        "too_many_invitations",
        "too_many_members",
    ];
    codes.retain(|code| !programs.contains(&&**code));
    assert!(codes.len() > 20, "{codes:?}");
    let missing: Vec<_> = codes.iter().filter(|code| !catalogue.contains_key(&format!("problem.{code}"))).collect();
    assert!(missing.is_empty(), "no text `problem.CODE` for these: {missing:?}");
}

fn catalogue() -> BTreeMap<String, String> {
    let text = include_str!("../../../../http/src/locale/languages/en.toml");
    let document: toml::Table = text.parse().unwrap();
    let mut texts = BTreeMap::new();
    flatten("", &document, &mut texts);
    texts
}

fn flatten(section: &str, table: &toml::Table, texts: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        match value {
            toml::Value::Table(table) if section.is_empty() => flatten(name, table, texts),
            toml::Value::Table(table) => flatten(&format!("{section}.{name}"), table, texts),
            // The keys before the sections describe the language.
            toml::Value::String(text) if !section.is_empty() => {
                texts.insert(format!("{section}.{name}"), text.clone());
            }
            _ => {}
        }
    }
}

/// The names of a text's values.
fn places(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

fn sources() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for source in SOURCES {
        read(&crates.join(source), &mut found);
    }
    found
}

fn read(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, found);
        } else if matches!(path.extension().and_then(|end| end.to_str()), Some("rs" | "html" | "txt")) {
            let text = fs::read_to_string(&path).unwrap();
            // Tests name keys that do not exist.
            let code = text.split("#[cfg(test)]").next().unwrap().to_owned();
            found.push((path.display().to_string(), code));
        }
    }
}

/// The quoted words that could be keys: small letters, digits and underscores, with dots between them.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    let is_key = |text: &&str| {
        let part = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        text.contains('.') && text.len() < 80 && text.split('.').all(part)
    };
    text.split('"').filter(is_key)
}
