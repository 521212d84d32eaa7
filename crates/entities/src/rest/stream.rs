//! `GET /{table}/_events`: the writes that the caller could read, as they happen.
//!
//! The rule is the one of the list: [`Action::Read`] at the start, the reach that it gives as the stream's filter, and
//! both again at every heartbeat, from the credentials that the request presented. The streams themselves, their buffers
//! and seats are the event crate's.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use gatewright_base::{Credential, Identity, Presented, Unavailable, nearest};
use gatewright_events::EntityEvent;
use gatewright_events::sse::{Params, Subscribe, Verdict};
use gatewright_http::{Caller, Problem};
use http::{Extensions, HeaderMap};

use super::Endpoint;
use crate::access::{Action, Reach};
use crate::entities::Entities;
use crate::filter::{self, Predicate};
use crate::operations::{Call, Error};
use crate::plan::Plan;

pub(super) async fn events(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, &headers);
    let reach = endpoint.operations.reach(&endpoint.plan, &call, Action::Read).await?;
    let filter = read_filter(query.as_deref().unwrap_or_default(), &endpoint.plan)?;
    let params = Params::read(query.as_deref(), &headers);
    let wanted = Wanted { entities: endpoint.entities.clone(), index: endpoint.plan.index, filter };
    let request =
        Subscribe::new(endpoint.plan.table.clone(), call.identity.clone(), params, wanted.clone().within(reach));
    let presented = extensions.get::<Presented>().cloned();
    let request = match (&call.identity, &presented) {
        // Nobody in particular: nothing can end that would refuse them.
        (Identity::Anonymous, None) => request,
        _ => request.rechecked(recheck(wanted, call, presented)),
    };
    Ok(endpoint.entities.streams().respond(request)?.into_response())
}

/// What a stream is about, besides what its caller may see.
#[derive(Clone)]
struct Wanted {
    entities: Entities,
    index: usize,
    filter: Option<Arc<Predicate>>,
}

impl Wanted {
    /// The events of records within `reach` that pass the filter.
    fn within(self, reach: Reach) -> impl Fn(&EntityEvent) -> bool + Send + Sync + 'static {
        move |event| reach.covers(event.owner(), event.tenant_id()) && self.passes(event.record())
    }

    fn passes(&self, record: &[u8]) -> bool {
        let Some(filter) = &self.filter else { return true };
        // A record that is no JSON object, which none is, passes nothing.
        serde_json::from_slice(record)
            .is_ok_and(|record| filter::matches::matches(filter, &self.entities.at(self.index).columns, &record))
    }
}

/// What the caller may see now.
fn recheck(
    wanted: Wanted,
    call: Call,
    presented: Option<Presented>,
) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Result<Verdict, Unavailable>> + Send>> + Send + Sync + 'static {
    move || {
        let (wanted, call, presented) = (wanted.clone(), call.clone(), presented.clone());
        Box::pin(async move {
            let now = match &presented {
                Some(Presented(credentials)) => credentials.again().await?,
                None if has_expired(&call.identity, &wanted.entities) => Identity::Anonymous,
                None => call.identity.clone(),
            };
            // Who came as somebody and is nobody now has lost what they came with, also where anybody may read.
            if call.identity.principal().is_some() && now.principal().is_none() {
                return Ok(Verdict::End);
            }
            let (entities, call) = (wanted.entities.clone(), Call { identity: now, ..call });
            match entities.operations().reach(entities.at(wanted.index), &call, Action::Read).await {
                Ok(reach) => Ok(Verdict::Continue(Arc::new(wanted.within(reach)))),
                Err(Error::Memberships(_)) => Err(Unavailable),
                Err(_) => Ok(Verdict::End),
            }
        })
    }
}

/// Whether a credential's own deadline has passed, for hosts that offer no way to ask again.
fn has_expired(identity: &Identity, entities: &Entities) -> bool {
    let deadline = identity.principal().and_then(|principal| match &principal.credential {
        Credential::Session { .. } => None,
        Credential::Jwt { expires_at } => Some(*expires_at),
        Credential::ApiToken { expires_at, .. } => *expires_at,
        Credential::Grant(grant) => Some(grant.expires_at),
    });
    deadline.is_some_and(|deadline| deadline <= entities.ambient().now())
}

/// Reads `filter`, and refuses parameters that are not known: one that is silently ignored could be a condition that its
/// author believes in.
fn read_filter(query: &str, plan: &Plan) -> Result<Option<Arc<Predicate>>, Problem> {
    const KNOWN: [&str; 3] = ["slow", "subscriber_id", "filter"];
    let mut filter = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name == "filter" {
            let read = filter::typed::read(&value, &plan.columns).map_err(Problem::bad_request)?;
            if filter.replace(Arc::new(read)).is_some() {
                return Err(Problem::bad_request("the parameter \"filter\" is given more than once"));
            }
        } else if !KNOWN.contains(&&*name) {
            let name: String = name.chars().take(64).collect();
            let hint = nearest(&name, KNOWN).map(|meant| format!("; did you mean \"{meant}\"?"));
            return Err(Problem::bad_request(format!("there is no parameter \"{name}\"{}", hint.unwrap_or_default())));
        }
    }
    Ok(filter)
}
