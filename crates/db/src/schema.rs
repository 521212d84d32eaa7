//! The current schema of a table in the database, for comparison with a declaration.

use std::collections::BTreeMap;

use crate::{Db, Engine, Error, Row, Tx, params};

/// A table in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableShape {
    /// The columns in their order.
    pub columns: Vec<ColumnShape>,
    /// The indexes. Those of unique constraints and the primary key are left out if they have no name to drop.
    pub indexes: Vec<IndexShape>,
    /// The foreign keys of one column each.
    pub foreign_keys: Vec<ForeignKeyShape>,
    /// The names of the triggers.
    pub triggers: Vec<String>,
}

/// An existing column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnShape {
    /// Its name.
    pub name: String,
    /// The engine's own name of its type, upper-cased: the result of [`column_types`](crate::column_types) for a type
    /// word, without a collation.
    pub type_name: String,
    /// Whether it is nullable.
    pub nullable: bool,
    /// Whether an INSERT may leave it out and it does not become NULL.
    pub has_default: bool,
    /// Whether it belongs to the primary key.
    pub primary_key: bool,
}

/// An existing index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexShape {
    /// Its name.
    pub name: String,
    /// Its columns in order; expressions are left out.
    pub columns: Vec<String>,
    /// Whether it refuses repeats.
    pub unique: bool,
}

/// An existing foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKeyShape {
    /// The column that refers.
    pub column: String,
    /// The table it refers to.
    pub table: String,
    /// The action when the target is deleted: `RESTRICT`, `CASCADE`, `SET NULL` or `NO ACTION`.
    pub on_delete: String,
    /// The constraint's name. Empty on SQLite, which does not report it.
    pub name: String,
}

/// A foreign key that refuses the deletion of the row that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restriction {
    /// The table that refers; with its schema, if that is not the current one.
    pub table: String,
    /// The column that refers.
    pub column: String,
    /// The table as SQL names it.
    quoted: String,
}

impl Restriction {
    /// Whether a row refers to the one with this value.
    pub async fn holds(&self, db: &Db, value: &str) -> Result<bool, Error> {
        let column = self.column.replace('"', "\"\"");
        let sql = format!("SELECT 1 AS found FROM {} WHERE \"{column}\" = ?1 LIMIT 1", self.quoted);
        Ok(db.query_opt(sql, params![value]).await?.is_some())
    }
}

/// The foreign keys of one column that refer to `column` of `table` and restrict, by table and column.
pub async fn restrictions(db: &Db, table: &str, column: &str) -> Result<Vec<Restriction>, Error> {
    let sql = match db.engine() {
        Engine::Sqlite => SQLITE_RESTRICTIONS,
        Engine::Postgres => POSTGRES_RESTRICTIONS,
    };
    let restriction = |row: &Row| {
        Ok(Restriction { table: row.get("table_name")?, column: row.get("column_name")?, quoted: row.get("quoted")? })
    };
    db.query(sql, params![table, column]).await?.iter().map(restriction).collect()
}

impl TableShape {
    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&ColumnShape> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// Reads the schema of `table`; `None` if there is no such table.
pub async fn describe(db: &Db, table: &str) -> Result<Option<TableShape>, Error> {
    let table = table.to_owned();
    db.read(async move |tx: &Tx| describe_in(tx, &table).await).await
}

/// Reads the schema of `table` inside a transaction.
pub async fn describe_in(tx: &Tx, table: &str) -> Result<Option<TableShape>, Error> {
    let (columns, indexes, foreign_keys, triggers) = match tx.engine() {
        Engine::Sqlite => (SQLITE_COLUMNS, SQLITE_INDEXES, SQLITE_FOREIGN_KEYS, SQLITE_TRIGGERS),
        Engine::Postgres => (POSTGRES_COLUMNS, POSTGRES_INDEXES, POSTGRES_FOREIGN_KEYS, POSTGRES_TRIGGERS),
    };
    let columns = tx.query(columns, params![table]).await?;
    if columns.is_empty() {
        return Ok(None);
    }
    Ok(Some(TableShape {
        columns: columns.iter().map(column).collect::<Result<_, _>>()?,
        indexes: gather(&tx.query(indexes, params![table]).await?)?,
        foreign_keys: tx
            .query(foreign_keys, params![table])
            .await?
            .iter()
            .map(foreign_key)
            .collect::<Result<_, _>>()?,
        triggers: tx
            .query(triggers, params![table])
            .await?
            .iter()
            .map(|row| row.get("name"))
            .collect::<Result<_, _>>()?,
    }))
}

/// The names of the triggers of `table`.
pub async fn triggers(db: &Db, table: &str) -> Result<Vec<String>, Error> {
    let sql = match db.engine() {
        Engine::Sqlite => SQLITE_TRIGGERS,
        Engine::Postgres => POSTGRES_TRIGGERS,
    };
    db.query(sql, params![table]).await?.iter().map(|row| row.get("name")).collect()
}

fn column(row: &Row) -> Result<ColumnShape, Error> {
    let words: String = row.get("type_name")?;
    Ok(ColumnShape {
        name: row.get("name")?,
        type_name: words.to_ascii_uppercase(),
        nullable: row.get("nullable")?,
        has_default: row.get("has_default")?,
        primary_key: row.get("primary_key")?,
    })
}

fn gather(rows: &[Row]) -> Result<Vec<IndexShape>, Error> {
    let mut indexes = BTreeMap::<String, IndexShape>::new();
    for row in rows {
        let name: String = row.get("name")?;
        let unique = row.get("is_unique")?;
        let index = indexes.entry(name.clone()).or_insert(IndexShape { name, columns: Vec::new(), unique });
        index.columns.extend(row.get::<Option<String>>("column_name")?);
    }
    Ok(indexes.into_values().collect())
}

fn foreign_key(row: &Row) -> Result<ForeignKeyShape, Error> {
    Ok(ForeignKeyShape {
        column: row.get("column_name")?,
        table: row.get("target")?,
        on_delete: row.get("on_delete")?,
        name: row.get("name")?,
    })
}

const SQLITE_COLUMNS: &str = "SELECT name, type AS type_name, \"notnull\" = 0 AND pk = 0 AS nullable,
    dflt_value IS NOT NULL AS has_default, pk > 0 AS primary_key FROM pragma_table_info(?1) ORDER BY cid";

const SQLITE_INDEXES: &str = "SELECT l.name AS name, l.\"unique\" AS is_unique, i.name AS column_name
    FROM pragma_index_list(?1) l, pragma_index_info(l.name) i WHERE l.origin = 'c' ORDER BY l.name, i.seqno";

const SQLITE_FOREIGN_KEYS: &str = "SELECT \"from\" AS column_name, \"table\" AS target, on_delete, '' AS name
    FROM pragma_foreign_key_list(?1) ORDER BY id, seq";

const SQLITE_TRIGGERS: &str = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 ORDER BY name";

const POSTGRES_COLUMNS: &str = "SELECT a.attname::text AS name, replace(format_type(a.atttypid, NULL), 'timestamp with time zone', 'timestamptz') AS type_name,
    NOT a.attnotnull AS nullable, a.atthasdef OR a.attidentity <> '' AS has_default,
    EXISTS (SELECT 1 FROM pg_index p WHERE p.indrelid = c.oid AND p.indisprimary AND a.attnum = ANY (p.indkey)) AS primary_key
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relname = ?1 AND c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

const POSTGRES_INDEXES: &str =
    "SELECT x.relname::text AS name, i.indisunique AS is_unique, a.attname::text AS column_name
    FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid
    CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, place)
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum AND k.attnum > 0
    WHERE c.relname = ?1 AND c.relnamespace = current_schema()::regnamespace AND NOT i.indisprimary
    ORDER BY x.relname, k.place";

const POSTGRES_FOREIGN_KEYS: &str = "SELECT a.attname::text AS column_name, t.relname::text AS target,
    CASE f.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'r' THEN 'RESTRICT'
        WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END AS on_delete, f.conname::text AS name
    FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_class t ON t.oid = f.confrelid
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = f.conkey[1]
    WHERE c.relname = ?1 AND c.relnamespace = current_schema()::regnamespace AND f.contype = 'f'
    ORDER BY f.conname";

const POSTGRES_TRIGGERS: &str = "SELECT t.tgname::text AS name FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relname = ?1 AND c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal ORDER BY t.tgname";

const SQLITE_RESTRICTIONS: &str = "SELECT m.name AS table_name, f.\"from\" AS column_name,
    '\"' || replace(m.name, '\"', '\"\"') || '\"' AS quoted
    FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
    WHERE m.type = 'table' AND f.\"table\" = ?1 COLLATE NOCASE AND f.on_delete IN ('RESTRICT', 'NO ACTION')
    AND COALESCE(f.\"to\", ?2) = ?2 COLLATE NOCASE ORDER BY 1, 2";

const POSTGRES_RESTRICTIONS: &str = "SELECT f.conrelid::regclass::text AS quoted, a.attname::text AS column_name,
    CASE WHEN c.relnamespace = current_schema()::regnamespace THEN c.relname::text
        ELSE c.relnamespace::regnamespace::text || '.' || c.relname END AS table_name
    FROM pg_constraint f JOIN pg_class t ON t.oid = f.confrelid JOIN pg_class c ON c.oid = f.conrelid
    JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1]
    JOIN pg_attribute b ON b.attrelid = f.confrelid AND b.attnum = f.confkey[1]
    WHERE f.contype = 'f' AND f.confdeltype IN ('a', 'r') AND cardinality(f.conkey) = 1
    AND t.relname = ?1 AND t.relnamespace = current_schema()::regnamespace AND b.attname = ?2 ORDER BY 3, 2";
