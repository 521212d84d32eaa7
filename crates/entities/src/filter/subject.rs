use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use gatewright_db::dialect;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::columns::Columns;
use crate::declare::Kind;

/// A record as filters ask it: read once, with each text folded once, for any number of filters.
#[derive(Debug, Default)]
pub(crate) struct Subject(Vec<Cell>);

#[derive(Debug, Default)]
struct Cell {
    /// Absent where the record has no value. JSON, which no filter looks into, is an empty array.
    value: Option<Json>,
    folded: OnceLock<String>,
}

impl Subject {
    /// Reads a record in wire form. Anything other than a JSON object, which does not occur, has no values.
    pub(crate) fn read(columns: &Columns, record: &[u8]) -> Self {
        let Ok(mut keys) = serde_json::from_slice::<HashMap<Cow<'_, str>, &RawValue>>(record) else {
            return Self::default();
        };
        let cell = |raw: &RawValue, kind: Kind| {
            let value = match raw.get().as_bytes().first() {
                Some(b'{' | b'[') if kind != Kind::List => Json::Array(Vec::new()),
                _ => serde_json::from_str(raw.get()).unwrap_or(Json::Null),
            };
            Cell { value: (!value.is_null()).then_some(value), folded: OnceLock::new() }
        };
        Self(
            columns
                .iter()
                .map(|column| keys.remove(&*column.key).map(|raw| cell(raw, column.kind)).unwrap_or_default())
                .collect(),
        )
    }

    /// The value in a column.
    pub(crate) fn value(&self, column: usize) -> Option<&Json> {
        self.0.get(column)?.value.as_ref()
    }

    /// The text in a column, folded.
    pub(crate) fn folded(&self, column: usize) -> Option<&str> {
        let cell = self.0.get(column)?;
        let text = cell.value.as_ref()?.as_str()?;
        Some(cell.folded.get_or_init(|| dialect::fold_case(text)))
    }
}
