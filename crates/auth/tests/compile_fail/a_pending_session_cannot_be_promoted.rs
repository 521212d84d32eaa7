use gatewright_auth::session::{PendingSession, Session};

fn promoted(pending: PendingSession) -> Session {
    Session { inner: pending.inner, two_factor_verified: true }
}

fn main() {}
