use std::path::Path;
use std::time::Duration;

use gatewright_servers::PrivatePostgres;

use crate::child::Server;
use crate::load::{self, post};

/// Connections that write.
const CONNECTIONS: usize = 64;
/// The number of parts of the run. The servers take turns, so that other load on the machine affects both.
const ROUNDS: u32 = 7;

/// Creates records with and without the event log, in turns, and prints the cost of the log: the median of the ratios.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let seconds = arguments.first().map_or(Ok(14), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let mut report = Vec::new();
    let file = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    let servers = [serve(folder.path(), &file("with.db"), 600)?, serve(folder.path(), &file("without.db"), 0)?];
    report.push(measure("SQLite", &servers, Duration::from_secs(seconds)).await?);
    drop(servers);
    match PrivatePostgres::start_durable() {
        Err(missing) => report.push(format!("Postgres: left out, {missing}")),
        Ok(postgres) => {
            let url = postgres.url();
            let servers = [serve(folder.path(), &url, 600)?, serve(folder.path(), &url, 0)?];
            report.push(measure("Postgres", &servers, Duration::from_secs(seconds)).await?);
        }
    }
    println!("\n{}", report.join("\n"));
    Ok(())
}

async fn measure(engine: &str, [with, without]: &[Server; 2], time: Duration) -> anyhow::Result<String> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut rates = [0.0; 2];
        for (server, rate) in [with, without].into_iter().zip(&mut rates) {
            let measured = load::run(server.address, CONNECTIONS, time / ROUNDS / 2, |_, _| {
                post(
                    "/posts",
                    r#"{"title":"A title","body":"A text of a hundred and some characters, as a short note or comment would have it, neither long nor empty."}"#,
                )
            });
            *rate = measured.await?.rate;
        }
        rounds.push((rates[0] / rates[1], rates));
    }
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, [with, without]) = rounds[rounds.len() / 2];
    let (lowest, highest) = (rounds[0].0, rounds[rounds.len() - 1].0);
    Ok(format!(
        "{engine} create: {ratio:.2} of the rate without the event log ({with:.0}/s, {without:.0}/s; {lowest:.2} to {highest:.2})"
    ))
}

fn serve(folder: &Path, database: &str, replay_seconds: u32) -> anyhow::Result<Server> {
    let config = folder.join(format!("{replay_seconds}.toml"));
    std::fs::write(&config, format!("[events]\nreplay_seconds = {replay_seconds}\n{CONFIGURATION}"))?;
    Server::gatewright(&config, database)
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
[[entity.field]]
name = "body"
type = "text"
"#;
