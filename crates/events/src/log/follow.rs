use std::time::Duration;

use gatewright_base::Lease;
use gatewright_db::{Error, Tx, Value, dialect, params};

use super::compare::Comparing;
use super::ledger::LOOKED_UP;
use super::page::{PAGE, Unread, fitting};
use super::sequence::Read;
use super::witness::Witness;
use super::{EventLog, LAST_SWEPT, last_swept};
use crate::EntityEvent;
use crate::bus::{Bus, WeakBus};

/// How long a hole may take to be filled by a commit in progress before the log is read for it. While many write, there is a hole at
/// almost every moment, and each is filled at once.
const GRACE: Duration = Duration::from_millis(5);
/// How long to wait after the database did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// The holder of its memory.
const HOLDER: &str = "event log";
/// How long to wait for room in the budget of memory. There is one such reader with one page, so it then goes on without.
const PATIENCE: Duration = Duration::from_secs(1);

/// A number that is larger than those of all transactions that were running when it was taken.
struct Mark {
    number: i64,
    /// Positions below this one were assigned at that time.
    below: i64,
}

/// Reads the log whenever it may have events that this process did not publish, until the bus is dropped.
pub(super) async fn run(log: EventLog, bus: WeakBus) {
    let mut mark = None;
    let mut comparing = Comparing::default();
    let mut down = false;
    loop {
        wait(&log).await;
        let Some(bus) = bus.upgrade() else { return };
        loop {
            match compare_and_read(&log, &bus, &mut mark, &mut comparing).await {
                Ok(more) => {
                    if std::mem::take(&mut down) {
                        tracing::info!("the event log can be read again");
                    }
                    if !more {
                        break;
                    }
                }
                Err(error) => {
                    comparing.fail();
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

/// Compares the log with what this process knows of it, and then reads once. Returns whether to read again at once.
async fn compare_and_read(
    log: &EventLog,
    bus: &Bus,
    mark: &mut Option<Mark>,
    comparing: &mut Comparing,
) -> Result<bool, Error> {
    if log.compare(comparing).await? {
        // The transaction ids may have gone back as well.
        *mark = None;
    }
    read(log, bus, mark).await
}

/// Reads once. Returns whether to read again at once.
async fn read(log: &EventLog, bus: &Bus, mark: &mut Option<Mark>) -> Result<bool, Error> {
    // Rows from before the mark that a read does not return after the mark was passed will never appear.
    let passed = match mark {
        Some(taken) if dialect::transaction_horizon(log.db()).await? > taken.number => mark.take(),
        _ => None,
    };
    let asked = log.0.sequence.lock().begin_read();
    let Shown { rows, last, swept_to, swept, lease: _lease } = shown(log, &asked).await?;
    {
        // Held until the events are on the bus, so that later ones are published after them.
        let mut sequence = log.0.sequence.lock();
        bus.release(sequence.end_read(&asked, rows, last));
        if sequence.skip(swept_to, swept) {
            tracing::warn!(
                swept_to,
                "events were removed from the event log before this server read them; its streams get `gap`"
            );
            bus.release(sequence.arrive([]));
            bus.lose();
        }
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

/// What a read shows.
struct Shown {
    rows: Vec<(i64, Option<EntityEvent>)>,
    /// The last position that was examined, if it stopped early.
    last: Option<i64>,
    /// The last position that was removed from the log.
    swept_to: i64,
    /// The event that was there, if known.
    swept: Option<Witness>,
    lease: Lease,
}

/// The rows that a read asks for, as many as fit.
async fn shown(log: &EventLog, asked: &Read) -> Result<Shown, Error> {
    let mut is_patient = true;
    loop {
        let (reading, asked) = (log.clone(), asked.clone());
        let read = async move |tx: &Tx| rows(&reading, tx, &asked, is_patient).await;
        match log.db().read(read).await {
            Ok(shown) => return Ok(shown),
            Err(Unread::Database(error)) => return Err(error),
            Err(Unread::NoRoom(bytes)) => {
                let room = log.0.options.budget.room(Some(HOLDER), bytes);
                is_patient = tokio::time::timeout(PATIENCE, room).await.is_ok();
            }
        }
    }
}

async fn rows(log: &EventLog, tx: &Tx, asked: &Read, is_patient: bool) -> Result<Shown, Unread> {
    let mut sized = Vec::new();
    if !asked.holes.is_empty() {
        let among = dialect::is_among_integers(log.engine(), "l.position", "?1");
        let holes = Value::Text(serde_json::Value::from(asked.holes.clone()).to_string());
        sized = log.sizes(tx, &among, vec![holes], LOOKED_UP).await?;
    }
    // All holes are below.
    let after = log.sizes(tx, "l.position >= ?1", params![asked.from], PAGE).await?;
    let is_full = after.len() >= PAGE;
    sized.extend(after);
    let fitting = fitting(sized);
    let stopped = is_full || !fitting.rest.is_empty();
    let last = fitting.taken.last().map(|row| row.position).filter(|_| stopped);
    let mut lease = log.0.options.budget.lease(Some(HOLDER));
    if lease.grow_undivided(fitting.bytes).is_err() && is_patient {
        return Err(Unread::NoRoom(fitting.bytes));
    }
    for row in &fitting.taken {
        log.0.sequence.lock().note(Some(Witness::new(row.position, &row.id)));
    }
    let mut rows = Vec::with_capacity(fitting.taken.len());
    for row in log.records(tx, &fitting.taken).await? {
        let is_own = row.origin == log.0.origin;
        rows.push((row.position, row.event.map(|event| if is_own { event } else { event.into_remote() })));
    }
    // After the rows, so that it includes those that were removed before they were read.
    let (swept_to, swept) = last_swept(tx.query_opt(LAST_SWEPT, vec![]).await?.as_ref())?;
    Ok(Shown { rows, last, swept_to, swept, lease })
}
