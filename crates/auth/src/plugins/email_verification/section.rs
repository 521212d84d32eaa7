use async_trait::async_trait;
use gatewright_http::Problem;
use serde::Serialize;

use crate::screens::account::{AccountPage, Place, Section, Visit};
use crate::screens::fragment;

/// The address, and whether its mailbox is proven.
pub(crate) struct AddressSection {
    /// Where the form for a verification mail posts to.
    action: String,
}

#[derive(Serialize)]
struct Context<'a> {
    email: &'a str,
    verified: bool,
    stepped_up: bool,
    action: &'a str,
    next: &'a str,
    csrf: Option<&'a str>,
}

impl AddressSection {
    pub(crate) fn new(base_path: &str) -> Self {
        Self { action: format!("{base_path}/send-verification") }
    }
}

#[async_trait]
impl Section for AddressSection {
    fn place(&self) -> Place {
        Place::Address
    }

    fn anchor(&self) -> &'static str {
        "address"
    }

    fn heading(&self) -> &'static str {
        "account.address.heading"
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let user = visit.session.user();
        let context = Context {
            email: user.email.as_str(),
            verified: user.email_verified,
            stepped_up: visit.stepped_up,
            action: &self.action,
            next: AccountPage::SignIn.path(),
            csrf: visit.csrf,
        };
        fragment("account/address.html", &context).map(Some)
    }
}
