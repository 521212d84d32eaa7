//! Rows that violate a rule which their field got after they were written: `required`, `min`, `max`, `pattern`, or an
//! enum without their value.
//!
//! Such rows can be read. A change of one must correct the field or leave it out. The database does not refuse such
//! rows, so they are searched for: always by `gatewright migrate`, and at a start only for rules that no earlier start
//! or migration has found to be satisfied.

use std::collections::BTreeMap;
use std::fmt::Write;

use gatewright_base::time;
use gatewright_db::schema::describe_in;
use gatewright_db::{Db, Error, Row, Tx, column_types, dialect, params};
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::violation::{self, Violation};
use crate::Declarations;
use crate::declare::{Kind, Model, ModelField};
use crate::fragment::quoted;
use crate::value::code;

/// How many rows are read at once.
const PAGE: i64 = 500;
/// How many ids one message names.
pub(super) const MAX_IDS: usize = 20;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS gatewright_kept_rules (
    entity_table {text} NOT NULL, column_name {text} NOT NULL, rule {text} NOT NULL, kept_at {time} NOT NULL,
    PRIMARY KEY (entity_table, column_name))";

/// Which rules to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// All of them.
    All,
    /// The rules that are not known to be met.
    Unknown,
}

/// A checked rule: table, column, digest.
type Seen = (String, String, String);

/// One remark for each rule that rows violate, with their number and the SQL to find and to correct them.
///
/// Reads the tables in pages, and only columns that have rules.
pub async fn broken_rules(db: &Db, declarations: &Declarations, which: Rules) -> Result<Vec<String>, Error> {
    Ok(look(db, declarations, which).await?.0)
}

/// The same, and records the rules that all rows meet.
pub async fn remember_kept_rules(db: &Db, declarations: &Declarations, which: Rules) -> Result<Vec<String>, Error> {
    let (remarks, kept) = look(db, declarations, which).await?;
    if !kept.is_empty() {
        db.write(async move |tx: &Tx| -> Result<(), Error> {
            tx.execute(column_types(TABLE, tx.engine()), Vec::new()).await?;
            let upsert = format!(
                "INSERT INTO gatewright_kept_rules (entity_table, column_name, rule, kept_at) VALUES (?1, ?2, ?3, {})
                 ON CONFLICT (entity_table, column_name) DO UPDATE SET rule = excluded.rule, kept_at = excluded.kept_at",
                dialect::now(tx.engine())
            );
            for (table, column, rule) in &kept {
                tx.execute(upsert.clone(), params![table, column, rule]).await?;
            }
            Ok(())
        })
        .await?;
    }
    Ok(remarks)
}

async fn look(db: &Db, declarations: &Declarations, which: Rules) -> Result<(Vec<String>, Vec<Seen>), Error> {
    let known = known(db).await?;
    let (mut remarks, mut kept) = (Vec::new(), Vec::new());
    for model in declarations.models.iter().filter(|model| !model.is_read_only()) {
        let Some(shape) = gatewright_db::schema::describe(db, &model.table).await? else { continue };
        let mut fields = Vec::new();
        for field in model.fields.iter().filter(|field| field.has_rules() && shape.column(&field.name).is_some()) {
            let seen = (model.table.to_string(), field.name.clone(), digest(field));
            if which == Rules::All || !known.contains(&seen) {
                fields.push((field, seen));
            }
        }
        if fields.is_empty() {
            continue;
        }
        let looked_at: Vec<&ModelField> = fields.iter().map(|(field, _)| *field).collect();
        let mut violations = scan(db, model, &looked_at).await?;
        for (field, seen) in fields {
            match violations.remove(&field.name) {
                None => kept.push(seen),
                Some(found) => remarks.extend(found.iter().map(|violation| violation::remark(model, field, violation))),
            }
        }
    }
    kept.retain(|seen| !known.contains(seen));
    Ok((remarks, kept))
}

async fn known(db: &Db) -> Result<Vec<Seen>, Error> {
    db.read(async move |tx: &Tx| {
        if describe_in(tx, "gatewright_kept_rules").await?.is_none() {
            return Ok(Vec::new());
        }
        let rows = tx.query("SELECT entity_table, column_name, rule FROM gatewright_kept_rules", Vec::new()).await?;
        rows.iter().map(|row| Ok((row.get("entity_table")?, row.get("column_name")?, row.get("rule")?))).collect()
    })
    .await
}

/// The violations by column.
async fn scan(db: &Db, model: &Model, fields: &[&ModelField]) -> Result<BTreeMap<String, Vec<Violation>>, Error> {
    let columns: Vec<String> = fields.iter().map(|field| selected(field)).collect();
    let (table, columns) = (quoted(&model.table), columns.join(", "));
    let page = format!("SELECT \"id\", {columns} FROM {table} WHERE \"id\" > ?1 ORDER BY \"id\" LIMIT {PAGE}");
    let page = gatewright_db::Sql::from(page);
    let mut violations = BTreeMap::new();
    let mut last = String::new();
    loop {
        let rows = db.query(&page, params![&last]).await?;
        for row in &rows {
            last = row.get("id")?;
            for field in fields {
                if let Some((rule, message)) = broken(row, field)? {
                    note(violations.entry(field.name.clone()).or_default(), rule, message, &last);
                }
            }
        }
        if rows.is_empty() {
            return Ok(violations);
        }
    }
}

fn note(violations: &mut Vec<Violation>, rule: &'static str, message: String, id: &str) {
    let at = violations.iter().position(|violation| violation.rule == rule).unwrap_or_else(|| {
        violations.push(Violation { rule, message, rows: 0, ids: Vec::new() });
        violations.len() - 1
    });
    violations[at].rows += 1;
    if violations[at].ids.len() < MAX_IDS {
        violations[at].ids.push(id.to_owned());
    }
}

/// A column as a type that both engines give for it.
fn selected(field: &ModelField) -> String {
    let name = quoted(&field.name);
    match field.kind {
        Kind::Decimal | Kind::Date | Kind::Uuid | Kind::Json | Kind::List | Kind::File | Kind::Bool => {
            format!("CAST({name} AS TEXT) AS {name}")
        }
        Kind::String | Kind::Text | Kind::Enum | Kind::Relation | Kind::Int | Kind::Float | Kind::Timestamp => name,
    }
}

/// The rule that a row's value violates, and the valid values.
fn broken(row: &Row, field: &ModelField) -> Result<Option<(&'static str, String)>, Error> {
    let name = &*field.name;
    let value = match field.kind {
        Kind::Int => row.get::<Option<i64>>(name)?.map(|value| json!(value)),
        Kind::Float => row.get::<Option<f64>>(name)?.map(|value| json!(value)),
        Kind::Timestamp => row.get::<Option<Timestamp>>(name)?.map(|at| json!(time::format(at))),
        // A text that is no JSON is of another kind, to which no rule applies.
        Kind::List => row.get::<Option<String>>(name)?.map(|text| serde_json::from_str(&text).unwrap_or(json!(text))),
        _ => row.get::<Option<String>>(name)?.map(|text| json!(text)),
    };
    let Some(value) = value else {
        return Ok(field.required.then(|| (code::REQUIRED, "the field is required, and is empty there".to_owned())));
    };
    // Rules do not apply to a value of another kind.
    let rules = [code::MIN, code::MAX, code::PATTERN, code::ENUM, code::DUPLICATE];
    let rule = |code: &str| rules.into_iter().find(|rule| *rule == code);
    let fault = if field.has_bounds() { field.rule.read(&value.to_string()).err() } else { None };
    Ok(fault.and_then(|fault| Some((rule(fault.code)?, fault.message))))
}

fn digest(field: &ModelField) -> String {
    let digest = Sha256::digest(format!("{} {:?}", field.required, field.rule));
    digest[..16].iter().fold(String::new(), |mut hex, byte| {
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}

impl ModelField {
    /// Whether a row can break a rule of the field.
    fn has_rules(&self) -> bool {
        self.required || self.has_bounds()
    }

    /// Whether the type is not enough to decide which values are valid.
    fn has_bounds(&self) -> bool {
        match self.kind {
            Kind::String
            | Kind::Text
            | Kind::Int
            | Kind::Float
            | Kind::Decimal
            | Kind::Enum
            | Kind::Date
            | Kind::Timestamp
            | Kind::List => true,
            Kind::Bool | Kind::Uuid | Kind::Json | Kind::Relation | Kind::File => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ids_are_named_and_all_rows_counted() {
        let mut violations = Vec::new();
        for row in 0..30 {
            note(&mut violations, code::MIN, "must be at least 3".to_owned(), &row.to_string());
        }
        assert_eq!((violations[0].rows, violations[0].ids.len()), (30, MAX_IDS));
    }
}
