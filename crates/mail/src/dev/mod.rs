//! The development mailbox: mails stay in memory, and are shown under `/dev/mail`.
//!
//! It exists only in dev mode, since a client that reads it can sign in to every account. [`DevMailbox`] keeps the
//! mails, [`routes`] shows them, and its guard refuses the pages of other sites in the developer's browser.

mod guard;
mod page;
mod routes;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

pub use guard::Readers;
pub use routes::routes;

use crate::{Mail, SendError, Sender};

/// Most mails that are kept.
const CAPACITY: usize = 100;

/// Keeps the newest 100 mails in memory. Cheap to clone; all clones are one mailbox.
#[derive(Debug, Clone, Default)]
pub struct DevMailbox(Arc<Mutex<VecDeque<Arc<Mail>>>>);

impl DevMailbox {
    /// An empty mailbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// The mails, newest first.
    pub fn mails(&self) -> Vec<Arc<Mail>> {
        self.lock().iter().cloned().collect()
    }

    /// Puts a mail in front, unless it is there already: another attempt at sending it shows it no second time.
    fn keep(&self, mail: &Mail) {
        let mut mails = self.lock();
        if mails.iter().any(|kept| kept.id == mail.id) {
            return;
        }
        mails.truncate(CAPACITY - 1);
        mails.push_front(Arc::new(mail.clone()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Mail>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sender for DevMailbox {
    async fn send(&self, mail: &Mail) -> Result<(), SendError> {
        self.keep(mail);
        Ok(())
    }
}

/// Shows mails in the development mailbox and sends them as well: dev mode with a mail server configured.
pub struct Both {
    mailbox: DevMailbox,
    sender: Arc<dyn Sender>,
}

impl Both {
    /// Stores mails in `mailbox`, then sends them by `sender`, whose result counts.
    pub fn new(mailbox: DevMailbox, sender: Arc<dyn Sender>) -> Self {
        Self { mailbox, sender }
    }
}

#[async_trait]
impl Sender for Both {
    async fn send(&self, mail: &Mail) -> Result<(), SendError> {
        self.mailbox.keep(mail);
        self.sender.send(mail).await
    }
}

impl std::fmt::Debug for Both {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Both").finish_non_exhaustive()
    }
}
