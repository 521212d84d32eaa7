use axum::body::Body;
use axum::response::{IntoResponse, Response};
use gatewright_base::JsonCase;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderValue, StatusCode};

use crate::encode::Record;
use crate::operations::List;

/// What one caller may see is not for a cache between him and others, and may be another the next time.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// `{"data":{…}}` with the record's entity tag.
pub(super) fn record(status: StatusCode, record: &Record) -> Response {
    let json = record.json();
    let mut body = Vec::with_capacity(json.len() + 9);
    body.extend_from_slice(b"{\"data\":");
    body.extend_from_slice(json);
    body.push(b'}');
    let mut response = answer(status, body);
    response.headers_mut().insert(ETAG, tag(record));
    response
}

/// 304 (RFC 9110, section 15.4.5): the caller has the record already.
pub(super) fn not_modified(record: &Record) -> Response {
    (StatusCode::NOT_MODIFIED, [(ETAG, tag(record)), (CACHE_CONTROL, PRIVATE)]).into_response()
}

/// `{"data":[…],"total":n,"page":p,"limit":l,"hasMore":b}`
pub(super) fn list(list: &List, case: JsonCase) -> Response {
    let has_more = match case {
        JsonCase::Camel => "hasMore",
        JsonCase::Snake => "has_more",
    };
    let mut body = Vec::with_capacity(list.json.len() + 80);
    body.extend_from_slice(b"{\"data\":");
    body.extend_from_slice(&list.json);
    let List { total, page, limit, has_more: more, .. } = list;
    let rest = format!(",\"total\":{total},\"page\":{page},\"limit\":{limit},\"{has_more}\":{more}}}");
    body.extend_from_slice(rest.as_bytes());
    answer(StatusCode::OK, body)
}

fn answer(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, PRIVATE);
    response
}

fn tag(record: &Record) -> HeaderValue {
    HeaderValue::from_str(&record.etag()).expect("an entity tag is quotes and hexadecimal digits")
}
