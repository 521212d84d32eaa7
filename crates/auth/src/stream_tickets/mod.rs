//! Tickets for event streams: `POST /stream-ticket`, and `?ticket=` on a stream.
//!
//! A browser's `EventSource` sends no headers of the page's own, so a page that holds a token cannot open a stream with
//! it. It makes a ticket, which is good for one stream within 30 seconds, and puts that into the address.
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
pub(crate) mod tickets;

pub(crate) use self::http::routes;
pub(crate) use self::redeem::refused;
pub(crate) use self::rows::{COMPONENT, MIGRATIONS};
