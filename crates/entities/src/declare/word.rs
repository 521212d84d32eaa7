use super::{Field, Kind, Literal, names};

/// A default that depends on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultWord {
    /// The caller's id.
    Me,
    /// The time of the request.
    Now,
    /// The day of the request, in UTC.
    Today,
    /// A new UUID.
    Uuid,
    /// The request's tenant.
    Tenant,
}

const WORDS: [(&str, DefaultWord); 5] = [
    ("@me", DefaultWord::Me),
    ("@now", DefaultWord::Now),
    ("@today", DefaultWord::Today),
    ("@uuid", DefaultWord::Uuid),
    ("@tenant", DefaultWord::Tenant),
];

impl DefaultWord {
    /// The word that is the default of a field. Other texts are constants.
    pub(crate) fn of(field: &Field) -> Option<Self> {
        let Some(Literal::Text(text)) = &field.default else { return None };
        WORDS.iter().find(|(word, _)| word == text).map(|(_, word)| *word)
    }

    /// Whether it is a value of that field, or else what it is.
    pub(super) fn fits(self, field: &Field) -> Result<(), &'static str> {
        let is_text = matches!(field.kind, Kind::String | Kind::Text);
        let (fits, expected) = match self {
            Self::Me => (
                is_text || field.to.as_deref() == Some(names::USERS),
                "the id of an account: the field is a text or a relation to users",
            ),
            Self::Now => (field.kind == Kind::Timestamp, "a time: the field is a timestamp"),
            Self::Today => (field.kind == Kind::Date, "a day: the field is a date"),
            Self::Uuid => (is_text || field.kind == Kind::Uuid, "a UUID: the field is a uuid or a text"),
            Self::Tenant => (is_text, "the name of a tenant: the field is a text"),
        };
        if fits { Ok(()) } else { Err(expected) }
    }
}
