//! Hooks by HTTP: a program of the operator's is asked before writes, outside of their transactions.
//!
//! [`gatewright_entities::hooks::OutsideHook`] is the seam: it knows when a hook is asked and what becomes of its answer. This module
//! sends the question, [`answer`] reads the answer.

mod answer;

use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::{Ambient, Identity, time};
use gatewright_entities::hooks::{Asked, Object, OutsideFailed, OutsideHook};
use gatewright_entities::{Action, Builder as EntitiesBuilder};
use gatewright_events::outbox::webhook::{SigningSecret, WebhookError};
use gatewright_http::Problem;
use serde_json::{Value, json};
use url::Url;

use crate::Config;
use crate::config::{Hook, OnHookError};
use crate::signed::Signed;

/// The most bytes of an answer.
const ANSWER: usize = 1 << 20;

/// The action that a word of `on` stands for.
pub(crate) fn action(word: &str) -> Option<Action> {
    match word {
        "before_create" => Some(Action::Create),
        "before_update" => Some(Action::Update),
        "before_delete" => Some(Action::Delete),
        _ => None,
    }
}

/// Adds the configured hooks.
pub(crate) fn around(
    mut entities: EntitiesBuilder,
    config: &Config,
    ambient: &Ambient,
) -> Result<EntitiesBuilder, WebhookError> {
    for hook in &config.hooks {
        entities = entities.outside_hook(hook.entity.clone(), Asking::new(hook, ambient)?);
    }
    Ok(entities)
}

/// One hook of the configuration.
struct Asking {
    signed: Signed,
    actions: Vec<Action>,
    timeout: Duration,
    on_error: OnHookError,
    ambient: Ambient,
}

impl Asking {
    fn new(hook: &Hook, ambient: &Ambient) -> Result<Self, WebhookError> {
        let url = Url::parse(&hook.url).map_err(|_| WebhookError::Url)?;
        let signed = Signed::new(url, SigningSecret::parse(&hook.secret)?, hook.allow_private, hook.timeout);
        Ok(Self {
            signed: signed.map_err(|error| WebhookError::Client(error.to_string()))?,
            actions: hook.on.iter().filter_map(|word| action(word)).collect(),
            timeout: hook.timeout,
            on_error: hook.on_error,
            ambient: ambient.clone(),
        })
    }

    /// Asks, and reads the answer. The error says why there is none, and nothing of the answer and the URL.
    async fn answered(&self, kind: &str, asked: &Asked, spent: Duration) -> Result<Result<Object, Problem>, String> {
        let left = self.timeout.saturating_sub(spent);
        if left.is_zero() {
            return Err("the hooks of the request took too long together".to_owned());
        }
        let now = self.ambient.now();
        let old = asked.old.as_ref().map(|old| serde_json::from_slice::<Value>(old.json()).unwrap_or_default());
        let body = json!({
            "type": kind,
            "timestamp": time::format(now),
            "data": { "values": asked.values, "old": old, "caller": caller(&asked.call.identity) },
        });
        let id = self.ambient.uuid().to_string();
        let posted = self.signed.post(&id, now, body.to_string().into_bytes(), ANSWER);
        match tokio::time::timeout(left, posted).await {
            Ok(Ok(answer)) => answer::read(asked.action, answer.status, &answer.body),
            Ok(Err((error, _))) => Err(error.to_string()),
            Err(_) => Err("there was no answer in time".to_owned()),
        }
    }
}

#[async_trait]
impl OutsideHook for Asking {
    fn precedes(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    async fn ask(&self, asked: &Asked, spent: Duration) -> Result<Object, Problem> {
        let word = match asked.action {
            Action::Update => "before_update",
            Action::Delete => "before_delete",
            Action::Create | Action::Read => "before_create",
        };
        let kind = format!("{}.{word}", asked.plan.name());
        match (self.answered(&kind, asked, spent).await, self.on_error) {
            (Ok(answer), _) => answer,
            (Err(reason), OnHookError::Refuse) => {
                tracing::error!(hook = kind, "the hook failed, and the write was refused: {reason}");
                Err(OutsideFailed.into())
            }
            (Err(reason), OnHookError::Ignore) => {
                tracing::warn!(hook = kind, "the hook failed, and the write goes on: {reason}");
                Ok(Object::new())
            }
        }
    }
}

/// The caller, as hooks see it: null without one.
fn caller(identity: &Identity) -> Value {
    let Some(principal) = identity.principal() else { return Value::Null };
    let kind = if principal.user_id().is_some() { "user" } else { "service" };
    let roles: Vec<&str> = principal.roles.iter().collect();
    json!({ "kind": kind, "id": principal.subject.as_str(), "email": principal.email.as_deref(), "roles": roles })
}
