//! From a field's attributes to its [`Type`], and which attributes go with which kind.

use regex::Regex;

use super::{DefaultWord, Field, Kind, Literal};
use crate::files::FileRules;
use crate::value::decimal::Decimal;
use crate::value::list::{self, List};
use crate::value::types::{self, Bounds, Text};
use crate::value::{Fault, Type};

/// What is wrong with one attribute of a field.
pub(super) struct Wrong {
    pub(super) attribute: &'static str,
    pub(super) message: String,
}

impl Wrong {
    pub(super) fn new(attribute: &'static str, message: impl Into<String>) -> Self {
        Self { attribute, message: message.into() }
    }
}

/// Attributes that the field's kind has no use for: a silent one would be a rule that its author believes in.
pub(super) fn misplaced(field: &Field) -> Vec<Wrong> {
    use Kind::{Bool, Date, Decimal, Enum, File, Float, Int, Json, List, Relation, String, Text, Timestamp};
    let kind = field.kind;
    let bounded = matches!(kind, String | Text | Int | Float | Decimal | Date | Timestamp);
    let files = FileRules::default();
    let checks = [
        ("min", field.min.is_some(), bounded),
        ("max", field.max.is_some(), bounded),
        ("pattern", field.pattern.is_some(), matches!(kind, String | Text)),
        ("values", field.values.is_some(), kind == Enum || field.of == Some(Enum)),
        ("of", field.of.is_some(), kind == List),
        ("max_bytes", field.files.max_bytes != files.max_bytes, kind == File),
        ("accept", field.files.accept != files.accept, kind == File),
        ("public", field.files.public, kind == File),
        ("keep_metadata", field.files.keep_metadata, kind == File),
        ("metadata", field.files.require_removal, kind == File),
        ("thumbnails", field.files.thumbnails != files.thumbnails, kind == File),
        ("max_items", field.max_items.is_some(), kind == List || field.many),
        ("unique_items", field.unique_items, kind == List),
        ("many", field.many, matches!(kind, Relation | File)),
        ("required", field.required, kind != List && !field.many),
        ("to", field.to.is_some(), kind == Relation),
        ("on_delete", field.on_delete.is_some(), kind == Relation && !field.many),
        (
            "default",
            field.default.is_some() && (DefaultWord::of(field).is_none() || field.many),
            !matches!(kind, Relation | File),
        ),
        ("sequence", field.sequence.is_some(), kind == Int),
        ("unique", field.unique, !matches!(kind, Json | List | Bool | File) && !field.many),
        ("index", field.index, !matches!(kind, Json | List | File) && !field.many),
    ];
    let wrong = checks.into_iter().filter(|(_, given, fits)| *given && !fits);
    wrong
        .map(|(attribute, ..)| {
            if field.many && matches!(kind, Relation | File) {
                let what = if kind == File { "a field with many files" } else { "a relation to many records" };
                let message = format!("{attribute} has no meaning for {what}{}", of_many(attribute));
                return Wrong::new(attribute, message);
            }
            let instead = match (kind, attribute) {
                (List, "required") => ": a list always has a value, which may be []",
                (List, "max") => ": max_items limits the number of items",
                _ => "",
            };
            Wrong::new(attribute, format!("{attribute} has no meaning for the type {kind}{instead}"))
        })
        .collect()
}

/// What a relation to many records has in the place of an attribute.
fn of_many(attribute: &str) -> &'static str {
    match attribute {
        "required" => ": it always has a value, which may be []",
        "on_delete" => ": a deleted record is taken out of it",
        "index" => ": it always has one",
        "unique" => ": it names each record once",
        _ => "",
    }
}

/// The field's type with its bounds.
pub(super) fn compile(field: &Field) -> Result<Type, Wrong> {
    Ok(match field.kind {
        Kind::String | Kind::Text => Type::Text(text(field)?),
        Kind::Int => Type::Int(bounds(field, types::integer)?),
        Kind::Float => Type::Float(bounds(field, types::float)?),
        Kind::Decimal => Type::Decimal(bounds::<Decimal>(field, types::exact)?),
        Kind::Bool => Type::Bool,
        Kind::Enum => Type::Enum(words(field)?),
        Kind::Date => Type::Date(bounds(field, types::day)?),
        Kind::Timestamp => Type::Timestamp(bounds(field, types::instant)?),
        Kind::Uuid => Type::Uuid,
        Kind::Json => Type::Json,
        Kind::List => Type::List(items(field)?),
        Kind::Relation if field.many => Type::List(many(field, Type::Relation)?),
        Kind::Relation => Type::Relation,
        Kind::File => {
            field.files.check(field).map_err(|(attribute, message)| Wrong::new(attribute, message))?;
            if field.many { Type::List(many(field, Type::File)?) } else { Type::File }
        }
    })
}

/// The ids of many records, or many files.
fn many(field: &Field, of: Type) -> Result<List, Wrong> {
    let most = list::MOST_LINKS;
    let max_items = field.max_items.map_or(list::DEFAULT_LINKS, |items| items.try_into().unwrap_or(usize::MAX));
    if !(1..=most).contains(&max_items) {
        return Err(Wrong::new("max_items", format!("max_items of a {} is 1 to {most}", field.kind)));
    }
    Ok(List { of: Box::new(of), kind: field.kind, max_items, unique: true })
}

fn items(field: &Field) -> Result<List, Wrong> {
    let kinds = list::ITEM_KINDS.map(Kind::as_str).join(", ");
    let kind = match field.of {
        Some(kind) if list::ITEM_KINDS.contains(&kind) => kind,
        Some(kind) => return Err(Wrong::new("of", format!("items of a list cannot be {kind}; they can be {kinds}"))),
        None => return Err(Wrong::new("of", format!("a list needs of = the type of its items: {kinds}"))),
    };
    let most = list::MOST_ITEMS;
    let max_items = field.max_items.map_or(list::DEFAULT_ITEMS, |items| items.try_into().unwrap_or(usize::MAX));
    if !(1..=most).contains(&max_items) {
        return Err(Wrong::new("max_items", format!("max_items is 1 to {most}")));
    }
    // Bounds and patterns are no attributes of a list, and so of no item.
    let item = Field { values: field.values.clone(), ..Field::new(field.name.clone(), kind) };
    Ok(List { of: Box::new(compile(&item)?), kind, max_items, unique: field.unique_items })
}

fn text(field: &Field) -> Result<Text, Wrong> {
    let pattern = match &field.pattern {
        None => None,
        Some(pattern) => Some(
            Regex::new(pattern)
                .map_err(|error| Wrong::new("pattern", format!("the pattern is no regular expression: {error}")))?,
        ),
    };
    let min = characters(field.min.as_ref(), "min")?;
    let default = if field.kind == Kind::String { types::STRING_LENGTH } else { types::TEXT_LENGTH };
    let max = Some(characters(field.max.as_ref(), "max")?.unwrap_or(default));
    in_order(min.as_ref(), max.as_ref())?;
    Ok(Text { min, max, pattern, indexed: (field.unique || field.index).then_some(types::INDEXED_BYTES) })
}

fn characters(bound: Option<&Literal>, attribute: &'static str) -> Result<Option<usize>, Wrong> {
    match bound {
        None => Ok(None),
        Some(Literal::Int(count)) if *count >= 0 => Ok(usize::try_from(*count).ok()),
        Some(_) => Err(Wrong::new(attribute, format!("{attribute} of text is a number of characters, 0 or more"))),
    }
}

fn bounds<T: PartialOrd + std::fmt::Display>(
    field: &Field,
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<Bounds<T>, Wrong> {
    let bound = |literal: Option<&Literal>, attribute| {
        let read = |literal: &Literal| {
            read(&literal.to_json()).map_err(|fault| Wrong::new(attribute, format!("{attribute} {}", fault.message)))
        };
        literal.map(read).transpose()
    };
    let bounds = Bounds { min: bound(field.min.as_ref(), "min")?, max: bound(field.max.as_ref(), "max")? };
    in_order(bounds.min.as_ref(), bounds.max.as_ref())?;
    Ok(bounds)
}

fn in_order<T: PartialOrd + std::fmt::Display>(min: Option<&T>, max: Option<&T>) -> Result<(), Wrong> {
    match (min, max) {
        (Some(min), Some(max)) if min > max => Err(Wrong::new("min", format!("min {min} is above max {max}"))),
        _ => Ok(()),
    }
}

fn words(field: &Field) -> Result<Vec<String>, Wrong> {
    let values = field.values.clone().unwrap_or_default();
    if values.is_empty() {
        return Err(Wrong::new("values", "an enum needs values, such as values = [\"draft\", \"published\"]"));
    }
    for (index, value) in values.iter().enumerate() {
        if value.is_empty() || value.len() > 200 || value.chars().any(char::is_control) {
            return Err(Wrong::new("values", "a value of an enum is 1 to 200 bytes without control characters"));
        }
        if values[..index].contains(value) {
            return Err(Wrong::new("values", format!("the value \"{value}\" is there twice")));
        }
    }
    Ok(values)
}
