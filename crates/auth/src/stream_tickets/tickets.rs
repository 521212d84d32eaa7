use std::time::Duration;

use gatewright_base::{Ambient, Secret};
use gatewright_db::{Db, Error};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName};

use super::rows::Rows;
use super::seal::{open, seal};
use crate::single_use::SingleUseToken;

/// How long a ticket is valid.
pub(super) const LIFETIME: Duration = Duration::from_secs(30);
/// The longest credentials that are kept, in bytes of their headers.
const LONGEST: usize = 8 * 1024;

/// The tickets of a database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tickets {
    rows: Rows,
    ambient: Ambient,
    /// The header that names a request's tenant: the ticket's stream has the same.
    pub(super) tenant: Option<HeaderName>,
}

impl Tickets {
    pub(crate) fn new(db: Db, ambient: Ambient, tenant: Option<HeaderName>) -> Self {
        Self { rows: Rows::new(db), ambient, tenant }
    }

    /// The headers of a request that a ticket represents. `None`: they are too long.
    pub(super) fn kept(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        let mut kept = HeaderMap::new();
        for name in [COOKIE, AUTHORIZATION].iter().chain(&self.tenant) {
            for value in headers.get_all(name) {
                kept.append(name, value.clone());
            }
        }
        let bytes: usize = kept.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        (bytes <= LONGEST).then_some(kept)
    }

    /// Creates a ticket for these headers.
    pub(super) async fn make(&self, headers: &HeaderMap) -> Result<Secret, Error> {
        let ticket = SingleUseToken::generate(&self.ambient);
        let now = self.ambient.now();
        let ends = now.checked_add(LIFETIME).unwrap_or(now);
        self.rows.put(&ticket.key(), seal(&ticket, headers), now, ends).await?;
        Ok(ticket.to_text())
    }

    /// Spends a ticket. Of any number of concurrent calls on any replica one gets the headers, if the ticket is still good.
    pub(super) async fn spend(&self, text: &str) -> Result<Option<HeaderMap>, Error> {
        let Some(ticket) = SingleUseToken::parse(text) else { return Ok(None) };
        let sealed = self.rows.take(&ticket.key(), self.ambient.now()).await?;
        Ok(sealed.and_then(|sealed| open(&ticket, sealed)))
    }

    /// Removes tickets that ended at or before now, at most `limit`.
    pub(crate) async fn sweep(&self, limit: u32) -> Result<u64, Error> {
        self.rows.sweep(self.ambient.now(), limit).await
    }
}
