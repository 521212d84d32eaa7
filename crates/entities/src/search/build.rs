//! Makes the words of records that have none: all of a new index, in batches beside a running server, and those that another program
//! wrote.

use std::sync::Arc;

use gatewright_base::Fitting;
use gatewright_db::{Db, Engine, Error, Row, RowRef, Sql, Tx, Value, dialect, params};

use super::index::{Index, MARKED, TABLE};
use crate::fragment::quoted;

/// The most records of a batch, which others wait for.
const BATCH: usize = 100;
/// The most bytes of their texts, in addition to one record of any size.
const BYTES: usize = 1 << 20;

/// Continues to build an index until it has all records. A batch is a transaction, so that an end at any moment loses nothing.
pub(crate) async fn build(db: &Db, index: &Arc<Index>) -> Result<(), Error> {
    loop {
        let building = index.clone();
        let is_built = db.write(async move |tx: &Tx| batch(tx, &building).await).await?;
        match is_built {
            Some(true) => {
                index.set_built(true);
                return Ok(());
            }
            // Another server has declared another index.
            None => return Ok(()),
            Some(false) => {}
        }
    }
}

/// Indexes the next records. Returns whether there are no more; `None` if the index is not wanted.
async fn batch(tx: &Tx, index: &Index) -> Result<Option<bool>, Error> {
    let (definition, texts) = (&index.definition, index.texts());
    let lock = dialect::for_update(tx.engine());
    let sql = format!("SELECT last_id, is_built FROM {TABLE} WHERE table_name = ?1 AND definition = ?2{lock}");
    let Some(state) = tx.query_opt(sql, params![&index.table, definition]).await? else { return Ok(None) };
    if state.get("is_built")? {
        return Ok(Some(true));
    }
    let (last, table): (String, _) = (state.get("last_id")?, index.quoted_table());
    let size = |column: &str| format!("COALESCE({}, 0)", dialect::byte_length(tx.engine(), &quoted(column)));
    let sizes = index.fields.iter().map(|field| size(&field.column)).collect::<Vec<_>>().join(" + ");
    let sql = format!(
        "SELECT \"id\", CAST({sizes} AS BIGINT) FROM {table} WHERE \"id\" > ?1 ORDER BY \"id\" LIMIT {BATCH}{lock}"
    );
    let each = |ids: &mut Vec<(String, usize)>, row: &RowRef<'_>| {
        ids.push((row.get(0)?, usize::try_from(row.get::<i64>(1)?).unwrap_or(0)));
        Ok(())
    };
    let found = tx.fold(sql, params![&last], Vec::new(), each).await?;
    let is_last = found.len() < BATCH;
    let Fitting { taken, rest, .. } = Fitting::of(found, BYTES);
    for id in &taken {
        make(tx, index, id, &texts).await?;
    }
    let is_built = is_last && rest.is_empty();
    let sql = format!("UPDATE {TABLE} SET last_id = ?3, is_built = ?4 WHERE table_name = ?1 AND definition = ?2");
    let last = taken.last().cloned().unwrap_or(last);
    tx.execute(sql, params![&index.table, definition, last, is_built]).await?;
    Ok(Some(is_built))
}

/// Makes the words of a record, which is locked.
pub(crate) async fn complete(tx: &Tx, index: &Index, id: &str) -> Result<(), Error> {
    make(tx, index, id, &index.texts()).await
}

async fn make(tx: &Tx, index: &Index, id: &str, texts: &str) -> Result<(), Error> {
    let sql = format!("SELECT {texts} FROM {} WHERE \"id\" = ?1", index.quoted_table());
    // Bytes: of one record.
    let Some(row) = tx.query_opt(sql, params![id]).await? else { return Ok(()) };
    let mut values: Vec<Value> = row.values().iter().map(|text| index.words_of(text)).collect();
    values.push(Value::from(id));
    tx.execute(index.update(), values).await?;
    Ok(())
}

impl Index {
    /// The texts as columns.
    pub(super) fn texts(&self) -> String {
        self.fields.iter().map(|field| quoted(&field.column)).collect::<Vec<_>>().join(", ")
    }

    /// Sets the words of the record with the id of the last parameter.
    fn update(&self) -> Sql {
        let set = self.fields.iter().enumerate().map(|(place, field)| {
            format!("{} = {}", quoted(&field.words), dialect::words(self.engine, &format!("?{}", place + 1)))
        });
        let (set, id) = (set.collect::<Vec<_>>().join(", "), self.fields.len() + 1);
        format!("UPDATE {} SET {set} WHERE \"id\" = ?{id}", self.quoted_table()).into()
    }
}

/// A record whose words are not those of its texts.
pub(crate) struct Stale {
    pub(crate) id: String,
    pub(crate) column: String,
}

/// Reads the next records after an id, and returns those whose words are not those of their texts, and the last id. Records that wait
/// to be completed are left out.
pub(crate) async fn check(
    db: &Db,
    index: &Index,
    last: &str,
    marks: Option<&str>,
) -> Result<(Vec<Stale>, Option<String>), Error> {
    let table = index.quoted_table();
    let words = index.columns().map(|column| dialect::words_as_text(index.engine, &quoted(column)));
    let select = format!("{}, {}", index.texts(), words.collect::<Vec<_>>().join(", "));
    let unmarked = if let Some(marks) = marks {
        format!(
            " AND NOT EXISTS (SELECT 1 FROM {marks} AS m WHERE m.table_name = ?2 AND m.field = '{MARKED}' AND m.id = {table}.\"id\")"
        )
    } else {
        " AND ?2 <> ''".to_owned()
    };
    // Bytes: of a few records.
    let sql = format!("SELECT {select}, \"id\" FROM {table} WHERE \"id\" > ?1{unmarked} ORDER BY \"id\" LIMIT 20");
    let rows = db.query(sql, params![last, &index.table]).await?;
    let count = index.fields.len();
    let mut stale = Vec::new();
    let id = |row: &Row| row.get::<String>("id");
    for row in &rows {
        let values = row.values();
        for (place, field) in index.fields.iter().enumerate() {
            let is_same = match (index.words_of(&values[place]), &values[count + place]) {
                (Value::Text(wanted), Value::Text(found)) => sorted(&wanted, index) == sorted(found, index),
                _ => false,
            };
            if !is_same {
                stale.push(Stale { id: id(row)?, column: field.column.clone() });
            }
        }
    }
    Ok((stale, rows.last().map(id).transpose()?))
}

/// The words of a column. Postgres has them in an order of its own.
fn sorted<'a>(words: &'a str, index: &Index) -> Vec<&'a str> {
    let mut words: Vec<_> = words.split(' ').filter(|word| !word.is_empty()).collect();
    if index.engine == Engine::Postgres {
        words.sort_unstable();
    }
    words
}

/// What is wrong with the tables of an index, which only SQLite has.
pub(crate) async fn check_tables(db: &Db, index: &Index) -> Result<Option<String>, Error> {
    if index.engine == Engine::Postgres {
        return Ok(None);
    }
    let [name, ids] = [index.name(), index.ids()].map(|name| quoted(&name));
    let indexed = quoted(&index.fields[0].words);
    let (table, repair) = (index.quoted_table(), format!("DELETE FROM {TABLE} WHERE table_name = '{}'", index.table));
    let repair = format!("to build it again, stop the server, run `{repair}`, and start it");
    let sql = format!(
        "SELECT (SELECT count(*) FROM {table} WHERE {indexed} IS NOT NULL AND \"id\" NOT IN (SELECT \"id\" FROM {ids})) + \
         (SELECT count(*) FROM {ids} WHERE \"id\" NOT IN (SELECT \"id\" FROM {table})) AS wrong"
    );
    let row = db.query_opt(sql, vec![]).await?;
    let wrong: i64 = row.map_or(Ok(0), |row| row.get("wrong"))?;
    if wrong > 0 {
        return Ok(Some(format!("the search index has not the table's records ({wrong} differ); {repair}")));
    }
    // It compares all words with those of the view.
    let compare = format!("INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)");
    let compared = db.write(async move |tx: &Tx| tx.execute(compare.clone(), vec![]).await).await;
    Ok(compared.err().map(|error| format!("the search index differs from the words of the table: {error}; {repair}")))
}
