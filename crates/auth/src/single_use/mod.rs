//! Single-use tokens: the tokens in mailed links.
//!
//! A plugin draws a [`SingleUseToken`], stores its hash with the recipient ([`IssuedToken`]), and mails the token
//! itself, which is stored nowhere. When the token comes back, it is looked up ([`SingleUseStore::find`]) and at the
//! end spent ([`SingleUseStore::spend`]). Spending is one conditional write: of concurrent callers on any number of
//! replicas, one succeeds. A token is valid only for its own purpose. It is bound to the address it was mailed to, so
//! it does not prove an address that the account got later.
//!
//! What a token demands besides itself is stored with it ([`Demand`]), and never a choice of its bearer.
//!
//! `links.rs` mails links and checks them when they come back, `codes.rs` has the codes, and `mail_budget.rs` limits
//! the mails.
//!
//! A spent token stays stored, marked as spent, until it expires. So a link that a mail scanner opened before its owner
//! can be distinguished from an unknown one (the address is verified in this case). Storing a new token removes some
//! expired ones.

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
pub use store::{Demand, IssuedToken, Purpose, SingleUseStore, SingleUseStoreError};
pub use token::{SingleUseToken, TokenKey};
