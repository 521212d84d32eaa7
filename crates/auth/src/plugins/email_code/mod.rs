//! Codes by mail: sign-in by six digits in a mail, for apps that cannot open links.
//!
//! `send` mails a code whether there is an account or not, and returns a `request`. `verify` takes both and signs the
//! owner of the mailbox in, exactly as a magic link does (`mailed_sign_in.rs`).
//!
//! Six digits are soon guessed, so `codes.rs` makes a code useless without its request, and three limits hold. A mail has
//! five attempts. A client address has the failures of `auth.limits.email_code`. A mailbox has 20 wrong codes a day
//! from browsers that it does not know: with the budget of mails alone, guesses from many networks would be right once in
//! some months. Each known device of the account has a budget of its own.

mod codes;
mod flow;
mod http;

use std::sync::Arc;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};

use codes::Codes;
use flow::Flow;

/// The plugin of codes by mail.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmailCodePlugin;

impl Plugin for EmailCodePlugin {
    fn name(&self) -> &'static str {
        "email_code"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let lacks = |capability, remedy| AuthInitError::MissingCapability {
            plugin: "email_code",
            store: "user",
            capability,
            remedy,
        };
        if foundation.users.email_verifier.is_none() {
            return Err(lacks("an email verifier", "a right code records the mailbox as proven"));
        }
        if foundation.users.password_setter.is_none() {
            return Err(lacks("a password setter", "the first proof of a mailbox drops an earlier password"));
        }
        let codes = Codes::new(foundation)?;
        // Where nothing can be sent, the sign-in screen does not offer it.
        let prepared = if codes.can_be_sent() { Prepared::new().code_by_mail() } else { Prepared::new() };
        Ok(prepared.routes(move |core| http::routes(Arc::new(Flow::new(core.clone(), codes)))))
    }
}
