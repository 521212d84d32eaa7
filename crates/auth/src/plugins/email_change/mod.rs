//! Changes of an account's email address, which can be undone.
//!
//! `http.rs` takes the new address from a session with a fresh proof (`fresh.rs` of this crate), and `flow.rs` mails a
//! link to it. Opening the link shows a page; its form confirms the change, and a notice with another link goes to the
//! old address. For seven days that link undoes the change: the account gets its address back, and every credential
//! that a thief may know or have added is removed. `email_changes.rs` of this crate stores the changes that can be
//! undone.
//!
//! An undo ends the change and all later ones, but not earlier ones: a thief who changes the address twice and undoes
//! the second change does not end the owner's link.
//!
//! While a change can be undone, the old address is reserved for its owner, if they had proven its mailbox: every
//! registration and every other change finds it taken. A request for a magic link or a password reset to it mails the
//! link that undoes the change instead (`Changes::remind`). An address that was never proven is not reserved, because
//! anybody can register a stranger's address. If another account has taken it meanwhile without proving its mailbox, an
//! undo takes the address from that account. So nobody can block an owner by registering their address.

mod applying;
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

/// The plugin for changes of the email address. It needs a database and a public URL.
#[derive(Debug)]
pub struct EmailChangePlugin {
    ttl: Duration,
}

impl EmailChangePlugin {
    /// A plugin whose links to the new address work for an hour.
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
        let changes = Changes::new(db, &links);
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
