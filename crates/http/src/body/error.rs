use super::fields::clip;
use crate::Problem;

/// Why fields could not be parsed into a handler's type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldsError {
    pub(super) field: Option<String>,
    code: &'static str,
    message: String,
}

impl FieldsError {
    /// The field at fault, if it is one.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// `required`, `invalid`, `unknown` or `duplicate`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { field: None, code, message: message.into() }
    }

    pub(super) fn at(mut self, field: &str) -> Self {
        self.field.get_or_insert_with(|| clip(field));
        self
    }
}

impl From<FieldsError> for Problem {
    fn from(error: FieldsError) -> Self {
        match error.field {
            Some(field) if error.code == "duplicate" => Self::bad_request(format!("{field}: {}", error.message)),
            Some(field) => Self::invalid_field(field, error.code, error.message),
            None => Self::unprocessable(error.message),
        }
    }
}
