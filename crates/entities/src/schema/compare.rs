//! Compares one declared table with the database. Pure.

use gatewright_db::Engine;
use gatewright_db::schema::{ColumnShape, IndexShape, TableShape};

use super::obstacles::Obstacles;
use super::script::{self, qualified};
use super::table::{self, Column, Index, Table};
use super::{Changes, Refusal};
use crate::declare::names::{DELETED_COLUMN, OWN_COLUMNS};
use crate::fragment::quoted;

/// An existing table, and what was found out about it.
pub(super) struct Compare<'a> {
    pub(super) table: &'a Table,
    pub(super) shape: &'a TableShape,
    pub(super) obstacles: &'a Obstacles,
    pub(super) engine: Engine,
}

impl Compare<'_> {
    /// Notes missing parts, statements to run after all tables exist, and refusals.
    pub(super) fn run(&self, changes: &mut Changes, closing: &mut Vec<String>, refusals: &mut Vec<Refusal>) {
        for column in &self.table.columns {
            match self.shape.column(&column.name) {
                None => self.add(column, closing, refusals),
                Some(there) => {
                    self.relax(column, there, closing);
                    refusals.extend(self.differs(column, there));
                }
            }
        }
        for left in &self.shape.columns {
            if self.table.columns.iter().all(|column| column.name != left.name) {
                self.left_over(left, changes, refusals);
            }
        }
        for index in &self.table.indexes {
            self.index(index, closing, refusals);
        }
        self.replaced(closing);
        self.left_over_unique(closing, refusals);
    }

    /// Indexes that another index replaces, because it begins with the same column.
    fn replaced(&self, closing: &mut Vec<String>) {
        for index in &self.table.indexes {
            let column = &index.columns[0];
            let name = |kind| table::index_name(&self.table.name, column, kind);
            let [plain, leading] = table::LOOKUP_KINDS.map(name);
            let other = if index.name == plain {
                leading
            } else if index.name == leading {
                plain
            } else {
                continue;
            };
            // An index with the other name may be a wanted one.
            let wanted = |there: &IndexShape| self.table.indexes.iter().any(|index| index.is(&self.table.name, there));
            let there = self.shape.indexes.iter().find(|there| there.name == other && !there.unique && !wanted(there));
            closing.extend(there.map(|there| format!("DROP INDEX {}", quoted(&there.name))));
        }
    }

    /// The owner's column of a table that was created when the column was required. Postgres changes that at once and
    /// without loss. SQLite cannot: there a deleted account's id stays in the column.
    fn relax(&self, column: &Column, there: &ColumnShape, closing: &mut Vec<String>) {
        if column.owner && !there.nullable && self.engine == Engine::Postgres {
            closing.push(script::drop_not_null(&self.table.name, &column.name));
        }
    }

    fn refuse(&self, column: &str, reason: impl Into<String>, sql: Vec<String>) -> Refusal {
        Refusal { table: self.table.name.clone(), column: Some(column.to_owned()), reason: reason.into(), sql }
    }

    /// A missing column. In a table without rows, a required one stays nullable: SQLite cannot add a required column
    /// without a default, and the service itself ensures that it has a value.
    fn add(&self, column: &Column, closing: &mut Vec<String>, refusals: &mut Vec<Refusal>) {
        let table = &self.table.name;
        if OWN_COLUMNS.contains(&&*column.name) {
            let reason = "every entity has this column; another program created the table, and it lacks the column";
            refusals.push(self.refuse(&column.name, reason, Vec::new()));
        } else if column.not_null && column.default.is_none() && self.obstacles.rows {
            let reason = "the new field is required, has no default, and existing rows would have no value for it; \
                          give it a default or make it optional";
            let (sql, renamed) = match self.renamed_from_column(column) {
                Some(old) => (
                    vec![self.rename(old, &column.name)],
                    format!(", or, if \"{0}\" became it, say renamed_from = \"{0}\"", old.name),
                ),
                None => (vec![column.add(table, false)], String::new()),
            };
            refusals.push(self.refuse(&column.name, format!("{reason}{renamed}"), sql));
        } else {
            closing.push(column.add(table, column.not_null && column.default.is_some()));
        }
    }

    /// The only column of the same type that is no longer declared: probably that of a renamed field.
    fn renamed_from_column(&self, column: &Column) -> Option<&ColumnShape> {
        let declared = |name: &str| self.table.columns.iter().any(|column| column.name == name);
        let mut left = self.shape.columns.iter().filter(|left| !declared(&left.name));
        left.find(|left| left.type_name == column.type_name())
            .filter(|_| left.all(|other| other.type_name != column.type_name()))
    }

    fn rename(&self, from: &ColumnShape, to: &str) -> String {
        let (table, from) = (quoted(&self.table.name), quoted(&from.name));
        format!("ALTER TABLE {table} RENAME COLUMN {from} TO {}", quoted(to))
    }

    /// The differences of an existing column.
    fn differs(&self, column: &Column, there: &ColumnShape) -> Option<Refusal> {
        let name = &*column.name;
        if there.type_name != column.type_name() {
            let reason = format!("the declaration makes it {}, and it is {}", column.type_name(), there.type_name);
            if let Some((_, count, fails)) = self.obstacles.unconvertible.iter().find(|(column, ..)| column == name) {
                let reason = format!("{reason}; {}; change them first", rows(*count, "a value that does not convert"));
                return Some(self.refuse(name, reason, vec![self.list(name, fails)]));
            }
            return Some(self.change(column, there, reason, script::retype));
        }
        if name == "id" {
            let reason = "it is not the primary key, and an entity's id must be";
            return (!there.primary_key).then(|| self.refuse(name, reason, Vec::new()));
        }
        if !there.nullable && !column.not_null && !column.owner {
            let reason = "the field is optional now, and the column is NOT NULL".to_owned();
            return Some(self.change(column, there, reason, |table, _, column| {
                vec![script::drop_not_null(&table.name, &column.name)]
            }));
        }
        let reference = self.shape.foreign_keys.iter().find(|key| key.column == name);
        let reason = match (&column.reference, reference) {
            (None, None) => return None,
            (Some(wanted), Some(is)) if wanted.table == is.table && wanted.on_delete.sql() == is.on_delete => {
                return None;
            }
            (Some(wanted), is) => {
                let is = is.map_or("nothing".to_owned(), |is| format!("{} ON DELETE {}", is.table, is.on_delete));
                let wants = format!("{} ON DELETE {}", wanted.table, wanted.on_delete.sql());
                format!("the declaration makes it refer to {wants}, and it refers to {is}")
            }
            (None, Some(is)) => format!("the field is not a relation now, and the column still refers to {}", is.table),
        };
        Some(self.change(column, there, reason, script::refer))
    }

    /// A refusal with the SQL to make the change: `postgres` there; on SQLite, which alters no columns, a new column that
    /// replaces the old one. Without the SQL if rows violate the declared relation.
    fn change(
        &self,
        column: &Column,
        there: &ColumnShape,
        reason: String,
        postgres: impl Fn(&Table, &TableShape, &Column) -> Vec<String>,
    ) -> Refusal {
        let name = &*column.name;
        if let Some(target) = column.reference.as_ref().filter(|to| self.obstacles.unmade.contains(&to.table)) {
            let reason = format!(
                "{reason}; the table \"{}\" is not there yet: declare that entity first, run `gatewright migrate`, then \
                 make this field a relation",
                target.table
            );
            return self.refuse(name, reason, Vec::new());
        }
        if let Some((_, count, dangles)) = self.obstacles.dangling.iter().find(|(column, ..)| column == name) {
            let reason = format!("{reason}; {}; change them first", rows(*count, "a value that is no record's id"));
            return self.refuse(name, reason, vec![self.list(name, dangles)]);
        }
        let sql = match self.engine {
            Engine::Postgres => postgres(self.table, self.shape, column),
            Engine::Sqlite => script::replace_column(self.table, self.shape, column, there),
        };
        self.refuse(name, reason, sql)
    }

    /// The query that lists rows.
    fn list(&self, column: &str, condition: &str) -> String {
        let (table, column) = (&self.table.name, qualified(&self.table.name, column));
        format!("SELECT {}, {column} FROM {} WHERE {condition}", qualified(table, "id"), quoted(table))
    }

    /// A column that no field declares now.
    fn left_over(&self, left: &ColumnShape, changes: &mut Changes, refusals: &mut Vec<Refusal>) {
        let (table, name) = (&self.table.name, &left.name);
        let mut sql = script::drop_indexes(self.shape, name);
        // If the field was renamed, dropping its column would lose its data.
        let absent = |column: &&Column| self.shape.column(&column.name).is_none();
        let renamed = self.table.columns.iter().filter(absent).find(|column| {
            self.renamed_from_column(column).is_some_and(|renamed_from_column| renamed_from_column.name == *name)
        });
        match renamed {
            Some(column) => sql = vec![self.rename(left, &column.name)],
            None => sql.push(format!("ALTER TABLE {} DROP COLUMN {}", quoted(table), quoted(name))),
        }
        if left.nullable || left.has_default {
            changes.notes.push(format!("table \"{table}\" keeps its column \"{name}\", which no field declares now"));
        } else {
            let reason = "no field declares it now, and no row can be written without a value for it";
            refusals.push(self.refuse(name, reason, sql));
        }
    }

    fn index(&self, index: &Index, closing: &mut Vec<String>, refusals: &mut Vec<Refusal>) {
        if self.shape.indexes.iter().any(|there| index.is(&self.table.name, there)) {
            return;
        }
        let repeated = self.obstacles.repeats.iter().find(|(column, _)| index.unique && index.columns.contains(column));
        match repeated {
            Some((column, shared)) => {
                let table = &self.table.name;
                let names = index.columns.iter().map(|name| qualified(table, name)).collect::<Vec<_>>();
                let live = index.live && self.shape.column(DELETED_COLUMN).is_some();
                let live =
                    if live { format!(" AND {} IS NULL", qualified(table, DELETED_COLUMN)) } else { String::new() };
                let (given, names, table) = (names.join(" IS NOT NULL AND "), names.join(", "), quoted(table));
                let sql = format!(
                    "SELECT {names}, COUNT(*) FROM {table} WHERE {given} IS NOT NULL{live} GROUP BY {names} HAVING COUNT(*) > 1"
                );
                let count = if *shared == 1 { "1 such value".to_owned() } else { format!("{shared} such values") };
                let reason = format!(
                    "the field is unique now, and some rows share a value ({count}); the query lists them. Keep one row of \
                     each, and change the others: UPDATE {table} SET {} = 'VALUE' WHERE \"id\" = 'ID'",
                    quoted(column)
                );
                refusals.push(self.refuse(column, reason, vec![sql]));
            }
            None => closing.push(index.create(&self.table.name)),
        }
    }

    /// A field that is no longer unique, or unique in another way, but has an index that still refuses duplicates. If
    /// deleted records are kept in the trash from now on, the index over the other records replaces the old one: the
    /// existing records satisfy it, and nothing is lost.
    fn left_over_unique(&self, closing: &mut Vec<String>, refusals: &mut Vec<Refusal>) {
        for there in self.shape.indexes.iter().filter(|there| there.unique) {
            let Some(column) = there.columns.last() else { continue };
            let named = |kind: &&str| there.name == table::index_name(&self.table.name, column, kind);
            let ours = table::UNIQUE_KINDS.iter().any(named);
            let wanted = self.table.indexes.iter().any(|index| index.unique && index.is(&self.table.name, there));
            let declared = self.table.columns.iter().any(|wanted| wanted.name == *column);
            if ours && !wanted && declared {
                let within = |index: &&Index| index.unique && index.columns.last() == Some(column);
                let drop = format!("DROP INDEX {}", quoted(&there.name));
                let now = match self.table.indexes.iter().find(within) {
                    Some(index) if index.live && index.columns == there.columns => {
                        closing.push(drop);
                        continue;
                    }
                    Some(index) if index.live => "unique among records that are not deleted now",
                    Some(_) if there.name.ends_with("_live") => "unique among all records now",
                    Some(index) if index.columns.len() == 1 => "unique across tenants now",
                    Some(_) => "unique within each tenant now",
                    None => "no longer unique",
                };
                let reason = format!("the field is {now}, and its index still refuses repeats");
                refusals.push(self.refuse(column, reason, vec![drop]));
            }
        }
    }
}

fn rows(count: i64, hold: &str) -> String {
    if count == 1 { format!("1 row holds {hold}") } else { format!("{count} rows hold {hold}") }
}
