use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::{Ambient, UserId};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::{AuditEvent, AuditKind};
use crate::email::EmailAddress;
use crate::users::{BoxError, UserStoreError};

/// Receives audit events: the table `audit_log`, or a host's own sink.
#[async_trait]
pub trait AuditSink: Send + Sync + 'static {
    /// Stores one event. The error of a sign-in refuses it; another one is logged and has no other effect.
    async fn record(&self, event: AuditEvent) -> Result<(), BoxError>;

    /// Stores the event of an act that is about to take effect, marked as pending, and returns its id for
    /// [`settle`](Self::settle). An error refuses the act. A sink that returns `None` stores nothing yet, and gets the event
    /// by [`record`](Self::record) after the act.
    async fn begin(&self, event: &AuditEvent) -> Result<Option<String>, BoxError> {
        let _ = event;
        Ok(None)
    }

    /// Replaces the pending event by that of the completed act, or removes it: `None` if the act was refused.
    async fn settle(&self, id: &str, event: Option<AuditEvent>) -> Result<(), BoxError> {
        let _ = (id, event);
        Ok(())
    }

    /// Removes the address, the client addresses and other personal data from the events of a deleted account. Its id
    /// stays. A host's own sink that keeps such data must do this itself.
    async fn forget(&self, user: &UserId, email: &EmailAddress) -> Result<(), BoxError> {
        let _ = (user, email);
        Ok(())
    }

    /// One page of the events about an account, newest first, for its owner. `after` is [`AuditPage::next`] of the
    /// previous page. A host's own sink may return none.
    async fn about(&self, user: &UserId, after: Option<AuditAt>) -> Result<AuditPage, BoxError> {
        let _ = (user, after);
        Ok(AuditPage::default())
    }

    /// Removes events of `before` and earlier, at most `limit` of them, and returns how many there were. A host's own
    /// sink may keep events longer.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64, BoxError> {
        let _ = (before, limit);
        Ok(0)
    }
}

/// A position in the events about an account: the time and the id of the last event that was read.
pub type AuditAt = (Timestamp, String);

/// A page of the events about an account.
#[derive(Debug, Clone, Default)]
pub struct AuditPage {
    /// As JSON objects.
    pub events: Vec<serde_json::Value>,
    /// The position for the next page; `None` on the last page.
    pub next: Option<AuditAt>,
}

/// Passes events to the sink, if there is one. A failing sink refuses the acts whose events [must be stored](AuditKind::must_be_stored),
/// and fails no other request.
#[derive(Clone)]
pub struct Audit {
    sink: Option<Arc<dyn AuditSink>>,
    ambient: Ambient,
}

/// How long a request waits for the sink. After that it is answered, and the event is still stored.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long an act that needs its event to be stored waits. After that it is refused.
const REQUIRED_TIMEOUT: Duration = Duration::from_secs(10);

/// The sink cannot store the event of an act, so the act is refused.
#[derive(Debug, thiserror::Error)]
#[error("the audit event {kind} cannot be stored: {cause}")]
pub(crate) struct Unstored {
    kind: AuditKind,
    cause: BoxError,
}

impl From<Unstored> for UserStoreError {
    fn from(error: Unstored) -> Self {
        Self::transport(error)
    }
}

/// The event of an act that is about to take effect. If it is dropped, it stays marked as pending: the act may have taken
/// effect.
#[must_use = "the event stays pending"]
pub struct PendingEvent {
    audit: Audit,
    event: AuditEvent,
    id: Option<String>,
}

impl PendingEvent {
    /// The act took effect.
    pub async fn done(self) {
        self.done_with(|event| event).await;
    }

    /// The act took effect, and these details became known. If they cannot be stored, the log gets a line, and the event stays
    /// pending.
    pub async fn done_with(self, complete: impl FnOnce(AuditEvent) -> AuditEvent) {
        let Self { audit, event, id } = self;
        let event = complete(event);
        match id {
            Some(id) => audit.settle(id, event.kind, Some(event)).await,
            None => audit.record(event).await,
        }
    }

    /// The act was refused, and nothing has changed.
    pub async fn withdraw(self) {
        if let Some(id) = self.id {
            self.audit.settle(id, self.event.kind, None).await;
        }
    }
}

impl Audit {
    pub(crate) fn new(sink: Option<Arc<dyn AuditSink>>, ambient: Ambient) -> Self {
        Self { sink, ambient }
    }

    pub(crate) fn sink(&self) -> Option<&Arc<dyn AuditSink>> {
        self.sink.as_ref()
    }

    /// A new event with the current time.
    pub fn event(&self, kind: AuditKind) -> AuditEvent {
        AuditEvent::new(kind, self.ambient.now())
    }

    /// Passes `event` to the sink and waits until it is stored, for at most two seconds. If the sink fails, panics or
    /// hangs, the log gets a line. The sink runs in its own task, so that the event is stored even if the caller
    /// disconnects.
    pub async fn record(&self, event: AuditEvent) {
        let Some(sink) = self.sink.clone() else { return };
        let kind = event.kind;
        logged(kind, tokio::spawn(async move { sink.record(event).await })).await;
    }

    /// Passes `event` to the sink. Fails unless it is stored within ten seconds.
    pub(crate) async fn store(&self, event: AuditEvent) -> Result<(), Unstored> {
        let Some(sink) = self.sink.clone() else { return Ok(()) };
        required(event.kind, tokio::spawn(async move { sink.record(event).await })).await
    }

    /// Stores the event of an act before it takes effect, marked as pending. Fails unless it is stored within ten seconds: then
    /// the act must be refused.
    pub(crate) async fn begin(&self, event: AuditEvent) -> Result<PendingEvent, Unstored> {
        let id = match self.sink.clone() {
            Some(sink) => {
                let event = event.clone();
                required(event.kind, tokio::spawn(async move { sink.begin(&event).await })).await?
            }
            None => None,
        };
        Ok(PendingEvent { audit: self.clone(), event, id })
    }

    /// Begins an act outside of this crate. The error names the cause, for the log.
    pub async fn begin_act(&self, event: AuditEvent) -> Result<PendingEvent, BoxError> {
        Ok(self.begin(event).await?)
    }

    async fn settle(&self, id: String, kind: AuditKind, event: Option<AuditEvent>) {
        let Some(sink) = self.sink.clone() else { return };
        logged(kind, tokio::spawn(async move { sink.settle(&id, event).await })).await;
    }
}

type Storing<T> = JoinHandle<Result<T, BoxError>>;

async fn logged(kind: AuditKind, task: Storing<()>) {
    match tokio::time::timeout(TIMEOUT, task).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::error!(%kind, %error, "an audit event was not stored"),
        Ok(Err(error)) => tracing::error!(%kind, %error, "an audit event was not stored: its sink panicked"),
        Err(_) => tracing::warn!(%kind, "the audit sink is slow"),
    }
}

async fn required<T>(kind: AuditKind, task: Storing<T>) -> Result<T, Unstored> {
    let cause = match tokio::time::timeout(REQUIRED_TIMEOUT, task).await {
        Ok(Ok(Ok(stored))) => return Ok(stored),
        Ok(Ok(Err(cause))) => cause,
        Ok(Err(panic)) => panic.into(),
        Err(_) => "the sink did not answer in time".into(),
    };
    Err(Unstored { kind, cause })
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("on", &self.sink.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Bad {
        Fails,
        Panics,
        Hangs,
    }

    #[async_trait]
    impl AuditSink for Bad {
        async fn record(&self, _: AuditEvent) -> Result<(), BoxError> {
            match self {
                Self::Fails => Err("no room".into()),
                Self::Panics => panic!("a bug in the host's sink"),
                Self::Hangs => std::future::pending().await,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sink_that_fails_panics_or_hangs_does_not_fail_the_request() {
        for sink in [Bad::Fails, Bad::Panics, Bad::Hangs] {
            let audit = Audit::new(Some(Arc::new(sink)), Ambient::system());
            audit.record(audit.event(AuditKind::LoginFailed)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_act_that_must_be_stored_is_refused_by_a_sink_that_fails_panics_or_hangs() {
        for (sink, cause) in [(Bad::Fails, "no room"), (Bad::Panics, "panicked"), (Bad::Hangs, "in time")] {
            let audit = Audit::new(Some(Arc::new(sink)), Ambient::system());
            let stored = audit.store(audit.event(AuditKind::LoginSucceeded)).await;
            assert!(stored.unwrap_err().to_string().contains(cause), "{cause}");
            // A sink that stores no pending events refuses nothing in advance.
            audit.begin(audit.event(AuditKind::TokenCreated)).await.unwrap().done().await;
        }
        let audit = Audit::new(None, Ambient::system());
        audit.store(audit.event(AuditKind::LoginSucceeded)).await.unwrap();
        audit.begin(audit.event(AuditKind::TokenCreated)).await.unwrap().withdraw().await;
    }
}
