//! `POST …/{name}/_sign`: an address that needs no rights, for a while.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State as FromState};
use axum::response::{IntoResponse, Response};
use gatewright_entities::tenancy::Named;
use gatewright_http::{Problem, Segments};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;

use super::State;
use super::caller::split;
use super::download::{Parameters, found};
use crate::ledger;
use crate::signature::{Asked, Signed};

/// The longest time, in seconds.
const LONGEST: u64 = 604_800;
/// The time if none is given.
const DEFAULT: u64 = 60;
/// The most bytes of a request.
const BODY: usize = 4 * 1024;

/// The body of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(rename = "expiresInSeconds", alias = "expires_in_seconds")]
    expires_in_seconds: Option<u64>,
    thumbnail: Option<String>,
    #[serde(default)]
    download: bool,
}

pub(super) async fn sign(
    FromState(state): FromState<Arc<State>>,
    table: Arc<str>,
    place: Segments<4>,
    request: Request,
) -> Result<Response, Problem> {
    let (request, body) = split(request);
    let call = state.call(&request);
    let body = axum::body::to_bytes(body, BODY).await.map_err(|_| Problem::bad_request("the body cannot be read"))?;
    let wanted: Wanted = if body.is_empty() {
        Wanted::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| Problem::bad_request(format!("the body: {error}")))?
    };
    let seconds = wanted.expires_in_seconds.unwrap_or(DEFAULT);
    if !(1..=LONGEST).contains(&seconds) {
        return Err(Problem::bad_request(format!("expiresInSeconds is 1 to {LONGEST}")));
    }
    let found = found(&state, &table, &place, &Parameters::default(), &request).await?;
    if let Some(size) = &wanted.thumbnail {
        found.thumbnail(size)?;
    }
    let tenant = match &call.tenant {
        Named::Tenant(tenant) => Some(tenant.as_str().to_owned()),
        Named::Nothing | Named::Unreadable => None,
    };
    let asked = Asked { download: wanted.download, thumbnail: wanted.thumbnail, tenant };
    let expires_at = ledger::later(state.files.0.ambient.now(), Duration::from_secs(seconds));
    let Segments([record, ..]) = &place;
    let signed = Signed {
        table: &table,
        record,
        field: found.field.column(),
        file: &found.file.id,
        asked: &asked,
        expires: expires_at.as_second(),
    };
    let path = request.uri().path();
    let path = path.strip_suffix("/_sign").unwrap_or(path);
    let url = format!("{}{path}?{}", state.prefix, signed.query(&state.files.0.signing));
    let case = state.entities.json_case();
    let expires_at = gatewright_base::time::format(jiff::Timestamp::from_second(signed.expires).unwrap_or(expires_at));
    let body = json!({ "url": url, case.spell("expires_at"): expires_at });
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, headers, body.to_string()).into_response())
}
