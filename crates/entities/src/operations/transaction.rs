use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gatewright_db::{Share, Tx};

use super::cascade::Room;
use super::commit::Commit;
use super::memory::Memory;
use super::staging;
use crate::audience::{Audience, ListenerTime};
use crate::call::Call;
use crate::context::entities::Entities;
use crate::error::Error;
use crate::hooks::outside::{OutsideFailed, Questions};
use crate::plan::Plan;

/// How often a transaction begins again with further answers of hooks: more than a batch has items.
const ROUNDS: usize = 250;

/// One transaction for several writes, to entities and to a host's own tables. From [`Entities::transaction`].
///
/// [`table`](Self::table) returns an entity with the same operations as [`Table`](crate::Table), including access
/// rules, validation, hooks, outbox and audit. Events are published after the commit.
#[derive(Debug)]
pub struct Transaction<'a> {
    pub(super) tx: &'a Tx,
    pub(super) entities: &'a Entities,
    pub(super) commit: &'a Commit,
    pub(super) room: &'a Room,
    pub(super) listener_time: &'a ListenerTime,
    pub(super) memory: &'a Memory,
    questions: &'a Questions,
    hook_micros: AtomicU64,
}

impl Entities {
    /// Runs `work` in one transaction: all of it becomes durable together, or nothing does. Events of entity writes go
    /// out after the commit; after an error there are none.
    ///
    /// `work` may run again from its start (see [`Db::write`](gatewright_db::Db::write)), and on SQLite all other
    /// writes wait for it: it must not wait for anything except the transaction.
    ///
    /// ```no_run
    /// # async fn example(entities: gatewright_entities::Entities, call: gatewright_entities::Call) -> Result<(), Box<dyn std::error::Error>> {
    /// use gatewright_entities::operations::{Error, Transaction};
    ///
    /// let post = entities
    ///     .transaction(async move |transaction: &Transaction<'_>| -> Result<_, Error> {
    ///         transaction.sql().execute("UPDATE counters SET posts = posts + 1", vec![]).await?;
    ///         transaction.table("posts")?.create(&call, br#"{"title":"First"}"#).await
    ///     })
    ///     .await?;
    /// # let _ = post; Ok(()) }
    /// ```
    pub async fn transaction<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&Transaction<'_>) -> Result<T, Error> + Send + Sync + 'static,
        T: Send + 'static,
    {
        within(self, Share::default(), work).await
    }
}

impl Transaction<'_> {
    /// The followers of the entity that may see the record, and whose filters it matches.
    pub(super) async fn audience(
        &self,
        plan: &Plan,
        id: &str,
        before: Option<&str>,
    ) -> Result<Option<Audience>, Error> {
        let (followers, now) = (self.entities.followers(), self.entities.ambient().now());
        followers.audience(self.tx, plan, id, before, now, self.listener_time).await
    }

    /// Takes the memory of a record that is about to be read.
    pub(super) async fn take_memory(&self, plan: &Plan, id: &str, call: &Call) -> Result<(), Error> {
        self.memory.take(self.entities, self.tx, (plan, id), call).await
    }

    /// How long hooks have computed in the transaction, as they have said. It begins at 0 when the transaction runs again.
    pub fn hook_time(&self) -> Duration {
        Duration::from_micros(self.hook_micros.load(Ordering::Relaxed))
    }

    /// Adds to [`hook_time`](Self::hook_time).
    pub fn add_hook_time(&self, time: Duration) {
        self.hook_micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The questions to hooks outside of the transaction.
    pub(crate) fn questions(&self) -> &Questions {
        self.questions
    }

    /// The entities.
    pub fn entities(&self) -> &Entities {
        self.entities
    }

    /// The transaction, for your own statements.
    pub fn sql(&self) -> &Tx {
        self.tx
    }
}

/// Runs `work` in one transaction when it is `share`'s turn, and waits for its events where streams ask for that.
pub(super) async fn within<T, F>(entities: &Entities, share: Share, work: F) -> Result<T, Error>
where
    F: AsyncFn(&Transaction<'_>) -> Result<T, Error> + Send + Sync + 'static,
    T: Send + 'static,
{
    asking(entities, share, &Questions::default(), work).await
}

/// The same, as a part of a request that may have asked hooks already.
pub(super) async fn asking<T, F>(entities: &Entities, share: Share, questions: &Questions, work: F) -> Result<T, Error>
where
    F: AsyncFn(&Transaction<'_>) -> Result<T, Error> + Send + Sync + 'static,
    T: Send + 'static,
{
    let work = Arc::new(work);
    for _ in 0..ROUNDS {
        let done = once(entities, share, questions, &work).await;
        if !questions.are_open() {
            return done;
        }
        // Nothing was written. What the hooks answer decides how it goes on.
        Box::pin(questions.ask(entities.hook_turns())).await;
    }
    Err(OutsideFailed.into())
}

async fn once<T, F>(entities: &Entities, share: Share, questions: &Questions, work: &Arc<F>) -> Result<T, Error>
where
    F: AsyncFn(&Transaction<'_>) -> Result<T, Error> + Send + Sync + 'static,
    T: Send + 'static,
{
    staging::admit(entities, share)?;
    let commit = Commit::new(entities.bus());
    // Until the commit is done, the record waits for it.
    let memory = Arc::new(Memory::default());
    let (all, announced, taken) = (entities.clone(), commit.clone(), memory.clone());
    let (questions, work) = (questions.clone(), work.clone());
    let db = entities.db().writing_for(share);
    let done = db.write(async move |tx: &Tx| -> Result<T, Error> {
        let listener_time = ListenerTime::new(all.log().is_some());
        taken.clear();
        questions.begin();
        let transaction = Transaction {
            tx,
            entities: &all,
            commit: &announced,
            room: &Room::default(),
            listener_time: &listener_time,
            memory: &taken,
            questions: &questions,
            hook_micros: AtomicU64::new(0),
        };
        let done = work(&transaction).await;
        // Whatever becomes of an error on its way, nothing is committed without the answer.
        if questions.are_open() { Err(Questions::error()) } else { done }
    });
    let done = done.await?;
    commit.wait().await;
    drop(memory);
    Ok(done)
}
