//! Invitations: a mailed link by which an address may have an account, with roles and a membership that were chosen for it.
//!
//! The journey: trusted code calls [`Accounts::invite`](crate::Accounts::invite), which keeps the invitation (`rows.rs`)
//! and mails its link to `/register?invite=…`. Whoever registers with the token proves the mailbox, and the account begins
//! with the roles and the membership of the invitation. An account that is there already gains them only once it has
//! signed in and accepted (`http.rs`): the token alone changes nothing about it.
//!
//! An invitation is bound to its address, works once and for seven days. Of concurrent takers one gets it. A later one for
//! the same address and tenant replaces it.

mod flow;
mod http;
mod issuing;
mod rows;

use gatewright_db::Step;

use crate::plugins::{Plugin, Prepared};
use crate::{AuthInitError, Foundation};

pub(crate) use flow::{AcceptError, Flow};
pub use issuing::{IssuedInvitation, NewInvitation};
pub use rows::Invitation;
pub(crate) use rows::Invitations;

/// The invitations plugin. It needs a database and a public URL. With the tenants plugin, invitations may name a tenant, whose member
/// the invited account becomes.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct InvitationsPlugin;

impl InvitationsPlugin {
    /// The plugin.
    pub fn new() -> Self {
        Self
    }
}

impl Plugin for InvitationsPlugin {
    fn name(&self) -> &'static str {
        "invitations"
    }

    fn migrations(&self) -> &'static [Step] {
        rows::MIGRATIONS
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let wrong = |problem: &str| AuthInitError::Setting { setting: "invitations", problem: problem.to_owned() };
        let db = foundation.db.clone().ok_or_else(|| wrong("they need a database"))?;
        let public_url = foundation.config.public_url.clone();
        let public_url = public_url.ok_or_else(|| wrong("links in mails are built from the public URL; set it"))?;
        let invitations = Invitations::new(db, &public_url);
        Ok(Prepared::new().invitations(invitations).routes(http::routes))
    }
}
