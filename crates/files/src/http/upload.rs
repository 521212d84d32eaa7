//! `POST /_files`: one file, to be attached by a later write.

use std::sync::Arc;

use axum::extract::{Request, State as FromState};
use axum::response::{IntoResponse, Response};
use gatewright_entities::files::FileInfo;
use gatewright_http::{ContentType, Problem};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http_body::Body as _;
use serde_json::json;

use super::State;
use super::caller::{Head, split};
use super::parts::{boundary, malformed};
use crate::upload::{Limits, Paced};

/// The most parts before that of the file: the token of a form.
const MOST_PARTS: usize = 4;
/// The most bytes of such a part.
const PART_BYTES: usize = 4 * 1024;

pub(super) async fn upload(FromState(state): FromState<Arc<State>>, request: Request) -> Result<Response, Problem> {
    let (head, body) = split(request);
    let call = state.call(&head);
    let (account, max_bytes) = Box::pin(state.stager(&call)).await?;
    let _turn = state.files.turn_to_upload(&account).await?;
    let ttl = state.files.0.options.upload_ttl;
    let keep_metadata = parameter(&head, "keepMetadata").or_else(|| parameter(&head, "keep_metadata"));
    let keep_metadata = keep_metadata.is_some_and(|word| matches!(&*word, "1" | "true"));
    let limits = Limits { max_bytes, rules: None, expected: None, ttl, keep_metadata };
    let file = if ContentType::of(head.headers()) == ContentType::Multipart {
        let mut form = multer::Multipart::new(body.into_data_stream(), boundary(head.headers())?);
        let mut count = 0;
        loop {
            let part = form.next_field().await.map_err(|error| malformed(&error))?;
            let Some(mut part) = part else { return Err(Problem::bad_request("the form has no file")) };
            count += 1;
            if part.file_name().is_none() && part.name() == Some("_csrf") && count <= MOST_PARTS {
                skip(&mut part).await?;
                continue;
            }
            let name = part.file_name().unwrap_or_default().to_owned();
            let file = state.files.store(&account, &name, &limits, &mut Paced::new(part)).await?;
            if form.next_field().await.map_err(|error| malformed(&error))?.is_some() {
                crate::ledger::give_up(&state.files.0.db, account.share, &file.id, state.files.0.ambient.now())
                    .await
                    .map_err(crate::problem::database)?;
                return Err(Problem::bad_request("the form has more than one file; send each by itself"));
            }
            break file;
        }
    } else {
        let name = parameter(&head, "name");
        let limits = Limits { expected: body.size_hint().exact(), ..limits };
        let mut bytes = Paced::new(body.into_data_stream());
        state.files.store(&account, &name.unwrap_or_default(), &limits, &mut bytes).await?
    };
    Ok(created(&file, &state))
}

/// The value of a parameter of the query.
fn parameter(head: &Head, name: &str) -> Option<String> {
    let mut query = form_urlencoded::parse(head.uri().query().unwrap_or_default().as_bytes());
    query.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Reads a small part to its end.
async fn skip(part: &mut multer::Field<'_>) -> Result<(), Problem> {
    let mut bytes = 0;
    while let Some(piece) = part.chunk().await.map_err(|error| malformed(&error))? {
        bytes += piece.len();
        if bytes > PART_BYTES {
            return Err(Problem::bad_request("a part of the form that is no file is too large"));
        }
    }
    Ok(())
}

fn created(file: &FileInfo, state: &State) -> Response {
    let content_type = state.entities.json_case().spell("content_type");
    let mut body = json!({ "id": file.id, "name": file.name, "size": file.size });
    body[content_type] = json!(file.content_type);
    body["sha256"] = json!(file.sha256);
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (StatusCode::CREATED, headers, body.to_string()).into_response()
}
