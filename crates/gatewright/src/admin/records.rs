use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_entities::operations::{Body, Call, Error, IfMatch};
use gatewright_entities::{Count, Kind, ListQuery, PlanField, Record, RecordQuery, Table};
use gatewright_http::{PatchJson, Problem, Segment, Segments};
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::AdminState;
use super::answer::{data, noted, object};
use super::gate::Operator;

/// How many records a page of a list reads, if each has to be tested.
const LOOKED_AT: u32 = 50_000;
/// The columns that every entity has.
const OWN_COLUMNS: [&str; 3] = ["id", "created_at", "updated_at"];

/// The records of every entity, by the operator's authority: of every owner and, unless the request names one, of every
/// tenant.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/records", get(entities))
        .route("/records/{entity}", get(list))
        .route("/records/{entity}/{id}", get(one).patch(update).delete(remove))
        .route("/records/{entity}/{id}/restore", post(restore))
}

async fn entities(State(state): State<AdminState>) -> Json<Value> {
    let (case, plans) = (state.config.server.json_case, state.entities.plans());
    // Accounts have routes of their own.
    let described = plans.iter().filter(|plan| !plan.is_directory()).map(|plan| {
        let fields = plan.fields().map(|field| {
            let is_relation = field.kind() == Kind::Relation || plan.names_many(field);
            let target = plan.target(field, plans).map(|target| target.name().to_owned());
            let target = target.or_else(|| is_relation.then(|| "users".to_owned()));
            object(
                case,
                [
                    ("key", field.key().into()),
                    ("type", field.kind().as_str().into()),
                    ("required", field.is_required().into()),
                    ("writable", field.is_writable().into()),
                    ("values", json!(field.constraints().values)),
                    ("relation", target.into()),
                    ("description", field.description().into()),
                ],
            )
        });
        let indexed = plan.fields().filter(|field| plan.has_index_on(field)).map(|field| field.key().to_owned());
        let own = OWN_COLUMNS.into_iter().filter(|column| plan.is_indexed(column)).map(|column| case.spell(column));
        object(
            case,
            [
                ("name", plan.name().into()),
                ("table", plan.table().into()),
                ("description", plan.description().into()),
                ("label", plan.label().map(PlanField::key).into()),
                ("read_only", plan.is_read_only().into()),
                ("soft_delete", plan.soft_delete().into()),
                ("searchable", plan.is_searchable().into()),
                ("multi_tenant", plan.rules().multi_tenant.into()),
                ("owned", plan.rules().owned.into()),
                ("fields", fields.collect()),
                ("indexed", json!(own.chain(indexed).collect::<Vec<_>>())),
            ],
        )
    });
    data(described.collect::<Vec<_>>())
}

async fn list(
    State(state): State<AdminState>,
    operator: Operator,
    Segment(entity): Segment,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (table, call) = opened(&state, &operator, &entity, &headers)?;
    let query = ListQuery::parse(&query.unwrap_or_default()).looking_at(LOOKED_AT);
    let list = table.list(&call, &query).await?;
    Ok(written(list.to_json(state.config.server.json_case)))
}

async fn one(
    State(state): State<AdminState>,
    operator: Operator,
    Segments([entity, id]): Segments<2>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (table, call) = opened(&state, &operator, &entity, &headers)?;
    match table.view(&call, &id, &RecordQuery::parse(&query.unwrap_or_default())).await {
        Ok(viewed) => Ok(answered(&viewed.json, viewed.etag.as_deref())),
        Err(Error::NotFound) => match in_trash(table, &call, &id).await? {
            Some(record) => Ok(answered(record.get().as_bytes(), None)),
            None => Err(Error::NotFound.into()),
        },
        Err(other) => Err(other.into()),
    }
}

/// A deleted record that can be restored.
async fn in_trash(table: Table<'_>, call: &Call, id: &str) -> Result<Option<Box<RawValue>>, Problem> {
    if !table.plan().soft_delete() {
        return Ok(None);
    }
    let of_id = ListQuery::new().condition("id", id).only_trash().count(Count::None).limit(1);
    let list = match table.list(call, &of_id).await {
        Ok(list) => list,
        // An invalid id names no record.
        Err(Error::Query(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let records = list.records::<Box<RawValue>>().map_err(|error| Problem::internal(&error))?;
    Ok(records.into_iter().next())
}

async fn update(
    State(state): State<AdminState>,
    operator: Operator,
    Segments([entity, id]): Segments<2>,
    headers: HeaderMap,
    PatchJson { bytes, is_merge_patch }: PatchJson,
) -> Result<Response, Problem> {
    let (table, call) = opened(&state, &operator, &entity, &headers)?;
    let body = Body::from(&bytes).merge_patch(is_merge_patch);
    let record = table.update(&call, &id, body, IfMatch::of_write(&headers)).await?;
    // The values are in the record; their history is for `audit.entities`.
    let fields: Vec<String> = serde_json::from_slice::<Map<String, Value>>(&bytes)
        .unwrap_or_default()
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    Ok(noted(of_record(&record), [("fields", json!(fields))]))
}

async fn remove(
    State(state): State<AdminState>,
    operator: Operator,
    Segments([entity, id]): Segments<2>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let (table, call) = opened(&state, &operator, &entity, &headers)?;
    table.delete(&call, &id, IfMatch::of_write(&headers)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn restore(
    State(state): State<AdminState>,
    operator: Operator,
    Segments([entity, id]): Segments<2>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (table, call) = opened(&state, &operator, &entity, &headers)?;
    let record = table.restore(&call, &id).await?;
    Ok(of_record(&record))
}

/// The entity by its name or its table.
pub(super) fn entity<'a>(state: &'a AdminState, name: &str) -> Result<Table<'a>, Problem> {
    state.entities.table(name).map_err(|_| Problem::not_found("no such entity"))
}

/// The entity, and the operator's call.
fn opened<'a>(
    state: &'a AdminState,
    operator: &Operator,
    entity: &str,
    headers: &HeaderMap,
) -> Result<(Table<'a>, Call), Problem> {
    let table = self::entity(state, entity)?;
    if table.plan().is_directory() {
        return Err(Problem::not_found("accounts are not among the records; see /users"));
    }
    let call = state.entities.call(operator.identity.clone(), headers).from_address(operator.address).as_operator();
    Ok((table, call))
}

fn of_record(record: &Record) -> Response {
    answered(record.json(), (!record.is_part()).then(|| record.etag()).as_deref())
}

fn answered(json: &[u8], etag: Option<&str>) -> Response {
    let mut body = b"{\"data\":".to_vec();
    body.extend_from_slice(json);
    body.push(b'}');
    let mut response = written(body);
    if let Some(etag) = etag.and_then(|etag| etag.parse().ok()) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

fn written(json: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json")], json).into_response()
}
