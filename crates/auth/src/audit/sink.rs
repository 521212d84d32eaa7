use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::{Ambient, UserId};
use jiff::Timestamp;

use super::{AuditEvent, AuditKind};
use crate::email::EmailAddress;
use crate::users::BoxError;

/// Receives audit events: the table `audit_log`, or a host's own sink.
#[async_trait]
pub trait AuditSink: Send + Sync + 'static {
    /// Stores one event. An error is logged and has no other effect.
    async fn record(&self, event: AuditEvent) -> Result<(), BoxError>;

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

/// Passes events to the sink, if there is one. A failing sink never fails a request.
#[derive(Clone)]
pub struct Audit {
    sink: Option<Arc<dyn AuditSink>>,
    ambient: Ambient,
}

/// How long a request waits for the sink. After that it is answered, and the event is still stored.
const TIMEOUT: Duration = Duration::from_secs(2);

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
        let task = tokio::spawn(async move { sink.record(event).await });
        match tokio::time::timeout(TIMEOUT, task).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::error!(%kind, %error, "an audit event was not stored"),
            Ok(Err(error)) => tracing::error!(%kind, %error, "an audit event was not stored: its sink panicked"),
            Err(_) => tracing::warn!(%kind, "the audit sink is slow"),
        }
    }
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
            audit.record(audit.event(AuditKind::LoginSucceeded)).await;
        }
    }
}
