//! Starting the server and speaking with it.

mod binary;
mod browser;
mod client;
mod conversation;
mod database;
mod identity_provider;
mod pages;
mod receiver;
mod server;
mod stream;
mod tools;

pub(crate) use binary::{Finished, binary, clean, gatewright};
pub(crate) use browser::{Browser, Scripts};
pub(crate) use client::{Answer, Client};
pub(crate) use conversation::Conversation;
pub(crate) use database::Database;
pub(crate) use identity_provider::IdentityProvider;
pub(crate) use pages::{Pages, Site};
pub(crate) use receiver::Receiver;
pub(crate) use server::{Launch, Server};
pub(crate) use stream::Stream;
pub(crate) use tools::{installed, node_tools, python_tools, run};

/// Passwords are long enough for the server and the same for everybody.
pub(crate) const PASSWORD: &str = "correct horse battery";
