use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, Request, State as With};
use axum::middleware::{Next as Onward, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gatewright_base::{Secret, UserId};
use gatewright_http::{Kind, Problem, ProblemLink, Query, RateLimited, Segment, cookies};
use gatewright_limits::Limiter;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::binding::Binding;
use super::error::CallbackError;
use super::flow::{Begun, Finished, Flow, Visit};
use super::state::{LIFETIME, State};
use crate::audit::AuditKind;
use crate::devices::Browser;
use crate::fresh::check_young;
use crate::plugins::sign_in;
use crate::providers::ProviderError;
use crate::session::{AnySession, Session};
use crate::web::{Visitor, own_site_only, redirect_next, see_other};

/// The cookie with the state.
const COOKIE: &str = "svc_oauth_state";

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("oauth", &core.config.limits.oauth);
    // The limiter is inside the layer that clears the state, so that a refused callback also ends the flow.
    let callback = get(callback)
        .head(no_head)
        .layer(from_fn_with_state(by_address.dev_mode(core.config.dev_mode), count_failures))
        .layer(from_fn_with_state(flow.clone(), forget_state));
    // A link changes an account in the end, and any page can make a browser send a GET. If a page has signed its
    // visitor in at the provider as another user, that identity would be linked.
    let link = own_site_only(&core, get(link).head(no_head));
    Router::new()
        .route("/oauth/{provider}", get(start).head(no_head))
        .route("/oauth/{provider}/link", link)
        .route("/oauth/{provider}/callback", callback)
        .with_state(flow)
}

#[derive(serde::Deserialize)]
struct PageQuery {
    next: Option<String>,
}

async fn start(
    With(flow): With<Arc<Flow>>,
    Segment(provider): Segment,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    begin(&flow, &provider, None, &visitor, &query).await
}

async fn link(
    With(flow): With<Arc<Flow>>,
    Segment(provider): Segment,
    visitor: Visitor,
    session: Result<Session, Problem>,
    Query(query): Query<PageQuery>,
) -> Response {
    let young = async {
        let session = session?;
        check_young(&flow.core, &session).await?;
        Ok(session.user().id.clone())
    };
    match young.await {
        Ok(user) => begin(&flow, &provider, Some(user), &visitor, &query).await,
        Err(problem) => refuse(&flow, &visitor, problem),
    }
}

async fn begin(flow: &Flow, provider: &str, link_to: Option<UserId>, visitor: &Visitor, query: &PageQuery) -> Response {
    let next = query.next.as_deref().and_then(|text| flow.core.redirects.next(text));
    match flow.begin(provider, link_to, next).await {
        Ok(Begun { url, state, binding }) => {
            let state = cookies::set(COOKIE, state.expose(), LIFETIME.unsigned_abs(), flow.core.cookie.is_secure());
            let binding = binding.map(|binding| binding.set_cookie());
            with_cookies(see_other(url.as_str()), [Some(state), binding])
        }
        Err(error) => {
            let label = flow.providers.find(provider).map_or(provider, |registered| registered.provider.label());
            refuse(flow, visitor, error.into_problem(label))
        }
    }
}

async fn callback(
    With(flow): With<Arc<Flow>>,
    Segment(provider): Segment,
    visitor: Visitor,
    session: Result<AnySession, Problem>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(registered) = flow.providers.find(&provider) else {
        return refuse(&flow, &visitor, Problem::not_found("there is no such provider"));
    };
    let returned = Returned::parse(query.as_deref().unwrap_or_default());
    let visit = Visit {
        client: visitor.client.clone(),
        session: session.ok(),
        browser: Browser::of(&flow.core, &visitor.headers),
    };
    let (next, finished) = match started_here(&flow, &provider, &visitor.headers, returned.state.as_ref()) {
        Some(state) => {
            let finished = match returned.code() {
                Ok(code) => flow.finish(registered, &state, code, visit).await,
                Err(error) => Err(error),
            };
            (state.next, finished)
        }
        None => (None, Err(CallbackError::NotStartedHere)),
    };
    match finished {
        Ok(Finished::SignedIn(signed_in)) => {
            sign_in::answer(&flow.core, &visitor, Kind::Form, &signed_in, next.as_ref()).await
        }
        Ok(Finished::Linked) => redirect_next(&flow.core, next.as_ref(), "/account"),
        Err(error) => {
            let event = flow.core.audit.event(AuditKind::OAuthRefused).remote(visitor.client.address());
            flow.core.audit.record(event.with("provider", provider).with("reason", error.reason())).await;
            refuse(&flow, &visitor, error.into_problem(registered.provider.label()))
        }
    }
}

/// The state in the browser's request, if it is the one in its cookie and, over HTTPS, bound to this browser. A state that
/// a sibling domain has planted does not hide it.
fn started_here(flow: &Flow, provider: &str, headers: &HeaderMap, state: Option<&Secret>) -> Option<State> {
    let state = state.filter(|state| cookies::read_all(headers, COOKIE).any(|kept| Secret::new(kept) == **state))?;
    let state = flow.states.open(state, provider)?;
    let bound = match &state.bound_to {
        Some(digest) => Binding::is_in(headers, digest),
        None => !flow.core.cookie.is_secure(),
    };
    bound.then_some(state)
}

/// The query of the provider's callback.
#[derive(Default)]
struct Returned {
    state: Option<Secret>,
    code: Option<Secret>,
    error: Option<String>,
}

impl Returned {
    /// A repeated parameter counts as absent (RFC 6749, section 3.1). A repeated `error` still counts as an error.
    fn parse(query: &str) -> Self {
        let values = |name: &'static str| {
            let pairs = url::form_urlencoded::parse(query.as_bytes()).filter(move |(key, _)| key == name);
            pairs.map(|(_, value)| value.into_owned()).collect::<Vec<_>>()
        };
        let one = |name| <[String; 1]>::try_from(values(name)).ok().map(|[value]| value);
        let secret = |name| one(name).map(Secret::new);
        let error = (!values("error").is_empty()).then(|| one("error").unwrap_or_default());
        Self { state: secret("state"), code: secret("code"), error }
    }

    fn code(&self) -> Result<&Secret, CallbackError> {
        if let Some(error) = &self.error {
            let ProviderError::Refused { code } = ProviderError::refused(error) else {
                return Err(CallbackError::NoCode);
            };
            return Err(CallbackError::ProviderSaid(code));
        }
        self.code.as_ref().filter(|code| !code.is_empty()).ok_or(CallbackError::NoCode)
    }
}

/// A page for people, with the way back, and JSON for programs: both come by GET.
fn refuse(flow: &Flow, visitor: &Visitor, problem: Problem) -> Response {
    let screens = flow.core.screens.get().is_some();
    let link = if screens { ProblemLink::new("way_on.back_to_sign_in", "/login") } else { ProblemLink::START };
    problem.with_link(link).answer_link(&visitor.headers)
}

/// A HEAD that ran the GET would start or end a flow and show nothing of it.
async fn no_head() -> Problem {
    Problem::method_not_allowed(&[Method::GET])
}

/// Removes the state's cookie with every answer.
async fn forget_state(With(flow): With<Arc<Flow>>, request: Request, onward: Onward) -> Response {
    let secure = flow.core.cookie.is_secure();
    let cleared = [Some(cookies::remove(COOKIE, secure)), secure.then(Binding::remove_cookie)];
    with_cookies(onward.run(request).await, cleared)
}

fn with_cookies(mut response: Response, cookies: [Option<HeaderValue>; 2]) -> Response {
    for mut cookie in cookies.into_iter().flatten() {
        cookie.set_sensitive(true);
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// Limits the failed callbacks of an address. Each one counts before it runs, so that no number of parallel ones gets
/// past the limit; a success, which redirects, clears the count.
async fn count_failures(With(limiter): With<Limiter>, request: Request, onward: Onward) -> Response {
    let (parts, body) = request.into_parts();
    let key = match limiter.address_key(&parts) {
        Ok(key) => key,
        Err(missing) => return missing.into_response(),
    };
    if let Err(denied) = limiter.attempt(&key).await {
        return RateLimited::for_browser(denied.into_response(), &parts.headers, &[ProblemLink::START]);
    }
    let response = onward.run(Request::from_parts(parts, body)).await;
    if response.status() == StatusCode::SEE_OTHER
        && let Err(error) = limiter.forget(&key).await
    {
        tracing::warn!(%error, "the count of failed provider callbacks could not be cleared");
    }
    response
}
