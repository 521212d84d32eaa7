use std::time::{Duration, Instant};

use anyhow::Context;
use gatewright_base::Ambient;
use gatewright_db::{Db, Options, Tx};
use gatewright_events::outbox::{Consumer, Event, Outbox, OutboxOptions, StageError};
use gatewright_servers::PrivatePostgres;
use tokio::sync::mpsc;

/// Rows that are staged in one transaction, and in all, for the rate.
const BATCH: u64 = 500;
const ROWS: u64 = 20_000;
/// Single writes for the time from commit to handler, and the pause between them.
const SINGLES: usize = 500;
const PAUSE: Duration = Duration::from_millis(2);
/// The time limit of a run, so that a blocked relay fails it.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Measures deliveries per second of a backlog, with one and four consumers, and the time from commit to handler.
pub(crate) async fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut report = Vec::new();
    for consumers in [1, 4] {
        let url = format!("sqlite://{}", folder.path().join(format!("{consumers}.db")).display());
        measure(&url, "SQLite", consumers, &mut report).await?;
    }
    match PrivatePostgres::start_durable() {
        Err(missing) => report.push(format!("Postgres: left out, {missing}")),
        Ok(server) => {
            for consumers in [1, 4] {
                measure(&server.url(), "Postgres", consumers, &mut report).await?;
                let db = Db::open(&server.url(), Options::default()).await?;
                db.execute("DROP TABLE event_outbox_delivery, event_outbox, gatewright_migrations", vec![]).await?;
            }
        }
    }
    println!("\n{}", report.join("\n"));
    Ok(())
}

async fn measure(url: &str, engine: &str, consumers: u64, report: &mut Vec<String>) -> anyhow::Result<()> {
    let measured = tokio::time::timeout(TIMEOUT, deliver(url, engine, consumers)).await;
    report.push(measured.with_context(|| format!("{engine} with {consumers} consumers took too long"))??);
    Ok(())
}

async fn deliver(url: &str, engine: &str, consumers: u64) -> anyhow::Result<String> {
    let db = Db::open(url, Options::default()).await?;
    let outbox = Outbox::open(db.clone(), Ambient::system(), OutboxOptions::default()).await?;
    for _ in 0..ROWS / BATCH {
        stage(&db, &outbox, BATCH).await?;
    }
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut relay = outbox.relay();
    for number in 0..consumers {
        let sender = sender.clone();
        let handler = move |_: Event| {
            let at = Instant::now();
            let _measured_or_not = sender.send(at);
            async { Ok::<(), String>(()) }
        };
        relay = relay.declare(Consumer::new(&format!("consumer-{number}"), "bench", handler)?)?;
    }
    let start = Instant::now();
    let relay = relay.start();
    let settled = || outbox.counts().consumers.values().map(|counts| counts.delivered).sum::<u64>();
    while settled() < ROWS * consumers {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 deliveries")]
    let rate = (ROWS * consumers) as f64 / start.elapsed().as_secs_f64();
    while receiver.try_recv().is_ok() {}
    let mut times = Vec::new();
    for _ in 0..SINGLES {
        stage(&db, &outbox, 1).await?;
        let committed = Instant::now();
        for _ in 0..consumers {
            if let Some(at) = receiver.recv().await {
                times.push(at.saturating_duration_since(committed));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    times.sort();
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    relay.stop(Duration::from_secs(10)).await;
    Ok(format!(
        "{engine}, {consumers} consumers: {rate:.0} deliveries/s from a backlog; commit to handler median {median:?}, p99 {p99:?}"
    ))
}

async fn stage(db: &Db, outbox: &Outbox, rows: u64) -> anyhow::Result<()> {
    let outbox = outbox.clone();
    let staged = db.write(async move |tx: &Tx| -> Result<(), StageError> {
        let payload = serde_json::json!({ "text": "x".repeat(100) });
        for _ in 0..rows {
            outbox.append(tx, "bench", payload.as_object().expect("an object")).await?;
        }
        Ok(())
    });
    Ok(staged.await?)
}
