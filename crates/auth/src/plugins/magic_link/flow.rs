use std::sync::Arc;

use gatewright_base::{Secret, UserId};
use gatewright_http::Next;

use crate::core::Core;
use crate::devices::Browser;
use crate::email::EmailAddress;
use crate::guests;
use crate::plugins::mailed_sign_in::{self, Mailed, Owner, RedeemError};
use crate::plugins::sign_in::SignedIn;
use crate::session::Client;
use crate::single_use::links::{Drawn, Links};
use crate::single_use::{IssuedToken, SingleUseStoreError};

/// Asking for a link, looking at it, redeeming it.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    pub(super) links: Links,
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
    /// that is mailed instead. `guest` is who asks: the link turns no other guest into a full account.
    pub(super) async fn send(
        &self,
        drawn: &Drawn,
        email: &EmailAddress,
        guest: Option<&UserId>,
        next: Option<&Next>,
        client: &Client,
    ) -> Result<(), RedeemError> {
        if !mailed_sign_in::remind(&self.core, email, client).await? {
            self.links.send(drawn, email, guest, next.map(Next::as_str), client.address()).await?;
        }
        Mailed::Link.audit_request(&self.core, email, client).await;
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
        let owner = Owner::of(&self.core, &token.email).await?;
        if !self.links.spend(&token).await? {
            return Err(RedeemError::InvalidToken);
        }
        // A link that somebody else requested does not hand this browser's guest to them.
        let guest = guests::of_browser(&self.core, browser).await?;
        let guest = guest.filter(|guest| token.user_id.as_ref() == Some(&guest.id));
        let signed_in = Mailed::Link.sign_in(&self.core, owner, guest.as_ref(), client, browser).await?;
        Ok(Redeemed { signed_in, next: token.next.as_deref().and_then(|text| self.core.redirects.next(text)) })
    }
}
