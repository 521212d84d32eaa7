//! Functions as routes: `/fn/{path}`.
//!
//! The code of one caller runs on one thread at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, RawPathParams, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter};
use gatewright_base::{Credential, Identity, Shares, Turn};
use gatewright_db::Share;
use gatewright_entities::{Call, Entities, share};
use gatewright_functions::{Data, Ended, Function, Trigger};
use gatewright_http::{Caller, ClientAddr, Origin, Problem, cross_site, layers};
use http::header::{CONTENT_LENGTH, COOKIE, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::alone::{Alone, Calling};
use super::{Functions, SCOPE, before, caller, failed};
use crate::Config;

/// The most bytes of a body.
const BODY: usize = 1 << 20;
/// How many calls of one caller may be in progress, each with its memory. Others of theirs wait.
const CALLS: usize = 4;
/// How many calls of all callers may be in progress.
const ALL_CALLS: usize = 64;
/// How many threads run code, at most one of each caller.
const THREADS: usize = 16;
/// Before every path.
pub(crate) const PREFIX: &str = "/fn";

struct Surface {
    alone: Alone<Share>,
    calls: Shares<Share>,
    public: Option<Origin>,
    /// Whether requests with a session cookie have a CSRF token.
    has_tokens: bool,
}

struct Route {
    surface: Arc<Surface>,
    function: Arc<Function>,
    name: Arc<str>,
    csrf: bool,
}

/// Every route. Mount it where requests have an identity.
pub(super) fn routes(functions: &Functions, config: &Config, entities: &Entities) -> Router {
    let surface = Arc::new(Surface {
        alone: Alone::new(functions, entities, THREADS),
        calls: Shares::within(CALLS, ALL_CALLS),
        public: Origin::of(&config.public_url()),
        has_tokens: config.csrf.enabled || config.browser_backend.is_some(),
    });
    let mut paths: BTreeMap<String, MethodRouter> = BTreeMap::new();
    for function in functions.all() {
        let Trigger::Route { method, path, csrf } = &function.trigger else { continue };
        let Ok(filter) = MethodFilter::try_from(method.parse().unwrap_or(http::Method::GET)) else { continue };
        let name = function.name.as_str().into();
        let route = Route { surface: surface.clone(), function: function.clone(), name, csrf: *csrf };
        let handler = MethodRouter::new().on(filter, handle).with_state(Arc::new(route));
        let others = paths.remove(&mounted(path)).unwrap_or_default();
        paths.insert(mounted(path), others.merge(handler));
    }
    paths.into_iter().fold(Router::new(), |router, (path, methods)| {
        router.route(&path, methods.fallback(layers::method_not_allowed))
    })
}

/// The whole path.
pub(super) fn mounted(path: &str) -> String {
    format!("{PREFIX}{path}")
}

/// The path without the names of its parameters: two routes with the same shape are the same.
pub(super) fn shape(path: &str) -> String {
    let segment = |segment: &str| if segment.starts_with('{') { "{}".to_owned() } else { segment.to_owned() };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Whether a request may be one of both paths.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split('/').collect(), other.split('/').collect());
    let may_meet = |(one, other): (&&str, &&str)| one == other || one.starts_with('{') || other.starts_with('{');
    one.len() == other.len() && one.iter().zip(&other).all(may_meet)
}

async fn handle(
    State(route): State<Arc<Route>>,
    Caller(identity): Caller,
    client: ClientAddr,
    parameters: RawPathParams,
    request: Request,
) -> Response {
    route.answer(identity, client, &parameters, request).await.unwrap_or_else(IntoResponse::into_response)
}

impl Route {
    async fn answer(
        &self,
        identity: Identity,
        client: ClientAddr,
        parameters: &RawPathParams,
        request: Request,
    ) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        let identity = if self.takes_cookie(&parts) { identity } else { without_cookie(identity) };
        if let Some(principal) = identity.principal()
            && !principal.in_scope(SCOPE.0, SCOPE.1)
        {
            return Err(Problem::out_of_scope("the token's scopes do not cover functions", SCOPE.0, SCOPE.1));
        }
        let surface = &self.surface;
        let call = surface.alone.entities.call(identity, &parts.headers).from_address(client.ip());
        let share = share(&call);
        let body = to_bytes(body, BODY).await.map_err(|_| Problem::too_large())?;
        // Held by whatever still runs, also after the client has left.
        let in_progress = Arc::new(surface.calls.take(share).await);
        let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |OriginalUri(uri)| uri);
        let origin = surface.public.as_ref().map(ToString::to_string).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let parameters = parameters.iter().map(|(name, value)| (name.to_owned(), Data::from(value)));
        let argument = Data::Object(vec![
            (
                "request".to_owned(),
                Data::Object(vec![
                    ("url".to_owned(), Data::from(format!("{origin}{path}"))),
                    ("method".to_owned(), Data::from(parts.method.as_str())),
                    ("headers".to_owned(), headers(&parts.headers)),
                    ("body".to_owned(), if body.is_empty() { Data::Null } else { Data::Bytes(body.to_vec()) }),
                ]),
            ),
            ("caller".to_owned(), caller(&call.identity)),
            ("params".to_owned(), Data::Object(parameters.collect())),
            ("secrets".to_owned(), surface.alone.functions.secrets()),
        ]);
        self.run(call, share, argument, &in_progress).await
    }

    async fn run(
        &self,
        call: Call,
        share: Share,
        argument: Data,
        in_progress: &Arc<Turn>,
    ) -> Result<Response, Problem> {
        let alone = &self.surface.alone;
        let time = alone.functions.0.timeout;
        let calling = Calling { function: &self.function, name: &self.name, call: &call, has_caller: true, time };
        match alone.run(&calling, share, argument, in_progress).await? {
            Ok(Ended::Value(value)) => response(&value).ok_or_else(failed),
            Ok(Ended::Refused { status, answer }) => Err(before::refusal(&self.function, &status, &answer)),
            Err(failure) => {
                alone.functions.log_failure(&self.function, &failure);
                Err(failed())
            }
        }
    }

    /// Whether a session cookie counts: not on a route without CSRF tokens, and where there are no tokens at all, not in requests from
    /// pages of other sites.
    fn takes_cookie(&self, parts: &http::request::Parts) -> bool {
        let own = || cross_site::own_origins(parts, self.surface.public.as_ref());
        self.csrf && (self.surface.has_tokens || !cross_site::from_another_site(&parts.headers, &own()))
    }
}

fn without_cookie(identity: Identity) -> Identity {
    match &identity {
        Identity::Known(principal) if !matches!(principal.credential, Credential::Session { .. }) => identity,
        Identity::Known(_) | Identity::Pending(_) | Identity::Anonymous => Identity::Anonymous,
    }
}

/// The headers of a request. Cookies are those of the service, and stay there.
fn headers(headers: &HeaderMap) -> Data {
    let shown = headers.iter().filter(|(name, _)| *name != COOKIE);
    let pair = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        Data::List(vec![Data::from(name.as_str()), Data::from(value)])
    };
    Data::List(shown.map(pair).collect())
}

/// What a route has returned. `None` if it cannot be sent.
fn response(value: &Data) -> Option<Response> {
    let Data::Number(status) = value.get("status")? else { return None };
    let status = StatusCode::from_u16(u16::try_from(status.as_u64()?).ok()?).ok()?;
    let body = match value.get("body")? {
        Data::Bytes(bytes) => bytes.clone(),
        _ => Vec::new(),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    if let Data::List(pairs) = value.get("headers")? {
        for pair in pairs {
            let Data::List(pair) = pair else { return None };
            let [name, text] = pair.as_slice() else { return None };
            let name: HeaderName = name.as_str()?.parse().ok()?;
            let value = HeaderValue::from_str(text.as_str()?).ok()?;
            // The server frames its answers itself.
            if ![CONTENT_LENGTH, TRANSFER_ENCODING, HOST].contains(&name) {
                response.headers_mut().append(name, value);
            }
        }
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_shape_whatever_its_parameters_are_called() {
        assert_eq!(shape("/a/{id}/b"), shape("/a/{name}/b"));
        assert_ne!(shape("/a/{id}"), shape("/a/id"));
        assert_eq!(mounted("/a/{id}"), "/fn/a/{id}");
        assert!(overlap("/a/{id}", "/a/b") && overlap("/{x}/b", "/a/{y}"));
        assert!(!overlap("/a/{id}", "/a/b/c") && !overlap("/a/b", "/a/c"));
    }
}
