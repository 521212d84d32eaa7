use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;

use super::{Invited, Mail, MailKind, Mailer};
use crate::background::Background;
use crate::email::EmailAddress;
use crate::single_use::Purpose;
use crate::users::BoxError;

/// The configured mailer, if there is one.
#[derive(Clone)]
pub(crate) struct Post {
    mailer: Option<Arc<dyn Mailer>>,
    background: Background,
}

/// A mail with a link that somebody requested. Never a notice.
#[derive(Debug, Clone)]
pub(crate) struct Requested(Mail);

impl Post {
    pub(crate) fn new(mailer: Option<Arc<dyn Mailer>>, background: Background) -> Self {
        Self { mailer, background }
    }

    /// Whether a mailer is configured.
    pub(crate) fn is_configured(&self) -> bool {
        self.mailer.is_some()
    }

    /// Sends a mail off the request's path; a failure is logged. `false` without a mailer.
    pub(crate) fn send(&self, requested: Requested) -> bool {
        if requested.0.to.is_of_guest() {
            tracing::error!("a mail to a guest was refused: a guest has no address");
            return false;
        }
        self.deliver(requested.0)
    }

    /// Removes queued mails to an address.
    pub(crate) async fn forget(&self, address: &EmailAddress) -> Result<(), BoxError> {
        match &self.mailer {
            Some(mailer) => mailer.forget(address).await,
            None => Ok(()),
        }
    }

    /// The same as [`send`](Self::send), for any mail.
    pub(super) fn deliver(&self, mail: Mail) -> bool {
        let Some(mailer) = self.mailer.clone() else {
            tracing::warn!(kind = ?mail.kind, "no mailer configured; mail not sent; set [email]");
            return false;
        };
        let kind = mail.kind;
        self.background.run("a mail", async move {
            if let Err(error) = mailer.send(mail).await {
                tracing::error!(?kind, %error, "mail not sent");
            }
        });
        true
    }
}

impl Requested {
    /// The mail with a link of this purpose, and the code for the browser that requested it.
    pub(crate) fn link(purpose: Purpose, to: EmailAddress, link: Secret, lifetime: Duration, code: Secret) -> Self {
        Self(Mail::new(purpose.into(), to, link, lifetime).code(code))
    }

    /// The same, naming the account's present address.
    pub(crate) fn of_account(self, account: EmailAddress) -> Self {
        Self(Mail { account: Some(account), ..self.0 })
    }

    /// An invitation.
    pub(crate) fn invitation(to: EmailAddress, link: Secret, lifetime: Duration, words: Invited) -> Self {
        Self(Mail { invitation: words, ..Mail::new(MailKind::Invitation, to, link, lifetime) })
    }
}

impl From<Purpose> for MailKind {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::MagicLink => Self::MagicLink,
            Purpose::EmailVerification => Self::EmailVerification,
            Purpose::PasswordReset => Self::PasswordReset,
            Purpose::EmailChange => Self::EmailChange,
            Purpose::EmailCode => Self::EmailCode,
        }
    }
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("is_configured", &self.is_configured()).finish_non_exhaustive()
    }
}
