//! `[[entity]]`: parsed directly into the declarations of `gatewright_entities`, which checks them.

use gatewright_entities::{
    Action, DEFAULT_MAX_LIST_LIMIT, Entity, Field, FileRules, Kind, Language, Literal, OnDelete, ProfileField,
    RecordCheck, Unique,
};

use super::read::{FromNode, Node, Report, Section, Value, json, words};

/// The fields that cursors contain, for every caller.
const CURSOR_FIELDS: [&str; 2] = ["created_at", "id"];

pub(super) fn read(section: &mut Section<'_>) -> Entity {
    let name: String = section.required("name", "`^[a-z][a-z0-9_]{0,47}$`, and not a reserved name.");
    let table = section.derived::<String>("table", "`name`", "Name of the table, and path of the endpoints.");
    let about = "What its records are, for the OpenAPI document, the tools, the generated types and the console.";
    let label = "The field that the console shows where it would show the id of a record.";
    let before = "The name that the table had before; see [migrations](migrations.md).";
    let owner = "Column that holds the owner: each record belongs to its creator.";
    let reads = "Permission to read the records of all owners.";
    let writes = "Permission to update and delete the records of all owners. It does not include reading.";
    let mut entity = Entity::new(name)
        .crud(section.value("crud", true, "Whether there are endpoints."))
        .mcp(section.value("mcp", true, "Whether there are [tools](mcp.md) at `/mcp`."))
        .search_fields(section.value(
            "search_fields",
            Vec::<String>::new(),
            "The visible text fields in which [`q=`](queries.md) looks for a part of a text, without [`search`](search.md).",
        ))
        .max_list_limit(section.value(
            "max_list_limit",
            DEFAULT_MAX_LIST_LIMIT,
            "The maximum number of records on a page.",
        ));
    if let Some(table) = table {
        entity = entity.table(table);
    }
    for (key, set, about) in [
        ("renamed_from", Entity::renamed_from as fn(Entity, String) -> Entity, before),
        ("description", Entity::description, about),
        ("label", Entity::label, label),
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
        "The order of pages by [cursor](queries.md#cursors). The default is the order of the ids, which is the order \
         of creation.",
    );
    if cursors != CURSOR_FIELDS {
        entity = entity.cursor_fields(cursors);
    }
    for (key, switch, about) in [
        (
            "public",
            Entity::public as fn(Entity) -> Entity,
            "Open every operation to everybody. Cannot be combined with `owner_field` or `multi_tenant`.",
        ),
        (
            "multi_tenant",
            Entity::multi_tenant,
            "Records belong to [tenants](tenants.md). Cannot be combined with `public`.",
        ),
        ("soft_delete", Entity::soft_delete, "Deleted records are moved to [the trash](queries.md#the-trash)."),
        ("client_ids", Entity::client_ids, "A create may bring its own [id](entities.md#ids-of-clients)."),
    ] {
        if section.value(key, false, about) {
            entity = switch(entity);
        }
    }
    entity = keys(section, entity);
    entity = search(section, entity);
    entity = section.section("access", |access| {
        let about = "The permission that the operation needs. `public`: open to everybody.";
        let entity = by_action(access, entity, Entity::access, "any signed-in caller", about);
        let about = "The permission that an [export](queries.md#export) needs, in addition to `read`. A token needs the scope \
                     `{table}:export` too.";
        match given(access, "export", about) {
            Some(permission) => entity.export(permission),
            None => entity,
        }
    });
    entity = section.section("rules", |rules| {
        let about = "A [rule](rules.md): a filter that must be true for the record.";
        let mut entity = by_action(rules, entity, Entity::rule, "no rule", about);
        for (key, set, about) in [
            (
                "update_before",
                Entity::rule_before_update as fn(Entity, String) -> Entity,
                "In place of `update`: the rule for the record before the change.",
            ),
            (
                "update_after",
                Entity::rule_after_update,
                "In place of `update`: the rule for the record as the change leaves it, with `@old` and `changed(field)`.",
            ),
        ] {
            if let Some(text) = rules.optional::<String>(key, about) {
                entity = set(entity, text);
            }
        }
        entity
    });
    entity = section.sections("check", check).into_iter().fold(entity, Entity::check);
    section.sections("field", entity_field).into_iter().fold(entity, Entity::field)
}

/// Keys and indexes over several fields.
fn keys(section: &mut Section<'_>, mut entity: Entity) -> Entity {
    let about = "Keys over several fields, such as `[[\"desk\", \"number\"]]`: no two records have the same values, within a \
                 tenant and among records that are not deleted: 409. Null differs from null. \
                 `{ fields = [\"slug\"], ignore_case = true }` ignores case.";
    for key in section.optional::<Vec<Unique>>("unique", about).into_iter().flatten() {
        entity = entity.unique(key);
    }
    let about = "Indexes over several columns, such as `[[\"desk\", \"-created_at\"]]`, each in the order and direction given. The \
                 id follows.";
    for columns in section.optional::<Vec<Vec<String>>>("index", about).into_iter().flatten() {
        entity = entity.index(columns);
    }
    entity
}

/// The index of words.
fn search(section: &mut Section<'_>, entity: Entity) -> Entity {
    let declared = section.optional_section("search", |search| {
        let about = "A text field, and what its words count in the rank of a record: 1 to 1000. At most eight fields.";
        let fields = search.entries::<u32>("fields", about);
        let about = "Words are compared by their stems in this language; `simple`: as they are.";
        (search.derived::<Language>("language", "`\"simple\"`", about).unwrap_or_default(), fields)
    });
    match declared {
        Some((language, fields)) => entity.search(language, fields),
        None => entity,
    }
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

/// A condition of `[[entity.check]]`.
fn check(section: &mut Section<'_>) -> RecordCheck {
    let rule: String =
        section.required("rule", "A [rule](rules.md) that every record must pass when it is written: 422.");
    let about = "What is wrong, after the name of the field, such as `must be after the creation`. In other languages: \
                 `message_de`, `message_fr` and so on.";
    let check = RecordCheck::new(rule, section.required::<String>("message", about));
    let check = section
        .languages("message_")
        .into_iter()
        .fold(check, |check, (language, message)| check.message_in(language, message));
    match given(section, "field", "The field that the message is about.") {
        Some(name) => check.field(name),
        None => check,
    }
}

/// A field of `[[auth.profile.field]]`, declared like those of entities.
pub(super) fn profile_field(section: &mut Section<'_>) -> ProfileField {
    let declared = ProfileField::new(field(section));
    let about = "Visible to signed-in callers with `include` of a relation to `users`. Only for profile fields.";
    if section.value("public", false, about) { declared.public() } else { declared }
}

fn field(section: &mut Section<'_>) -> Field {
    let name: String = section.required("name", "`^[a-z][a-z0-9_]{0,62}$`; not `id`, `created_at`, `updated_at`.");
    let mut field = Field::new(name, kind(section, "The type of its values."));
    for (key, switch, about) in [
        ("required", Field::required as fn(Field) -> Field, "Whether the field must have a value."),
        ("unique", Field::unique, "No two records may have the same value: 409."),
        ("index", Field::index, "An index for filters and sorts."),
        ("hidden", Field::hidden, "Never visible to clients."),
        ("read_only", Field::read_only, "Values sent by clients are ignored."),
    ] {
        if section.value(key, false, about) {
            field = switch(field);
        }
    }
    let length = "Limit of a number, or of the length of a text in characters.";
    for (key, set, about) in [
        ("default", Field::default as fn(Field, Literal) -> Field, "Value if the request has none. Checked at start."),
        ("min", Field::min, length),
        ("max", Field::max, length),
    ] {
        if let Some(literal) = section.optional(key, about) {
            field = set(field, literal);
        }
    }
    for (key, set, about) in [
        ("pattern", Field::pattern as fn(Field, String) -> Field, "Regular expression that texts must match."),
        (
            "description",
            Field::description,
            "What it means, for the OpenAPI document, the tools and the generated types.",
        ),
        ("to", Field::to, "The entity that a `relation` points to, or `users`."),
        (
            "read",
            Field::read,
            "Who may read it: a [rule](rules.md#rules-of-fields) over the caller alone. For others the field does not exist.",
        ),
        (
            "write",
            Field::write,
            "Who may set or change it: a [rule](rules.md#rules-of-fields) on the record as it will be stored. Otherwise 403 `field_forbidden`.",
        ),
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
    field = listed_values(section, field);
    field = items(section, field);
    if section.value("many", false, "Of a `relation`: it names many records, in an order and each once. Of a `file`: it holds many files, in an order.") {
        field = field.many();
    }
    let about = "Number the records, 1, 2, 3 and so on, among those with the same values in these fields; `[]`: all records. Of an `int`.";
    if let Some(fields) = section.optional::<Vec<String>>("sequence", about) {
        field = field.sequence(fields);
    }
    let rule = "Of a relation: what happens to the record when its target is deleted.";
    if let Some(rule) = section.derived::<OnDelete>("on_delete", "`\"restrict\"`", rule) {
        field = field.on_delete(rule);
    }
    field
}

/// The words of an enum, and the type of a list's items.
pub(super) fn listed_values(section: &mut Section<'_>, mut field: Field) -> Field {
    if let Some(values) =
        section.optional::<Vec<String>>("values", "The values of an `enum`, or of the items of a `list` of them.")
    {
        field = field.values(values);
    }
    let about = "Of a `list`: the type of its items: `string`, `int`, `float`, `decimal`, `enum`, `date`, `timestamp` or `uuid`.";
    match section.optional("of", about) {
        Some(Type(kind)) => field.of(kind),
        None => field,
    }
}

/// The type of a field.
pub(super) fn kind(section: &mut Section<'_>, about: &'static str) -> Kind {
    section.required::<Type>("type", about).0
}

/// A field of an entity, which may hold files too.
fn entity_field(section: &mut Section<'_>) -> Field {
    let field = field(section);
    let default = FileRules::default();
    let files = FileRules {
        max_bytes: section.value(
            "max_bytes",
            default.max_bytes,
            "Of a `file`: the most bytes of one file. Above it: 413 `file_too_large`.",
        ),
        accept: section.value(
            "accept",
            default.accept.clone(),
            "Of a `file`: the accepted types, as the content tells them: `\"image/*\"`, `\"application/pdf\"`. Otherwise 422 \
             `file_type`. `[]`: all.",
        ),
        public: section.value(
            "public",
            default.public,
            "Of a `file`: whether anybody who knows the address may download it.",
        ),
        keep_metadata: section.value(
            "keep_metadata",
            default.keep_metadata,
            "Of a `file`: whether EXIF, XMP and IPTC [stay](files.md#metadata-of-images) in JPEG, PNG and WebP.",
        ),
        require_removal: section
            .optional::<Removal>(
                "metadata",
                "Of a `file`: `\"require_removal\"` refuses images and videos of formats from which metadata cannot be removed.",
            )
            .is_some(),
        thumbnails: section.value(
            "thumbnails",
            default.thumbnails.clone(),
            "Of a `file`: the sizes of its [thumbnails](files.md#thumbnails): `\"100x100\"`, `\"400x0\"`. At most 20.",
        ),
    };
    if files == default { field } else { field.files(files) }
}

/// What a list may hold.
fn items(section: &mut Section<'_>, mut field: Field) -> Field {
    if let Some(most) = section.derived::<u32>(
        "max_items",
        "`1000`",
        "Of a `list`: how many items it may have, at most 10000. Of a relation or a file with `many`: `100`, at most 1000.",
    ) {
        field = field.max_items(most);
    }
    if section.value("unique_items", false, "Of a `list`: no item may occur twice.") {
        field.unique_items()
    } else {
        field
    }
}

/// A text. An empty one counts as absent.
pub(super) fn given(section: &mut Section<'_>, key: &'static str, about: &'static str) -> Option<String> {
    section.optional::<String>(key, about).filter(|text| !text.is_empty())
}

/// The only word of `metadata`.
struct Removal;

const REMOVAL: &str = "require_removal";

impl FromNode for Removal {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let word = String::from_node(node, report)?;
        if word != REMOVAL {
            report.add(node, &format!("\"{word}\" is no word here; write \"{REMOVAL}\""));
            return None;
        }
        Some(Self)
    }

    fn kind() -> String {
        words(std::iter::once(REMOVAL))
    }
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

impl FromNode for Unique {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            return Vec::<String>::from_node(node, report).map(Self::of);
        };
        Section::read(Some((table, &node.place)), report.clone(), |section| {
            let fields: Vec<String> = section.required("fields", "The fields.");
            let ignore_case = section.value("ignore_case", false, "Whether texts that differ only in case are equal.");
            let key = Self::of(fields);
            Some(if ignore_case { key.ignore_case() } else { key })
        })
    }

    fn kind() -> String {
        "list of fields, or `{ fields = […], ignore_case = true }`".to_owned()
    }

    fn kinds() -> String {
        "keys".to_owned()
    }
}

impl FromNode for Language {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        String::from_node(node, report)?.parse().map_err(|error| report.add(node, &format!("{error}"))).ok()
    }

    fn kind() -> String {
        words(Self::all().map(Self::as_str))
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
