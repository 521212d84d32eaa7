//! The reference of errors has every code that the server can answer with, and no other.

use std::{collections::BTreeSet, fs, path::Path};

use super::pages::root;

/// Codes that are not written beside a `Problem`: each is found in the source by its quoted name alone.
const ELSEWHERE: [&str; 1] = ["error"];

#[test]
fn the_reference_has_every_code_of_the_source_and_no_other() {
    let mut source = String::new();
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        read(&folder.unwrap().path().join("src"), &mut source);
    }
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
    let table = page.split_once("## Codes\n").unwrap().1.split_once("\n## ").unwrap().0;
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<&str> = rows.map(|(code, _)| code).filter(|code| *code != "code").collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(listed, sorted, "the rows are not in order, or one is there twice");
    let listed: BTreeSet<String> = listed.into_iter().map(str::to_owned).collect();
    let missing: Vec<_> = used.difference(&listed).collect();
    let unknown: Vec<_> = listed.difference(&used).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "docs/errors.md lacks {missing:?} and has {unknown:?}");
    assert!(used.len() > 60, "{used:?}");
}

/// The first quoted word after each occurrence of `word`, on the same statement.
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
            text.push_str(file.split("#[cfg(test)]").next().unwrap_or_default());
        }
    }
}
