//! `[[entity]]`: read straight into the declarations of `gatewright_entities`, which checks them.

use gatewright_entities::{Action, Entity, Field, Kind, Literal, OnDelete, ProfileField};

use super::read::{FromNode, Node, Report, Section, Value, json};

/// What cursors are made of, whoever asks.
const CURSOR_FIELDS: [&str; 2] = ["created_at", "id"];

pub(super) fn read(section: &mut Section<'_>) -> Entity {
    let mut entity = Entity::new(section.required::<String>("name"))
        .crud(section.value("crud", true))
        .mcp(section.value("mcp", true))
        .search_fields(section.value::<Vec<String>>("search_fields", Vec::new()));
    if let Some(table) = section.optional::<String>("table") {
        entity = entity.table(table);
    }
    if let Some(table) = given(section, "renamed_from") {
        entity = entity.renamed_from(table);
    }
    if let Some(column) = given(section, "owner_field") {
        entity = entity.owner(column);
    }
    if let Some(permission) = given(section, "cross_owner_read") {
        entity = entity.cross_owner_read(permission);
    }
    if let Some(permission) = given(section, "cross_owner_write") {
        entity = entity.cross_owner_write(permission);
    }
    if let Some(limit) = section.optional("max_list_limit") {
        entity = entity.max_list_limit(limit);
    }
    if let Some(fields) = section.optional::<Vec<String>>("cursor_fields").filter(|fields| *fields != CURSOR_FIELDS) {
        entity = entity.cursor_fields(fields);
    }
    for (key, switch) in [
        ("public", Entity::public as fn(Entity) -> Entity),
        ("multi_tenant", Entity::multi_tenant),
        ("soft_delete", Entity::soft_delete),
    ] {
        if section.value(key, false) {
            entity = switch(entity);
        }
    }
    entity = section.section("access", |access| by_action(access, entity, Entity::access));
    entity = section.section("rules", |rules| by_action(rules, entity, Entity::rule));
    section.sections("field", field).into_iter().fold(entity, Entity::field)
}

fn by_action(section: &mut Section<'_>, entity: Entity, set: fn(Entity, Action, String) -> Entity) -> Entity {
    Action::ALL.into_iter().fold(entity, |entity, action| match section.optional::<String>(action.as_str()) {
        Some(text) => set(entity, action, text),
        None => entity,
    })
}

/// A field of `[[auth.profile.field]]`, declared like those of entities.
pub(super) fn profile_field(section: &mut Section<'_>) -> ProfileField {
    let declared = ProfileField::new(field(section));
    if section.value("public", false) { declared.public() } else { declared }
}

fn field(section: &mut Section<'_>) -> Field {
    let name: String = section.required("name");
    let mut field = Field::new(name, section.required::<Type>("type").0);
    for (key, switch) in [
        ("required", Field::required as fn(Field) -> Field),
        ("unique", Field::unique),
        ("index", Field::index),
        ("hidden", Field::hidden),
        ("read_only", Field::read_only),
    ] {
        if section.value(key, false) {
            field = switch(field);
        }
    }
    for (key, set) in
        [("default", Field::default as fn(Field, Literal) -> Field), ("min", Field::min), ("max", Field::max)]
    {
        if let Some(literal) = section.optional(key) {
            field = set(field, literal);
        }
    }
    for (key, set) in [("pattern", Field::pattern as fn(Field, String) -> Field), ("to", Field::to)] {
        if let Some(text) = section.optional(key) {
            field = set(field, text);
        }
    }
    if let Some(name) = given(section, "renamed_from") {
        field = field.renamed_from(name);
    }
    if let Some(values) = section.optional::<Vec<String>>("values") {
        field = field.values(values);
    }
    if let Some(rule) = section.optional::<OnDelete>("on_delete") {
        field = field.on_delete(rule);
    }
    field
}

/// A text for which empty means absent.
fn given(section: &mut Section<'_>, key: &'static str) -> Option<String> {
    section.optional::<String>(key).filter(|text| !text.is_empty())
}

/// A [`Kind`] with a stand-in, since it must be written.
struct Type(Kind);

impl Default for Type {
    fn default() -> Self {
        Self(Kind::String)
    }
}

impl FromNode for Type {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        String::from_node(node, report)?.parse().map(Self).map_err(|error| report.add(node, &format!("{error}"))).ok()
    }
}

impl FromNode for OnDelete {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        String::from_node(node, report)?.parse().map_err(|error| report.add(node, &format!("{error}"))).ok()
    }
}

impl FromNode for Literal {
    fn from_node(node: &Node, _: &Report<'_>) -> Option<Self> {
        Some(match &node.value {
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Integer(number) => Self::Int(*number),
            Value::Float(number) => Self::Float(*number),
            Value::Text(text) | Value::Datetime(text) => Self::Text(text.clone()),
            Value::List(_) | Value::Table(_) => Self::Json(json(node)),
        })
    }
}
