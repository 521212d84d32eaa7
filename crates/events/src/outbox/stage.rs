use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::{Db, Share, Tx, dialect, params};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};

use super::Outbox;
use super::facts::{Appending, Facts, with};
use super::room::{self, OutboxFull, Room};
use super::transition::later;
use crate::EntityEvent;

/// The Postgres channel on which replicas notify each other of staged rows.
pub(super) const CHANNEL: &str = "gatewright_outbox";
/// The shortest time between two such notices: under load, one notice covers many rows.
const QUIET: Duration = Duration::from_millis(20);
/// How long to wait before listening again.
const RECONNECT: Duration = Duration::from_secs(1);
/// Limit of ids that wait for the relay. Further rows are found by reading the table.
const REMEMBERED: usize = 10_000;
/// The longest event type, in bytes.
const LONGEST_TYPE: usize = 200;

/// Why an event was not staged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] gatewright_db::Error),
    /// The event type is empty, too long or has invisible characters.
    #[error("an event type is 1 to {LONGEST_TYPE} visible characters")]
    Type,
    /// The outbox has as many bytes as it may have.
    #[error(transparent)]
    Full(#[from] OutboxFull),
    /// The delay is too long.
    #[error("an event is delayed by at most 30 days")]
    Delay,
}

/// The longest delay of an event.
const LONGEST_DELAY: Duration = Duration::from_hours(24 * 30);

/// Of the events of one record, each gets the next position: its write waits for the one before.
const INSERT: &str =
    "INSERT INTO event_outbox (id, type, payload, status, created_at, owner_id, entity, record_key, position,
        previous, chain, due_at)
    VALUES (?1, ?2, ?3, 'pending', ?4, ?5, ?6, ?7,
        (SELECT COALESCE(MAX(o.position), 0) + 1 FROM event_outbox o WHERE o.record_key = ?7), ?8, ?9, ?10)";

/// A row to store.
struct NewRow<'a> {
    event_type: &'a str,
    payload: String,
    owner: Option<&'a str>,
    entity: Option<&'a str>,
    record_key: Option<String>,
    previous: Option<&'a str>,
    chain: u8,
    due_at: Option<Timestamp>,
}

impl Outbox {
    /// Stages the program's own event in `tx` and returns its id. It is delivered only after `tx` has committed.
    pub async fn append(&self, tx: &Tx, event_type: &str, payload: &Map<String, Value>) -> Result<String, StageError> {
        self.append_with(tx, event_type, payload, Appending::default()).await
    }

    /// The same, for a caller, after other events, or delayed by at most 30 days.
    pub async fn append_with(
        &self,
        tx: &Tx,
        event_type: &str,
        payload: &Map<String, Value>,
        Appending { share, chain, delay }: Appending,
    ) -> Result<String, StageError> {
        if !is_event_type(event_type) {
            return Err(StageError::Type);
        }
        if delay > LONGEST_DELAY {
            return Err(StageError::Delay);
        }
        self.admit(share)?;
        let payload = serde_json::to_string(payload).expect("a map with text keys can be written as JSON");
        let due_at = (!delay.is_zero()).then(|| later(self.now(), delay));
        let (owner, entity, record_key, previous) = (None, None, None, None);
        let row = NewRow { event_type, payload, owner, entity, record_key, previous, chain, due_at };
        Ok(self.insert(tx, share, row).await?)
    }

    /// Stages the program's own event in a transaction of its own. Returns its id.
    pub async fn emit(
        &self,
        event_type: String,
        payload: Map<String, Value>,
        appending: Appending,
    ) -> Result<String, StageError> {
        let outbox = self.clone();
        let db = self.0.db.writing_for(appending.share);
        db.write(async move |tx: &Tx| outbox.append_with(tx, &event_type, &payload, appending).await).await
    }

    /// Stages an event of the service's own in the transaction of what it is about. It is not refused for want of room: it is small, and
    /// a full outbox must not keep anybody from signing in. Its bytes count for `share`. Consumers that are
    /// [ordered](super::Consumer::ordered) get the events about one `subject` one after the other.
    pub async fn tell(
        &self,
        tx: &Tx,
        share: Share,
        (event_type, subject): (&str, &str),
        payload: &Map<String, Value>,
    ) -> Result<String, gatewright_db::Error> {
        let payload = serde_json::to_string(payload).expect("a map with text keys can be written as JSON");
        let record_key = Some(subject.to_owned());
        let (owner, entity, previous, due_at) = (None, None, None, None);
        let row = NewRow { event_type, payload, owner, entity, record_key, previous, chain: 0, due_at };
        self.insert(tx, share, row).await
    }

    /// Stages the event of a write in the write's own transaction. The payload is the event's public data. Its bytes count for
    /// `share`, that of the caller; [`admit`](Self::admit) checks whether the caller may add more.
    pub async fn stage(
        &self,
        tx: &Tx,
        share: Share,
        event: &EntityEvent,
        facts: Facts<'_>,
    ) -> Result<String, gatewright_db::Error> {
        let Facts { record, actor, previous, chain } = facts;
        let payload = String::from_utf8_lossy(&event.data(self.0.options.json_case)).into_owned();
        let actor = actor.and_then(|actor| serde_json::to_string(actor).ok());
        let payload = actor.and_then(|actor| with(&payload, "actor", &actor)).unwrap_or(payload);
        let row = NewRow {
            event_type: event.kind().as_str(),
            payload,
            owner: event.owner(),
            entity: Some(event.entity()),
            record_key: record.map(|id| format!("{}/{id}", event.entity())),
            previous,
            chain,
            due_at: None,
        };
        self.insert(tx, share, row).await
    }

    /// Whether a consumer wants the earlier values of the entity's fields that an update changes.
    pub fn wants_previous(&self, entity: &str) -> bool {
        self.0.options.previous.has(entity)
    }

    /// Wakes the relays: this process's own and, on Postgres, those of all replicas. Staging does this by itself.
    pub fn wake(&self) {
        self.0.staged.shared.wake(None);
    }

    /// Notifies the other replicas' relays at once, for a process that may end before [`Outbox::wake`] has done so.
    pub(super) async fn notify_relays(&self) -> Result<(), gatewright_db::Error> {
        self.wake();
        dialect::notify(&self.0.db, CHANNEL, &self.0.staged.shared.process).await
    }

    async fn insert(&self, tx: &Tx, share: Share, row: NewRow<'_>) -> Result<String, gatewright_db::Error> {
        let NewRow { event_type, payload, owner, entity, record_key, previous, chain, due_at } = row;
        let bytes = room::size(payload.len() + previous.map_or(0, str::len));
        let (id, chain) = (self.0.ambient.uuid().to_string(), i64::from(chain));
        let params = params![&id, event_type, payload, self.now(), owner, entity, record_key, previous, chain, due_at];
        tx.execute(INSERT, params).await?;
        let (shared, counters, staged) = (self.0.staged.shared.clone(), self.0.counters.clone(), id.clone());
        let room = self.0.room.clone();
        tx.after_commit(move || {
            counters.staged();
            room.committed(share, bytes);
            shared.wake(Some(staged));
        });
        Ok(id)
    }
}

pub(super) fn is_event_type(name: &str) -> bool {
    let visible = |c: char| !c.is_control() && !c.is_whitespace();
    (1..=LONGEST_TYPE).contains(&name.len()) && name.chars().all(visible)
}

/// Rows that were committed here and not yet expanded, and the tasks to notify.
pub(super) struct Staged {
    shared: Arc<Shared>,
    /// Ends the task that notifies the other replicas, and the one that counts the bytes.
    _ended: watch::Sender<()>,
}

pub(super) struct Shared {
    /// Distinguishes this process's notices from those of others.
    process: String,
    ids: Mutex<Ids>,
    relay: Notify,
    replicas: Notify,
}

#[derive(Default)]
struct Ids {
    waiting: Vec<String>,
    /// A relay runs here and will take them.
    wanted: bool,
    /// Some ids were not kept, or a read of the table was requested.
    look: bool,
}

/// The reason why the relay wakes.
#[derive(Debug, Default)]
pub(super) struct Wakeup {
    /// Rows that were committed here.
    pub(super) ids: Vec<String>,
    /// There may be more in the table.
    pub(super) look: bool,
}

impl Staged {
    pub(super) fn new(db: &Db, ambient: &Ambient, room: &Arc<Room>) -> Self {
        let process = ambient.uuid().to_string();
        let shared = Shared { process, ids: Mutex::default(), relay: Notify::new(), replicas: Notify::new() };
        let shared = Arc::new(shared);
        let (ended, gone) = watch::channel(());
        tokio::spawn(room.clone().run(db.clone(), gone.clone()));
        tokio::spawn(notify_replicas(db.clone(), shared.clone(), gone));
        Self { shared, _ended: ended }
    }

    /// Whether ids are kept for a relay of this process.
    pub(super) fn want(&self, wanted: bool) {
        let mut ids = self.shared.ids.lock();
        ids.wanted = wanted;
        ids.waiting = Vec::new();
    }

    /// Waits until there is work for the relay. Cancel safe.
    pub(super) async fn wakeup(&self) -> Wakeup {
        loop {
            let wakeup = self.shared.take();
            if wakeup.look || !wakeup.ids.is_empty() {
                return wakeup;
            }
            self.shared.relay.notified().await;
        }
    }

    /// Listens to the other replicas as long as it is polled. Without replicas or without a connection, the relay reads
    /// the table once in every poll interval.
    pub(super) async fn listen_to_replicas(&self, db: &Db) {
        let mut deaf = false;
        loop {
            match db.listen(CHANNEL).await {
                Ok(None) => return std::future::pending().await,
                Ok(Some(mut listener)) => {
                    deaf = false;
                    // Notices from before the connection are lost, so the table is read.
                    self.shared.look();
                    while let Ok(process) = listener.next().await {
                        if process != self.shared.process {
                            self.shared.look();
                        }
                    }
                }
                Err(error) if !deaf => {
                    deaf = true;
                    tracing::warn!(%error, "the outbox gets no notifications from other replicas; it polls");
                }
                Err(_) => {}
            }
            tokio::time::sleep(RECONNECT).await;
        }
    }
}

impl Shared {
    fn wake(&self, id: Option<String>) {
        let mut ids = self.ids.lock();
        match id {
            Some(id) if ids.wanted && ids.waiting.len() < REMEMBERED => ids.waiting.push(id),
            Some(_) => ids.look |= ids.wanted,
            None => ids.look = true,
        }
        drop(ids);
        self.relay.notify_one();
        self.replicas.notify_one();
    }

    fn look(&self) {
        self.ids.lock().look = true;
        self.relay.notify_one();
    }

    fn take(&self) -> Wakeup {
        let mut ids = self.ids.lock();
        Wakeup { ids: std::mem::take(&mut ids.waiting), look: std::mem::take(&mut ids.look) }
    }
}

/// Notifies the other replicas after the commit, once for many rows: a notice inside each transaction would serialise
/// all commits of the server.
async fn notify_replicas(db: Db, shared: Arc<Shared>, mut gone: watch::Receiver<()>) {
    loop {
        tokio::select! {
            () = shared.replicas.notified() => {}
            _ = gone.changed() => return,
        }
        if let Err(error) = dialect::notify(&db, CHANNEL, &shared.process).await {
            // They look by themselves, once in every poll interval.
            tracing::debug!(%error, "other replicas were not notified of a staged event");
        }
        tokio::time::sleep(QUIET).await;
    }
}
