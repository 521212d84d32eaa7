use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Secret, UserId};

use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::email_changes::{Change, Changes, UNDOABLE};
use crate::fresh::{Fresh, FreshError, Given};
use crate::session::{Client, Session, SessionStoreError};
use crate::single_use::links::{Drawn, Links};
use crate::single_use::{IssuedToken, SingleUseStoreError, SingleUseToken};
use crate::users::{BoxError, EmailChanger, Sessions, User, UserStoreError};

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
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    #[error("the changes cannot be read: {0}")]
    Store(#[from] gatewright_db::Error),
    #[error("credentials that were added since could not be removed: {0}")]
    Credentials(#[source] BoxError),
}

/// Changes of an account that can be undone at a time.
const MAX_CHANGES: i64 = 5;

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
                Ok(self.links.send(drawn, to, Some(&user.id), None, client.address()).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The new address that a token is for. Nothing is spent.
    pub(super) async fn look(&self, token: &Secret) -> Result<EmailAddress, ChangeError> {
        self.find(token).await.map(|(token, _)| token.email)
    }

    /// Applies the address of a token, and notifies the old address.
    pub(super) async fn confirm(&self, token: &Secret, client: &Client) -> Result<(), ChangeError> {
        let (token, user) = self.find(token).await?;
        let now = self.core.ambient.now();
        if self.changes.count(&user.id, now).await? >= MAX_CHANGES {
            return Err(ChangeError::TooOften);
        }
        if self.is_kept_for_another(&token.email, &user.id).await? {
            return Err(ChangeError::Users(UserStoreError::EmailTaken));
        }
        let had_second_factor = self.core.mint.has_second_factor(&user.id).await.map_err(ChangeError::Credentials)?;
        if !self.links.spend(&token).await? {
            return Err(ChangeError::InvalidToken);
        }
        let undo = SingleUseToken::generate(&self.core.ambient);
        let change = Change::new(undo.key(), &user, had_second_factor, now);
        // Before the change, so that it can be undone from the first moment.
        self.changes.put(&change).await?;
        if let Err(error) = self.emails.change_email(&user.id, &user.email, &token.email).await {
            self.changes.remove(&change).await?;
            return Err(error.into());
        }
        // It is gone if an earlier change was undone at the same time, with all later ones: then this one must not take
        // effect.
        if self.changes.find(undo.key(), now).await?.is_none() {
            return match self.emails.change_email(&user.id, &token.email, &user.email).await {
                Ok(()) | Err(UserStoreError::NotFound) => Err(ChangeError::InvalidToken),
                Err(error) => Err(error.into()),
            };
        }
        // Links that were mailed to the old address, or ask for another one still.
        self.core.single_use.remove(&user.id, &user.email, None).await?;
        let event = self.core.audit.event(AuditKind::EmailChanged).user(&user.id).remote(client.address());
        self.core.audit.record(event.with("email", token.email.as_str())).await;
        let lifetime = Duration::try_from(UNDOABLE).unwrap_or_default();
        self.changes.mail(&self.core, &change, &undo, lifetime);
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
        if !self.changes.claim(&change, self.core.ambient.now()).await? {
            return Err(ChangeError::InvalidToken);
        }
        if let Err(error) = self.give_back(&change, &earlier).await {
            // All completed steps can be repeated.
            self.changes.release(&change).await?;
            return Err(error);
        }
        let event = self.core.audit.event(AuditKind::EmailChangeUndone).user(&change.user).remote(client.address());
        self.core.audit.record(event.with("email", change.old.as_str())).await;
        Ok(())
    }

    async fn give_back(&self, change: &Change, earlier: &[Change]) -> Result<(), ChangeError> {
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
        if let Some(setter) = &core.users.password_setter {
            setter.drop_password(id, core.ambient.now()).await?;
        }
        if let Some(sign_out) = &core.users.sign_out {
            sign_out.refuse_until(id, core.ambient.now(), Sessions::End).await?;
        }
        core.sessions.remove_all(id, None).await?;
        for kind in &core.credentials {
            kind.drop_since(id, change.changed_at).await.map_err(ChangeError::Credentials)?;
        }
        if !change.had_second_factor {
            core.mint.remove_second_factors(id).await.map_err(ChangeError::Credentials)?;
        }
        if let Some(devices) = &core.devices {
            devices.forget_all(id, None).await?;
        }
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
        Ok(())
    }

    async fn restore(&self, change: &Change) -> Result<(), ChangeError> {
        match self.emails.restore_email(&change.user, &change.old).await {
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

impl From<UserStoreError> for ChangeError {
    fn from(error: UserStoreError) -> Self {
        match error {
            // The address is another one by now.
            UserStoreError::NotFound => Self::InvalidToken,
            error => Self::Users(error),
        }
    }
}
