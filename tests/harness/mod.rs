//! Starts the server and sends requests to it.

mod binary;
mod browser;
mod client;
mod conversation;
mod database;
mod identity_provider;
mod pages;
mod receiver;
mod sandbox;
mod server;
mod stream;
mod tools;

pub(crate) use binary::{Finished, binary, clean, finish, gatewright};
pub(crate) use browser::{Browser, Scripts};
pub(crate) use client::{Answer, Client};
pub(crate) use conversation::Conversation;
pub(crate) use database::Database;
pub(crate) use identity_provider::IdentityProvider;
pub(crate) use pages::{Pages, Site};
pub(crate) use receiver::Receiver;
pub(crate) use sandbox::Sandbox;
pub(crate) use server::{Launch, Server};
pub(crate) use stream::Stream;
pub(crate) use tools::{installed, node_tools, python_tools, run};

/// The password of all test accounts, long enough for the server.
pub(crate) const PASSWORD: &str = "correct horse battery";
