//! The generated pages are up to date.

use std::fs;

use gatewright_servers::Folder;

use super::pages::root;
use crate::harness::gatewright;

#[test]
fn the_generated_pages_are_up_to_date() {
    let folder = Folder::create("handbook").unwrap();
    let pages = ["command-line.md", "configuration.md", "http.md"];
    for page in pages {
        fs::copy(root().join("docs").join(page), folder.path().join(page)).unwrap();
    }
    let written = gatewright(folder.path(), &["reference", "."], "");
    assert_eq!(written.status, 0, "{}", written.err);
    for page in pages {
        let read = |folder: &std::path::Path| fs::read_to_string(folder.join(page)).unwrap();
        let same = read(folder.path()) == read(&root().join("docs"));
        assert!(same, "docs/{page} is out of date: run `cargo run -- reference docs`");
    }
}
