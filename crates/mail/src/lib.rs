//! Mails that carry a link: written from templates, kept in a bounded queue, sent over SMTP or shown in development.
//!
//! A single-use link is a credential, and whether a mail was sent at all tells whether an account exists. So this
//! crate keeps two promises. *Timing tells nothing*: [`Outgoing::post`] only puts a [`Letter`] into a queue, the same
//! short work whether mail servers are fast, slow or gone; checking the address, writing the mail and sending it
//! happen later, on tasks of the queue's own. *Logs tell nothing*: links are [`Secret`](gatewright_base::Secret)s,
//! addresses are logged as their domain alone, and what a mail server answers is stripped of both before it is logged.
//!
//! The path of a letter: [`Outgoing`] keeps it, [`Templates`] make a [`Mail`] of it, a [`Sender`] takes that away,
//! and what failed for now is tried again with growing pauses until its link would no longer work. The senders are
//! [`Smtp`], the [`DevMailbox`] whose pages are [`dev::routes`], and [`Both`].
//!
//! With the feature `sqlite` or `postgres`, the queue can live in a database (`stored`): letters survive a restart, several
//! servers share them, and an operator sees and retries what cannot be sent.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use gatewright_base::{Ambient, Secret};
//! use gatewright_mail::{Kind, Letter, Mailbox, Outgoing, QueuePolicy, Smtp, SmtpSettings, SmtpUrl, Templates};
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let url = SmtpUrl::parse(&Secret::new("smtps://user:password@mail.example.com"))?;
//! let from = Mailbox::parse("Example <noreply@example.com>")?;
//! let smtp = Smtp::new(SmtpSettings::new(url, from))?;
//! let templates = Templates::load("Example", None)?;
//! let outgoing = Outgoing::start(Arc::new(smtp), templates, Ambient::system(), QueuePolicy::default());
//!
//! let link = Secret::new("https://example.com/auth/magic-link/verify?token=…");
//! outgoing.post(Letter::new(Kind::MagicLink, "ann@example.com", link, Duration::from_secs(900)));
//!
//! let abandoned = outgoing.drain(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```

mod address;
pub mod dev;
mod letter;
mod mail;
mod mailbox;
mod outgoing;
mod sender;
mod smtp;
#[cfg(feature = "sql")]
pub mod stored;
mod templates;
#[cfg(feature = "testing")]
pub mod testing;

pub use address::{Address, InvalidAddress};
pub use dev::{Both, DevMailbox};
pub use letter::{Device, Kind, Letter};
pub use mail::Mail;
pub use mailbox::{InvalidMailbox, Mailbox};
pub use outgoing::{Counts, Outgoing, QueuePolicy, RetryPolicy};
pub use sender::{SendError, Sender};
pub use smtp::{InvalidSmtpUrl, Smtp, SmtpInitError, SmtpSettings, SmtpUrl};
pub use templates::{TemplateError, Templates};
