//! Notices: mails that warn the owner of an account of an action there.
//!
//! [`Core::notify`] sends every notice. The notice of a changed address has its own type, [`UndoMail`], because it goes to
//! the former address and contains the link that undoes the change.

use std::net::IpAddr;
use std::time::Duration;

use gatewright_base::{Roles, Secret, UserId};
use gatewright_http::locale::{self, Locale};
use gatewright_limits::{Limiter, Policy};
use jiff::Timestamp;

use super::{Mail, MailKind, NewDevice};
use crate::config::Limit;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::foundation::Foundation;
use crate::screens::account::AccountPage;
use crate::single_use::MailBudget;
use crate::users::{BoxError, User};

/// The action that a notice is about.
#[cfg_attr(
    not(all(feature = "passkeys", feature = "two-factor")),
    expect(dead_code, reason = "only these plugins cause some of them")
)]
#[derive(Debug, Clone)]
pub(crate) enum Notice {
    /// A passkey was added.
    PasskeyAdded,
    /// A second factor was enrolled.
    TwoFactorEnabled,
    /// A second factor was disabled.
    TwoFactorDisabled,
    /// Backup codes were replaced.
    BackupCodesReplaced,
    /// A sign-in from a new device.
    NewDevice(NewDevice),
    /// A change of address was undone, and these credentials were removed.
    EmailChangeUndone(Vec<Added>),
    /// An API token was created.
    TokenCreated,
    /// A program was connected.
    #[cfg(feature = "authorization-server")]
    ProgramConnected,
    /// A provider was linked.
    #[cfg(feature = "oauth")]
    ProviderLinked,
    /// The members of the tenant with this name were changed.
    Members { tenant: String, change: MembersChange },
}

/// A change of a tenant's members. An account is named by its address.
#[derive(Debug, Clone)]
pub(crate) enum MembersChange {
    /// An address was invited.
    Invited { name: String, roles: Roles },
    /// A member has other roles.
    Roles { name: String, roles: Roles },
    /// A member was removed.
    Removed { name: String },
}

/// Credentials of one kind that another person may have added.
#[derive(Debug, Clone)]
pub(crate) struct Added {
    /// As in audit events: `passkeys`.
    kind: &'static str,
    /// Empty if this kind has no names.
    names: Vec<String>,
}

/// The limit of notices, and the page that they link to.
pub(crate) struct Notices {
    /// The account page; absent without a public URL.
    account: Option<String>,
    by_mailbox: Limiter,
    /// Of mails that repeat the link of a changed address, because somebody requested a link to the former address.
    reminders: MailBudget,
}

/// A mail with the link that undoes a change of address, within its limit. It goes to the former address, proven or not:
/// with the link, an owner who never proved the mailbox gets the account, without its credentials.
#[derive(Debug)]
pub(crate) struct UndoMail {
    to: EmailAddress,
}

/// Notices of one kind to one mailbox in an hour. A user who gets these is informed. The client that causes a notice is
/// not counted: a thief could use up the limit of their own network first.
const MOST: u32 = 10;
/// How long a notice may wait for a mail server.
const LIFETIME: Duration = Duration::from_hours(24);
/// The most credentials that a mail names, and the most characters of a name.
const MOST_LINES: usize = 50;
const LONGEST_NAME: usize = 100;

impl Notices {
    pub(crate) fn new(foundation: &Foundation) -> Self {
        let page = |url: &url::Url| format!("{}/account", url.as_str().trim_end_matches('/'));
        let policy = Policy::new(MOST, Duration::from_hours(1), Duration::from_hours(1));
        Self {
            account: foundation.config.public_url.as_ref().map(page),
            by_mailbox: foundation.limiter("mail_notice", &Limit { policy, trust_forwarded_for: false }),
            reminders: MailBudget::new(foundation, "email_changed"),
        }
    }

    /// The notice that an account has another address now.
    pub(crate) async fn undo(&self, former: &EmailAddress) -> Option<UndoMail> {
        let admitted = self.admits(MailKind::EmailChanged, former).await;
        admitted.then(|| UndoMail { to: former.clone() })
    }

    /// The same mail again, because `requester` requested a link to the former address.
    pub(crate) async fn undo_again(&self, former: &EmailAddress, requester: Option<IpAddr>) -> Option<UndoMail> {
        if !self.reminders.admits(former, requester).await {
            let purpose = "email_changed";
            tracing::warn!(purpose, "mail limit of this mailbox or its requester reached; mail not sent");
            return None;
        }
        Some(UndoMail { to: former.clone() })
    }

    /// The link to a part of a page of the account. A program without the screens has one page of its own.
    fn link(&self, core: &Core, notice: &Notice) -> Option<Secret> {
        let (account, (page, anchor)) = (self.account.as_ref()?, notice.place());
        let exists = core.screens.get().is_some() && core.config.account_pages.contains(&page);
        let page = if exists { format!("/{}", page.name()) } else { String::new() };
        Some(Secret::new(format!("{account}{page}#{anchor}")))
    }

    /// Counts a notice, and returns whether it may be sent.
    async fn admits(&self, kind: MailKind, to: &EmailAddress) -> bool {
        let admitted = self.by_mailbox.attempt(&format!("{kind:?} {to}")).await.is_ok();
        if !admitted {
            tracing::warn!(?kind, "limit of notices to this mailbox reached; mail not sent");
        }
        admitted
    }
}

impl Core {
    /// Mails a notice to the owner of an account, off the request's path. Another person may have registered an address
    /// that was never proven, so nothing is sent to it. Nothing is sent without a mailer or a public URL either, or if
    /// the mailbox got ten notices of this kind within an hour.
    pub(crate) async fn notify(&self, user: &User, notice: Notice) {
        if !self.post.is_configured() || !user.email_verified {
            return;
        }
        let Some(link) = self.notices.link(self, &notice) else { return };
        let kind = MailKind::from(&notice);
        if !self.notices.admits(kind, &user.email).await {
            return;
        }
        let mail = Mail::new(kind, user.email.clone(), link, LIFETIME);
        self.post.deliver(match notice {
            Notice::NewDevice(device) => mail.new_device(device),
            Notice::EmailChangeUndone(removed) => mail.credentials(lines(&removed)),
            Notice::PasskeyAdded
            | Notice::TwoFactorEnabled
            | Notice::TwoFactorDisabled
            | Notice::BackupCodesReplaced
            | Notice::TokenCreated => mail,
            #[cfg(feature = "authorization-server")]
            Notice::ProgramConnected => mail,
            #[cfg(feature = "oauth")]
            Notice::ProviderLinked => mail,
            Notice::Members { tenant, change } => mail.members(tenant, change.line()),
        });
    }
}

impl UndoMail {
    /// Sends it.
    pub(crate) fn send(self, core: &Core, link: Secret, lifetime: Duration, added: &[Added]) {
        core.post.deliver(Mail::new(MailKind::EmailChanged, self.to, link, lifetime).credentials(lines(added)));
    }
}

/// The account's credentials that an undo removes because they were added at or after `since`.
pub(crate) async fn added_since(core: &Core, user: &UserId, since: Timestamp) -> Result<Vec<Added>, BoxError> {
    let mut added = Vec::new();
    for kind in core.mint.second_factors_since(user, since).await? {
        added.push(Added { kind, names: Vec::new() });
    }
    for kind in &core.credentials {
        let names = kind.added_since(user, since).await?;
        if !names.is_empty() {
            added.push(Added { kind: kind.name(), names });
        }
    }
    Ok(added)
}

/// One line for each credential, in the language of notices.
fn lines(added: &[Added]) -> Vec<String> {
    in_language_of_notices(|| {
        let mut lines: Vec<_> = added.iter().flat_map(Added::lines).collect();
        let more = lines.len().saturating_sub(MOST_LINES);
        if more > 0 {
            lines.truncate(MOST_LINES);
            lines.push(locale::text("credential.more", &[("count", &more.to_string())]));
        }
        lines
    })
}

fn in_language_of_notices<T>(write: impl FnOnce() -> T) -> T {
    Locale::current().presentation().locale(None).within(write)
}

/// At most [`LONGEST_NAME`] characters of it.
fn shortened(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

impl MembersChange {
    /// One line, in the language of notices.
    fn line(&self) -> String {
        let text = |key, name: &str, roles: Option<&Roles>| {
            let roles = roles.into_iter().flat_map(Roles::iter).collect::<Vec<_>>().join(", ");
            let (name, roles) = (shortened(name), shortened(&roles));
            in_language_of_notices(|| locale::text(key, &[("name", &name), ("roles", &roles)]))
        };
        match self {
            Self::Invited { name, roles } => text("member.invited", name, Some(roles)),
            Self::Roles { name, roles } => text("member.changed", name, Some(roles)),
            Self::Removed { name } => text("member.removed", name, None),
        }
    }
}

impl Added {
    fn lines(&self) -> Vec<String> {
        let known = match self.kind {
            "passkeys" => Some("credential.passkey"),
            "api_tokens" => Some("credential.api_token"),
            "provider_links" => Some("credential.provider"),
            "connected_programs" => Some("credential.program"),
            "second_factor" => Some("credential.second_factor"),
            "backup_codes" => Some("credential.backup_codes"),
            "sent_invitations" => Some("credential.invitation"),
            // Of a host's own plugin.
            _ => None,
        };
        let line = |name: &str| match known {
            Some(key) => locale::text(key, &[("name", name)]),
            None => format!("{}: {name}", self.kind),
        };
        if self.names.is_empty() {
            return vec![line("")];
        }
        self.names.iter().map(|name| line(&shortened(name))).collect()
    }
}

impl Notice {
    /// The page of the account on which the action is undone, and the part of it.
    fn place(&self) -> (AccountPage, &'static str) {
        match self {
            Self::PasskeyAdded => (AccountPage::SignIn, "passkeys"),
            Self::TwoFactorEnabled | Self::TwoFactorDisabled | Self::BackupCodesReplaced => {
                (AccountPage::SecondFactor, "two-factor")
            }
            Self::NewDevice(_) => (AccountPage::Devices, "devices"),
            Self::EmailChangeUndone(_) => (AccountPage::SignIn, "address"),
            Self::TokenCreated => (AccountPage::Tokens, "tokens"),
            #[cfg(feature = "authorization-server")]
            Self::ProgramConnected => (AccountPage::Programs, "programs"),
            #[cfg(feature = "oauth")]
            Self::ProviderLinked => (AccountPage::SignIn, "providers"),
            Self::Members { .. } => (AccountPage::Devices, "sessions"),
        }
    }
}

impl From<&Notice> for MailKind {
    fn from(notice: &Notice) -> Self {
        match notice {
            Notice::PasskeyAdded => Self::PasskeyAdded,
            Notice::TwoFactorEnabled => Self::TwoFactorEnabled,
            Notice::TwoFactorDisabled => Self::TwoFactorDisabled,
            Notice::BackupCodesReplaced => Self::BackupCodesReplaced,
            Notice::NewDevice(_) => Self::NewDevice,
            Notice::EmailChangeUndone(_) => Self::EmailChangeUndone,
            Notice::TokenCreated => Self::TokenCreated,
            #[cfg(feature = "authorization-server")]
            Notice::ProgramConnected => Self::ProgramConnected,
            #[cfg(feature = "oauth")]
            Notice::ProviderLinked => Self::ProviderLinked,
            Notice::Members { .. } => Self::MembersChanged,
        }
    }
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices").field("account", &self.account).finish_non_exhaustive()
    }
}
