//! The tables that declarations ask for, and their SQL.

use std::fmt::Write;

use gatewright_base::time;
use gatewright_db::schema::IndexShape;
use gatewright_db::{Engine, Value, column_types, dialect};

use super::marks::{self, Trigger};
use super::{Users, files, search};
use crate::condition::{LINK, LINKING};
use crate::declare::model::{folded_column, links_table, short};
use crate::declare::{Key, Kind, Model, ModelField, OnDelete, Target, names};
use crate::fragment::quoted;

/// A table as it should be.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) indexes: Vec<Index>,
    /// What marks records that were written without a derived value.
    pub(super) triggers: Vec<Trigger>,
}

/// A column as it should be.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// The engine's type, with its collation.
    pub(super) sql_type: String,
    pub(super) not_null: bool,
    /// Whether it is the record's owner, which may be set to null even if the declaration was stricter before.
    pub(super) owner: bool,
    /// As SQL.
    pub(super) default: Option<String>,
    pub(super) reference: Option<Reference>,
    /// What existing rows get, as SQL, when the column is added.
    pub(super) filled: Option<String>,
    /// What rows without a value get, as SQL: the column was another type's before, and this one has no null.
    pub(super) instead_of_null: Option<&'static str>,
}

/// A foreign key to another table's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) table: String,
    pub(super) on_delete: OnDelete,
}

/// An index as it should be.
#[expect(clippy::struct_excessive_bools, reason = "one for each property of an index")]
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) unique: bool,
    /// Whether only records count that are not deleted.
    pub(super) live: bool,
    /// The columns as they compare.
    terms: Vec<String>,
    /// Whether only an index with its name is the same, because the columns alone do not tell their directions.
    named: bool,
    /// Whether it is one of words.
    gin: bool,
}

/// The triggers of an entity's table.
pub(super) fn triggers(model: &Model, engine: Engine) -> Vec<Trigger> {
    let others = marks::triggers(model, engine).into_iter().chain(search::triggers(model, engine));
    others.chain(files::triggers(model, engine)).collect()
}

impl Table {
    pub(super) fn of(model: &Model, all: &[Model], users: &Users, engine: Engine) -> Self {
        let own = |name: &str, word: &str| Column {
            name: name.to_owned(),
            sql_type: column_types(word, engine),
            not_null: true,
            owner: false,
            default: None,
            reference: None,
            filled: None,
            instead_of_null: None,
        };
        let mut columns = vec![own("id", "{text}")];
        columns.extend(model.fields.iter().enumerate().map(|(index, field)| Column {
            owner: model.owner == Some(index),
            ..Column::of(field, all, users, engine)
        }));
        columns.extend(model.folded().map(|index| {
            let name = &model.fields[index].name;
            let filled = Some(dialect::folded(&quoted(name)));
            Column { not_null: false, filled, ..own(&folded_column(name), "{text}") }
        }));
        let words = model
            .search
            .iter()
            .flat_map(|search| search.fields.iter().map(|(position, _)| search.column(&model.fields[*position].name)));
        columns.extend(words.map(|name| Column { not_null: false, ..own(&name, "{words}") }));
        columns.extend([own("created_at", "{time}"), own("updated_at", "{time}")]);
        if model.soft_delete {
            columns.push(Column { not_null: false, ..own(names::DELETED_COLUMN, "{time}") });
        }
        Self {
            name: model.table.to_string(),
            columns,
            indexes: indexes(model, engine),
            triggers: triggers(model, engine),
        }
    }

    /// The table of the links of a relation to many records.
    pub(super) fn of_links(model: &Model, field: &ModelField, all: &[Model], users: &Users, engine: Engine) -> Self {
        let name = links_table(&model.table, &field.name);
        // The operations take a link out, with an event, before its target is deleted.
        let to = |table: String| Some(Reference { table, on_delete: OnDelete::Cascade });
        let column = |name: &str, word: &str, reference| Column {
            name: name.to_owned(),
            sql_type: column_types(word, engine),
            not_null: true,
            owner: false,
            default: None,
            reference,
            filled: None,
            instead_of_null: None,
        };
        let target = field.links.and_then(|target| users.table_of(target, all));
        Self {
            columns: vec![
                column(LINKING, "{text}", to(model.table.to_string())),
                column(LINK, "{text}", target.and_then(to)),
                column("position", "{int}", None),
            ],
            indexes: vec![Index::of(&name, &[LINKING, LINK], true), Index::of(&name, &[LINK, LINKING], false)],
            triggers: Vec::new(),
            name,
        }
    }

    /// The statement that creates the table, except the columns at `later`.
    pub(super) fn create(&self, later: &[&str]) -> String {
        self.create_as(&self.name, self.columns.iter().filter(|column| !later.contains(&&*column.name)))
    }

    fn create_as<'a>(&self, name: &str, columns: impl Iterator<Item = &'a Column>) -> String {
        let mut sql = format!("CREATE TABLE {} (", quoted(name));
        for (index, column) in columns.enumerate() {
            let comma = if index == 0 { "\n  " } else { ",\n  " };
            let key = if column.name == "id" { " PRIMARY KEY" } else { "" };
            let _infallible = write!(sql, "{comma}{}{key}", column.define(&self.name, column.not_null));
        }
        sql.push_str("\n)");
        sql
    }
}

impl Users {
    /// The table that a relation refers to. `None` for users in another store.
    fn table_of(&self, target: Target, all: &[Model]) -> Option<String> {
        match (target, self) {
            (Target::Entity(index), _) => Some(all[index].table.to_string()),
            (Target::Users, Self::Table(table) | Self::TableToCome(table)) => Some(table.clone()),
            (Target::Users, Self::Elsewhere) => None,
        }
    }
}

impl Column {
    fn of(field: &ModelField, all: &[Model], users: &Users, engine: Engine) -> Self {
        let reference = field.relation.and_then(|relation| {
            Some(Reference { table: users.table_of(relation.to, all)?, on_delete: relation.on_delete })
        });
        Self {
            name: field.name.clone(),
            sql_type: column_types(type_word(field.kind), engine),
            not_null: field.required,
            owner: false,
            default: field.default.as_ref().map(literal),
            reference,
            filled: None,
            instead_of_null: (field.kind == Kind::List).then_some("'[]'"),
        }
    }

    /// The statement that gives existing rows the value of the column that was added, if they get one.
    pub(super) fn fill(&self, table: &str) -> Option<String> {
        let filled = self.filled.as_ref()?;
        Some(format!("UPDATE {} SET {} = {filled}", quoted(table), quoted(&self.name)))
    }

    /// A condition for rows that need [`instead_of_null`](Self::instead_of_null), and the statement that gives it to them.
    pub(super) fn without_null(&self, table: &str) -> Option<(String, String)> {
        let value = self.instead_of_null?;
        let (table, column) = (quoted(table), quoted(&self.name));
        let missing = format!("{table}.{column} IS NULL");
        let statement = format!("UPDATE {table} SET {column} = {value} WHERE {missing}");
        Some((missing, statement))
    }

    /// The statement that adds the column to a table.
    pub(super) fn add(&self, table: &str, not_null: bool) -> String {
        format!("ALTER TABLE {} ADD COLUMN {}", quoted(table), self.define(table, not_null))
    }

    /// The statement that adds the column, empty, under another name.
    pub(super) fn add_as(&self, table: &str, name: &str) -> String {
        let constraint = |reference: &Reference| format!(" {}", reference.inline(table, &self.name));
        let reference = self.reference.as_ref().map(constraint).unwrap_or_default();
        let default = self.default.as_ref().map(|default| format!(" DEFAULT {default}")).unwrap_or_default();
        format!("ALTER TABLE {} ADD COLUMN {} {}{default}{reference}", quoted(table), quoted(name), self.sql_type)
    }

    /// The type without its collation, as a database names it.
    pub(super) fn type_name(&self) -> &str {
        self.sql_type.split(" COLLATE").next().unwrap_or(&self.sql_type)
    }

    fn define(&self, table: &str, not_null: bool) -> String {
        let mut sql = format!("{} {}", quoted(&self.name), self.sql_type);
        if not_null {
            sql.push_str(" NOT NULL");
        }
        if let Some(default) = &self.default {
            let _infallible = write!(sql, " DEFAULT {default}");
        }
        if let Some(reference) = &self.reference {
            let _infallible = write!(sql, " {}", reference.inline(table, &self.name));
        }
        sql
    }
}

impl Reference {
    /// The column constraint.
    fn inline(&self, table: &str, column: &str) -> String {
        format!("CONSTRAINT {} {}", quoted(&short(&format!("{table}.{column}.fk"))), self.target())
    }

    /// The clause that adds this to a column of a Postgres table that is there.
    pub(super) fn add(&self, table: &str, column: &str) -> String {
        let name = quoted(&short(&format!("{table}.{column}.fk")));
        format!("ADD CONSTRAINT {name} FOREIGN KEY ({}) {}", quoted(column), self.target())
    }

    fn target(&self) -> String {
        format!("REFERENCES {} (\"id\") ON DELETE {}", quoted(&self.table), self.on_delete.sql())
    }
}

impl Index {
    pub(super) fn create(&self, table: &str) -> String {
        let unique = if self.unique { "UNIQUE " } else { "" };
        let columns = self.terms.join(", ");
        let live = if self.live { " WHERE \"deleted_at\" IS NULL" } else { "" };
        // Each search reads all of the list of new entries.
        let (using, with) = if self.gin { (" USING gin", " WITH (gin_pending_list_limit = 256)") } else { ("", "") };
        format!("CREATE {unique}INDEX {} ON {}{using} ({columns}){with}{live}", quoted(&self.name), quoted(table))
    }

    /// An index named after its first column.
    fn of(table: &str, columns: &[&str], unique: bool) -> Self {
        Self {
            name: index_name(table, columns[0], if unique { UNIQUE_KINDS[0] } else { LOOKUP_KINDS[0] }),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            unique,
            live: false,
            terms: columns.iter().map(|column| quoted(column)).collect(),
            named: false,
            gin: false,
        }
    }

    /// Finds records by their words.
    fn of_words(model: &Model) -> Option<Self> {
        let search = model.search.as_ref()?;
        let columns: Vec<_> = search.fields.iter().map(|(at, _)| search.column(&model.fields[*at].name)).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let name = index_name(&model.table, &columns.join("."), "words");
        Some(Self { name, gin: true, ..Self::of(&model.table, &columns, false) })
    }

    /// Leads to the records of a value in the order of their ids.
    fn leading(model: &Model, column: &str) -> Self {
        let name = index_name(&model.table, column, LOOKUP_KINDS[1]);
        Self { name, ..Self::of(&model.table, &[column, "id"], false) }
    }

    /// Refuses duplicates of a key: within each tenant if the entity has tenants, and only among records that are not
    /// deleted if it has a trash.
    fn unique(model: &Model, key: &Key) -> Self {
        let tenant = model.tenant_column();
        let kind = match (tenant.is_some(), model.soft_delete) {
            (false, false) => "unique",
            (true, false) => "tenant_unique",
            (false, true) => "unique_live",
            (true, true) => "tenant_unique_live",
        };
        let compared: Vec<String> = key
            .fields
            .iter()
            .map(|field| match &*model.fields[field.index].name {
                name if field.folded => folded_column(name),
                name => name.to_owned(),
            })
            .collect();
        let columns: Vec<&str> = tenant.into_iter().chain(compared.iter().map(String::as_str)).collect();
        let name = index_name(&model.table, &compared.join("."), kind);
        Self { name, live: model.soft_delete, ..Self::of(&model.table, &columns, true) }
    }

    /// A declared index, in the declared order and directions, and then by id.
    fn declared(model: &Model, columns: &[(String, bool)], engine: Engine) -> Self {
        let all: Vec<&str> = columns.iter().map(|(column, _)| column.as_str()).chain(["id"]).collect();
        let direction = |descending: bool| if descending { " DESC" } else { "" };
        let terms = columns
            .iter()
            .map(|(column, descending)| format!("{}{}", compared(model, column, engine), direction(*descending)));
        let spelled: Vec<String> = columns
            .iter()
            .map(|(column, descending)| format!("{}{column}", if *descending { "-" } else { "" }))
            .collect();
        Self {
            name: index_name(&model.table, &spelled.join("."), "ordered"),
            terms: terms.chain(["\"id\"".to_owned()]).collect(),
            named: columns.iter().any(|(_, descending)| *descending),
            ..Self::of(&model.table, &all, false)
        }
    }

    /// Whether an existing index does the same as this one.
    pub(super) fn is(&self, table: &str, there: &IndexShape) -> bool {
        if self.named {
            return self.name == there.name && there.columns == self.columns;
        }
        let live = unique_kind(table, there).is_some_and(|(_, kind)| kind.ends_with("_live"));
        there.columns == self.columns && (there.unique || !self.unique) && live == self.live
    }

    /// Whether both refuse repeats of the same columns, the tenant's aside.
    pub(super) fn has_key(&self, key: &[String]) -> bool {
        self.unique && self.columns.ends_with(key) && self.columns.len() <= key.len() + 1
    }
}

/// The key and the kind of an index of ours that refuses repeats, as its name has them. The key has no tenant.
pub(super) fn unique_kind<'a>(table: &str, there: &'a IndexShape) -> Option<(&'a [String], &'static str)> {
    (0..there.columns.len().min(2)).find_map(|from| {
        let key = &there.columns[from..];
        let kind = UNIQUE_KINDS.into_iter().find(|kind| there.name == index_name(table, &key.join("."), kind))?;
        Some((key, kind))
    })
}

/// The kinds of the indexes by which values are looked up, as their names have them: in no order, and in that of ids.
pub(super) const LOOKUP_KINDS: [&str; 2] = ["index", "leading"];

/// The kinds of the indexes that refuse repeats, as their names have them.
pub(super) const UNIQUE_KINDS: [&str; 4] = ["unique", "tenant_unique", "unique_live", "tenant_unique_live"];

/// The name of a column's index of that kind. The dots keep `a_b.c` and `a.b_c` apart.
pub(super) fn index_name(table: &str, column: &str, kind: &str) -> String {
    short(&format!("{table}.{column}.{kind}"))
}

/// Unique fields, indexed fields, relations (the deletion of their targets looks for them), and the tenant's and the owner's
/// column with the id, which is the order of a list; and the order that cursors page through. A column by which lists under an
/// access rule find their records is followed by the order of a list.
fn indexes(model: &Model, engine: Engine) -> Vec<Index> {
    let mut indexes = Vec::new();
    for (index, field) in model.fields.iter().enumerate() {
        let name = &*field.name;
        if model.tenant == Some(index) {
            indexes.push(Index::of(&model.table, &[name, "id"], false));
        } else if field.unique {
            // Among the keys.
        } else if model.owner == Some(index) {
            indexes.push(Index::of(&model.table, &[name, "id"], false));
        } else if model.leading.contains(name) {
            indexes.push(Index::leading(model, name));
            indexes.extend(
                (!model.cursor_fields.is_empty())
                    .then(|| in_cursor_order(model, &[name], &format!("{name}.leading_cursor"), engine)),
            );
        } else if field.index || field.relation.is_some() {
            indexes.push(Index::of(&model.table, &[name], false));
        }
    }
    indexes.extend(model.keys.iter().map(|key| Index::unique(model, key)));
    indexes.extend(cursor_indexes(model, engine));
    indexes.extend(Index::of_words(model).filter(|_| engine == Engine::Postgres));
    indexes.extend(model.indexes.iter().map(|columns| Index::declared(model, columns, engine)));
    indexes
}

/// An index for each reach that reads by cursor: the owner's records, and all records. The order by id alone uses the
/// primary key or, with an owner, the index of the list.
fn cursor_indexes(model: &Model, engine: Engine) -> Vec<Index> {
    if model.cursor_fields.is_empty() {
        return Vec::new();
    }
    let index = |bounds: &[&str], purpose: &str| in_cursor_order(model, bounds, purpose, engine);
    let tenant = model.tenant_column();
    let wide: Vec<&str> = tenant.into_iter().collect();
    let own: Vec<&str> = tenant.into_iter().chain(model.owner_column()).collect();
    match model.owner_column() {
        None => vec![index(&wide, "cursor")],
        Some(_) if model.rules.cross_owner_read.is_some() => vec![index(&own, "own_cursor"), index(&wide, "cursor")],
        Some(_) => vec![index(&own, "own_cursor")],
    }
}

/// An index over `bounds` and the order that cursors page through.
fn in_cursor_order(model: &Model, bounds: &[&str], purpose: &str, engine: Engine) -> Index {
    let columns = bounds.iter().copied().chain(model.cursor_fields.iter().map(String::as_str)).chain(["id"]);
    let columns: Vec<&str> = columns.collect();
    let term = |name: &&str| compared(model, name, engine);
    Index {
        name: short(&format!("{}.{}.{purpose}", model.table, model.cursor_fields.join("."))),
        terms: columns.iter().map(term).collect(),
        ..Index::of(&model.table, &columns, false)
    }
}

/// A column as it compares.
fn compared(model: &Model, column: &str, engine: Engine) -> String {
    let is_decimal = model.fields.iter().any(|field| field.name == column && field.kind == Kind::Decimal);
    let name = quoted(column);
    if is_decimal { dialect::decimal_order(engine, &name) } else { name }
}

pub(crate) fn type_word(kind: Kind) -> &'static str {
    match kind {
        Kind::String | Kind::Text | Kind::Enum | Kind::Relation => "{text}",
        Kind::Int => "{int}",
        Kind::Float => "{float}",
        Kind::Decimal => "{decimal}",
        Kind::Bool => "{bool}",
        Kind::Date => "{date}",
        Kind::Timestamp => "{time}",
        Kind::Uuid => "{uuid}",
        Kind::Json | Kind::List | Kind::File => "{json}",
    }
}

/// A checked default as SQL.
fn literal(value: &Value) -> String {
    match value {
        Value::Null | Value::Bytes(_) => "NULL".to_owned(),
        Value::Bool(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => format!("{value:e}"),
        Value::Text(text) => quoted_text(text),
        Value::Json(json) => quoted_text(json.as_str()),
        Value::Time(at) => quoted_text(&time::format(*at)),
    }
}

fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_names_are_short_and_unique() {
        assert_eq!(index_name("posts", "title", "unique"), "posts.title.unique");
        assert_ne!(index_name("a_b", "c", "index"), index_name("a", "b_c", "index"));
        let (left, right) = ("f".repeat(62), format!("{}g", "f".repeat(61)));
        let names = [index_name("posts", &left, "unique"), index_name("posts", &right, "unique")];
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.len() <= 63));
    }

    #[test]
    fn a_default_cannot_leave_its_quotes() {
        assert_eq!(literal(&Value::Text("'; DROP TABLE posts; --".into())), "'''; DROP TABLE posts; --'");
    }
}
