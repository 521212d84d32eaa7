//! Mails that contain a link: written from templates, kept in a limited queue, sent over SMTP or shown in development.
//!
//! A single-use link is a credential, and whether a mail was sent reveals whether an account exists. So this crate
//! guarantees two things. *Timing reveals nothing*: [`Outgoing::post`] only puts a [`Letter`] into a queue, which takes
//! the same short time whether mail servers are fast, slow or unavailable; checking the address, writing the mail and
//! sending it happen later, in the queue's own tasks. *Logs reveal nothing*: links are
//! [`Secret`](gatewright_base::Secret)s, only the domain of an address is logged, and both are removed from a mail
//! server's answer before it is logged.
//!
//! The path of a letter: [`Outgoing`] queues it, [`Templates`] make a [`Mail`] of it, and a [`Sender`] sends that.
//! After a temporary failure it is retried with growing pauses until its link would no longer work. The senders are
//! [`Smtp`], the [`DevMailbox`] whose pages are [`dev::routes`], and [`Both`].
//!
//! With the feature `sqlite` or `postgres`, the queue can be in a database (`stored`): letters survive a restart, several
//! servers share them, and an operator sees and retries letters that cannot be sent.
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
pub use letter::{Device, Invited, Kind, Letter, Written};
pub use mail::Mail;
pub use mailbox::{InvalidMailbox, Mailbox};
pub use outgoing::{Counts, NotQueued, Outgoing, QueuePolicy, RetryPolicy};
pub use sender::{SendError, Sender};
pub use smtp::{InvalidSmtpUrl, Smtp, SmtpInitError, SmtpSettings, SmtpUrl};
pub use templates::{TemplateError, Templates};
