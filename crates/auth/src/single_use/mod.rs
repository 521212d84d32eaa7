//! Single-use tokens: what the links in mails carry.
//!
//! A plugin draws a [`SingleUseToken`], gives the store its hash with whom it is for ([`IssuedToken`]), and mails the
//! token itself, which is nowhere else from then on. Who comes back with it is looked at ([`SingleUseStore::find`]), and
//! at the end the token is spent ([`SingleUseStore::spend`]): one conditional write, of whose concurrent callers on any
//! number of replicas one wins. A token is good for the purpose it was drawn for and for no other, and it is bound to
//! the address it was mailed to, so that it proves nothing about an address that the account has got since.
//!
//! The way from an address to a mail and back is `links.rs`; the code beside a link is `codes.rs`; how many mails may be sent is `mail_budget.rs`.
//!
//! A spent token is kept, marked, until its time is over. A link that a mail scanner has followed before its owner can
//! then be told from one that never was (the address is verified all the same). Each new token clears away some that
//! have expired.

mod claim;
pub(crate) mod codes;
pub(crate) mod links;
mod mail_budget;
mod memory;
mod sql;
mod store;
mod token;

pub(crate) use claim::{CLAIM, before_claims};
pub(crate) use mail_budget::MailBudget;
pub use memory::MemorySingleUseStore;
pub(crate) use sql::MIGRATIONS;
pub use sql::SqlSingleUseStore;
pub use store::{IssuedToken, Purpose, SingleUseStore, SingleUseStoreError};
pub use token::{SingleUseToken, TokenKey};
