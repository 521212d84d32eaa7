use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use gatewright_db::{Db, Engine, Error, Value, params};
use sha2::{Digest, Sha256};
use unicode_segmentation::UNICODE_VERSION;

use super::stored::Indexed;
use crate::declare::Language;
use crate::declare::Model;
use crate::fragment::quoted;

/// The indexes of a database: table, definition, the last record that has been indexed, and whether all are.
pub(crate) const TABLE: &str = "gatewright_search";

/// The field that a mark names of a record that was written without its words.
pub(crate) const MARKED: &str = ".words";

/// Changes whenever the words of a text do.
const VERSION: u32 = 1;

/// The index of an entity's words.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) engine: Engine,
    pub(crate) table: String,
    pub(crate) language: Language,
    pub(crate) fields: Vec<IndexedField>,
    /// Distinguishes it from an index of other fields, of another language, or of other words.
    pub(crate) definition: String,
    /// Whether it is known to have all records.
    is_built: AtomicBool,
}

/// A text whose words are indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedField {
    /// The position of the field.
    pub(crate) position: usize,
    /// The column of the text.
    pub(crate) column: String,
    /// The column of its words.
    pub(crate) words: String,
    /// What a word counts in a rank.
    pub(crate) weight: u32,
}

impl PartialEq for Index {
    fn eq(&self, other: &Self) -> bool {
        self.definition == other.definition
    }
}

impl Index {
    /// That of an entity that has one.
    pub(crate) fn of(model: &Model, engine: Engine) -> Option<Self> {
        let search = model.search.as_ref()?;
        let field = |(position, weight): &(usize, u32)| {
            let column = model.fields[*position].name.clone();
            IndexedField { position: *position, words: search.column(&column), column, weight: *weight }
        };
        let fields: Vec<_> = search.fields.iter().map(field).collect();
        let mut digest = Sha256::new();
        digest.update(format!("{VERSION} {UNICODE_VERSION:?} {engine:?} {} {}", model.table, search.language));
        for field in &fields {
            digest.update(format!(" {} {}", field.column, field.words));
        }
        let mut definition = String::new();
        for byte in &digest.finalize()[..8] {
            let _infallible = write!(definition, "{byte:02x}");
        }
        let (table, language) = (model.table.to_string(), search.language);
        Some(Self { engine, table, language, fields, definition, is_built: AtomicBool::new(false) })
    }

    /// The columns of words.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| &*field.words)
    }

    /// What a column of words holds beside this text.
    pub(crate) fn words_of(&self, text: &Value) -> Value {
        let text = if let Value::Text(text) = text { text } else { "" };
        Value::Text(Indexed::of(text, self.language).to_stored(self.engine))
    }

    /// The FTS5 table, on SQLite.
    pub(crate) fn name(&self) -> String {
        name_of(&self.definition)
    }

    /// The table of the ids in it.
    pub(crate) fn ids(&self) -> String {
        ids_of(&self.definition)
    }

    /// Whether the database has it.
    pub(crate) async fn is_there(&self, db: &Db) -> Result<bool, Error> {
        let sql = format!("SELECT 1 AS found FROM {TABLE} WHERE table_name = ?1 AND definition = ?2");
        Ok(db.query_opt(sql, params![&self.table, &self.definition]).await?.is_some())
    }

    /// Whether the database has an index of another definition for the table.
    pub(crate) async fn has_others(&self, db: &Db) -> Result<bool, Error> {
        let sql = format!("SELECT 1 AS found FROM {TABLE} WHERE table_name = ?1 AND definition <> ?2");
        Ok(db.query_opt(sql, params![&self.table, &self.definition]).await?.is_some())
    }

    /// Whether it has all records, by the database once and then by heart.
    pub(crate) async fn is_built(&self, db: &Db) -> Result<bool, Error> {
        if self.is_built.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let sql = format!("SELECT is_built FROM {TABLE} WHERE table_name = ?1 AND definition = ?2");
        let row = db.query_opt(sql, params![&self.table, &self.definition]).await?;
        let is_built = row.map_or(Ok(false), |row| row.get("is_built"))?;
        self.is_built.store(is_built, Ordering::Relaxed);
        Ok(is_built)
    }

    pub(crate) fn set_built(&self, is_built: bool) {
        self.is_built.store(is_built, Ordering::Relaxed);
    }

    /// The table in quotes.
    pub(crate) fn quoted_table(&self) -> String {
        quoted(&self.table)
    }
}

/// The FTS5 table of a definition.
pub(crate) fn name_of(definition: &str) -> String {
    format!("{TABLE}.{definition}")
}

/// The table of the ids in it.
pub(crate) fn ids_of(definition: &str) -> String {
    format!("{TABLE}.{definition}.ids")
}

/// The view of its words.
pub(crate) fn content_of(definition: &str) -> String {
    format!("{TABLE}.{definition}.content")
}
