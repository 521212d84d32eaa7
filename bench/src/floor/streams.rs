use std::convert::Infallible;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::{One, Post};

/// Events that wait for a slow stream before it loses the oldest, as many as a stream of Gatewright holds.
const BUFFER: usize = 32;

/// Every stream gets each new record, encoded once.
#[derive(Clone)]
pub(crate) struct Streams(broadcast::Sender<Bytes>);

impl Streams {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BUFFER))
    }

    /// Sends a record to the open streams.
    pub(crate) fn announce(&self, data: &Post) {
        if self.0.receiver_count() == 0 {
            return;
        }
        let event = serde_json::to_string(&One { data: data.clone() }).expect("a record is JSON");
        let _nobody = self.0.send(Bytes::from(format!("event: entity.created\ndata: {event}\n\n")));
    }

    /// A response with the records that are announced from now on.
    pub(crate) fn open(&self) -> Response {
        let opening = Bytes::from_static(b"event: ready\ndata: {}\n\n");
        let events = stream::unfold((Some(opening), self.0.subscribe()), async |(opening, mut receiver)| {
            if let Some(opening) = opening {
                return Some((Ok::<_, Infallible>(opening), (None, receiver)));
            }
            loop {
                match receiver.recv().await {
                    Ok(event) => return Some((Ok(event), (None, receiver))),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        });
        let mut response = Response::new(Body::from_stream(events));
        response.headers_mut().insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("text/event-stream"));
        response
    }
}
