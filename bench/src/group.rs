use std::path::Path;
use std::time::{Duration, Instant};

use gatewright_db::{Db, Options, params};
use rusqlite::Connection;

const INSERT: &str = "INSERT INTO t (a, b) VALUES (?1, ?2)";
const TEXT: &str =
    "A text of a hundred and some characters, as a short note or comment would have it, neither long nor empty.";

/// Durable inserts per second without a network: by 64 callers of the data layer, and by a loop that commits each
/// insert.
pub(crate) async fn run(folder: &Path, time: Duration) -> anyhow::Result<(f64, f64)> {
    let grouped = grouped(&folder.join("grouped.db"), time).await?;
    let file = folder.join("each.db");
    let each = tokio::task::spawn_blocking(move || each(&file, time)).await??;
    Ok((grouped, each))
}

async fn grouped(file: &Path, time: Duration) -> anyhow::Result<f64> {
    let db = Db::open(&format!("sqlite://{}", file.display()), Options::default()).await?;
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)", vec![]).await?;
    let until = Instant::now() + time;
    let callers: Vec<_> = (0..64_i64)
        .map(|caller| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut count = 0_u32;
                while Instant::now() < until {
                    db.execute(INSERT, params![caller, TEXT]).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut count = 0;
    for caller in callers {
        count += caller.await??;
    }
    Ok(f64::from(count) / time.as_secs_f64())
}

fn each(file: &Path, time: Duration) -> anyhow::Result<f64> {
    let connection = Connection::open(file)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)",
    )?;
    let until = Instant::now() + time;
    let mut count = 0_u32;
    while Instant::now() < until {
        connection.prepare_cached(INSERT)?.execute(rusqlite::params![1, TEXT])?;
        count += 1;
    }
    Ok(f64::from(count) / time.as_secs_f64())
}
