//! Converts a field into its schemas: for requests and for answers.

use gatewright_base::JsonCase;
use gatewright_entities::{Bound, Constraints, Items, Kind, PlanField};
use serde_json::{Value, json};
use utoipa::Number;
use utoipa::openapi::Schema;
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, ArrayBuilder, Object, ObjectBuilder, SchemaFormat, SchemaType, Type,
};

/// The schema of the field in an answer. Bounds are left out: a record may be older than they are.
pub(crate) fn read(field: &PlanField) -> Schema {
    match field.items() {
        Some(items) if items.kind == Kind::File => {
            let files = ArrayBuilder::new().items(file(FILE.to_owned(), false, true));
            Schema::Array(files.description(Some(about(field))).build())
        }
        Some(items) => Schema::Array(array(field, items).description(Some(about(field))).build()),
        None => Schema::Object(read_one(field)),
    }
}

/// What a description says about a file.
const FILE: &str = "A file.";

/// A file: what describes it or, in a body, its id.
fn file(about: String, is_nullable: bool, is_described: bool) -> Object {
    let schema = kinds(ObjectBuilder::new(), &[Type::Object], is_nullable).description(Some(about));
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let schema = schema.property("id", text().format(Some(SchemaFormat::Custom("uuid".to_owned())))).required("id");
    if !is_described {
        return schema.build();
    }
    let size = ObjectBuilder::new().schema_type(Type::Integer).description(Some("Bytes."));
    let url = text().description(Some("The path of the download. It carries no rights."));
    let schema = schema.property("name", text()).property("size", size).property("contentType", text());
    schema.property("sha256", text()).property("url", url).build()
}

/// An uploaded file, which no record has yet.
pub(crate) fn uploaded(case: JsonCase) -> ObjectBuilder {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let size = ObjectBuilder::new().schema_type(Type::Integer);
    let schema = ObjectBuilder::new().schema_type(Type::Object).property("id", text()).property("name", text());
    schema.property("size", size).property(case.spell("content_type"), text()).property("sha256", text())
}

fn read_one(field: &PlanField) -> Object {
    let mut schema = ObjectBuilder::new().description(Some(about(field)));
    schema = match field.kind() {
        Kind::Json => return schema.schema_type(SchemaType::AnyValue).build(),
        Kind::File => return file(about(field), !field.is_required(), true),
        Kind::Enum => words(schema, field),
        kind => kinds(schema, &[of(kind)], !field.is_required()),
    };
    if !field.is_writable() {
        schema = schema.read_only(true);
    }
    formatted(schema, field.kind()).build()
}

/// The schema of a profile's field in an answer, which is null until it is set.
pub(crate) fn of_profile(field: &PlanField, more: &str) -> Schema {
    let about = format!("{}{more}", about(field));
    match field.items() {
        Some(items) => Schema::Array(array(field, items).description(Some(about)).build()),
        None => Schema::Object(profile_one(field, about)),
    }
}

fn profile_one(field: &PlanField, about: String) -> Object {
    let schema = ObjectBuilder::new().description(Some(about));
    let schema = match field.kind() {
        Kind::Json => return schema.schema_type(SchemaType::AnyValue).build(),
        Kind::Enum => {
            let values = field.constraints().values.iter().map(|word| Value::from(word.as_str()));
            kinds(schema, &[Type::String], true).enum_values(Some(values.chain([Value::Null])))
        }
        kind => kinds(schema, &[of(kind)], true),
    };
    formatted(schema, field.kind()).build()
}

/// The schema of the field in a body.
pub(crate) fn write(field: &PlanField) -> Schema {
    match field.items() {
        Some(items) => {
            Schema::Array(limited(field, items).description(Some(about(field))).default(field.default_value()).build())
        }
        None => Schema::Object(write_one(field)),
    }
}

/// An array of the field's items.
fn array(field: &PlanField, items: Items) -> ArrayBuilder {
    ArrayBuilder::new().items(item(field, items.kind))
}

/// The same with the limits of what is written.
fn limited(field: &PlanField, items: Items) -> ArrayBuilder {
    array(field, items).max_items(Some(items.most)).unique_items(items.unique)
}

fn item(field: &PlanField, kind: Kind) -> Object {
    let schema = ObjectBuilder::new();
    match kind {
        Kind::File => return file(FILE.to_owned(), false, false),
        Kind::Enum => schema.schema_type(Type::String).enum_values(Some(field.constraints().values.iter().cloned())),
        Kind::Decimal => schema.schema_type(Type::String).pattern(Some(DECIMAL)),
        kind => formatted(schema.schema_type(of(kind)), kind),
    }
    .build()
}

fn write_one(field: &PlanField) -> Object {
    let nullable = !field.is_required();
    let schema = ObjectBuilder::new().description(Some(about(field))).default(field.default_value());
    let schema = match field.kind() {
        Kind::Json => return schema.schema_type(SchemaType::AnyValue).build(),
        Kind::File => return file(about(field), nullable, false),
        Kind::Enum => return words(schema, field).build(),
        // An exact decimal may come as a number too: it is read from its digits.
        Kind::Decimal => kinds(schema, &[Type::String, Type::Number], nullable).pattern(Some(DECIMAL)),
        kind => kinds(schema, &[of(kind)], nullable),
    };
    formatted(bounded(schema, &field.constraints()), field.kind()).build()
}

/// The schema of the id in a body that creates a record.
pub(crate) fn new_id() -> Object {
    let about =
        "A UUID of version 7 or 4. If it is left out, the server generates one. 409 `id_taken` if any record has it.";
    let schema = ObjectBuilder::new().schema_type(Type::String).description(Some(about));
    schema.format(Some(SchemaFormat::Custom("uuid".to_owned()))).build()
}

/// The schema of the field in a body that changes a record: a value or, where the type has them, an operator. `value` is the
/// schema of a value, and `decimals` the types of an exact decimal.
pub(crate) fn change(field: &PlanField, value: Schema, decimals: &[Type]) -> Schema {
    let names = field.operators();
    if names.is_empty() {
        return value;
    }
    let operators = names.iter().map(|name| {
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .property(*name, operand(field, name, decimals))
            .required(*name)
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
    });
    let all = AnyOfBuilder::new().item(value).description(Some(about(field)));
    Schema::AnyOf(operators.fold(all, AnyOfBuilder::item).build())
}

/// The schema of an operator's operand.
fn operand(field: &PlanField, name: &str, decimals: &[Type]) -> Schema {
    if let Some(items) = field.items() {
        let about = if name == "$remove" {
            "All items that equal one of these are removed."
        } else {
            "Items to add at the end."
        };
        return Schema::Array(array(field, items).max_items(Some(items.most)).description(Some(about)).build());
    }
    let schema = ObjectBuilder::new().description(Some("Is added to the stored value; null counts as 0."));
    let schema = match field.kind() {
        Kind::Decimal => kinds(schema, decimals, false).pattern(Some(DECIMAL)),
        kind => formatted(kinds(schema, &[of(kind)], false), kind),
    };
    Schema::Object(schema.build())
}

/// The schema of the value that a query parameter compares the field with.
pub(crate) fn compared(field: &PlanField) -> Object {
    let schema = ObjectBuilder::new();
    match field.kind() {
        Kind::Enum => schema.schema_type(Type::String).enum_values(Some(field.constraints().values.iter().cloned())),
        kind => formatted(schema.schema_type(of(kind)), kind),
    }
    .build()
}

/// A value that fits the field.
pub(crate) fn example(field: &PlanField) -> Value {
    if let Some(default) = field.default_value() {
        return default;
    }
    let Constraints { min, max, pattern, values } = field.constraints();
    match (field.kind(), min.or(max)) {
        (Kind::Int, Some(Bound::Int(bound))) => bound.into(),
        (Kind::Float, Some(Bound::Float(bound))) => bound.into(),
        (Kind::Decimal | Kind::Date | Kind::Timestamp, Some(Bound::Text(bound))) => bound.into(),
        (Kind::String | Kind::Text, Some(Bound::Length(_))) => sample_text(field),
        (Kind::String | Kind::Text, _) if pattern.is_none() => field.column().replace('_', " ").into(),
        (Kind::String | Kind::Text, _) => "text".into(),
        (Kind::Int, _) => 1.into(),
        (Kind::Float, _) => 1.5.into(),
        (Kind::Decimal, _) => "9.99".into(),
        (Kind::Bool, _) => true.into(),
        (Kind::Enum, _) => values.first().cloned().into(),
        (Kind::Date, _) => "2026-01-31".into(),
        (Kind::Timestamp, _) => "2026-01-31T12:00:00.000000Z".into(),
        (Kind::File, _) => Value::Null,
        (Kind::Json, _) => json!({}),
        (Kind::List, _) => json!([]),
        (Kind::Uuid | Kind::Relation, _) => ID.into(),
    }
}

/// An id as the service makes them.
pub(crate) const ID: &str = "019b0c1e-5d7a-7cc3-98c4-dc0c0c07398f";
/// An exact decimal number, as bodies and tools accept it.
const DECIMAL: &str = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$";

/// Text of a length that fits.
fn sample_text(field: &PlanField) -> Value {
    let Constraints { min, max, .. } = field.constraints();
    let length = |bound: Option<Bound>| match bound {
        Some(Bound::Length(length)) => Some(length),
        _ => None,
    };
    let mut text = field.column().replace('_', " ");
    while text.chars().count() < length(min.clone()).unwrap_or(0) {
        text.push('x');
    }
    text.chars().take(length(max).unwrap_or(usize::MAX)).collect::<String>().into()
}

fn about(field: &PlanField) -> String {
    let kind = match field.kind() {
        Kind::List if field.items().is_some_and(|items| items.kind == Kind::Relation) => {
            "The ids of other records, in an order and each once."
        }
        Kind::List if field.files().is_some() => "Files. A body names each by the id of its upload, or is a form.",
        Kind::File => "A file. A body names it by the id of its upload, or is a form.",
        Kind::Relation => "The id of another record.",
        Kind::Decimal => "An exact decimal number of at most 38 digits.",
        Kind::Timestamp => "A point in time; responses give it in UTC, to the microsecond.",
        Kind::Date => "A calendar day.",
        Kind::Json => "Any JSON value.",
        Kind::List => "A list.",
        _ => "",
    };
    let unique = if field.is_unique() { "No two records have the same value." } else { "" };
    let read_only = if field.is_writable() { "" } else { "Values sent by clients are ignored." };
    let declared = field.description().unwrap_or_default();
    let sentences: Vec<&str> =
        [declared, kind, unique, read_only].into_iter().filter(|text| !text.is_empty()).collect();
    if sentences.is_empty() { format!("The field `{}`.", field.column()) } else { sentences.join(" ") }
}

fn of(kind: Kind) -> Type {
    match kind {
        Kind::Int => Type::Integer,
        Kind::Float => Type::Number,
        Kind::Bool => Type::Boolean,
        _ => Type::String,
    }
}

fn kinds(schema: ObjectBuilder, kinds: &[Type], nullable: bool) -> ObjectBuilder {
    match kinds {
        [kind] if !nullable => schema.schema_type(kind.clone()),
        _ => schema.schema_type(kinds.iter().cloned().chain(nullable.then_some(Type::Null)).collect::<SchemaType>()),
    }
}

fn words(schema: ObjectBuilder, field: &PlanField) -> ObjectBuilder {
    let nullable = !field.is_required();
    let values = field.constraints().values.iter().map(|word| Value::from(word.as_str()));
    kinds(schema, &[Type::String], nullable).enum_values(Some(values.chain(nullable.then_some(Value::Null))))
}

fn formatted(schema: ObjectBuilder, kind: Kind) -> ObjectBuilder {
    let format = match kind {
        Kind::Int => "int64",
        Kind::Float => "double",
        Kind::Date => "date",
        Kind::Timestamp => "date-time",
        Kind::Uuid => "uuid",
        _ => return schema,
    };
    schema.format(Some(SchemaFormat::Custom(format.to_owned())))
}

fn bounded(schema: ObjectBuilder, constraints: &Constraints<'_>) -> ObjectBuilder {
    let schema = match &constraints.min {
        Some(Bound::Length(length)) => schema.min_length(Some(*length)),
        Some(Bound::Int(least)) => schema.minimum(whole(*least)),
        Some(Bound::Float(least)) => schema.minimum(Some(*least)),
        Some(Bound::Text(_)) | None => schema,
    };
    let schema = match &constraints.max {
        Some(Bound::Length(length)) => schema.max_length(Some(*length)),
        Some(Bound::Int(most)) => schema.maximum(whole(*most)),
        Some(Bound::Float(most)) => schema.maximum(Some(*most)),
        Some(Bound::Text(_)) | None => schema,
    };
    match constraints.pattern {
        Some(pattern) => schema.pattern(Some(pattern)),
        None => schema,
    }
}

fn whole(number: i64) -> Option<Number> {
    isize::try_from(number).ok().map(Number::Int)
}
