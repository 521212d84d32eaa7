//! Code that the handlers of all plugins share: the visitor, the guard in front of them, and their answers.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::{Next as Onward, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::MethodRouter;
use gatewright_base::{JsonCase, SessionId};
use gatewright_http::{
    ClientAddr, ContentType, CookieOnly, CsrfBinding, CsrfToken, Next, Problem, ProblemLink, RateLimited, cross_site,
};
use gatewright_limits::Limiter;
use http::header::{SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use crate::core::Core;
use crate::problem;
use crate::session::{Client, SessionSecret};

/// The token of a host's own CSRF middleware. A middleware around the screens puts it into the request's extensions,
/// and every form contains it as `_csrf`. [`Csrf`](gatewright_http::Csrf) does not need it: the screens read its
/// [`CsrfToken`](gatewright_http::CsrfToken) themselves.
#[derive(Clone)]
pub struct CsrfField(pub Arc<str>);

impl std::fmt::Debug for CsrfField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CsrfField(…)")
    }
}

/// The client and headers of a request. As an argument of a handler it never fails.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) client: Client,
    pub(crate) headers: HeaderMap,
    /// Whether the request used an interface whose callers have only cookies, so that no answer contains a JWT.
    pub(crate) cookie_only: bool,
    csrf: Option<CsrfField>,
    csrf_token: Option<CsrfToken>,
}

impl Visitor {
    /// The field `_csrf` for a form of the answer, where a CSRF middleware is mounted: a host's own, or this service's.
    pub(crate) fn csrf_field(&self) -> Option<Arc<str>> {
        let own = || self.csrf_token.as_ref().map(|token| token.value().into());
        self.csrf.as_ref().map(|field| field.0.clone()).or_else(own)
    }
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let address = ClientAddr::from_request_parts(parts, state).await?.ip();
        let user_agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        Ok(Self {
            client: Client::new(address, user_agent),
            headers: parts.headers.clone(),
            cookie_only: parts.extensions.get::<CookieOnly>().is_some(),
            csrf: parts.extensions.get().cloned(),
            csrf_token: parts.extensions.get().cloned(),
        })
    }
}

/// The session of a request: a [`Session`](crate::session::Session) or a
/// [`PendingSession`](crate::session::PendingSession). A request without one is refused before the body is read, in the
/// format of the request.
pub(crate) struct By<T>(pub(crate) T);

impl<S: Sync, T: FromRequestParts<S, Rejection = Problem>> FromRequestParts<S> for By<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let found = T::from_request_parts(parts, state).await;
        found.map(Self).map_err(|problem| problem.answer(&parts.headers))
    }
}

/// The body of a request that takes no field: one that has a field is 422.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

/// In which case the multi-word keys of an answer are spelled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case(pub(crate) JsonCase);

impl<S: Sync> FromRequestParts<S> for Case {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().copied().unwrap_or_default()))
    }
}

/// Puts the cross-site guard in front of a route and, behind it, a limit per address. In this order, so that a page of
/// another site cannot use up its visitors' attempts.
pub(crate) fn guarded<S>(core: &Arc<Core>, limiter: Option<&Limiter>, route: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    route.layer(from_fn_with_state((core.clone(), limiter.cloned().map(Limited::Requests)), guard_and_count))
}

/// The same where only failures count: a request counts before it runs, and an answer that [`proved`] gives its own attempt
/// back. So a limit by address refuses guesses and not an office full of people, and a success resets nothing.
pub(crate) fn guarded_proof<S>(core: &Arc<Core>, limiter: &Limiter, route: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    route.layer(from_fn_with_state((core.clone(), Some(Limited::Failures(limiter.clone()))), guard_and_count))
}

/// The limit of a route by address, and what counts.
#[derive(Clone)]
enum Limited {
    Requests(Limiter),
    Failures(Limiter),
}

/// The mark of an answer to a request whose proof (a password, a code, a passkey, a token) was right.
#[derive(Clone)]
struct Proved;

/// Marks the answer to a right proof, for [`guarded_proof`].
pub(crate) fn proved(mut answer: Response) -> Response {
    answer.extensions_mut().insert(Proved);
    answer
}

/// Marks the answer to a request whose proof was not tested, because another limit refused it.
pub(crate) fn not_counted(answer: Response) -> Response {
    proved(answer)
}

/// Whether an answer is marked by [`proved`].
pub(crate) fn is_proved(answer: &Response) -> bool {
    answer.extensions().get::<Proved>().is_some()
}

/// Passes only requests of this site's own pages ([`cross_site::check_own_site`]).
pub(crate) fn own_site_only<S>(core: &Arc<Core>, route: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    route.layer(from_fn_with_state(core.clone(), check_own_site))
}

async fn check_own_site(State(core): State<Arc<Core>>, request: Request, onward: Onward) -> Response {
    let (parts, body) = request.into_parts();
    match cross_site::check_own_site(&parts, core.origin.as_ref()) {
        Ok(()) => onward.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.answer_link(&parts.headers),
    }
}

async fn guard_and_count(
    State((core, limited)): State<(Arc<Core>, Option<Limited>)>,
    request: Request,
    onward: Onward,
) -> Response {
    let headers = request.headers().clone();
    let answer = admit_or_refuse(&core, limited, request, onward).await;
    RateLimited::for_browser(answer, &headers, &links(&core))
}

/// The links on a page with a refusal.
fn links(core: &Core) -> [ProblemLink; 1] {
    [if core.screens.get().is_some() { ProblemLink::new("way_on.sign_in", "/login") } else { ProblemLink::START }]
}

async fn admit_or_refuse(core: &Core, counted: Option<Limited>, request: Request, onward: Onward) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(problem) = cross_site::check(&parts, core.origin.as_ref()) {
        let is_form = ContentType::of(&parts.headers).is_form();
        return if is_form { problem.into_page() } else { problem.into_response() };
    }
    let attempt = match &counted {
        None => None,
        Some(Limited::Requests(limiter) | Limited::Failures(limiter)) => {
            let keys = match limiter.address_keys(&parts) {
                Ok(keys) => keys,
                Err(missing) => return missing.into_response(),
            };
            match limiter.begin_by(&keys).await {
                Ok(attempt) => Some(attempt),
                Err(denied) => return denied.into_response(),
            }
        }
    };
    let answer = onward.run(Request::from_parts(parts, body)).await;
    if let (Some(Limited::Failures(_)), Some(attempt), Some(Proved)) = (counted, attempt, answer.extensions().get()) {
        attempt.give_back().await;
    }
    answer
}

/// Refuses HEAD if the GET changes something: a HEAD would make the change without showing it. Such routes accept GET
/// and POST.
pub(crate) async fn no_head() -> Problem {
    Problem::method_not_allowed(&[Method::GET, Method::POST])
}

/// The routes of a plugin without a mailer: each answers 503, before anything of a request is read.
pub(crate) fn undeliverable(routes: Router, detail: &'static str) -> Router {
    routes.route_layer(from_fn(move |request: Request, _: Onward| async move {
        problem::not_configured(detail).answer_link(request.headers())
    }))
}

/// [`invalid_token`](problem::invalid_token) with the way to a new link, for the page that a person sees.
pub(crate) fn spent_link(core: &Core, label: &'static str, path: &'static str) -> Problem {
    let problem = problem::invalid_token();
    if core.screens.get().is_some() { problem.with_link(ProblemLink::new(label, path)) } else { problem }
}

/// 303 to `path`, a path on this origin.
pub(crate) fn see_other(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// 303 to the redirect target after a proof: `next` or, without one, `otherwise`. If that is `/`, the front end of
/// `app_url` takes its place.
///
/// Any site may have written `next` into a link to a sign-in form. Some GETs change something (they begin a link to a
/// provider, or replace backup codes). They are accepted only from pages of this site, and a browser that follows the
/// redirect of a form looks as if it came from such a page. So a `next` to them is ignored.
pub(crate) fn redirect_next(core: &Core, next: Option<&Next>, otherwise: &str) -> Response {
    see_other(onward(core, next, otherwise))
}

/// Where [`redirect_next`] leads.
pub(crate) fn onward<'a>(core: &'a Core, next: Option<&'a Next>, otherwise: &'a str) -> &'a str {
    let otherwise = if otherwise == "/" { core.redirects.otherwise() } else { otherwise };
    let base = &core.config.base_path;
    let acts = |next: &Next| ["oauth", "2fa"].iter().any(|route| next.is_at_or_below(&format!("{base}/{route}")));
    next.filter(|next| !acts(next)).map_or(otherwise, Next::as_str)
}

/// Sends a new session to the browser: its cookie, and the binding of CSRF tokens from now on.
pub(crate) fn with_session(mut response: Response, core: &Core, id: &SessionId, secret: &SessionSecret) -> Response {
    response.headers_mut().append(SET_COOKIE, core.cookie.set(secret));
    response.extensions_mut().insert(CsrfBinding::session(id.as_str()));
    response
}

/// Adds a cookie to those of the answer.
pub(crate) fn with_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().append(SET_COOKIE, cookie);
    response
}

/// Makes the browser forget its session, and CSRF tokens the session they held for.
pub(crate) fn without_session(mut response: Response, core: &Core) -> Response {
    response.headers_mut().append(SET_COOKIE, core.cookie.clear());
    response.extensions_mut().insert(CsrfBinding::anonymous());
    response
}
