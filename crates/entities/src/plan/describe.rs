//! Descriptions of entities for documents and tools, without a request and without a database.

use std::sync::Arc;

use gatewright_base::{JsonCase, time};
use gatewright_db::{Engine, Value};
use serde_json::Value as Json;

use super::{Field, Plan};
use crate::declare::{Declarations, Kind, Target};
use crate::readable::SeenFields;
use crate::value::Type;
use crate::value::types::{LONGEST_ID, Text};

/// The constraints on the values of a field, in addition to its type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Constraints<'a> {
    /// The least value, or the least number of characters.
    pub min: Option<Bound>,
    /// The greatest value, or the greatest number of characters.
    pub max: Option<Bound>,
    /// The regular expression that the text must match somewhere.
    pub pattern: Option<&'a str>,
    /// The words of an enum, or of the items of a list of them.
    pub values: &'a [String],
}

/// What a list may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Items {
    /// The type of each item.
    pub kind: Kind,
    /// The most items.
    pub most: usize,
    /// Whether no item occurs twice.
    pub unique: bool,
}

/// How `include` follows a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Includable {
    /// To one record.
    One,
    /// To many records.
    Many,
    /// To the records that name the record.
    Back,
}

/// One end of a range, both ends of which are allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// Characters of text.
    Length(usize),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A decimal, a day or a point in time, as it is written on the wire.
    Text(String),
}

impl Declarations {
    /// The entities as they would be served, for descriptions without a database.
    pub fn plans(&self, case: JsonCase) -> Vec<Arc<Plan>> {
        // The description of an entity does not depend on the engine.
        Plan::compile(self, Engine::Sqlite, case, "")
    }
}

impl Plan {
    /// The plan of the entity that `field`, a relation, names; `None` for users, and for a field that is not a
    /// relation.
    pub fn target<'a>(&self, field: &Field, plans: &'a [Arc<Plan>]) -> Option<&'a Arc<Plan>> {
        match field.relation.map(|relation| relation.to).or(field.links)? {
            Target::Users => None,
            Target::Entity(index) => plans.get(index),
        }
    }

    /// What `include` may name of its records, as far as `seen` shows it and `serves` the entities: relations to one record, to many,
    /// and backward, each with the entity of the records. `None`: accounts.
    pub fn includable<'a>(
        &'a self,
        plans: &'a [Arc<Self>],
        seen: &SeenFields,
        serves: impl Fn(&Self) -> bool,
    ) -> Vec<(String, Includable, Option<&'a Arc<Self>>)> {
        let mut all = Vec::new();
        for field in self.fields().filter(|field| seen.shows(self, field)) {
            let way = match (field.relation, field.links) {
                (Some(_), _) => Includable::One,
                (None, Some(_)) => Includable::Many,
                (None, None) => continue,
            };
            let target = self.target(field, plans);
            if target.is_none_or(|target| serves(target)) {
                all.push((field.key.clone(), way, target));
            }
        }
        for plan in plans.iter().filter(|plan| serves(plan)) {
            for field in plan.fields().filter(|field| seen.shows(plan, field)) {
                let to = field.relation.map(|relation| relation.to).or(field.links);
                if to == Some(Target::Entity(self.index)) || (self.is_directory && to == Some(Target::Users)) {
                    all.push((format!("{}({})", plan.name, field.key), Includable::Back, Some(plan)));
                }
            }
        }
        all
    }

    /// Whether `field` is a relation to many records.
    pub fn names_many(&self, field: &Field) -> bool {
        field.links.is_some()
    }

    /// Whether `field` can be used in `sort`.
    pub fn is_sortable(&self, field: &Field) -> bool {
        field.kind.unordered().is_none()
    }
}

impl Field {
    /// The constraints on its values.
    pub fn constraints(&self) -> Constraints<'_> {
        let none = Constraints::default();
        match &self.rule {
            Type::Text(text) => Constraints {
                min: text.min.map(Bound::Length),
                max: longest(text).map(Bound::Length),
                pattern: text.pattern.as_ref().map(regex::Regex::as_str),
                ..none
            },
            Type::Int(bounds) => {
                Constraints { min: bounds.min.map(Bound::Int), max: bounds.max.map(Bound::Int), ..none }
            }
            Type::Float(bounds) => {
                Constraints { min: bounds.min.map(Bound::Float), max: bounds.max.map(Bound::Float), ..none }
            }
            Type::Decimal(bounds) => {
                Constraints { min: text(bounds.min.as_ref()), max: text(bounds.max.as_ref()), ..none }
            }
            Type::Date(bounds) => {
                Constraints { min: text(bounds.min.as_ref()), max: text(bounds.max.as_ref()), ..none }
            }
            Type::Timestamp(bounds) => {
                Constraints { min: text(bounds.min.as_ref()), max: text(bounds.max.as_ref()), ..none }
            }
            Type::Enum(values) => Constraints { values, ..none },
            Type::Relation => Constraints { min: Some(Bound::Length(1)), max: Some(Bound::Length(LONGEST_ID)), ..none },
            Type::List(list) => match &*list.of {
                Type::Enum(values) => Constraints { values, ..none },
                _ => none,
            },
            Type::Bool | Type::Uuid | Type::Json | Type::File => none,
        }
    }

    /// The items of a list; `None` for a field of another type.
    pub fn items(&self) -> Option<Items> {
        match &self.rule {
            Type::List(list) => Some(Items { kind: list.kind, most: list.max_items, unique: list.unique }),
            _ => None,
        }
    }

    /// The default value, as JSON.
    pub fn default_value(&self) -> Option<Json> {
        wire_value(self.default.as_ref()?)
    }
}

/// A field's value as the wire spells it.
pub(crate) fn wire_value(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Time(value) => time::format(*value).into(),
        Value::Json(value) => serde_json::from_str(value.as_str()).ok()?,
        Value::Text(value) => value.as_str().into(),
        Value::Bytes(_) => return None,
    })
}

/// An index limits the bytes of a text, and with them its characters.
fn longest(text: &Text) -> Option<usize> {
    [text.max, text.indexed].into_iter().flatten().min()
}

fn text<T: ToString>(bound: Option<&T>) -> Option<Bound> {
    bound.map(|bound| Bound::Text(bound.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::value::types::INDEXED_BYTES;
    use crate::{Entity, Field as Declared};

    #[test]
    fn a_field_describes_its_values() {
        let posts = Entity::new("posts")
            .field(Declared::string("title").min(1).max(9).pattern("^a").default("ab"))
            .field(Declared::int("rank").min(-1).max(7).default(3))
            .field(Declared::decimal("net").max("9.50"))
            .field(Declared::choice("state", ["on", "off"]).default("on"))
            .field(Declared::json("meta").default(json!({ "a": [1] })))
            .field(Declared::string("code").unique())
            .field(Declared::text("note").unique());
        let plans = Declarations::check(&[posts]).unwrap().plans(JsonCase::Camel);
        let fields: Vec<_> = plans[0].fields().collect();
        let descriptions: Vec<_> = fields.iter().map(|field| field.constraints()).collect();
        assert_eq!((&descriptions[0].min, &descriptions[0].max), (&Some(Bound::Length(1)), &Some(Bound::Length(9))));
        assert_eq!(descriptions[0].pattern, Some("^a"));
        assert_eq!((&descriptions[1].min, &descriptions[1].max), (&Some(Bound::Int(-1)), &Some(Bound::Int(7))));
        assert_eq!(descriptions[2].max, Some(Bound::Text("9.5".to_owned())));
        assert_eq!(descriptions[3].values, ["on", "off"]);
        assert_eq!(descriptions[5].max, Some(Bound::Length(1_000)));
        assert_eq!(descriptions[6].max, Some(Bound::Length(INDEXED_BYTES)), "an index limits the length");
        let defaults: Vec<_> = fields.iter().map(|field| field.default_value()).collect();
        assert_eq!(
            defaults,
            [Some(json!("ab")), Some(json!(3)), None, Some(json!("on")), Some(json!({ "a": [1] })), None, None]
        );
    }
}
