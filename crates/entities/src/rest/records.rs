use std::sync::Arc;

use axum::extract::{OriginalUri, RawQuery, State};
use axum::response::{IntoResponse, Response};
use gatewright_http::{Caller, ClientAddr, Problem, RawJson};
use http::header::{IF_MATCH, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::endpoint::Endpoint;
use super::own_page::OwnPage;
use super::record_id::RecordId;
use super::{answer, event_cursor};
use crate::access::Action;
use crate::call::Surface;
use crate::operations::IfMatch;
use crate::query::{ListQuery, RecordQuery};

pub(super) async fn list(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, &headers).from_address(client.ip()).through(Surface::Rest);
    let cursor = endpoint.entities.cursor();
    let list = endpoint.table().list(&call, &ListQuery::parse(query.as_deref().unwrap_or_default())).await?;
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
    let tags = lines(&headers, &IF_NONE_MATCH);
    let response = match (&viewed.etag, tags) {
        (Some(etag), Some(tags)) if is_known(&tags, etag) => answer::not_modified(etag),
        _ => answer::view(&viewed),
    };
    Ok(event_cursor::add_to(cursor.as_ref(), response))
}

pub(super) async fn create(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, &headers).from_address(client.ip());
    let record = match body {
        Ok(RawJson(body)) => endpoint.table().create(&call, &*body).await?,
        Err(problem) => return Err(Box::pin(endpoint.refusal(&call, Action::Create)).await.unwrap_or(problem)),
    };
    let mut response = answer::record(StatusCode::CREATED, &record);
    let location = format!("{}/{}", uri.path().trim_end_matches('/'), record.id());
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

pub(super) async fn update(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    RecordId(id): RecordId,
    headers: HeaderMap,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, &headers).from_address(client.ip());
    let if_match = if_match(&headers);
    let record = match body {
        Ok(RawJson(body)) => endpoint.table().update(&call, &id, &*body, if_match).await?,
        Err(problem) => return Err(Box::pin(endpoint.refusal(&call, Action::Update)).await.unwrap_or(problem)),
    };
    Ok(answer::record(StatusCode::OK, &record))
}

pub(super) async fn delete(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    client: ClientAddr,
    RecordId(id): RecordId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let if_match = if_match(&headers);
    let call = endpoint.entities.call(identity, &headers).from_address(client.ip());
    endpoint.table().delete(&call, &id, if_match).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn restore(
    State(endpoint): State<Arc<Endpoint>>,
    _: OwnPage,
    Caller(identity): Caller,
    client: ClientAddr,
    RecordId(id): RecordId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, &headers).from_address(client.ip());
    let record = endpoint.table().restore(&call, &id).await?;
    Ok(answer::record(StatusCode::OK, &record))
}

fn if_match(headers: &HeaderMap) -> Option<IfMatch> {
    lines(headers, &IF_MATCH).map(|tags| IfMatch::parse(&tags))
}

/// Whether `If-None-Match` lists the tag. The comparison is the weak one (RFC 9110, section 13.1.2): a proxy that
/// compresses makes a strong tag weak.
fn is_known(tags: &str, etag: &str) -> bool {
    IfMatch::parse(&tags.replace("W/\"", "\"")).matches(etag)
}

/// The lines of a header as one list (RFC 9110, section 5.3).
fn lines(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<&str> = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default()).collect();
    if lines.is_empty() { None } else { Some(lines.join(",")) }
}
