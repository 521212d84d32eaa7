//! Tickets for event streams: `POST /stream-ticket`, and `?ticket=` on a stream.
//!
//! A browser's `EventSource` cannot send custom headers, so a page with a token cannot open a stream with it. Instead
//! it creates a ticket, which is valid for one stream within 30 seconds, and puts it into the URL.
//!
//! A ticket represents the credentials of the request that created it. They are stored encrypted, with a key that is
//! derived from the ticket; the table has only the ticket's hash. So the table reveals nothing to its reader, and the
//! URL contains nothing that outlives the ticket. A request with a ticket is authenticated with those credentials:
//! roles, scopes and sessions are checked at that time, an expired credential is refused, and a stream checks again on
//! every heartbeat.

mod http;
mod redeem;
mod rows;
mod seal;
pub(crate) mod tickets;

pub(crate) use self::http::routes;
pub(crate) use self::redeem::refused;
pub(crate) use self::rows::{COMPONENT, MIGRATIONS};
