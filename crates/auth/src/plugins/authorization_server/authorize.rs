use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use gatewright_base::Identity;
use gatewright_http::{Caller, Next, Problem};
use http::StatusCode;

use super::consent::{self, Seal};
use super::consents::Consented;
use super::documents::DocumentError;
use super::error::Failure;
use super::parameters::Parameters;
use super::request::{AuthorizationRequest, Refusal};
use super::scopes::within;
use super::server::Server;
use crate::screens::paths::{login_as_other, with_next};
use crate::session::Session;
use crate::web::{Visitor, see_other};
use crate::{problem, step_up};

/// The state of the authorization endpoint.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) server: Server,
    pub(super) seal: Seal,
}

/// `GET {base}/oauth2/authorize`: asks the user once for each set of scopes.
pub(super) async fn ask(
    State(endpoint): State<Endpoint>,
    Caller(identity): Caller,
    session: Result<Session, Problem>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let session = match session {
        Ok(session) => session,
        Err(problem) => return send_to_sign_in(&endpoint.server, problem, &identity, &query),
    };
    let request = match endpoint.check(&session, &query).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let server = &endpoint.server;
    let choice = match server.choice(&session.user().id, &request).await {
        Ok(choice) => choice,
        Err(error) => return Problem::from(error).into_page(),
    };
    if !choice.is_open() && !request.ask {
        let allowed = server.consented(&session.user().id, &request, choice.only().cloned());
        match server.consents.find(&allowed).await {
            Ok(Some(consent)) if within(&request.scopes, &consent.scopes).is_some() => {
                return endpoint.allow(allowed, &request).await;
            }
            Ok(_) => {}
            Err(error) => return problem::store_failed(&error).into_page(),
        }
    }
    consent::show(server, &endpoint.seal, &visitor, &session, &request, &query, choice.offered())
}

/// `POST {base}/oauth2/authorize`: the form of the page.
pub(super) async fn decide(
    State(endpoint): State<Endpoint>,
    session: Result<Session, Problem>,
    visitor: Visitor,
    body: Bytes,
) -> Response {
    let session = match session {
        Ok(session) => session,
        Err(problem) => return problem.into_page(),
    };
    let stale = || Problem::forbidden("this form is not of this session; open the application again").into_page();
    let Ok(form) = Parameters::parse(&body) else { return stale() };
    let (query, seal) = (form.get("request").unwrap_or_default(), form.get("seal").unwrap_or_default());
    if !endpoint.seal.is(seal, &session, query) {
        return stale();
    }
    let request = match endpoint.check(&session, query).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let server = &endpoint.server;
    if form.get("decision") != Some("allow") {
        let refused = [("error", "access_denied"), ("error_description", "the user refused")];
        return go(&request.answer(&server.resources, &refused));
    }
    let tenant = match server.choice(&session.user().id, &request).await {
        Ok(choice) => choice.taken(form.get("tenant")),
        Err(error) => return Problem::from(error).into_page(),
    };
    let Ok(tenant) = tenant else {
        return Problem::bad_request("choose one of your tenants; open the application again").into_page();
    };
    let allowed = server.consented(&session.user().id, &request, tenant);
    match server.consents.remember(&server.core.ambient, &allowed, &request.client, &request.scopes).await {
        Ok(true) => {}
        Ok(false) => {
            let full = "your account has too many connected applications; end one on your account page first";
            return Problem::conflict(full).with_code("too_many_connections").into_page();
        }
        Err(error) => return problem::store_failed(&error).into_page(),
    }
    server.audit_consent(&allowed, &request, &visitor.client).await;
    endpoint.allow(allowed, &request).await
}

impl Endpoint {
    /// The request, if it is valid and the session is sufficient. Otherwise the answer for the browser.
    async fn check(&self, session: &Session, query: &str) -> Result<AuthorizationRequest, Response> {
        let server = &self.server;
        match step_up::require(&server.core, session).await {
            Ok(()) => {}
            Err(step_up::StepUpError::Required) => {
                // The session is older than the second factor: only a new sign-in asks for it.
                return Err(see_other(&login_as_other(here(server, query).as_ref())));
            }
            Err(error) => return Err(Problem::from(error).into_page()),
        }
        let parameters = Parameters::parse(query.as_bytes());
        let parameters = parameters.map_err(|error| Problem::bad_request(error.description).into_page())?;
        let Some(id) = parameters.get("client_id") else {
            return Err(Problem::bad_request("client_id is missing").into_page());
        };
        let client = match server.client_for(id, &session.user().id).await {
            Ok(Some(client)) => client,
            Ok(None) => return Err(Problem::bad_request("unknown client").with_code("invalid_client").into_page()),
            Err(DocumentError::Store(error)) => return Err(problem::store_failed(&error).into_page()),
            Err(DocumentError::Busy) => {
                let busy = "too many client documents are being fetched; try again in a moment";
                return Err(Problem::unavailable(busy, std::time::Duration::from_secs(5)).into_page());
            }
            Err(error) => {
                return Err(Problem::bad_request(error.to_string()).with_code("invalid_client").into_page());
            }
        };
        AuthorizationRequest::check(&parameters, client, server.supported(), &server.resources).map_err(|refusal| {
            match refusal {
                Refusal::Page(message) => Problem::bad_request(message).with_code("invalid_redirect_uri").into_page(),
                Refusal::Redirect { to, .. } => go(&to),
            }
        })
    }

    async fn allow(&self, allowed: Consented, request: &AuthorizationRequest) -> Response {
        match self.server.code(allowed, request).await {
            Ok(code) => go(&request.answer(&self.server.resources, &[("code", code.expose())])),
            Err(failure) => failure_page(failure),
        }
    }
}

/// A browser without a valid session is redirected to the sign-in, and returns afterwards. A program gets the refusal.
fn send_to_sign_in(server: &Server, problem: Problem, identity: &Identity, query: &str) -> Response {
    let screens = server.core.screens.get();
    let next = here(server, query);
    match (identity, screens) {
        (Identity::Anonymous, Some(_)) => see_other(&with_next("/login", next.as_ref())),
        (Identity::Pending(_), Some(screens)) if screens.second_factor.is_some() => {
            see_other(&with_next(screens.second_factor.unwrap_or_default(), next.as_ref()))
        }
        _ => problem.into_page(),
    }
}

/// The address of this very request, to come back to.
fn here(server: &Server, query: &str) -> Option<Next> {
    Next::parse(&format!("{}/oauth2/authorize?{query}", server.core.config.base_path))
}

/// 303 to a client. The address may contain a code: it must not be stored or passed on.
fn go(address: &str) -> Response {
    let mut response = Redirect::to(address).into_response();
    let headers = response.headers_mut();
    headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    headers.insert(http::header::REFERRER_POLICY, http::HeaderValue::from_static("no-referrer"));
    response
}

fn failure_page(failure: Failure) -> Response {
    match failure {
        Failure::Store(error) => problem::store_failed(&*error).into_page(),
        Failure::Refused(error) => {
            Problem::new(StatusCode::BAD_REQUEST, error.code.name(), error.description).into_page()
        }
    }
}
