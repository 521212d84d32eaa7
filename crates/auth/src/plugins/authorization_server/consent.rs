use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gatewright_base::SigningKey;
use gatewright_tenancy::TenantOfUser;
use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;
use serde::Serialize;

use super::request::AuthorizationRequest;
use super::scopes::joined;
use super::server::Server;
use crate::screens::page;
use crate::session::Session;
use crate::tokens::Resource;
use crate::web::Visitor;

/// Binds a consent form to its session and its request: no other page can post it, and none of its fields can be
/// changed.
#[derive(Clone)]
pub(super) struct Seal(pub(super) SigningKey);

#[derive(Serialize)]
struct Context<'a> {
    client: &'a str,
    /// The host of its metadata document.
    host: Option<String>,
    /// The target of the answer.
    destination: String,
    loopback: bool,
    tools: bool,
    email: &'a str,
    /// The tenants that the user can choose from.
    tenants: Vec<Tenant<'a>>,
    scopes: Vec<String>,
    action: String,
    query: &'a str,
    seal: String,
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
    pub(super) fn of(&self, session: &Session, query: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.tag(&parts(session, query)))
    }

    pub(super) fn is(&self, seal: &str, session: &Session, query: &str) -> bool {
        let seal = BASE64_URL_SAFE_NO_PAD.decode(seal).unwrap_or_default();
        self.0.is_tag(&seal, &parts(session, query))
    }
}

fn parts<'p>(session: &'p Session, query: &'p str) -> [&'p [u8]; 2] {
    [session.id().as_str().as_bytes(), query.as_bytes()]
}

/// The page that asks a user whether a program may act for them.
pub(super) fn show(
    server: &Server,
    seal: &Seal,
    visitor: &Visitor,
    session: &Session,
    request: &AuthorizationRequest,
    query: &str,
    tenants: &[TenantOfUser],
) -> Response {
    let csrf = visitor.csrf_field();
    let supported = server.supported();
    let context = Context {
        client: &request.client.name,
        host: request.client.host(),
        destination: request.redirect.host(),
        loopback: request.redirect.is_loopback(),
        tools: request.resource == Resource::Mcp,
        email: session.user().email.as_str(),
        tenants: tenants.iter().map(|tenant| Tenant { id: tenant.id.as_str(), name: &tenant.name }).collect(),
        scopes: request.scopes.iter().map(|scope| supported.text(scope)).collect(),
        action: format!("{}/oauth2/authorize", server.core.config.base_path),
        query,
        seal: seal.of(session, query),
        csrf: csrf.as_deref(),
        next: None,
    };
    tracing::debug!(client = %request.client.id, scopes = joined(&request.scopes), "asking for consent");
    let mut response = page("consent.title", "consent.html", &context);
    // Browsers apply the page's policy to the answer of its form, so the policy allows the answer's target.
    let policy = response.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
    let destination = format!("form-action 'self' {}", request.redirect.policy_source());
    let policy = policy.map(|policy| HeaderValue::from_str(&policy.replace("form-action 'self'", &destination)));
    if let Some(Ok(policy)) = policy {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}
