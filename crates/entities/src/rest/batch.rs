//! `/{table}/_batch`: many writes as one.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use gatewright_http::{Caller, ClientAddr, Problem, RawJson};
use http::HeaderMap;

use super::answer;
use super::endpoint::Endpoint;
use crate::access::Action;

pub(super) async fn create(
    state: State<Arc<Endpoint>>,
    caller: Caller,
    client: ClientAddr,
    headers: HeaderMap,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    run(&state, caller, client, &headers, body, Action::Create).await
}

pub(super) async fn update(
    state: State<Arc<Endpoint>>,
    caller: Caller,
    client: ClientAddr,
    headers: HeaderMap,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    run(&state, caller, client, &headers, body, Action::Update).await
}

pub(super) async fn delete(
    state: State<Arc<Endpoint>>,
    caller: Caller,
    client: ClientAddr,
    headers: HeaderMap,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    run(&state, caller, client, &headers, body, Action::Delete).await
}

async fn run(
    endpoint: &Endpoint,
    Caller(identity): Caller,
    client: ClientAddr,
    headers: &HeaderMap,
    body: Result<RawJson, Problem>,
    action: Action,
) -> Result<Response, Problem> {
    let call = endpoint.entities.call(identity, headers).from_address(client.ip());
    let batch = match body {
        Ok(RawJson(body)) => endpoint.table().batch(&call, action, &*body).await?,
        Err(problem) => return Err(endpoint.refusal(&call, action).await.unwrap_or(problem)),
    };
    Ok(answer::batch(batch, endpoint.entities.json_case()))
}
