use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use serde_json::Value;

/// An open event stream.
#[derive(Debug)]
pub struct Stream {
    body: BodyDataStream,
    read: String,
}

impl Stream {
    pub(crate) fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), read: String::new() }
    }

    /// The next message, including comments; `None` when the stream has ended.
    pub async fn next_message(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.find("\n\n") {
                return Some(self.read.drain(..end + 2).collect());
            }
            let chunk = self.body.next().await?.ok()?;
            self.read.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// The next event's name and data; `None` when the stream has ended. Comments and `ready` are skipped.
    ///
    /// # Panics
    /// If an event's data is not JSON.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let message = self.next_message().await?;
            let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(event), Some(data)) = (field("event:"), field("data:"))
                && event != "ready"
            {
                let data = serde_json::from_str(data).expect("an event's data is JSON");
                return Some((event.to_owned(), data));
            }
        }
    }
}
