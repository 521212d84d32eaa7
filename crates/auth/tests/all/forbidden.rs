//! What the types forbid, in addition to the examples at `session` that do not compile.

use std::fmt::Display;

use gatewright_auth::password::PasswordHash;
use gatewright_auth::session::{AnySession, NewSession, PendingSession, Session, SessionSecret};
use gatewright_base::Secret;
use serde::Serialize;
use static_assertions::assert_not_impl_any;

// A secret cannot be printed, nor be part of an answer.
assert_not_impl_any!(Secret: Display, Serialize);
assert_not_impl_any!(PasswordHash: Display, Serialize);
assert_not_impl_any!(SessionSecret: Display, Serialize);

// A pending session is not a session, and nothing converts into one.
assert_not_impl_any!(PendingSession: Into<Session>, AsRef<Session>, std::ops::Deref<Target = Session>);
assert_not_impl_any!(AnySession: Into<Session>);
assert_not_impl_any!(NewSession: Default);
assert_not_impl_any!(Session: Default);
