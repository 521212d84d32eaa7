use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::broker::Broker;
use super::subscriber::Subscriber;

/// The body of a stream's response: passes its buffer to the connection, and releases the seat when the connection
/// drops it.
pub struct EventBody {
    broker: Arc<Broker>,
    subscriber: Arc<Subscriber>,
}

impl EventBody {
    pub(super) fn new(broker: Arc<Broker>, subscriber: Arc<Subscriber>) -> Self {
        Self { broker, subscriber }
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.subscriber.ring.poll_chunk(context).map(|chunk| {
            let chunk = chunk?;
            self.broker.count_delivered(chunk.events);
            Some(Ok(Frame::data(chunk.bytes)))
        })
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        self.broker.release(&self.subscriber);
    }
}

impl std::fmt::Debug for EventBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventBody").field("table", &self.subscriber.table).finish_non_exhaustive()
    }
}
