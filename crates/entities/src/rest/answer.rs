use std::cmp::Ordering;
use std::io;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use gatewright_base::JsonCase;
use gatewright_http::Problem;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, LOCATION, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, json};

use crate::answers::{KeptAnswer, Written};
use crate::operations::{Batch, Export, ExportFormat, List, Viewed};

/// The answer for one caller must not be cached for others, and may be different the next time.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Marks the repeat of an answer.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The approximate number of headers of an answer.
const HEADERS: usize = 10;

/// The answer to a write: 201 with `Location` for a new record, 200 with its entity tag, except if only a part of the record is
/// shown; 204 for a deleted one; or the results of a batch. `path` is that of the request.
pub(super) fn written(written: &Written<'_>, path: &str, named: Option<&[Option<String>]>) -> KeptAnswer {
    match written {
        Written::Record(record, is_new) => {
            let mut headers = Vec::with_capacity(2);
            if !record.is_part() {
                headers.push((ETAG.to_string(), record.etag()));
            }
            if *is_new {
                headers.push((LOCATION.to_string(), format!("{path}/{}", record.id())));
            }
            let status = if *is_new { StatusCode::CREATED } else { StatusCode::OK };
            KeptAnswer { status: status.as_u16(), headers, body: within_data(record.json()) }
        }
        Written::Deleted(_) => {
            KeptAnswer { status: StatusCode::NO_CONTENT.as_u16(), headers: Vec::new(), body: Vec::new() }
        }
        Written::Batch(records) => {
            KeptAnswer { status: StatusCode::OK.as_u16(), headers: Vec::new(), body: committed(records, named) }
        }
    }
}

/// An answer to a write, perhaps one that was given before.
pub(super) fn kept(kept: KeptAnswer, is_repeat: bool) -> Response {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = if kept.body.is_empty() { status.into_response() } else { answer(status, kept.body) };
    for (name, value) in &kept.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    if is_repeat {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// `{"data":{…}}`, with the entity tag if there is one.
pub(super) fn view(viewed: &Viewed) -> Response {
    let mut response = data(StatusCode::OK, &viewed.json);
    if let Some(etag) = &viewed.etag {
        response.headers_mut().insert(ETAG, tag(etag));
    }
    response
}

fn data(status: StatusCode, json: &[u8]) -> Response {
    answer(status, within_data(json))
}

fn within_data(json: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(json.len() + 9);
    body.extend_from_slice(b"{\"data\":");
    body.extend_from_slice(json);
    body.push(b'}');
    body
}

/// 304 (RFC 9110, section 15.4.5): the caller has the record already.
pub(super) fn not_modified(etag: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(ETAG, tag(etag)), (CACHE_CONTROL, PRIVATE)]).into_response()
}

/// How many records of a page are left out, because they hold a value that cannot be read.
const UNREADABLE: HeaderName = HeaderName::from_static("gatewright-unreadable");

/// One page of a list.
pub(super) fn list(list: &List, case: JsonCase) -> Response {
    let mut response = answer(StatusCode::OK, list.to_json(case));
    if list.unreadable > 0 {
        response.headers_mut().insert(UNREADABLE, list.unreadable.into());
    }
    response
}

/// A file. If the export fails, the connection ends without the last chunk.
pub(super) fn export(export: Export, format: ExportFormat, table: &str) -> Response {
    let pieces = stream::unfold(Some(export), async |export| {
        let mut export = export?;
        match export.next().await {
            Ok(Some(piece)) => Some((Ok(Bytes::from(piece)), Some(export))),
            Ok(None) => None,
            // The client gets no reason: it has the answer's status already.
            Err(_) => Some((Err(io::Error::other("the export failed")), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let name = format!("attachment; filename=\"{table}.{}\"", format.extension());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.extend(HeaderValue::try_from(name).map(|name| (CONTENT_DISPOSITION, name)));
    headers.insert(CACHE_CONTROL, PRIVATE);
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// `{"committed":true,"results":[{"index","data"}]}`, or with the status of the failure `{"committed":false,"results":[…]}`:
/// the items that were undone, the failure, and the items that were not tried. With `entities`, each result has the name of
/// its entity.
pub(super) fn batch(batch: Batch, entities: Option<&[Option<String>]>, case: JsonCase) -> KeptAnswer {
    let (body, problem) = batch.to_json(entities, case);
    // A challenge or a time to wait belongs to the whole answer.
    let headers = problem.iter().flat_map(Problem::headers);
    let headers =
        headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect();
    let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
    KeptAnswer { status: status.as_u16(), headers, body }
}

/// `{"committed":true,"results":[{"index","data"}]}`.
fn committed(records: &[Bytes], entities: Option<&[Option<String>]>) -> Vec<u8> {
    let mut body = b"{\"committed\":true,\"results\":[".to_vec();
    for (index, record) in records.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let entity = entities.and_then(|entities| entities.get(index)?.as_deref());
        let named = entity.map(|name| format!(",\"entity\":{}", serde_json::Value::from(name))).unwrap_or_default();
        body.extend_from_slice(format!("{comma}{{\"index\":{index}{named},\"data\":").as_bytes());
        body.extend_from_slice(record);
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    body
}

impl Batch {
    /// The answer as JSON, and the problem of the item that failed. With `entities`, each result has the name of its entity.
    pub fn to_json(self, entities: Option<&[Option<String>]>, case: JsonCase) -> (Vec<u8>, Option<Problem>) {
        let entity = |index: usize| entities.and_then(|entities| entities.get(index)?.as_deref());
        match self {
            Self::Committed(records) => (committed(&records, entities), None),
            Self::Failed { index, items, error } => {
                let (problem, undone) = (Problem::from(error), case.spell("rolled_back"));
                let result = |at: usize| {
                    let mut result = Map::from_iter([("index".to_owned(), at.into())]);
                    result.extend(entity(at).map(|name| ("entity".to_owned(), name.into())));
                    match at.cmp(&index) {
                        Ordering::Less => result.insert(undone.clone(), true.into()),
                        Ordering::Equal => result.insert("error".to_owned(), json!(problem)),
                        Ordering::Greater => result.insert("skipped".to_owned(), true.into()),
                    };
                    result
                };
                let results: Vec<_> = (0..items).map(result).collect();
                let body = json!({ "committed": false, "results": results });
                (body.to_string().into_bytes(), Some(problem))
            }
        }
    }
}

fn answer(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    // Also reserves room for headers of the outer layers, so that the map does not grow later.
    *response.headers_mut() = HeaderMap::with_capacity(HEADERS);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, PRIVATE);
    response
}

fn tag(etag: &str) -> HeaderValue {
    HeaderValue::from_str(etag).expect("an entity tag is quotes and hexadecimal digits")
}
