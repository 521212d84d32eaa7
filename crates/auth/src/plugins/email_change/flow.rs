use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Secret, UserId};

use super::applying;
use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::email_changes::{Change, Changes, UNDOABLE};
use crate::fresh::{Fresh, FreshError, Given};
use crate::mail::{Notice, notices};
use crate::mailbox::{self, Holder, Method, ProveError};
use crate::session::{AnySession, Client, Session};
use crate::single_use::codes::OfAccount;
use crate::single_use::links::{Drawn, Links};
use crate::single_use::{IssuedToken, SingleUseStoreError, SingleUseToken};
use crate::users::{BoxError, EmailChanger, User, UserStoreError};

/// Asking for another address, making it effective, and undoing that.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    pub(crate) links: Arc<Links>,
    fresh: Fresh,
    emails: Arc<dyn EmailChanger>,
    changes: Changes,
}

/// Why an address was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// It is the account's current address.
    #[error("is the address of this account already")]
    SameAddress,
    /// The caller has the link, but neither a session of the account nor the code on the page that requested the change.
    #[error(
        "open this link in a browser that is signed in to {account}, or type the code that the page shows on which the \
         change was requested"
    )]
    Unconfirmed {
        /// The account's present address.
        account: EmailAddress,
    },
    /// The token is unknown, used or expired, or from before a logout everywhere or a new password.
    #[error("invalid or expired token")]
    InvalidToken,
    /// Another account has the address that an undoing would give back, and has proven it.
    #[error(
        "another account has this address by now: sign in to it with a link by mail, delete it or change its address, \
         and open this link again"
    )]
    AddressInUse,
    /// The account has the most changes that can be undone.
    #[error("the address of this account was changed too often; try again in a few days")]
    TooOften,
    #[error(transparent)]
    Fresh(#[from] FreshError),
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error(transparent)]
    Users(UserStoreError),
    #[error("the changes cannot be read: {0}")]
    Store(#[from] gatewright_db::Error),
    #[error(transparent)]
    Prove(ProveError),
    #[error("credentials that were added since could not be listed: {0}")]
    Credentials(#[source] BoxError),
}

/// A change of address that a link confirms.
pub(super) struct Asked {
    /// The account's present address.
    pub(super) account: EmailAddress,
    /// The new one.
    pub(super) to: EmailAddress,
    /// Whether the browser with the link has a session of the account.
    pub(super) is_signed_in: bool,
}

/// A returned link, and the two things one of which it demands.
pub(super) struct Confirmation<'a> {
    pub(super) returned: OfAccount,
    pub(super) session: Option<&'a AnySession>,
}

/// A returned link that the account's holder has confirmed.
pub(super) struct Admitted {
    token: IssuedToken,
    user: User,
}

/// How often an undo is tried while others move the address.
const ATTEMPTS: usize = 5;
/// Changes of an account that can be undone at a time.
pub(super) const MAX_CHANGES: i64 = 5;

impl Flow {
    pub(super) fn new(core: Arc<Core>, links: Arc<Links>, emails: Arc<dyn EmailChanger>, changes: Changes) -> Self {
        Self { fresh: Fresh::new(core.clone()), core, links, emails, changes }
    }

    /// Whether a mailer is configured.
    pub(crate) fn can_be_sent(&self) -> bool {
        self.links.can_be_sent()
    }

    /// Mails a link to the new address. If another account has the address, no mail is sent, and the caller is not
    /// told.
    pub(crate) async fn request(
        &self,
        drawn: &Drawn,
        session: &Session,
        to: &EmailAddress,
        given: &Given,
        client: &Client,
    ) -> Result<(), ChangeError> {
        let user = session.user();
        self.fresh.require(session, given, client, "a change of email").await?;
        if *to == user.email {
            return Err(ChangeError::SameAddress);
        }
        if self.changes.count(&user.id, self.core.ambient.now()).await? >= MAX_CHANGES {
            return Err(ChangeError::TooOften);
        }
        let event = self.core.audit.event(AuditKind::EmailChangeRequested).user(&user.id).remote(client.address());
        self.core.audit.record(event.with("email", to.as_str())).await;
        match self.core.users.store.find_by_email(to).await {
            Ok(_) => Ok(()),
            Err(UserStoreError::NotFound) => {
                if self.is_kept_for_another(to, &user.id).await? {
                    return Ok(());
                }
                Ok(self.links.send_for(drawn, to, session, client.address()).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The change that a token is for. Nothing is spent.
    pub(super) async fn look(&self, token: &Secret, session: Option<&AnySession>) -> Result<Asked, ChangeError> {
        let (token, user) = self.find(token).await?;
        Ok(Asked { is_signed_in: is_of(session, &user), account: user.email, to: token.email })
    }

    /// Checks that a link is confirmed by the account's holder, not only by the reader of the new mailbox: anybody can
    /// request a change to a stranger's address, and a mail scanner opens links and presses buttons.
    pub(super) async fn admit(&self, confirmation: &Confirmation<'_>) -> Result<Admitted, ChangeError> {
        let (token, user) = self.find(&confirmation.returned.token).await?;
        if confirmation.returned.knows_shown_code || is_of(confirmation.session, &user) {
            return Ok(Admitted { token, user });
        }
        Err(ChangeError::Unconfirmed { account: user.email })
    }

    /// Applies the address of a token, and notifies the old address.
    pub(super) async fn confirm(&self, admitted: Admitted, client: &Client) -> Result<(), ChangeError> {
        let Admitted { token, user } = admitted;
        let now = self.core.ambient.now();
        if self.changes.count(&user.id, now).await? >= MAX_CHANGES {
            return Err(ChangeError::TooOften);
        }
        if self.is_kept_for_another(&token.email, &user.id).await? {
            return Err(ChangeError::Users(UserStoreError::EmailTaken));
        }
        let event = self.core.audit.event(AuditKind::EmailChanged).user(&user.id).remote(client.address());
        let event = self.core.audit.begin(event.with("email", token.email.as_str())).await;
        let event = event.map_err(UserStoreError::from)?;
        if !self.links.spend(&token).await? {
            event.withdraw().await;
            return Err(ChangeError::InvalidToken);
        }
        let undo = SingleUseToken::generate(&self.core.ambient);
        let change = Change::new(undo.key(), &user, now);
        if let Err(error) = applying::apply(&self.core, &*self.emails, &self.changes, (&token, &user, &change)).await {
            event.withdraw().await;
            return Err(error);
        }
        // Links that were mailed to the old address, or ask for another one still.
        self.core.single_use.remove(&user.id, &user.email, None).await?;
        event.done().await;
        let lifetime = Duration::try_from(UNDOABLE).unwrap_or_default();
        if let Some(mail) = self.core.notices.undo(&change.old).await {
            let added = notices::added_since(&self.core, &user.id, change.suspect_since()).await;
            // The change is effective, so the notice is sent in any case.
            let added = added.unwrap_or_else(|error| {
                tracing::error!(%error, "the notice of a changed address does not name the new credentials");
                Vec::new()
            });
            mail.send(&self.core, self.changes.link(&undo), lifetime, &added);
        }
        Ok(())
    }

    /// The address that an undo restores. The token is not used up.
    pub(super) async fn look_back(&self, token: &Secret) -> Result<EmailAddress, ChangeError> {
        self.find_change(token).await.map(|change| change.old)
    }

    /// Restores the account's old address, and removes everything that a thief may know or have added.
    pub(super) async fn undo(&self, token: &Secret, client: &Client) -> Result<(), ChangeError> {
        let change = self.find_change(token).await?;
        let earlier = self.changes.before(&change, self.core.ambient.now()).await?;
        let added = notices::added_since(&self.core, &change.user, change.suspect_since()).await;
        let added = added.map_err(ChangeError::Credentials)?;
        if !self.changes.claim(&change, self.core.ambient.now()).await? {
            return Err(ChangeError::InvalidToken);
        }
        let mut given_back = self.give_back(&change, &earlier).await;
        // The undo of a later change may move the address for a moment, so that it is not this account's when it is proven.
        for _ in 1..ATTEMPTS {
            if !matches!(given_back, Err(ChangeError::InvalidToken)) {
                break;
            }
            given_back = self.give_back(&change, &earlier).await;
        }
        let (owner, dropped) = match given_back {
            Ok(given_back) => given_back,
            Err(error) => {
                // All completed steps can be repeated.
                self.changes.release(&change).await?;
                return Err(error);
            }
        };
        let event = self.core.audit.event(AuditKind::EmailChangeUndone).user(&change.user).remote(client.address());
        self.core.audit.record(event.with("email", change.old.as_str()).with("dropped", dropped)).await;
        self.core.notify(&owner, Notice::EmailChangeUndone(added)).await;
        Ok(())
    }

    /// Returns the account afterwards, and what was removed.
    async fn give_back(&self, change: &Change, earlier: &[Change]) -> Result<(User, Vec<&'static str>), ChangeError> {
        let (core, id) = (&self.core, &change.user);
        let present = core.users.store.find_by_id(id).await?.email;
        self.restore(change).await?;
        // If an earlier change is undone at the same time, its address wins, whichever of the two is faster.
        let left = self.changes.before(change, core.ambient.now()).await?;
        let stands = |one: &&Change| left.iter().any(|other| other.key == one.key && !other.is_claimed);
        let undone = earlier.iter().find(|one| !stands(one));
        if let Some(undone) = undone {
            self.restore(undone).await?;
        }
        let method = Method::EmailChangeUndone;
        let user = core.users.store.find_by_id(id).await?;
        let dropped = mailbox::revoke(core, &user, change.suspect_since(), method).await?;
        for email in [&present, &change.old] {
            core.single_use.remove(id, email, None).await?;
        }
        // Later ones would give the account back to its holder after this change.
        self.changes.forget_from(change).await?;
        // A concurrent confirmation either finds its change gone, or has applied it before this.
        let kept = undone.unwrap_or(change);
        if core.users.store.find_by_id(id).await?.email != kept.old {
            self.restore(kept).await?;
        }
        let (at, user) = (core.ambient.now(), core.users.store.find_by_id(id).await?);
        if undone.is_some() || user.email != change.old {
            // This link proves no other mailbox. The undo of the earlier change proves its own.
            return Ok((user, dropped));
        }
        // Once more what a request added meanwhile, and then the proof.
        let proven = mailbox::prove(core, user, at, change.undoer(), method).await?;
        Ok((proven.user, dropped))
    }

    async fn restore(&self, change: &Change) -> Result<(), ChangeError> {
        match self.emails.restore_email(&change.user, None, &change.old).await {
            Ok(None) => Ok(()),
            Ok(Some(displaced)) => {
                tracing::warn!(user = %change.user, %displaced, "an unproven account lost the address that was given back");
                Ok(())
            }
            Err(UserStoreError::EmailTaken) => Err(ChangeError::AddressInUse),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether this address is reserved for another account.
    async fn is_kept_for_another(&self, email: &EmailAddress, user: &UserId) -> Result<bool, ChangeError> {
        let (users, now) = (&*self.core.users.store, self.core.ambient.now());
        let keeper = self.changes.reserved_for(users, email, now).await.map_err(ChangeError::Users)?;
        Ok(keeper.is_some_and(|keeper| keeper != *user))
    }

    async fn find(&self, token: &Secret) -> Result<(IssuedToken, User), ChangeError> {
        let token = self.links.find_live(token).await?.ok_or(ChangeError::InvalidToken)?;
        let id = token.user_id.as_ref().ok_or(ChangeError::InvalidToken)?;
        let user = match self.core.users.store.find_by_id(id).await {
            Ok(user) => user,
            Err(UserStoreError::NotFound) => return Err(ChangeError::InvalidToken),
            Err(error) => return Err(error.into()),
        };
        // A request from before a logout no longer counts.
        if user.disabled || !user.accepts_session_from(token.issued_at) {
            return Err(ChangeError::InvalidToken);
        }
        Ok((token, user))
    }

    async fn find_change(&self, token: &Secret) -> Result<Change, ChangeError> {
        let token = SingleUseToken::parse(token.expose()).ok_or(ChangeError::InvalidToken)?;
        let change = self.changes.find(token.key(), self.core.ambient.now()).await?;
        change.ok_or(ChangeError::InvalidToken)
    }
}

/// Whether a browser is signed in to this account. A pending second factor does not count.
fn is_of(session: Option<&AnySession>, user: &User) -> bool {
    Holder::of(session, false, &user.id) == Holder::MailboxAndSession
}

impl From<ProveError> for ChangeError {
    fn from(error: ProveError) -> Self {
        match error {
            ProveError::Gone => Self::InvalidToken,
            error => Self::Prove(error),
        }
    }
}

impl From<UserStoreError> for ChangeError {
    fn from(error: UserStoreError) -> Self {
        match error {
            // The address is another one by now.
            UserStoreError::NotFound => Self::InvalidToken,
            error => Self::Users(error),
        }
    }
}
