//! `[[entity]]`: parsed directly into the declarations of `gatewright_entities`, which checks them.

use gatewright_entities::{Action, DEFAULT_MAX_LIST_LIMIT, Entity, Field, Kind, Literal, OnDelete, ProfileField};

use super::read::{FromNode, Node, Report, Section, Value, json, words};

/// The fields that cursors contain, for every caller.
const CURSOR_FIELDS: [&str; 2] = ["created_at", "id"];

pub(super) fn read(section: &mut Section<'_>) -> Entity {
    let name: String = section.required("name", "`^[a-z][a-z0-9_]{0,47}$`, and not a reserved word.");
    let table = section.derived::<String>("table", "`name`", "Table, and path of the endpoints.");
    let before = "The name that the table had before; see [migrations](migrations.md).";
    let owner = "Column that holds the owner. Each record belongs to the account that created it.";
    let reads = "Permission that lifts owner scoping for reads.";
    let writes = "Permission that lifts owner scoping for updates and deletes. It gives no read.";
    let mut entity = Entity::new(name)
        .crud(section.value("crud", true, "Whether it has endpoints."))
        .mcp(section.value("mcp", true, "[Tools](mcp.md) for it at `/mcp`."))
        .search_fields(section.value(
            "search_fields",
            Vec::<String>::new(),
            "What [`q=`](queries.md) searches: visible text.",
        ))
        .max_list_limit(section.value("max_list_limit", DEFAULT_MAX_LIST_LIMIT, "Most records on one page."));
    if let Some(table) = table {
        entity = entity.table(table);
    }
    for (key, set, about) in [
        ("renamed_from", Entity::renamed_from as fn(Entity, String) -> Entity, before),
        ("owner_field", Entity::owner, owner),
        ("cross_owner_read", Entity::cross_owner_read, reads),
        ("cross_owner_write", Entity::cross_owner_write, writes),
    ] {
        if let Some(text) = given(section, key, about) {
            entity = set(entity, text);
        }
    }
    let cursors = section.value(
        "cursor_fields",
        CURSOR_FIELDS.map(str::to_owned).to_vec(),
        "The order that [cursors](queries.md#cursors) page through. The default is the order of the ids, which is that of \
         creation.",
    );
    if cursors != CURSOR_FIELDS {
        entity = entity.cursor_fields(cursors);
    }
    for (key, switch, about) in [
        (
            "public",
            Entity::public as fn(Entity) -> Entity,
            "Open every operation to everybody. Not with `owner_field` or `multi_tenant`.",
        ),
        ("multi_tenant", Entity::multi_tenant, "Records belong to [tenants](tenants.md). Not with `public`."),
        ("soft_delete", Entity::soft_delete, "Deleted records are kept aside; see [the trash](queries.md#the-trash)."),
    ] {
        if section.value(key, false, about) {
            entity = switch(entity);
        }
    }
    entity = section.section("access", |access| {
        let about = "The permission that the operation needs; the word `public` opens it to everybody.";
        by_action(access, entity, Entity::access, "any signed-in caller", about)
    });
    entity = section.section("rules", |rules| {
        by_action(rules, entity, Entity::rule, "no rule", "A [rule](rules.md): a filter that the record must match.")
    });
    section.sections("field", field).into_iter().fold(entity, Entity::field)
}

fn by_action(
    section: &mut Section<'_>,
    entity: Entity,
    set: fn(Entity, Action, String) -> Entity,
    default: &'static str,
    about: &'static str,
) -> Entity {
    Action::ALL.into_iter().fold(entity, |entity, action| {
        match section.derived::<String>(action.as_str(), default, about) {
            Some(text) => set(entity, action, text),
            None => entity,
        }
    })
}

/// A field of `[[auth.profile.field]]`, declared like those of entities.
pub(super) fn profile_field(section: &mut Section<'_>) -> ProfileField {
    let declared = ProfileField::new(field(section));
    let about = "Signed-in callers see it through `include` of a relation to `users`. Only for fields of profiles.";
    if section.value("public", false, about) { declared.public() } else { declared }
}

fn field(section: &mut Section<'_>) -> Field {
    let name: String = section.required("name", "`^[a-z][a-z0-9_]{0,62}$`; not `id`, `created_at`, `updated_at`.");
    let mut field = Field::new(name, section.required::<Type>("type", "The type of its values.").0);
    for (key, switch, about) in [
        ("required", Field::required as fn(Field) -> Field, "A record must have it."),
        ("unique", Field::unique, "No two records share a value; a second one is 409."),
        ("index", Field::index, "An index for filters and sorts."),
        ("hidden", Field::hidden, "Never shown to clients and never accepted from them."),
        ("read_only", Field::read_only, "Clients' values are ignored."),
    ] {
        if section.value(key, false, about) {
            field = switch(field);
        }
    }
    let length = "Bound of a number, or of a text's length in characters.";
    for (key, set, about) in [
        (
            "default",
            Field::default as fn(Field, Literal) -> Field,
            "Value of a record for which none was sent. Checked at start.",
        ),
        ("min", Field::min, length),
        ("max", Field::max, length),
    ] {
        if let Some(literal) = section.optional(key, about) {
            field = set(field, literal);
        }
    }
    for (key, set, about) in [
        ("pattern", Field::pattern as fn(Field, String) -> Field, "Regular expression for texts."),
        ("to", Field::to, "The entity that a `relation` points to, or `users`."),
    ] {
        if let Some(text) = section.optional(key, about) {
            field = set(field, text);
        }
    }
    if let Some(name) =
        given(section, "renamed_from", "The name that the field had before; see [migrations](migrations.md).")
    {
        field = field.renamed_from(name);
    }
    if let Some(values) = section.optional::<Vec<String>>("values", "The words of an `enum`.") {
        field = field.values(values);
    }
    let rule = "Of a relation: what happens to the record when its target is deleted.";
    if let Some(rule) = section.derived::<OnDelete>("on_delete", "`\"restrict\"`", rule) {
        field = field.on_delete(rule);
    }
    field
}

/// A text. An empty one counts as absent.
fn given(section: &mut Section<'_>, key: &'static str, about: &'static str) -> Option<String> {
    section.optional::<String>(key, about).filter(|text| !text.is_empty())
}

/// A [`Kind`] with a placeholder as its default. The setting is required.
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

    fn kind() -> String {
        words(Kind::all().map(Kind::as_str))
    }
}

impl FromNode for OnDelete {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        String::from_node(node, report)?.parse().map_err(|error| report.add(node, &format!("{error}"))).ok()
    }

    fn kind() -> String {
        words(Self::all().map(Self::as_str))
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

    fn kind() -> String {
        "value of the field's type".to_owned()
    }
}
