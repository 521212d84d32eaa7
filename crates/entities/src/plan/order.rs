//! The columns that a list can be sorted by, and the order that results.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::{JsonCase, nearest, to_snake};
use gatewright_db::{Engine, dialect};

use super::keyset::{Column as KeyColumn, RANK};
use super::{Direction, Keyset};
use crate::condition::Catalog;
use crate::condition::follow::follow;
use crate::declare::{Kind, Model, names};
use crate::fragment::quoted;
use crate::readable::{FieldRights, Readable};

/// The most columns in one `sort`.
const MAX_KEYS: usize = 8;

/// The sortable columns of an entity.
#[derive(Debug)]
pub(crate) struct Order {
    engine: Engine,
    case: JsonCase,
    /// The catalog for paths, and the position of the entity that they start from.
    catalog: Arc<Catalog>,
    entity: usize,
    /// By either spelling. Also contains fields that cannot be sorted by, without an expression.
    columns: HashMap<String, Column>,
    /// Whether a search gives records a rank.
    is_ranked: bool,
    /// The sortable ones in snake case, for suggestions.
    names: Vec<String>,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    /// What sorts, or what a value without an order is.
    expression: Result<String, &'static str>,
    nullable: bool,
}

impl Order {
    pub(crate) fn new(model: &Model, engine: Engine, case: JsonCase, catalog: Arc<Catalog>, entity: usize) -> Self {
        let own = model.own_columns().iter();
        let own =
            own.map(|name| (*name, Column { name: (*name).to_owned(), expression: Ok(quoted(name)), nullable: false }));
        let deleted = model.soft_delete.then(|| {
            let name = names::DELETED_COLUMN;
            (name, Column { name: name.to_owned(), expression: Ok(quoted(name)), nullable: true })
        });
        let visible = model.fields.iter().filter(|field| !field.hidden);
        let declared = visible.map(|field| {
            let expression = match (field.kind.unordered(), field.kind) {
                (Some(what), _) => Err(what),
                (None, Kind::Decimal) => Ok(dialect::decimal_order(engine, &quoted(&field.name))),
                (None, _) => Ok(quoted(&field.name)),
            };
            // A column that was added to a table with rows may contain nulls, even if it is required.
            (&*field.name, Column { name: field.name.clone(), expression, nullable: true })
        });
        let mut columns = HashMap::new();
        let mut names = Vec::new();
        for (name, column) in own.chain(declared).chain(deleted) {
            if column.expression.is_ok() {
                names.push(name.to_owned());
            }
            columns.insert(JsonCase::Camel.spell(name), column.clone());
            columns.insert(name.to_owned(), column);
        }
        Self { engine, case, catalog, entity, columns, names, is_ranked: model.search.is_some() }
    }

    /// Reads `-created_at,project.name`. The error is a sentence for the caller.
    ///
    /// Nulls come last ascending and first descending; records that are otherwise equal come in id order, so that
    /// pages neither repeat nor lose any.
    pub(crate) fn parse(&self, text: &str, rights: &FieldRights) -> Result<Keyset, String> {
        let mut keys: Vec<KeyColumn> = Vec::new();
        for word in text.split(',') {
            let (name, direction) = match word.strip_prefix('-') {
                Some(name) => (name, Direction::Backward),
                None => (word, Direction::Forward),
            };
            if keys.len() == MAX_KEYS {
                return Err(format!("sort takes at most {MAX_KEYS} fields"));
            }
            let key = self.key(name, direction, keys.len(), rights)?;
            if keys.iter().any(|other| other.label() == key.label()) {
                return Err(format!("sort names \"{name}\" twice"));
            }
            keys.push(key);
        }
        Ok(Keyset::of(keys, self.engine))
    }

    fn key(&self, name: &str, direction: Direction, place: usize, rights: &FieldRights) -> Result<KeyColumn, String> {
        if self.is_ranked && name == RANK {
            return Ok(KeyColumn::of_rank(direction));
        }
        let followed = name.contains('.').then(|| follow(name, &self.catalog, self.entity, rights));
        let name = match followed.transpose().map_err(|message| format!("sort: {message}"))? {
            Some(path) if !path.hops.is_empty() => {
                return Ok(KeyColumn::at_the_end_of(path, place, direction, self.engine));
            }
            // `author.id` is the account's id, which is the relation's own value.
            Some(path) => path.text,
            None => name.to_owned(),
        };
        let readable = rights.of(self.entity);
        let column = self.columns.get(&name).filter(|column| readable.has_column(&column.name));
        let column = column.ok_or_else(|| self.unknown(&name, readable))?;
        let expression = column
            .expression
            .clone()
            .map_err(|what| format!("a list cannot be sorted by \"{name}\": {what} has no order"))?;
        let name = column.name.clone();
        Ok(KeyColumn { name, expression, nullable: column.nullable, direction, path: None })
    }

    fn unknown(&self, name: &str, readable: &Readable) -> String {
        let shown: String = name.chars().take(64).collect();
        let names = self.names.iter().map(String::as_str).filter(|name| readable.has_column(name));
        let meant = nearest(&to_snake(&shown), names);
        match meant {
            Some(meant) => {
                format!("there is no field \"{shown}\" to sort by; did you mean \"{}\"?", self.case.spell(meant))
            }
            None => format!("there is no field \"{shown}\" to sort by"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::Declarations;
    use crate::{Entity, Field};

    fn order() -> Order {
        let posts = Entity::new("posts")
            .field(Field::string("title"))
            .field(Field::decimal("net_price"))
            .field(Field::json("meta"))
            .field(Field::string("secret").hidden())
            .field(Field::relation("topic_id", "topics"))
            .field(Field::relation("writer", "users"));
        let topics = Entity::new("topics")
            .field(Field::string("name"))
            .field(Field::json("meta"))
            .field(Field::string("secret").hidden())
            .field(Field::relation("author", "users"))
            .field(Field::relation("parent", "topics"));
        let models = Declarations::check(&[posts, topics]).unwrap().models;
        let catalog = Arc::new(Catalog::new(&models, JsonCase::Camel));
        Order::new(&models[0], Engine::Sqlite, JsonCase::Camel, catalog, 0)
    }

    #[test]
    fn a_sort_becomes_an_order_that_ends_in_the_id() {
        for (sort, clause) in [
            ("title", r#""title" NULLS LAST, "id""#),
            ("-createdAt,title", r#""created_at" DESC, "title" NULLS LAST, "id""#),
            ("-net_price", r#""net_price" COLLATE decimal DESC NULLS FIRST, "id""#),
            ("topicId.name,-title", r#""_s0" NULLS LAST, "title" DESC NULLS FIRST, "id""#),
            ("title,-topic_id.parent.author", r#""title" NULLS LAST, "_s1" DESC NULLS FIRST, "id""#),
            ("writer.id", r#""writer" NULLS LAST, "id""#),
        ] {
            assert_eq!(
                order().parse(sort, &FieldRights::ALL).map(|sort| sort.clause()).as_deref(),
                Ok(clause),
                "{sort}"
            );
        }
    }

    #[test]
    fn fields_without_an_order_are_refused_with_a_sentence() {
        for (sort, message) in [
            ("titel", "there is no field \"titel\" to sort by; did you mean \"title\"?"),
            ("netprice", "there is no field \"netprice\" to sort by; did you mean \"netPrice\"?"),
            ("secret", "there is no field \"secret\" to sort by"),
            ("nosuch", "there is no field \"nosuch\" to sort by"),
            ("", "there is no field \"\" to sort by"),
            ("--title", "there is no field \"-title\" to sort by; did you mean \"title\"?"),
            ("title,-title", "sort names \"title\" twice"),
            ("meta", "a list cannot be sorted by \"meta\": JSON has no order"),
            ("topic.name", "sort: unknown field \"topic\" of \"posts\", did you mean \"topicId\"?"),
            ("topicId.nam", "sort: unknown field \"nam\" of \"topics\", did you mean \"name\"?"),
            ("topicId.secret", "sort: unknown field \"secret\" of \"topics\""),
            ("topicId.meta", "sort: a list cannot be sorted by \"meta\": JSON has no order"),
            ("topicId.meta.size", "sort: a list cannot be sorted by \"meta\": JSON has no order"),
            ("topicId.name,-topic_id.name", "sort names \"topic_id.name\" twice"),
            ("writer,writer.id", "sort names \"writer.id\" twice"),
            ("title.name", "sort: \"title\" is neither a relation nor a json field"),
            ("writer.email", "sort: a path stops at users: of an account only id is known"),
            (
                "posts(topicId).title",
                "sort: a list is sorted by relations that lead to one record, not by those that lead to many",
            ),
            ("topicId.parent.parent.parent.parent.name", "sort: more than 4 relations in one path"),
            ("title DESC; DROP TABLE posts", "there is no field \"title DESC; DROP TABLE posts\" to sort by"),
        ] {
            assert_eq!(
                order().parse(sort, &FieldRights::ALL).map(|sort| sort.clause()),
                Err(message.to_owned()),
                "{sort}"
            );
        }
    }
}
