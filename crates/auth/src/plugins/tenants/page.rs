//! The pages of an invitation.

use axum::response::Response;
use gatewright_base::Secret;
use gatewright_http::{Next, locale};
use gatewright_tenancy::{Invitation, TenantOfUser};
use serde::Serialize;

use crate::Core;
use crate::plugins::web::Visitor;
use crate::screens::paths::{login_as_other, with_next};
use crate::screens::{mailed, page};
use crate::session::AnySession;

#[derive(Serialize)]
struct Context<'a> {
    tenant: &'a str,
    email: &'a str,
    /// Whether the session at hand is the invited account's.
    invited: bool,
    /// Where to sign in or to register, for everybody else.
    sign_in: Option<&'a str>,
    register: Option<&'a str>,
    action: &'a str,
    token: &'a str,
    csrf: Option<&'a str>,
}

/// Asks whether to join, or tells how to come back as the account that was invited.
pub(super) fn confirm(
    core: &Core,
    visitor: &Visitor,
    session: Option<&AnySession>,
    invitation: &Invitation,
    token: &Secret,
) -> Response {
    let action = format!("{}/tenants/accept", core.config.base_path);
    let csrf = visitor.csrf_field();
    let invited = matches!(session, Some(AnySession::Full(full)) if full.user().email.as_str() == invitation.email);
    let links = core.screens.get().filter(|_| !invited).map(|_| {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", token.expose()).finish();
        let next = Next::parse(&format!("{action}?{query}"));
        let sign_in = match session {
            Some(_) => login_as_other(next.as_ref()),
            None => with_next("/login", next.as_ref()),
        };
        (Secret::new(sign_in), Secret::new(with_next("/register", next.as_ref())))
    });
    let context = Context {
        tenant: &invitation.tenant_name,
        email: &invitation.email,
        invited,
        sign_in: links.as_ref().map(|(sign_in, _)| sign_in.expose()),
        register: links.as_ref().filter(|_| session.is_none()).map(|(_, register)| register.expose()),
        action: &action,
        token: token.expose(),
        csrf: csrf.as_deref(),
    };
    page("tenant.title", "join_tenant.html", &context)
}

/// The caller is a member.
pub(super) fn joined(tenant: &TenantOfUser) -> Response {
    let text = locale::text("tenant.joined", &[("tenant", &tenant.name)]);
    mailed::note("tenant.joined_title", &text, Some(("/", "form.continue")))
}
