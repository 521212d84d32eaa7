//! The six tools of each entity: names, descriptions, schemas.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::{Action, Entities, Kind, Plan, PlanField, SeenFields};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::openapi::{schema, search_text};

/// The key of a record's entity tag in answers and arguments. No field can have this name.
pub(super) const ETAG: &str = "_etag";

/// The argument that names the key of a write. An entity with a field of this name has no such argument.
pub(super) const KEY: &str = "idempotency_key";

/// The operation of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Group,
    Get,
    Create,
    Update,
    Delete,
}

impl Verb {
    const ALL: [Self; 6] = [Self::List, Self::Group, Self::Get, Self::Create, Self::Update, Self::Delete];

    /// The action that its caller must be allowed.
    pub(super) fn action(self) -> Action {
        match self {
            Self::List | Self::Group | Self::Get => Action::Read,
            Self::Create => Action::Create,
            Self::Update => Action::Update,
            Self::Delete => Action::Delete,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Group => "group",
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// A tool and its operation.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) tool: Tool,
    pub(super) plan: Arc<Plan>,
    pub(super) verb: Verb,
}

/// All tools, in the order of declaration.
#[derive(Debug)]
pub(super) struct Catalogue {
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

impl Catalogue {
    pub(super) fn new(entities: &Entities) -> Self {
        let (plans, case) = (entities.plans(), entities.json_case());
        let shown = plans.iter().filter(|plan| plan.mcp());
        let entries: Vec<Entry> = shown
            .flat_map(|plan| {
                let tool = move |verb| Entry {
                    tool: tool(plan, plans, verb, case, &SeenFields::ALL),
                    plan: plan.clone(),
                    verb,
                };
                Verb::ALL.into_iter().filter(|verb| !plan.is_read_only() || verb.action() == Action::Read).map(tool)
            })
            .collect();
        let by_name = entries.iter().enumerate().map(|(index, entry)| (entry.tool.name.to_string(), index)).collect();
        Self { entries, by_name }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|index| &self.entries[*index])
    }
}

/// A tool, with the fields that its caller knows.
pub(super) fn tool(plan: &Plan, plans: &[Arc<Plan>], verb: Verb, case: JsonCase, seen: &SeenFields) -> Tool {
    let name = plan.name();
    let (about, input, hints) = match verb {
        Verb::List => (
            format!(
                "Lists one page of the records of {name} that match `filter`. Returns {{\"data\":[…]}} with the \
                 paging members. {}",
                fields(plan, plans, case, seen)
            ),
            list_input(plan, plans, seen),
            hints(true, false, true),
        ),
        Verb::Group => (
            format!(
                "Counts the records of {name} that match `filter` in groups, with sums, averages and counts of different \
                 values. Returns {{\"data\":[…]}} with one object for each group. {}",
                fields(plan, plans, case, seen)
            ),
            group_input(plan),
            hints(true, false, true),
        ),
        Verb::Get => (
            format!("Reads one record of {name} by its id. Returns {{\"data\":{{…}}}}."),
            view(plan, plans, seen, with_id(closed())),
            hints(true, false, true),
        ),
        Verb::Create => (
            format!("Creates a record of {name} and returns it as {{\"data\":{{…}}}}, with its id."),
            once(plan, written(plan, seen, closed(), true)),
            hints(false, false, false),
        ),
        Verb::Update => (
            format!(
                "Updates the given fields of one record of {name}, leaves the others unchanged, and returns the \
                 record."
            ),
            once(plan, written(plan, seen, conditional(with_id(closed())), false)),
            // An operator changes the record each time.
            hints(
                false,
                true,
                plan.fields().filter(|field| seen.takes(plan, field)).all(|field| field.operators().is_empty()),
            ),
        ),
        Verb::Delete => {
            let input = once(plan, conditional(with_id(closed())));
            (format!("Deletes one record of {name} by its id."), input, hints(false, true, true))
        }
    };
    let about = match plan.description() {
        Some(text) => format!("{about} {name}: {text}"),
        None => about,
    };
    let (input, output) = (Arc::new(json(input)), Arc::new(json(output(verb, case))));
    let title = format!("{}: {}", name.replace('_', " "), verb.name());
    let tool = Tool::new(format!("{name}_{}", verb.name()), about, input).with_title(title).with_annotations(hints);
    tool.with_raw_output_schema(output)
}

/// The output schema of a tool. Clients refuse an answer that does not fit, including the problem of a failure, and
/// records may be older than their declaration: so nothing is required, and a record is only declared to be an object.
fn output(verb: Verb, case: JsonCase) -> ObjectBuilder {
    let number = || ObjectBuilder::new().schema_type(Type::Integer);
    let failed = |output: ObjectBuilder| {
        output
            .property("status", number().description(Some("On failure: the HTTP status.")))
            .property("detail", text("On failure: what went wrong."))
    };
    failed(match verb {
        Verb::List => {
            let cursor = [Type::String, Type::Null].into_iter().collect::<SchemaType>();
            let cursor = ObjectBuilder::new().schema_type(cursor).description(Some(
                "The cursor of the next page. With `page`, only if the page ended early because it would be too \
                 large.",
            ));
            object()
                .property("data", ArrayBuilder::new().items(object()))
                .property("total", number())
                .property(case.spell("total_is_estimate"), flag())
                .property("page", number())
                .property("limit", number())
                .property("cursor", cursor)
                .property(case.spell("has_more"), flag())
        }
        Verb::Group => {
            let group = object().description(Some(
                "One group: the values of `group` under their names as they were asked for, `count`, and an object of values \
                 by field for each other function.",
            ));
            object().property("data", ArrayBuilder::new().items(group)).property(case.spell("has_more"), flag())
        }
        Verb::Delete => object().property("deleted", flag()).property("id", text("The id of the deleted record.")),
        Verb::Get | Verb::Create | Verb::Update => object()
            .property("data", object())
            .property(ETAG, text("The entity tag, for a conditional update or deletion.")),
    })
}

pub(super) fn hints(reads: bool, destroys: bool, repeats: bool) -> ToolAnnotations {
    ToolAnnotations::new().read_only(reads).destructive(destroys).idempotent(repeats).open_world(false)
}

/// The fields in one line, each with its type and its target.
fn fields(plan: &Plan, plans: &[Arc<Plan>], case: JsonCase, seen: &SeenFields) -> String {
    let own = [("id".to_owned(), "text".to_owned())];
    let times = plan.times().iter().map(|name| (case.spell(name), "timestamp".to_owned()));
    let declared = plan.fields().filter(|field| seen.shows(plan, field)).map(|field| {
        let kind = match (field.kind(), plan.target(field, plans)) {
            (Kind::Relation, Some(target)) => format!("id of {}", target.name()),
            (Kind::Relation, None) => "id of a user".to_owned(),
            (Kind::Enum, _) => field.constraints().values.join("|"),
            (Kind::List, Some(target)) => format!("list of ids of {}", target.name()),
            (Kind::List, None) if plan.names_many(field) => "list of ids of users".to_owned(),
            (Kind::List, None) => list(field),
            (kind, _) => kind.to_string(),
        };
        (field.key().to_owned(), kind)
    });
    let all = own.into_iter().chain(declared).chain(times).map(|(key, kind)| format!("{key} ({kind})"));
    format!("Fields: {}.", all.collect::<Vec<_>>().join(", "))
}

/// A list's type and its items: `list of string`.
fn list(field: &PlanField) -> String {
    let of = match field.items().map(|items| items.kind) {
        Some(Kind::Enum) => field.constraints().values.join("|"),
        Some(kind) => kind.to_string(),
        None => String::new(),
    };
    format!("list of {of}")
}

fn list_input(plan: &Plan, plans: &[Arc<Plan>], seen: &SeenFields) -> ObjectBuilder {
    let most = plan.max_list_limit();
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    let sort = text(
        "Fields to sort by, separated by commas; a minus sorts descending: -createdAt,id. A dot selects a field of a \
         related record: project.name",
    );
    let mut input = matching(plan);
    if plan.takes_total() {
        let about = "How the records on all pages are counted: estimate stops at 1,000, none omits total. Cannot be \
            combined with cursor.";
        input = input.property("total", text(about).enum_values(Some(["exact", "estimate", "none"])));
    }
    if plan.takes_with_search("highlight") {
        let about = "With q: records have _highlights, by field the places of the words that were found, as start and end in Unicode code points.";
        input = input.property("highlight", flag().description(Some(about)));
    }
    view(plan, plans, seen, input)
        .property("sort", sort)
        .property(
            "page",
            number().description(Some("The number of the page, starting at 1. Cannot be combined with cursor.")),
        )
        .property(
            "cursor",
            text(
                "Pages by cursor, which costs the same at any depth: empty to start, then the cursor of the previous \
                 response, with the same sort.",
            ),
        )
        .property("direction", text("The direction of the cursor.").enum_values(Some(["forward", "backward"])))
        .property("limit", number().maximum(Some(most)).description(Some("The number of records on a page.")))
}

/// The arguments that select records.
fn matching(plan: &Plan) -> ObjectBuilder {
    let filter = text(
        "An expression: comparisons with =, !=, >, >=, <, <=, ~ (contains), !~, in, and has (a JSON list contains a value, as in: \
         tags has \"urgent\"), joined by && and ||, negated by !, grouped by parentheses. Text in quotes, as in: title ~ \"draft\" && createdAt > \"2026-01-01T00:00:00Z\"",
    );
    let compared = ObjectBuilder::new()
        .schema_type([Type::String, Type::Number, Type::Boolean, Type::Array].into_iter().collect::<SchemaType>())
        .description(Some(
            "A comparison by name: the field for equality, or the field with _gt, _gte, _lt, _lte, _ne, _like, _in or _null.",
        ));
    let mut input = object();
    if plan.is_searchable() {
        input = input.property("q", text(search_text(plan)));
    }
    if plan.takes_with_search("prefix") {
        input =
            input.property("prefix", flag().description(Some("With q: the last word is also the beginning of words.")));
    }
    if plan.soft_delete() {
        let about = "`with`: include deleted records; `only`: only deleted records. Needs the right to update.";
        input = input.property("trashed", text(about).enum_values(Some(["with", "only"])));
    }
    input
        .property("filter", filter)
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(compared.build())))))
}

fn group_input(plan: &Plan) -> ObjectBuilder {
    let group = "The fields to group by, at most four, separated by commas. Times and dates also by a part of the calendar: \
        hour(createdAt), day, week, month, quarter or year. Default: one group of all records.";
    matching(plan)
        .property("group", text(group))
        .property("sum", text("The sums of these numeric fields in each group, separated by commas."))
        .property("min", text("The smallest values of these fields in each group, separated by commas."))
        .property("max", text("The largest values of these fields in each group, separated by commas."))
        .property("avg", text("The averages of these numeric fields in each group, separated by commas."))
        .property("count_distinct", text("The numbers of different values of these fields, separated by commas."))
        .property("timezone", text("Where days and hours begin: the name of a time zone, as in: Europe/Berlin."))
        .property("utc_offset", text("The same as an offset, as in: +02:00. Cannot be combined with timezone."))
}

/// The selection of each record's fields. Related records can be included if their own entity has tools.
fn view(plan: &Plan, plans: &[Arc<Plan>], seen: &SeenFields, input: ObjectBuilder) -> ObjectBuilder {
    let relations = plan.includable(plans, seen, Plan::mcp);
    let relations: Vec<_> = relations.iter().map(|(key, ..)| &**key).collect();
    let input = input.property("fields", text("The fields to return, separated by commas; default: all."));
    if relations.is_empty() {
        return input;
    }
    let about = format!(
        "Relations whose records are included as _included, separated by commas: {}. A dot follows a relation of these records, at \
             most three in a path: project.owner. entity(field) includes the records that name this one, the newest 25; \
             entity(field):5 as many.",
        relations.join(", ")
    );
    input.property("include", text(&about))
}

/// The writable fields.
fn written(plan: &Plan, seen: &SeenFields, input: ObjectBuilder, making: bool) -> ObjectBuilder {
    let input = if making && plan.client_ids() { input.property("id", schema::new_id()) } else { input };
    plan.fields().filter(|field| seen.takes(plan, field)).fold(input, |input, field| {
        let value = argument(field);
        // Operators are for fields that the caller may read.
        let is_whole = making || !seen.shows(plan, field);
        let value = if is_whole { value } else { schema::change(field, value, &[Type::String]) };
        let input = input.property(field.key(), value);
        let needed = making && field.is_required() && !field.has_default();
        if needed { input.required(field.key()) } else { input }
    })
}

fn argument(field: &PlanField) -> Schema {
    let mut schema = schema::write(field);
    if let (Kind::Decimal, Schema::Object(schema)) = (field.kind(), &mut schema) {
        let kinds = [Some(Type::String), (!field.is_required()).then_some(Type::Null)];
        schema.schema_type = kinds.into_iter().flatten().collect();
    }
    schema
}

fn with_id(input: ObjectBuilder) -> ObjectBuilder {
    input.property("id", text("The record's id.")).required("id")
}

/// With the argument for a key.
fn once(plan: &Plan, input: ObjectBuilder) -> ObjectBuilder {
    if takes_key(plan) { keyed(input) } else { input }
}

/// Whether the tools of an entity take a key.
pub(super) fn takes_key(plan: &Plan) -> bool {
    plan.fields().all(|field| field.column() != KEY)
}

pub(super) fn keyed(input: ObjectBuilder) -> ObjectBuilder {
    let about = "A key of your choice, for one call: a repeat with the same arguments within 24 hours changes nothing and \
        returns the same. Optional.";
    input.property(KEY, text(about))
}

fn conditional(input: ObjectBuilder) -> ObjectBuilder {
    let about = "The _etag of a response: the call fails with 412 if the record has changed since. Optional.";
    input.property(ETAG, text(about))
}

pub(super) fn text(about: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(about))
}

fn flag() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

pub(super) fn object() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object)
}

/// An object that has only the listed members.
pub(super) fn closed() -> ObjectBuilder {
    object().additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

pub(super) fn json(input: ObjectBuilder) -> JsonObject {
    match serde_json::to_value(input.build()) {
        Ok(Value::Object(object)) => object,
        _ => unreachable!("a schema is an object"),
    }
}
