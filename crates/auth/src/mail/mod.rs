//! Mails: the trait of a mailer, the mails, and the two ways to send one.
//!
//! [`Post`] has the mailer, and no other part of this crate does. It accepts a mail with a link or a code that a person
//! requested ([`Requested`], which is no notice), and [`notices`] sends every notice, to proven mailboxes only and within
//! a limit.

pub(crate) mod notices;
mod post;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::Secret;
use gatewright_http::locale::Locale;
use jiff::Timestamp;

use crate::email::EmailAddress;
use crate::users::BoxError;

pub(crate) use notices::{MembersChange, Notice, Notices};
pub(crate) use post::{Post, Requested};

/// Sends the mails of plugins that need one: links to sign in, to prove a mailbox, to set a new password.
#[async_trait]
pub trait Mailer: Send + Sync + 'static {
    /// Writes a mail and sends it or puts it into a queue. Called in the background, so that its duration does not
    /// reveal whether there is an account. An error is logged.
    async fn send(&self, mail: Mail) -> Result<(), BoxError>;

    /// Removes queued mails to an address whose account was deleted. Called again if it fails.
    async fn forget(&self, address: &EmailAddress) -> Result<(), BoxError> {
        let _ = address;
        Ok(())
    }
}

/// A mail to be written: the recipient and the link.
#[derive(Clone)]
pub struct Mail {
    /// The purpose.
    pub kind: MailKind,
    /// To whom.
    pub to: EmailAddress,
    /// The complete link. It is a credential: never log it. For [`MailKind::EmailCode`], the address of the service.
    pub link: Secret,
    /// How long the link works from now.
    pub lifetime: Duration,
    /// The code in the mail, for the browser that requested it: `7K3Q-9XWD`. A credential. Only mails that sign in,
    /// prove a mailbox, set a password or change an address have one. For [`MailKind::EmailCode`], six digits.
    pub code: Option<Secret>,
    /// The account's present address, for [`MailKind::EmailChange`].
    pub account: Option<EmailAddress>,
    /// The device, for [`MailKind::NewDevice`].
    pub new_device: Option<NewDevice>,
    /// Who invites to what, for [`MailKind::Invitation`]. The tenant, for [`MailKind::MembersChanged`].
    pub invitation: Invited,
    /// The change of members in the mail's language, for [`MailKind::MembersChanged`]: `Invited: bob@example.com (admin)`.
    pub change: Option<String>,
    /// One line for each credential in the mail's language, such as `Passkey "Phone"`: those that an undo would remove,
    /// for [`MailKind::EmailChanged`], or has removed, for [`MailKind::EmailChangeUndone`].
    pub credentials: Vec<String>,
    /// The tag of its language: `de`. It is the language of the request that caused the mail or, for a
    /// [notice](MailKind::is_notice), the first configured one.
    pub language: Arc<str>,
}

/// A device that an account has not signed in from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDevice {
    /// When.
    pub at: Timestamp,
    /// The client address, if it is known.
    pub address: Option<IpAddr>,
    /// A readable name: `Firefox on Windows`, or `Unknown device`.
    pub name: String,
}

/// Who invites to what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invited {
    /// The name of the tenant whose member the account becomes. Users choose such names.
    pub tenant: Option<String>,
    /// The address of the inviting account; absent for an operator's command.
    pub inviter: Option<String>,
}

/// The purpose of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailKind {
    /// A link that signs in.
    MagicLink,
    /// A code that signs in where it was requested, without a link.
    EmailCode,
    /// A link that proves the mailbox.
    EmailVerification,
    /// A link to set a new password. The mail says that API tokens and other access end too, unless the user keeps it.
    PasswordReset,
    /// A link to the new address of an account, which confirms the change.
    EmailChange,
    /// A notice to the old address of a changed account, with a link that undoes the change.
    EmailChanged,
    /// A notice to the restored address, with a link to the account page. It names the credentials that were removed.
    EmailChangeUndone,
    /// An invitation to register or to accept with an existing account; to a tenant, if it names one.
    Invitation,
    /// The notice of a new passkey, with a link to the page on which it is removed.
    PasskeyAdded,
    /// The notice of an enrolled second factor, with a link to the page on which it is managed.
    TwoFactorEnabled,
    /// The notice of a disabled second factor, with a link to the page on which it is enrolled.
    TwoFactorDisabled,
    /// The notice of new backup codes, with a link to the page on which they are replaced.
    BackupCodesReplaced,
    /// The notice of a sign-in from a new device, with a link to the page on which the device can be forgotten.
    NewDevice,
    /// The notice of a new API token, with a link to the page on which it is revoked.
    TokenCreated,
    /// The notice of a connected program, with a link to the page on which it is disconnected.
    ProgramConnected,
    /// The notice of a linked provider, with a link to the page on which it is unlinked.
    ProviderLinked,
    /// The notice of a change of a tenant's members, with a link to the page on which sessions are ended.
    MembersChanged,
}

impl MailKind {
    /// Whether it warns the owner of an account of an action there. A thief may have caused it, so the language of the
    /// request is not used.
    pub fn is_notice(self) -> bool {
        match self {
            Self::EmailChanged
            | Self::EmailChangeUndone
            | Self::PasskeyAdded
            | Self::TwoFactorEnabled
            | Self::TwoFactorDisabled
            | Self::BackupCodesReplaced
            | Self::NewDevice
            | Self::TokenCreated
            | Self::ProgramConnected
            | Self::ProviderLinked
            | Self::MembersChanged => true,
            Self::MagicLink
            | Self::EmailCode
            | Self::EmailVerification
            | Self::PasswordReset
            | Self::EmailChange
            | Self::Invitation => false,
        }
    }
}

impl Mail {
    /// A mail with these parts, in the language of the current request or, for a [notice](MailKind::is_notice), in the
    /// first configured one.
    pub fn new(kind: MailKind, to: EmailAddress, link: Secret, lifetime: Duration) -> Self {
        let locale = Locale::current();
        let locale = if kind.is_notice() { locale.presentation().locale(None) } else { locale };
        let language = locale.language().tag().into();
        Self {
            kind,
            to,
            link,
            lifetime,
            code: None,
            account: None,
            new_device: None,
            invitation: Invited::default(),
            change: None,
            credentials: Vec::new(),
            language,
        }
    }

    pub(crate) fn code(self, code: Secret) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn credentials(self, credentials: Vec<String>) -> Self {
        Self { credentials, ..self }
    }

    pub(crate) fn members(self, tenant: String, change: String) -> Self {
        let invitation = Invited { tenant: Some(tenant), ..self.invitation };
        Self { invitation, change: Some(change), ..self }
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
