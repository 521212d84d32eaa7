use axum::response::Response;
use gatewright_events::Cursor;
use http::{HeaderName, HeaderValue};

const EVENT_CURSOR: HeaderName = HeaderName::from_static("event-cursor");

/// Tells a reader where a stream must start to miss nothing that this answer does not show. `cursor` was taken before the
/// read began.
pub(super) fn tell(cursor: Option<&Cursor>, mut response: Response) -> Response {
    if let Some(value) = cursor.and_then(|cursor| HeaderValue::try_from(cursor.to_string()).ok()) {
        response.headers_mut().insert(EVENT_CURSOR, value);
    }
    response
}
