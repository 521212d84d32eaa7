use std::fmt;
use std::str::FromStr;

use gatewright_base::nearest;

/// The type of a field, as the word that a declaration uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Text, intended to be short.
    String,
    /// Text of any length.
    Text,
    /// A 64-bit signed integer.
    Int,
    /// A finite double.
    Float,
    /// An exact decimal number of at most 38 digits; a JSON string on the wire.
    Decimal,
    /// A truth value.
    Bool,
    /// One of the words in `values`.
    Enum,
    /// A calendar day, `YYYY-MM-DD`.
    Date,
    /// A point in time, RFC 3339, kept in UTC to the microsecond.
    Timestamp,
    /// A UUID in its hyphenated form.
    Uuid,
    /// Any JSON value. Postgres stores the keys of objects in its own order and numbers without exponents; `SQLite`
    /// stores both unchanged.
    Json,
    /// A JSON array whose items are of the type `of`.
    List,
    /// The id of a record of another entity, or of a user.
    Relation,
    /// A file, which is uploaded and stored beside the database. On the wire an object that describes it.
    File,
}

const WORDS: [(&str, Kind); 14] = [
    ("string", Kind::String),
    ("text", Kind::Text),
    ("int", Kind::Int),
    ("float", Kind::Float),
    ("decimal", Kind::Decimal),
    ("bool", Kind::Bool),
    ("enum", Kind::Enum),
    ("date", Kind::Date),
    ("timestamp", Kind::Timestamp),
    ("uuid", Kind::Uuid),
    ("json", Kind::Json),
    ("list", Kind::List),
    ("relation", Kind::Relation),
    ("file", Kind::File),
];

/// What other systems call these types.
const USUAL: [(&str, &str); 23] = [
    ("varchar", "string"),
    ("char", "string"),
    ("str", "string"),
    ("integer", "int"),
    ("bigint", "int"),
    ("smallint", "int"),
    ("number", "float"),
    ("double", "float"),
    ("real", "float"),
    ("numeric", "decimal"),
    ("money", "decimal"),
    ("boolean", "bool"),
    ("datetime", "timestamp"),
    ("timestamptz", "timestamp"),
    ("time", "timestamp"),
    ("jsonb", "json"),
    ("object", "json"),
    ("array", "list"),
    ("reference", "relation"),
    ("foreign_key", "relation"),
    ("guid", "uuid"),
    ("attachment", "file"),
    ("blob", "file"),
];

impl Kind {
    /// Every type.
    pub fn all() -> impl Iterator<Item = Self> {
        WORDS.into_iter().map(|(_, kind)| kind)
    }

    /// What values without an order are, for messages.
    pub(crate) fn unordered(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("JSON"),
            Self::List => Some("a list"),
            Self::File => Some("a file"),
            _ => None,
        }
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An unknown field type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is not a field type{}; the types are {}", meant.map(|word| format!(", did you mean \"{word}\"?")).unwrap_or_default(), WORDS.map(|(word, _)| word).join(", "))]
pub struct UnknownKind {
    word: String,
    meant: Option<&'static str>,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        WORDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind).ok_or_else(|| UnknownKind {
            word: word.chars().take(80).collect(),
            meant: meant(&word.to_ascii_lowercase()),
        })
    }
}

fn meant(word: &str) -> Option<&'static str> {
    let usual = USUAL.iter().find(|(usual, _)| *usual == word).map(|(_, ours)| *ours);
    usual.or_else(|| nearest(word, WORDS.map(|(word, _)| word)))
}

/// What happens to a record when the record that one of its relations names is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnDelete {
    /// The other record cannot be deleted while this one names it.
    #[default]
    Restrict,
    /// This record is deleted too.
    Cascade,
    /// The relation becomes null.
    SetNull,
}

/// An unknown `on_delete` rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an on_delete rule; the rules are restrict, cascade and set_null")]
pub struct UnknownOnDelete(String);

impl FromStr for OnDelete {
    type Err = UnknownOnDelete;

    fn from_str(word: &str) -> Result<Self, UnknownOnDelete> {
        let unknown = || UnknownOnDelete(word.chars().take(80).collect());
        Self::all().find(|rule| rule.as_str() == word).ok_or_else(unknown)
    }
}

impl OnDelete {
    /// Every rule.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Restrict, Self::Cascade, Self::SetNull].into_iter()
    }

    /// The word that a declaration uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restrict => "restrict",
            Self::Cascade => "cascade",
            Self::SetNull => "set_null",
        }
    }

    /// The rule's SQL.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_name_is_parsed_and_a_typo_gets_a_suggestion() {
        for (word, kind) in WORDS {
            assert_eq!(word.parse::<Kind>(), Ok(kind));
            assert_eq!(kind.as_str(), word);
        }
        for (word, meant) in [
            ("strnig", "string"),
            ("varchar", "string"),
            ("boolean", "bool"),
            ("integer", "int"),
            ("datetime", "timestamp"),
            ("Numeric", "decimal"),
        ] {
            let message = word.parse::<Kind>().unwrap_err().to_string();
            assert!(message.contains(&format!("did you mean \"{meant}\"?")), "{message}");
        }
        for (_, ours) in USUAL {
            assert!(ours.parse::<Kind>().is_ok(), "{ours}");
        }
    }
}
