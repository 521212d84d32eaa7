//! The links of relations to many records: tables that follow the lists of the records in the same transaction. The database
//! finds records by them, and its foreign keys refuse a link to nothing.

use gatewright_db::json::Json;
use gatewright_db::{Error as DatabaseError, Tx, Value, dialect, params};
use gatewright_events::EventKind;

use crate::condition::{LINK, LINKING};
use crate::declare::model::links_table;
use crate::fragment::quoted;
use crate::plan::Plan;
use crate::value::list::EMPTY;

/// The lists that a write gives to relations to many records, by the positions of the fields. A new record has no links yet,
/// so that its empty lists change none.
pub(super) fn linked(plan: &Plan, values: &[Option<Value>], kind: EventKind) -> Vec<(usize, Json)> {
    let lists = plan.fields.iter().zip(values).enumerate();
    let lists = lists.filter_map(|(index, (field, value))| match (field.links, value) {
        (Some(_), Some(Value::Json(list))) => Some((index, list.clone())),
        _ => None,
    });
    lists.filter(|(_, list)| kind != EventKind::Created || list.as_str() != EMPTY).collect()
}

/// Makes the links of a record those of its lists.
pub(super) async fn store(tx: &Tx, plan: &Plan, id: &str, lists: &[(usize, Json)]) -> Result<(), DatabaseError> {
    let engine = tx.engine();
    for (field, list) in lists {
        let links = table(plan, *field);
        let list = list.as_str();
        let among = dialect::is_among(engine, &quoted(LINK), "?2");
        let gone = format!("DELETE FROM {links} WHERE {LINKING} = ?1 AND NOT ({among})");
        tx.execute(gone, params![id, list]).await?;
        let there = dialect::numbered_elements(engine, "?2");
        let put = format!(
            "INSERT INTO {links} ({LINKING}, {LINK}, position) \
             SELECT CAST(?1 AS text), \"_l\".{LINK}, \"_l\".position FROM {there} AS \"_l\" WHERE 1 = 1 \
             ON CONFLICT ({LINKING}, {LINK}) DO UPDATE SET position = excluded.position"
        );
        tx.execute(put, params![id, list]).await?;
    }
    Ok(())
}

/// Removes the links of some records to the ids in `targets`, a JSON array.
pub(super) async fn remove(
    tx: &Tx,
    plan: &Plan,
    field: usize,
    targets: &str,
    records: &[String],
) -> Result<(), DatabaseError> {
    let links = table(plan, field);
    let linking = dialect::is_among(tx.engine(), &quoted(LINKING), "?1");
    let gone = dialect::is_among(tx.engine(), &quoted(LINK), "?2");
    let records = serde_json::json!(records).to_string();
    tx.execute(format!("DELETE FROM {links} WHERE {linking} AND {gone}"), params![records, targets]).await?;
    Ok(())
}

/// Texts as a JSON array.
pub(super) fn texts(values: &[Value]) -> String {
    let texts = values.iter().filter_map(|value| match value {
        Value::Text(text) => Some(&**text),
        _ => None,
    });
    serde_json::json!(texts.collect::<Vec<_>>()).to_string()
}

/// The table of the links of a field, in quotes.
pub(super) fn table(plan: &Plan, field: usize) -> String {
    quoted(&links_table(&plan.table, &plan.fields.at(field).column))
}
