//! Every stored value, read through the declaration: `gatewright verify`.
//!
//! A value is reported if it is not of its field's type, and JSON also if one of its numbers is not in canonical form,
//! which only values of older versions and of other programs are. Bounds, patterns and words of an enum are
//! [`broken_rules`](super::broken_rules). A folded text and the words of a search index are reported if they are not those of their
//! field.

use std::fmt;
use std::sync::Arc;

use gatewright_base::is_upper_uuid;
use gatewright_db::json;
use gatewright_db::schema::describe;
use gatewright_db::{Db, Error, RowRef, Sql, dialect, params};

use super::marks;
use crate::Declarations;
use crate::condition::{LINK, LINKING};
use crate::declare::model::{folded_column, links_table};
use crate::declare::{Kind, Model, names};
use crate::encode;
use crate::fragment::quoted;
use crate::search::build::{check, check_tables};
use crate::search::{self, Index};
use crate::value::{Type, code};

/// How many rows are read at once. Only one of them is in memory.
const PAGE: usize = 500;

/// An id that no request finds.
const UPPER: &str = "holds a UUID in upper case; ids are looked up in lower case";

/// A text that a key without case compares by another text.
const DROPPED: &str = "the search index was dropped by a server without it; a server that declares it builds it again";
const UNFOLDED: &str = "has another folded text beside it, by which `ignore_case` compares; write the value again";

/// A text that searches do not find by its words.
const UNINDEXED: &str = "has other words in the search index than its text; write the value again";

/// A value that the declaration does not describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The table.
    pub table: String,
    /// The id of the record.
    pub id: String,
    /// The column.
    pub column: String,
    /// What is wrong with the value. It never contains the value itself.
    pub reason: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} of {:?}: {}", self.table, self.column, self.id, self.reason)
    }
}

/// Reads every row of the declared entities in the order of their ids, and calls `each` for each value that the
/// declaration does not describe. Returns the number of rows. Tables and columns that are missing are left out: a
/// migration creates them.
pub async fn verify(db: &Db, declarations: &Declarations, mut each: impl FnMut(Finding)) -> Result<u64, Error> {
    let mut rows = 0;
    for model in declarations.models.iter().filter(|model| !model.is_read_only()) {
        let Some(shape) = describe(db, &model.table).await? else { continue };
        let columns: Vec<Column> = columns(model).filter(|column| shape.column(&column.name).is_some()).collect();
        let folded = model.folded().map(|index| model.fields[index].name.clone());
        let folded = folded.filter(|name| [name, &folded_column(name)].iter().all(|name| shape.column(name).is_some()));
        rows += table(db, &model.table, columns, folded.collect(), &mut each).await?;
        for field in model.fields.iter().filter(|field| field.links.is_some() && shape.column(&field.name).is_some()) {
            if describe(db, &links_table(&model.table, &field.name)).await?.is_some() {
                links(db, &model.table, &field.name, &mut each).await?;
            }
        }
        if let Some(index) = Index::of(model, db.engine())
            && index.columns().all(|column| shape.column(column).is_some())
        {
            words(db, &index, &mut each).await?;
        }
    }
    Ok(rows)
}

/// Names the records whose words are not those of their texts, or that the index of words does not have. Those that wait for their
/// words are left out, and so is an index that is not built yet.
async fn words(db: &Db, index: &Index, each: &mut impl FnMut(Finding)) -> Result<(), Error> {
    let finding = |id: String, column: &str, reason: String| {
        let (table, column) = (index.table.clone(), column.to_owned());
        Finding { table, id, column, reason }
    };
    if describe(db, search::index::TABLE).await?.is_none() {
        return Ok(());
    }
    if !index.is_there(db).await? {
        each(finding(String::new(), &index.fields[0].words, DROPPED.to_owned()));
        return Ok(());
    }
    if !index.is_built(db).await? {
        return Ok(());
    }
    let marks = describe(db, marks::TABLE).await?.map(|_| marks::TABLE);
    let mut last = String::new();
    loop {
        let (stale, read_to) = check(db, index, &last, marks).await?;
        for record in stale {
            each(finding(record.id, &record.column, UNINDEXED.to_owned()));
        }
        match read_to {
            Some(id) => last = id,
            None => break,
        }
    }
    if let Some(reason) = check_tables(db, index).await? {
        each(finding(String::new(), &index.fields[0].words, reason));
    }
    Ok(())
}

/// Names the records whose list of ids is not that of their links.
async fn links(db: &Db, table: &str, column: &str, each: &mut impl FnMut(Finding)) -> Result<(), Error> {
    let (name, links) = (quoted(table), quoted(&links_table(table, column)));
    let ids = dialect::elements(db.engine(), &format!("{name}.{}", quoted(column)), "\"_l\"");
    let listed = format!("SELECT \"_l\".{LINK} FROM {ids}");
    let linked = format!("SELECT {LINK} FROM {links} WHERE {LINKING} = {name}.\"id\"");
    // Bytes: ids of a page.
    let sql = format!(
        "SELECT \"id\" FROM {name} WHERE \"id\" > ?1 AND (EXISTS ({listed} EXCEPT {linked}) OR EXISTS ({linked} EXCEPT {listed})) \
         ORDER BY \"id\" LIMIT {PAGE}"
    );
    let mut last = String::new();
    loop {
        let rows = db.query(sql.clone(), params![&last]).await?;
        for row in &rows {
            last = row.get("id")?;
            let reason = format!("holds other ids than \"{}\" has for it", links_table(table, column));
            each(Finding { table: table.to_owned(), id: last.clone(), column: column.to_owned(), reason });
        }
        if rows.len() < PAGE {
            return Ok(());
        }
    }
}

/// A column and the type of its values.
struct Column {
    name: String,
    kind: Kind,
    rule: Type,
}

fn columns(model: &Model) -> impl Iterator<Item = Column> {
    let time = |name: &str| Column {
        name: name.to_owned(),
        kind: Kind::Timestamp,
        rule: Type::Timestamp(crate::value::types::Bounds::default()),
    };
    let fields = model.fields.iter().map(|field| Column {
        name: field.name.clone(),
        kind: field.kind,
        rule: field.rule.clone(),
    });
    let times = ["created_at", "updated_at"].into_iter().chain(model.soft_delete.then_some(names::DELETED_COLUMN));
    fields.chain(times.map(time))
}

/// A page in progress.
#[derive(Debug, Clone, Default)]
struct Page {
    rows: usize,
    last: Option<String>,
    found: Vec<Finding>,
}

/// Reads a table. `folded` are the columns whose folded text is stored too.
async fn table(
    db: &Db,
    table: &str,
    columns: Vec<Column>,
    folded: Vec<String>,
    each: &mut impl FnMut(Finding),
) -> Result<u64, Error> {
    let select: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
    let is_folded = |name: &String| {
        let (stored, wanted) = (quoted(&folded_column(name)), dialect::folded(&quoted(name)));
        format!("CAST(CASE WHEN {stored} IS NOT DISTINCT FROM {wanted} THEN 1 ELSE 0 END AS BIGINT)")
    };
    let select = select.into_iter().chain(folded.iter().map(is_folded));
    let select = std::iter::once("\"id\"".to_owned()).chain(select).collect::<Vec<_>>().join(", ");
    // Bytes: a row is in memory until it is checked.
    let sql = format!("SELECT {select} FROM {} WHERE \"id\" > ?1 ORDER BY \"id\" LIMIT {PAGE}", quoted(table));
    let (sql, columns, table): (Sql, Arc<[Column]>, Arc<str>) = (sql.into(), columns.into(), table.into());
    let folded: Arc<[String]> = folded.into();
    let (mut rows, mut last) = (0, String::new());
    loop {
        let (columns, folded, table) = (columns.clone(), folded.clone(), table.clone());
        let read = move |page: &mut Page, row: &RowRef<'_>| {
            let id: String = row.get(0)?;
            if is_upper_uuid(id.as_bytes()) {
                let (table, column) = (table.to_string(), "id".to_owned());
                page.found.push(Finding { table, id: id.clone(), column, reason: UPPER.to_owned() });
            }
            for (index, column) in columns.iter().enumerate() {
                if let Err(reason) = column.check(&table, row, index + 1) {
                    let (table, column) = (table.to_string(), column.name.clone());
                    page.found.push(Finding { table, id: id.clone(), column, reason });
                }
            }
            for (index, column) in folded.iter().enumerate() {
                if row.get::<i64>(columns.len() + index + 1)? != 1 {
                    let (table, column) = (table.to_string(), column.clone());
                    page.found.push(Finding { table, id: id.clone(), column, reason: UNFOLDED.to_owned() });
                }
            }
            (page.rows, page.last) = (page.rows + 1, Some(id));
            Ok(())
        };
        let page = db.fold(&sql, params![&last], Page::default(), read).await?;
        rows += page.rows as u64;
        page.found.into_iter().for_each(&mut *each);
        match page.last {
            Some(id) => last = id,
            None => return Ok(rows),
        }
    }
}

impl Column {
    /// What is wrong with the value at `index`.
    fn check(&self, table: &str, row: &RowRef<'_>, index: usize) -> Result<(), String> {
        let other = |found: &str, expected: &str| format!("holds {found} where {expected} belongs");
        let mut wire = Vec::new();
        let written = row.value(index).and_then(|value| encode::value(table, &self.name, self.kind, &value, &mut wire));
        match written {
            Ok(()) => {}
            Err(Error::Corrupt { found, expected, .. }) => return Err(other(found, expected)),
            Err(error) => return Err(error.to_string()),
        }
        let text = String::from_utf8(wire).map_err(|_| other("text of another encoding", "UTF-8"))?;
        match &self.rule {
            _ if text == "null" => Ok(()),
            Type::Relation if is_upper_uuid(text.trim_matches('"').as_bytes()) => Err(UPPER.to_owned()),
            Type::Json => json::check(&text).map_err(|unstorable| format!("holds JSON with {unstorable}")),
            rule => match rule.read(&text) {
                Err(fault) if [code::TYPE, code::CHARACTERS].contains(&fault.code) => Err(fault.message),
                Ok(_) | Err(_) => Ok(()),
            },
        }
    }
}
