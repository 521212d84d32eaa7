//! Magic links: sign-in by a link in a mail, without a password.
//!
//! `send` in `http.rs` takes an address and mails a link whether there is an account or not. Opening the link (`GET
//! verify`) shows a confirmation page that names the account and redeems nothing, because mail scanners and chat
//! programs open links as well. Only the page's form (`POST verify`) makes `flow.rs` redeem the token, create the
//! account if there is none, and pass the proven user to the mint.
//!
//! Redeeming a link proves the mailbox. `mailbox.rs` of this crate decides what the proof does to the account.
//!
//! A host can replace the confirmation page by a [`template`](MagicLinkPlugin::template) or by its own
//! [`page`](MagicLinkPlugin::page).

mod flow;
mod http;
mod page;

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};
use crate::single_use::Purpose;
use crate::single_use::links::Links;

use flow::Flow;
pub use page::Confirmation;
use page::Page;

/// The magic-link plugin.
pub struct MagicLinkPlugin {
    ttl: Duration,
    page: Given,
}

/// The confirmation page that a host gave.
enum Given {
    Nothing,
    Template(String),
    Page(page::Hook),
}

impl MagicLinkPlugin {
    /// Links that work for 15 minutes, and the built-in confirmation page.
    pub fn new() -> Self {
        Self { ttl: Duration::from_mins(15), page: Given::Nothing }
    }

    /// How long a link works.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Uses the host's own markup for the confirmation, within the frame of the service's pages: a minijinja template
    /// with the values `email` (may be absent), `action`, `token` and `csrf` (absent without a CSRF middleware), all
    /// escaped. It is rendered once at start, and refused if its form would not work.
    pub fn template(self, source: impl Into<String>) -> Self {
        Self { page: Given::Template(source.into()), ..self }
    }

    /// Uses the host's own confirmation page. It must escape the values of the [`Confirmation`].
    pub fn page(self, page: impl Fn(&Confirmation<'_>) -> Response + Send + Sync + 'static) -> Self {
        Self { page: Given::Page(Box::new(page)), ..self }
    }
}

impl Default for MagicLinkPlugin {
    fn default() -> Self {
        Self::new()
    }
}

impl Plugin for MagicLinkPlugin {
    fn name(&self) -> &'static str {
        "magic_link"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let lacks = |capability, remedy| AuthInitError::MissingCapability {
            plugin: "magic_link",
            store: "user",
            capability,
            remedy,
        };
        if foundation.users.email_verifier.is_none() {
            return Err(lacks("an email verifier", "a redeemed link records the mailbox as proven"));
        }
        if foundation.users.password_setter.is_none() {
            return Err(lacks("a password setter", "the first proof of a mailbox drops an earlier password"));
        }
        let path = format!("{}/magic-link/verify", foundation.config.base_path);
        let links = Links::new(foundation, Purpose::MagicLink, &path, self.ttl)?;
        let page = match self.page {
            Given::Nothing => Page::built_in(),
            Given::Template(source) => Page::template(&source)
                .map_err(|problem| AuthInitError::Setting { setting: "magic_link.template", problem })?,
            Given::Page(page) => Page::hook(page),
        };
        // Where nothing can be sent, the sign-in screen does not offer it.
        let prepared = if links.can_be_sent() { Prepared::new().link_by_mail() } else { Prepared::new() };
        Ok(prepared.routes(move |core| http::routes(Arc::new(Flow::new(core.clone(), links)), Arc::new(page))))
    }
}

impl std::fmt::Debug for MagicLinkPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MagicLinkPlugin").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
