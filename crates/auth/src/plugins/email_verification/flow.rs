use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_http::Next;
use http::HeaderMap;
use jiff::Timestamp;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::mailbox::{self, Effect, Holder, Method, ProveError};
use crate::session::{AnySession, Client, Session};
use crate::single_use::links::{Drawn, Links};
use crate::single_use::{IssuedToken, SingleUseStoreError};
use crate::users::{User, UserStoreError};

/// Asking for a link, opening it, and confirming the address.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    pub(super) links: Arc<Links>,
}

/// Why nothing was verified.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifyError {
    /// The token is unknown, has another purpose, is expired, or is for a former address of the account.
    #[error("invalid or expired token")]
    InvalidToken,
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
    #[error(transparent)]
    Users(UserStoreError),
    #[error(transparent)]
    Prove(#[from] ProveError),
}

/// The result of opening a link.
pub(super) enum Opened {
    /// The address is verified.
    Verified(Verified),
    /// Nothing has changed. A POST confirms.
    Unconfirmed {
        email: EmailAddress,
        /// Whether the POST removes the account's credentials.
        claims: bool,
    },
}

/// A verified address.
pub(super) struct Verified {
    /// Whether the account was claimed: its password, sessions and tokens are gone.
    pub(super) claimed: bool,
    /// The `next` of the request for the link.
    pub(super) next: Option<Next>,
}

/// The browser that opens a link.
pub(super) struct Opener<'a> {
    pub(super) session: Option<&'a AnySession>,
    pub(super) headers: &'a HeaderMap,
}

/// A token that is not expired, and its user.
struct Found {
    token: IssuedToken,
    user: User,
    /// A moment before the user was loaded.
    at: Timestamp,
}

impl Flow {
    /// Mails a link to the caller's own address.
    pub(super) async fn send(
        &self,
        drawn: &Drawn,
        caller: &Session,
        next: Option<&Next>,
        client: &Client,
    ) -> Result<(), SingleUseStoreError> {
        let user = caller.user();
        self.links.send(drawn, &user.email, Some(&user.id), next.map(Next::as_str), client.address()).await?;
        let event = self.core.audit.event(AuditKind::EmailVerificationRequested).user(&user.id);
        self.core.audit.record(event.remote(client.address()).with("email", user.email.as_str())).await;
        Ok(())
    }

    /// Opens a link. It verifies the address if the browser has a session of the account. For all others (a mail
    /// scanner, another browser) it changes nothing.
    pub(super) async fn open(
        &self,
        token: &Secret,
        opener: &Opener<'_>,
        client: &Client,
    ) -> Result<Opened, VerifyError> {
        let found = self.find(token).await?;
        let holder = self.holder(opener, &found.user);
        if found.token.spent {
            return Ok(Opened::Verified(Verified { claimed: false, next: self.next(&found.token) }));
        }
        match holder {
            Holder::MailboxAndSession => self.redeem(found, holder, client).await.map(Opened::Verified),
            Holder::Mailbox | Holder::FormerMailbox { .. } => Ok(Opened::Unconfirmed {
                claims: mailbox::effect(found.user.email_verified, holder) == Effect::Claim,
                email: found.user.email,
            }),
        }
    }

    /// Verifies the address of a link. A token that was spent before, within its time and while its address is still the
    /// verified one, changes nothing and succeeds.
    pub(super) async fn confirm(
        &self,
        token: &Secret,
        opener: &Opener<'_>,
        client: &Client,
    ) -> Result<Verified, VerifyError> {
        let found = self.find(token).await?;
        if found.token.spent {
            return Ok(Verified { claimed: false, next: self.next(&found.token) });
        }
        let holder = self.holder(opener, &found.user);
        self.redeem(found, holder, client).await
    }

    fn holder(&self, opener: &Opener<'_>, user: &User) -> Holder {
        Holder::of(opener.session, self.core.password_marker.knows(opener.headers, user), &user.id)
    }

    async fn find(&self, token: &Secret) -> Result<Found, VerifyError> {
        let token = self.links.find_in_time(token).await?.ok_or(VerifyError::InvalidToken)?;
        let id = token.user_id.as_ref().ok_or(VerifyError::InvalidToken)?;
        let at = self.core.ambient.now();
        let user = self.core.users.store.find_by_id(id).await?;
        if user.disabled || user.email != token.email || (token.spent && !user.email_verified) {
            return Err(VerifyError::InvalidToken);
        }
        Ok(Found { token, user, at })
    }

    /// Verifies the address first and spends the token afterwards, so that the address of a spent token is always
    /// verified.
    async fn redeem(&self, found: Found, holder: Holder, client: &Client) -> Result<Verified, VerifyError> {
        let Found { token, user, at } = found;
        let method = Method::EmailVerification;
        let proven = mailbox::prove(&self.core, user, at, holder, method).await?;
        let claimed = proven.effect == Effect::Claim;
        // Of any number of concurrent redemptions one spends the token and audits, and each one that dropped something.
        if self.links.spend(&token).await? || proven.has_dropped() {
            proven.audit(&self.core, client, method).await;
        }
        Ok(Verified { claimed, next: self.next(&token) })
    }

    fn next(&self, token: &IssuedToken) -> Option<Next> {
        token.next.as_deref().and_then(|text| self.core.redirects.next(text))
    }
}

impl From<UserStoreError> for VerifyError {
    fn from(error: UserStoreError) -> Self {
        match error {
            UserStoreError::NotFound => Self::InvalidToken,
            error => Self::Users(error),
        }
    }
}
