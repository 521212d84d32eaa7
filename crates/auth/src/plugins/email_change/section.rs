use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_base::Secret;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::{ChangeError, Flow};
use crate::email::EmailAddress;
use crate::fresh::{Asked, FreshError, Given, asked};
use crate::screens::account::{Account, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::web::{Visitor, guarded, with_cookie};

/// Asking for another address.
pub(crate) struct EmailSection {
    flow: Arc<Flow>,
}

#[derive(Serialize)]
struct Context<'a> {
    fresh: Asked,
    /// Where the code of a mail that this browser requested is posted to.
    confirm: Option<String>,
    /// The code for another browser in which the link of that mail is opened.
    shown: Option<&'a str>,
    action: String,
    csrf: Option<&'a str>,
    /// Whether its form was refused, and is shown again.
    trouble: bool,
    next: Option<&'a str>,
}

#[derive(serde::Deserialize)]
struct Body {
    email: String,
    #[serde(flatten)]
    given: Given,
}

impl EmailSection {
    pub(crate) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for EmailSection {
    fn place(&self) -> Place {
        Place::Email
    }

    fn anchor(&self) -> &'static str {
        "change-email"
    }

    fn heading(&self) -> &'static str {
        "account.email.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("email-requested", "account.email.requested")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        if !self.flow.can_be_sent() {
            return Ok(None);
        }
        let shown = self.flow.links.codes.shown_in(visit.headers);
        let context = Context {
            fresh: asked(&self.flow.core, visit.session).await?,
            confirm: shown.is_some().then(|| format!("{}/change-email/confirm", self.flow.core.config.base_path)),
            shown: shown.as_ref().map(Secret::expose),
            action: format!("{PATH}/email#{}", self.anchor()),
            csrf: visit.csrf,
            trouble: visit.problem.is_some(),
            next: None,
        };
        fragment("account/email.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let request = guarded(&account.core, None, post(request));
        Router::new().route("/account/email", request).with_state(SectionState::new(self, account))
    }
}

async fn request(
    State(state): State<SectionState<EmailSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<Body>,
) -> Response {
    let Ok(email) = EmailAddress::parse(&submission.value.email) else {
        let problem = Problem::invalid_field("email", "invalid", "not a valid email address");
        return state.failed(&visitor, &owner, problem).await;
    };
    let flow = &state.section.flow;
    let drawn = flow.links.draw(true);
    match flow.request(&drawn, &owner.0, &email, &submission.value.given, &visitor.client).await {
        Ok(()) => with_cookie(state.done("email-requested"), flow.links.cookie(&drawn)),
        Err(ChangeError::Fresh(FreshError::Denied(denied))) => denied.into_response(),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}
