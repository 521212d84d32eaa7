use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use bytes::BytesMut;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::find::Form;
use crate::body::unreadable::Unreadable;

/// How much is read before the first look; each further look is at twice as much, so that a body which trickles in
/// byte by byte is not parsed byte by byte.
const FIRST_LOOK: usize = 8 * 1024;

/// Looks for `_csrf` in the first `limit` bytes of a form, and gives the body back as it came, trailers included.
///
/// No more is read than is needed: behind the field the body flows to the handler unread, so that a large file may
/// follow it. Fails if the body is longer than the limit of an outer layer, or breaks off.
pub(super) async fn peek(form: &Form, body: Body, limit: usize) -> Result<(Option<String>, Body), Unreadable> {
    let mut head = BytesMut::new();
    let mut rest = Rest { unread: Some(body), overhang: None, trailers: None };
    let mut look_at = FIRST_LOOK.min(limit);
    loop {
        rest.fill(&mut head, look_at, limit).await?;
        let ended = rest.ended();
        let bytes = head.freeze();
        let found = form.find(&bytes, ended).await;
        if found.is_some() || ended || bytes.len() >= limit {
            return Ok((found, Body::new(Replay { head: Some(bytes).filter(|bytes| !bytes.is_empty()), rest })));
        }
        look_at = bytes.len().saturating_mul(2).min(limit);
        head = bytes.into();
    }
}

/// The rest of the body after the examined bytes.
struct Rest {
    unread: Option<Body>,
    /// The end of a chunk that reaches over the limit.
    overhang: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Rest {
    async fn fill(&mut self, head: &mut BytesMut, enough: usize, limit: usize) -> Result<(), Unreadable> {
        while head.len() < enough
            && let Some(body) = &mut self.unread
        {
            match body.frame().await.transpose().map_err(|error| Unreadable::of(&error))? {
                None => self.unread = None,
                Some(frame) => match frame.into_data() {
                    Ok(mut data) => {
                        let overhang = data.split_off(data.len().min(limit - head.len()));
                        head.extend_from_slice(&data);
                        self.overhang = Some(overhang).filter(|bytes| !bytes.is_empty());
                    }
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
            }
        }
        if self.unread.as_ref().is_some_and(HttpBody::is_end_stream) {
            self.unread = None;
        }
        Ok(())
    }

    fn ended(&self) -> bool {
        self.unread.is_none() && self.overhang.is_none()
    }
}

/// The original body: the examined bytes, then the rest.
struct Replay {
    head: Option<Bytes>,
    rest: Rest,
}

impl HttpBody for Replay {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Some(bytes) = this.head.take().or_else(|| this.rest.overhang.take()) {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if let Some(body) = &mut this.rest.unread {
            return Pin::new(body).poll_frame(cx);
        }
        Poll::Ready(this.rest.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_none()
            && self.rest.overhang.is_none()
            && self.rest.trailers.is_none()
            && self.rest.unread.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let here = [&self.head, &self.rest.overhang].into_iter().flatten().map(|bytes| bytes.len() as u64).sum::<u64>();
        let unread = self.rest.unread.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(here.saturating_add(unread.lower()));
        if let Some(upper) = unread.upper().and_then(|upper| upper.checked_add(here)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{StreamExt as _, stream};
    use http_body_util::{Limited, StreamBody};
    use proptest::prelude::*;

    use super::*;

    fn urlencoded(chunks: Vec<Bytes>) -> Body {
        Body::from_stream(stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>)))
    }

    #[tokio::test]
    async fn nothing_is_read_after_the_field_or_beyond_the_limit() {
        const CHUNK: usize = 1000;
        for (first, limit, at_most) in [("_csrf=t&", 1_000_000, 10), ("a=b&", 50_000, 51)] {
            let read = Arc::new(AtomicUsize::new(0));
            let counter = read.clone();
            let chunks = stream::iter(0..100_000).map(move |index| {
                counter.fetch_add(1, Ordering::Relaxed);
                let text = if index == 0 { first.to_owned() } else { "x".repeat(CHUNK) };
                Ok::<_, std::io::Error>(text)
            });
            let (found, body) = peek(&Form::Urlencoded, Body::from_stream(chunks), limit).await.unwrap();
            assert_eq!(found.as_deref(), first.starts_with('_').then_some("t"));
            let chunks_read = read.load(Ordering::Relaxed);
            assert!(chunks_read <= at_most, "{chunks_read}");
            let total = body.into_data_stream().fold(0, async |sum, chunk| sum + chunk.unwrap().len()).await;
            assert_eq!(total, first.len() + 99_999 * CHUNK);
        }
    }

    #[tokio::test]
    async fn the_end_of_a_body_of_exactly_the_limit_is_detected() {
        for limit in [8, 9] {
            let (found, _) = peek(&Form::Urlencoded, Body::from("_csrf=ab"), limit).await.unwrap();
            assert_eq!(found.as_deref(), Some("ab"));
        }
        let (found, body) = peek(&Form::Urlencoded, Body::from("_csrf=ab"), 7).await.unwrap();
        assert_eq!(found, None);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "_csrf=ab");
    }

    #[tokio::test]
    async fn trailers_and_the_length_survive() {
        let trailers: HeaderMap = [("x-sum".parse().unwrap(), "1".parse().unwrap())].into_iter().collect();
        let frames = [Frame::data(Bytes::from_static(b"a=b&")), Frame::trailers(trailers.clone())];
        let body = Body::new(StreamBody::new(stream::iter(frames.map(Ok::<_, std::io::Error>))));
        let (_, body) = peek(&Form::Urlencoded, body, 100).await.unwrap();
        let collected = body.collect().await.unwrap();
        assert_eq!(collected.trailers(), Some(&trailers));
        assert_eq!(collected.to_bytes(), "a=b&");

        for limit in [2, 100] {
            let (_, body) = peek(&Form::Urlencoded, Body::from("a=b&c=d"), limit).await.unwrap();
            assert_eq!(body.size_hint().exact(), Some(7));
            assert!(!body.is_end_stream());
        }
        let (_, body) = peek(&Form::Urlencoded, Body::empty(), 100).await.unwrap();
        assert!(body.is_end_stream() && body.size_hint().exact() == Some(0));
    }

    #[tokio::test]
    async fn an_outer_limit_and_a_broken_connection_are_distinguished() {
        let long = Body::new(Limited::new(Body::from("a".repeat(100)), 10));
        assert_eq!(peek(&Form::Urlencoded, long, 1000).await.unwrap_err(), Unreadable::TooLarge);
        let broken = Body::from_stream(stream::iter([Ok("_csr"), Err(std::io::Error::other("reset"))]));
        assert_eq!(peek(&Form::Urlencoded, broken, 1000).await.unwrap_err(), Unreadable::Broken);
    }

    /// Bodies that look a little like forms, cut into chunks anywhere.
    fn chunked() -> impl Strategy<Value = Vec<Bytes>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            Just(b"--x\r\nContent-Disposition: form-data; name=\"_csrf\"\r\n\r\n".to_vec()),
            Just(b"\r\n--x--\r\n".to_vec()),
            Just(b"\r\n--x\r\n".to_vec()),
            Just(b"&_csrf=".to_vec()),
            Just(b"abc".repeat(5_000)),
        ];
        prop::collection::vec(piece.prop_map(Bytes::from), 0..12)
    }

    proptest! {
        #[test]
        fn any_body_is_passed_on_unchanged(chunks in chunked(), limit in 0_usize..20_000, multipart: bool) {
            let form = if multipart { Form::Multipart { boundary: "x".to_owned() } } else { Form::Urlencoded };
            let expected = chunks.concat();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (found, replayed) = runtime.block_on(async {
                let (found, body) = peek(&form, urlencoded(chunks), limit).await.unwrap();
                (found, body.collect().await.unwrap().to_bytes())
            });
            prop_assert_eq!(&replayed, &expected);
            // However the body is cut, the result is that of one search in the whole body, up to the limit.
            if limit > expected.len() {
                let whole = runtime.block_on(form.find(&expected.into(), true));
                prop_assert_eq!(found, whole);
            }
        }
    }
}
