//! The page `/device`, on which a user types the code of a device and decides (RFC 8628, section 3.3).
//!
//! Opening the page looks nothing up, also with the code in its address: the user has to press a button. The next page names
//! the client, from where the device asked, and the scopes, and takes another click. Anybody can send a code of their own
//! device to somebody else (RFC 8628, section 5.4), so it warns, and more if the device is in another network.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use gatewright_base::Secret;
use gatewright_http::{Caller, Next, Problem, Query, layers, locale};
use gatewright_limits::Limiter;
use serde::Serialize;

use super::authorize::{self, Endpoint, failure_page, send_to_sign_in, still_open, too_many_connections};
use super::client::Client;
use super::consent::{self, Purpose, Question, Way};
use super::consents::Consented;
use super::devices::{Allowed, Device, Letters};
use super::error::{Code, Failure, OAuthError};
use super::openid::id_token::Login;
use super::openid::words;
use super::parameters::Parameters;
use super::rows::Grant;
use super::scopes::within;
use super::tenant::Choice;
use crate::fresh::{self, FreshError, Given};
use crate::mail::Notice;
use crate::open_session::OpenSession;
use crate::screens::account::Moment;
use crate::screens::mailed::note;
use crate::screens::paths::{login_as_other, with_query};
use crate::screens::{page, with_problem};
use crate::session::Session;
use crate::web::{Visitor, guarded_proof, not_counted, proved, see_other};
use crate::{devices, problem, step_up};

/// Where the page is.
pub(super) const PATH: &str = "/device";

#[derive(Clone)]
struct RouteState {
    endpoint: Endpoint,
    /// Wrong codes of an account.
    by_account: Limiter,
}

/// From where a device asked.
#[derive(Serialize)]
pub(super) struct Place {
    address: Option<String>,
    name: String,
    at: Moment,
    /// Whether it is in another network than this browser.
    elsewhere: bool,
}

#[derive(serde::Deserialize)]
struct PageQuery {
    user_code: Option<String>,
}

#[derive(Serialize)]
struct Form<'a> {
    action: &'static str,
    code: &'a str,
    email: &'a str,
    problem: Option<&'a str>,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

/// The page, at the root.
pub(super) fn routes(endpoint: Endpoint, by_account: Limiter) -> Router {
    let core = endpoint.server.core.clone();
    let by_address = core.limiter("device", &core.config.limits.device);
    let decide = guarded_proof(&core, &by_address, post(decide));
    Router::new()
        .route(PATH, get(ask).merge(decide))
        .with_state(RouteState { endpoint, by_account })
        .layer(layers::NoStoreLayer)
}

async fn ask(
    State(state): State<RouteState>,
    Caller(identity): Caller,
    session: Result<Session, Problem>,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    let server = &state.endpoint.server;
    let code = query.user_code.unwrap_or_default();
    match session {
        Ok(session) => show(&visitor, &session, &code, None),
        Err(problem) => send_to_sign_in(server, problem, &identity, here(&code).as_ref(), None),
    }
}

/// The address of the page with a code.
fn here(code: &str) -> Option<Next> {
    let code = Some(("user_code", code)).filter(|(_, code)| !code.is_empty());
    Next::parse(&with_query(PATH, code))
}

fn show(visitor: &Visitor, session: &Session, code: &str, problem: Option<&Problem>) -> Response {
    let (csrf, message) = (visitor.csrf_field(), problem.map(Problem::localized));
    let form = Form {
        action: PATH,
        code,
        email: session.user().email.as_str(),
        problem: message.as_deref(),
        csrf: csrf.as_deref(),
        next: None,
    };
    let page = page("device.title", "device.html", &form);
    match problem {
        Some(problem) => with_problem(problem, page),
        None => page,
    }
}

async fn decide(
    State(state): State<RouteState>,
    session: Result<Session, Problem>,
    visitor: Visitor,
    body: Bytes,
) -> Response {
    let session = match session {
        Ok(session) => session,
        Err(problem) => return problem.into_page(),
    };
    let form = match Parameters::parse(&body) {
        Ok(form) => form,
        Err(error) => return Problem::bad_request(error.description).into_page(),
    };
    let answer = match form.get("decision") {
        None => state.find(&session, &visitor, form.get("user_code").unwrap_or_default()).await,
        Some(decision) => state.decided(&session, &visitor, decision == "allow", &form).await,
    };
    answer.unwrap_or_else(|answer| answer)
}

impl RouteState {
    /// Asks about the device with a typed code. A wrong one counts for the account and the address.
    async fn find(&self, session: &Session, visitor: &Visitor, typed: &str) -> Result<Response, Response> {
        let (server, user) = (&self.endpoint.server, &session.user().id);
        let wrong = || {
            let problem = Problem::invalid_field("user_code", "invalid", "unknown or expired code");
            show(visitor, session, typed, Some(&problem))
        };
        // What is no code is no guess.
        let Some(letters) = Letters::parse(typed) else { return Err(not_counted(wrong())) };
        // Counted before the code is looked up, so that no number of parallel guesses gets past the limit.
        let attempt = self.by_account.begin(user.as_str()).await;
        let attempt = attempt.map_err(|denied| not_counted(denied.into_response()))?;
        let found = server.devices.find(&letters, server.now()).await;
        let Some(device) = found.map_err(|error| problem::store_failed(&error).into_page())? else {
            return Err(wrong());
        };
        attempt.give_back().await;
        let asked = self.asked(session, &device).await.map_err(proved)?;
        let fresh = fresh::asked_unless_young(&server.core, session).await;
        let fresh = fresh.map_err(|error| proved(Problem::from(error).into_page()))?;
        if !fresh::is_young(&server.core, session) && !fresh.password {
            // An account without a password can prove nothing here.
            return Ok(proved(see_other(&login_as_other(here(typed).as_ref()))));
        }
        Ok(proved(self.question(session, visitor, &device, &asked, fresh, None)))
    }

    /// The form of the second page.
    async fn decided(
        &self,
        session: &Session,
        visitor: &Visitor,
        allows: bool,
        form: &Parameters,
    ) -> Result<Response, Response> {
        let (server, seal) = (&self.endpoint.server, &self.endpoint.seal);
        let id = form.get("request").unwrap_or_default();
        if !seal.is(Purpose::Device, form.get("seal").unwrap_or_default(), session.id(), id) {
            let stale = "this form is not of this session; type the code again";
            return Err(Problem::forbidden(stale).into_page());
        }
        let found = server.devices.waiting(id, server.now()).await;
        let found = found.map_err(|error| proved(problem::store_failed(&error).into_page()))?;
        let device = found.ok_or_else(|| proved(too_late()))?;
        if !allows {
            server.devices.deny(&device.id).await.map_err(|error| proved(problem::store_failed(&error).into_page()))?;
            return Ok(proved(note("device.denied_title", &locale::text("device.denied", &[]), None)));
        }
        let asked = self.asked(session, &device).await.map_err(proved)?;
        let secret = |name| form.get(name).filter(|text| !text.is_empty()).map(Secret::new);
        let given = Given { password: secret("password"), code: secret("code") };
        let fresh = &self.endpoint.fresh;
        let proven = fresh.require_unless_young(session, &given, &visitor.client, "connecting a device").await;
        if let Err(error) = proven {
            let problem = Problem::from(error);
            let fresh = fresh::asked_unless_young(&server.core, session).await;
            let fresh = fresh.map_err(|error| proved(Problem::from(error).into_page()))?;
            return Err(proved(self.question(session, visitor, &device, &asked, fresh, Some(&problem))));
        }
        let Ok(tenant) = asked.choice.taken(form.get("tenant")) else {
            return Err(proved(Problem::bad_request("choose one of your tenants; type the code again").into_page()));
        };
        let to = Consented {
            user: session.user().id.clone(),
            client: device.client.clone(),
            resource: device.resource.clone(),
            tenant,
        };
        self.allow(session, visitor, &device, &asked.client, to).await.map(proved).map_err(proved)
    }

    async fn allow(
        &self,
        session: &Session,
        visitor: &Visitor,
        device: &Device,
        client: &Client,
        to: Consented,
    ) -> Result<Response, Response> {
        let server = &self.endpoint.server;
        let stored = |error: gatewright_db::Error| problem::store_failed(&error).into_page();
        let open = OpenSession::of(&server.core, session, server.consents.database());
        let event = server.begin_consent(&to, client, &device.scopes, &visitor.client).await;
        let event = event.map_err(|error| Problem::from(error).into_page())?;
        match server
            .consents
            .remember(&server.core.ambient, &open, &to, client, &device.scopes)
            .await
            .map_err(stored)?
        {
            Some(true) => {}
            None => {
                event.withdraw().await;
                return Err(Problem::from(FreshError::SessionEnded).into_page());
            }
            Some(false) => {
                event.withdraw().await;
                return Err(too_many_connections().into_page());
            }
        }
        let grant = Grant {
            id: server.core.ambient.uuid().to_string(),
            user: to.user,
            client: to.client,
            resource: to.resource,
            tenant: to.tenant,
            scopes: device.scopes.clone(),
            redirect_uri: None,
            // No verifier proves it: a device code is no authorization code.
            challenge: String::new(),
            login: words::IDENTITY
                .is_in(&device.scopes)
                .then(|| Login::of(session, false, None, client.identity.algorithm)),
            created_at: server.now(),
        };
        match server.devices.allow(&open, device, &grant).await.map_err(stored)? {
            Allowed::Done => {}
            Allowed::TooLate => {
                event.withdraw().await;
                return Err(too_late());
            }
            Allowed::SessionEnded => {
                event.withdraw().await;
                return Err(Problem::from(FreshError::SessionEnded).into_page());
            }
        }
        event.done().await;
        still_open(server, session, &open, &grant.id, &grant.client).await?;
        server.core.notify(session.user(), Notice::ProgramConnected).await;
        let text = locale::text("device.allowed", &[("client", &*client.name)]);
        Ok(note("device.allowed_title", &text, None))
    }

    /// What there is to decide, if the session is sufficient.
    async fn asked(&self, session: &Session, device: &Device) -> Result<Asked, Response> {
        let server = &self.endpoint.server;
        match step_up::require(&server.core, session).await {
            Ok(()) => {}
            Err(step_up::StepUpError::Required) => return Err(see_other(&login_as_other(here("").as_ref()))),
            Err(error) => return Err(Problem::from(error).into_page()),
        }
        let client = authorize::client(server, &device.client, session).await.map_err(Problem::into_page)?;
        // A metadata document is read only now. It may limit its client.
        if client.scopes.as_ref().is_some_and(|limit| within(&device.scopes, limit).is_none()) {
            let wider = OAuthError::new(Code::InvalidScope, "this client may not request that scope");
            return Err(failure_page(Failure::from(wider)));
        }
        let choice = server.choice(&session.user().id, &device.scopes, device.tenant.as_ref()).await;
        let choice = choice.map_err(|error| Problem::from(error).into_page())?;
        Ok(Asked { client, choice })
    }

    fn question(
        &self,
        session: &Session,
        visitor: &Visitor,
        device: &Device,
        asked: &Asked,
        fresh: fresh::Asked,
        problem: Option<&Problem>,
    ) -> Response {
        let server = &self.endpoint.server;
        let Some(resource) = server.resources.parse(&device.resource) else { return too_late() };
        let place = Place::of(device, visitor);
        let question = Question {
            client: &asked.client,
            scopes: &device.scopes,
            resource,
            way: Way::Device(&place),
            query: &device.id,
            tenants: asked.choice.offered(),
            fresh,
            problem,
        };
        consent::show(server, &self.endpoint.seal, visitor, session, &question)
    }
}

/// The client of a device, and the tenants to choose from.
struct Asked {
    client: Client,
    choice: Choice,
}

impl Place {
    fn of(device: &Device, visitor: &Visitor) -> Self {
        let here = visitor.client.address().map(|address| address.to_string());
        Self {
            elsewhere: here != device.address,
            address: device.address.clone(),
            name: devices::safe_name(device.agent.as_deref()),
            at: Moment::new(device.created_at),
        }
    }
}

/// 409: it has expired, or somebody has decided.
fn too_late() -> Response {
    let text = "this code was used already, or has expired; ask the device for another one";
    Problem::conflict(text).with_code("invalid_code").into_page()
}
