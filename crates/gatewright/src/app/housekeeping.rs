use std::time::Duration;

use gatewright_auth::Auth;
use gatewright_entities::Entities;
use gatewright_entities::answers::KeptAnswers;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Removes expired rows from the tables of accounts and of kept answers, and completes records that another program wrote, for as
/// long as it lives. Every replica does so.
pub(super) struct Housekeeper([AbortHandle; 2]);

/// Records that an older server wrote are complete within a minute.
const PERIOD: Duration = Duration::from_secs(20);

impl Housekeeper {
    pub(super) fn start(auth: Option<Auth>, answers: KeptAnswers, entities: Entities) -> Self {
        let searched = entities.clone();
        let keep = async move {
            let mut tick = interval(PERIOD);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let mut removed = match &auth {
                    Some(auth) => auth.sweep().await,
                    None => 0,
                };
                match answers.sweep().await {
                    Ok(answers) => removed += answers,
                    Err(error) => {
                        tracing::warn!(%error, "old answers to requests with idempotency keys were not removed");
                    }
                }
                if let Err(error) = entities.complete_marked().await {
                    tracing::warn!(%error, "records that another program wrote were not completed");
                }
                if removed > 0 {
                    tracing::debug!(removed, "rows that have ended were removed");
                }
            }
        };
        Self([tokio::spawn(keep).abort_handle(), tokio::spawn(index(searched)).abort_handle()])
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Builds search indexes that are declared and not built.
async fn index(entities: Entities) {
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Err(error) = entities.keep_derived().await {
            tracing::error!(%error, "triggers and indexes that another server dropped were not made again");
        }
        if let Err(error) = entities.build_search().await {
            tracing::warn!(%error, "a search index was not built");
        }
    }
}
