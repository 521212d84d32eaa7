use async_trait::async_trait;

use crate::Mail;

/// Sends mails: SMTP, the development mailbox, or a program's own implementation.
#[async_trait]
pub trait Sender: Send + Sync + 'static {
    /// Tries once to send `mail`.
    ///
    /// The queue calls it again for the same mail (the same [`Mail::id`]) after a temporary failure. The future may be
    /// dropped at any point when the program ends.
    async fn send(&self, mail: &Mail) -> Result<(), SendError>;
}

/// Why a mail was not sent, and whether a retry makes sense.
///
/// The reason is logged unchanged: it must not contain links or addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SendError {
    permanent: bool,
    reason: String,
}

impl SendError {
    /// It may work later: the server was unavailable, or refused temporarily.
    pub fn temporary(reason: impl Into<String>) -> Self {
        Self { permanent: false, reason: reason.into() }
    }

    /// It will never work for this mail.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self { permanent: true, reason: reason.into() }
    }

    /// Whether trying again is pointless.
    pub fn is_permanent(&self) -> bool {
        self.permanent
    }
}
