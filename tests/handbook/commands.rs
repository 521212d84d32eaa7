//! Blocks of `console` and `sh`: each `gatewright` command exists with its options, and each path in a `curl` command
//! is served.

use std::{collections::HashMap, fs};

use gatewright_servers::Folder;
use serde_json::Value;

use super::pages::{Block, Page, handbook};
use crate::harness::gatewright;

const AROUND: &str = include_str!("around.toml");
/// Further settings of the examples' server: everything that is off by default.
const ALL_ON: &str = "[server]\npublic_url = \"http://localhost:8080\"\n[authorization_server]\nenabled = true\n\
                      [admin]\nenabled = true\n[[outbox.consumer]]\nname = \"billing\"\n\
                      event = \"entity.created\"\npull = true\n";
/// Paths that are served, but are not in the document or not of this server.
const ELSEWHERE: [&str; 3] = ["/api/docs", "/dev/mail", "/metrics"];

/// The commands of a block, without their output. A line that ends in `\` continues.
fn commands(block: &Block<'_>) -> Vec<String> {
    let joined = block.code.replace("\\\n", " ");
    let lines = joined.lines();
    match block.language {
        "console" => lines.filter_map(|line| line.trim_start().strip_prefix("$ ")).map(str::to_owned).collect(),
        "sh" => lines.filter(|line| !line.starts_with('#')).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The arguments of each call of `gatewright` in a line of shell.
fn calls(command: &str) -> Vec<Vec<&str>> {
    let parts = command.split(['|', ';', '&', ')', '>', '#', '(']);
    let words = parts.map(|part| part.split_whitespace().collect::<Vec<_>>());
    words
        .filter_map(|words| {
            let program = words.iter().position(|word| *word == "gatewright")?;
            // An account or a file of that name, not a call.
            let called =
                program == 0 || words[..program].iter().all(|word| !["adduser", "docker", "cp"].contains(word));
            let call = words[program + 1..].to_vec();
            let is_command = call.first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
            (called && is_command).then_some(call)
        })
        .collect()
}

#[test]
fn every_command_of_the_handbook_exists_with_its_options() {
    let folder = Folder::create("handbook").unwrap();
    let mut help: HashMap<Vec<&str>, (i32, String)> = HashMap::new();
    let mut unknown = Vec::new();
    let pages = handbook();
    let blocks: Vec<_> = pages.iter().flat_map(Page::blocks).collect();
    let shown: Vec<_> = blocks.iter().map(|block| (&block.place, commands(block))).collect();
    let mut count = 0;
    for (place, call) in
        shown.iter().flat_map(|(place, lines)| lines.iter().flat_map(|line| calls(line)).map(move |call| (place, call)))
    {
        count += 1;
        let name = |length: usize| call.iter().take(length).copied().collect::<Vec<_>>();
        let text = [2, 1].into_iter().map(name).find_map(|name| {
            let words: Vec<&str> = [&["help"], &*name].concat();
            let (status, text) = help.entry(name).or_insert_with(|| {
                let finished = gatewright(folder.path(), &words, "");
                (finished.status, finished.out)
            });
            (*status == 0).then(|| text.clone())
        });
        let Some(text) = text else {
            unknown.push(format!("{place}: gatewright {}: no such command", call.join(" ")));
            continue;
        };
        for option in call.iter().filter(|word| word.starts_with("--")) {
            let option = option.split('=').next().unwrap_or_default();
            if !text.split_whitespace().any(|word| word.trim_end_matches(',') == option) {
                unknown.push(format!("{place}: gatewright {}: no option {option}", call.join(" ")));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(count > 20, "only {count} commands were found");
}

#[test]
fn every_path_in_a_curl_command_is_served() {
    let folder = Folder::create("handbook").unwrap();
    fs::write(folder.path().join("gatewright.toml"), format!("{ALL_ON}{AROUND}")).unwrap();
    let document = gatewright(folder.path(), &["openapi"], "");
    assert_eq!(document.status, 0, "{}", document.err);
    let document: Value = serde_json::from_str(&document.out).unwrap();
    let served: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let mut unknown = Vec::new();
    let mut count = 0;
    for page in handbook() {
        for block in page.blocks() {
            for command in commands(&block).iter().filter(|command| command.contains("curl ")) {
                let urls = command.split(|c: char| c.is_whitespace() || "'\"".contains(c));
                for url in urls.filter(|word| word.starts_with("http://") || word.starts_with("https://")) {
                    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
                    let path = format!("/{}", path.split(['?', '#']).next().unwrap_or_default());
                    count += 1;
                    // With the browser backend, records are below `/api`.
                    let path =
                        path.strip_prefix("/api").filter(|rest| !rest.starts_with("/docs")).unwrap_or(&path).to_owned();
                    let known = ELSEWHERE.contains(&&*path) || served.iter().any(|served| same(served, &path));
                    if !known {
                        unknown.push(format!("{}: {path}", block.place));
                    }
                }
            }
        }
    }
    assert!(unknown.is_empty(), "not served:\n{}", unknown.join("\n"));
    assert!(count > 15, "only {count} addresses were found");
}

/// Whether a path of the document, with `{name}` in it, matches this one. `$step` is a variable of a shell loop.
fn same(served: &str, path: &str) -> bool {
    let (served, path): (Vec<_>, Vec<_>) = (served.split('/').collect(), path.split('/').collect());
    let word = |(served, word): (&&str, &&str)| served == word || served.starts_with('{') || word.starts_with('$');
    served.len() == path.len() && served.iter().zip(&path).all(word)
}
