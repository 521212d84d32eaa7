//! The server dies around uploads and attachments: no record names a file that is not there, and no file outlives its record.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Database, Launch, Server, gatewright};

const WRITERS: usize = 6;
const DEATHS: u64 = 6;

const ENTITIES: &str = "[storage]\nreserve_bytes = 0\npath = \"files\"\n[[entity]]\nname = \"papers\"\npublic = true\n\
    [[entity.field]]\nname = \"pages\"\ntype = \"file\"\nmany = true\n";

#[tokio::test(flavor = "multi_thread")]
async fn after_every_death_records_have_their_files_and_files_their_records() {
    for database in Database::all().await {
        let mut server = Launch::configured(ENTITIES).start(&database).await;
        server.client().register("ada@example.com").await.is(200);
        let done = Arc::new(AtomicUsize::new(0));
        for death in 0..DEATHS {
            let client = server.client();
            client.log_in("ada@example.com").await.is(200);
            let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(write(client.clone(), done.clone()))).collect();
            tokio::time::sleep(Duration::from_millis(150 + 90 * death)).await;
            server.kill();
            for writer in writers {
                writer.await.unwrap();
            }
            server.restart();
            assert_files_are_there(&server.client()).await;
        }
        assert!(done.load(Ordering::Relaxed) > 20, "the writers did something");
        let client = server.client();
        // What is left in the end is deleted with all of its records.
        let papers = all(&client).await;
        for paper in &papers {
            let path = format!("/papers/{}", paper["id"].as_str().unwrap());
            Answer::read(client.request(Method::DELETE, &path)).await.is(204);
        }
        let folder = server.folder().join("files");
        let gone: Vec<String> =
            papers.iter().flat_map(files).map(|file| file["id"].as_str().unwrap().to_owned()).collect();
        let begin = Instant::now();
        while gone.iter().any(|id| has_bytes(&folder, id)) {
            assert!(begin.elapsed() < Duration::from_mins(1), "bytes stay after the sweep");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(found(&server, &database.url()), Vec::<String>::new());
    }
}

/// Uploads, attaches, replaces and deletes until the server is gone.
async fn write(client: Client, done: Arc<AtomicUsize>) {
    for number in 0_usize.. {
        let Ok(id) = upload(&client, number).await else { return };
        let body = json!({ "pages": [{ "id": id }] });
        let Ok(made) = Answer::try_read(client.request(Method::POST, "/papers").json(&body)).await else { return };
        let path = format!("/papers/{}", made.is(201).json()["data"]["id"].as_str().unwrap());
        let Ok(more) = upload(&client, number + 1).await else { return };
        let body = match number % 3 {
            0 => json!({ "pages": { "$append": [{ "id": more }] } }),
            1 => json!({ "pages": [{ "id": more }] }),
            _ => json!({ "pages": [] }),
        };
        let Ok(_) = Answer::try_read(client.request(Method::PATCH, &path).json(&body)).await else { return };
        if number % 4 == 0 {
            let Ok(_) = Answer::try_read(client.request(Method::DELETE, &path)).await else { return };
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn upload(client: &Client, number: usize) -> reqwest::Result<String> {
    let bytes = vec![b'a'; 10_000 * (1 + number % 30)];
    let request = client.request(Method::POST, "/_files?name=page").header("content-type", "application/octet-stream");
    let answer = Answer::try_read(request.body(bytes)).await?;
    Ok(answer.is(201).json()["id"].as_str().unwrap().to_owned())
}

/// Every file that a record names can be downloaded whole.
async fn assert_files_are_there(client: &Client) {
    for paper in all(client).await {
        for file in files(&paper) {
            let answer = Answer::read(client.request(Method::GET, file["url"].as_str().unwrap())).await.is(200);
            assert_eq!(answer.header("content-length"), file["size"].to_string());
            assert_eq!(answer.text.len() as u64, file["size"].as_u64().unwrap());
        }
    }
}

async fn all(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    for page in 1.. {
        let answer = client.get(&format!("/papers?limit=100&page={page}")).await.is(200).json();
        all.extend(answer["data"].as_array().unwrap().iter().cloned());
        if answer["hasMore"] != true {
            return all;
        }
    }
    all
}

fn files(paper: &Value) -> Vec<Value> {
    paper["pages"].as_array().unwrap().clone()
}

fn has_bytes(folder: &Path, id: &str) -> bool {
    folder.join(&id[34..]).join(id).exists()
}

/// What `gatewright verify` finds.
fn found(server: &Server, url: &str) -> Vec<String> {
    let finished = gatewright(server.folder(), &["verify", "--json", "--database", url], "");
    let found: Value = serde_json::from_str(&finished.out).unwrap_or_else(|_| panic!("{}", finished.err));
    found["items"].as_array().unwrap().iter().map(ToString::to_string).collect()
}
