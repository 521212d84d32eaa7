use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gatewright_base::{Scopes, SessionId, SigningKey};
use gatewright_http::{FormTarget, Problem};
use gatewright_tenancy::TenantOfUser;
use serde::Serialize;

use super::client::Client;
use super::device_page::{PATH, Place};
use super::redirect::RedirectUri;
use super::scopes::joined;
use super::server::Server;
use crate::fresh::Asked;
use crate::screens::{page, with_problem};
use crate::session::Session;
use crate::tokens::Resource;
use crate::web::Visitor;

/// Binds a consent form to its session and its request: no other page can post it, and none of its fields can be
/// changed.
#[derive(Clone)]
pub(super) struct Seal(pub(super) SigningKey);

/// The form that a seal is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Consent,
    Device,
    SignOut,
}

#[derive(Serialize)]
struct Context<'a> {
    client: &'a str,
    /// The host of its metadata document.
    host: Option<String>,
    /// The target of the answer, if a browser takes it there.
    destination: Option<String>,
    loopback: bool,
    /// The device that gets the access, if it polls for it.
    place: Option<&'a Place>,
    tools: bool,
    email: &'a str,
    /// The tenants that the user can choose from.
    tenants: Vec<Tenant<'a>>,
    scopes: Vec<String>,
    action: String,
    query: &'a str,
    seal: String,
    /// The proof that a session older than five minutes needs.
    fresh: Asked,
    problem: Option<&'a str>,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Tenant<'a> {
    id: &'a str,
    name: &'a str,
}

impl Seal {
    /// The seal of a request's query in a session.
    pub(super) fn of(&self, purpose: Purpose, session: &SessionId, query: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.tag(&parts(purpose, session, query)))
    }

    pub(super) fn is(&self, purpose: Purpose, seal: &str, session: &SessionId, query: &str) -> bool {
        let seal = BASE64_URL_SAFE_NO_PAD.decode(seal).unwrap_or_default();
        self.0.is_tag(&seal, &parts(purpose, session, query))
    }
}

fn parts<'p>(purpose: Purpose, session: &'p SessionId, query: &'p str) -> [&'p [u8]; 3] {
    let purpose: &[u8] = match purpose {
        Purpose::Consent => b"consent",
        Purpose::Device => b"device",
        Purpose::SignOut => b"sign out",
    };
    [purpose, session.as_str().as_bytes(), query.as_bytes()]
}

/// How the client gets its answer.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// The browser takes it there.
    Redirect(&'a RedirectUri),
    /// A device polls for it.
    Device(&'a Place),
}

/// What a user is asked.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) client: &'a Client,
    pub(super) scopes: &'a Scopes,
    pub(super) resource: Resource,
    pub(super) way: Way<'a>,
    /// What the form sends back, sealed: the query of the request, or the id of the device.
    pub(super) query: &'a str,
    /// The tenants that the user can choose from.
    pub(super) tenants: &'a [TenantOfUser],
    pub(super) fresh: Asked,
    /// Why the last answer was refused.
    pub(super) problem: Option<&'a Problem>,
}

/// The page that asks a user whether a program may act for them.
pub(super) fn show(
    server: &Server,
    seal: &Seal,
    visitor: &Visitor,
    session: &Session,
    asked: &Question<'_>,
) -> Response {
    let Question { client, scopes, resource, way, query, tenants, fresh, problem } = *asked;
    let (redirect, place) = match way {
        Way::Redirect(redirect) => (Some(redirect), None),
        Way::Device(place) => (None, Some(place)),
    };
    let (csrf, message) = (visitor.csrf_field(), problem.map(Problem::localized));
    let supported = server.supported();
    let context = Context {
        client: &client.name,
        host: client.host(),
        destination: redirect.map(RedirectUri::host),
        loopback: redirect.is_some_and(RedirectUri::is_loopback),
        place,
        tools: resource == Resource::Mcp,
        email: session.user().email.as_str(),
        tenants: tenants.iter().map(|tenant| Tenant { id: tenant.id.as_str(), name: &tenant.name }).collect(),
        scopes: scopes.iter().map(|scope| supported.text(scope)).collect(),
        action: match way {
            Way::Redirect(_) => format!("{}/oauth2/authorize", server.core.config.base_path),
            Way::Device(_) => PATH.to_owned(),
        },
        query,
        seal: seal.of(if place.is_some() { Purpose::Device } else { Purpose::Consent }, session.id(), query),
        fresh,
        problem: message.as_deref(),
        csrf: csrf.as_deref(),
        next: None,
    };
    tracing::debug!(client = %client.id, scopes = joined(scopes), "asking for consent");
    let mut response = page("consent.title", "consent.html", &context);
    if let Some(redirect) = redirect {
        // Browsers apply the page's policy to the answer of its form, so the policy allows the answer's target.
        FormTarget::allow(&[redirect.form_target()], &mut response);
    }
    match problem {
        Some(problem) => with_problem(problem, response),
        None => response,
    }
}
