//! Bodies that take their bytes from a [`Budget`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use gatewright_base::{Lease, OverBudget};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

/// The part of a body that is not taken from the budget. So small requests and answers are served even if the budget is
/// used up; the connection limit limits their sum.
pub(super) const FREE: usize = 16 * 1024;

/// Takes the bytes of a request's body from `lease` as they are read. They stay taken until the lease is dropped, because
/// the reader keeps them.
pub(super) fn incoming(body: Body, lease: Arc<Mutex<Lease>>) -> Body {
    Body::new(Incoming { body, lease, read: 0 })
}

/// Has an answer's body of `bytes` bytes take them from `lease`, and give them back once they are sent or given up.
pub(super) fn outgoing(body: Body, bytes: usize, mut lease: Lease) -> Result<Body, OverBudget> {
    if bytes > FREE {
        lease.grow(bytes)?;
        return Ok(Body::new(Outgoing { body, lease: Arc::new(lease) }));
    }
    Ok(body)
}

struct Incoming {
    body: Body,
    lease: Arc<Mutex<Lease>>,
    read: usize,
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.read += data.len();
            let mut lease = self.lease.lock();
            let missing = self.read.saturating_sub(FREE).saturating_sub(lease.bytes());
            if let Err(over) = lease.grow(missing) {
                return Poll::Ready(Some(Err(axum::Error::new(over))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Outgoing {
    body: Body,
    lease: Arc<Lease>,
}

/// Bytes that keep their lease. The connection drops the body as soon as it has its last bytes, long before they are sent.
struct Leased {
    bytes: Bytes,
    _lease: Arc<Lease>,
}

impl AsRef<[u8]> for Leased {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let leased = |bytes| Bytes::from_owner(Leased { bytes, _lease: self.lease.clone() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(leased))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
