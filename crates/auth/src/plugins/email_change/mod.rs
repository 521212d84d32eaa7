//! Another address for an account, and the way back.
//!
//! The journey: `http.rs` takes the new address from a session with a fresh proof (`fresh.rs` of this crate), and `flow.rs`
//! mails it a link. Opening the link shows a page; its form makes the address effective, and a notice with another link
//! goes to the old one. For seven days whoever opens that one undoes the change: the account gets its address back, and
//! loses what a thief may know or have added. `email_changes.rs` of this crate keeps what can be undone.
//!
//! An undoing ends the change and those after it, and leaves those before it: a thief who changes the address twice and
//! undoes the second change does not end what the owner can undo.
//!
//! An address that was given up is kept for its owner while they can get it back, if they had proven its mailbox. Nobody else
//! can take it until then: every way to an account, and another account's change, finds it taken. Who asks there for a link
//! to sign in, or to a new password, gets the link that undoes the change instead (`Changes::remind`). One that was never
//! proven is free, since anybody can register a stranger's address. If somebody else has taken such a one meanwhile without
//! proving its mailbox, the undoing takes it from them: nobody can keep an owner from their account by registering their
//! address.

mod flow;
mod http;
mod section;

use std::sync::Arc;
use std::time::Duration;

use gatewright_db::Step;

use crate::email_changes::{self, Changes};
use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};
use crate::single_use::Purpose;
use crate::single_use::links::Links;

pub(crate) use flow::{ChangeError, Flow};
use section::EmailSection;

/// The plugin for changing one's address. It needs a database and a public URL.
#[derive(Debug)]
pub struct EmailChangePlugin {
    ttl: Duration,
}

impl EmailChangePlugin {
    /// Links to the new address that work for an hour.
    pub fn new() -> Self {
        Self { ttl: Duration::from_hours(1) }
    }

    /// How long a link to the new address works.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl }
    }
}

impl Default for EmailChangePlugin {
    fn default() -> Self {
        Self::new()
    }
}

impl Plugin for EmailChangePlugin {
    fn name(&self) -> &'static str {
        "email_change"
    }

    fn migrations(&self) -> &'static [Step] {
        email_changes::MIGRATIONS
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let lacks = |capability, remedy| AuthInitError::MissingCapability {
            plugin: "email_change",
            store: "user",
            capability,
            remedy,
        };
        let Some(emails) = foundation.users.email_changer.clone() else {
            return Err(lacks("an email changer", "without it an address could not be changed"));
        };
        if foundation.users.password_setter.is_none() {
            return Err(lacks("a password setter", "undoing a change drops the password, which a thief knows"));
        }
        let Some(db) = foundation.db.clone() else {
            let problem = "it needs a database".to_owned();
            return Err(AuthInitError::Setting { setting: "email_change", problem });
        };
        let base = &foundation.config.base_path;
        let links =
            Arc::new(Links::new(foundation, Purpose::EmailChange, &format!("{base}/change-email/confirm"), self.ttl)?);
        let changes = Changes::new(db, foundation, &links);
        let of_section = (links.clone(), emails.clone(), changes.clone());
        Ok(Prepared::new()
            .email_changes(changes.clone())
            .account_section(move |core| {
                let (links, emails, changes) = of_section;
                Arc::new(EmailSection::new(Arc::new(Flow::new(core.clone(), links, emails, changes))))
            })
            .routes(move |core| http::routes(Arc::new(Flow::new(core.clone(), links, emails, changes)))))
    }
}
