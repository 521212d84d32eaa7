use gatewright_base::to_snake;
use indexmap::IndexMap;
use serde_json::Value;

use crate::Problem;

/// The top-level fields of a body by their `snake_case` names, in the order they came.
#[derive(Debug, Default)]
pub struct Fields {
    pub(super) entries: IndexMap<String, Entry>,
}

/// One field: the name as the caller spelled it, and its value.
pub(super) struct Entry {
    pub(super) spelled: String,
    pub(super) value: FieldValue,
}

/// A field's value: typed in JSON, text in forms, where a name may come several times.
pub(super) enum FieldValue {
    Json(Value),
    Text(Vec<String>),
}

/// Two spellings of one name in one body.
pub(super) struct Duplicate(pub(super) String);

impl Fields {
    /// Adds a JSON member. A duplicate name, in either spelling, is an error.
    pub(super) fn insert(&mut self, spelled: String, value: Value) -> Result<(), Duplicate> {
        let entry = Entry { value: FieldValue::Json(value), spelled };
        match self.entries.insert(to_snake(&entry.spelled), entry) {
            None => Ok(()),
            Some(earlier) => Err(Duplicate(earlier.spelled)),
        }
    }

    /// Adds a form value. A name may come again in the same spelling: then it is a list.
    pub(super) fn append(&mut self, spelled: String, text: String) -> Result<(), Duplicate> {
        let entry = self.entries.entry(to_snake(&spelled));
        let entry = entry.or_insert_with(|| Entry { spelled: spelled.clone(), value: FieldValue::Text(Vec::new()) });
        match &mut entry.value {
            FieldValue::Text(texts) if entry.spelled == spelled => {
                texts.push(text);
                Ok(())
            }
            _ => Err(Duplicate(spelled)),
        }
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the field out if it is a single text.
    pub fn take_text(&mut self, snake: &str) -> Option<String> {
        match self.entries.shift_remove(snake)?.value {
            FieldValue::Json(Value::String(text)) => Some(text),
            FieldValue::Text(mut texts) if texts.len() == 1 => texts.pop(),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Entry {
    /// Shows only that there is a value, because it may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl From<Duplicate> for Problem {
    fn from(Duplicate(name): Duplicate) -> Self {
        Self::bad_request(format!("the field \"{}\" is given more than once", clip(&name)))
    }
}

/// `text` short enough to be repeated in a message.
pub(super) fn clip(text: &str) -> String {
    text.chars().take(64).collect()
}
