//! `gatewright outbox …`: rows that are staged for durable consumers, and their deliveries.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use gatewright::events::outbox::{ListRows, Outbox, ReplayError, RowStatus};

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn list(
    common: &Common,
    status: Option<RowStatus>,
    limit: u32,
    offset: u32,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let rows = open(common).await?.list(ListRows { status, limit, offset }).await?;
    if json {
        return Ok(print(&serde_json::json!({ "items": rows })));
    }
    for row in &rows {
        output::line(&format!("{}  {}  {}  {}", row.id, row.created_at, row.status, row.event_type));
    }
    output::line(&output::count(rows.len(), "row", "rows"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn deliveries(common: &Common, row: &str, json: bool) -> anyhow::Result<ExitCode> {
    let deliveries = open(common).await?.list_deliveries(row).await?.ok_or_else(|| unknown(row))?;
    if json {
        return Ok(print(&serde_json::json!({ "items": deliveries })));
    }
    for delivery in &deliveries {
        let error =
            delivery.last_error.as_deref().map(|error| format!("  {}", output::one_line(error))).unwrap_or_default();
        let failures = output::count(usize::try_from(delivery.attempts).unwrap_or(0), "time", "times");
        output::line(&format!("{}  {}  failed {failures}{error}", delivery.consumer, delivery.status));
    }
    output::line(&output::count(deliveries.len(), "delivery", "deliveries"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn replay(common: &Common, row: &str, consumer: Option<&str>) -> anyhow::Result<ExitCode> {
    let outbox = open(common).await?;
    let replayed = match consumer {
        None => outbox.replay(row).await,
        Some(consumer) => outbox.replay_consumer(row, consumer).await,
    };
    let replayed = replayed.map_err(|error| match error {
        ReplayError::NoRow(row) => unknown(&row),
        ReplayError::NoDelivery { .. } => {
            anyhow!("{error}; `gatewright outbox deliveries {row}` shows the deliveries")
        }
        error => error.into(),
    })?;
    output::line(&match replayed {
        0 => "nothing to replay: no delivery is dead or abandoned".to_owned(),
        1 => "1 delivery is pending again".to_owned(),
        more => format!("{more} deliveries are pending again"),
    });
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn stats(common: &Common, json: bool) -> anyhow::Result<ExitCode> {
    let stats = open(common).await?.stats().await?;
    if json {
        return Ok(print(&serde_json::to_value(&stats).context("cannot write JSON")?));
    }
    output::line(&format!("bytes  {}", stats.bytes));
    for (status, rows) in &stats.rows {
        output::line(&format!("rows  {status}  {rows}"));
    }
    for (consumer, statuses) in &stats.consumers {
        for (status, deliveries) in statuses {
            output::line(&format!("{consumer}  {status}  {deliveries}"));
        }
    }
    match stats.oldest_pending_seconds {
        Some(seconds) => output::line(&format!("the oldest pending event was staged {seconds} s ago")),
        None => output::line("no delivery is pending"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn open(common: &Common) -> anyhow::Result<Outbox> {
    Ok(gatewright::outbox(&configuration::for_management(common)?).await?)
}

fn unknown(row: &str) -> anyhow::Error {
    anyhow!("there is no outbox row {row}; `gatewright outbox list` shows the rows")
}

fn print(value: &serde_json::Value) -> ExitCode {
    output::line(&value.to_string());
    ExitCode::SUCCESS
}
