//! A site under test, and people who visit it.

mod call;
mod fakes;
mod provider;
mod site;

pub(crate) use call::{Answer, Call, query};
pub(crate) use fakes::{Factor, FakeFactor, Recorder, Sessions, Tokens, Users};
pub(crate) use provider::{APPLE_KEY, APPLE_POINT, CLIENT_ID, CLIENT_SECRET, FakeProvider, SigningKey, signed_part};
pub(crate) use site::{Site, config, databases, invitation, limit_by_address, set_proven, unlimited};

/// A password that passes every rule.
pub(crate) const PASSWORD: &str = "correct horse battery";
/// One that is not it.
pub(crate) const WRONG: &str = "incorrect horse battery";
/// Somebody.
pub(crate) const ANN: &str = "ann@example.com";
