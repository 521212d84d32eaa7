use std::time::Duration;

use gatewright_db::{Error, Value, dialect, params};

use super::EventLog;
use super::page::{COLUMNS, PAGE, event};
use super::sequence::Read;
use crate::EntityEvent;
use crate::bus::{Bus, WeakBus};

/// How long a hole may take to be filled by a commit in progress before the log is read for it. While many write, there is a hole at
/// almost every moment, and each is filled at once.
const GRACE: Duration = Duration::from_millis(5);
/// How long to wait after the database did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// A number that is larger than those of all transactions that were running when it was taken.
struct Mark {
    number: i64,
    /// Positions below this one were assigned at that time.
    below: i64,
}

/// Reads the log whenever it may have events that this process did not publish, until the bus is dropped.
pub(super) async fn run(log: EventLog, bus: WeakBus) {
    let mut mark = None;
    let mut down = false;
    loop {
        wait(&log).await;
        let Some(bus) = bus.upgrade() else { return };
        loop {
            match read(&log, &bus, &mut mark).await {
                Ok(more) => {
                    if std::mem::take(&mut down) {
                        tracing::info!("the event log can be read again");
                    }
                    if !more {
                        break;
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut down, true) {
                        tracing::error!(%error, "the event log cannot be read; retrying");
                    }
                    bus.release(log.0.sequence.lock().fail_read());
                    tokio::time::sleep(PAUSE).await;
                    break;
                }
            }
        }
    }
}

/// Waits until the poll interval is over, or until one hole has lasted for [`GRACE`].
async fn wait(log: &EventLog) {
    let lasting = async {
        loop {
            log.0.wake.notified().await;
            let hole = log.0.sequence.lock().first_hole();
            tokio::time::sleep(GRACE).await;
            let sequence = log.0.sequence.lock();
            if sequence.is_whole() {
                continue;
            }
            if sequence.first_hole() == hole {
                return;
            }
            log.0.wake.notify_one();
        }
    };
    _ = tokio::time::timeout(log.0.options.poll_interval, lasting).await;
}

/// Reads once. Returns whether to read again at once.
async fn read(log: &EventLog, bus: &Bus, mark: &mut Option<Mark>) -> Result<bool, Error> {
    // Rows from before the mark that a read does not return after the mark was passed will never appear.
    let passed = match mark {
        Some(taken) if dialect::transaction_horizon(log.db()).await? > taken.number => mark.take(),
        _ => None,
    };
    let asked = log.0.sequence.lock().begin_read();
    let (shown, last) = rows(log, &asked).await?;
    {
        // Held until the events are on the bus, so that later ones are published after them.
        let mut sequence = log.0.sequence.lock();
        bus.release(sequence.end_read(&asked, shown, last));
        if let (Some(mark), None) = (&passed, last) {
            sequence.give_up_below(mark.below);
            bus.release(sequence.arrive([]));
        }
    }
    let (first_hole, next) = {
        let sequence = log.0.sequence.lock();
        (sequence.first_hole(), sequence.next())
    };
    if mark.is_none() && first_hole.is_some() {
        *mark = Some(Mark { number: dialect::transaction_mark(log.db()).await?, below: next });
    }
    Ok(last.is_some())
}

type Shown = Vec<(i64, Option<EntityEvent>)>;

/// The rows that a read asks for, and the last position if it stopped early.
async fn rows(log: &EventLog, asked: &Read) -> Result<(Shown, Option<i64>), Error> {
    let after = format!("SELECT {COLUMNS} FROM event_log l WHERE l.position >= ?1 ORDER BY l.position LIMIT {PAGE}");
    let mut rows = log.db().query(after, params![asked.from]).await?;
    let last = match rows.last() {
        Some(row) if rows.len() >= PAGE => Some(row.get("position")?),
        _ => None,
    };
    if !asked.holes.is_empty() {
        let among = dialect::is_among_integers(log.engine(), "l.position", "?1");
        let holes = Value::Text(serde_json::Value::from(asked.holes.clone()).to_string());
        let sql = format!("SELECT {COLUMNS} FROM event_log l WHERE {among} ORDER BY l.position");
        rows.splice(0..0, log.db().query(sql, vec![holes]).await?);
    }
    let mut shown = Vec::with_capacity(rows.len());
    for (row, record) in log.with_staged(rows).await? {
        let own = row.get::<String>("origin")? == log.0.origin;
        let event = record.map(|record| event(&row, record)).transpose()?;
        shown.push((row.get("position")?, event.map(|event| if own { event } else { event.into_remote() })));
    }
    Ok((shown, last))
}
