use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::email_changes::{Change, Changes, UNDOABLE};
use crate::fresh::{Fresh, FreshError, Given};
use crate::mail::{Mail, MailKind};
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
    /// It is the address that the account has.
    #[error("is the address of this account already")]
    SameAddress,
    /// No such token, or one that is spent, expired, or from before a logout everywhere or a new password.
    #[error("invalid or expired token")]
    InvalidToken,
    /// The address was changed too often within the time in which that can be undone.
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
const MOST_CHANGES: i64 = 5;

impl Flow {
    pub(super) fn new(core: Arc<Core>, links: Arc<Links>, emails: Arc<dyn EmailChanger>, changes: Changes) -> Self {
        Self { fresh: Fresh::new(core.clone()), core, links, emails, changes }
    }

    /// Whether mails go anywhere.
    pub(crate) fn can_be_sent(&self) -> bool {
        self.links.can_be_sent()
    }

    /// Mails a link to the new address. One that somebody has gets none, and the caller is not told.
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
        if self.changes.count(&user.id, self.core.ambient.now()).await? >= MOST_CHANGES {
            return Err(ChangeError::TooOften);
        }
        let event = self.core.audit.event(AuditKind::EmailChangeRequested).user(&user.id).remote(client.address());
        self.core.audit.record(event.with("email", to.as_str())).await;
        match self.core.users.store.find_by_email(to).await {
            Ok(_) => Ok(()),
            Err(UserStoreError::NotFound) => {
                Ok(self.links.send(drawn, to, Some(&user.id), None, client.address()).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The new address that a token is for. Nothing is spent.
    pub(super) async fn look(&self, token: &Secret) -> Result<EmailAddress, ChangeError> {
        self.find(token).await.map(|(token, _)| token.email)
    }

    /// Makes the address of a token effective, and tells the one of before.
    pub(super) async fn confirm(&self, token: &Secret, client: &Client) -> Result<(), ChangeError> {
        let (token, user) = self.find(token).await?;
        let now = self.core.ambient.now();
        if self.changes.count(&user.id, now).await? >= MOST_CHANGES {
            return Err(ChangeError::TooOften);
        }
        let had_second_factor = self.core.mint.has_second_factor(&user.id).await.map_err(ChangeError::Credentials)?;
        if !self.links.spend(&token).await? {
            return Err(ChangeError::InvalidToken);
        }
        let undo = SingleUseToken::generate(&self.core.ambient);
        let change = Change {
            key: undo.key(),
            user: user.id.clone(),
            old: user.email.clone(),
            old_was_proven: user.email_verified,
            had_second_factor,
            changed_at: now,
        };
        // Before the change: there is no moment in which it cannot be undone.
        self.changes.put(&change).await?;
        if let Err(error) = self.emails.change_email(&user.id, &user.email, &token.email).await {
            self.changes.take(change.key).await?;
            return Err(error.into());
        }
        // Links that were mailed to the old address, or ask for another one still.
        self.core.single_use.remove(&user.id, &user.email, None).await?;
        let event = self.core.audit.event(AuditKind::EmailChanged).user(&user.id).remote(client.address());
        self.core.audit.record(event.with("email", token.email.as_str())).await;
        self.tell(&change, &undo);
        Ok(())
    }

    /// The address that an undoing gives back. Nothing is spent.
    pub(super) async fn look_back(&self, token: &Secret) -> Result<EmailAddress, ChangeError> {
        self.find_change(token).await.map(|change| change.old)
    }

    /// Gives the account the address of before back, and removes what a thief may know or have added.
    pub(super) async fn undo(&self, token: &Secret, client: &Client) -> Result<(), ChangeError> {
        let change = self.find_change(token).await?;
        if !self.changes.take(change.key).await? {
            return Err(ChangeError::InvalidToken);
        }
        if let Err(error) = self.give_back(&change).await {
            // Whatever was done may be done again.
            self.changes.put(&change).await?;
            return Err(error);
        }
        let event = self.core.audit.event(AuditKind::EmailChangeUndone).user(&change.user).remote(client.address());
        self.core.audit.record(event.with("email", change.old.as_str())).await;
        Ok(())
    }

    async fn give_back(&self, change: &Change) -> Result<(), ChangeError> {
        let (core, id) = (&self.core, &change.user);
        let present = core.users.store.find_by_id(id).await?.email;
        if let Some(displaced) = self.emails.restore_email(id, &change.old).await? {
            tracing::warn!(user = %id, %displaced, "an account lost its unverified address, which an undone email change gave back");
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
        // Not those of the thief either, which would give the account to them once more.
        self.changes.forget(id).await?;
        Ok(())
    }

    async fn find(&self, token: &Secret) -> Result<(IssuedToken, User), ChangeError> {
        let token = self.links.find_live(token).await?.ok_or(ChangeError::InvalidToken)?;
        let id = token.user_id.as_ref().ok_or(ChangeError::InvalidToken)?;
        let user = match self.core.users.store.find_by_id(id).await {
            Ok(user) => user,
            Err(UserStoreError::NotFound) => return Err(ChangeError::InvalidToken),
            Err(error) => return Err(error.into()),
        };
        // A request by whoever was signed out since is theirs no more.
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

    /// Mails the way back to the old address.
    fn tell(&self, change: &Change, undo: &SingleUseToken) {
        let Some(mailer) = self.core.mailer.clone() else {
            tracing::warn!("no mailer configured; mail not sent; set [email]");
            return;
        };
        let link = self.links.beside("change-email/confirm", "change-email/undo", undo);
        let lifetime = Duration::try_from(UNDOABLE).unwrap_or_default();
        let mail = Mail::new(MailKind::EmailChanged, change.old.clone(), link, lifetime);
        self.core.background.run("a notice of a changed address", async move {
            if let Err(error) = mailer.send(mail).await {
                tracing::error!(%error, "a notice of a changed address was not sent");
            }
        });
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
