use std::sync::Arc;

use async_trait::async_trait;
use gatewright_auth::users::BoxError;
use gatewright_auth::{AccountRecords, Auth, RecordsAt, RecordsPage};
use gatewright_base::UserId;
use gatewright_entities::Entities;
use gatewright_entities::operations::{Owned, OwnedRecords};
use gatewright_events::outbox::Outbox;
use gatewright_events::{EventLog, Forget};

use crate::Config;

/// The records of entities, which follow accounts that are deleted.
pub(crate) struct EntityRecords {
    entities: Entities,
    outbox: Option<Outbox>,
    log: Option<EventLog>,
    /// `auth.on_account_delete`.
    owned: OwnedRecords,
}

impl EntityRecords {
    pub(crate) fn new(config: &Config, entities: &Entities, outbox: Option<&Outbox>, log: Option<EventLog>) -> Self {
        let (entities, outbox) = (entities.clone(), outbox.cloned());
        Self { entities, outbox, log, owned: config.auth.on_account_delete }
    }

    /// Has them follow the accounts, where there are any.
    pub(crate) fn give_to(self, auth: Option<&Auth>) {
        if let Some(auth) = auth {
            auth.account_records(Arc::new(self));
        }
    }
}

#[async_trait]
impl AccountRecords for EntityRecords {
    async fn holder(&self, user: &UserId) -> Result<Option<String>, BoxError> {
        Ok(self.entities.holder_of_account(user, self.owned).await?)
    }

    async fn release(&self, user: &UserId) -> Result<(), BoxError> {
        Ok(self.entities.release_account(user, self.owned).await?)
    }

    async fn delete(&self, user: &UserId) -> Result<(), BoxError> {
        self.entities.release_account(user, OwnedRecords::Delete).await?;
        self.entities.forget_answers(user).await?;
        if let Some(log) = &self.log {
            log.forget_owner(user, Forget::Contents).await?;
        }
        if let Some(outbox) = &self.outbox {
            outbox.forget_owner(user, Forget::Contents).await?;
        }
        Ok(())
    }

    fn releases(&self, table: &str, column: &str) -> bool {
        self.entities.releases_column(table, column)
    }

    async fn owned(&self, user: &UserId, at: &RecordsAt) -> Result<Option<RecordsPage>, BoxError> {
        Ok(self.entities.records_of_account(user, at.table, &at.after).await?.map(|owned| page(owned, at)))
    }

    async fn naming(&self, user: &UserId, at: &RecordsAt) -> Result<Option<RecordsPage>, BoxError> {
        Ok(self.entities.records_naming_account(user, at.table, &at.after).await?.map(|owned| page(owned, at)))
    }

    async fn forget(&self, user: &UserId) -> Result<bool, BoxError> {
        let what = match self.owned {
            OwnedRecords::Keep => Forget::Owner,
            OwnedRecords::Delete => Forget::Contents,
        };
        self.entities.forget_answers(user).await?;
        if let Some(log) = &self.log {
            log.forget_owner(user, what).await?;
        }
        match &self.outbox {
            Some(outbox) => Ok(outbox.forget_owner(user, what).await?),
            None => Ok(true),
        }
    }
}

/// A page of records, and where the next one begins.
fn page(owned: Owned, at: &RecordsAt) -> RecordsPage {
    let last = owned.records.last().map(|record| record.id().to_owned());
    let next = match last.filter(|_| !owned.is_last) {
        Some(after) => RecordsAt { table: at.table, after },
        None => RecordsAt { table: at.table + 1, after: String::new() },
    };
    let records = owned.records.iter().map(|record| record.json().clone()).collect();
    RecordsPage { table: owned.table, records, next }
}
