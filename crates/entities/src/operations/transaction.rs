use gatewright_db::Tx;

use super::cascade::Room;
use super::create::Create;
use super::delete::Delete;
use super::update::Update;
use super::write::{self, Commit};
use super::{Call, Error, get, reach};
use crate::access::Action;
use crate::audience::{Audience, Patience};
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;

/// One transaction for several writes, to entities and to a host's own tables. From [`Entities::transaction`].
///
/// Entity writes are those of [`Operations`](super::Operations): access rules, validation, hooks, outbox and audit are
/// theirs, and their events go out after the commit.
#[derive(Debug)]
pub struct Transaction<'a> {
    pub(super) tx: &'a Tx,
    pub(super) entities: &'a Entities,
    pub(super) commit: &'a Commit,
    pub(super) room: &'a Room,
    pub(super) patience: &'a Patience,
}

impl Entities {
    /// Runs `work` in one transaction: all of it becomes durable together, or nothing does. Events of entity writes go
    /// out after the commit; after an error there are none.
    ///
    /// `work` may run again from its start (see [`Db::write`](gatewright_db::Db::write)), and on SQLite everybody's
    /// writes wait for it: it must not wait for anything but the transaction.
    ///
    /// ```no_run
    /// # async fn example(entities: gatewright_entities::Entities, call: gatewright_entities::Call) -> Result<(), Box<dyn std::error::Error>> {
    /// use gatewright_entities::operations::{Error, Transaction};
    ///
    /// let posts = entities.plan("posts").expect("declared").clone();
    /// let post = entities
    ///     .transaction(async move |transaction: &Transaction<'_>| -> Result<_, Error> {
    ///         transaction.sql().execute("UPDATE counters SET posts = posts + 1", vec![]).await?;
    ///         transaction.create(&posts, &call, br#"{"title":"First"}"#).await
    ///     })
    ///     .await?;
    /// # let _ = post; Ok(()) }
    /// ```
    pub async fn transaction<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&Transaction<'_>) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        within(self, work).await
    }
}

impl Transaction<'_> {
    /// Who of those that follow the entity may see the record and wants it.
    pub(super) async fn audience(
        &self,
        plan: &Plan,
        id: &str,
        before: Option<&str>,
    ) -> Result<Option<Audience>, Error> {
        let (followers, now) = (self.entities.followers(), self.entities.ambient().now());
        followers.audience(self.tx, plan, id, before, now, self.patience).await
    }

    /// The transaction, for statements of one's own.
    pub fn sql(&self) -> &Tx {
        self.tx
    }

    /// The record with that id, if the caller reaches it, as this transaction sees it; held until its end.
    pub async fn get(&self, plan: &Plan, call: &Call, id: &str) -> Result<Record, Error> {
        let reach = reach(self.entities, plan, call, Action::Read).await?;
        let key = get::key(id, &reach)?;
        write::one(self.tx, plan, &plan.sql.lock.within(&reach), key).await?.ok_or(Error::NotFound)
    }

    /// Makes a record of a JSON object.
    pub async fn create(&self, plan: &Plan, call: &Call, body: &[u8]) -> Result<Record, Error> {
        Create::prepare(self.entities, Some(self.tx), plan, call, body).await?.perform(self).await
    }

    /// Changes the fields that a JSON object names.
    pub async fn update(&self, plan: &Plan, call: &Call, id: &str, body: &[u8]) -> Result<Record, Error> {
        let update = Update::prepare(self.entities, Some(self.tx), plan, call, id, body, None).await;
        let updated = match update {
            Ok(update) => update.perform(self).await,
            Err(error) => Err(error),
        };
        self.told(plan, call, id, updated).await
    }

    /// Deletes a record, with those that go with it, and returns it as it last was.
    pub async fn delete(&self, plan: &Plan, call: &Call, id: &str) -> Result<Record, Error> {
        let deleted = match Delete::prepare(self.entities, plan, call, id, None).await {
            Ok(delete) => delete.perform(self).await,
            Err(error) => Err(error),
        };
        self.told(plan, call, id, deleted).await
    }

    /// The same as for single writes: what may be read and not be changed is told to be there.
    pub(super) async fn told<T>(
        &self,
        plan: &Plan,
        call: &Call,
        id: &str,
        written: Result<T, Error>,
    ) -> Result<T, Error> {
        if !matches!(written, Err(Error::NotFound)) || self.get(plan, call, id).await.is_err() {
            return written;
        }
        match self.entities.hooks_of(plan) {
            Some(hooks) if hooks.before_get(call, id).await.is_err() => written,
            _ => Err(Error::NotChangeable),
        }
    }
}

/// Runs `work` in one transaction, and waits for its events where streams ask for that.
pub(super) async fn within<T, F>(entities: &Entities, work: F) -> Result<T, Error>
where
    F: AsyncFn(&Transaction<'_>) -> Result<T, Error> + Send + 'static,
    T: Send + 'static,
{
    let commit = Commit::new(entities.bus());
    let (all, announced) = (entities.clone(), commit.clone());
    let done = entities.db().write(async move |tx: &Tx| -> Result<T, Error> {
        let patience = Patience::new(all.log().is_some());
        let transaction =
            Transaction { tx, entities: &all, commit: &announced, room: &Room::default(), patience: &patience };
        work(&transaction).await
    });
    let done = done.await?;
    commit.wait().await;
    Ok(done)
}
