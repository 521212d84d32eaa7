use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use gatewright_http::{Caller, ClientAddr, PatchJson, Problem, RawJson};
use http::HeaderMap;
use http::header::ACCEPT;

use super::endpoint::Endpoint;
use super::once::Incoming;
use super::own_page::OwnPage;
use super::record_id::RecordId;
use super::{answer, event_cursor};
use crate::access::Action;
use crate::answers::{KeptAnswer, Written};
use crate::call::{Call, Surface};
use crate::error::Error;
use crate::operations::{Body, ExportFormat, IfMatch, OnConflict};
use crate::query::RecordQuery;

pub(super) async fn list(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, &headers).from_address(client.ip()).through(Surface::Rest);
    let (table, query) = (endpoint.table(), query.as_deref().unwrap_or_default());
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match ExportFormat::asked(table.plan(), query, accept) {
        Ok(None) => {}
        Ok(Some((format, query))) => {
            return Ok(answer::export(
                Box::pin(table.export(&call, format, &query)).await?,
                format,
                table.plan().table(),
            ));
        }
        Err(detail) => {
            let refusal = Box::pin(endpoint.refusal(&call, Action::Read)).await;
            return Err(refusal.unwrap_or_else(|| Error::Query(detail).into()));
        }
    }
    let cursor = endpoint.entities.cursor();
    let list = table.list(&call, &ExportFormat::without(table.plan(), query)).await?;
    Ok(event_cursor::add_to(cursor.as_ref(), answer::list(&list, endpoint.entities.json_case())))
}

pub(super) async fn get(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    RecordId(id): RecordId,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, &headers).through(Surface::Rest);
    let cursor = endpoint.entities.cursor();
    let viewed = endpoint.table().view(&call, &id, &RecordQuery::parse(query.as_deref().unwrap_or_default())).await?;
    let response = match &viewed.etag {
        Some(etag) if !IfMatch::allows_read(&headers, etag) => return Err(Error::Precondition.into()),
        Some(etag) if IfMatch::is_known(&headers, etag) => answer::not_modified(etag),
        Some(_) | None => answer::view(&viewed),
    };
    Ok(event_cursor::add_to(cursor.as_ref(), response))
}

pub(super) async fn create(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    incoming: Incoming,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    let (entities, table) = (&endpoint.entities, endpoint.table());
    let call = entities.call(identity, &incoming.headers).from_address(client.ip());
    let call = call.uploading(incoming.uploads.clone());
    let (on_conflict, body) = match (OnConflict::parse(incoming.query()), body) {
        (Ok(on_conflict), Ok(RawJson(body))) => (on_conflict, body),
        (Ok(_), Err(problem)) => {
            return Err(Box::pin(endpoint.refusal(&call, Action::Create)).await.unwrap_or(problem));
        }
        (Err(error), _) => {
            let refusal = Box::pin(endpoint.refusal(&call, Action::Create)).await;
            return Err(refusal.unwrap_or_else(|| error.into()));
        }
    };
    let (path, caller) = (incoming.path(), call.clone());
    let rights = async { table.reach(&caller, Action::Create).await.map(|_| ()) };
    let perform = async |call: Call| -> Result<KeptAnswer, Problem> {
        let (record, is_new) = match &on_conflict {
            None => (table.create(&call, &*body).await?, true),
            Some(on_conflict) => Box::pin(table.upsert(&call, &*body, on_conflict)).await?,
        };
        Ok(answer::written(&Written::Record(&record, is_new), path, None))
    };
    incoming.answer(entities, call, &body, rights, perform).await
}

pub(super) async fn update(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    RecordId(id): RecordId,
    incoming: Incoming,
    body: Result<PatchJson, Problem>,
) -> Result<Response, Problem> {
    let (entities, table) = (&endpoint.entities, endpoint.table());
    let call = entities.call(identity, &incoming.headers).from_address(client.ip());
    let call = call.uploading(incoming.uploads.clone());
    let if_match = IfMatch::of_write(&incoming.headers);
    let PatchJson { bytes, is_merge_patch } = match body {
        Ok(body) => body,
        Err(problem) => return Err(Box::pin(endpoint.refusal(&call, Action::Update)).await.unwrap_or(problem)),
    };
    let caller = call.clone();
    let rights = async { table.reach(&caller, Action::Update).await.map(|_| ()) };
    let perform = async |call: Call| -> Result<KeptAnswer, Problem> {
        let body = Body::from(&bytes).merge_patch(is_merge_patch);
        let record = table.update(&call, &id, body, if_match).await?;
        Ok(answer::written(&Written::Record(&record, false), "", None))
    };
    incoming.answer(entities, call, &bytes, rights, perform).await
}

pub(super) async fn delete(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    RecordId(id): RecordId,
    incoming: Incoming,
) -> Result<Response, Problem> {
    let (entities, table) = (&endpoint.entities, endpoint.table());
    let call = entities.call(identity, &incoming.headers).from_address(client.ip());
    let (if_match, caller) = (IfMatch::of_write(&incoming.headers), call.clone());
    let rights = async { table.reach(&caller, Action::Delete).await.map(|_| ()) };
    let perform = async |call: Call| -> Result<KeptAnswer, Problem> {
        let record = table.delete(&call, &id, if_match).await?;
        Ok(answer::written(&Written::Deleted(&record), "", None))
    };
    incoming.answer(entities, call, b"", rights, perform).await
}

pub(super) async fn restore(
    State(endpoint): State<Arc<Endpoint>>,
    _: OwnPage,
    Caller(identity): Caller,
    client: ClientAddr,
    RecordId(id): RecordId,
    incoming: Incoming,
) -> Result<Response, Problem> {
    let (entities, table) = (&endpoint.entities, endpoint.table());
    let call = entities.call(identity, &incoming.headers).from_address(client.ip());
    let caller = call.clone();
    let rights = async { table.reach(&caller, Action::Update).await.map(|_| ()) };
    let perform = async |call: Call| -> Result<KeptAnswer, Problem> {
        let record = table.restore(&call, &id).await?;
        Ok(answer::written(&Written::Record(&record, false), "", None))
    };
    incoming.answer(entities, call, b"", rights, perform).await
}
