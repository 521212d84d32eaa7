//! Jobs by the command line: what an operator sees, and what becomes of a run whose server is killed.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{Database, Finished, Launch, Server, gatewright};
use crate::outbox::until;

/// An endpoint that notes the ids of the calls, and answers them while it is open.
#[derive(Clone, Default)]
struct Endpoint {
    ids: Arc<Mutex<Vec<String>>>,
    is_open: Arc<AtomicBool>,
}

impl Endpoint {
    async fn start() -> (Self, u16) {
        let endpoint = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = endpoint.clone();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let endpoint = shared.clone();
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !String::from_utf8_lossy(&request).contains("job.due") {
                        if !matches!(connection.read_buf(&mut request).await, Ok(1..)) {
                            return;
                        }
                    }
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let id = text.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap_or_default();
                    endpoint.ids.lock().unwrap().push(id.to_owned());
                    while !endpoint.is_open.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    let _gone =
                        connection.write_all(b"HTTP/1.1 204 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
                });
            }
        });
        (endpoint, port)
    }

    fn ids(&self) -> Vec<String> {
        self.ids.lock().unwrap().clone()
    }
}

fn command(server: &Server, database: &Database, words: &[&str]) -> Finished {
    let url = database.url();
    let words = [words, &["--database", &url]].concat();
    tokio::task::block_in_place(|| gatewright(server.folder(), &words, ""))
}

fn history(server: &Server, database: &Database) -> Vec<Value> {
    let found = command(server, database, &["job", "history", "digest", "--json"]);
    assert_eq!(found.status, 0, "{found:?}");
    let found: Value = serde_json::from_str(&found.out).unwrap();
    found["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_and_runs_jobs_and_a_killed_run_is_made_again_under_its_id() {
    for database in Database::all().await {
        let (endpoint, port) = Endpoint::start().await;
        let launch = Launch::configured(&format!(
            "[[job]]\nname = \"digest\"\nschedule = \"0 3 29 2 *\"\nurl = \"http://127.0.0.1:{port}/\"\n\
             secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n"
        ));
        let mut server = launch.start(&database).await;
        let functions = server.folder().join("functions");
        fs::create_dir(&functions).unwrap();
        let file = "import { job, route } from \"gatewright\";\n\
             export const tidy = job(\"0 4 29 2 *\", { timezone: \"Europe/Berlin\" }, async ({ log }) => { log.info(\"tidy\"); });\n\
             export const ping = route(\"GET\", \"/ping\", async () => new Response(\"pong\"));\n";
        fs::write(functions.join("all.ts"), file).unwrap();
        server.kill();
        server.restart();
        let listed = command(&server, &database, &["function", "list"]);
        assert_eq!(
            listed.out,
            "ping  route  all.ts  GET /fn/ping\ntidy  job  all.ts  0 4 29 2 * Europe/Berlin\n2 functions\n"
        );
        until("the jobs are declared", async || {
            let listed = command(&server, &database, &["job", "list", "--json"]);
            let listed: Value = serde_json::from_str(&listed.out).unwrap();
            listed["items"].as_array().unwrap().iter().all(|job| job["nextAt"].is_string())
        })
        .await;
        let listed = command(&server, &database, &["job", "list"]).out;
        assert!(
            listed.contains("digest  0 3 29 2 * UTC  url  next ")
                && listed.contains("tidy  0 4 29 2 * Europe/Berlin  function"),
            "{listed}"
        );
        let tidied = command(&server, &database, &["job", "run", "tidy"]);
        assert!(tidied.status == 0 && tidied.out.starts_with("tidy: succeeded in "), "{tidied:?}");
        let unknown = command(&server, &database, &["job", "run", "nothing"]);
        assert!(unknown.status == 1 && unknown.err.contains("`gatewright job list` shows the jobs"), "{unknown:?}");

        // Its server dies while the endpoint thinks.
        assert_eq!(command(&server, &database, &["job", "run", "digest", "--no-wait"]).status, 0);
        until("the endpoint is called", async || endpoint.ids().len() == 1).await;
        let busy = command(&server, &database, &["job", "run", "digest"]);
        assert!(busy.status == 1 && busy.err.contains("is running"), "{busy:?}");
        server.kill();
        endpoint.is_open.store(true, Ordering::Relaxed);
        server.restart();
        until("the run is made again", async || {
            history(&server, &database).first().is_some_and(|run| run["outcome"] == "succeeded")
        })
        .await;
        let runs: Vec<Value> = history(&server, &database)
            .iter()
            .map(|run| json!([run["attempt"], run["outcome"], run["cause"]]))
            .collect();
        assert_eq!(runs, [json!([2, "succeeded", "operator"]), json!([1, "interrupted", "operator"])]);
        let ids = endpoint.ids();
        assert_eq!((ids.len(), &ids[0]), (2, &ids[1]), "{ids:?}");
        assert!(!server.log().contains("whsec_") && !server.log().contains(&port.to_string()), "{}", server.log());
    }
}
