//! Whether response times reveal that an account exists: medians for a known and an unknown address. One client
//! requests both in turns, so that other load on the machine affects both.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::child::{Server, binary};
use crate::load::{once, post};
use crate::median::median;

/// Requests for each address.
const ROUNDS: usize = 300;
/// The pause for background work before the next request.
const PAUSE: Duration = Duration::from_millis(5);
const KNOWN: &str = "known@example.com";
const UNKNOWN: &str = "unknown@example.com";

/// Prints the medians of `forgot-password` and of `login` with a wrong password.
pub(crate) async fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = gatewright(folder.path())?;
    once(server.address, &post("/auth/register", &login_body(KNOWN))).await?;
    for (name, path) in [("forgot-password", "/auth/forgot-password"), ("login", "/auth/login")] {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            known.push(ask(&server, path, KNOWN).await?);
            unknown.push(ask(&server, path, UNKNOWN).await?);
        }
        let (known, unknown) = (median(&mut known), median(&mut unknown));
        let ratio = known.as_secs_f64() / unknown.as_secs_f64();
        println!("{name}: known {known:?}, unknown {unknown:?}, {ratio:.3} times");
    }
    Ok(())
}

/// The time of one answer, regardless of its status.
async fn ask(server: &Server, path: &str, email: &str) -> anyhow::Result<Duration> {
    let body = format!(r#"{{"email":"{email}","password":"a wrong password"}}"#);
    let sent = Instant::now();
    let answer = once(server.address, &post(path, &body)).await;
    let elapsed = sent.elapsed();
    if let Err(error) = answer {
        // A refused sign-in is a valid answer here.
        anyhow::ensure!(error.to_string().contains(" 401 "), error);
    }
    // Background work of one request must not slow down the next answer, which is for the other address.
    tokio::time::sleep(PAUSE).await;
    Ok(elapsed)
}

fn login_body(email: &str) -> String {
    format!(r#"{{"email":"{email}","password":"correct horse battery"}}"#)
}

fn gatewright(folder: &Path) -> anyhow::Result<Server> {
    let config = folder.join("gatewright.toml");
    std::fs::write(&config, CONFIGURATION)?;
    let database = format!("sqlite://{}", folder.join("timing.db").display());
    let mut command = Command::new(binary()?);
    command.args(["serve", "--dev", "--listen", "127.0.0.1:0", "--database", &database, "--config"]).arg(config);
    Server::start(command.env("RUST_LOG", "error")).context("the server starts")
}

/// Very high limits, and cheap hashes of some milliseconds.
const CONFIGURATION: &str = r"
[auth]
bcrypt_cost = 6
[auth.limits.login]
max_attempts = 1000000
[auth.limits.login_account]
max_attempts = 1000000
[auth.limits.password_reset]
max_attempts = 1000000
";
