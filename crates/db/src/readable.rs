//! Rows of which one cannot be read. A list goes on without it; a log line names it by table, id and column.

use std::error::Error as StdError;

use crate::{Error, Row};

impl Error {
    /// The same error, with the table and the id of the record, if it is about a stored value.
    #[must_use]
    pub fn of_record(self, table: &str, id: &str) -> Self {
        match self {
            Self::Corrupt { column, found, expected, .. } => {
                Self::Unreadable { table: table.to_owned(), id: id.to_owned(), column, found, expected }
            }
            error => error,
        }
    }

    /// Whether an error, or one of its sources, is an unreadable record.
    pub fn is_unreadable(error: &(dyn StdError + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(Self::Unreadable { .. } | Self::Corrupt { .. }) = error.downcast_ref() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

/// What is left of an unreadable record: `None`, and a line in the log. Other errors stay errors.
pub fn unless_unreadable<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Error::Unreadable { table, id, column, found, expected }) => {
            tracing::error!(%table, %id, %column, found, expected, "a record is unreadable and is left out; mend the value");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The rows of `table` that can be read. The others are logged.
pub fn readable<T>(table: &str, rows: &[Row], mut read: impl FnMut(&Row) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let mut read = |row: &Row| unless_unreadable(read(row).map_err(|error| error.of_record(table, &row.name())));
    rows.iter().filter_map(|row| read(row).transpose()).collect()
}

/// A page of a list that is full of rows which can be read, or at its end. It is read again with room for as many more rows
/// as could not be read.
///
/// ```no_run
/// # use gatewright_db::{Db, Error, ReadablePage, params};
/// # async fn names(db: &Db) -> Result<Vec<String>, Error> {
/// let mut page = ReadablePage::new("people", 50);
/// loop {
///     let rows = db.query("SELECT id, name FROM people ORDER BY id LIMIT ?1", params![page.asked()]).await?;
///     page.add_all(&rows, |row| row.get("name"))?;
///     match page.finish()? {
///         Ok(names) => return Ok(names),
///         Err(longer) => page = longer,
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ReadablePage<T> {
    table: &'static str,
    limit: usize,
    extra: usize,
    seen: usize,
    items: Vec<T>,
    unreadable: Vec<Error>,
}

impl<T> ReadablePage<T> {
    /// An empty page of at most `limit` rows of `table`.
    pub fn new(table: &'static str, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { table, limit, extra: 0, seen: 0, items: Vec::new(), unreadable: Vec::new() }
    }

    /// How many rows to read.
    pub fn asked(&self) -> i64 {
        i64::try_from(self.limit.saturating_add(self.extra)).unwrap_or(i64::MAX)
    }

    /// Adds a row, `id` names it.
    pub fn add(&mut self, id: impl FnOnce() -> String, read: Result<T, Error>) -> Result<(), Error> {
        self.seen += 1;
        match read.map_err(|error| error.of_record(self.table, &id())) {
            Ok(_) if self.items.len() == self.limit => {}
            Ok(item) => self.items.push(item),
            Err(error @ Error::Unreadable { .. }) => self.unreadable.push(error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Adds rows.
    pub fn add_all(&mut self, rows: &[Row], mut read: impl FnMut(&Row) -> Result<T, Error>) -> Result<(), Error> {
        rows.iter().try_for_each(|row| self.add(|| row.name(), read(row)))
    }

    /// The items, if the page is full or the list at its end; otherwise the page to read again.
    pub fn finish(self) -> Result<Result<Vec<T>, Self>, Error> {
        let is_at_its_end = self.seen < self.limit + self.extra;
        if !is_at_its_end && self.items.len() < self.limit {
            let Self { table, limit, unreadable, .. } = self;
            // The rows in between may be unreadable too: twice as many bound how often this repeats.
            let extra = unreadable.len().saturating_mul(2);
            return Ok(Err(Self { table, limit, extra, seen: 0, items: Vec::new(), unreadable: Vec::new() }));
        }
        for error in self.unreadable {
            unless_unreadable::<()>(Err(error))?;
        }
        Ok(Ok(self.items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corrupt() -> Error {
        Error::Corrupt { statement: String::new(), column: "c".to_owned(), found: "text", expected: "a time" }
    }

    /// Reads a page of a list of rows, of which those in `bad` are unreadable.
    fn page(rows: usize, bad: &[usize], limit: u32) -> (Vec<usize>, usize) {
        let (mut page, mut reads) = (ReadablePage::new("t", limit), 0);
        loop {
            reads += 1;
            for row in 0..rows.min(usize::try_from(page.asked()).unwrap()) {
                let read = if bad.contains(&row) { Err(corrupt()) } else { Ok(row) };
                page.add(|| row.to_string(), read).unwrap();
            }
            match page.finish().unwrap() {
                Ok(items) => return (items, reads),
                Err(longer) => page = longer,
            }
        }
    }

    #[test]
    fn a_page_is_full_of_readable_rows_or_at_the_end_of_its_list() {
        assert_eq!(page(5, &[], 3), (vec![0, 1, 2], 1));
        assert_eq!(page(5, &[1], 3), (vec![0, 2, 3], 2));
        assert_eq!(page(5, &[0, 1, 2], 2), (vec![3, 4], 2));
        assert_eq!(page(3, &[0, 1, 2], 2).0, Vec::<usize>::new());
        assert_eq!(page(2, &[1], 5), (vec![0], 1));
        let bad: Vec<usize> = (0..900).collect();
        let (found, reads) = page(1000, &bad, 50);
        assert_eq!(found, (900..950).collect::<Vec<_>>());
        assert!(reads < 10, "{reads}");
    }

    #[test]
    fn another_error_ends_the_page() {
        let mut page = ReadablePage::<()>::new("t", 3);
        assert!(page.add(String::new, Err(Error::Closed)).is_err());
    }

    #[test]
    fn an_unreadable_record_is_found_among_the_sources_of_an_error() {
        #[derive(Debug, thiserror::Error)]
        #[error("a store failed")]
        struct Store(#[source] Box<dyn StdError + Send + Sync>);

        assert!(Error::is_unreadable(&corrupt().of_record("users", "u1")));
        assert!(Error::is_unreadable(&Store(corrupt().into())));
        assert!(!Error::is_unreadable(&Store(Error::Closed.into())));
    }
}
