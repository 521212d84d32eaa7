//! The descriptions of settings agree with the parser.

use std::collections::BTreeSet;

use gatewright::Config;
use gatewright::config::{Absent, Setting};

use super::{problems, read};

/// Sections that are written `[[…]]`.
const LISTS: [&str; 11] = [
    "job",
    "hook",
    "entity",
    "entity.field",
    "entity.check",
    "outbox.consumer",
    "auth.oauth.oidc",
    "auth.oauth.oauth2",
    "auth.profile.field",
    "view",
    "view.field",
];

/// Sections whose keys the operator chooses.
const FREE: [&str; 4] = ["authorization_server.claims", "entity.search.fields", "roles", "tenancy.roles"];

/// A value for a key that must be written.
fn sample(key: &str) -> &'static str {
    match key {
        "schedule" => "\"0 3 * * *\"",
        "entity" => "\"posts\"",
        "on" => "[\"before_create\"]",
        "type" => "\"string\"",
        "event" => "\"entity.created\"",
        "team_id" | "key_id" => "\"ABCDE12345\"",
        "private_key" => super::APPLE_KEY,
        "issuer" | "url" | "authorize_url" | "token_url" | "userinfo_url" => "\"https://example.com/there\"",
        "secret" => "\"whsec_aGFuZGJvb2staGFuZGJvb2staGFuZGJvb2s=\"",
        "smtp_url" => "\"smtp://127.0.0.1\"",
        "sql" => "\"SELECT '1' AS id, 'x' AS things\"",
        "from" => "\"a@example.com\"",
        "fields" => "[\"email\"]",
        _ => "\"things\"",
    }
}

/// A file that opens `section` with what it and the sections around it need, and then has `line`.
fn file(settings: &[Setting], section: &str, line: &str) -> String {
    let ends = section.match_indices('.').map(|(end, _)| end).chain([section.len()]);
    let mut text = String::new();
    for around in ends.map(|end| &section[..end]) {
        let (open, close) = if LISTS.contains(&around) { ("[[", "]]\n") } else { ("[", "]\n") };
        text.extend([open, around, close]);
        if around == "outbox" && section != around {
            // Consumers are refused without it.
            text += "enabled = true\n";
        }
        if around == "hook" {
            text.insert_str(0, "[[entity]]\nname = \"posts\"\n");
        }
        if around == "job" && !line.starts_with("url") && !line.starts_with("secret") {
            text.extend(["url = ", sample("url"), "\nsecret = ", sample("secret"), "\n"]);
        }
        let required = settings.iter().filter(|of| of.section == around && of.default == Absent::Refused);
        let is_line = |key: &str| around == section && line.starts_with(&format!("{key} ="));
        for key in required.map(|of| of.key).filter(|key| !is_line(key)) {
            text.extend([key, " = ", sample(key), "\n"]);
        }
    }
    text + line + "\n"
}

#[test]
fn writing_a_default_explicitly_changes_nothing() {
    let settings = Config::settings();
    let mut count = 0;
    for Setting { section, key, default, .. } in &settings {
        let Absent::Value(value) = default else { continue };
        count += 1;
        let without = read(&file(&settings, section, ""));
        let with = read(&file(&settings, section, &format!("{key} = {value}")));
        assert_eq!(problems(without.clone()), "", "[{section}]");
        assert_eq!(problems(with.clone()), "", "[{section}] {key} = {value}");
        assert_eq!(format!("{with:?}"), format!("{without:?}"), "[{section}] {key} = {value}");
    }
    assert!(count > 90, "only {count} defaults");
}

#[test]
fn every_described_key_is_known_and_no_other_is() {
    let settings = Config::settings();
    let sections: BTreeSet<&str> = settings.iter().map(|setting| &*setting.section).collect();
    for Setting { section, key, .. } in &settings {
        let told = problems(read(&file(&settings, section, &format!("{key} = {{}}"))));
        assert!(!told.contains("unknown key"), "[{section}] {key}: {told}");
    }
    for section in sections.iter().filter(|section| !FREE.contains(section)) {
        let told = problems(read(&file(&settings, section, "no_such_key = 1")));
        assert!(told.contains("unknown key") && told.contains("no_such_key"), "[{section}]: {told}");
    }
    let told = problems(read("[no_such_section]\n"));
    assert!(told.contains("unknown key `no_such_section`"), "{told}");
    assert!(sections.len() > 30, "{sections:?}");
}

#[test]
fn a_setting_is_described_once_and_in_words() {
    let settings = Config::settings();
    let mut seen = BTreeSet::new();
    for Setting { section, key, kind, about, .. } in &settings {
        assert!(seen.insert((section, key)), "[{section}] {key} stands twice");
        assert!(about.ends_with('.') && !about.contains("  "), "[{section}] {key}: {about}");
        assert!(!kind.is_empty(), "[{section}] {key}");
    }
}
