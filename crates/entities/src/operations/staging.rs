use gatewright_events::outbox::Outbox;

use super::hook::{Change, HookFuture, WriteHook};

/// Stages the event of every write in the write's own transaction, for durable consumers.
#[derive(Debug)]
pub(crate) struct Staging(pub(crate) Outbox);

impl WriteHook for Staging {
    fn written<'a>(&'a self, tx: &'a gatewright_db::Tx, change: &'a Change) -> HookFuture<'a> {
        Box::pin(async move {
            self.0.stage(tx, &change.event()).await?;
            Ok(())
        })
    }
}
