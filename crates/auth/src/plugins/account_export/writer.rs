use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use gatewright_base::JsonCase;
use serde_json::Value;
use tokio::sync::mpsc;

use super::flow::Export;
use crate::core::Core;
use crate::removal::RecordsAt;
use crate::users::BoxError;

/// Bytes of a piece at most.
const PIECE: usize = 256 << 10;
/// Pieces that wait for the reader.
const AHEAD: usize = 2;
/// The time limit for reading one piece: a reader with 5 kB per second gets everything.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The time limit for reading all pieces, because others wait for the place.
const DEADLINE: Duration = Duration::from_mins(30);

/// Sends an export, piece by piece. If something fails, the answer is aborted, so that an incomplete export is not
/// mistaken for a complete one.
pub(super) fn body(core: Arc<Core>, export: Export, case: JsonCase) -> Body {
    let (pieces, received) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut writer = Writer { core, case, pieces };
        let run = tokio::time::timeout(DEADLINE, writer.run(export)).await;
        if let Err(error) = run.unwrap_or_else(|_| Err("the client took too long for the whole export".into())) {
            tracing::warn!(%error, "an export ended early");
            let _gone = writer.pieces.try_send(Err(io::Error::other("the export ended early")));
        }
    });
    Body::from_stream(stream::unfold(received, async |mut received| {
        let piece: Result<Bytes, io::Error> = received.recv().await?;
        Some((piece, received))
    }))
}

struct Writer {
    core: Arc<Core>,
    case: JsonCase,
    pieces: mpsc::Sender<Result<Bytes, io::Error>>,
}

/// Which records.
#[derive(Debug, Clone, Copy)]
enum Which {
    /// Those that the account owns.
    Owned,
    /// Those of others that name it.
    Naming,
}

impl Writer {
    async fn run(&mut self, export: Export) -> Result<(), BoxError> {
        let Export { user, head, profile, has_naming, turn } = export;
        let head = serde_json::to_string(&spelled(Value::Object(head), self.case))?;
        let open = head.strip_suffix('}').unwrap_or(&head);
        let profile = profile.map(|profile| format!(",\"profile\":{}", Value::Object(profile)));
        self.send(format!("{open}{},\"audit\":[", profile.unwrap_or_default())).await?;
        let mut after = None;
        let mut is_first = true;
        while let Some(sink) = self.core.audit.sink().cloned() {
            let page = sink.about(&user, after).await?;
            let mut text = String::new();
            for event in &page.events {
                text.push_str(if is_first { "" } else { "," });
                text.push_str(&event.to_string());
                is_first = false;
            }
            self.send(text).await?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.send("],\"records\":{".to_owned()).await?;
        self.records(&user, Which::Owned).await?;
        if has_naming {
            self.send("},\"naming\":{".to_owned()).await?;
            self.records(&user, Which::Naming).await?;
        }
        self.send("}}\n".to_owned()).await?;
        drop(turn);
        Ok(())
    }

    async fn records(&mut self, user: &gatewright_base::UserId, which: Which) -> Result<(), BoxError> {
        let Some(records) = self.core.records.get().cloned() else { return Ok(()) };
        let (mut at, mut open) = (RecordsAt::default(), None::<String>);
        loop {
            let page = match which {
                Which::Owned => records.owned(user, &at).await?,
                Which::Naming => records.naming(user, &at).await?,
            };
            let Some(page) = page else { break };
            let mut text = String::new();
            if let Some(table) = page.table {
                let is_new = open.as_ref() != Some(&table);
                if is_new {
                    let end = if open.is_some() { "]," } else { "" };
                    let _infallible = write!(text, "{end}{}:[", Value::from(table.clone()));
                    open = Some(table);
                }
                for (index, record) in page.records.iter().enumerate() {
                    text.push_str(if is_new && index == 0 { "" } else { "," });
                    text.push_str(&String::from_utf8_lossy(record));
                }
            }
            self.send(text).await?;
            at = page.next;
        }
        self.send(if open.is_some() { "]".to_owned() } else { String::new() }).await
    }

    async fn send(&self, text: String) -> Result<(), BoxError> {
        let mut rest = Bytes::from(text);
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE));
            let sent = tokio::time::timeout(TIMEOUT, self.pieces.send(Ok(piece))).await;
            sent.map_err(|_| "the client reads too slowly")?.map_err(|_| "the client disconnected")?;
        }
        Ok(())
    }
}

/// The same with its keys in the service's spelling.
fn spelled(value: Value, case: JsonCase) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (case.spell(&key), spelled(value, case))).collect()
        }
        Value::Array(items) => items.into_iter().map(|item| spelled(item, case)).collect(),
        other => other,
    }
}
