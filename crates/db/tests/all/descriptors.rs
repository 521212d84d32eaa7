//! The limit of open files.

#![cfg(unix)]

use std::fs::File;
use std::process::Command;

use gatewright_db::{Db, Options};

/// Where the process that has no descriptors finds its database.
const FILE: &str = "GATEWRIGHT_TEST_DESCRIPTORS";

#[test]
fn a_process_without_file_descriptors_is_told_so() {
    // The process that this test starts runs the same test, and takes this way.
    if let Ok(file) = std::env::var(FILE) {
        return println!("{}", open_without_descriptors(&file));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("there.db");
    File::create(&file).unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::a_process_without_file_descriptors_is_told_so", "--nocapture"])
        .env(FILE, &file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the process has no file descriptor left; raise its limit"), "{text}");
    assert!(!text.contains("permission"), "{text}");
}

/// The error of opening a database when every descriptor is taken.
fn open_without_descriptors(file: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut held = Vec::new();
    while let Ok(null) = File::open("/dev/null") {
        held.push(null);
    }
    let url = format!("sqlite://{file}");
    runtime.block_on(Db::open(&url, Options::default())).unwrap_err().to_string()
}
