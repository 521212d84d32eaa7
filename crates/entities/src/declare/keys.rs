//! Keys and indexes over several fields.

/// Fields whose values together are another record's in no other record: `unique` of an [`Entity`](super::Entity).
///
/// ```
/// use gatewright_entities::{Entity, Field, Unique};
/// let tickets = Entity::new("tickets")
///     .field(Field::string("desk"))
///     .field(Field::int("number"))
///     .field(Field::string("slug"))
///     .unique(["desk", "number"])
///     .unique(Unique::of(["slug"]).ignore_case());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    pub(crate) fields: Vec<String>,
    pub(crate) ignore_case: bool,
}

impl Unique {
    /// A key over these fields. Records in which one of them is null never conflict.
    pub fn of<N: Into<String>>(fields: impl IntoIterator<Item = N>) -> Self {
        Self { fields: fields.into_iter().map(Into::into).collect(), ignore_case: false }
    }

    /// Texts that differ only in case count as equal (Unicode's simple case folding, as the operator `~` uses it).
    pub fn ignore_case(self) -> Self {
        Self { ignore_case: true, ..self }
    }
}

impl<N: Into<String>, const COUNT: usize> From<[N; COUNT]> for Unique {
    fn from(fields: [N; COUNT]) -> Self {
        Self::of(fields)
    }
}

impl From<Vec<String>> for Unique {
    fn from(fields: Vec<String>) -> Self {
        Self::of(fields)
    }
}
