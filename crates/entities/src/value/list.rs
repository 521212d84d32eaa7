//! Lists: a JSON array whose items are values of one type.

use std::borrow::Cow;
use std::collections::HashSet;

use gatewright_base::time;
use gatewright_db::Value;
use gatewright_db::json::{Json, Number};
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{Fault, code};
use super::types::Type;
use crate::declare::Kind;

/// The most items of a list that declares no `max_items`.
pub(crate) const DEFAULT_ITEMS: usize = 1_000;
/// The greatest `max_items`.
pub(crate) const MOST_ITEMS: usize = 10_000;
/// The most records that a relation to many names, if it declares no `max_items`.
pub(crate) const DEFAULT_LINKS: usize = 100;
/// The greatest `max_items` of a relation to many: each of them may take a query.
pub(crate) const MOST_LINKS: usize = 1_000;
/// The most bytes of a list as JSON, so that changes that append do not grow a record without end.
pub(crate) const LIST_BYTES: usize = 1_048_576;

/// The list without items.
pub(crate) const EMPTY: &str = "[]";

/// The rules of a list.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// The type of each item.
    pub(crate) of: Box<Type>,
    /// The word for that type.
    pub(crate) kind: Kind,
    pub(crate) max_items: usize,
    /// Whether repeats are refused.
    pub(crate) unique: bool,
}

/// The types that items may have.
pub(crate) const ITEM_KINDS: [Kind; 8] =
    [Kind::String, Kind::Int, Kind::Float, Kind::Decimal, Kind::Enum, Kind::Date, Kind::Timestamp, Kind::Uuid];

impl List {
    /// Whether it is that of a field with `many`: each item is there once, and null stands for none.
    pub(crate) fn is_of_many(&self) -> bool {
        matches!(self.kind, Kind::Relation | Kind::File)
    }

    /// Reads a JSON array.
    pub(super) fn read(&self, json: &str) -> Result<Value, Fault> {
        let json = if json == "null" && self.is_of_many() { EMPTY } else { json };
        self.fit(&self.items(json)?)
    }

    /// The items of a JSON array in the form that is stored. How many there are is not limited beyond [`MOST_ITEMS`].
    pub(super) fn items(&self, json: &str) -> Result<Vec<String>, Fault> {
        let items = split(json).ok_or_else(|| Fault::new(code::TYPE, self.expected()))?;
        let items = items.map_err(|TooMany| self.too_many())?;
        let read = |(index, item): (usize, &str)| {
            let refused = |fault: Fault| fault.inside(format!("[{index}]"));
            if item == "null" {
                return Err(refused(Fault::new(code::TYPE, "must not be null")));
            }
            self.of.read(item).map(|value| written(&value)).map_err(refused)
        };
        items.into_iter().enumerate().map(read).collect()
    }

    /// The list of these items, if it meets the rules of the list as a whole.
    pub(super) fn fit(&self, items: &[String]) -> Result<Value, Fault> {
        if items.len() > self.max_items {
            return Err(self.too_many());
        }
        if self.unique {
            let mut seen = HashSet::with_capacity(items.len());
            if let Some(index) = items.iter().position(|item| !seen.insert(item)) {
                let repeated = Fault::new(code::DUPLICATE, "must not have an item twice");
                return Err(repeated.inside(format!("[{index}]")));
            }
        }
        let list = Json::read(&format!("[{}]", items.join(",")))
            .map_err(|unstorable| Fault::new(code::TYPE, format!("must not have {unstorable}")))?;
        if list.as_str().len() > LIST_BYTES {
            return Err(Fault::new(code::MAX, format!("must have at most {LIST_BYTES} bytes in all")));
        }
        Ok(Value::Json(list))
    }

    fn too_many(&self) -> Fault {
        let most = self.max_items;
        Fault::new(code::MAX, format!("must have at most {most} item{}", if most == 1 { "" } else { "s" }))
    }

    /// The items of the stored list, in the form that items are read in. Of files that is their ids.
    pub(super) fn present(&self, json: Option<&str>) -> Vec<String> {
        let items = json.map(stored).unwrap_or_default();
        if self.kind != Kind::File {
            return items;
        }
        items.iter().filter_map(|item| self.of.read(item).ok()).map(|value| written(&value)).collect()
    }

    /// The items of a list after others are added to its end. What is there already and can be there once stays where it is.
    pub(super) fn appended(&self, mut present: Vec<String>, more: &[String]) -> Vec<String> {
        if !self.is_of_many() {
            present.extend_from_slice(more);
            return present;
        }
        let mut seen: HashSet<String> = present.iter().cloned().collect();
        present.extend(more.iter().filter(|item| seen.insert((*item).clone())).cloned());
        present
    }

    fn expected(&self) -> String {
        match self.kind {
            Kind::Relation => return "must be an array of ids".to_owned(),
            Kind::File => return "must be an array of files, each as {\"id\": …}".to_owned(),
            _ => {}
        }
        format!("must be an array of {} values", self.kind)
    }
}

/// An array with more than [`MOST_ITEMS`] items.
struct TooMany;

/// The items of a JSON array as they are written. `None` if it is no array.
fn split(json: &str) -> Option<Result<Vec<&str>, TooMany>> {
    struct Items;
    impl<'de> Visitor<'de> for Items {
        type Value = Option<Vec<&'de str>>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while items.len() < MOST_ITEMS {
                match array.next_element::<&RawValue>()? {
                    Some(item) => items.push(item.get()),
                    None => return Ok(Some(items)),
                }
            }
            let is_complete = array.next_element::<IgnoredAny>()?.is_none();
            while array.next_element::<IgnoredAny>()?.is_some() {}
            Ok(is_complete.then_some(items))
        }
    }
    if !json.starts_with('[') {
        return None;
    }
    let items = serde_json::Deserializer::from_str(json).deserialize_seq(Items).ok()?;
    Some(items.ok_or(TooMany))
}

/// An item as JSON, in the one form that its value has.
pub(crate) fn written(item: &Value) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    match item {
        Value::Null | Value::Bytes(_) => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => {
            let number = serde_json::Value::from(*value).to_string();
            // A double that is a whole number is stored as one.
            Json::read(&number).map_or(number, |json| json.as_str().to_owned())
        }
        Value::Text(value) => text(value),
        Value::Time(at) => text(&time::format(*at)),
        Value::Json(value) => value.as_str().to_owned(),
    }
}

/// A value with which items are compared: text, or a number in the form that it has in JSON.
pub(crate) fn element(item: Value) -> Value {
    match item {
        Value::Time(at) => Value::from(&*time::format(at)),
        Value::Float(double) => match Number::read(&serde_json::Value::from(double).to_string()) {
            Ok(Number::Int(whole)) => Value::Int(whole),
            Ok(Number::Float(_)) | Err(_) => Value::Float(double),
        },
        item => item,
    }
}

/// The items of a stored list in the form that items are written in.
fn stored(json: &str) -> Vec<String> {
    let items = serde_json::from_str::<Vec<&RawValue>>(json).unwrap_or_default();
    // Postgres may spell a text or a number in another way.
    let canonical = |item: &RawValue| match serde_json::from_str::<Cow<'_, str>>(item.get()) {
        Ok(text) => serde_json::Value::from(&*text).to_string(),
        Err(_) => Json::read(item.get()).map_or_else(|_| item.get().to_owned(), |json| json.as_str().to_owned()),
    };
    items.into_iter().map(canonical).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::types::{Bounds, Text};

    fn list(of: Type, kind: Kind) -> List {
        List { of: Box::new(of), kind, max_items: 3, unique: false }
    }

    fn kept(list: &List, json: &str) -> Result<String, (&'static str, String)> {
        match list.read(json) {
            Ok(Value::Json(json)) => Ok(json.as_str().to_owned()),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => {
                let error = fault.at("tags");
                Err((error.code, error.message))
            }
        }
    }

    #[test]
    fn items_are_stored_in_one_form() {
        let strings = list(Type::Text(Text::default()), Kind::String);
        let (ints, floats) =
            (list(Type::Int(Bounds::default()), Kind::Int), list(Type::Float(Bounds::default()), Kind::Float));
        let (decimals, uuids) = (list(Type::Decimal(Bounds::default()), Kind::Decimal), list(Type::Uuid, Kind::Uuid));
        let times = list(Type::Timestamp(Bounds::default()), Kind::Timestamp);
        for (list, json, expected) in [
            (&strings, "[]", "[]"),
            (&strings, "[ \"a\" , \"\\u00e9\\\"\" ]", "[\"a\",\"é\\\"\"]"),
            (&ints, "[1.0, -0, 9223372036854775807]", "[1,0,9223372036854775807]"),
            (&floats, "[1.0, -0.0, 1e300]", "[1,0,1e+300]"),
            (&decimals, "[1.50, \"-0.0\"]", "[\"1.5\",\"0\"]"),
            (&uuids, "[\"0191D2B3-0000-7000-8000-00000000000A\"]", "[\"0191d2b3-0000-7000-8000-00000000000a\"]"),
            (&times, "[\"2026-01-02T03:04:05+02:00\"]", "[\"2026-01-02T01:04:05.000000Z\"]"),
        ] {
            assert_eq!(kept(list, json), Ok(expected.to_owned()), "{json}");
            assert_eq!(stored(expected), list.items(json).unwrap(), "{json}");
        }
    }

    #[test]
    fn a_fault_names_the_index() {
        let strings = List { unique: true, ..list(Type::Text(Text::default()), Kind::String) };
        let words = list(Type::Enum(vec!["a".to_owned()]), Kind::Enum);
        for (list, json, expected, message) in [
            (&strings, "null", code::TYPE, "must be an array of string values"),
            (&strings, "\"a\"", code::TYPE, "must be an array of string values"),
            (&strings, "{}", code::TYPE, "must be an array of string values"),
            (&strings, "[\"a\",\"b\",1]", code::TYPE, "must be text, at tags[2]"),
            (&strings, "[null]", code::TYPE, "must not be null, at tags[0]"),
            (&strings, "[\"a\",[\"b\"]]", code::TYPE, "must be text, at tags[1]"),
            (&strings, "[\"a\",\"b\",\"\\u0061\"]", code::DUPLICATE, "must not have an item twice, at tags[2]"),
            (&strings, "[\"a\",\"b\",\"c\",\"d\"]", code::MAX, "must have at most 3 items"),
            (&words, "[\"a\",\"b\"]", code::ENUM, "must be one of a, at tags[1]"),
        ] {
            assert_eq!(kept(list, json), Err((expected, message.to_owned())), "{json}");
        }
    }

    #[test]
    fn a_list_has_limited_items_and_bytes() {
        let wide = List { max_items: MOST_ITEMS, ..list(Type::Text(Text::default()), Kind::String) };
        let many = |count: usize| format!("[{}]", vec!["\"x\""; count].join(","));
        assert!(kept(&wide, &many(MOST_ITEMS)).is_ok());
        for count in [MOST_ITEMS + 1, MOST_ITEMS + 2, 3 * MOST_ITEMS] {
            assert_eq!(kept(&wide, &many(count)).unwrap_err().0, code::MAX, "{count}");
        }
        let long = format!("[\"{}\"]", "x".repeat(LIST_BYTES));
        assert_eq!(kept(&wide, &long).unwrap_err(), (code::MAX, "must have at most 1048576 bytes in all".to_owned()));
    }
}
