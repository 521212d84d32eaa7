//! An event stream, on a connection that serves no further request.
//!
//! hyper has two buffers of 8 KiB for a connection, which would be most of the memory of an idle stream. A stream reads
//! no further requests and sends complete chunks. So it takes the connection over before its answer begins, and closes
//! it at its end.

use std::io::{self, Write};

use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_TYPE, DATE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Version};
use http_body_util::BodyExt;
use hyper::body::{Buf, Bytes};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most bytes of a chunk's size and the end of its line.
const SIZE: usize = 18;

/// The parts of a request that determine how its answer may be sent.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// The answer has a body.
    has_body: bool,
    /// The body can be sent in chunks.
    is_chunked: bool,
}

impl Form {
    pub(super) fn of<B>(request: &http::Request<B>) -> Self {
        Self { has_body: request.method() != Method::HEAD, is_chunked: request.version() >= Version::HTTP_11 }
    }
}

/// The answer that takes a connection over.
pub(super) struct EventStream {
    head: Vec<u8>,
    body: Body,
    is_chunked: bool,
}

impl EventStream {
    /// Whether an answer is one, so that [`new`](Self::new) is for it.
    pub(super) fn is_in(form: Form, answer: &Response) -> bool {
        let content_type = answer.headers().get(CONTENT_TYPE);
        form.has_body && content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
    }

    pub(super) fn new(form: Form, answer: Response, now: Timestamp) -> Self {
        let (mut parts, body) = answer.into_parts();
        let headers = &mut parts.headers;
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if form.is_chunked {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if let Some(date) =
            DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok().and_then(|date| date.parse().ok())
        {
            headers.entry(DATE).or_insert(date);
        }
        let status = parts.status;
        let mut head =
            format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or_default()).into_bytes();
        write_headers(headers, &mut head);
        Self { head, body, is_chunked: form.is_chunked }
    }

    /// Sends it to its end, or until the client disconnects. Other input of the client is ignored: with `hears`, only the end of
    /// the input is detected, and only if the client sent nothing before it.
    pub(super) async fn send<S>(self, mut connection: S, mut hears: bool) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Self { head, mut body, is_chunked } = self;
        connection.write_all(&head).await?;
        connection.flush().await?;
        drop(head);
        let mut unasked = [0];
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                read = connection.read(&mut unasked), if hears => {
                    if read? == 0 {
                        return Ok(());
                    }
                    hears = false;
                    continue;
                }
            };
            let Some(frame) = frame else { break };
            match frame.map_err(io::Error::other)?.into_data() {
                Ok(data) if !data.is_empty() => write(&mut connection, data, is_chunked).await?,
                _ => {}
            }
        }
        if is_chunked {
            connection.write_all(b"0\r\n\r\n").await?;
            connection.flush().await?;
        }
        connection.shutdown().await
    }
}

async fn write<S: AsyncWrite + Unpin>(connection: &mut S, mut data: Bytes, is_chunked: bool) -> io::Result<()> {
    if is_chunked {
        let mut size = [0; SIZE];
        let mut rest = &mut size[..];
        write!(rest, "{:x}\r\n", data.len())?;
        let length = SIZE - rest.len();
        let mut chunk = Buf::chain(Buf::chain(&size[..length], data), &b"\r\n"[..]);
        connection.write_all_buf(&mut chunk).await?;
    } else {
        connection.write_all_buf(&mut data).await?;
    }
    connection.flush().await
}

fn write_headers(headers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn answer(parts: &[&'static str]) -> Response {
        let parts: Vec<_> = parts.iter().map(|part| io::Result::Ok(Bytes::from_static(part.as_bytes()))).collect();
        let answer = Response::builder().header("content-type", "text/event-stream").header("x-a", "b");
        answer.body(Body::from_stream(stream::iter(parts))).unwrap()
    }

    fn form(method: &str, version: Version) -> Form {
        Form::of(&http::Request::builder().method(method).version(version).body(()).unwrap())
    }

    async fn sent(version: Version) -> String {
        let form = form("GET", version);
        let answer = answer(&["one\n\n", "", &"x".repeat(20).leak()[..]]);
        assert!(EventStream::is_in(form, &answer));
        let (server, mut client) = tokio::io::duplex(4);
        let stream = EventStream::new(form, answer, Timestamp::UNIX_EPOCH);
        let sending = tokio::spawn(stream.send(server, true));
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        sending.await.unwrap().unwrap();
        text
    }

    #[tokio::test]
    async fn a_stream_is_sent_in_chunks_and_closes_its_connection() {
        let expected = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-a: b\r\nconnection: close\r\n\
                        transfer-encoding: chunked\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n\
                        5\r\none\n\n\r\n14\r\nxxxxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n";
        assert_eq!(sent(Version::HTTP_11).await, expected);
    }

    #[tokio::test]
    async fn a_client_without_chunked_encoding_gets_no_chunks() {
        let expected = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-a: b\r\nconnection: close\r\n\
                        date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\none\n\nxxxxxxxxxxxxxxxxxxxx";
        assert_eq!(sent(Version::HTTP_10).await, expected);
    }

    #[test]
    fn answers_to_head_and_empty_answers_are_not_event_streams() {
        assert!(!EventStream::is_in(form("HEAD", Version::HTTP_11), &answer(&[])));
        assert!(!EventStream::is_in(form("GET", Version::HTTP_11), &Response::new(Body::empty())));
    }

    #[tokio::test]
    async fn a_stream_ends_when_its_client_goes_and_not_when_it_sends_more() {
        for (asks, ends) in [(false, true), (true, false)] {
            let answer = Response::new(Body::from_stream(stream::pending::<io::Result<Bytes>>()));
            let (server, mut client) = tokio::io::duplex(1_024);
            let stream = EventStream::new(form("GET", Version::HTTP_11), answer, Timestamp::UNIX_EPOCH);
            let sending = tokio::spawn(stream.send(server, true));
            if asks {
                client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
                tokio::task::yield_now().await;
                assert!(!sending.is_finished());
            }
            let mut head = [0; 15];
            client.read_exact(&mut head).await.unwrap();
            if ends {
                drop(client);
                sending.await.unwrap().unwrap();
            } else {
                sending.abort();
            }
        }
    }
}
