//! The crate as a program uses it: letters in, mails out, over a real SMTP server and through the development mailbox.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "all/drain.rs"]
mod drain;
#[path = "all/logs.rs"]
mod logs;
#[path = "all/mailbox.rs"]
mod mailbox;
#[path = "all/queue.rs"]
mod queue;
#[path = "all/smtp.rs"]
mod smtp;
#[path = "all/stored.rs"]
mod stored;
#[path = "all/support.rs"]
mod support;
#[path = "all/templates.rs"]
mod templates;
#[path = "all/tls.rs"]
mod tls;
#[path = "all/trouble.rs"]
mod trouble;
