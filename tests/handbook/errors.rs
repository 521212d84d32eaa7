//! The reference of errors has every code that the server can answer with, and no other code; the codes of fields too.

use std::{collections::BTreeSet, fs, path::Path};

use super::pages::root;

/// Codes that are not in a `Problem` literal. The source contains each of them as a quoted text.
const ELSEWHERE: [&str; 3] = ["error", "file_not_found", "refused"];

#[test]
fn the_reference_has_every_code_of_the_source_and_no_other() {
    let source = source();
    let mut used: BTreeSet<String> = BTreeSet::new();
    for constructor in [".with_code(", "Problem::new(StatusCode::", "Self::new(StatusCode::"] {
        used.extend(after(&source, constructor));
    }
    let statuses = source.split_once("pub fn of(status: StatusCode)").unwrap().1.split_once("Self::new(").unwrap().0;
    used.extend(statuses.split("=> (").skip(1).filter_map(|rest| quoted(rest).map(str::to_owned)));
    for code in ELSEWHERE {
        assert!(source.contains(&format!("\"{code}\"")), "{code} is not in the source");
        used.insert(code.to_owned());
    }
    let page = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    // The texts of an enum's `code` are codes of answers, or of fields.
    let fields: BTreeSet<&str> = listed(&page, "Codes of fields").into_iter().collect();
    for of_enum in source.split("fn code(").skip(1).filter(|rest| signature(rest).ends_with("-> &'static str ")) {
        used.extend(words_of_match(of_enum).filter(|code| !fields.contains(code)).map(str::to_owned));
    }
    let listed = listed(&page, "Codes");
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(listed, sorted, "the rows are not in order, or one is there twice");
    let listed: BTreeSet<String> = listed.into_iter().map(str::to_owned).collect();
    let missing: Vec<_> = used.difference(&listed).collect();
    let unknown: Vec<_> = listed.difference(&used).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "docs/errors.md lacks {missing:?} and has {unknown:?}");
    assert!(used.len() > 60, "{used:?}");
}

#[test]
fn the_reference_has_every_code_of_a_field() {
    let source = source();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    // The second argument is the code: `invalid_field("email", "invalid", …)`.
    let calls = source.split("invalid_field(\"").skip(1).filter_map(|rest| rest.split_once("\", \""));
    used.extend(calls.filter(|(field, _)| !field.contains('"')).filter_map(|(_, rest)| rest.split('"').next()));
    let of_bodies = source.split_once("pub mod code {").unwrap().1.split_once("\n}").unwrap().0;
    used.extend(of_bodies.split("&str = ").skip(1).filter_map(quoted));
    for word in ["FieldsError::new(", "code: "] {
        used.extend(source.split(word).skip(1).filter(|rest| rest.starts_with('"')).filter_map(quoted));
    }
    for owner in ["impl WeakPassword {", "impl InvalidTokenDraft {"] {
        let of_owner = source.split_once(owner).unwrap().1;
        used.extend(words_of_match(of_owner.split_once("fn code(").unwrap().1));
    }
    let page = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let listed: BTreeSet<&str> = listed(&page, "Codes of fields").into_iter().collect();
    let missing: Vec<_> = used.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/errors.md lacks {missing:?}");
    let unknown: Vec<_> = listed.iter().filter(|code| !source.contains(&format!("\"{code}\""))).collect();
    assert!(unknown.is_empty(), "docs/errors.md has {unknown:?}");
    assert!(used.len() > 14, "{used:?}");
}

#[test]
fn the_reference_has_every_code_of_the_authorization_server() {
    let source = fs::read_to_string(root().join("crates/auth/src/plugins/authorization_server/error.rs")).unwrap();
    let names = source.split_once("fn name(self)").unwrap().1;
    let mut used: Vec<&str> = words_of_match(names).collect();
    used.sort_unstable();
    let page = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    assert_eq!(listed(&page, "Codes of the authorization server"), used);
}

/// The words in the first column of the table below a heading.
fn listed<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let section = page.split_once(&format!("## {heading}\n")).unwrap().1.split("\n## ").next().unwrap();
    let (_, rows) = section.split_once("\n|---").unwrap();
    let cells = rows.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let words = cells.flat_map(|cell| cell.split(|c: char| c != '_' && !c.is_ascii_lowercase()));
    words.filter(|word| !word.is_empty()).collect()
}

/// The text between a function's name and its body.
fn signature(rest: &str) -> &str {
    rest.split('{').next().unwrap_or_default()
}

/// The texts that a function returns. Its body is one `match`.
fn words_of_match(function: &str) -> impl Iterator<Item = &str> {
    let body = function.split("\n    }\n").next().unwrap_or_default();
    body.split("=> ").skip(1).filter(|rest| rest.starts_with('"')).filter_map(quoted)
}

/// The crates' source, without the tests in it.
fn source() -> String {
    let mut source = String::new();
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        read(&folder.unwrap().path().join("src"), &mut source);
    }
    source
}

/// The first quoted text after each occurrence of `word`, in the same statement.
fn after<'a>(source: &'a str, word: &'a str) -> impl Iterator<Item = String> + 'a {
    source.split(word).skip(1).filter_map(|rest| quoted(&rest[..rest.floor_char_boundary(120)])).map(str::to_owned)
}

fn quoted(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once('"')?;
    let is_code = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
    (!before.contains(';')).then_some(rest.split('"').next()?).filter(is_code)
}

fn read(folder: &Path, text: &mut String) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = fs::read_to_string(path).unwrap();
            // What tests alone use inside an `impl` is indented, and no module.
            text.push_str(file.split("\n#[cfg(test)]").next().unwrap_or_default());
        }
    }
}
