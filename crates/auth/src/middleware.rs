//! The authentication middleware: puts an [`Identity`] into every request's extensions.
//!
//! A request without credentials passes as anonymous, without a query and without an allocation. Otherwise the schemes
//! check it, and their result goes into the extensions ([`Identity`], the session if there is one, and [`Presented`],
//! by which a long-lived stream checks again later). If a store fails, the request ends with 503: as an anonymous
//! caller it might see what is hidden from some signed-in users.
//!
//! A request may pass it twice, around a host's whole router and around this crate's routes: the second time it does
//! nothing.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use gatewright_base::{Identity, Presented, Reauthenticate, Unavailable};
use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, Wrapped, answer};
use gatewright_http::{ClientAddr, CsrfBinding, Problem};
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use tower::Layer;

use crate::problem;
use crate::schemes::{Authenticator, Bearer, Offer};
use crate::stream_tickets::{refused, tickets::Tickets};

/// Puts an [`Identity`] into the extensions of every request. From [`Auth::middleware`](crate::Auth::middleware).
#[derive(Debug, Clone)]
pub struct AuthenticateLayer(pub(crate) Arc<Authenticator>);

impl<S> Layer<S> for AuthenticateLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

/// In the extensions of a request that has been authenticated.
#[derive(Clone)]
struct Done;

/// In the extensions of a request with a token of the authorization server, whose client can request a token with more
/// scopes.
#[derive(Debug, Clone)]
pub struct Delegated(());

impl Middleware for AuthenticateLayer {
    fn handle<S: RouteService>(&self, mut request: Request, inner: Inner<'_, S>) -> Answer<S> {
        if request.extensions_mut().insert(Done).is_some() {
            return inner.pass(request);
        }
        let host = request.extensions_mut().remove::<Identity>().filter(|host| !matches!(host, Identity::Anonymous));
        let ticket = Tickets::is_presented(request.method(), request.uri());
        let ticket = self.0.tickets.clone().filter(|_| ticket);
        if host.is_none() && ticket.is_none() && !self.0.is_requested(request.headers()) {
            request.extensions_mut().insert(Identity::Anonymous);
            return inner.pass(request);
        }
        let (authenticator, inner) = (self.0.clone(), inner.take());
        answer(async move {
            let (mut parts, body) = request.into_parts();
            match identify(&mut parts, authenticator, host, ticket).await {
                Ok(Bearer::NotRefused) => inner.call(Request::from_parts(parts, body)).await,
                Ok(Bearer::Refused) => {
                    let mut response = inner.call(Request::from_parts(parts, body)).await;
                    name_refused_token(&mut response);
                    response
                }
                Err(problem) => problem.answer(&parts.headers),
            }
        })
    }
}

async fn identify(
    parts: &mut Parts,
    authenticator: Arc<Authenticator>,
    host: Option<Identity>,
    tickets: Option<Tickets>,
) -> Result<Bearer, Problem> {
    let by_ticket = tickets.is_some();
    if let Some(tickets) = tickets {
        tickets.redeem(parts).await?;
        if host.is_some() {
            return Err(Problem::bad_request("this surface accepts no ticket"));
        }
    }
    let client = ClientAddr::of(parts, proxies_are_named(parts));
    let path = match parts.extensions.get::<OriginalUri>() {
        // Inside a nested router the request's own path lacks the prefix.
        Some(OriginalUri(uri)) => uri.path().to_owned(),
        None => parts.uri.path().to_owned(),
    };
    let offer = Offer { headers: &parts.headers, client, path: &path, again: false };
    let found = authenticator.authenticate(&offer, host.as_ref()).await;
    let found = found.map_err(|error| problem::store_failed(&error))?;
    if by_ticket && matches!(found.identity, Identity::Anonymous) {
        // The credential behind the ticket has ended. Anonymous callers may still see something, but not by a ticket.
        return Err(refused());
    }
    if let Some(session) = found.session {
        // Pending ones too: the step from the first factor to the second has its own session.
        parts.extensions.insert(CsrfBinding::session(session.id().as_str()));
        parts.extensions.insert(session);
    }
    if let Some(assurance) = found.assurance {
        parts.extensions.insert(assurance);
    }
    if found.is_delegated {
        parts.extensions.insert(Delegated(()));
    }
    if !matches!(found.identity, Identity::Anonymous) {
        let again = Again { authenticator, headers: parts.headers.clone(), client, path, host };
        parts.extensions.insert(Presented(Arc::new(again)));
    }
    parts.extensions.insert(found.identity);
    Ok(found.bearer)
}

/// Makes a 401 say that the token is invalid, so that a client knows to get another one (RFC 6750, section 3.1).
fn name_refused_token(response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED
        && let Some(challenge) = response.headers_mut().get_mut(WWW_AUTHENTICATE)
        && challenge == "Bearer"
    {
        *challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
    }
}

fn proxies_are_named(parts: &Parts) -> bool {
    parts.extensions.get::<gatewright_http::TrustedProxies>().is_some_and(|proxies| !proxies.is_empty())
}

/// The credentials of a request, kept as long as its answer streams.
struct Again {
    authenticator: Arc<Authenticator>,
    headers: HeaderMap,
    client: ClientAddr,
    path: String,
    host: Option<Identity>,
}

impl Reauthenticate for Again {
    fn again(&self) -> Pin<Box<dyn Future<Output = Result<Identity, Unavailable>> + Send + '_>> {
        Box::pin(async {
            let offer = Offer { headers: &self.headers, client: self.client, path: &self.path, again: true };
            match self.authenticator.authenticate(&offer, self.host.as_ref()).await {
                Ok(found) => Ok(found.identity),
                Err(error) => {
                    tracing::warn!(%error, "a stream's caller could not be confirmed");
                    Err(Unavailable)
                }
            }
        })
    }

    fn kept(&self) -> Option<Presented> {
        let (authenticator, path, host) = (self.authenticator.clone(), self.path.clone(), self.host.clone());
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let mut copy = HeaderValue::from_bytes(value.as_bytes()).ok()?;
            copy.set_sensitive(value.is_sensitive());
            headers.append(name, copy);
        }
        Some(Presented(Arc::new(Self { authenticator, headers, client: self.client, path, host })))
    }
}
