//! Checks of the source tree that no compiler makes and no reviewer should have to make.

use std::{
    fs,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, ensure};

use crate::run::root;

const LONGEST: usize = 500;
/// The text that gives the reason for a longer file, within its first lines.
const REASON: &str = "long because";

/// Words that must not be in Rust source. They are split here, so that this file passes.
const IN_SOURCE: [(&str, &str); 6] = [
    (concat!("#[al", "low("), "say `expect`, with a reason"),
    (concat!("#![al", "low("), "say `expect`, with a reason"),
    (concat!("to", "do!("), "finish it"),
    (concat!("unimple", "mented!("), "finish it"),
    (concat!("FIX", "ME"), "fix it"),
    (concat!("#[ign", "ore]"), "give the reason: `ignore = \"…\"`"),
];

/// Words that must not be in any file: folders of one machine, and hosts of package registries.
const ANYWHERE: [(&str, &str); 9] = [
    (concat!("/wo", "rk/"), "a folder of one machine"),
    (concat!("/ro", "ot/"), "a folder of one machine"),
    (concat!("/ho", "me/"), "a folder of one machine"),
    (concat!("../sha", "red"), "outside the repository"),
    (concat!("deb.deb", "ian.org"), "a registry's host"),
    (concat!("registry.npm", "js.org"), "a registry's host"),
    (concat!("files.python", "hosted.org"), "a registry's host"),
    (concat!("static.cra", "tes.io"), "a registry's host"),
    (concat!("index.cra", "tes.io"), "a registry's host"),
];

/// The crates of the workspace that a crate may depend on. Its tests may use any. The graph has no cycles, and the
/// sign-in code and the entity code never depend on each other.
const LAYERS: [(&str, &[&str]); 13] = [
    ("base", &[]),
    ("servers", &[]),
    ("db", &["base", "servers"]),
    ("http", &["base"]),
    ("outbound", &[]),
    ("redis", &["base"]),
    ("limits", &["base", "db", "http", "redis"]),
    ("events", &["base", "db", "http", "outbound", "redis"]),
    ("mail", &["base", "db", "http", "servers"]),
    ("tenancy", &["base", "db"]),
    ("auth", &["base", "db", "http", "limits", "events", "outbound", "tenancy"]),
    ("entities", &["base", "db", "http", "limits", "events", "tenancy"]),
    ("files", &["base", "db", "entities", "http"]),
];

/// Columns whose contents callers choose and can make large, and the lists of an entity's columns. A statement that returns
/// one has a bound of bytes: the comment [`BOUND`] above it says which.
const CALLER_SIZED: [&str; 11] = [
    "record",
    "payload",
    "message",
    "read_before",
    "meta",
    "profile",
    "sealed",
    "{columns}",
    "{select}",
    "{returning}",
    "{there}",
];
const BOUND: &str = "// Bytes: ";
/// The lines above a statement that may have the comment.
const ABOVE: usize = 8;

/// The files of `auth` outside of its plugins that may use them: they assemble the plugins.
const ABOVE_PLUGINS: [&str; 3] = ["auth.rs", "builder.rs", "lib.rs"];

/// Files that exist twice, because a package contains only the files of its folder, and symbolic links do not survive
/// every way of copying a tree. The first is the one to edit. A name without folders means a file of each crate.
const COPIES: [(&str, &str); 3] = [
    ("examples/blog.toml", "crates/gatewright/src/config/blog.toml"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
];

/// Reads every file that is or would be committed. Prints one line for each problem.
pub(crate) fn run() -> Result<ExitCode> {
    let mut findings = Vec::new();
    let mut count = 0;
    for path in files()? {
        // `git` also lists files whose removal is not staged yet. Pictures are not text.
        let Ok(text) = fs::read_to_string(format!("{}/{path}", root())) else {
            continue;
        };
        count += 1;
        findings.extend(check(&path, &text).into_iter().map(|finding| format!("{path}{finding}")));
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("guards: {count} files, {} findings", findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot start git")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let list = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

/// The problems of one file. Each begins with the position in the file.
fn check(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let extension = path.rsplit('.').next();
    if extension == Some("lock") {
        return findings;
    }
    findings.extend(copy(path, text, |original| fs::read_to_string(format!("{}/{original}", root())).ok()));
    findings.extend(words(text, &ANYWHERE));
    if extension == Some("rs") {
        findings.extend(words(text, &IN_SOURCE));
        findings.extend(length(text));
        findings.extend(plugins(path, text));
        findings.extend(unbounded(path, text));
    }
    if path.ends_with("/Cargo.toml") {
        findings.extend(manifest(path, text));
    }
    findings
}

/// Whether a copy is equal to its original, which `read` reads.
fn copy(path: &str, text: &str, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let is_copy = |name: &str| path == name || (path.starts_with("crates/") && path.split('/').skip(2).eq([name]));
    let (original, _) = COPIES.iter().find(|(original, copy)| path != *original && is_copy(copy))?;
    let same = read(original).is_some_and(|original| original == text);
    (!same).then(|| format!(": not the same as {original}: copy that over it"))
}

fn words(text: &str, table: &[(&str, &str)]) -> Vec<String> {
    let lines = text.lines().zip(1..);
    lines
        .flat_map(|(line, number)| {
            let found = table.iter().filter(move |(word, _)| line.contains(word));
            found.map(move |(word, why)| format!(":{number}: `{word}`: {why}"))
        })
        .collect()
}

/// In `auth`, plugins depend on shared modules, never the reverse.
fn plugins(path: &str, text: &str) -> Vec<String> {
    let below = path.strip_prefix("crates/auth/src/").filter(|file| !file.starts_with("plugins/"));
    if below.is_none_or(|file| ABOVE_PLUGINS.contains(&file)) {
        return Vec::new();
    }
    let code = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
    code.filter(|(line, _)| line.contains("crate::plugins"))
        .map(|(_, number)| format!(":{number}: what plugins share must not use a plugin"))
        .collect()
}

/// Statements that return columns of any size without a word about their bytes.
fn unbounded(path: &str, text: &str) -> Vec<String> {
    let is_source = path.starts_with("crates/") && path.contains("/src/") && !path.contains("/tests");
    let is_below = |crate_name: &str| path.starts_with(&format!("crates/{crate_name}/"));
    if !is_source || is_below("servers") || is_below("testing") {
        return Vec::new();
    }
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines: Vec<&str> = code.lines().collect();
    let mut findings = Vec::new();
    for word in ["SELECT ", "RETURNING "] {
        for (at, _) in code.match_indices(word) {
            let number = code[..at].lines().count().max(1);
            if lines.get(number - 1).is_some_and(|line| line.trim_start().starts_with("//")) {
                continue;
            }
            let rest = &code[at + word.len()..];
            let end = [" FROM ", "\n             FROM ", "\"", ";"].iter().filter_map(|end| rest.find(end)).min();
            let Some(column) = sized_column(&rest[..end.unwrap_or(rest.len())]) else { continue };
            let is_said = lines[number.saturating_sub(ABOVE)..number].iter().any(|line| line.contains(BOUND));
            if !is_said {
                findings.push(format!(
                    ":{number}: returns `{column}`, which callers can make large: read sizes first, and say the bound in `{BOUND}…`"
                ));
            }
        }
    }
    findings
}

/// The first of [`CALLER_SIZED`] among the selected columns, not counting lengths of them.
fn sized_column(selected: &str) -> Option<&'static str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    CALLER_SIZED.into_iter().find(|column| {
        selected.match_indices(column).any(|(at, _)| {
            let (before, after) = (&selected[..at], &selected[at + column.len()..]);
            let is_word = column.starts_with('{') || !(before.ends_with(is_part) || after.starts_with(is_part));
            let is_interpolated = before.ends_with('{') && after.starts_with('}');
            let is_length = before.ends_with("octet_length(");
            is_word && !is_interpolated && !is_length
        })
    })
}

fn length(text: &str) -> Option<String> {
    let lines = text.lines().count();
    let reasoned = text.lines().take(30).any(|line| line.starts_with("//") && line.contains(REASON));
    (lines > LONGEST && !reasoned)
        .then(|| format!(": {lines} lines; split it, or say at its top that it is {REASON} …"))
}

fn manifest(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.contains("[lints]\nworkspace = true") {
        findings.push(": does not take the workspace's lints".to_owned());
    }
    let folder = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")).unwrap_or_default();
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == folder) else {
        return findings;
    };
    let mut section = "";
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with('[') {
            section = line;
        }
        let used = line.strip_prefix("gatewright").filter(|_| section == "[dependencies]");
        let Some(used) = used.and_then(|rest| rest.split(['.', ' ', '=']).next()) else {
            continue;
        };
        let used = used.strip_prefix('-').unwrap_or("gatewright");
        if !allowed.contains(&used) {
            findings.push(format!(":{number}: {folder} must not build on {used}"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_text_is_found_with_its_position() {
        let long = "\n".repeat(LONGEST + 1);
        for (path, text, finding) in [
            ("a.md", format!("fine\nsee {}x", ANYWHERE[0].0), ":2: `"),
            ("a.rs", format!("{}dead_code)]", IN_SOURCE[0].0), ":1: `"),
            ("a.rs", long.clone(), ": 501 lines"),
            ("crates/x/Cargo.toml", "[package]".into(), ": does not take"),
            ("crates/auth/src/session/mint.rs", "use crate::plugins::tokens;".into(), ":1: what plugins share"),
            (
                "crates/auth/Cargo.toml",
                "[dependencies]\ngatewright-entities.workspace = true\n[lints]\nworkspace = true".into(),
                ":2: auth must not build on entities",
            ),
        ] {
            let findings = check(path, &text);
            assert_eq!(findings.len(), 1, "{path}: {findings:?}");
            assert!(findings[0].starts_with(finding), "{findings:?}");
        }
    }

    #[test]
    fn a_statement_that_returns_what_callers_size_says_its_bound() {
        let of = |text: &str| unbounded("crates/events/src/log/page.rs", text).len();
        let select = "fn f() {\n    let sql = \"SELECT id, payload FROM event_outbox\";\n}";
        assert_eq!(of(select), 1);
        assert_eq!(of(&select.replace("    let", "    // Bytes: of rows that fit.\n    let")), 0);
        assert_eq!(of(&select.replace("    let", "    // Of rows that fit.\n    let")), 1);
        assert_eq!(of(&select.replace("payload", "octet_length(payload)")), 0);
        assert_eq!(of(&select.replace("payload", "payload_bytes")), 0);
        assert_eq!(of(&select.replace("id, payload", "COALESCE(l.record, '') AS record")), 1);
        assert_eq!(of(&select.replace("id, payload", "{columns}")), 1);
        assert_eq!(of("fn f() { \"UPDATE t SET a = 1 RETURNING {columns}\" }"), 1);
        assert_eq!(of(&format!("#[cfg(test)]\nmod tests {{ {select} }}")), 0, "tests have their own rows");
        assert_eq!(unbounded("tests/memory.rs", select).len(), 0);
    }

    #[test]
    fn a_copy_is_the_same_as_its_original() {
        let read = |name: &str| (name == "LICENSE-MIT").then(|| "the licence".to_owned());
        for (path, text, is_good) in [
            ("LICENSE-MIT", "another", true),
            ("crates/db/LICENSE-MIT", "the licence", true),
            ("crates/db/LICENSE-MIT", "../../LICENSE-MIT", false),
            ("crates/db/src/LICENSE-MIT", "another", true),
            ("crates/gatewright/src/config/blog.toml", "its original is gone", false),
        ] {
            assert_eq!(copy(path, text, read).is_none(), is_good, "{path}: {text}");
        }
    }

    #[test]
    fn an_explained_length_and_texts_in_other_places_pass() {
        let reasoned = format!("//! This file is {REASON} it is one table.{}", "\n".repeat(LONGEST + 1));
        for (path, text) in [
            ("a.rs", reasoned),
            ("a.md", "\n".repeat(LONGEST + 1)),
            ("Cargo.lock", ANYWHERE[8].0.into()),
            ("crates/auth/src/builder.rs", "use crate::plugins::Plugin;".into()),
            ("crates/auth/src/lib.rs", "//! See [`crate::plugins`].".into()),
            ("crates/auth/src/mail.rs", "/// For [`crate::plugins::magic_link`].".into()),
            (
                "crates/auth/Cargo.toml",
                "[dependencies]\ngatewright-base.workspace = true\n[dev-dependencies]\ngatewright.workspace = true\n\
                 [lints]\nworkspace = true"
                    .into(),
            ),
        ] {
            assert_eq!(check(path, &text), Vec::<String>::new(), "{path}");
        }
    }
}
