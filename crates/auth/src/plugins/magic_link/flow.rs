use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_http::Next;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::devices::Browser;
use crate::email::EmailAddress;
use crate::mailbox::{self, Holder, Method, ProveError};
use crate::password::HashError;
use crate::plugins::passwordless::{self, CreateError};
use crate::plugins::registration::{self, RegistrationError};
use crate::plugins::sign_in::{SignedIn, admit, refused_disabled};
use crate::session::{Client, MintError, Proof};
use crate::single_use::links::{Drawn, Links};
use crate::single_use::{IssuedToken, SingleUseStoreError};
use crate::users::{User, UserStoreError};

/// Asking for a link, looking at it, redeeming it.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    pub(super) links: Links,
}

/// Why the sign-in failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedeemError {
    /// The token is unknown, has another purpose, or is used or expired.
    #[error("invalid or expired token")]
    InvalidToken,
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Prove(#[from] ProveError),
    #[error(transparent)]
    Mint(#[from] MintError),
    #[error(transparent)]
    Policy(#[from] RegistrationError),
}

/// The result of redeeming a link.
pub(super) struct Redeemed {
    pub(super) signed_in: SignedIn,
    /// The `next` of the request for the link.
    pub(super) next: Option<Next>,
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, links: Links) -> Self {
        Self { core, links }
    }

    /// Mails a link, without checking whether there is an account. If the owner of the address can get it back, the link for
    /// that is mailed instead.
    pub(super) async fn send(
        &self,
        drawn: &Drawn,
        email: &EmailAddress,
        next: Option<&Next>,
        client: &Client,
    ) -> Result<(), RedeemError> {
        let reminded = match &self.core.email_changes {
            Some(changes) => changes.remind(&self.core, email, client.address()).await?,
            None => false,
        };
        if !reminded {
            self.links.send(drawn, email, None, next.map(Next::as_str), client.address()).await?;
        }
        let event = self.core.audit.event(AuditKind::MagicLinkRequested).remote(client.address());
        self.core.audit.record(event.with("email", email.as_str())).await;
        Ok(())
    }

    /// The token behind a link, for the confirmation page. Nothing is spent.
    pub(super) async fn peek(&self, token: &Secret) -> Result<Option<IssuedToken>, SingleUseStoreError> {
        self.links.find_live(token).await
    }

    /// Spends the token and signs its mailbox's owner in.
    pub(super) async fn redeem(
        &self,
        token: &Secret,
        client: Client,
        browser: &Browser,
    ) -> Result<Redeemed, RedeemError> {
        let token = self.links.find_live(token).await?.ok_or(RedeemError::InvalidToken)?;
        let at = self.core.ambient.now();
        // Checked before the token is used up, so that an unavailable store does not use up a link.
        let known = self.find(&token.email).await?;
        if !self.links.spend(&token).await? {
            return Err(RedeemError::InvalidToken);
        }
        let proof = match known {
            Some(user) => self.prove(user, at, &client).await?,
            None => match self.create(&token.email, &client).await {
                Ok(user) => Proof::new(user, at),
                // Another request created the account first, perhaps with a password: the account still belongs to this
                // mailbox.
                Err(RedeemError::Users(UserStoreError::EmailTaken)) => {
                    let user = self.find(&token.email).await?.ok_or(RedeemError::InvalidToken)?;
                    self.prove(user, at, &client).await?
                }
                Err(error) => return Err(error),
            },
        };
        let event = self.core.audit.event(AuditKind::MagicLinkConsumed).user(&proof.user().id);
        self.core.audit.record(event.remote(client.address())).await;
        let signed_in = admit(&self.core, proof, client, browser, "magic_link").await?;
        Ok(Redeemed { signed_in, next: token.next.as_deref().and_then(|text| self.core.redirects.next(text)) })
    }

    async fn find(&self, email: &EmailAddress) -> Result<Option<User>, UserStoreError> {
        match self.core.users.store.find_by_email(email).await {
            Ok(found) => Ok(Some(found.user)),
            Err(UserStoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The owner of an existing account. If its mailbox was never proven, the account is claimed first.
    async fn prove(&self, user: User, at: jiff::Timestamp, client: &Client) -> Result<Proof, RedeemError> {
        if user.disabled {
            refused_disabled(&self.core, &user.id, client.address(), "magic_link").await;
        }
        let proven = mailbox::prove(&self.core, user, at, Holder::Mailbox, Method::MagicLink).await?;
        proven.audit_effect(&self.core, client, Method::MagicLink).await;
        Ok(Proof::new(proven.user, proven.at))
    }

    async fn create(&self, email: &EmailAddress, client: &Client) -> Result<User, RedeemError> {
        registration::admit_passwordless(&self.core, email, true).await?;
        if registration::is_reserved(&self.core, email).await? {
            return Err(RedeemError::InvalidToken);
        }
        let user = passwordless::create(&self.core, passwordless::new_user(&self.core, email, true)).await?;
        let event = self.core.audit.event(AuditKind::RegisterSucceeded).user(&user.id).remote(client.address());
        let event = event.with("email", user.email.as_str()).with("method", "magic_link");
        self.core.audit.record(event).await;
        Ok(user)
    }
}

impl From<CreateError> for RedeemError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Users(error) => error.into(),
            CreateError::Hash(error) => error.into(),
        }
    }
}
