//! Blocks of TOML and JSON. A block of TOML is part of a configuration that `gatewright check` accepts.

use std::fs;

use gatewright_servers::Folder;
use serde_json::Value;
use toml::{Table, Value as Toml};

use super::pages::handbook;
use crate::harness::gatewright;

/// The data of the handbook's examples. A block may declare parts of it differently.
const AROUND: &str = include_str!("around.toml");

#[test]
fn every_block_of_toml_is_accepted_by_check() {
    let folder = Folder::create("handbook").unwrap();
    let around: Table = AROUND.parse().unwrap();
    let mut refused = Vec::new();
    for page in handbook() {
        for block in page.blocks().into_iter().filter(|block| block.language == "toml") {
            let own = match whole(&block.code).parse::<Table>() {
                Ok(own) => own,
                Err(error) => {
                    refused.push(format!("{}: {error}", block.place));
                    continue;
                }
            };
            let mut complete = around.clone();
            merge(&mut complete, own.clone());
            let errors = [&own, &complete].map(|table| check(&folder, table));
            if let [Err(_), Err(error)] = errors {
                refused.push(format!("{}: {error}", block.place));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn every_block_of_json_is_valid() {
    for page in handbook() {
        for block in page.blocks().into_iter().filter(|block| block.language == "json") {
            let read = serde_json::from_str::<Value>(&block.code);
            assert!(read.is_ok(), "{}: {}", block.place, read.unwrap_err());
        }
    }
}

/// Dev mode spares the blocks their secrets. They are for production, where the address is public.
fn check(folder: &Folder, table: &Table) -> Result<(), String> {
    let mut table = table.clone();
    merge(&mut table, "server.allow_public_dev_mode = true".parse().unwrap());
    fs::write(folder.path().join("gatewright.toml"), table.to_string()).unwrap();
    let finished = gatewright(folder.path(), &["check", "--dev"], "");
    if finished.status == 0 { Ok(()) } else { Err(finished.out + &finished.err) }
}

/// The block with values instead of placeholders, and with an entity around a part of one.
fn whole(code: &str) -> String {
    let secret = "handbook-handbook-handbook-handbook";
    let code = code.replace("whsec_…", "whsec_aGFuZGJvb2staGFuZGJvb2staGFuZGJvb2s=").replace('…', secret);
    let part = code.trim_start().starts_with("[[entity.") || code.trim_start().starts_with("[entity.");
    if part { format!("[[entity]]\nname = \"things\"\n{code}") } else { code }
}

/// Merges `own` into `base`: tables by key, lists of named tables by name, anything else as a whole.
pub(crate) fn merge(base: &mut Table, own: Table) {
    for (key, value) in own {
        match (base.get_mut(&key), value) {
            (Some(Toml::Table(base)), Toml::Table(own)) => merge(base, own),
            (Some(Toml::Array(base)), Toml::Array(own)) if own.iter().all(|item| item.get("name").is_some()) => {
                for item in own {
                    let same = base.iter_mut().find(|other| other.get("name") == item.get("name"));
                    match (same, item) {
                        (Some(Toml::Table(base)), Toml::Table(own)) => merge(base, own),
                        (_, item) => base.push(item),
                    }
                }
            }
            (_, value) => drop(base.insert(key, value)),
        }
    }
}
