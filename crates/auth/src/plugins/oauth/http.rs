use std::borrow::Cow;
use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{RawQuery, Request, State as With};
use axum::middleware::{Next as Onward, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::{Secret, UserId};
use gatewright_http::{
    ContentType, Kind, Next, Problem, ProblemLink, Query, RateLimited, Segment, Submission, cookies, locale,
};
use gatewright_limits::Limiter;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;

use super::binding::Binding;
use super::error::CallbackError;
use super::flow::{Begun, Finished, Flow, Returned, Visit};
use super::state::{LIFETIME, State};
use crate::audit::AuditKind;
use crate::background::uncut_get;
use crate::devices::Browser;
use crate::fresh::{OnlyGiven, check_young};
use crate::plugins::sign_in;
use crate::providers::{Proofs, ProviderError};
use crate::screens::mailed;
use crate::session::{AnySession, Session};
use crate::web::{By, Visitor, guarded, is_proved, own_site_only, proved, redirect_next, see_other};

/// The cookie with the state.
const COOKIE: &str = "svc_oauth_state";

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("oauth", &core.config.limits.oauth);
    // The limiter is inside the layer that clears the state, so that a refused callback also ends the flow.
    let callback = uncut_get(&core.background, get(callback).head(no_head))
        .layer(from_fn_with_state(by_address.clone().dev_mode(core.config.dev_mode), count_failures))
        .layer(from_fn_with_state(flow.clone(), forget_state));
    // It comes from a page of another site, so no guard is in front of it: the signed state and the cookies are.
    let posted = post(posted).layer(from_fn_with_state(by_address.dev_mode(core.config.dev_mode), count_failures));
    // A link changes an account in the end, and any page can make a browser send a GET. If a page has signed its
    // visitor in at the provider as another user, that identity would be linked.
    let link = own_site_only(&core, get(link).head(no_head));
    let link = link.merge(guarded(&core, None, post(link_with_proof)));
    Router::new()
        .route("/oauth/{provider}", get(start).head(no_head))
        .route("/oauth/{provider}/link", link)
        .route("/oauth/{provider}/callback", callback.merge(posted))
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

/// The same by POST, with a proof for a session older than five minutes. Some browsers apply the page's policy to the redirects
/// of its forms, so a form gets a page with the link to the provider.
async fn link_with_proof(
    With(flow): With<Arc<Flow>>,
    Segment(provider): Segment,
    visitor: Visitor,
    By(session): By<Session>,
    Submission { kind, value, next }: Submission<OnlyGiven>,
) -> Response {
    let proven = flow.fresh.require_unless_young(&session, &value.into(), &visitor.client, "linking a provider").await;
    if let Err(error) = proven {
        return kind.refuse(error.into());
    }
    match flow.begin(&provider, Some(session.user().id.clone()), next).await {
        Ok(begun) => {
            let url = begun.url.to_string();
            let answer = if kind.is_form() {
                let text = locale::text("account.providers.continue", &[("name", flow.label(&provider))]);
                mailed::note("account.providers.heading", &text, Some((&*url, "form.continue")))
            } else {
                Json(json!({ "url": url })).into_response()
            };
            with_cookies(answer, begun.cookies(&flow))
        }
        Err(error) => kind.refuse(error.into_problem(flow.label(&provider))),
    }
}

async fn begin(flow: &Flow, provider: &str, link_to: Option<UserId>, visitor: &Visitor, query: &PageQuery) -> Response {
    let next = query.next.as_deref().and_then(|text| flow.core.redirects.next(text));
    match flow.begin(provider, link_to, next).await {
        Ok(begun) => with_cookies(see_other(begun.url.as_str()), begun.cookies(flow)),
        Err(error) => {
            let next = query.next.as_deref().and_then(|text| flow.core.redirects.next(text));
            refuse_at(flow, visitor, next.as_ref(), error.into_problem(flow.label(provider)))
        }
    }
}

impl Begun {
    /// The cookies that bind the flow to its browser.
    fn cookies(self, flow: &Flow) -> [HeaderValue; 2] {
        let (secure, lifetime) = (flow.core.cookie.is_secure(), LIFETIME.unsigned_abs());
        if self.posted {
            // A browser sends no `SameSite=Lax` cookie with a form of another site.
            let state = cookies::set_for_cross_site(COOKIE, self.state.expose(), lifetime);
            return [state, self.binding.set_cookie_for_post(secure)];
        }
        [cookies::set(COOKIE, self.state.expose(), lifetime, secure), self.binding.set_cookie(secure)]
    }
}

impl Flow {
    /// The name of a provider for users.
    fn label<'a>(&'a self, provider: &'a str) -> &'a str {
        self.providers.find(provider).map_or(provider, |registered| registered.provider.label())
    }

    /// Cookies that make the browser forget a flow with this provider.
    fn forgotten(&self, provider: &str) -> [HeaderValue; 2] {
        let secure = self.core.cookie.is_secure();
        let posted = self.providers.find(provider).is_some_and(|registered| registered.provider.posts_its_answer());
        [cookies::remove(COOKIE, secure || posted), Binding::remove_cookie(secure, posted)]
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
    let answer = Answer::parse(query.as_deref().unwrap_or_default());
    let visit = Visit {
        client: visitor.client.clone(),
        session: session.ok(),
        browser: Browser::of(&flow.core, &visitor.headers),
    };
    let (next, began, finished) = match started_here(&flow, &provider, &visitor.headers, answer.state.as_ref()) {
        Some((state, proofs)) => {
            let finished = match answer.code() {
                Ok(code) => {
                    let (issuer, user) = (answer.issuer.as_deref(), answer.user.as_deref());
                    let returned = Returned { state: &state, proofs: &proofs, code, issuer, user };
                    flow.finish(registered, returned, visit).await
                }
                Err(error) => Err(error),
            };
            (state.next, true, finished)
        }
        None => (None, false, Err(CallbackError::NotStartedHere)),
    };
    match finished {
        Ok(Finished::SignedIn(signed_in)) => {
            sign_in::answer_new(&flow.core, &visitor, Kind::Form, &signed_in, next.as_ref()).await
        }
        Ok(Finished::Linked) => proved(redirect_next(&flow.core, next.as_ref(), "/account")),
        Err(error) => {
            let event = flow.core.audit.event(AuditKind::OAuthRefused).remote(visitor.client.address());
            flow.core.audit.record(event.with("provider", provider).with("reason", error.reason())).await;
            let said = match &error {
                CallbackError::ProviderSaid(code) => Some(code.clone()),
                _ => None,
            };
            let problem = error.into_problem(registered.provider.label());
            match returning(&flow, next.as_ref(), began) {
                Some(next) => fail_at(&next, said.as_deref().unwrap_or(problem.code()), &problem),
                None => refuse(&flow, &visitor, problem),
            }
        }
    }
}

/// The answer of a provider whose page posts it. The session's cookie is `SameSite=Lax` and does not come with it, so the
/// browser is redirected to the callback with the answer in the query. Only the browser that began the flow gets that far: it
/// sends the flow's cookies with this form too.
async fn posted(
    With(flow): With<Arc<Flow>>,
    Segment(provider): Segment,
    visitor: Visitor,
    request: Request,
) -> Response {
    let Some(registered) = flow.providers.find(&provider) else {
        return refuse(&flow, &visitor, Problem::not_found("there is no such provider"));
    };
    if !registered.provider.posts_its_answer() {
        return refuse(&flow, &visitor, Problem::method_not_allowed(&[Method::GET]));
    }
    if !ContentType::of(request.headers()).is_form() {
        return refuse(&flow, &visitor, Problem::unsupported_media_type("the answer of a provider is a form"));
    }
    let Ok(body) = to_bytes(request.into_body(), MAX_FORM).await else {
        return refuse(&flow, &visitor, Problem::too_large());
    };
    let answer = Answer::parse(&String::from_utf8_lossy(&body));
    if started_here(&flow, &provider, &visitor.headers, answer.state.as_ref()).is_none() {
        let error = CallbackError::NotStartedHere;
        let event = flow.core.audit.event(AuditKind::OAuthRefused).remote(visitor.client.address());
        flow.core.audit.record(event.with("provider", &*provider).with("reason", error.reason())).await;
        let refused = refuse(&flow, &visitor, error.into_problem(registered.provider.label()));
        return with_cookies(refused, flow.forgotten(&provider));
    }
    proved(see_other(&answer.as_query()))
}

/// The longest form of a provider that is read, in bytes.
const MAX_FORM: usize = 32 * 1024;

/// The state in the browser's request, if it is the one in its cookie and bound to this browser, and the proofs of the
/// flow. A state that a sibling domain has planted does not hide it.
fn started_here(flow: &Flow, provider: &str, headers: &HeaderMap, state: Option<&Secret>) -> Option<(State, Proofs)> {
    let text = state.filter(|state| cookies::read_all(headers, COOKIE).any(|kept| Secret::new(kept) == **state))?;
    let state = flow.states.open(text, provider)?;
    let binding = Binding::find(headers, &state.bound_to, flow.core.cookie.is_secure())?;
    let proofs = binding.proofs(text);
    Some((state, proofs))
}

/// The query of the provider's callback.
#[derive(Default)]
struct Answer {
    state: Option<Secret>,
    code: Option<Secret>,
    error: Option<String>,
    issuer: Option<String>,
    user: Option<String>,
}

/// The longest text about the user that is passed on, in bytes.
const MAX_USER: usize = 2048;

impl Answer {
    /// A repeated parameter counts as absent (RFC 6749, section 3.1). A repeated `error` still counts as an error.
    fn parse(query: &str) -> Self {
        let values = |name: &'static str| {
            let pairs = url::form_urlencoded::parse(query.as_bytes()).filter(move |(key, _)| key == name);
            pairs.map(|(_, value)| value.into_owned()).collect::<Vec<_>>()
        };
        let one = |name| <[String; 1]>::try_from(values(name)).ok().map(|[value]| value);
        let secret = |name| one(name).map(Secret::new);
        let error = (!values("error").is_empty()).then(|| one("error").unwrap_or_default());
        // Two of them are none of the issuer.
        let issuer = (!values("iss").is_empty()).then(|| one("iss").unwrap_or_default());
        let user = one("user").filter(|user| user.len() <= MAX_USER);
        Self { state: secret("state"), code: secret("code"), error, issuer, user }
    }

    /// The same answer, as a reference to the callback with this query.
    fn as_query(&self) -> String {
        let (state, code) = (self.state.as_ref().map(Secret::expose), self.code.as_ref().map(Secret::expose));
        let (error, issuer, user) = (self.error.as_deref(), self.issuer.as_deref(), self.user.as_deref());
        let pairs = [("state", state), ("code", code), ("error", error), ("iss", issuer), ("user", user)];
        let mut query = url::form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
        query.extend_pairs(pairs.into_iter().filter_map(|(name, value)| Some((name, value?))));
        query.finish()
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

/// The front end's page that a failure returns to: the `next` of the flow or, without one, the front end itself. A page of
/// this server does not show the error, and a callback of no flow of this browser leads nowhere.
fn returning<'a>(flow: &'a Flow, next: Option<&'a Next>, began: bool) -> Option<Cow<'a, Next>> {
    let own = |next: &Next| OWN_PAGES.iter().any(|page| next.is_at_or_below(page)) || next.as_str() == "/";
    let next = match next {
        Some(next) => Cow::Borrowed(next),
        None => Cow::Owned(flow.core.redirects.next(flow.core.redirects.otherwise())?),
    };
    (began && !own(&next)).then_some(next)
}

/// The pages of this server. They show no `error` of their query.
const OWN_PAGES: [&str; 5] = ["/login", "/register", "/account", "/two-factor", "/forgot-password"];

/// A failure as OAuth reports it to a redirect URI (RFC 6749, section 4.1.2.1).
fn fail_at(next: &Next, error: &str, problem: &Problem) -> Response {
    see_other(&next.with_query([("error", error), ("error_description", &problem.localized())]))
}

/// [`refuse`], or the same at the front end's page that began the flow.
fn refuse_at(flow: &Flow, visitor: &Visitor, next: Option<&Next>, problem: Problem) -> Response {
    match returning(flow, next, true).filter(|_| problem.status() != StatusCode::NOT_FOUND) {
        Some(next) => fail_at(&next, problem.code(), &problem),
        None => refuse(flow, visitor, problem),
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
async fn forget_state(
    With(flow): With<Arc<Flow>>,
    Segment(provider): Segment,
    request: Request,
    onward: Onward,
) -> Response {
    with_cookies(onward.run(request).await, flow.forgotten(&provider))
}

fn with_cookies(mut response: Response, cookies: [HeaderValue; 2]) -> Response {
    for mut cookie in cookies {
        cookie.set_sensitive(true);
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// Limits the failed callbacks of an address. Each one counts before it runs, so that no number of parallel ones gets
/// past the limit; a success gives back its own attempt.
async fn count_failures(With(limiter): With<Limiter>, request: Request, onward: Onward) -> Response {
    let (parts, body) = request.into_parts();
    let keys = match limiter.address_keys(&parts) {
        Ok(keys) => keys,
        Err(missing) => return missing.into_response(),
    };
    let attempt = match limiter.begin_by(&keys).await {
        Ok(attempt) => attempt,
        Err(denied) => {
            return RateLimited::for_browser(denied.into_response(), &parts.headers, &[ProblemLink::START]);
        }
    };
    let response = onward.run(Request::from_parts(parts, body)).await;
    if is_proved(&response) {
        attempt.give_back().await;
    }
    response
}
