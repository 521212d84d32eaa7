use std::cmp::Ordering;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use gatewright_base::JsonCase;
use gatewright_http::Problem;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use crate::encode::Record;
use crate::operations::{Batch, List, Viewed};

/// The answer for one caller must not be cached for others, and may be different the next time.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// The approximate number of headers of an answer.
const HEADERS: usize = 10;

/// `{"data":{…}}` with the record's entity tag, except if only a part of the record is shown.
pub(super) fn record(status: StatusCode, record: &Record) -> Response {
    let mut response = data(status, record.json());
    if !record.is_part() {
        response.headers_mut().insert(ETAG, tag(&record.etag()));
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
    let mut body = Vec::with_capacity(json.len() + 9);
    body.extend_from_slice(b"{\"data\":");
    body.extend_from_slice(json);
    body.push(b'}');
    answer(status, body)
}

/// 304 (RFC 9110, section 15.4.5): the caller has the record already.
pub(super) fn not_modified(etag: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(ETAG, tag(etag)), (CACHE_CONTROL, PRIVATE)]).into_response()
}

/// One page of a list.
pub(super) fn list(list: &List, case: JsonCase) -> Response {
    answer(StatusCode::OK, list.to_json(case))
}

/// `{"committed":true,"results":[{"index","data"}]}`, or with the status of the failure `{"committed":false,"results":[…]}`:
/// the items that were undone, the failure, and the items that were not tried.
pub(super) fn batch(batch: Batch, case: JsonCase) -> Response {
    match batch {
        Batch::Committed(records) => {
            let mut body = b"{\"committed\":true,\"results\":[".to_vec();
            for (index, record) in records.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                body.extend_from_slice(format!("{comma}{{\"index\":{index},\"data\":").as_bytes());
                body.extend_from_slice(record);
                body.push(b'}');
            }
            body.extend_from_slice(b"]}");
            answer(StatusCode::OK, body)
        }
        Batch::Failed { index, items, error } => {
            let (problem, undone) = (Problem::from(error), case.spell("rolled_back"));
            let result = |at: usize| match at.cmp(&index) {
                Ordering::Less => json!({ "index": at, &*undone: true }),
                Ordering::Equal => json!({ "index": at, "error": problem }),
                Ordering::Greater => json!({ "index": at, "skipped": true }),
            };
            let results: Vec<_> = (0..items).map(result).collect();
            let body = json!({ "committed": false, "results": results }).to_string();
            answer(problem.status(), body.into_bytes())
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
