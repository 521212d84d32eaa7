use gatewright_base::Secret;
use jiff::Timestamp;
use uuid::Uuid;

use crate::Address;

/// One mail, written and ready to be sent.
///
/// Its bodies and links contain single-use tokens, so they are [`Secret`]s, and `Debug` does not show them.
#[derive(Debug, Clone)]
pub struct Mail {
    /// Stays the same however often sending is tried: the `Message-ID`, by which mail servers drop duplicates, is made
    /// of it.
    pub id: Uuid,
    /// The `Date`.
    pub written_at: Timestamp,
    /// The recipient. Only one, so that recipients do not see each other.
    pub to: Address,
    /// The subject, one line. It carries no link: subjects end up in logs.
    pub subject: String,
    /// The text part, which is always present.
    pub text: Secret,
    /// The HTML part.
    pub html: Option<Secret>,
    /// The links in it, for the development mailbox.
    pub links: Vec<Secret>,
}
