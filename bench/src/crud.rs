use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use gatewright_servers::PrivatePostgres;

use crate::child::Server;
use crate::load::{self, Measured, get, once, post};

/// Connections in every run.
const CONNECTIONS: usize = 64;
/// Records in the table before it is read.
const RECORDS: usize = 2_000;

/// Runs create, get and list against every program and prints the ratios.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let seconds = arguments.first().map_or(Ok(5), |text| text.parse())?;
    let time = Duration::from_secs(seconds);
    let folder = tempfile::tempdir()?;
    let mut report = String::new();

    let floor = floor(&["floor", "sqlite", &path(&folder, "floor.db"), "group"])?;
    let floor = measure(&floor, "/posts", time).await?;
    let ours = gatewright(folder.path(), &format!("sqlite://{}", path(&folder, "ours.db")))?;
    let ours = measure(&ours, "/posts", time).await?;
    compare(&mut report, "SQLite", &ours, &floor)?;
    let single = self::floor(&["floor", "sqlite", &path(&folder, "single.db"), "single"])?;
    let single = create(single.address, "/posts", time).await?;
    writeln!(
        report,
        "SQLite create, against one commit per request ({:.0}/s): {:.1} times",
        single.rate,
        ours.create.rate / single.rate
    )?;

    let (grouped, each) = crate::group::run(folder.path(), time).await?;
    writeln!(
        report,
        "SQLite inserts by 64 callers, without HTTP: {:.1} times one commit each ({grouped:.0}/s, {each:.0}/s)",
        grouped / each
    )?;

    match PrivatePostgres::start() {
        Err(missing) => writeln!(report, "Postgres: left out, {missing}")?,
        Ok(server) => {
            let server_floor = self::floor(&["floor", "postgres", &server.url()])?;
            let floor = measure(&server_floor, "/posts", time).await?;
            drop(server_floor);
            let ours = gatewright(folder.path(), &server.url())?;
            let ours = measure(&ours, "/posts", time).await?;
            compare(&mut report, "Postgres", &ours, &floor)?;
        }
    }
    println!("\n{report}");
    Ok(())
}

struct Rates {
    create: Measured,
    get: Measured,
    list: Measured,
}

async fn measure(server: &Server, path: &'static str, time: Duration) -> anyhow::Result<Rates> {
    let address = server.address;
    let mut ids = Vec::new();
    for number in 0..RECORDS {
        ids.push(id_of(&once(address, &record(path, number)).await?)?);
    }
    let get_one = load::run(address, CONNECTIONS, time, {
        let requests: Vec<_> = ids.iter().map(|id| get(&format!("{path}/{id}"))).collect();
        move |connection, count| {
            let index =
                usize::try_from(count).unwrap_or(0).wrapping_mul(31).wrapping_add(connection * 97) % requests.len();
            requests[index].clone()
        }
    })
    .await?;
    let list = load::run(address, CONNECTIONS, time, {
        let request = get(&format!("{path}?limit=25"));
        move |_, _| request.clone()
    })
    .await?;
    let create = create(address, path, time).await?;
    Ok(Rates { create, get: get_one, list })
}

async fn create(address: SocketAddr, path: &'static str, time: Duration) -> anyhow::Result<Measured> {
    load::run(address, CONNECTIONS, time, move |connection, count| {
        record(path, connection.wrapping_mul(1_000_000) + usize::try_from(count).unwrap_or(0))
    })
    .await
}

fn record(path: &str, number: usize) -> Vec<u8> {
    let body = format!(
        r#"{{"title":"Post number {number}","body":"A text of a hundred and some characters, as a short note or comment would have it, neither long nor empty.","status":"draft","views":{number}}}"#
    );
    post(path, &body)
}

fn id_of(answer: &[u8]) -> anyhow::Result<String> {
    let answer: serde_json::Value = serde_json::from_slice(answer)?;
    answer["data"]["id"].as_str().map(str::to_owned).context("the created record has an id")
}

fn compare(report: &mut String, engine: &str, ours: &Rates, floor: &Rates) -> anyhow::Result<()> {
    let rows = [
        ("create", &ours.create, &floor.create),
        ("get", &ours.get, &floor.get),
        ("list of 25", &ours.list, &floor.list),
    ];
    for (name, ours, floor) in rows {
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
    Ok(())
}

fn floor(arguments: &[&str]) -> anyhow::Result<Server> {
    Server::start(Command::new(std::env::current_exe()?).args(arguments))
}

fn gatewright(folder: &Path, database: &str) -> anyhow::Result<Server> {
    let config = folder.join("gatewright.toml");
    std::fs::write(&config, CONFIGURATION)?;
    let mut command = Command::new(binary()?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--database", database, "--config"]).arg(config);
    Server::start(command.env("RUST_LOG", "warn"))
}

/// The server lies beside this program.
fn binary() -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("gatewright");
    anyhow::ensure!(binary.exists(), "build the server first: cargo build --release -p gatewright-cli");
    Ok(binary)
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
