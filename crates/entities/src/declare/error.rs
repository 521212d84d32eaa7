use std::fmt;

/// An error in a declaration, with its place.
///
/// The text names entity and field: `entity "posts", field "title": min 5 is above max 3`. [`Location`] is the same
/// for programs, by position, so that a configuration file's reader can point at the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclarationError {
    /// Where.
    pub location: Location,
    /// The entity's name as declared.
    pub entity: String,
    /// The field's name as declared, if the error is in one.
    pub field: Option<String>,
    /// The error, and a correct value.
    pub message: String,
    /// The place in the attribute's text, if the error is in one word of it.
    pub place: Option<TextPlace>,
}

/// A place in a text, counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPlace {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A place in a list of declarations, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The entity's position.
    pub entity: usize,
    /// The field's position in its entity.
    pub field: Option<usize>,
    /// The attribute's name, as written in a configuration file.
    pub attribute: Option<&'static str>,
}

impl fmt::Display for DeclarationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entity \"{}\"", self.entity)?;
        if let Some(field) = &self.field {
            write!(f, ", field \"{field}\"")?;
        }
        write!(f, ": {}", self.message)?;
        match self.place {
            Some(TextPlace { line, column }) => write!(f, " at {line}:{column}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DeclarationError {}

/// All errors in a list of declarations. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclarationErrors(pub Vec<DeclarationError>);

impl fmt::Display for DeclarationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for DeclarationErrors {}
