use axum::response::Response;
use gatewright_events::Cursor;
use http::{HeaderName, HeaderValue};

const EVENT_CURSOR: HeaderName = HeaderName::from_static("event-cursor");

/// Sends the cursor from which a stream must start to get every event that this answer does not contain. `cursor` was
/// taken before the read began.
pub(super) fn add_to(cursor: Option<&Cursor>, mut response: Response) -> Response {
    if let Some(value) = cursor.and_then(|cursor| HeaderValue::try_from(cursor.to_string()).ok()) {
        response.headers_mut().insert(EVENT_CURSOR, value);
    }
    response
}
