//! Invitations: a mailed link with which an address can register, with the roles and the membership of the invitation.
//!
//! Trusted code calls [`Accounts::invite`](crate::Accounts::invite), or an owner or admin of a tenant invites somebody
//! to it (`plugins/tenants`). `issuing.rs` stores the invitation (`auth/invitations.rs`) and mails its link to
//! `/register?invite=…`. Registering with the token proves the mailbox, and the account begins with the roles and the
//! membership of the invitation. An existing account gets them only when its owner has signed in and accepted
//! (`http.rs`): the token alone changes nothing.
//!
//! # Invariants
//!
//! An invitation is bound to its address, and works once within seven days. Of concurrent requests, one accepts it.
//! Roles and membership are given if and only if it is used up (`taking.rs`). A later one for the same address and
//! tenant replaces it. An invitation of a tenant's member gives only what this member may give at the time of
//! acceptance.

mod error;
mod flow;
mod http;
mod issuing;
mod page;
mod sent;
mod taking;

pub use crate::invitations::Invitation;
use crate::invitations::Invitations;
use crate::plugins::{Plugin, Prepared};
use crate::{AuthInitError, Foundation};

pub(crate) use error::{AcceptError, claimed};
pub(crate) use flow::Flow;
pub(crate) use http::routes;
pub(crate) use issuing::{ByMember, issue, notify_of_members};
pub use issuing::{IssuedInvitation, NewInvitation};
pub(crate) use page::{Opened, open};
pub(crate) use sent::SentInvitations;

/// The invitations plugin. It needs a database and a public URL. With the tenants plugin, an invitation may name a
/// tenant, and the invited account becomes its member.
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

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        Ok(Prepared::new().invitations(prepare(foundation)?))
    }
}

/// The invitations, for all plugins that invite.
pub(crate) fn prepare(foundation: &Foundation) -> Result<Invitations, AuthInitError> {
    let wrong = |problem: &str| AuthInitError::Setting { setting: "invitations", problem: problem.to_owned() };
    let db = foundation.db.clone().ok_or_else(|| wrong("they need a database"))?;
    let public_url = foundation.config.public_url.as_ref();
    let public_url = public_url.ok_or_else(|| wrong("links in mails are built from the public URL; set it"))?;
    Ok(Invitations::new(db, public_url))
}
