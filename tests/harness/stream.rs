//! A listener to server-sent events.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use serde_json::Value;

pub(crate) struct Stream {
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: String,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { chunks: response.bytes_stream().boxed(), buffer: String::new() }
    }

    /// The next event. Comments and `ready` are skipped. `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            match self.any().await {
                Some(event) if event.kind == "ready" => {}
                event => return event,
            }
        }
    }

    /// The next event, including `ready`.
    pub(crate) async fn any(&mut self) -> Option<Event> {
        tokio::time::timeout(Duration::from_mins(1), self.read()).await.expect("no event within a minute")
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            while let Some((frame, rest)) = self.buffer.split_once("\n\n") {
                let event = parse(frame);
                self.buffer = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            let chunk = self.chunks.next().await?.ok()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn parse(frame: &str) -> Option<Event> {
    let (mut kind, mut data) = (String::new(), String::new());
    for line in frame.lines() {
        match line.split_once(':').map(|(name, value)| (name, value.strip_prefix(' ').unwrap_or(value))) {
            Some(("event", value)) => value.clone_into(&mut kind),
            Some(("data", value)) => data.push_str(value),
            _ => {}
        }
    }
    (!data.is_empty()).then(|| Event { kind, data: serde_json::from_str(&data).unwrap() })
}
