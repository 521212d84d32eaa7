use gatewright_db::schema::describe_in;
use gatewright_db::{Db, Error, Tx, Value};

use crate::Declarations;
use crate::declare::Model;
use crate::plan::quoted;
use crate::value::Type;

/// How many words one remark names.
const MOST_WORDS: usize = 5;

/// Remarks on rows that hold a word which their field's `values` no longer list, one for each such field. They can be
/// read, and be written as long as that field is left alone.
///
/// Every row of a table with an enum is looked at, so that this is for an operator who asks, not for each start.
pub async fn stale_values(db: &Db, declarations: &Declarations) -> Result<Vec<String>, Error> {
    let models = declarations.models.clone();
    db.read(async move |tx: &Tx| {
        let mut remarks = Vec::new();
        for model in &models {
            stale_in(tx, model, &mut remarks).await?;
        }
        Ok(remarks)
    })
    .await
}

async fn stale_in(tx: &Tx, model: &Model, remarks: &mut Vec<String>) -> Result<(), Error> {
    let Some(shape) = describe_in(tx, &model.table).await? else { return Ok(()) };
    for field in model.fields.iter().filter(|field| shape.column(&field.name).is_some()) {
        let Type::Enum(words) = &field.rule else { continue };
        let places: Vec<String> = (1..=words.len()).map(|number| format!("?{number}")).collect();
        let (table, column) = (quoted(&model.table), quoted(&field.name));
        let sql = format!(
            "SELECT DISTINCT {column} AS word FROM {table} WHERE {column} IS NOT NULL AND {column} NOT IN ({}) \
             ORDER BY 1 LIMIT {MOST_WORDS}",
            places.join(", ")
        );
        let known = words.iter().map(Value::from).collect();
        let rows = tx.query(sql, known).await?;
        if rows.is_empty() {
            continue;
        }
        let held: Vec<String> = rows.iter().map(|row| row.get("word")).collect::<Result<_, _>>()?;
        let listed = |quote: &str, inside: &str| {
            let words = held.iter().map(|word| format!("{quote}{}{quote}", word.replace(quote, inside)));
            words.collect::<Vec<_>>().join(", ")
        };
        remarks.push(format!(
            "table \"{}\", column \"{}\": some rows hold {}, which the field's values do not list any more; to find them, \
             run: SELECT \"id\", {column} FROM {table} WHERE {column} IN ({})",
            model.table,
            field.name,
            listed("\"", "\""),
            listed("'", "''"),
        ));
    }
    Ok(())
}
