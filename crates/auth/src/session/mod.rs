//! Sessions of browsers.
//!
//! Every sign-in ends at [`Mint`] (`mint.rs`), the only code that creates sessions. It checks whether a second factor is
//! required (`second_factors.rs`), draws a new secret, stores its hash, and returns a [`Session`] or a
//! [`PendingSession`] (`session.rs`) with the secret for the cookie (`cookie.rs`). On each request `resolve.rs` looks
//! up the session of the cookie and its current user. A handler with a [`Session`] argument (`extract.rs`) can rely on
//! both.
//!
//! The fields of the two types are private to this folder, and so is the constructor of [`NewSession`]. A plugin that
//! signs somebody in without the second factor does not compile.
//!
//! A handler takes one of the two:
//!
//! ```
//! use gatewright_auth::session::{NewSession, PendingSession, Session};
//! # use gatewright_base::UserId;
//! async fn delete_everything(_session: Session) {}
//! async fn ask_for_the_code(_pending: PendingSession) {}
//! fn keep(_session: NewSession, _user_id: UserId) {}
//! ```
//!
//! It cannot be called with the other, and neither can be made or changed outside of this folder:
//!
//! ```compile_fail
//! # use gatewright_auth::session::{PendingSession, Session};
//! # async fn delete_everything(_session: Session) {}
//! async fn handler(pending: PendingSession) {
//!     delete_everything(pending).await;
//! }
//! ```
//! ```compile_fail,E0308
//! # use gatewright_auth::session::{Mint, PendingSession};
//! async fn skip_the_second_factor(mint: &Mint, pending: &PendingSession) {
//!     let _ = mint.mark_verified(pending).await;
//! }
//! ```
//! ```compile_fail
//! # use gatewright_auth::session::{PendingSession, Session};
//! fn promoted(pending: PendingSession) -> Session {
//!     Session { inner: pending.inner, two_factor_verified: true }
//! }
//! ```
//! ```compile_fail
//! # use gatewright_auth::session::Session;
//! fn upgraded(session: Session) -> Session {
//!     Session { two_factor_verified: true, ..session }
//! }
//! ```
//! ```compile_fail
//! # use gatewright_auth::session::NewSession;
//! # use gatewright_base::UserId;
//! fn kept(user_id: UserId) -> NewSession {
//!     NewSession { user_id }
//! }
//! ```

mod cookie;
mod error;
mod extract;
pub(crate) mod impersonations;
mod memory;
mod mint;
mod resolve;
mod second_factors;
mod secret;
#[expect(clippy::module_inception, reason = "the folder is the subject, the file its central type")]
mod session;
mod sql;
mod store;

/// The most sessions of one user. Sessions whose second factor is pending are counted separately. A further one ends
/// the one that was not used for the longest time.
pub(crate) const MAX_PER_USER: u32 = 100;

pub use cookie::SessionCookie;
pub use error::MintError;
pub use memory::MemorySessionStore;
pub(crate) use mint::{GUEST_TTL, Proof};
pub use mint::{Mint, Minted};
pub(crate) use resolve::{Lookup, ResolveError, Resolver};
pub use second_factors::{AddedFactor, SecondFactor};
pub use secret::{SessionKey, SessionSecret};
pub use session::{AnySession, PendingSession, Session};
pub(crate) use sql::MIGRATIONS;
pub use sql::SqlSessionStore;
pub use store::{
    Client, NewSession, PendingMarker, SessionStore, SessionStoreError, StoredSession, TwoFactorMarker,
    TwoFactorMarkerWithin,
};

/// Sessions for unit tests of code that uses them.
#[cfg(test)]
pub(crate) mod testing {
    use gatewright_base::{Ambient, SessionId};
    use jiff::Timestamp;

    use super::{AnySession, Client, NewSession, PendingSession, Session, SessionSecret};
    use crate::users::User;

    pub(crate) fn full(user: User) -> AnySession {
        AnySession::Full(Session::new(new(&user), user))
    }

    pub(crate) fn pending(user: User) -> AnySession {
        AnySession::Pending(PendingSession::new(new(&user), user))
    }

    fn new(user: &User) -> NewSession {
        let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        NewSession {
            id: SessionId::generate(&ambient),
            key: SessionSecret::new(ambient.bytes()).key(),
            user_id: user.id.clone(),
            started_at: ambient.now(),
            expires_at: ambient.now(),
            client: Client::default(),
        }
    }
}
