//! `/{table}/_batch` and `/_batch`: many writes as one.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use gatewright_http::{Caller, ClientAddr, Problem, RawJson};

use super::answer;
use super::endpoint::Endpoint;
use super::once::Incoming;
use crate::access::Action;
use crate::answers::KeptAnswer;
use crate::call::{Call, Surface};
use crate::context::entities::Entities;
use crate::operations::{MixedBatch, OnConflict};

pub(super) async fn create(
    state: State<Arc<Endpoint>>,
    caller: Caller,
    client: ClientAddr,
    incoming: Incoming,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    let on_conflict = OnConflict::parse(incoming.query()).map_err(Problem::from);
    run(&state, caller, client, &incoming, on_conflict.and_then(|on| Ok((on, body?))), Action::Create).await
}

pub(super) async fn update(
    state: State<Arc<Endpoint>>,
    caller: Caller,
    client: ClientAddr,
    incoming: Incoming,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    run(&state, caller, client, &incoming, body.map(|body| (None, body)), Action::Update).await
}

pub(super) async fn delete(
    state: State<Arc<Endpoint>>,
    caller: Caller,
    client: ClientAddr,
    incoming: Incoming,
    body: Result<RawJson, Problem>,
) -> Result<Response, Problem> {
    run(&state, caller, client, &incoming, body.map(|body| (None, body)), Action::Delete).await
}

/// Writes to several entities.
pub(super) async fn mixed(
    State(entities): State<Entities>,
    Caller(identity): Caller,
    client: ClientAddr,
    incoming: Incoming,
    RawJson(body): RawJson,
) -> Result<Response, Problem> {
    let call = entities.call(identity, &incoming.headers).from_address(client.ip()).through(Surface::Rest);
    let caller = call.clone();
    let rights = entities.may_batch(&caller, &body);
    let perform = async |call: Call| -> Result<KeptAnswer, Problem> {
        let MixedBatch { entities: named, batch } = entities.batch(&call, &*body).await?;
        Ok(answer::batch(batch, Some(&named), entities.json_case()))
    };
    incoming.answer_with(&entities, call, &body, Some(MixedBatch::entities_of(&body)), rights, perform).await
}

async fn run(
    endpoint: &Endpoint,
    Caller(identity): Caller,
    client: ClientAddr,
    incoming: &Incoming,
    asked: Result<(Option<OnConflict>, RawJson), Problem>,
    action: Action,
) -> Result<Response, Problem> {
    let (entities, table) = (&endpoint.entities, endpoint.table());
    let call = entities.call(identity, &incoming.headers).from_address(client.ip());
    let (on_conflict, RawJson(body)) = match asked {
        Ok(asked) => asked,
        Err(problem) => return Err(endpoint.refusal(&call, action).await.unwrap_or(problem)),
    };
    let caller = call.clone();
    let rights = async { table.reach(&caller, action).await.map(|_| ()) };
    let perform = async |call: Call| -> Result<KeptAnswer, Problem> {
        let batch = match &on_conflict {
            Some(on_conflict) => table.batch_upsert(&call, &*body, on_conflict).await?,
            None => table.batch(&call, action, &*body).await?,
        };
        Ok(answer::batch(batch, None, entities.json_case()))
    };
    incoming.answer(entities, call, &body, rights, perform).await
}
