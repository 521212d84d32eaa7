//! Compares one declared table with the database. Pure.

use gatewright_db::Engine;
use gatewright_db::schema::{ColumnShape, IndexShape, TableShape};

use super::obstacles::{Obstacles, Repeats};
use super::script::{self, qualified};
use super::table::{self, Column, Index, Table};
use super::{Changes, Refusal};
use crate::declare::model::unfolded;
use crate::declare::names::OWN_COLUMNS;
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
                    closing.extend(self.emptied(column));
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
        self.left_over_indexes(changes);
        self.left_over_unique(closing, refusals);
    }

    /// Indexes that another index replaces, because it begins with the same column.
    fn replaced(&self, closing: &mut Vec<String>) {
        let replaced = self.shape.indexes.iter().filter(|there| self.is_replaced(there));
        closing.extend(replaced.map(|there| format!("DROP INDEX {}", quoted(&there.name))));
    }

    fn is_replaced(&self, there: &IndexShape) -> bool {
        let by = |index: &Index| {
            let [plain, leading] =
                table::LOOKUP_KINDS.map(|kind| table::index_name(&self.table.name, &index.columns[0], kind));
            (index.name == plain && there.name == leading) || (index.name == leading && there.name == plain)
        };
        // An index with the other name may be a wanted one.
        let wanted = || self.table.indexes.iter().any(|index| index.is(&self.table.name, there));
        !there.unique && self.table.indexes.iter().any(by) && !wanted()
    }

    /// The owner's column of a table that was created when the column was required. Postgres changes that at once and
    /// without loss. SQLite cannot: there a deleted account's id stays in the column.
    fn relax(&self, column: &Column, there: &ColumnShape, closing: &mut Vec<String>) {
        if column.owner && !there.nullable && self.engine == Engine::Postgres {
            closing.push(script::drop_not_null(&self.table.name, &column.name));
        }
    }

    /// Gives rows without a value the list without items.
    fn emptied(&self, column: &Column) -> Option<String> {
        let (_, statement) = column.without_null(&self.table.name)?;
        self.obstacles.nulls.contains(&column.name).then_some(statement)
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
            closing.extend(column.fill(table).filter(|_| self.obstacles.rows));
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
        let mut sql = script::drop_dependents(self.table, self.shape, name, self.engine);
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
        let repeated = self.obstacles.repeats.iter().find(|repeats| repeats.index == index.name);
        match repeated {
            Some(Repeats { shared, query, .. }) => {
                let (table, column) = (&self.table.name, index.columns.last().map_or("", |column| unfolded(column)));
                let count = if *shared == 1 { "1 such value".to_owned() } else { format!("{shared} such values") };
                let reason = format!(
                    "the field is unique now, and some rows share a value ({count}); the query lists them. Keep one row of \
                     each, and change the others: UPDATE {} SET {} = 'VALUE' WHERE \"id\" = 'ID'",
                    quoted(table),
                    quoted(column)
                );
                refusals.push(self.refuse(column, reason, vec![query.clone()]));
            }
            None => closing.push(index.create(&self.table.name)),
        }
    }

    /// A field that is no longer unique, or unique in another way, but has an index that still refuses duplicates. If
    /// deleted records are kept in the trash from now on, the index over the other records replaces the old one: the
    /// existing records satisfy it, and nothing is lost.
    fn left_over_unique(&self, closing: &mut Vec<String>, refusals: &mut Vec<Refusal>) {
        for there in self.shape.indexes.iter().filter(|there| there.unique) {
            let Some((key, _)) = table::unique_kind(&self.table.name, there) else { continue };
            let wanted = self.table.indexes.iter().any(|index| index.unique && index.is(&self.table.name, there));
            let declared = |column: &String| self.table.columns.iter().any(|wanted| wanted.name == unfolded(column));
            if !wanted && key.iter().all(declared) {
                let within = |index: &&Index| index.has_key(key);
                let drop = format!("DROP INDEX {}", quoted(&there.name));
                let now = match self.table.indexes.iter().find(within) {
                    Some(index) if index.live && index.columns == there.columns => {
                        closing.push(drop);
                        continue;
                    }
                    Some(index) if index.live => "unique among records that are not deleted now",
                    Some(_) if there.name.ends_with("_live") => "unique among all records now",
                    Some(index) if index.columns.len() == key.len() => "unique across tenants now",
                    Some(_) => "unique within each tenant now",
                    None => "no longer unique",
                };
                let reason = match key {
                    [_] => format!("the field is {now}, and its index still refuses repeats"),
                    key => format!(
                        "the fields {} together are {now}, and their index still refuses repeats",
                        key.join(", ")
                    ),
                };
                let column = key.last().map_or("", |column| unfolded(column));
                refusals.push(self.refuse(column, reason, vec![drop]));
            }
        }
    }

    /// Indexes of ours that no declaration has now. They stay, because they lose nothing.
    fn left_over_indexes(&self, changes: &mut Changes) {
        let ours = format!("{}.", self.table.name);
        for there in self.shape.indexes.iter().filter(|there| !there.unique && there.name.starts_with(&ours)) {
            let is_wanted = self.table.indexes.iter().any(|index| index.is(&self.table.name, there));
            if !is_wanted && !self.is_replaced(there) {
                changes.notes.push(format!(
                    "table \"{}\" keeps its index \"{}\", which no declaration has now; to drop it: DROP INDEX {}",
                    self.table.name,
                    there.name,
                    quoted(&there.name)
                ));
            }
        }
    }
}

fn rows(count: i64, hold: &str) -> String {
    if count == 1 { format!("1 row holds {hold}") } else { format!("{count} rows hold {hold}") }
}
