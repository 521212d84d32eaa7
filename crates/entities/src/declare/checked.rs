use std::collections::BTreeMap;

/// A condition that every record must pass when it is written: `[[entity.check]]`.
///
/// ```
/// use gatewright_entities::{Entity, Field, RecordCheck};
/// let tickets = Entity::new("tickets")
///     .field(Field::timestamp("opened_at"))
///     .field(Field::timestamp("due_at"))
///     .check(RecordCheck::new("due_at = null || due_at > opened_at", "must be after the opening").field("due_at"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordCheck {
    pub(crate) rule: String,
    pub(crate) field: Option<String>,
    pub(crate) message: String,
    pub(crate) messages: BTreeMap<String, String>,
}

impl RecordCheck {
    /// A condition in the language of rules on the record as it will be stored, and the message of its failure, which follows
    /// the name of a field: `must be after the opening`.
    pub fn new(rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule: rule.into(), field: None, message: message.into(), messages: BTreeMap::new() }
    }

    /// The field that the failure is about.
    pub fn field(self, name: impl Into<String>) -> Self {
        Self { field: Some(name.into()), ..self }
    }

    /// The message in another language, a subtag such as `de`, for callers whose `Accept-Language` prefers it.
    pub fn message_in(mut self, language: impl Into<String>, message: impl Into<String>) -> Self {
        self.messages.insert(language.into().to_ascii_lowercase(), message.into());
        self
    }
}
