//! The page of an invitation's link.

use axum::response::Response;
use gatewright_base::{Credential, Identity, Secret};
use gatewright_http::{Caller, Next, Problem, ProblemLink, locale};
use serde::Serialize;

use super::Flow;
use crate::Registration;
use crate::invitations::Invitation;
use crate::problem::registration_closed;
use crate::screens::paths::{AS_OTHER, login_as_other, with_next, with_query};
use crate::screens::{mailed, page};
use crate::web::Visitor;

/// Where a link has led to.
pub(crate) enum Opened {
    /// A page that is the complete answer.
    Page(Response),
    /// The address has no account, and the caller is anonymous or wants to register it: a form.
    Registration {
        invitation: Invitation,
        /// The name of the tenant whose member the account becomes.
        tenant: Option<String>,
    },
}

#[derive(Serialize)]
struct Invited<'a> {
    email: &'a str,
    tenant: Option<&'a str>,
    signed_in: Option<&'a str>,
    /// Whether the account that is signed in is the invited one.
    accepts: bool,
    has_account: bool,
    action: String,
    token: &'a str,
    /// Absent without screens.
    sign_in: Option<String>,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

/// Shows an invitation without accepting it.
///
/// With `as_other`, a signed-in user wants to register the invited address as another account.
pub(crate) async fn open(
    flow: &Flow,
    caller: &Caller,
    visitor: &Visitor,
    token: &Secret,
    next: Option<&Next>,
    as_other: bool,
) -> Opened {
    look(flow, caller, visitor, token, next, as_other).await.unwrap_or_else(|problem| Opened::Page(problem.into_page()))
}

async fn look(
    flow: &Flow,
    caller: &Caller,
    visitor: &Visitor,
    token: &Secret,
    next: Option<&Next>,
    as_other: bool,
) -> Result<Opened, Problem> {
    let core = &flow.core;
    let screens = core.screens.get().is_some();
    let on = || if screens { ProblemLink::new("way_on.sign_in", "/login") } else { ProblemLink::START };
    let Some(invitation) = flow.find(token).await? else {
        let problem = Problem::unauthorized(locale::text("invited.spent", &[])).with_code("invalid_token");
        return Err(problem.with_link(on()));
    };
    let tenant = match &invitation.tenant {
        Some(tenant) => Some(flow.tenant_name(tenant).await?),
        None => None,
    };
    let session = match &caller.0 {
        Identity::Known(principal) if matches!(principal.credential, Credential::Session { .. }) => Some(principal),
        _ => None,
    };
    let signed_in = session.and_then(|principal| principal.email.as_deref());
    let has_account = flow.has_account(&invitation.email).await?;
    let is_other = signed_in.is_some_and(|signed_in| signed_in != invitation.email.as_str());
    let registers = !has_account && screens && (signed_in.is_none() || is_other);
    if registers && core.config.registration == Registration::Closed {
        return Err(registration_closed().with_link(on()));
    }
    if registers && (as_other || !is_other) {
        return Ok(Opened::Registration { invitation, tenant });
    }
    let onward = next.map(|next| ("next", next.as_str()));
    let invite = || [("invite", token.expose())].into_iter().chain(onward);
    let here = Secret::new(with_query("/register", invite()));
    let back = Next::parse(here.expose());
    let sign_in = || match signed_in {
        Some(_) if has_account => login_as_other(back.as_ref()),
        Some(_) => with_query("/register", invite().chain([AS_OTHER])),
        None => with_next("/login", back.as_ref()),
    };
    let csrf = visitor.csrf_field();
    let context = Invited {
        email: invitation.email.as_str(),
        tenant: tenant.as_deref(),
        signed_in,
        accepts: signed_in == Some(invitation.email.as_str()),
        has_account,
        action: format!("{}/invitations/accept", core.config.base_path),
        token: token.expose(),
        sign_in: screens.then(sign_in),
        csrf: csrf.as_deref(),
        next: next.map(Next::as_str),
    };
    Ok(Opened::Page(page("invited.title", "invited.html", &context)))
}

/// The caller is a member now.
pub(super) fn joined(tenant: &str, onward: &str) -> Response {
    let text = locale::text("invited.joined", &[("tenant", tenant)]);
    mailed::note("invited.joined_title", &text, Some((onward, "form.continue")))
}
