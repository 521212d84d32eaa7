//! `[[view]]`: read-only entities over a SELECT.

use gatewright_entities::{Action, DEFAULT_MAX_LIST_LIMIT, Entity, Field, Query};

use super::entity::{given, kind, listed_values};
use super::read::{FromNode, Node, Report, Section, Value};

pub(super) fn read(section: &mut Section<'_>) -> Entity {
    let name: String =
        section.required("name", "`^[a-z][a-z0-9_]{0,47}$`, and not a reserved name. It is the path too.");
    let about = "The `SELECT` of its rows, with a column `id` and one for each field; or `{ sqlite = \"…\", postgres = \"…\" }`.";
    let Sql(query) = section.required("sql", about);
    let about = "Callers see the rows of all tenants. Otherwise a `SELECT` that reads a multi-tenant entity selects \
                 `tenant_id`, and callers see the rows of their tenant.";
    let query = if section.value("all_tenants", false, about) { query.all_tenants() } else { query };
    let mut view = Entity::view(name, query)
        .crud(section.value("crud", true, "Whether there are endpoints."))
        .mcp(section.value("mcp", true, "Whether there are [tools](mcp.md) at `/mcp`."))
        .search_fields(section.value(
            "search_fields",
            Vec::<String>::new(),
            "The visible text fields that [`q=`](queries.md) searches.",
        ))
        .cursor_fields(section.value(
            "cursor_fields",
            Vec::<String>::new(),
            "The order of pages by [cursor](queries.md#cursors). The default is the order of the ids.",
        ))
        .max_list_limit(section.value(
            "max_list_limit",
            DEFAULT_MAX_LIST_LIMIT,
            "The maximum number of records on a page.",
        ));
    for (key, set, about) in [
        (
            "description",
            Entity::description as fn(Entity, String) -> Entity,
            "What its records are, for the OpenAPI document, the tools, the generated types and the console.",
        ),
        ("label", Entity::label, "The field that the console shows where it would show the id of a record."),
        ("owner_field", Entity::owner, "The field that holds the owner: callers see their own records only."),
        ("cross_owner_read", Entity::cross_owner_read, "Permission to read the records of all owners."),
    ] {
        if let Some(text) = given(section, key, about) {
            view = set(view, text);
        }
    }
    view = section.section("access", |access| {
        let about = "The permission that reading needs. `public`: open to everybody.";
        let view = match access.derived::<String>("read", "any signed-in caller", about) {
            Some(text) => view.access(Action::Read, text),
            None => view,
        };
        let about = "The permission that an [export](queries.md#export) needs, in addition to `read`.";
        match given(access, "export", about) {
            Some(permission) => view.export(permission),
            None => view,
        }
    });
    view = section.section("rules", |rules| {
        let about = "A [rule](rules.md): a filter that must be true for the record.";
        match rules.derived::<String>("read", "no rule", about) {
            Some(text) => view.rule(Action::Read, text),
            None => view,
        }
    });
    section.sections("field", field).into_iter().fold(view, Entity::field)
}

fn field(section: &mut Section<'_>) -> Field {
    let name: String = section.required("name", "`^[a-z][a-z0-9_]{0,62}$`, a column of the `SELECT`; not `id`.");
    let mut field = Field::new(name, kind(section, "The type to which its values are cast."));
    if section.value("hidden", false, "Never visible to clients.") {
        field = field.hidden();
    }
    for (key, set, about) in [
        (
            "description",
            Field::description as fn(Field, String) -> Field,
            "What it means, for the OpenAPI document, the tools and the generated types.",
        ),
        ("to", Field::to, "The entity that a `relation` points to, or `users`."),
        (
            "read",
            Field::read,
            "Who may read it: a [rule](rules.md#rules-of-fields) over the caller alone. For others the field does not exist.",
        ),
    ] {
        if let Some(text) = section.optional(key, about) {
            field = set(field, text);
        }
    }
    listed_values(section, field)
}

/// One text for both engines, or one for each.
struct Sql(Query);

impl Default for Sql {
    fn default() -> Self {
        Self(Query::new(""))
    }
}

impl FromNode for Sql {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            return String::from_node(node, report).map(|sql| Self(Query::new(sql)));
        };
        Section::read(Some((table, &node.place)), report.clone(), |section| {
            let sqlite = section.optional::<String>("sqlite", "On SQLite.");
            let postgres = section.optional::<String>("postgres", "On Postgres.");
            Some(Self(Query::by_engine(sqlite.as_deref(), postgres.as_deref())))
        })
    }

    fn kind() -> String {
        "text, or `{ sqlite = \"…\", postgres = \"…\" }`".to_owned()
    }
}
