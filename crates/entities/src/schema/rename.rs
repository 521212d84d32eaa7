//! Declared renames: shows the existing tables with their new names, and returns the statements that rename them.
//!
//! A rename is pending if the new name is missing and the old one exists, so that a declaration may keep its
//! `renamed_from`. The indexes of this service are named after table and column, so they are dropped and created again
//! with their new names.

use gatewright_db::Tx;
use gatewright_db::schema::{TableShape, describe_in};

use super::table::Index;
use super::{SchemaError, marks, sequences};
use crate::declare::Model;
use crate::declare::model::{folded_column, unfolded};
use crate::fragment::quoted;

/// A table that is there.
pub(super) struct Present {
    /// The new name.
    pub(super) shape: TableShape,
    /// The current name.
    table: String,
    /// Whether the two differ.
    renamed: bool,
    /// The columns that are called otherwise now: old and new names.
    columns: Vec<(String, String)>,
    /// The unique indexes that must be created again: columns and kind.
    again: Vec<(Vec<String>, String)>,
}

/// The tables that are to be renamed: old and new names.
pub(super) async fn tables(tx: &Tx, models: &[Model]) -> Result<Vec<(String, String)>, SchemaError> {
    let mut due = Vec::new();
    for model in models {
        let Some(old) = &model.renamed_from else { continue };
        if describe_in(tx, &model.table).await?.is_none() && describe_in(tx, old).await?.is_some() {
            due.push((old.clone(), model.table.to_string()));
        }
    }
    Ok(due)
}

impl Present {
    /// Looks for a model's table, and adds the statements that rename it and its columns to `statements`.
    pub(super) async fn find(
        tx: &Tx,
        model: &Model,
        renamed: &[(String, String)],
        statements: &mut Vec<String>,
    ) -> Result<Option<Self>, SchemaError> {
        let name = &*model.table;
        let old = renamed.iter().find(|(_, new)| new == name).map(|(old, _)| &**old);
        let table = old.unwrap_or(name).to_owned();
        let Some(mut shape) = describe_in(tx, &table).await? else { return Ok(None) };
        for key in &mut shape.foreign_keys {
            if let Some((_, new)) = renamed.iter().find(|(old, _)| *old == key.table) {
                key.table.clone_from(new);
            }
        }
        let columns: Vec<(String, String)> = model
            .fields
            .iter()
            .filter_map(|field| Some((field.renamed_from.clone()?, field.name.clone())))
            .flat_map(|(old, new)| [(folded_column(&old), folded_column(&new)), (old, new)])
            .filter(|(old, new)| shape.column(new).is_none() && shape.column(old).is_some())
            .collect();
        let mut present = Self { shape, table, renamed: old.is_some(), columns, again: Vec::new() };
        present.drop_indexes(old.is_some(), statements);
        if old.is_some() {
            statements.push(format!("ALTER TABLE {} RENAME TO {}", quoted(&present.table), quoted(name)));
        }
        present.rename_columns(name, statements);
        Ok(Some(present))
    }

    fn drop_indexes(&mut self, all: bool, statements: &mut Vec<String>) {
        let ours = format!("{}.", self.table);
        let columns = &self.columns;
        let is_old = |name: &String| columns.iter().any(|(old, _)| old == name);
        let (gone, kept) = std::mem::take(&mut self.shape.indexes)
            .into_iter()
            .partition(|index| index.name.starts_with(&ours) && (all || index.columns.iter().any(is_old)));
        self.shape.indexes = kept;
        let gone: Vec<gatewright_db::schema::IndexShape> = gone;
        for index in gone {
            statements.push(format!("DROP INDEX {}", quoted(&index.name)));
            if index.unique {
                let columns = index.columns.iter().map(|column| self.new_name(column).to_owned()).collect();
                self.again.push((columns, kind(&index.name).to_owned()));
            }
        }
    }

    fn rename_columns(&mut self, table: &str, statements: &mut Vec<String>) {
        for (old, new) in &self.columns {
            statements.push(format!("ALTER TABLE {} RENAME COLUMN {} TO {}", quoted(table), quoted(old), quoted(new)));
            let shape = &mut self.shape;
            let columns = shape.columns.iter_mut().map(|column| &mut column.name);
            let indexed = shape.indexes.iter_mut().flat_map(|index| &mut index.columns);
            let keys = shape.foreign_keys.iter_mut().map(|key| &mut key.column);
            for name in columns.chain(indexed).chain(keys).filter(|name| *name == old) {
                name.clone_from(new);
            }
        }
    }

    /// The statements by which sequences keep their last numbers.
    pub(super) fn renamed_sequences(&self, model: &Model) -> Vec<String> {
        let renamed = model.sequences.iter().filter_map(|sequence| {
            let column = &*model.fields[sequence.field].name;
            let old = self.columns.iter().find(|(_, new)| new == column).map_or(column, |(old, _)| old);
            let (old, new) = (sequences::name(&self.table, old), sequences::name(&model.table, column));
            (old != new).then(|| format!("UPDATE {} SET name = '{new}' WHERE name = '{old}'", sequences::TABLE))
        });
        renamed.collect()
    }

    /// The statements by which records keep their marks.
    pub(super) fn renamed_marks(&self, model: &Model) -> Vec<String> {
        let field = |(old, new): &(String, String)| {
            format!(
                "UPDATE {} SET field = '{new}' WHERE table_name = '{}' AND field = '{old}'",
                marks::TABLE,
                self.table
            )
        };
        let table = (self.renamed).then(|| {
            format!("UPDATE {} SET table_name = '{}' WHERE table_name = '{}'", marks::TABLE, model.table, self.table)
        });
        self.columns.iter().filter(|(old, _)| unfolded(old) == old).map(field).chain(table).collect()
    }

    fn new_name<'a>(&'a self, column: &'a str) -> &'a str {
        self.columns.iter().find(|(old, _)| old == column).map_or(column, |(_, new)| new)
    }

    /// The name that the table has before its rename.
    pub(super) fn former_table(&self) -> Option<&str> {
        self.renamed.then_some(&*self.table)
    }

    /// Whether the rename of the table or one of its columns is pending.
    pub(super) fn is_renamed(&self) -> bool {
        self.renamed || !self.columns.is_empty()
    }

    /// The table's current name, in quotes.
    pub(super) fn table(&self) -> String {
        quoted(&self.table)
    }

    /// A column's current name, in quotes.
    pub(super) fn column(&self, name: &str) -> String {
        quoted(self.columns.iter().find(|(_, new)| new == name).map_or(name, |(old, _)| old))
    }

    /// Whether the same rule held under an old name, so that no rows can break it.
    pub(super) fn had(&self, index: &Index) -> bool {
        self.again.iter().any(|(columns, kind_of)| *columns == index.columns && kind_of == kind(&index.name))
    }
}

/// The last part of an index's name.
fn kind(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
