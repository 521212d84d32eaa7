use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One SQL statement with placeholders `?1`, `?2`, … Cheap to clone.
#[derive(Clone)]
pub struct Sql(Text);

/// Longer statements are not kept prepared.
const LONGEST_KEPT: usize = 8 * 1024;

#[derive(Clone)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Sql {
    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// Whether to keep the statement prepared. Long statements come from callers' lists of values: they hardly ever repeat,
    /// and each takes memory by its length on every connection.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.as_str().len() <= LONGEST_KEPT
    }

    /// The first word, upper-cased: `SELECT`, `INSERT`, …
    pub(crate) fn verb(&self) -> Cow<'_, str> {
        let word = self.as_str().trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
        if word.bytes().all(|b| b.is_ascii_uppercase()) { word.into() } else { word.to_ascii_uppercase().into() }
    }

    /// Whether a caller's transaction must not run it: it would end or reconfigure the transaction.
    pub(crate) fn controls_transaction(&self) -> bool {
        matches!(
            &*self.verb(),
            "BEGIN"
                | "COMMIT"
                | "END"
                | "ROLLBACK"
                | "SAVEPOINT"
                | "RELEASE"
                | "PRAGMA"
                | "ATTACH"
                | "DETACH"
                | "VACUUM"
                | "START"
                | "ABORT"
                | "PREPARE"
                | "DISCARD"
                | "" // a leading comment hides the verb
        )
    }
}

/// Whether each quote has an end, so that a placeholder after the text is found.
pub(crate) fn is_closed(sql: &str) -> bool {
    let mut quote = None;
    for c in sql.chars().filter(|c| matches!(c, '\'' | '"')) {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => quote = Some(c),
        }
    }
    quote.is_none()
}

/// Turns `?1` into `$1` outside of quotes and comments.
#[cfg(feature = "postgres")]
pub(crate) fn to_postgres(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut quote = None;
    let mut chars = sql.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            Some(open) => {
                if c == open {
                    quote = None;
                }
                out.push(c);
            }
            None if c == '?' && chars.peek().is_some_and(char::is_ascii_digit) => out.push('$'),
            None => {
                if c == '\'' || c == '"' {
                    quote = Some(c);
                }
                out.push(c);
            }
        }
    }
    out
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self(Text::Static(text))
    }
}
impl From<String> for Sql {
    fn from(text: String) -> Self {
        Self(Text::Shared(text.into()))
    }
}
impl From<Arc<str>> for Sql {
    fn from(text: Arc<str>) -> Self {
        Self(Text::Shared(text))
    }
}
impl From<&Self> for Sql {
    fn from(sql: &Self) -> Self {
        sql.clone()
    }
}
impl PartialEq for Sql {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for Sql {}
impl Hash for Sql {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
impl Borrow<str> for Sql {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}
impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
impl fmt::Display for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "postgres")]
    #[test]
    fn placeholders_are_translated_outside_of_quotes() {
        for (ours, theirs) in [
            ("SELECT ?1, ?12", "SELECT $1, $12"),
            ("SELECT '?1', \"?2\", ?3", "SELECT '?1', \"?2\", $3"),
            ("SELECT 'it''s ?1' || ?1", "SELECT 'it''s ?1' || $1"),
            ("SELECT a ? b", "SELECT a ? b"),
        ] {
            assert_eq!(to_postgres(ours), theirs);
        }
    }

    #[test]
    fn transaction_control_is_recognised() {
        for sql in
            ["COMMIT", " rollback", "begin immediate", "PRAGMA synchronous=0", "end;", "/* x */ COMMIT", "-- x\nCOMMIT"]
        {
            assert!(Sql::from(sql).controls_transaction(), "{sql}");
        }
        for sql in ["SELECT 1", "insert into t values (1)", "WITH x AS (SELECT 1) SELECT 2", "CREATE TABLE t (a)"] {
            assert!(!Sql::from(sql).controls_transaction(), "{sql}");
        }
    }
}
