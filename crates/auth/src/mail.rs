use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::Secret;
use gatewright_http::locale::Locale;
use jiff::Timestamp;

use crate::email::EmailAddress;
use crate::users::BoxError;

/// Sends the mails of plugins that need one: links to sign in, to prove a mailbox, to set a new password.
#[async_trait]
pub trait Mailer: Send + Sync + 'static {
    /// Writes a mail and hands it over. Called off the requests' path, so that how long it takes tells nobody whether
    /// there is an account; a failure goes to the log.
    async fn send(&self, mail: Mail) -> Result<(), BoxError>;

    /// Removes the mails to an address that wait to be sent: its account was deleted. Called again if it fails.
    async fn forget(&self, address: &EmailAddress) -> Result<(), BoxError> {
        let _ = address;
        Ok(())
    }
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
    /// The code beside the link, for the browser that asked for the mail: `7K3Q-9XWD`. A credential. Only mails that sign
    /// in, prove a mailbox, set a password or change an address have one.
    pub code: Option<Secret>,
    /// Of [`MailKind::NewDevice`]: what signed in.
    pub new_device: Option<NewDevice>,
    /// The tag of its language: `de`. That of the request that caused it or, of a [notice](MailKind::is_notice), the first
    /// one that is configured.
    pub language: Arc<str>,
}

/// A device that an account has not signed in from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDevice {
    /// When.
    pub at: Timestamp,
    /// From where, where that is known.
    pub address: Option<IpAddr>,
    /// What people call it: `Firefox on Windows`, or `Unknown device`.
    pub name: String,
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
    /// An invitation to register, or to accept with the account that there is; to a tenant, where it names one.
    Invitation,
    /// The notice of a new passkey, with a link to the page on which it is removed.
    PasskeyAdded,
    /// The notice that somebody has signed in from a new device, with a link to the page on which it is forgotten.
    NewDevice,
}

impl MailKind {
    /// Whether it warns the owner of an account of what somebody did there. Who caused it may be a thief, whose browser does
    /// not choose its language.
    pub fn is_notice(self) -> bool {
        match self {
            Self::EmailChanged | Self::PasskeyAdded | Self::NewDevice => true,
            Self::MagicLink | Self::EmailVerification | Self::PasswordReset | Self::EmailChange | Self::Invitation => {
                false
            }
        }
    }
}

impl Mail {
    /// A mail of these parts, in the language of the present request or, of a [notice](MailKind::is_notice), in the first
    /// one that is configured.
    pub fn new(kind: MailKind, to: EmailAddress, link: Secret, lifetime: Duration) -> Self {
        let locale = Locale::current();
        let locale = if kind.is_notice() { locale.presentation().locale(None) } else { locale };
        let language = locale.language().tag().into();
        Self { kind, to, link, lifetime, code: None, new_device: None, language }
    }

    pub(crate) fn code(self, code: Secret) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn new_device(self, device: NewDevice) -> Self {
        Self { new_device: Some(device), ..self }
    }
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mail").field("kind", &self.kind).field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}
