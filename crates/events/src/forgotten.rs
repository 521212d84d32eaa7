use serde_json::{Map, Value};

/// What is forgotten of the events of a deleted account's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget {
    /// Whose the records were. They live on, without an owner. The contents of those that were deleted go all the same.
    Owner,
    /// The records' contents too, which are gone. Their ids stay.
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

/// A record without all that it holds except its id.
pub(crate) fn emptied(record: &Value) -> Value {
    let id = record.get("id").cloned().unwrap_or(Value::Null);
    Value::Object(Map::from_iter([("id".to_owned(), id)]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_but_the_id_is_left() {
        assert_eq!(emptied(&json!({ "id": "7", "title": "Diary" })), json!({ "id": "7" }));
        assert_eq!(emptied(&json!("Diary")), json!({ "id": null }));
    }
}
