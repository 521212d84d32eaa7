//! Converts a [`ListQuery`] for one entity: names become positions, values get their types.

use std::fmt::Display;
use std::sync::Arc;

use gatewright_base::nearest;

use super::groups::Grouping;
use super::include::wanted::Wanted;
use super::searched;
use crate::filter::syntax::Expression;
use crate::filter::{self, Names, Predicate};
use crate::plan::{Direction, HIGHLIGHT, Keyset, PREFIX, Plan, RANK, Trashed};
use crate::query::{Count, Given, ListQuery, RecordQuery, Trash};
use crate::readable::FieldRights;
use crate::search::Sought;

/// The most conditions on one list, the whole of `filter` counting as one.
const MAX_TESTS: usize = 32;
/// The most values that the conditions of one list compare with, all lists of values together. Each is a placeholder, of
/// which the engines take some tens of thousands in a statement.
const MAX_VALUES: usize = 10_000;
/// How many records a page has by default.
const DEFAULT_LIMIT: u32 = 25;
/// The parameters other than conditions on fields.
const KNOWN: [&str; 24] = [
    "page",
    "limit",
    "sort",
    "cursor",
    "direction",
    TOTAL,
    "fields",
    "include",
    "etag",
    "q",
    "filter",
    "trashed",
    "group",
    "sum",
    "min",
    "max",
    "avg",
    "count_distinct",
    "format",
    "raw",
    TIMEZONE,
    UTC_OFFSET,
    PREFIX,
    HIGHLIGHT,
];
/// The parameter for how records on all pages are counted, or a condition on the field with this name, if there is one.
const TOTAL: &str = "total";
/// The time zone of groups by times, by its name or its offset.
pub(super) const TIMEZONE: &str = "timezone";
pub(super) const UTC_OFFSET: &str = "utc_offset";
/// The error for another value of `etag`.
const NO_TAGS: &str = "etag is true or false";
/// The parameters of a single record.
const OF_ONE: [&str; 3] = ["fields", "include", "etag"];

/// A requested list.
#[derive(Debug, PartialEq)]
pub(super) struct Query {
    pub(super) paging: Paging,
    pub(super) limit: u32,
    pub(super) filter: Predicate,
    /// Conditions that follow relations or name the caller.
    pub(super) related: Vec<Expression>,
    pub(super) trashed: Trashed,
    pub(super) view: View,
    /// What the index of words is asked for.
    pub(super) sought: Option<Arc<Sought>>,
}

/// Where the page is.
#[derive(Debug, PartialEq)]
pub(super) enum Paging {
    /// By its number, counted from 1.
    Page { number: u32, sort: Option<Keyset>, count: Count },
    /// None: records are grouped.
    Groups(Grouping),
    /// By a cursor, as it came; empty for the end to start at.
    Cursor { from: String, direction: Direction, sort: Option<Keyset> },
}

/// The parts of each record that an answer shows.
#[derive(Debug, Default, PartialEq)]
pub(in crate::operations) struct View {
    /// Positions in the entity's shape, rising; all of them where nothing was chosen.
    pub(in crate::operations) fields: Option<Vec<usize>>,
    /// The relations whose records are included, as they were named.
    pub(in crate::operations) include: Vec<Wanted>,
    /// Whether each record carries its entity tag.
    pub(in crate::operations) tags: bool,
    /// The search whose words each record shows.
    pub(in crate::operations) highlighted: Option<Arc<Sought>>,
}

impl Query {
    /// Reads the parameters of a list. The error is a sentence for the caller.
    pub(super) fn read(plan: &Plan, asked: &ListQuery, rights: &FieldRights) -> Result<Self, String> {
        let names = plan.columns.seen_by(rights.of(plan.index));
        if let Some(name) = asked.repeated() {
            return Err(repeated(name));
        }
        let limit = match asked.limit {
            None => DEFAULT_LIMIT.min(plan.max_list_limit),
            Some(limit) => limit.map_err(|_| whole_number("limit"))?.min(plan.max_list_limit),
        };
        let (mut tests, mut related) = (Vec::new(), Vec::new());
        for (name, value) in &asked.conditions {
            match filter::suffix::read(name, value, names) {
                _ if is_parameter(plan, asked, name) => {}
                Some(test) => tests.push(test?),
                None if [TIMEZONE, UTC_OFFSET].contains(&&**name) => return Err(format!("{name} goes with group")),
                None => return Err(unknown(name, KNOWN, names)),
            }
            if tests.len() > MAX_TESTS {
                break;
            }
        }
        if let Some(text) = &asked.filter {
            let expression = filter::syntax::parse(text).map_err(|error| format!("filter: {error}"))?;
            if filter::typed::is_plain(&expression, names) {
                let test = filter::typed::resolve(&expression, names);
                tests.push(test.map_err(|error| format!("filter: {error}"))?);
            } else {
                related.push(expression);
            }
        }
        let mut sought = None;
        if let Some(text) = &asked.search {
            sought = searched::read(plan, asked, text, names)?;
            tests.extend(match &sought {
                Some(sought) => Some(Predicate::Words(sought.clone())),
                None => search(plan, text, names)?,
            });
        }
        if tests.len() > MAX_TESTS {
            return Err(format!("a list takes at most {MAX_TESTS} conditions"));
        }
        let filter = Predicate::All(tests);
        if filter.values() > MAX_VALUES {
            return Err(format!("a list compares with at most {MAX_VALUES} values in all"));
        }
        let trashed = asked.trash.map_or(Ok(Trashed::Without), |trash| trashed(plan, trash))?;
        let mut view = View::shown(plan, &asked.view, rights)?;
        view.highlighted = sought.clone().filter(|_| searched::is_set(plan, asked, HIGHLIGHT) == Ok(true));
        let paging = Paging::read(plan, asked, rights)?.ranked(plan, sought.is_some())?;
        Ok(Self { paging, limit, filter, related, trashed, view, sought })
    }
}

impl Paging {
    /// The requested order.
    pub(super) fn sort(&self) -> Option<&Keyset> {
        match self {
            Self::Page { sort, .. } | Self::Cursor { sort, .. } => sort.as_ref(),
            Self::Groups(_) => None,
        }
    }

    /// With the best match first, where a search has no other order.
    fn ranked(self, plan: &Plan, is_sought: bool) -> Result<Self, String> {
        if !is_sought {
            let ranks = self.sort().is_some_and(Keyset::ranks);
            return if ranks { Err(format!("sort: {RANK} goes with q")) } else { Ok(self) };
        }
        let ranked = |sort: Option<Keyset>| Some(sort.unwrap_or_else(|| Keyset::by_rank(plan.engine)));
        Ok(match self {
            Self::Page { number, sort, count } => Self::Page { number, sort: ranked(sort), count },
            Self::Cursor { from, direction, sort } => Self::Cursor { from, direction, sort: ranked(sort) },
            groups @ Self::Groups(_) => groups,
        })
    }

    fn read(plan: &Plan, asked: &ListQuery, rights: &FieldRights) -> Result<Self, String> {
        let count = count(plan, asked);
        if let Some(grouping) = Grouping::read(plan, asked, plan.columns.seen_by(rights.of(plan.index)))? {
            return Ok(Self::Groups(grouping));
        }
        let sort = asked.sort.as_deref().map(|order| plan.order.parse(order, rights)).transpose()?;
        let direction = match asked.is_backward {
            None => None,
            Some(Ok(false)) => Some(Direction::Forward),
            Some(Ok(true)) => Some(Direction::Backward),
            Some(Err(_)) => return Err("direction is forward or backward".to_owned()),
        };
        let count = count?;
        if let Some(from) = &asked.cursor {
            if asked.page.is_some() {
                return Err("a cursor and a page's number exclude each other".to_owned());
            }
            if count.is_some() {
                return Err("total goes with pages by number; by cursor nothing is counted".to_owned());
            }
            return Ok(Self::Cursor { from: from.clone(), direction: direction.unwrap_or_default(), sort });
        }
        if direction.is_some() {
            return Err("direction goes with cursor; an empty cursor starts at the end".to_owned());
        }
        let number = asked.page.map_or(Ok(1), |page| page.map_err(|_| whole_number("page")))?;
        Ok(Self::Page { number, sort, count: count.unwrap_or_default() })
    }
}

/// Whether a name is that of a parameter here, and not of a field: `total` if no field has this name, and the time zone of groups.
fn is_parameter(plan: &Plan, asked: &ListQuery, name: &str) -> bool {
    match name {
        TOTAL => plan.takes_total(),
        PREFIX | HIGHLIGHT => plan.takes_with_search(name),
        TIMEZONE | UTC_OFFSET => asked.groups.as_ref().is_some_and(|groups| groups.by.is_some()),
        _ => false,
    }
}

/// The requested count of records, by `total` if no field has this name.
fn count(plan: &Plan, asked: &ListQuery) -> Result<Option<Count>, String> {
    let given = asked.conditions.iter().find(|(name, _)| name == TOTAL && plan.takes_total());
    match given.map(|(_, value)| value.as_str()) {
        None => Ok(asked.count),
        Some("exact") => Ok(Some(Count::Exact)),
        Some("estimate") => Ok(Some(Count::Estimate)),
        Some("none") => Ok(Some(Count::None)),
        Some(_) => Err("total is exact, estimate or none".to_owned()),
    }
}

impl View {
    /// Reads the parameters of a single record. The error is a sentence for the caller.
    pub(in crate::operations) fn read(plan: &Plan, asked: &RecordQuery, rights: &FieldRights) -> Result<Self, String> {
        if let Some(name) = &asked.repeated {
            return Err(repeated(name));
        }
        if let Some(name) = &asked.unknown {
            let hint = nearest(name, OF_ONE).map(|meant| format!("; did you mean \"{meant}\"?"));
            return Err(format!("there is no parameter \"{}\"{}", shown(name), hint.unwrap_or_default()));
        }
        Self::shown(plan, asked, rights)
    }

    fn shown(plan: &Plan, asked: &RecordQuery, rights: &FieldRights) -> Result<Self, String> {
        let readable = rights.of(plan.index);
        Ok(Self {
            fields: asked
                .fields
                .as_deref()
                .map(|names| fields(plan, names, plan.columns.seen_by(readable)))
                .transpose()?,
            include: asked.include.as_deref().map_or(Ok(Vec::new()), Wanted::read)?,
            tags: asked.tags.unwrap_or(Ok(false)).map_err(|_| NO_TAGS.to_owned())?,
            highlighted: None,
        })
    }
}

/// Reads `etag`. The error is a sentence for the caller.
pub(crate) fn tags(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(NO_TAGS.to_owned()),
    }
}

/// Reads `id,title`.
fn fields(plan: &Plan, value: &str, names: Names<'_>) -> Result<Vec<usize>, String> {
    let mut chosen = Vec::new();
    for name in value.split(',') {
        let column = names.find(name).map(|index| names.at(index));
        let place = column.and_then(|column| plan.shape.position(&column.name)).ok_or_else(|| {
            let (shown, meant) = names.unknown(name);
            let hint = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
            format!("fields: there is no field \"{shown}\"{}", hint.unwrap_or_default())
        })?;
        chosen.push(place);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// The condition of `q`. An empty text, as from an empty search box, adds no condition.
fn search(plan: &Plan, text: &str, names: Names<'_>) -> Result<Option<Predicate>, String> {
    let Some(found) = plan.search.contains(text, names) else {
        return Err("q: none of the fields here can be searched".to_owned());
    };
    searched::check(text)?;
    Ok((!text.is_empty()).then_some(found))
}

fn trashed(plan: &Plan, trash: Given<Trash>) -> Result<Trashed, String> {
    match trash {
        _ if !plan.soft_delete => Err("trashed: records that are deleted here are gone".to_owned()),
        Ok(Trash::With) => Ok(Trashed::With),
        Ok(Trash::Only) => Ok(Trashed::Only),
        Err(_) => Err("trashed is with or only".to_owned()),
    }
}

fn repeated(name: &str) -> String {
    format!("the parameter \"{}\" is given more than once", shown(name))
}

fn whole_number(name: &str) -> String {
    format!("{name} is a whole number from 1")
}

/// Reports a parameter that is neither known nor a field's name, with a suggestion.
fn unknown<const N: usize>(name: &str, known: [&str; N], columns: Names<'_>) -> String {
    let (name, field) = columns.unknown(name);
    let meant = nearest(&name, known).map(str::to_owned).or(field).or_else(|| filter::suffix::meant(&name, columns));
    let hint = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
    format!("there is no parameter \"{name}\"{}", hint.unwrap_or_default())
}

fn shown(name: impl Display) -> String {
    name.to_string().chars().take(64).collect()
}

/// Why a list has no cursor.
pub(super) fn too_long() -> crate::error::Error {
    crate::error::Error::Query(
        "the values sorted by are too long for a cursor; sort by another field, or use page".to_owned(),
    )
}
