use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use gatewright_servers::PrivatePostgres;

use crate::child::Server;
use crate::load::{self, Measured, get, once, post};

/// Connections in every run.
const CONNECTIONS: usize = 64;
/// Records in the table before reads.
const RECORDS: usize = 2_000;
/// The number of parts of a run.
const ROUNDS: u32 = 3;
const PATH: &str = "/posts";

/// Runs create, get and list against every program and prints the ratios.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let seconds = arguments.first().map_or(Ok(5), |text| text.parse())?;
    let time = Duration::from_secs(seconds);
    let folder = tempfile::tempdir()?;
    let mut report = String::new();

    let floor = self::floor(&["floor", "sqlite", &path(&folder, "floor.db"), "group"])?;
    let ours = gatewright(folder.path(), &format!("sqlite://{}", path(&folder, "ours.db")))?;
    let [by_hand, created] = compare(&mut report, "SQLite", [&floor, &ours], time).await?;
    drop((floor, ours));
    let single = self::floor(&["floor", "sqlite", &path(&folder, "single.db"), "single"])?;
    let single = create(single.address, time).await?;
    writeln!(
        report,
        "SQLite create, against one commit per request ({:.0}/s): {:.1} times; by hand {:.1} times",
        single.rate,
        created / single.rate,
        by_hand / single.rate
    )?;

    let (grouped, each) = crate::group::run(folder.path(), time).await?;
    writeln!(
        report,
        "SQLite inserts by 64 callers, without HTTP: {:.1} times one commit each ({grouped:.0}/s, {each:.0}/s)",
        grouped / each
    )?;

    match PrivatePostgres::start_durable() {
        Err(missing) => writeln!(report, "Postgres: left out, {missing}")?,
        Ok(server) => {
            let floor = self::floor(&["floor", "postgres", &server.url()])?;
            let ours = gatewright(folder.path(), &server.url())?;
            compare(&mut report, "Postgres", [&floor, &ours], time).await?;
        }
    }
    println!("\n{report}");
    Ok(())
}

/// Runs every operation against both programs, writes the ratios and returns the rates of creating, the hand-written
/// program's first. The programs take turns, so that other load on the machine affects both. The median of three
/// counts.
async fn compare(report: &mut String, engine: &str, servers: [&Server; 2], time: Duration) -> anyhow::Result<[f64; 2]> {
    let mut ids = [Vec::new(), Vec::new()];
    for (server, ids) in servers.iter().zip(&mut ids) {
        for number in 0..RECORDS {
            ids.push(id_of(&once(server.address, &record(number)).await?)?);
        }
    }
    let mut created = [0.0; 2];
    for name in ["get", "list of 25", "create"] {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for ((server, ids), measured) in servers.iter().zip(&ids).zip(&mut rounds) {
                let (address, time) = (server.address, time / ROUNDS);
                measured.push(match name {
                    "get" => get_one(address, ids, time).await?,
                    "create" => create(address, time).await?,
                    _ => list(address, time).await?,
                });
            }
        }
        let [floor, ours] = rounds.map(middle);
        created = [floor.rate, ours.rate];
        writeln!(
            report,
            "{engine} {name}: {:.2} of a hand-written program  ({:.0}/s, median {:?}, p99 {:?}; by hand {:.0}/s, median {:?}, p99 {:?})",
            ours.rate / floor.rate,
            ours.rate,
            ours.median,
            ours.p99,
            floor.rate,
            floor.median,
            floor.p99
        )?;
    }
    Ok(created)
}

pub(crate) fn middle(mut rounds: Vec<Measured>) -> Measured {
    rounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    rounds.swap_remove(rounds.len() / 2)
}

async fn get_one(address: SocketAddr, ids: &[String], time: Duration) -> anyhow::Result<Measured> {
    let requests: Vec<_> = ids.iter().map(|id| get(&format!("{PATH}/{id}"))).collect();
    load::run(address, CONNECTIONS, time, move |connection, count| {
        let index = usize::try_from(count).unwrap_or(0).wrapping_mul(31).wrapping_add(connection * 97) % requests.len();
        requests[index].clone()
    })
    .await
}

async fn list(address: SocketAddr, time: Duration) -> anyhow::Result<Measured> {
    let request = get(&format!("{PATH}?limit=25"));
    load::run(address, CONNECTIONS, time, move |_, _| request.clone()).await
}

async fn create(address: SocketAddr, time: Duration) -> anyhow::Result<Measured> {
    load::run(address, CONNECTIONS, time, move |connection, count| {
        record(connection.wrapping_mul(1_000_000) + usize::try_from(count).unwrap_or(0))
    })
    .await
}

fn record(number: usize) -> Vec<u8> {
    let body = format!(
        r#"{{"title":"Post number {number}","body":"A text of a hundred and some characters, as a short note or comment would have it, neither long nor empty.","status":"draft","views":{number}}}"#
    );
    post(PATH, &body)
}

fn id_of(answer: &[u8]) -> anyhow::Result<String> {
    let answer: serde_json::Value = serde_json::from_slice(answer)?;
    answer["data"]["id"].as_str().map(str::to_owned).context("the created record has an id")
}

fn floor(arguments: &[&str]) -> anyhow::Result<Server> {
    Server::start(Command::new(std::env::current_exe()?).args(arguments))
}

fn gatewright(folder: &Path, database: &str) -> anyhow::Result<Server> {
    let config = folder.join("gatewright.toml");
    std::fs::write(&config, CONFIGURATION)?;
    Server::gatewright(&config, database)
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

const CONFIGURATION: &str = r#"
[auth]
jwt_secret = "a benchmark needs no secrecy, only bytes"
[[entity]]
name = "posts"
public = true
[[entity.field]]
name = "title"
type = "string"
required = true
max = 200
[[entity.field]]
name = "body"
type = "text"
[[entity.field]]
name = "status"
type = "enum"
values = ["draft", "published"]
default = "draft"
[[entity.field]]
name = "views"
type = "int"
"#;
