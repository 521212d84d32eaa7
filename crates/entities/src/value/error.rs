use std::fmt;

/// One reason why a body was refused: which field, a stable code for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field in the wire's case.
    pub field: String,
    /// One of the codes that [`code`] lists.
    pub code: &'static str,
    /// A description of correct values.
    pub message: String,
}

impl FieldError {
    /// The error of a value that another record has: of a field that is unique by itself, or of a declared key.
    pub(crate) fn taken(field: String, by_key: bool) -> Self {
        Self { field, code: if by_key { code::TAKEN } else { code::UNIQUE }, message: "is taken already".to_owned() }
    }

    /// The error of a relation to a record that is not there, or not for the caller.
    pub(crate) fn names_no_record(field: &str) -> Self {
        Fault::new(code::RELATION, "names no record").at(field)
    }

    /// The same of the id at a position of a relation to many records.
    pub(crate) fn names_no_record_at(field: &str, index: usize) -> Self {
        Fault::new(code::RELATION, "names no record").inside(format!("[{index}]")).at(field)
    }
}

/// The codes of [`FieldError`].
pub mod code {
    /// A required field is absent or null.
    pub const REQUIRED: &str = "required";
    /// A value of another type.
    pub const TYPE: &str = "type";
    /// Too small, too short or too early.
    pub const MIN: &str = "min";
    /// Too great, too long or too late.
    pub const MAX: &str = "max";
    /// Text that the pattern does not match.
    pub const PATTERN: &str = "pattern";
    /// A word that is not among the values.
    pub const ENUM: &str = "enum";
    /// A character that cannot be stored.
    pub const CHARACTERS: &str = "characters";
    /// A key that names no field.
    pub const UNKNOWN_FIELD: &str = "unknown_field";
    /// A field that was given twice, in one case or in both, or an item that a list with `unique_items` has already.
    pub const DUPLICATE: &str = "duplicate";
    /// A relation to a record that does not exist.
    pub const RELATION: &str = "relation";
    /// A check of the entity that the record does not pass.
    pub const CHECK: &str = "check";
    /// A field that the caller may not set (403).
    pub const FIELD_FORBIDDEN: &str = "field_forbidden";
    /// A value that another record already has (409).
    pub const UNIQUE: &str = "unique";
    /// No file that this caller uploaded and that no record has (422).
    pub const FILE_NOT_FOUND: &str = "file_not_found";
    /// A file whose content the field does not take (422).
    pub const FILE_TYPE: &str = "file_type";
    /// A file with more bytes than the field takes (413).
    pub const FILE_TOO_LARGE: &str = "file_too_large";
    /// A value of a key over several fields that another record already has (409).
    pub const TAKEN: &str = "taken";
}

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyError {
    /// Not a JSON object: 400. The text contains the position of the error.
    Malformed(String),
    /// An object with invalid values: 422. Never empty.
    Invalid(Vec<FieldError>),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => write!(f, "the body is not a JSON object: {reason}"),
            Self::Invalid(errors) => {
                f.write_str("invalid")?;
                errors.iter().try_for_each(|error| write!(f, "; {}: {}", error.field, error.message))
            }
        }
    }
}

impl std::error::Error for BodyError {}

/// What is wrong with one value, before its field's name is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Where in a `json` field's value: `.items[3].n`.
    path: Option<String>,
}

impl Fault {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), path: None }
    }

    pub(crate) fn inside(self, path: String) -> Self {
        Self { path: Some(path), ..self }
    }

    /// The same fault, of a value at `path` in another value.
    pub(crate) fn within(self, path: &str) -> Self {
        Self { path: Some(format!("{path}{}", self.path.as_deref().unwrap_or_default())), ..self }
    }

    pub(crate) fn at(self, field: &str) -> FieldError {
        let message = match self.path {
            Some(path) => format!("{}, at {field}{path}", self.message),
            None => self.message,
        };
        FieldError { field: field.to_owned(), code: self.code, message }
    }
}
