//! What jobs of the configuration do: call a URL, or stage an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Ambient, time};
use gatewright_db::{Db, Tx};
use gatewright_entities::Entities;
use gatewright_events::outbox::webhook::{SigningSecret, WebhookError};
use gatewright_events::outbox::{Outbox, StageError};
use serde_json::{Map, Value, json};
use url::Url;

use super::{Action, Due};
use crate::Config;
use crate::functions::Functions;
use crate::signed::Signed;

/// How much of an answer is read. Its status alone counts.
const ANSWER: usize = 64 << 10;

/// The first parts of types of events that the service itself emits.
pub(crate) const RESERVED: [&str; 4] = ["entity.", "user.", "tenant.", "member."];

/// What each job does, by its name.
pub(super) fn actions(
    config: &Config,
    functions: Option<&Functions>,
    (db, entities): (&Db, &Entities),
    outbox: Option<&Outbox>,
    ambient: &Ambient,
) -> Result<BTreeMap<String, Arc<dyn Action>>, WebhookError> {
    let webhooks = config.outbox.allow_private_networks.unwrap_or(config.server.dev_mode);
    let mut actions: BTreeMap<String, Arc<dyn Action>> = BTreeMap::new();
    for job in &config.jobs {
        let action: Arc<dyn Action> = match (&job.url, &job.secret, &job.emit, outbox) {
            (Some(url), Some(secret), ..) => {
                let url = Url::parse(url).map_err(|_| WebhookError::Url)?;
                let private = job.allow_private.unwrap_or(webhooks);
                let signed = Signed::new(url, SigningSecret::parse(secret)?, private, config.functions.job_timeout);
                let signed = signed.map_err(|error| WebhookError::Client(error.to_string()))?;
                Arc::new(Called { signed, ambient: ambient.clone() })
            }
            (_, _, Some(event), Some(outbox)) => {
                Arc::new(Emitted { event: event.clone(), outbox: outbox.clone(), db: db.clone() })
            }
            // The check of the configuration has refused it.
            _ => continue,
        };
        actions.insert(job.name.clone(), action);
    }
    if let Some(functions) = functions {
        actions.extend(functions.job_actions(entities));
    }
    Ok(actions)
}

fn data(due: &Due) -> Map<String, Value> {
    [("job".to_owned(), due.job.as_str().into()), ("due".to_owned(), time::format(due.at).into())].into_iter().collect()
}

/// A signed POST to a program of the operator's.
struct Called {
    signed: Signed,
    ambient: Ambient,
}

#[async_trait]
impl Action for Called {
    async fn run(&self, due: &Due) -> Result<(), String> {
        let now = self.ambient.now();
        let body = json!({ "type": "job.due", "timestamp": time::format(now), "data": data(due) });
        // The same for each attempt, so that the receiver knows a repetition.
        let id = format!("{}-{}", due.job, due.at.as_microsecond());
        let answer = self.signed.post(&id, now, body.to_string().into_bytes(), ANSWER).await;
        match answer {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => Err(format!("the endpoint answered {}", answer.status.as_u16())),
            // The status has decided already.
            Err((_, Some(status))) if status.is_success() => Ok(()),
            Err((error, _)) => Err(error.to_string()),
        }
    }
}

/// An event in the outbox.
struct Emitted {
    event: String,
    outbox: Outbox,
    db: Db,
}

#[async_trait]
impl Action for Emitted {
    async fn run(&self, due: &Due) -> Result<(), String> {
        let (outbox, event, data) = (self.outbox.clone(), self.event.clone(), data(due));
        let staged = self.db.write(async move |tx: &Tx| -> Result<(), StageError> {
            outbox.append(tx, &event, &data).await.map(|_| ())
        });
        staged.await.map_err(|error| error.to_string())
    }
}
