use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use gatewright_base::{Budget, Identity};
use http_body::Body as _;
use tower::Layer;

use super::{Answer, Inner, Middleware, RouteService, Wrapped, answer, budgeted};
use crate::{ClientAddr, Counted, Problem, TrustedProxies};

/// When to ask again for an answer for which there was no memory.
const RETRY: Duration = Duration::from_secs(1);

/// Takes the bytes of answers from a [`Budget`] until they are sent: 503 if the caller's share is used up. Put it
/// inside authentication, so that a caller's share is that of the account and not of the address.
///
/// Answers of at most 16 KiB, and those of unknown length (event streams), are not counted.
#[derive(Debug, Clone)]
pub struct AnswerBudgetLayer(Budget);

impl AnswerBudgetLayer {
    /// Takes from `budget`.
    pub fn new(budget: Budget) -> Self {
        Self(budget)
    }
}

/// Tells a layer outside of authentication who sent a request: put one into its extensions. This layer fills it in.
#[derive(Debug, Clone, Default)]
pub struct CallerNote(Arc<OnceLock<Identity>>);

impl CallerNote {
    /// The caller, once the request has passed authentication.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.get()
    }
}

impl<S> Layer<S> for AnswerBudgetLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for AnswerBudgetLayer {
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
        if let (Some(note), Some(identity)) = (request.extensions().get(), request.extensions().get::<Identity>()) {
            let CallerNote(note) = note;
            let _known = note.set(identity.clone());
        }
        let holder = Holder::of(&request);
        let budget = self.0.clone();
        let called = inner.call(request);
        answer(async move {
            let response = called.await;
            let exact = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
            let Some(bytes) = exact.filter(|bytes| *bytes > budgeted::FREE) else { return response };
            let (parts, body) = response.into_parts();
            match budgeted::outgoing(body, bytes, budget.lease(holder.name().as_deref())) {
                Ok(body) => Response::from_parts(parts, body),
                Err(over) => {
                    tracing::warn!(bytes, reason = %over, "answer refused: memory budget");
                    Problem::unavailable(over.to_string(), RETRY).with_code("over_budget").into_response()
                }
            }
        })
    }
}

/// The holder of the share that an answer is taken from.
enum Holder {
    /// A client without a separate share; see [`ClientAddr::has_share`].
    Nobody,
    Caller(Identity),
    Address(ClientAddr),
}

impl Holder {
    fn of(request: &Request) -> Self {
        let client = client(request);
        match request.extensions().get::<Identity>() {
            _ if !client.has_share() => Self::Nobody,
            Some(identity @ (Identity::Known(_) | Identity::Pending(_))) => Self::Caller(identity.clone()),
            _ => Self::Address(client),
        }
    }

    fn name(&self) -> Option<String> {
        match self {
            Self::Caller(Identity::Known(principal)) => Some(format!("caller {}", principal.subject.as_str())),
            Self::Caller(Identity::Pending(user)) => Some(format!("caller {}", user.as_str())),
            Self::Address(client) => Counted::Bytes.share_key(*client),
            Self::Caller(Identity::Anonymous) | Self::Nobody => None,
        }
    }
}

/// The client of a request, as far as the trusted proxies in its extensions vouch for it.
pub(super) fn client(request: &Request) -> ClientAddr {
    let none = TrustedProxies::default();
    ClientAddr::of_request(request, request.extensions().get().unwrap_or(&none))
}
