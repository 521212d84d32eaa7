//! The parameters of a list.

use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::{Kind, Plan, SeenFields};
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterStyle};
use utoipa::openapi::schema::Object;

use super::schema;
use super::words::{boolean, instant, integer, list_of, query, string};

/// Which page, in which order, and of which records.
pub(super) fn parameters(plan: &Plan, plans: &[Arc<Plan>], case: JsonCase) -> Vec<Parameter> {
    let most = plan.max_list_limit();
    let paging = [
        query("page", "The number of the page, starting at 1.", integer().minimum(Some(1)).default(Some(1.into()))),
        query(
            "limit",
            &format!("The number of records on a page. Larger values are reduced to {most}."),
            integer().minimum(Some(1)).default(Some(most.min(25).into())),
        ),
        query("sort", &sort(plan, case), string()),
        query(
            "cursor",
            "Pages by cursor instead of by number: empty to start, then the `cursor` of the previous page. Keep \
             `sort` the same.",
            string(),
        ),
        query("direction", "The direction of the cursor.", string().enum_values(Some(["forward", "backward"]))),
        filter(),
    ];
    let more = [
        plan.takes_total().then(|| {
            let about = "How the records on all pages are counted: `estimate` stops at 1,000, `none` omits `total`. \
                Only for pages by number.";
            let ways = string().enum_values(Some(["exact", "estimate", "none"])).default(Some("exact".into()));
            query("total", about, ways)
        }),
        plan.is_searchable().then(|| query("q", search_text(plan), string())),
        plan.takes_with_search("prefix").then(|| {
            query("prefix", "With `q`: the last word is also the beginning of words.", boolean().default(Some(false.into())))
        }),
        plan.takes_with_search("highlight").then(|| {
            let about = "With `q`: records have `_highlights`, by field the places of the words that were found, as start and end \
                in Unicode code points.";
            query("highlight", about, boolean().default(Some(false.into())))
        }),
        plan.soft_delete().then(|| {
            let values = string().enum_values(Some(["with", "only"]));
            query(
                "trashed",
                "`with`: include deleted records; `only`: only deleted records. Needs the right to update.",
                values,
            )
        }),
    ];
    let grouping = grouping().chain(export(plan));
    let comparisons = compared(plan, case).into_iter().flat_map(|(key, kind, schema)| comparisons(&key, kind, &schema));
    let paging = paging.into_iter().chain(more.into_iter().flatten()).map(ParameterBuilder::build);
    paging.chain(view(plan, plans)).chain(grouping).chain(comparisons).collect()
}

/// What `q` searches for.
pub(crate) fn search_text(plan: &Plan) -> &'static str {
    if plan.has_index_of_words() {
        "Words that a record must have: also \"a phrase\", -not, and or between alternatives; case-insensitive. Without sort the best match \
         comes first; _rank sorts by it."
    } else {
        "Text that at least one searched field must contain; case-insensitive."
    }
}

/// The parameters that return groups of records.
fn grouping() -> impl Iterator<Item = Parameter> {
    let group = "Returns groups instead of records, each with its `count`: the fields to group by, at most four, \
        separated by commas. Times and dates also by `hour(…)`, `day(…)`, `week(…)`, `month(…)`, `quarter(…)` or `year(…)`. Cannot be combined with `page`, `limit`, `cursor`, `sort`, `fields` or `include`.";
    let functions = [
        ("group", group),
        ("sum", "The sums of these fields in each group: numbers and decimals, separated by commas."),
        ("min", "The smallest values of these fields in each group, separated by commas."),
        ("max", "The largest values of these fields in each group, separated by commas."),
        ("avg", "The averages of these fields in each group: numbers and decimals, separated by commas."),
        ("count_distinct", "The numbers of different values of these fields in each group, separated by commas."),
        ("timezone", "The time zone in which times are grouped: a name such as `Europe/Berlin`. Only with `group`."),
        ("utc_offset", "The same as an offset such as `+02:00`. Only with `group`."),
    ];
    functions.into_iter().map(|(name, about)| query(name, about, string()).build())
}

/// The parameters of exports. A field of such a name is a condition instead.
fn export(plan: &Plan) -> impl Iterator<Item = Parameter> {
    let formats = string().enum_values(Some(["json", "csv", "ndjson"])).default(Some("json".into()));
    let format = "`csv` or `ndjson`: all records that match as a file, instead of a page. Cannot be combined with `limit`, `page`, \
        `cursor`, `include`, `total` or `group`.";
    let raw =
        "With `format=csv`: leave text that a spreadsheet takes for a formula as it is. Otherwise it begins with `'`.";
    let all = [query("format", format, formats), query("raw", raw, boolean())];
    plan.takes_format().then_some(all).into_iter().flatten().map(ParameterBuilder::build)
}

/// The parameters that select the shown parts of each record; single records accept them too. Related records can be
/// included if their own entity has endpoints.
pub(super) fn view(plan: &Plan, plans: &[Arc<Plan>]) -> Vec<Parameter> {
    let relations = plan.includable(plans, &SeenFields::ALL, Plan::crud);
    let relations: Vec<_> = relations.iter().map(|(key, ..)| &**key).collect();
    let include = (!relations.is_empty()).then(|| {
        let about = format!(
            "Relations whose records are included as `_included`, separated by commas: {}. A dot follows a relation of these records, at \
             most three in a path, as in `project.owner`. `entity(field)` includes the records that name this one, the newest 25 as \
             `{{\"data\":[…],\"hasMore\":…}}`; `entity(field):100` at most 100.",
            relations.join(", ")
        );
        query("include", &about, string()).build()
    });
    let fields = query("fields", "The fields to return, separated by commas; default: all.", string()).build();
    [fields].into_iter().chain(include).chain([etag().build()]).collect()
}

/// `etag`, which streams take too.
pub(super) fn etag() -> ParameterBuilder {
    query("etag", "Whether records include their entity tag as `_etag`, for `If-Match`.", boolean())
}

/// `filter`, which streams take too.
pub(super) fn filter() -> ParameterBuilder {
    let about = "An expression that records must satisfy: comparisons with `=`, `!=`, `>`, `>=`, `<`, `<=`, `~` (contains), \
                 `!~`, `in` and `has` (an array contains), joined by `&&` and `||`, negated by `!`, grouped by parentheses.";
    query("filter", about, string())
}

fn sort(plan: &Plan, case: JsonCase) -> String {
    let fields = plan.fields().filter(|field| plan.is_sortable(field)).map(|field| field.key().to_owned());
    format!(
        "Fields to sort by, separated by commas; a minus before a field sorts descending: {}. Or a field of a related \
         record, as in `project.name`.",
        ["id".to_owned()]
            .into_iter()
            .chain(fields)
            .chain(plan.times().iter().map(|name| case.spell(name)))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

/// Everything that can be compared: key, kind, and operators.
fn compared(plan: &Plan, case: JsonCase) -> Vec<(String, Kind, Object)> {
    let id = ("id".to_owned(), Kind::Relation, string().build());
    let own = plan.times().iter().map(|name| (case.spell(name), Kind::Timestamp, instant().build()));
    let fields = plan.fields().map(|field| (field.key().to_owned(), field.kind(), schema::compared(field)));
    [id].into_iter()
        .chain(fields.filter(|(_, kind, _)| !matches!(kind, Kind::Json | Kind::List | Kind::File)))
        .chain(own)
        .collect()
}

fn comparisons(key: &str, kind: Kind, schema: &Object) -> Vec<Parameter> {
    let one = |suffix: &str, about: &str| query(&format!("{key}{suffix}"), about, schema.clone()).build();
    let mut all = vec![one("", "Equal to this."), one("_ne", "Not equal to this.")];
    if kind != Kind::Bool {
        all.extend([
            one("_gt", "Greater than this."),
            one("_gte", "Greater than or equal to this."),
            one("_lt", "Less than this."),
            one("_lte", "Less than or equal to this."),
        ]);
    }
    if is_text(kind) {
        all.push(query(&format!("{key}_like"), "Contains this; case-insensitive.", string()).build());
    }
    all.push(
        query(&format!("{key}_in"), "One of these, separated by commas.", list_of(schema.clone()))
            .style(Some(ParameterStyle::Form))
            .explode(Some(false))
            .build(),
    );
    all.push(query(&format!("{key}_null"), "Whether the value is null.", boolean()).required(Required::False).build());
    all
}

/// Whether `_like` has a meaning.
fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::String | Kind::Text | Kind::Enum)
}
