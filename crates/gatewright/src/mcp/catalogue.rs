//! The five tools of each entity: names, descriptions, schemas.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::{Action, Entities, Kind, Plan, PlanField};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::openapi::schema;

/// The key of a record's entity tag in answers and arguments. No field can have this name.
pub(super) const ETAG: &str = "_etag";

/// The operation of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Get,
    Create,
    Update,
    Delete,
}

impl Verb {
    const ALL: [Self; 5] = [Self::List, Self::Get, Self::Create, Self::Update, Self::Delete];

    /// The action that its caller must be allowed.
    pub(super) fn action(self) -> Action {
        match self {
            Self::List | Self::Get => Action::Read,
            Self::Create => Action::Create,
            Self::Update => Action::Update,
            Self::Delete => Action::Delete,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
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
                let tool = move |verb| Entry { tool: tool(plan, plans, verb, case), plan: plan.clone(), verb };
                Verb::ALL.map(tool)
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

fn tool(plan: &Plan, plans: &[Arc<Plan>], verb: Verb, case: JsonCase) -> Tool {
    let name = plan.name();
    let (about, input, hints) = match verb {
        Verb::List => (
            format!(
                "Lists records of {name}, a page at a time, narrowed by `filter`. Returns {{\"data\":[…]}} with paging \
                 data. {}",
                fields(plan, plans, case)
            ),
            list_input(plan, plans),
            hints(true, false, true),
        ),
        Verb::Get => (
            format!("Reads one record of {name} by its id. Returns {{\"data\":{{…}}}}."),
            view(plan, plans, with_id(closed())),
            hints(true, false, true),
        ),
        Verb::Create => (
            format!("Creates a record of {name} and returns it as {{\"data\":{{…}}}}, with the id it was given."),
            written(plan, closed(), true),
            hints(false, false, false),
        ),
        Verb::Update => (
            format!("Changes the given fields of one record of {name}, keeps the others, and returns the record."),
            written(plan, conditional(with_id(closed())), false),
            hints(false, true, true),
        ),
        Verb::Delete => {
            let input = conditional(with_id(closed()));
            (format!("Deletes one record of {name} by its id."), input, hints(false, true, true))
        }
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
    let flag = || ObjectBuilder::new().schema_type(Type::Boolean);
    let failed = |output: ObjectBuilder| {
        output
            .property("status", number().description(Some("Of a failure: its HTTP status.")))
            .property("detail", text("Of a failure: what went wrong."))
    };
    failed(match verb {
        Verb::List => {
            let cursor = [Type::String, Type::Null].into_iter().collect::<SchemaType>();
            let cursor =
                ObjectBuilder::new().schema_type(cursor).description(Some("Where the next page by cursor begins. With `page` only if the page ended early because it would be too large."));
            object()
                .property("data", ArrayBuilder::new().items(object()))
                .property("total", number())
                .property(case.spell("total_is_estimate"), flag())
                .property("page", number())
                .property("limit", number())
                .property("cursor", cursor)
                .property(case.spell("has_more"), flag())
        }
        Verb::Delete => object().property("deleted", flag()).property("id", text("The deleted record.")),
        Verb::Get | Verb::Create | Verb::Update => {
            object().property("data", object()).property(ETAG, text("For a later conditional change or deletion."))
        }
    })
}

fn hints(reads: bool, destroys: bool, repeats: bool) -> ToolAnnotations {
    ToolAnnotations::new().read_only(reads).destructive(destroys).idempotent(repeats).open_world(false)
}

/// The fields in one line, each with its type and its target.
fn fields(plan: &Plan, plans: &[Arc<Plan>], case: JsonCase) -> String {
    let own = [("id".to_owned(), "text".to_owned())];
    let times = ["created_at", "updated_at"].map(|name| (case.spell(name), "timestamp".to_owned()));
    let declared = plan.fields().map(|field| {
        let kind = match (field.kind(), plan.target(field, plans)) {
            (Kind::Relation, Some(target)) => format!("id of {}", target.name()),
            (Kind::Relation, None) => "id of a user".to_owned(),
            (Kind::Enum, _) => field.constraints().values.join("|"),
            (kind, _) => kind.to_string(),
        };
        (field.key().to_owned(), kind)
    });
    let all = own.into_iter().chain(declared).chain(times).map(|(key, kind)| format!("{key} ({kind})"));
    format!("Fields: {}.", all.collect::<Vec<_>>().join(", "))
}

fn list_input(plan: &Plan, plans: &[Arc<Plan>]) -> ObjectBuilder {
    let most = plan.max_list_limit();
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    let filter = text(
        "An expression: comparisons with =, !=, >, >=, <, <=, ~ (contains), !~ and in, joined by && and ||, negated by !, \
         grouped by parentheses. Text in quotes, as in: title ~ \"draft\" && createdAt > \"2026-01-01T00:00:00Z\"",
    );
    let sort = text(
        "Fields to sort by, separated by commas, a minus in front for descending: -createdAt,id. A dot leads to a field of a related record: project.name",
    );
    let compared = ObjectBuilder::new()
        .schema_type([Type::String, Type::Number, Type::Boolean, Type::Array].into_iter().collect::<SchemaType>())
        .description(Some(
            "A comparison by name: the field for equality, or the field with _gt, _gte, _lt, _lte, _ne, _like, _in or _null.",
        ));
    let words = |values: [&'static str; 2], about: &str| text(about).enum_values(Some(values));
    let mut input = object();
    if plan.is_searchable() {
        input = input.property("q", text("Text that one of the searched fields must contain, in upper or lower case."));
    }
    if plan.soft_delete() {
        let about = "Deleted records too, or only those. Needs the right to update.";
        input = input.property("trashed", words(["with", "only"], about));
    }
    if plan.takes_total() {
        let about = "How the records on all pages are counted: estimate stops at 1,000, none leaves total out. Not with cursor.";
        input = input.property("total", text(about).enum_values(Some(["exact", "estimate", "none"])));
    }
    view(plan, plans, input)
        .property("filter", filter)
        .property("sort", sort)
        .property("page", number().description(Some("Number of the page, from 1. Not with cursor.")))
        .property(
            "cursor",
            text("Pages by cursor, which costs the same at any depth: empty to start, then the cursor of the answer before, with the same sort."),
        )
        .property("direction", words(["forward", "backward"], "The direction of the cursor."))
        .property("group", text("Returns groups with their count instead of records: at most four fields, separated by commas."))
        .property("sum", text("The sums of these numeric fields in each group, separated by commas."))
        .property("min", text("The lowest values of these fields in each group, separated by commas."))
        .property("max", text("The highest values of these fields in each group, separated by commas."))
        .property("avg", text("The averages of these numeric fields in each group, separated by commas."))
        .property("limit", number().maximum(Some(most)).description(Some("How many records a page holds.")))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(compared.build())))))
}

/// The selection of each record's fields. Related records can be included if their own entity has tools.
fn view(plan: &Plan, plans: &[Arc<Plan>], input: ObjectBuilder) -> ObjectBuilder {
    let relations = plan.fields().filter(|field| field.kind() == Kind::Relation);
    let served = relations.filter(|field| plan.target(field, plans).is_none_or(|target| target.mcp()));
    let relations: Vec<_> = served.map(PlanField::key).collect();
    let input = input.property("fields", text("The fields to return, separated by commas. Default: all."));
    if relations.is_empty() {
        return input;
    }
    let about =
        format!("Relations whose records are included under _included, separated by commas: {}.", relations.join(", "));
    input.property("include", text(&about))
}

/// The writable fields.
fn written(plan: &Plan, input: ObjectBuilder, making: bool) -> ObjectBuilder {
    plan.fields().filter(|field| field.is_writable()).fold(input, |input, field| {
        let input = input.property(field.key(), argument(field));
        let needed = making && field.is_required() && field.default_value().is_none();
        if needed { input.required(field.key()) } else { input }
    })
}

fn argument(field: &PlanField) -> Schema {
    let mut schema = schema::write(field);
    if field.kind() == Kind::Decimal {
        let kinds = [Some(Type::String), (!field.is_required()).then_some(Type::Null)];
        schema.schema_type = kinds.into_iter().flatten().collect();
    }
    Schema::Object(schema)
}

fn with_id(input: ObjectBuilder) -> ObjectBuilder {
    input.property("id", text("The record's id.")).required("id")
}

fn conditional(input: ObjectBuilder) -> ObjectBuilder {
    let about = "The _etag of an answer: fails with 412 if the record has changed since. Optional.";
    input.property(ETAG, text(about))
}

fn text(about: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(about))
}

fn object() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object)
}

/// An object that has only the listed members.
fn closed() -> ObjectBuilder {
    object().additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

fn json(input: ObjectBuilder) -> JsonObject {
    match serde_json::to_value(input.build()) {
        Ok(Value::Object(object)) => object,
        _ => unreachable!("a schema is an object"),
    }
}
