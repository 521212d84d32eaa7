use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::Secret;

use crate::EmailAddress;
use crate::users::BoxError;

/// Sends the mails of plugins that need one: links to sign in, to prove a mailbox, to set a new password.
#[async_trait]
pub trait Mailer: Send + Sync + 'static {
    /// Writes a mail and hands it over. Called off the requests' path, so that how long it takes tells nobody whether
    /// there is an account; a failure goes to the log.
    async fn send(&self, mail: Mail) -> Result<(), BoxError>;
}

/// A mail to be written: who gets which link.
#[derive(Clone)]
pub struct Mail {
    /// What it is for.
    pub kind: MailKind,
    /// To whom.
    pub to: EmailAddress,
    /// The link, whole. A credential: not for logs.
    pub link: Secret,
    /// How long the link works from now.
    pub lifetime: Duration,
}

/// What a mail is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailKind {
    /// A link that signs in.
    MagicLink,
    /// A link that proves the mailbox.
    EmailVerification,
    /// A link to a new password. The mail says that API tokens live on.
    PasswordReset,
    /// A link to the new address of an account, which makes it effective.
    EmailChange,
    /// A notice to the address of before that it was changed, with a link that undoes it.
    EmailChanged,
    /// An invitation to register, or to accept with the account that there is.
    Invitation,
    /// The notice of a new passkey, with a link to the page on which it is removed.
    PasskeyAdded,
    /// A link by which an account joins a tenant.
    TenantInvitation,
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mail").field("kind", &self.kind).field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}
