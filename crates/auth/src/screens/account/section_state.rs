use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::Response;
use gatewright_http::Problem;
use http::request::Parts;

use super::{Account, Section};
use crate::session::Session;
use crate::web::{Visitor, see_other};

/// The state of the handlers of a section's forms.
pub(crate) struct SectionState<S> {
    pub(crate) section: Arc<S>,
    pub(crate) account: Arc<Account>,
}

/// The account's session. As an argument of a section's handler it redirects all other callers to the sign-in.
pub(crate) struct Owner(pub(crate) Session);

impl<S: Section> SectionState<S> {
    pub(crate) fn new(section: Arc<S>, account: &Arc<Account>) -> Self {
        Self { section, account: account.clone() }
    }

    /// After a change: back to the page, which shows the section's notice with this name.
    pub(crate) fn done(&self, notice: &str) -> Response {
        see_other(&format!("{}?done={notice}#{}", self.section.place().page().path(), self.section.anchor()))
    }

    /// After a failure: the page again, with the message in the section.
    pub(crate) async fn failed(&self, visitor: &Visitor, owner: &Owner, problem: impl Into<Problem>) -> Response {
        self.account.failed(&*self.section, visitor, &owner.0, problem.into()).await
    }
}

impl<S: Section> FromRequestParts<SectionState<S>> for Owner {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &SectionState<S>) -> Result<Self, Response> {
        let session = Session::from_request_parts(parts, state).await;
        session.map(Self).map_err(|problem| state.account.send_to_sign_in(problem, state.section.place().page().path()))
    }
}

impl<S> Clone for SectionState<S> {
    fn clone(&self) -> Self {
        Self { section: self.section.clone(), account: self.account.clone() }
    }
}
