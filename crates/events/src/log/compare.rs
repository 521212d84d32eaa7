//! Finds out that the database has lost commits which this process has seen, and gives the log a new name then.
//!
//! The follower compares before each read. What a process knows is compared with the log and with the log's name: the
//! first process that finds a difference renames the log, and the others find the new name. Each then forgets its
//! positions, and every stream gets `gap`.

use std::sync::Arc;

use gatewright_db::{Error, Tx, Value, dialect, params};
use tokio::sync::watch;

use super::generation::Generation;
use super::witness::{Check, Witness};
use super::{EventLog, last_positions, last_swept, schema};

/// What a process remembers between two comparisons.
#[derive(Debug, Default)]
pub(super) struct Comparing {
    /// When the database server started.
    server: Option<i64>,
    /// The last comparison or read failed.
    failed: bool,
}

impl Comparing {
    /// The log could not be read. Another server may answer next.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }
}

/// The state of the log in the database.
struct State {
    name: Option<String>,
    swept_to: i64,
    /// The event at `swept_to`, if known.
    swept: Option<Check>,
    /// When the database server started.
    server: i64,
    /// The events at the positions that were asked for.
    found: Vec<Witness>,
}

impl State {
    /// Whether the log has, or had, this event.
    fn has(&self, witness: Witness) -> bool {
        if let Some(found) = self.found.iter().find(|found| found.position == witness.position) {
            return found.check == witness.check;
        }
        match witness.position.cmp(&self.swept_to) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.swept.is_none_or(|swept| swept == witness.check),
            std::cmp::Ordering::Greater => false,
        }
    }
}

impl EventLog {
    /// Compares what this process knows with the database. If the database has lost something, the log gets a new name
    /// and this process forgets its positions. Returns whether it did.
    pub(super) async fn compare(&self, comparing: &mut Comparing) -> Result<bool, Error> {
        let mut all = comparing.failed;
        loop {
            let (generation, known) = {
                let mut sequence = self.0.sequence.lock();
                let known = sequence.witnesses().take_to_compare(all);
                (sequence.generation().clone(), known)
            };
            let compared = self.state(&known).await;
            if compared.is_err() {
                self.0.sequence.lock().witnesses().compare_again();
            }
            let state = compared?;
            let server = comparing.server.replace(state.server);
            comparing.failed = false;
            let missing = known.iter().find(|witness| !state.has(**witness));
            let is_renamed = state.name.as_deref() != Some(&*generation.name);
            if missing.is_some() || is_renamed {
                tracing::warn!(
                    log = &*generation.name,
                    lost = missing.map(|witness| witness.position),
                    is_renamed,
                    "the database does not have the last events that this server has seen, as after an asynchronous \
                     failover; positions of streams are invalid, and every stream gets `gap`"
                );
                self.renew(&generation, missing.is_some()).await?;
                return Ok(true);
            }
            if !all && server.is_some_and(|server| server != state.server) {
                all = true;
                continue;
            }
            return Ok(false);
        }
    }

    /// Whether the log has the event that a client has seen.
    pub(crate) async fn has(&self, witness: Witness) -> Result<bool, Error> {
        if let Some(known) = self.0.sequence.lock().witnesses().check_at(witness.position) {
            return Ok(known == witness.check);
        }
        let state = self.state(&[witness]).await?;
        // No event up to the client's position is later than the witness. So if a later one was removed, it is another
        // log; if it is beyond the client's position, the position is too old anyway.
        Ok(witness.position >= state.swept_to && state.has(witness))
    }

    async fn state(&self, known: &[Witness]) -> Result<State, Error> {
        let engine = self.engine();
        let sql = format!(
            "SELECT s.name, s.swept_to, s.last_swept, {} AS server, l.position, l.id FROM event_log_state s
             LEFT JOIN event_log l ON {}",
            dialect::server_start_micros(engine),
            dialect::is_among_integers(engine, "l.position", "?1")
        );
        let positions: Vec<i64> = known.iter().map(|witness| witness.position).collect();
        let positions = Value::Text(serde_json::Value::from(positions).to_string());
        let mut state = State { name: None, swept_to: 0, swept: None, server: 0, found: Vec::new() };
        for row in self.db().query(sql, vec![positions]).await? {
            if state.name.is_none() {
                state.name = row.get("name")?;
                state.server = row.get("server")?;
                let (swept_to, swept) = last_swept(Some(&row))?;
                (state.swept_to, state.swept) = (swept_to, swept.map(|swept| swept.check));
            }
            if let Some(position) = row.get::<Option<i64>>("position")? {
                state.found.push(Witness::new(position, &row.get::<String>("id")?));
            }
        }
        Ok(state)
    }

    /// Begins a new generation: the log has a new name, and the positions are those that the database has now.
    async fn renew(&self, before: &Arc<Generation>, is_lost: bool) -> Result<(), Error> {
        let fresh = schema::fresh_name(&self.0.ambient);
        // A name that this process has used before is one to which the database has gone back.
        let mut spent: Vec<String> = self.0.spent.lock().iter().map(ToString::to_string).collect();
        if is_lost {
            spent.push(before.name.to_string());
        }
        let name = self
            .db()
            .write(async move |tx: &Tx| -> Result<String, Error> {
                let update = "UPDATE event_log_state SET name = ?1 WHERE name = ?2";
                for spent in &spent {
                    tx.execute(update, params![&fresh, spent]).await?;
                }
                schema::named(tx, &fresh).await
            })
            .await?;
        let (ledger, witnesses) = last_positions(self.db()).await?;
        let generation = before.next(name);
        if generation.name != before.name {
            self.0.spent.lock().push(before.name.clone());
        }
        let number = generation.number;
        self.0.sequence.lock().renew(ledger, witnesses, Arc::new(generation));
        self.0.renewed.send_replace(number);
        Ok(())
    }

    /// The number of the generation, for those who must know when it changes.
    pub(crate) fn renewals(&self) -> watch::Receiver<u64> {
        self.0.renewed.subscribe()
    }
}
