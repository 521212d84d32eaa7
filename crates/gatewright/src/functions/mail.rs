//! `mail.send` of functions: through the server's mail queue, within budgets.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_functions::{Data, HostError};
use gatewright_limits::{Limiter, MemoryStore, Policy, Store};

use super::host::wrong;
use super::records;
use crate::app::mail::MailService;

/// The most mails of all functions to one recipient in an hour.
const BY_RECIPIENT: u32 = 20;
/// The most mails of one function in an hour.
const BY_FUNCTION: u32 = 1000;
const HOUR: Duration = Duration::from_hours(1);
/// The longest subject, in characters.
const SUBJECT: usize = 250;
/// The most bytes of both bodies.
const BODIES: usize = 512 << 10;

/// A mail of a function.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) to: String,
    /// One line.
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) html: Option<String>,
}

/// Sends the mails of functions.
pub(super) struct Mails {
    service: MailService,
    by_recipient: Limiter,
    by_function: Limiter,
}

impl Mails {
    /// `store` counts for all replicas; without it each counts its own.
    pub(super) fn new(service: &MailService, store: Option<Arc<dyn Store>>, ambient: &Ambient) -> Self {
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new(ambient.clone())));
        let limiter = |scope, most| Limiter::new(scope, Policy::new(most, HOUR, HOUR / 2), store.clone());
        Self {
            service: service.clone(),
            by_recipient: limiter("function_mail_recipient", BY_RECIPIENT),
            by_function: limiter("function_mail", BY_FUNCTION),
        }
    }

    /// Puts a mail into the queue.
    pub(super) async fn send(&self, function: &str, arguments: &[Data]) -> Result<Data, HostError> {
        let message = Message::read(arguments)?;
        if !self.service.can_send() {
            return Err(wrong("mail: no mail server is configured in [email]"));
        }
        if !MailService::is_address(&message.to) {
            return Err(records::exception(
                422,
                "invalid_address",
                "mail: `to` is no address that a mail can be sent to",
            ));
        }
        let limited = |what| records::exception(429, "rate_limited", what);
        // What the recipient's budget refuses takes nothing of the function's.
        let Ok(of_recipient) = self.by_recipient.begin(&message.to.to_lowercase()).await else {
            return Err(limited("mail: this recipient has got as many mails of functions as one may in an hour"));
        };
        if self.by_function.attempt(function).await.is_err() {
            of_recipient.give_back().await;
            return Err(limited("mail: this function has sent as many mails as it may in an hour"));
        }
        match self.service.send(message).await {
            Ok(()) => Ok(Data::Null),
            Err(message) => Err(records::exception(503, "unavailable", &format!("mail: {message}"))),
        }
    }
}

impl Message {
    fn read(arguments: &[Data]) -> Result<Self, HostError> {
        let [message @ Data::Object(_)] = arguments else {
            return Err(wrong("mail.send takes { to, subject, text, html }"));
        };
        let text = |key: &str| message.get(key).and_then(Data::as_str).map(str::to_owned);
        let needed = |key: &str| text(key).ok_or_else(|| wrong(&format!("mail: `{key}` is a text")));
        let (to, subject, body, html) = (needed("to")?, needed("subject")?, needed("text")?, text("html"));
        let subject = subject.trim().to_owned();
        if subject.is_empty() || subject.chars().any(char::is_control) || subject.chars().count() > SUBJECT {
            return Err(wrong("mail: `subject` is one line of 1 to 250 characters"));
        }
        if body.len() + html.as_deref().map_or(0, str::len) > BODIES {
            return Err(wrong("mail: `text` and `html` together have at most 512 KiB"));
        }
        Ok(Self { to, subject, text: body, html })
    }
}
