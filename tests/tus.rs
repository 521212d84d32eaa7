//! Resumable uploads by `tus-js-client`: interrupted, continued at another server and after the death of the server.

use std::process::Stdio;

use gatewright_servers::Folder;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::client::node;
use crate::harness::{Database, Launch, PASSWORD, node_tools};

const ADA: &str = "ada@example.com";

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_upload_is_continued_elsewhere_and_after_a_death() {
    if node_tools().is_none() {
        return;
    }
    for database in Database::all().await {
        let store = Folder::create("store").unwrap();
        let configuration = format!(
            "[storage]\nreserve_bytes = 0\npath = \"{}\"\n[[entity]]\nname = \"papers\"\npublic = true\n\
             [[entity.field]]\nname = \"pages\"\ntype = \"file\"\nmany = true\nmax_bytes = 100000000\n",
            store.path().display()
        );
        let mut server = Launch::configured(&configuration).start(&database).await;
        server.client().register(ADA).await.is(200);
        // A second server on the same database and the same store.
        let replica =
            if database.is_postgres() { Some(Launch::configured(&configuration).start(&database).await) } else { None };
        let base = format!("http://{}", server.address());
        let other = replica.as_ref().map_or(base.clone(), |replica| format!("http://{}", replica.address()));
        let script = format!("{}/tools/tus.mjs", env!("CARGO_MANIFEST_DIR"));
        let mut running = Command::new(node())
            .args([&script, &base, &other, ADA, PASSWORD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("half"), "{}", server.log());
        server.kill();
        running.stdin.take().unwrap().write_all(b"\n").await.unwrap();
        server.restart();
        let report = lines.next_line().await.unwrap().unwrap_or_else(|| panic!("{}", server.log()));
        let report: Value = serde_json::from_str(&report).unwrap();
        let whole = |size: u64| json!({ "name": "film.bin", "size": size, "isWhole": true });
        let expected = json!({
            "wasStopped": true,
            "resumed": whole(20_000_001),
            "survived": whole(20_000_003),
            "whole": whole(3_000_000),
            "empty": whole(0),
            "ended": 410,
        });
        assert_eq!(report, expected);
        assert!(running.wait().await.unwrap().success());
        // Files, and the marker of the store; no pieces.
        let groups = std::fs::read_dir(store.path()).unwrap().map(|group| group.unwrap().path());
        let names = groups.flat_map(|group| std::fs::read_dir(group).unwrap().map(|file| file.unwrap().file_name()));
        let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        assert!(names.iter().all(|name| !name.contains(".p")) || has_only_ended(&names), "{names:?}");
    }
}

/// Whether the pieces are of one upload: of the one that was ended, which the sweep deletes.
fn has_only_ended(names: &[String]) -> bool {
    let pieces = names.iter().filter_map(|name| name.split_once(".p"));
    let mut ids: Vec<&str> = pieces.map(|(id, _)| id).collect();
    ids.dedup();
    ids.len() == 1
}
