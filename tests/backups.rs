//! Backups with files: all of them come back as they were, on another server too, and a command that dies changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gatewright_servers::Folder;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Database, Launch, Server, binary, gatewright};

const ADA: &str = "ada@example.com";

const ENTITIES: &str = "[storage]\nreserve_bytes = 0\npath = \"files\"\n[[entity]]\nname = \"papers\"\npublic = true\n\
    [[entity.field]]\nname = \"pages\"\ntype = \"file\"\nmany = true\n";

/// Of the blocks of a tar, and of the pieces in which files are read.
const SIZES: [usize; 12] = [0, 1, 511, 512, 513, 1024, 65_535, 65_536, 65_537, 262_144, 300_001, 3_000_000];

/// Text of which no two files have the same.
fn content(number: usize, size: usize) -> String {
    let line = format!("{number} is a file of {size} bytes. ");
    line.repeat(size / line.len() + 1)[..size].to_owned()
}

async fn upload(client: &Client, text: &str) -> String {
    let request = client.request(Method::POST, "/_files?name=page").header("content-type", "application/octet-stream");
    Answer::read(request.body(text.to_owned())).await.is(201).json()["id"].as_str().unwrap().to_owned()
}

/// A server with papers, one for each size, and a file that no record has.
async fn filled() -> Server {
    let server = Launch::configured(ENTITIES).start(&Database::Sqlite).await;
    let client = server.client();
    client.register(ADA).await.is(200);
    client.log_in(ADA).await.is(200);
    for (number, size) in SIZES.into_iter().enumerate() {
        let id = upload(&client, &content(number, size)).await;
        client.post("/papers", &json!({ "pages": [{ "id": id }] })).await.is(201);
    }
    upload(&client, "staged").await;
    server
}

/// The bytes of every file, by its address.
async fn downloaded(client: &Client) -> BTreeMap<String, String> {
    let papers = client.get("/papers?limit=100").await.is(200).json();
    let pages = papers["data"].as_array().unwrap().iter().flat_map(|paper| paper["pages"].as_array().unwrap());
    let mut all = BTreeMap::new();
    for page in pages {
        let url = page["url"].as_str().unwrap();
        let answer = Answer::read(client.request(Method::GET, url)).await.is(200);
        assert_eq!(answer.text.len() as u64, page["size"].as_u64().unwrap());
        all.insert(url.to_owned(), answer.text);
    }
    all
}

/// The bytes of every file of a folder, by its name.
fn stored(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let groups = fs::read_dir(folder).into_iter().flatten().map(|group| group.unwrap().path());
    let files = groups.flat_map(|group| fs::read_dir(group).unwrap().map(|file| file.unwrap().path()));
    let named = |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
    files.map(named).filter(|(name, _)| name != "gatewright-store").collect()
}

/// Deletes every record, and waits until no bytes are left of their files.
async fn emptied(server: &Server) {
    let client = server.client();
    for paper in client.get("/papers?limit=100").await.is(200).json()["data"].as_array().unwrap() {
        let path = format!("/papers/{}", paper["id"].as_str().unwrap());
        Answer::read(client.request(Method::DELETE, &path)).await.is(204);
    }
    let begin = Instant::now();
    while stored(&server.folder().join("files")).len() > 1 {
        assert!(begin.elapsed() < Duration::from_mins(1), "bytes stay");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_of_a_backup_comes_back_as_it_was() {
    let mut server = filled().await;
    let before = downloaded(&server.client()).await;
    let expected: Vec<String> = SIZES.into_iter().enumerate().map(|(number, size)| content(number, size)).collect();
    assert!(before.len() == SIZES.len() && before.values().all(|text| expected.contains(text)));
    let files = stored(&server.folder().join("files"));
    let made = gatewright(server.folder(), &["backup", "b.tar"], "");
    assert!(made.status == 0 && made.out.contains("it is a tar with the files"), "{made:?}");
    let again = gatewright(server.folder(), &["backup", "b.tar"], "");
    assert!(again.status == 1 && again.err.contains("b.tar exists"), "{again:?}");
    // Any tar reads it.
    let listed = Command::new("tar").args(["-tf", "b.tar"]).current_dir(server.folder()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut names: Vec<&str> = listed.lines().collect();
    assert_eq!(names.drain(..2).collect::<Vec<_>>(), ["manifest.json", "database.db"]);
    assert_eq!(names, files.keys().map(|id| format!("files/{id}")).collect::<Vec<_>>());

    // Over what came later.
    emptied(&server).await;
    let client = server.client();
    client.log_in(ADA).await.is(200);
    let later = upload(&client, "later").await;
    client.post("/papers", &json!({ "pages": [{ "id": later }] })).await.is(201);
    server.stop().await;
    let restored = gatewright(server.folder(), &["restore", "b.tar", "--replace"], "");
    assert!(restored.status == 0 && restored.out.contains("13 files are in the store"), "{restored:?}");
    server.restart();
    assert_eq!(downloaded(&server.client()).await, before);
    // The database of before can be used again: its files are not deleted.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(stored(&server.folder().join("files"))[&later], b"later");

    // Elsewhere.
    let elsewhere = Folder::create("elsewhere").unwrap();
    fs::write(elsewhere.path().join("gatewright.toml"), ENTITIES).unwrap();
    let tar = server.folder().join("b.tar").display().to_string();
    let words = ["restore", &tar, "--database", "sqlite://sub/g.db"];
    fs::create_dir(elsewhere.path().join("sub")).unwrap();
    let restored = gatewright(elsewhere.path(), &words, "");
    assert_eq!(restored.status, 0, "{restored:?}");
    assert_eq!(stored(&elsewhere.path().join("sub/files")), files);
    let found = gatewright(elsewhere.path(), &["verify", "--json", "--database", "sqlite://sub/g.db"], "");
    let found: Value = serde_json::from_str(&found.out).unwrap_or_else(|_| panic!("{found:?}"));
    assert_eq!(found["items"], json!([]));

    // And from there to Postgres, where the folder is another one.
    let Some(postgres) = Database::postgres().await else { return };
    let url = postgres.url();
    let promoted = gatewright(elsewhere.path(), &["promote", "--to", &url, "--database", "sqlite://sub/g.db"], "");
    assert_eq!(promoted.status, 0, "{promoted:?}");
    assert_eq!(stored(&elsewhere.path().join("files")), files);
    let store = elsewhere.path().join("files");
    let there = ENTITIES.replace("\"files\"", &format!("\"{}\"", store.display()));
    let promoted = Launch::configured(&there).start(&postgres).await;
    assert_eq!(downloaded(&promoted.client()).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_is_refused_and_nothing_changes() {
    let mut server = filled().await;
    let folder = server.folder().to_owned();
    assert_eq!(gatewright(&folder, &["backup", "b.tar"], "").status, 0);
    let before = downloaded(&server.client()).await;
    server.stop().await;
    let (tar, files) = (fs::read(folder.join("b.tar")).unwrap(), stored(&folder.join("files")));
    let cut = |length: usize| tar[..length].to_vec();
    let flipped = |at: usize| {
        let mut tar = tar.clone();
        tar[at] ^= 1;
        tar
    };
    let end = tar.len();
    let middle = tar.windows(11).position(|window| window == b"11 is a fil").unwrap();
    for damaged in [
        cut(100),
        cut(600),
        cut(middle),
        cut(end - 1500),
        cut(end - 1024),
        flipped(10),
        flipped(700),
        flipped(40_000),
        flipped(middle),
        [&tar[..end - 1024], &tar[tar.len() - 4096..]].concat(),
    ] {
        fs::write(folder.join("damaged.tar"), &damaged).unwrap();
        let refused = gatewright(&folder, &["restore", "damaged.tar", "--replace"], "");
        assert!(refused.status == 1 && refused.err.contains("sound backup"), "{refused:?}");
        assert_eq!(stored(&folder.join("files")), files);
    }
    assert!(!folder.join("gatewright.db.before-restore-1").exists());
    server.restart();
    assert_eq!(downloaded(&server.client()).await, before);
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".gatewright")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_dies_at_any_moment_leaves_the_former_state_or_the_restored_one() {
    let mut server = filled().await;
    let folder = server.folder().to_owned();
    let restored = downloaded(&server.client()).await;
    assert_eq!(gatewright(&folder, &["backup", "b.tar"], "").status, 0);
    emptied(&server).await;
    let client = server.client();
    client.log_in(ADA).await.is(200);
    let later = upload(&client, "later").await;
    client.post("/papers", &json!({ "pages": [{ "id": later }] })).await.is(201);
    let former = downloaded(&client).await;
    let mut ended = Vec::new();
    for moment in [5, 20, 40, 60, 80, 110, 150, 250] {
        server.stop().await;
        let mut restore = Command::new(binary())
            .args(["restore", "b.tar", "--replace"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(moment)).await;
        // It may have ended already.
        let _ = restore.kill();
        restore.wait().unwrap();
        server.restart();
        let found = downloaded(&server.client()).await;
        assert!(found == former || found == restored, "after {moment} ms: {} files", found.len());
        ended.push(found == restored);
        if found == restored {
            break;
        }
    }
    server.stop().await;
    let last = gatewright(&folder, &["restore", "b.tar", "--replace"], "");
    assert_eq!(last.status, 0, "{last:?}");
    server.restart();
    assert_eq!(downloaded(&server.client()).await, restored, "{ended:?}");
}
