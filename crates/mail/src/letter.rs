use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;

/// The purpose of a letter. Each kind has its templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A link that signs in.
    MagicLink,
    /// A code that signs in where it was requested, without a link.
    EmailCode,
    /// A link that proves the mailbox.
    EmailVerification,
    /// A link to a new password.
    PasswordReset,
    /// An invitation.
    Invitation,
    /// A link that makes a new address effective.
    EmailChange,
    /// A notice that an address was changed, with a link that undoes it.
    EmailChanged,
    /// A notice that a change of address was undone, with a link to the account page.
    EmailChangeUndone,
    /// The notice of a new passkey, with a link to the page on which it is removed.
    PasskeyAdded,
    /// The notice of an enrolled second factor, with a link to the page on which it is managed.
    TwoFactorEnabled,
    /// The notice of a disabled second factor, with a link to the page on which it is enrolled.
    TwoFactorDisabled,
    /// The notice of new backup codes, with a link to the page on which they are replaced.
    BackupCodesReplaced,
    /// The notice of a sign-in from a new device, with a link to the page on which it is forgotten.
    NewDevice,
    /// The notice of a new API token, with a link to the page on which it is revoked.
    TokenCreated,
    /// The notice of a connected program, with a link to the page on which it is disconnected.
    ProgramConnected,
    /// The notice of a linked provider, with a link to the page on which it is unlinked.
    ProviderLinked,
    /// The notice of a change of a tenant's members, with a link to the page on which sessions are ended.
    MembersChanged,
    /// A mail that a function has written. It has no templates.
    Function,
}

impl Kind {
    /// Every kind with templates.
    pub const ALL: [Self; 17] = [
        Self::MagicLink,
        Self::EmailCode,
        Self::EmailVerification,
        Self::PasswordReset,
        Self::Invitation,
        Self::EmailChange,
        Self::EmailChanged,
        Self::EmailChangeUndone,
        Self::PasskeyAdded,
        Self::TwoFactorEnabled,
        Self::TwoFactorDisabled,
        Self::BackupCodesReplaced,
        Self::NewDevice,
        Self::TokenCreated,
        Self::ProgramConnected,
        Self::ProviderLinked,
        Self::MembersChanged,
    ];

    /// Reads a kind's name, also one of before.
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name == "tenant_invitation" { "invitation" } else { name };
        Self::ALL.into_iter().chain([Self::Function]).find(|kind| kind.name() == name)
    }

    /// The name that its template files begin with, and that logs use.
    pub fn name(self) -> &'static str {
        match self {
            Self::MagicLink => "magic_link",
            Self::EmailCode => "email_code",
            Self::EmailVerification => "email_verification",
            Self::PasswordReset => "password_reset",
            Self::Invitation => "invitation",
            Self::EmailChange => "email_change",
            Self::EmailChanged => "email_changed",
            Self::EmailChangeUndone => "email_change_undone",
            Self::PasskeyAdded => "passkey_added",
            Self::TwoFactorEnabled => "two_factor_enabled",
            Self::TwoFactorDisabled => "two_factor_disabled",
            Self::BackupCodesReplaced => "backup_codes_replaced",
            Self::NewDevice => "new_device",
            Self::TokenCreated => "token_created",
            Self::ProgramConnected => "program_connected",
            Self::ProviderLinked => "provider_linked",
            Self::MembersChanged => "members_changed",
            Self::Function => "function",
        }
    }
}

/// A mail to be written: its recipient and its link.
///
/// Creating one is as cheap as moving its parts: the queue checks the address later, outside of the request.
#[derive(Clone)]
pub struct Letter {
    /// The purpose.
    pub kind: Kind,
    /// The account's address, as stored.
    pub to: Arc<str>,
    /// The link, whole: `https://…?token=…`. For [`Kind::EmailCode`], the address of the service.
    pub link: Secret,
    /// How long the link works, counted from [`post`](crate::Outgoing::post). The mail contains this time, and is not
    /// sent after it.
    pub lifetime: Duration,
    /// The tag of the reader's language. If it is absent or unknown, the first language is used.
    pub language: Option<Arc<str>>,
    /// The code, sent together with the link: `7K3Q-9XWD`. [`Kind::EmailCode`] has only this.
    pub code: Option<Secret>,
    /// For [`Kind::EmailChange`]: the account's present address.
    pub account: Option<Arc<str>>,
    /// For [`Kind::EmailChanged`] and [`Kind::EmailChangeUndone`]: one line for each credential that an undo removes.
    pub credentials: Vec<String>,
    /// For [`Kind::Invitation`]: who invites to what. For [`Kind::MembersChanged`]: the tenant.
    pub invitation: Invited,
    /// For [`Kind::MembersChanged`]: the change, one line in the mail's language.
    pub change: Option<String>,
    /// For [`Kind::NewDevice`]: the device that signed in.
    pub device: Option<Device>,
    /// For [`Kind::Function`]: the mail itself.
    pub written: Option<Written>,
}

/// A mail that is written already.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Written {
    /// The subject, one line.
    pub subject: String,
    /// The text part.
    pub text: String,
    /// The HTML part, if it has one.
    pub html: Option<String>,
}

/// Who invites to what. A name that there is not is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Invited {
    /// The name of the tenant.
    pub tenant: String,
    /// The address of the inviting account.
    pub inviter: String,
}

/// The device that signed in, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// When: `2026-01-31 12:00 UTC`.
    pub time: String,
    /// Its name, such as `Firefox on Windows`.
    pub name: String,
    /// The client address of the sign-in.
    pub address: String,
}

impl Letter {
    /// The same in the language of this tag.
    pub fn language(self, tag: impl Into<Arc<str>>) -> Self {
        Self { language: Some(tag.into()), ..self }
    }

    /// A letter of these parts.
    pub fn new(kind: Kind, to: impl Into<Arc<str>>, link: Secret, lifetime: Duration) -> Self {
        let (language, code, account, device) = (None, None, None, None);
        Self {
            kind,
            to: to.into(),
            link,
            lifetime,
            language,
            code,
            account,
            credentials: Vec::new(),
            invitation: Invited::default(),
            change: None,
            device,
            written: None,
        }
    }

    /// A mail that a function has written. It is tried for at most `lifetime`.
    pub fn written(to: impl Into<Arc<str>>, written: Written, lifetime: Duration) -> Self {
        Self { written: Some(written), ..Self::new(Kind::Function, to, Secret::new(""), lifetime) }
    }

    /// The same, with a code in addition to the link.
    pub fn code(self, code: Secret) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same, with the device that signed in.
    pub fn device(self, device: Device) -> Self {
        Self { device: Some(device), ..self }
    }
}

impl std::fmt::Debug for Letter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Letter").field("kind", &self.kind).field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}
