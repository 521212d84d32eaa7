//! Tickets for event streams: `POST /stream-ticket`, and `?ticket=` on a stream.
//!
//! A browser's `EventSource` sends no headers of the page's own, so a page that holds a token cannot open a stream with
//! it. It makes a ticket, which is good for one stream within [`LIFETIME`], and puts that into the address.
//!
//! A ticket stands for the credentials of the request that made it. They are kept sealed, by a key that only the ticket
//! itself gives; the table has the ticket's hash. So who reads the table learns nothing, and the address has nothing
//! that outlives the ticket. Whoever redeems one is shown to the schemes as if the request had carried those
//! credentials: roles, scopes and sessions are those of now, a credential that has ended opens nothing, and a stream
//! asks again on every heartbeat as ever.

mod http;
mod redeem;
mod rows;
mod seal;

use std::time::Duration;

use ::http::header::{AUTHORIZATION, COOKIE};
use ::http::{HeaderMap, HeaderName};
use gatewright_base::{Ambient, Secret};
use gatewright_db::{Db, Error};

pub(crate) use self::http::routes;
pub(crate) use self::redeem::refused;
use self::rows::Rows;
pub(crate) use self::rows::{COMPONENT, MIGRATIONS};
use self::seal::{open, seal};
use crate::single_use::SingleUseToken;

/// How long a ticket is good for.
const LIFETIME: Duration = Duration::from_secs(30);
/// The longest credentials that are kept, in bytes of their headers.
const LONGEST: usize = 8 * 1024;

/// The tickets of a database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tickets {
    rows: Rows,
    ambient: Ambient,
    /// The header that names a request's tenant: the ticket's stream has the same.
    tenant: Option<HeaderName>,
}

impl Tickets {
    pub(crate) fn new(db: Db, ambient: Ambient, tenant: Option<HeaderName>) -> Self {
        Self { rows: Rows::new(db), ambient, tenant }
    }

    /// Of a request's headers those that a ticket stands for. `None`: they are too long.
    fn kept(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        let mut kept = HeaderMap::new();
        for name in [COOKIE, AUTHORIZATION].iter().chain(&self.tenant) {
            for value in headers.get_all(name) {
                kept.append(name, value.clone());
            }
        }
        let bytes: usize = kept.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        (bytes <= LONGEST).then_some(kept)
    }

    /// Makes a ticket that stands for these headers.
    async fn make(&self, headers: &HeaderMap) -> Result<Secret, Error> {
        let ticket = SingleUseToken::generate(&self.ambient);
        let now = self.ambient.now();
        let ends = now.checked_add(LIFETIME).unwrap_or(now);
        self.rows.put(&ticket.key(), seal(&ticket, headers), now, ends).await?;
        Ok(ticket.to_text())
    }

    /// Spends a ticket. Of any number of concurrent calls on any replica one gets the headers, if the ticket is still good.
    async fn spend(&self, text: &str) -> Result<Option<HeaderMap>, Error> {
        let Some(ticket) = SingleUseToken::parse(text) else { return Ok(None) };
        let sealed = self.rows.take(&ticket.key(), self.ambient.now()).await?;
        Ok(sealed.and_then(|sealed| open(&ticket, sealed)))
    }

    /// Removes tickets that ended at or before now, at most `limit`.
    pub(crate) async fn sweep(&self, limit: u32) -> Result<u64, Error> {
        self.rows.sweep(self.ambient.now(), limit).await
    }
}
