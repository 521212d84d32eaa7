//! `{base}/oauth2/end_session`: a program signs its user out here too (OpenID Connect RP-Initiated Logout 1.0).
//!
//! A program that presents the `id_token` of this very session has signed its user out at once. Any other page could open this
//! address, so otherwise the user is asked. The browser returns only to an address that the client has registered.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use gatewright_http::{FormTarget, Problem, locale};
use http::header::{CACHE_CONTROL, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use url::form_urlencoded;

use super::super::authorize::Endpoint;
use super::super::client::{Client, Source};
use super::super::consent::Purpose;
use super::super::parameters::Parameters;
use super::super::redirect::RedirectUri;
use super::super::token::form;
use super::id_token::Hint;
use crate::email::EmailAddress;
use crate::problem;
use crate::screens::mailed::note;
use crate::screens::page;
use crate::session::AnySession;
use crate::web::{Visitor, see_other, without_session};

/// The path below the base path.
pub(in super::super) const PATH: &str = "/oauth2/end_session";
/// The longest `state`, in bytes: it comes back in an address.
const MAX_STATE: usize = 1_024;

/// What a program asks for, checked.
struct Asked {
    client: Option<Client>,
    /// Where the browser goes afterwards, with the client's state.
    after: Option<(RedirectUri, Option<String>)>,
    /// Whom the program means.
    hint: Option<Hint>,
}

impl Asked {
    /// Whether the program has the `id_token` of this very session.
    fn is_of(&self, session: &AnySession) -> bool {
        self.hint.as_ref().is_some_and(|hint| {
            hint.user == session.user().id.as_str() && hint.session.as_deref() == Some(session.id().as_str())
        })
    }
}

#[derive(Serialize)]
struct Context<'a> {
    client: Option<&'a str>,
    email: Option<&'a str>,
    action: String,
    query: &'a str,
    seal: String,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

type Caller = Option<Extension<AnySession>>;

/// `GET`: signs out, or asks.
pub(in super::super) async fn ask(
    State(endpoint): State<Endpoint>,
    session: Caller,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let session = session.map(|Extension(session)| session);
    match endpoint.check_end(session.as_ref(), &query).await {
        Ok(asked) => endpoint.answer_end(session.as_ref(), &visitor, &asked, &query).await,
        Err(problem) => problem.into_page(),
    }
}

/// `POST`: the form of the page, or a program's own form, which a browser repeats as a GET: only that has the cookie of the
/// session.
pub(in super::super) async fn decide(
    State(endpoint): State<Endpoint>,
    session: Caller,
    visitor: Visitor,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let form = match form(&headers, &body) {
        Ok(form) => form,
        Err(error) => return Problem::bad_request(error.description).into_page(),
    };
    let Some(seal) = form.get("seal") else {
        let pairs = form_urlencoded::parse(&body);
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        return see_other(&format!("{}?{query}", endpoint.end_path()));
    };
    let query = form.get("request").unwrap_or_default();
    let Some(Extension(session)) =
        session.filter(|Extension(session)| endpoint.seal.is(Purpose::SignOut, seal, session.id(), query))
    else {
        return Problem::forbidden("this form is not of this session").into_page();
    };
    let asked = match endpoint.check_end(Some(&session), query).await {
        Ok(asked) => asked,
        Err(problem) => return problem.into_page(),
    };
    if form.get("decision") != Some("sign_out") {
        return note(
            "end_session.stayed_title",
            &locale::text("end_session.stayed", &[]),
            Some(("/account", "way_on.account")),
        );
    }
    endpoint.sign_out(&session, &visitor, &asked).await
}

impl Endpoint {
    fn end_path(&self) -> String {
        format!("{}{PATH}", self.server.core.config.base_path)
    }

    /// Checks a request. Nothing leads to an address that is not the client's.
    async fn check_end(&self, session: Option<&AnySession>, query: &str) -> Result<Asked, Problem> {
        let server = &self.server;
        let parameters = Parameters::parse(query.as_bytes());
        let parameters = parameters.map_err(|error| Problem::bad_request(error.description))?;
        let hint = parameters.get("id_token_hint").and_then(|token| server.hint(token));
        let (of_hint, named) =
            (hint.as_ref().map(|hint| hint.client.clone()), parameters.get("client_id").map(str::to_owned));
        if of_hint.is_some() && named.is_some() && of_hint != named {
            return Err(Problem::bad_request("client_id is not the client of id_token_hint"));
        }
        let client = match of_hint.or(named) {
            Some(id) => self.end_client(&id, session).await?,
            None => None,
        };
        let after = match parameters.get("post_logout_redirect_uri") {
            None => None,
            Some(uri) => {
                let registered = client.iter().flat_map(|client| &client.identity.after_sign_out);
                let found = registered.into_iter().find(|one| one.as_str() == uri).cloned();
                let unknown = "the post_logout_redirect_uri of this request is not registered for the application";
                Some(found.ok_or_else(|| Problem::bad_request(unknown).with_code("invalid_redirect_uri"))?)
            }
        };
        let state = parameters.get("state").map(str::to_owned);
        if state.as_ref().is_some_and(|state| state.len() > MAX_STATE) {
            return Err(Problem::bad_request("state has at most 1024 bytes"));
        }
        Ok(Asked { client, after: after.map(|uri| (uri, state)), hint })
    }

    /// A metadata document is fetched only for a signed-in user.
    async fn end_client(&self, id: &str, session: Option<&AnySession>) -> Result<Option<Client>, Problem> {
        let server = &self.server;
        let found = match (super::super::client::document_url(id), session) {
            (Some(_), Some(session)) => server.client_for(id, &session.user().id).await.ok().flatten(),
            (Some(_), None) => None,
            (None, _) => server.clients.find(id).await.map_err(|error| problem::store_failed(&error))?,
        };
        Ok(found)
    }

    async fn answer_end(
        &self,
        session: Option<&AnySession>,
        visitor: &Visitor,
        asked: &Asked,
        query: &str,
    ) -> Response {
        let Some(session) = session else { return after_end(asked, false) };
        if asked.is_of(session) {
            return self.sign_out(session, visitor, asked).await;
        }
        let csrf = visitor.csrf_field();
        let context = Context {
            client: asked.client.as_ref().map(|client| &*client.name),
            email: session.user().address().map(EmailAddress::as_str),
            action: self.end_path(),
            query,
            seal: self.seal.of(Purpose::SignOut, session.id(), query),
            csrf: csrf.as_deref(),
            next: None,
        };
        let mut response = page("end_session.title", "end_session.html", &context);
        if let Some((after, _)) = &asked.after {
            // Browsers apply the page's policy to the answer of its form.
            FormTarget::allow(&[after.form_target()], &mut response);
        }
        response
    }

    async fn sign_out(&self, session: &AnySession, visitor: &Visitor, asked: &Asked) -> Response {
        let core = &self.server.core;
        if let Some(secret) = core.cookie.read(&visitor.headers)
            && let Err(error) = core.sign_out(&secret, &visitor.client).await
        {
            return problem::store_failed(&error).into_page();
        }
        without_session(after_end(asked, asked.is_of(session)), core)
    }
}

/// The way back to the program, without a click if the operator registered it or the program knows the user.
fn after_end(asked: &Asked, knows_user: bool) -> Response {
    let text = locale::text("end_session.done", &[]);
    let Some((after, state)) = &asked.after else {
        return note("end_session.done_title", &text, Some(("/login", "way_on.sign_in")));
    };
    let address = after.with(state.as_deref().map(|state| ("state", state)));
    let is_operators = asked.client.as_ref().is_some_and(|client| client.source == Source::Operator);
    if !knows_user && !is_operators {
        return note("end_session.done_title", &text, Some((&address, "consent.return")));
    }
    let mut response = Redirect::to(&address).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
