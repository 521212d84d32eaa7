mod check;
pub(crate) mod client;
mod init;
mod migrate;
mod openapi;
pub(crate) mod outbox;
mod secret;
mod serve;
pub(crate) mod service_account;
pub(crate) mod tenant;
pub(crate) mod token;
pub(crate) mod user;

pub(crate) use check::check;
pub(crate) use init::init;
pub(crate) use migrate::migrate;
pub(crate) use openapi::openapi;
pub(crate) use secret::secret;
pub(crate) use serve::serve;
