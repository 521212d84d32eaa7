use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use gatewright_base::{Identity, Secret};
use gatewright_http::{Caller, Next, Problem, locale};
use http::StatusCode;

use super::client::{Client, Source};
use super::consent::{self, Purpose, Question, Seal, Way};
use super::consents::Consented;
use super::documents::DocumentError;
use super::error::{Code, Failure, OAuthError};
use super::openid::id_token::only_signs_in;
use super::openid::login::{MAX_TEXT as MAX_HINT, after_sign_in};
use super::parameters::Parameters;
use super::request::{AuthorizationRequest, Refusal};
use super::scopes::within;
use super::server::Server;
use super::trust::ErrorAnswer;
use crate::fresh::{self, Asked, Fresh, FreshError, Given};
use crate::mail::Notice;
use crate::open_session::{OpenSession, is_open};
use crate::screens::mailed::note;
use crate::screens::paths::{login_as_other, with_next, with_query};
use crate::session::Session;
use crate::web::{Visitor, see_other};
use crate::{problem, step_up};

/// The state of the authorization endpoint.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) server: Server,
    pub(super) seal: Seal,
    pub(super) fresh: Arc<Fresh>,
}

/// `GET {base}/oauth2/authorize`: asks the user once for each set of scopes, and in a session older than five minutes if the
/// program's access outlives the session.
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
        Err(problem) => return endpoint.signed_out(problem, &identity, &query).await,
    };
    let request = match endpoint.check(&session, &query).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    endpoint.asked(&session, &visitor, &request, &query).await.unwrap_or_else(|answer| answer)
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
    if !endpoint.seal.is(Purpose::Consent, seal, session.id(), query) {
        return stale();
    }
    let request = match endpoint.check(&session, query).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let server = &endpoint.server;
    if form.get("decision") != Some("allow") {
        return endpoint.cancelled(&session, &request).await;
    }
    if let Err(answer) = endpoint.signed_in_as_wanted(&session, &request, query).await {
        return answer;
    }
    let choice = match server.choice(&session.user().id, &request.scopes, request.tenant.as_ref()).await {
        Ok(choice) => choice,
        Err(error) => return Problem::from(error).into_page(),
    };
    let secret = |name| form.get(name).filter(|text| !text.is_empty()).map(Secret::new);
    let given = Given { password: secret("password"), code: secret("code") };
    let proven = if only_signs_in(&request.scopes) {
        Ok(())
    } else {
        endpoint.fresh.require_unless_young(&session, &given, &visitor.client, "connecting a program").await
    };
    if let Err(error) = proven {
        let (problem, fresh) = (Problem::from(error), fresh::asked_unless_young(&server.core, &session).await);
        let Ok(fresh) = fresh else { return problem.into_page() };
        let asked = Question { query, tenants: choice.offered(), problem: Some(&problem), ..asking(&request, fresh) };
        return consent::show(server, &endpoint.seal, &visitor, &session, &asked);
    }
    let Ok(tenant) = choice.taken(form.get("tenant")) else {
        return Problem::bad_request("choose one of your tenants; open the application again").into_page();
    };
    let allowed = server.consented(&session.user().id, &request.client, request.resource, tenant);
    let open = OpenSession::of(&server.core, &session, server.consents.database());
    let event = match server.begin_consent(&allowed, &request.client, &request.scopes, &visitor.client).await {
        Ok(event) => event,
        Err(error) => return Problem::from(error).into_page(),
    };
    match server.consents.remember(&server.core.ambient, &open, &allowed, &request.client, &request.scopes).await {
        Ok(Some(true)) => {}
        Ok(None) => {
            event.withdraw().await;
            return Problem::from(FreshError::SessionEnded).into_page();
        }
        Ok(Some(false)) => {
            event.withdraw().await;
            return too_many_connections().into_page();
        }
        Err(error) => return problem::store_failed(&error).into_page(),
    }
    event.done().await;
    server.core.notify(session.user(), Notice::ProgramConnected).await;
    endpoint.allow(&session, allowed, &request).await
}

impl Endpoint {
    /// A request without a session: to the sign-in, unless no page may be shown.
    async fn signed_out(&self, problem: Problem, identity: &Identity, query: &str) -> Response {
        let server = &self.server;
        let parameters = Parameters::parse(query.as_bytes()).ok();
        let hint = parameters.as_ref().and_then(|parameters| parameters.get("login_hint")).map(str::to_owned);
        if let Some(parameters) = parameters.filter(|_| server.supported().has_identity())
            && parameters.get("prompt") == Some("none")
        {
            return self.silent(&parameters).await;
        }
        let hint = hint.filter(|hint| hint.len() <= MAX_HINT && server.supported().has_identity());
        send_to_sign_in(server, problem, identity, here(server, query).as_ref(), hint.as_deref())
    }

    /// `prompt=none` without a session. Only the operator's own clients get the answer: nobody else is known to be trusted.
    async fn silent(&self, parameters: &Parameters) -> Response {
        let server = &self.server;
        let login_required = || OAuthError::new(Code::LoginRequired, "the user is not signed in");
        let id = parameters.get("client_id").unwrap_or_default();
        let client = match server.clients.find(id).await {
            Ok(Some(client)) => client,
            Ok(None) => return failure_page(login_required().into()),
            Err(error) => return problem::store_failed(&error).into_page(),
        };
        let Some(trust) = client.trusted() else { return failure_page(login_required().into()) };
        match AuthorizationRequest::check(parameters, client, server.supported(), &server.resources) {
            Ok(request) => go(request.failed(&server.resources, login_required()).address(&trust)),
            Err(Refusal::Client(answer)) => go(answer.address(&trust)),
            Err(Refusal::Page(message)) => Problem::bad_request(message).with_code("invalid_redirect_uri").into_page(),
        }
    }

    /// The answer to a valid request of a session: a code, or a page.
    async fn asked(
        &self,
        session: &Session,
        visitor: &Visitor,
        request: &AuthorizationRequest,
        query: &str,
    ) -> Result<Response, Response> {
        let (server, login) = (&self.server, &request.login);
        self.signed_in_as_wanted(session, request, query).await?;
        let choice = server.choice(&session.user().id, &request.scopes, request.tenant.as_ref()).await;
        let choice = choice.map_err(|error| Problem::from(error).into_page())?;
        // Access that outlives the session needs a proof in an old one.
        let needs_proof = !fresh::is_young(&server.core, session) && !only_signs_in(&request.scopes);
        let fresh = if needs_proof {
            fresh::asked(&server.core, session).await.map_err(|error| Problem::from(error).into_page())?
        } else {
            Asked { password: false, code: false }
        };
        if needs_proof && !fresh.password {
            // An account without a password can prove nothing here.
            let description = "the user has to sign in again";
            self.unless_silent(session, request, Code::LoginRequired, description).await?;
            return Ok(see_other(&login_as_other(here(server, query).as_ref())));
        }
        if !needs_proof && !choice.is_open() && !login.consent {
            let only = choice.only().cloned();
            let allowed = server.consented(&session.user().id, &request.client, request.resource, only);
            match server.consents.find(&allowed).await {
                Ok(Some(consent)) if within(&request.scopes, &consent.scopes).is_some() => {
                    return Ok(self.allow(session, allowed, request).await);
                }
                Ok(_) => {}
                Err(error) => return Err(problem::store_failed(&error).into_page()),
            }
        }
        let (code, description) = if needs_proof {
            (Code::LoginRequired, "the user has to sign in again")
        } else if choice.is_open() {
            (Code::InteractionRequired, "the user has to choose a tenant")
        } else {
            (Code::ConsentRequired, "the user has to allow this")
        };
        self.unless_silent(session, request, code, description).await?;
        let asked = Question { query, tenants: choice.offered(), ..asking(request, fresh) };
        Ok(consent::show(server, &self.seal, visitor, session, &asked))
    }

    /// Passes a session that began as the client wants, of the user that it means. Otherwise the browser goes to the sign-in, once.
    async fn signed_in_as_wanted(
        &self,
        session: &Session,
        request: &AuthorizationRequest,
        query: &str,
    ) -> Result<(), Response> {
        let (server, login) = (&self.server, &request.login);
        let is_other = login
            .meant
            .as_deref()
            .is_some_and(|token| server.hint(token).is_none_or(|hint| hint.user != session.user().id.as_str()));
        if !is_other && !login.want_another(session.started_at(), server.now()) {
            return Ok(());
        }
        let description = "the user has to sign in again";
        self.unless_silent(session, request, Code::LoginRequired, description).await?;
        if is_other && login.has_returned(session.started_at(), server.now()) {
            // The user has signed in, and still is another one.
            let error = OAuthError::new(Code::LoginRequired, "another user is signed in");
            return Err(self
                .refuse(session, &request.client.id, request.client.source, request.failed(&server.resources, error))
                .await);
        }
        let next = here(server, &after_sign_in(query, server.now()));
        Err(see_other(&with_hint(&login_as_other(next.as_ref()), login.hint.as_deref())))
    }

    /// Passes a request that may show a page. Otherwise the error goes to the client.
    async fn unless_silent(
        &self,
        session: &Session,
        request: &AuthorizationRequest,
        code: Code,
        description: &'static str,
    ) -> Result<(), Response> {
        if !request.login.silent {
            return Ok(());
        }
        let answer = request.failed(&self.server.resources, OAuthError::new(code, description));
        Err(self.refuse(session, &request.client.id, request.client.source, answer).await)
    }

    /// Takes an error to a client that is trusted. Otherwise the user sees it.
    async fn refuse(&self, session: &Session, client: &str, source: Source, answer: ErrorAnswer) -> Response {
        match self.server.trust(client, source, &session.user().id).await {
            Ok(Some(trust)) => go(answer.address(&trust)),
            Ok(None) => failure_page(answer.error.into()),
            Err(error) => problem::store_failed(&error).into_page(),
        }
    }

    /// The request, if it is valid and the session is sufficient. Otherwise the answer for the browser.
    async fn check(&self, session: &Session, query: &str) -> Result<AuthorizationRequest, Response> {
        let server = &self.server;
        let parameters = Parameters::parse(query.as_bytes());
        let parameters = parameters.map_err(|error| Problem::bad_request(error.description).into_page())?;
        let Some(id) = parameters.get("client_id") else {
            return Err(Problem::bad_request("client_id is missing").into_page());
        };
        let client = client(server, id, session).await.map_err(Problem::into_page)?;
        let (id, source) = (client.id.clone(), client.source);
        let request = match AuthorizationRequest::check(&parameters, client, server.supported(), &server.resources) {
            Ok(request) => request,
            Err(Refusal::Page(message)) => {
                return Err(Problem::bad_request(message).with_code("invalid_redirect_uri").into_page());
            }
            Err(Refusal::Client(answer)) => return Err(self.refuse(session, &id, source, answer).await),
        };
        match step_up::require(&server.core, session).await {
            Ok(()) => Ok(request),
            Err(step_up::StepUpError::Required) => {
                // The session is older than the second factor: only a new sign-in asks for it.
                let description = "the user has to prove a second factor";
                self.unless_silent(session, &request, Code::LoginRequired, description).await?;
                Err(see_other(&login_as_other(here(server, query).as_ref())))
            }
            Err(error) => Err(Problem::from(error).into_page()),
        }
    }

    /// The user refused. A client that is not trusted gets the answer only if the user follows the link.
    async fn cancelled(&self, session: &Session, request: &AuthorizationRequest) -> Response {
        let (server, client) = (&self.server, &request.client);
        let answer = request.refused(&server.resources);
        match server.trust(&client.id, client.source, &session.user().id).await {
            Ok(Some(trust)) => go(answer.address(&trust)),
            Ok(None) => {
                let destination = request.redirect.host();
                let values = [("client", &*client.name), ("destination", &destination)];
                let text = locale::text("consent.cancelled", &values);
                note("consent.cancelled_title", &text, Some((answer.link(), "consent.return")))
            }
            Err(error) => problem::store_failed(&error).into_page(),
        }
    }

    /// Gives the client a code, unless the session ended while the request waited.
    async fn allow(&self, session: &Session, allowed: Consented, request: &AuthorizationRequest) -> Response {
        let server = &self.server;
        let open = OpenSession::of(&server.core, session, server.consents.database());
        let (grant, code) = match server.code(session, &open, allowed, request).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Problem::from(FreshError::SessionEnded).into_page(),
            Err(failure) => return failure_page(failure),
        };
        // Nobody knows the code until it is in the answer.
        match still_open(server, session, &open, &grant, &request.client.id).await {
            Ok(()) => go(&request.with_code(&server.resources, &code)),
            Err(answer) => answer,
        }
    }
}

/// Ends a grant that was just stored, if its session has ended. Accounts in a store of the program's own share no
/// transaction: a claim may have looked for grants before this one was stored.
pub(super) async fn still_open(
    server: &Server,
    session: &Session,
    open: &OpenSession,
    grant: &str,
    client: &str,
) -> Result<(), Response> {
    let is_open = if open.is_shared() { Ok(true) } else { is_open(&server.core, session).await };
    match is_open {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) => return Err(Problem::from(error).into_page()),
    }
    server.end(grant).await.map_err(failure_page)?;
    match server.consents.forget_of(&session.user().id, client, session.started_at()).await {
        Ok(_) => Err(Problem::from(FreshError::SessionEnded).into_page()),
        Err(error) => Err(problem::store_failed(&error).into_page()),
    }
}

/// 409: the user has to end a connection first.
pub(super) fn too_many_connections() -> Problem {
    let full = "your account has too many connected applications; end one on your account page first";
    Problem::conflict(full).with_code("too_many_connections")
}

/// What a request asks the user.
fn asking(request: &AuthorizationRequest, fresh: Asked) -> Question<'_> {
    Question {
        client: &request.client,
        scopes: &request.scopes,
        resource: request.resource,
        way: Way::Redirect(&request.redirect),
        query: "",
        tenants: &[],
        fresh,
        problem: None,
    }
}

/// The client with this id. A metadata document is fetched for the user of the session.
pub(super) async fn client(server: &Server, id: &str, session: &Session) -> Result<Client, Problem> {
    match server.client_for(id, &session.user().id).await {
        Ok(Some(client)) => Ok(client),
        Ok(None) => Err(Problem::bad_request("unknown client").with_code("invalid_client")),
        Err(DocumentError::Store(error)) => Err(problem::store_failed(&error)),
        Err(DocumentError::Busy) => {
            let busy = "too many client documents are being fetched; try again in a moment";
            Err(Problem::unavailable(busy, std::time::Duration::from_secs(5)))
        }
        Err(error) => Err(Problem::bad_request(error.to_string()).with_code("invalid_client")),
    }
}

/// A browser without a valid session is redirected to the sign-in, and returns afterwards. A program gets the refusal.
pub(super) fn send_to_sign_in(
    server: &Server,
    problem: Problem,
    identity: &Identity,
    next: Option<&Next>,
    hint: Option<&str>,
) -> Response {
    let screens = server.core.screens.get();
    match (identity, screens) {
        (Identity::Anonymous, Some(_)) => see_other(&with_hint(&with_next("/login", next), hint)),
        (Identity::Pending(_), Some(screens)) if screens.second_factor.is_some() => {
            see_other(&with_next(screens.second_factor.unwrap_or_default(), next))
        }
        _ => problem.into_page(),
    }
}

/// A sign-in page with the address that a program expects.
fn with_hint(path: &str, hint: Option<&str>) -> String {
    let Some(hint) = hint else { return path.to_owned() };
    let pair = with_query("", [("login_hint", hint)]);
    let separator = if path.contains('?') { "&" } else { "?" };
    format!("{path}{separator}{}", pair.trim_start_matches('?'))
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

pub(super) fn failure_page(failure: Failure) -> Response {
    match failure {
        Failure::Store(error) => problem::store_failed(&*error).into_page(),
        Failure::Refused(error) => {
            Problem::new(StatusCode::BAD_REQUEST, error.code.name(), error.description).into_page()
        }
    }
}
