use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::child::Server;
use crate::credentials::{ACCOUNT, Credentials, with};
use crate::crud::middle;
use crate::load::{self, Measured, fill, get, post};
use crate::median::median;

/// Connections that read or write.
const CONNECTIONS: usize = 64;
/// Connections that sign in while the others read.
const SIGNING_IN: usize = 32;
/// Parts that the time of a run is cut into.
const ROUNDS: u32 = 3;
/// Records in each table before it is read.
const RECORDS: usize = 2_000;
/// How often a server is started.
const STARTS: usize = 15;

/// Measures requests with credentials, compared with the hand-written program, which knows no accounts. Then reads while others
/// sign in, and a start.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let seconds = arguments.first().map_or(Ok(5), |text| text.parse())?;
    let (time, folder, mut report) = (Duration::from_secs(seconds), tempfile::tempdir()?, String::new());
    let floor = folder.path().join("floor.db").display().to_string();
    let floor = Server::start(Command::new(std::env::current_exe()?).args(["floor", "sqlite", &floor, "group"]))?;
    let plain = serve(folder.path(), "plain", "")?;
    let whole = serve(folder.path(), "whole", "[outbox]\nenabled = true\n[audit]\nentities = true\n")?;
    let me = Credentials::of_new_account(plain.address).await?;
    let also_me = Credentials::of_new_account(whole.address).await?;
    let (list, create) = (get("/posts?limit=25"), post("/posts", RECORD));
    let by_hand = get(&format!("/posts/{}", fill(floor.address, &create, RECORDS).await?));
    let mine = with(&post("/notes", RECORD), &me.session);
    let one = get(&format!("/notes/{}", fill(plain.address, &mine, RECORDS).await?));
    let (read, page) = (with(&one, &me.session), get("/notes?limit=25"));
    for (name, address, request, by_hand) in [
        ("get, by JWT", plain.address, with(&one, &me.jwt), &by_hand),
        ("get, by session", plain.address, read.clone(), &by_hand),
        ("auth/me, by session", plain.address, with(&get("/auth/me"), &me.session), &by_hand),
        ("list of 25, by session", plain.address, with(&page, &me.session), &list),
        ("create, by session", plain.address, mine, &create),
        (
            "create, by session, with outbox and audit log",
            whole.address,
            with(&post("/notes", RECORD), &also_me.session),
            &create,
        ),
    ] {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let turns = [(floor.address, by_hand), (address, &request)];
            for ((address, request), measured) in turns.into_iter().zip(&mut rounds) {
                measured.push(repeat(address, CONNECTIONS, time / ROUNDS, request).await?);
            }
        }
        let [floor, ours] = rounds.map(middle);
        let (ratio, rate, by_hand) = (ours.rate / floor.rate, ours.rate, floor.rate);
        writeln!(report, "{name}: {ratio:.2} of a hand-written program  ({rate:.0}/s; by hand {by_hand:.0}/s)")?;
    }

    let alone = repeat(plain.address, CONNECTIONS, time, &read).await?;
    let login = post("/auth/login", ACCOUNT);
    let logins_alone = repeat(plain.address, SIGNING_IN, time, &login).await?.rate;
    let logins = repeat(plain.address, SIGNING_IN, time, &login);
    let (beside, logins) = tokio::try_join!(repeat(plain.address, CONNECTIONS, time, &read), logins)?;
    let ratio = beside.p99.as_secs_f64() / alone.p99.as_secs_f64();
    writeln!(
        report,
        "p99 of a get while {SIGNING_IN} connections sign in: {ratio:.2} times ({:?}; without {:?})",
        beside.p99, alone.p99
    )?;
    writeln!(
        report,
        "gets/s beside: {:.0}, without {:.0}; logins/s beside: {:.1}, without {logins_alone:.1}",
        beside.rate, alone.rate, logins.rate
    )?;
    drop((floor, plain, whole));
    writeln!(report, "{}", start(folder.path())?)?;
    println!("\n{report}");
    Ok(())
}

/// How long a server takes to listen on a database that exists, and its memory after that.
fn start(folder: &Path) -> anyhow::Result<String> {
    let (mut times, mut memory) = (Vec::new(), 0);
    for _ in 0..STARTS {
        let begun = Instant::now();
        let server = serve(folder, "plain", "")?;
        times.push(begun.elapsed());
        memory = resident(server.id())?;
    }
    Ok(format!("start: {:?} until it listens, {memory} kB resident", median(&mut times)))
}

/// The resident memory of a process, in kB.
fn resident(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a process has VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

async fn repeat(address: SocketAddr, connections: usize, time: Duration, request: &[u8]) -> anyhow::Result<Measured> {
    let request = request.to_vec();
    load::run(address, connections, time, move |_, _| request.clone()).await
}

fn serve(folder: &Path, name: &str, more: &str) -> anyhow::Result<Server> {
    let config = folder.join(format!("{name}.toml"));
    std::fs::write(&config, format!("{more}{CONFIGURATION}"))?;
    Server::gatewright(&config, &format!("sqlite://{}", folder.join(format!("{name}.db")).display()))
}

const RECORD: &str = r#"{"title":"A post","body":"A text of a hundred and some characters, as a short note or comment would have it, neither long nor empty.","status":"draft","views":17}"#;

const CONFIGURATION: &str = r#"
[auth]
jwt_secret = "a benchmark needs no secrecy, only bytes"
[auth.limits.login]
max_attempts = 1000000
[auth.limits.login_account]
max_attempts = 1000000
[[entity]]
name = "notes"
owner_field = "owner_id"
field = [
    { name = "title", type = "string", required = true, max = 200 },
    { name = "body", type = "text" },
    { name = "status", type = "enum", values = ["draft", "published"], default = "draft" },
    { name = "views", type = "int" },
]
"#;
