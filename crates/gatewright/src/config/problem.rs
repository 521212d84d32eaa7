use std::fmt;

/// Where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file. Lines and columns count from 1, columns in characters.
    File {
        /// The file as the caller named it.
        name: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// In an environment variable of this name.
    Environment(String),
    /// In a flag of the command line, such as `--listen`.
    CommandLine(&'static str),
    /// Not written: a default, or a value that a program has set.
    Unwritten,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::CommandLine(flag) => f.write_str(flag),
            Self::Unwritten => f.write_str("configuration"),
        }
    }
}

/// One error in a configuration. Its text never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where to look.
    pub place: Place,
    /// The error, and a correct value.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// All errors in a configuration, in the order of the file; displayed as one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
