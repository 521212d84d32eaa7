use std::collections::{HashMap, HashSet};

use gatewright_db::{Db, Error, Sql, dialect, params, schema};
use serde_json::{Map, Value, json};

/// Records that one statement looks for.
const LOOKED_FOR: usize = 1_000;

/// What to remove from the events of a deleted account's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget {
    /// The owner. The records stay, without an owner. The contents of deleted records are removed in any case.
    Owner,
    /// Also the contents of the records, which are deleted. Their ids stay.
    Contents,
}

/// A record, by its table and its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecordKey {
    pub(crate) table: String,
    id: String,
}

impl RecordKey {
    pub(crate) fn of(table: &str, record: &Value) -> Option<Self> {
        let id = record.get("id")?.as_str()?;
        Some(Self { table: table.to_owned(), id: id.to_owned() })
    }
}

/// The records that are no longer in their tables. A record that is in the trash, or was restored from it, has a delete event
/// too, but still exists.
pub(crate) async fn gone_of(db: &Db, deleted: HashSet<RecordKey>) -> Result<HashSet<RecordKey>, Error> {
    let mut by_table: HashMap<&str, Vec<&str>> = HashMap::new();
    for key in &deleted {
        by_table.entry(&key.table).or_default().push(&key.id);
    }
    let mut living = HashSet::new();
    for (table, ids) in by_table {
        if schema::describe(db, table).await?.is_none() {
            continue;
        }
        let is_among = dialect::is_among(db.engine(), "id", "?1");
        let sql: Sql = format!("SELECT id FROM {} WHERE {is_among}", dialect::quoted(table)).into();
        for ids in ids.chunks(LOOKED_FOR) {
            for row in db.query(&sql, params![json!(ids).to_string()]).await? {
                living.insert(RecordKey { table: table.to_owned(), id: row.get("id")? });
            }
        }
    }
    Ok(deleted.into_iter().filter(|key| !living.contains(key)).collect())
}

/// A record reduced to its id.
pub(crate) fn emptied(record: &Value) -> Value {
    let id = record.get("id").cloned().unwrap_or(Value::Null);
    Value::Object(Map::from_iter([("id".to_owned(), id)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_is_left() {
        assert_eq!(emptied(&json!({ "id": "7", "title": "Diary" })), json!({ "id": "7" }));
        assert_eq!(emptied(&json!("Diary")), json!({ "id": null }));
    }
}
