//! `GET /{table}/_events` and `GET /_events`: live streams of the writes that the caller may read, of one entity or of several.
//!
//! The access check is that of the list: [`Action::Read`] at the start for each entity, with its reach as the stream's filter. Both
//! are computed again at every heartbeat from the request's credentials. The event crate has the streams, their buffers
//! and their limits.

mod asked;
mod caller;
mod seat;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use gatewright_base::{Identity, Presented};
use gatewright_events::sse::{Condition, Params, Subscribe};
use gatewright_http::{Caller, ClientAddr, Problem};
use http::{Extensions, HeaderMap};

use self::asked::{Asked, Selected};
use self::caller::{Followed, StreamCaller};
use self::seat::{Seats, Source, view};
use crate::access::Action;
use crate::audience::Holder;
use crate::call::Call;
use crate::context::admission::field_rights;
use crate::context::entities::Entities;
use crate::tenancy::Named;

/// The events of the entity at `index`.
pub(crate) async fn of_one(
    State((entities, index)): State<(Entities, usize)>,
    caller: Caller,
    RawQuery(query): RawQuery,
    client: ClientAddr,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let selected = [Selected { index, filter: "filter".to_owned() }];
    open(entities, &selected, caller, &query, client, (&headers, &extensions)).await
}

/// The events of the entities that `entities` names, in one order.
pub(crate) async fn of_several(
    State(entities): State<Entities>,
    caller: Caller,
    RawQuery(query): RawQuery,
    client: ClientAddr,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let selected = asked::selected(&entities, &query)?;
    open(entities, &selected, caller, &query, client, (&headers, &extensions)).await
}

async fn open(
    entities: Entities,
    selected: &[Selected],
    Caller(identity): Caller,
    query: &str,
    client: ClientAddr,
    (headers, extensions): (&HeaderMap, &Extensions),
) -> Result<Response, Problem> {
    let call = in_named_tenant(entities.call(identity, headers), query)?;
    let mut reaches = Vec::with_capacity(selected.len());
    for one in selected {
        reaches.push(entities.table_at(one.index).reach(&call, Action::Read).await?);
    }
    let rights = field_rights(&entities, &call).await?;
    let Asked { filters, tags } = Asked::read(query, &entities, selected, &rights)?;
    let params = Params::read(Some(query), headers);
    let holder = Holder::of(&call.identity, client);
    let (mut followed, mut seats, mut conditions) = (Vec::new(), Seats::default(), Vec::new());
    for ((one, reach), filter) in selected.iter().zip(reaches).zip(filters) {
        let source = Source { entities: entities.clone(), index: one.index, holder: holder.clone() };
        let wanted = source.wanted(&call, filter.related.as_deref()).await?;
        seats.add(source.plan(), source.seat(reach, wanted)?);
        conditions.extend(filter.plain.map(|plain| (source.plan().table.clone(), source.condition(plain))));
        followed.push(Followed { source, related: filter.related });
    }
    let tables: Vec<Arc<str>> = followed.iter().map(|followed| followed.source.plan().table.clone()).collect();
    let request = Subscribe::of_several(tables, call.identity.clone(), params, move |event| seats.visibility(event))
        .matching(Condition::by_table(conditions))
        .tagged(tags)
        .from_client(client.into());
    let request = selected.iter().fold(request, |request, one| match view(rights.of(one.index)) {
        Some(view) => request.showing(entities.at(one.index).table.clone(), view),
        None => request,
    });
    let presented = extensions.get::<Presented>().cloned().map(Presented::kept);
    let stream_caller = StreamCaller::new(entities.clone(), call, rights, followed, presented);
    let request = match stream_caller.identity() {
        // An anonymous caller: no credential can expire or be revoked.
        (Identity::Anonymous, false) => request,
        _ => {
            let stream_caller = stream_caller.clone();
            request.rechecked(move || stream_caller.clone().recheck())
        }
    };
    let request = request.admitted(move |events| stream_caller.clone().admit(events));
    Ok(entities.streams().respond(request)?.into_response())
}

/// The same call for the tenant that the parameter `tenant` names, for clients that cannot send headers.
fn in_named_tenant(call: Call, query: &str) -> Result<Call, Problem> {
    let mut named = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "tenant");
    let Some((_, tenant)) = named.next().filter(|(_, tenant)| !tenant.is_empty()) else { return Ok(call) };
    let tenant = Named::parse(&tenant);
    if named.next().is_some() || (call.tenant != Named::default() && call.tenant != tenant) {
        return Err(Problem::bad_request("the parameter \"tenant\" and the tenant header name different tenants"));
    }
    Ok(Call { tenant, ..call })
}
