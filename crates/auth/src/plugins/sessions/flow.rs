use std::sync::Arc;

use gatewright_base::SessionId;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::session::{Client, Session, SessionStoreError, StoredSession};

/// Looking at one's sessions, and ending them.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
}

impl Flow {
    /// The sessions in good standing of the caller, the latest used first.
    pub(crate) async fn list(&self, caller: &Session) -> Result<Vec<StoredSession>, SessionStoreError> {
        let now = self.core.ambient.now();
        let mut sessions = self.core.sessions.list(&caller.user().id).await?;
        let live = |session: &StoredSession| {
            !session.pending_two_factor
                && session.expires_at > now
                && caller.user().accepts_session_from(session.started_at)
        };
        sessions.retain(live);
        Ok(sessions)
    }

    /// Ends one session of the caller; `false` if it is not theirs.
    pub(crate) async fn end(
        &self,
        caller: &Session,
        id: &SessionId,
        client: &Client,
    ) -> Result<bool, SessionStoreError> {
        let ended = self.core.sessions.remove(&caller.user().id, id).await?;
        if ended {
            let event = self.core.audit.event(AuditKind::SessionRevoked).user(&caller.user().id);
            let event =
                event.remote(client.address()).with("session", id.as_str()).with("reason", "ended by its owner");
            self.core.audit.record(event).await;
        }
        Ok(ended)
    }

    /// Ends every session of the caller except this one.
    pub(crate) async fn end_others(&self, caller: &Session, client: &Client) -> Result<(), SessionStoreError> {
        let ended = self.core.sessions.remove_all(&caller.user().id, Some(caller.id())).await?;
        // Repeated requests must not fill the audit log.
        if ended == 0 {
            return Ok(());
        }
        let event = self.core.audit.event(AuditKind::SessionRevoked).user(&caller.user().id);
        let event =
            event.remote(client.address()).with("sessions", ended).with("reason", "others ended by their owner");
        self.core.audit.record(event).await;
        Ok(())
    }
}
