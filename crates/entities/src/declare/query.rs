//! Read-only entities: their records are the rows of a SELECT in the place of a table.

use gatewright_db::{Engine, column_types};

use super::{Kind, Model};
use crate::fragment::{cast, quoted};

/// The SELECT whose rows are the records of a read-only entity: one text for each engine. It has a column `id` and one for each
/// field, with the field's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    sqlite: Option<String>,
    postgres: Option<String>,
    pub(crate) all_tenants: bool,
    pub(crate) origin: Origin,
}

/// Who wrote a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A declaration. It may name entities only, and its values are cast to the declared types.
    Declared,
    /// The program that serves the entities. Its columns have the types of the fields.
    Program,
}

impl Query {
    /// One text for both engines.
    pub fn new(sql: impl Into<String>) -> Self {
        let sql = trimmed(&sql.into());
        Self { sqlite: Some(sql.clone()), postgres: Some(sql), all_tenants: false, origin: Origin::Declared }
    }

    /// A text for each engine. An engine without one cannot serve the entity.
    pub fn by_engine(sqlite: Option<&str>, postgres: Option<&str>) -> Self {
        let (sqlite, postgres) = (sqlite.map(trimmed), postgres.map(trimmed));
        Self { sqlite, postgres, all_tenants: false, origin: Origin::Declared }
    }

    /// Shows the rows of all tenants to every caller whom the access rules allow. Without it, a query that names a multi-tenant entity
    /// selects `tenant_id`, and callers see the rows of their tenant.
    pub fn all_tenants(self) -> Self {
        Self { all_tenants: true, ..self }
    }

    /// A query of the program itself: it may name any table, and its columns have the types of the fields.
    pub fn of_program(self) -> Self {
        Self { origin: Origin::Program, ..self }
    }

    /// The text for an engine.
    pub fn sql(&self, engine: Engine) -> Option<&str> {
        match engine {
            Engine::Sqlite => self.sqlite.as_deref(),
            Engine::Postgres => self.postgres.as_deref(),
        }
    }

    /// Whether any of the texts has this word.
    pub(crate) fn names(&self, word: &str) -> bool {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let texts = [&self.sqlite, &self.postgres];
        texts.into_iter().flatten().any(|text| text.split(|c| !is_part(c)).any(|part| part.eq_ignore_ascii_case(word)))
    }
}

/// Without the semicolon that may end it.
fn trimmed(sql: &str) -> String {
    sql.trim().trim_end_matches(';').trim_end().to_owned()
}

impl Model {
    /// Whether its records are the rows of a query.
    pub(crate) fn is_read_only(&self) -> bool {
        self.query.is_some()
    }

    /// The columns that it has besides the declared ones.
    pub(crate) fn own_columns(&self) -> &'static [&'static str] {
        let own = &super::names::OWN_COLUMNS;
        if self.is_read_only() { &own[..1] } else { own }
    }

    /// Its rows, as FROM names them before an alias: the table, or the query in parentheses.
    pub(crate) fn rows(&self, engine: Engine) -> String {
        let Some(query) = &self.query else { return quoted(&self.table) };
        let column = |name: &str, kind: Kind| match query.origin {
            Origin::Program => quoted(name),
            Origin::Declared => format!("{} AS {}", in_type(engine, kind, &quoted(name)), quoted(name)),
        };
        let fields = self.fields.iter().map(|field| column(&field.name, field.kind));
        let columns: Vec<String> = std::iter::once(column("id", Kind::Relation)).chain(fields).collect();
        // A text without this engine was refused before; this one names no table.
        let sql = query.sql(engine).unwrap_or("SELECT 1 AS unavailable WHERE 1 = 0");
        // The line break ends a comment at the end of the text.
        // A row without an id is no record.
        format!("(SELECT {} FROM (\n{sql}\n) AS \"_q\" WHERE \"_q\".\"id\" IS NOT NULL)", columns.join(", "))
    }

    /// Its rows under the name of its table.
    pub(crate) fn from(&self, engine: Engine) -> String {
        let rows = self.rows(engine);
        if self.is_read_only() { format!("{rows} AS {}", quoted(&self.table)) } else { rows }
    }
}

/// An expression in the form that a column of this type has.
fn in_type(engine: Engine, kind: Kind, expression: &str) -> String {
    let plain = |word: &str| cast(engine, &column_types(word, engine), expression);
    if engine == Engine::Postgres {
        return match kind {
            Kind::List => format!("COALESCE({}, '[]')", cast(engine, "JSONB", &format!("to_json({expression})"))),
            kind => plain(crate::schema::type_word(kind)),
        };
    }
    match kind {
        // A view has none: it is refused where it declares one.
        Kind::File => "NULL".to_owned(),
        Kind::String | Kind::Text | Kind::Enum | Kind::Relation | Kind::Decimal | Kind::Json => {
            format!("CAST({expression} AS TEXT)")
        }
        Kind::Uuid => format!("LOWER(CAST({expression} AS TEXT))"),
        Kind::List => format!("COALESCE(CAST({expression} AS TEXT), '[]')"),
        Kind::Int => plain("{int}"),
        Kind::Float => plain("{float}"),
        Kind::Bool => format!("CASE WHEN {expression} THEN 1 WHEN NOT {expression} THEN 0 END"),
        Kind::Date => format!("date({expression})"),
        // The form that is stored, or what the functions for times return.
        Kind::Timestamp => format!(
            "CASE WHEN {expression} GLOB '????-??-??T??:??:??.??????Z' THEN {expression} \
             ELSE strftime('%Y-%m-%dT%H:%M:%f000Z', {expression}) END"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_and_in_any_case() {
        let query = Query::new("SELECT Tenant_ID, my_tenant_id2 FROM t; ");
        assert_eq!(query.sql(Engine::Sqlite), Some("SELECT Tenant_ID, my_tenant_id2 FROM t"));
        assert!(query.names("tenant_id") && !query.names("my_tenant_id") && !query.names("tenant"));
    }
}
