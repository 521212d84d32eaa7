//! From the parameters of a list, as pairs of name and text, to what they ask for. REST and tools read them here.

use std::collections::HashSet;
use std::fmt::Display;

use gatewright_base::{nearest, to_snake};

use super::groups::Grouping;
use crate::declare::Kind;
use crate::filter::syntax::Expression;
use crate::filter::{self, Columns, Predicate};
use crate::plan::{Direction, Field, Keyset, Plan, Trashed};

/// The most conditions on one list, the whole of `filter` counting as one.
const MOST_TESTS: usize = 32;
/// The most values that the conditions of one list compare with, all lists of values together. Each is a placeholder, of
/// which the engines take some tens of thousands in a statement.
const MOST_VALUES: usize = 10_000;
/// How many records a page holds where the caller does not say.
const DEFAULT_LIMIT: u32 = 25;
/// The most relations in one `include`.
const MOST_INCLUDED: usize = 8;
/// The most characters that `q` takes.
const LONGEST_SEARCH: usize = 200;
/// The parameters that are no conditions on fields.
const KNOWN: [&str; 17] = [
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
];
/// How the records on all pages are counted; a condition on the field of this name, where there is one.
const TOTAL: &str = "total";
/// The parameters of a single record.
const OF_ONE: [&str; 3] = ["fields", "include", "etag"];

/// A list, asked for.
#[derive(Debug, PartialEq)]
pub(super) struct Query {
    pub(super) paging: Paging,
    pub(super) limit: u32,
    pub(super) filter: Predicate,
    /// Conditions that follow relations or name the caller.
    pub(super) related: Vec<Expression>,
    pub(super) trashed: Trashed,
    pub(super) view: View,
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

/// How the records on all pages are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Count {
    #[default]
    Exact,
    /// To a bound, past which nobody wants to know.
    Estimate,
    None,
}

/// What of each record an answer shows.
#[derive(Debug, Default, PartialEq)]
pub(in crate::operations) struct View {
    /// Positions in the entity's shape, rising; all of them where nothing was chosen.
    pub(in crate::operations) fields: Option<Vec<usize>>,
    /// The fields whose related records come along, as positions in the plan.
    pub(in crate::operations) include: Vec<usize>,
    /// Whether each record carries its entity tag.
    pub(in crate::operations) tags: bool,
}

impl Query {
    /// Reads the parameters. The error is a sentence for the caller.
    pub(super) fn read(plan: &Plan, pairs: &[(String, String)]) -> Result<Self, String> {
        refuse_repeats(pairs)?;
        let mut read = Self {
            paging: Paging::Page { number: 1, sort: None, count: Count::Exact },
            limit: DEFAULT_LIMIT.min(plan.max_list_limit),
            filter: Predicate::All(Vec::new()),
            related: Vec::new(),
            trashed: Trashed::Without,
            view: View::default(),
        };
        let mut tests = Vec::new();
        for (name, value) in pairs {
            match name.as_str() {
                "page" | "sort" | "cursor" | "direction" | "group" | "sum" | "min" | "max" | "avg" => {}
                TOTAL if plan.takes_total() => {}
                name if is_absent(name, value) => {}
                "limit" => read.limit = number(name, value, plan.max_list_limit)?,
                "filter" => {
                    let expression = filter::syntax::parse(value).map_err(|error| format!("filter: {error}"))?;
                    if filter::typed::is_plain(&expression) {
                        let test = filter::typed::resolve(&expression, &plan.columns);
                        tests.push(test.map_err(|error| format!("filter: {error}"))?);
                    } else {
                        read.related.push(expression);
                    }
                }
                "q" => tests.extend(search(plan, value)?),
                "trashed" => read.trashed = trashed(plan, value)?,
                name if OF_ONE.contains(&name) => read.view.parameter(plan, name, value)?,
                other => match filter::suffix::read(other, value, &plan.columns) {
                    Some(test) => tests.push(test?),
                    None => return Err(unknown(other, KNOWN, &plan.columns)),
                },
            }
            if tests.len() > MOST_TESTS {
                return Err(format!("a list takes at most {MOST_TESTS} conditions"));
            }
        }
        read.filter = Predicate::All(tests);
        if read.filter.values() > MOST_VALUES {
            return Err(format!("a list compares with at most {MOST_VALUES} values in all"));
        }
        read.paging = Paging::read(plan, pairs)?;
        Ok(read)
    }
}

impl Paging {
    /// The order that was asked for.
    pub(super) fn sort(&self) -> Option<&Keyset> {
        match self {
            Self::Page { sort, .. } | Self::Cursor { sort, .. } => sort.as_ref(),
            Self::Groups(_) => None,
        }
    }

    fn read(plan: &Plan, pairs: &[(String, String)]) -> Result<Self, String> {
        let given = |name: &str| {
            let found = pairs.iter().find(|(given, _)| given == name);
            found.map(|(_, value)| value.as_str()).filter(|value| !is_absent(name, value))
        };
        if let Some(grouping) = Grouping::read(plan, pairs)? {
            return Ok(Self::Groups(grouping));
        }
        let sort = given("sort").map(|value| plan.order.parse(value)).transpose()?;
        let direction = match given("direction") {
            None => None,
            Some("forward") => Some(Direction::Forward),
            Some("backward") => Some(Direction::Backward),
            Some(_) => return Err("direction is forward or backward".to_owned()),
        };
        let count = match given(TOTAL).filter(|_| plan.takes_total()) {
            None => None,
            Some("exact") => Some(Count::Exact),
            Some("estimate") => Some(Count::Estimate),
            Some("none") => Some(Count::None),
            Some(_) => return Err("total is exact, estimate or none".to_owned()),
        };
        if let Some(from) = given("cursor") {
            if given("page").is_some() {
                return Err("a cursor and a page's number exclude each other".to_owned());
            }
            if count.is_some() {
                return Err("total goes with pages by number; by cursor nothing is counted".to_owned());
            }
            return Ok(Self::Cursor { from: from.to_owned(), direction: direction.unwrap_or_default(), sort });
        }
        if direction.is_some() {
            return Err("direction goes with cursor; an empty cursor starts at the end".to_owned());
        }
        let number = given("page").map_or(Ok(1), |value| number("page", value, u32::MAX))?;
        Ok(Self::Page { number, sort, count: count.unwrap_or_default() })
    }
}

impl View {
    /// Reads the parameters of a single record. The error is a sentence for the caller.
    pub(in crate::operations) fn read(plan: &Plan, pairs: &[(String, String)]) -> Result<Self, String> {
        refuse_repeats(pairs)?;
        let mut read = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                name if is_absent(name, value) => {}
                name if OF_ONE.contains(&name) => read.parameter(plan, name, value)?,
                other => {
                    let hint = nearest(other, OF_ONE).map(|meant| format!("; did you mean \"{meant}\"?"));
                    return Err(format!("there is no parameter \"{}\"{}", shown(other), hint.unwrap_or_default()));
                }
            }
        }
        Ok(read)
    }

    fn parameter(&mut self, plan: &Plan, name: &str, value: &str) -> Result<(), String> {
        match name {
            "fields" => self.fields = Some(fields(plan, value)?),
            "include" => self.include = include(plan, value)?,
            _ => self.tags = tags(value)?,
        }
        Ok(())
    }
}

/// Reads `etag`. The error is a sentence for the caller.
pub(crate) fn tags(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("etag is true or false".to_owned()),
    }
}

/// Whether an empty parameter asks for nothing, as the empty box of an HTML form does.
fn is_absent(name: &str, value: &str) -> bool {
    value.is_empty()
        && matches!(name, "filter" | "sort" | "fields" | "include" | "q" | "group" | "sum" | "min" | "max" | "avg")
}

/// Reads `id,title`.
fn fields(plan: &Plan, value: &str) -> Result<Vec<usize>, String> {
    let mut chosen = Vec::new();
    for name in value.split(',') {
        let column = plan.columns.find(name).map(|index| plan.columns.at(index));
        let place = column.and_then(|column| plan.shape.position(&column.name)).ok_or_else(|| {
            let (shown, meant) = plan.columns.unknown(name);
            let hint = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
            format!("fields: there is no field \"{shown}\"{}", hint.unwrap_or_default())
        })?;
        chosen.push(place);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// Reads `author,topic`.
fn include(plan: &Plan, value: &str) -> Result<Vec<usize>, String> {
    let mut included = Vec::new();
    for name in value.split(',') {
        let column = plan.columns.find(name).map(|index| plan.columns.at(index));
        let field = column.and_then(|column| plan.fields.iter().position(|field| field.column == column.name));
        match field {
            Some(index) if plan.fields.at(index).relation.is_some() => included.push(index),
            _ if column.is_some() => return Err(format!("include: \"{}\" is no relation", shown(name))),
            _ => {
                let relations = plan.fields().filter(|field| field.kind == Kind::Relation);
                let (name_of, written) = (|field: &Field| field.column.clone(), to_snake(&shown(name)));
                let mut columns: Vec<String> = relations.map(name_of).collect();
                // A relation is often named without the ending of its column.
                let ending = columns.iter().position(|column| column.strip_suffix("_id") == Some(&*written));
                let meant = match ending {
                    Some(place) => Some(columns.swap_remove(place)),
                    None => nearest(&written, columns.iter().map(String::as_str)).map(str::to_owned),
                };
                let meant = meant.as_deref();
                let key = meant.and_then(|column| plan.fields.wire_key(column));
                let hint = key.map(|meant| format!("; did you mean \"{meant}\"?"));
                return Err(format!("include: there is no relation \"{}\"{}", shown(name), hint.unwrap_or_default()));
            }
        }
    }
    included.sort_unstable();
    included.dedup();
    if included.len() > MOST_INCLUDED {
        return Err(format!("include takes at most {MOST_INCLUDED} relations"));
    }
    Ok(included)
}

/// The condition of `q`. An empty one, as of an empty search box, is none.
fn search(plan: &Plan, text: &str) -> Result<Option<Predicate>, String> {
    if plan.search.is_empty() {
        return Err("q: none of the fields here can be searched".to_owned());
    }
    if text.contains('\0') || text.chars().nth(LONGEST_SEARCH).is_some() {
        return Err(format!("q takes at most {LONGEST_SEARCH} characters, and not U+0000"));
    }
    Ok((!text.is_empty()).then(|| plan.search.contains(text)))
}

fn trashed(plan: &Plan, value: &str) -> Result<Trashed, String> {
    match value {
        _ if !plan.soft_delete => Err("trashed: records that are deleted here are gone".to_owned()),
        "with" => Ok(Trashed::With),
        "only" => Ok(Trashed::Only),
        _ => Err("trashed is with or only".to_owned()),
    }
}

/// A call of a tool has room for a hundred thousand names: each is looked at once.
fn refuse_repeats(pairs: &[(String, String)]) -> Result<(), String> {
    let mut seen = HashSet::new();
    match pairs.iter().find(|(name, _)| !seen.insert(name.as_str())) {
        Some((name, _)) => Err(format!("the parameter \"{}\" is given more than once", shown(name))),
        None => Ok(()),
    }
}

/// Says that a parameter is neither known nor a field's name, and what may have been meant.
fn unknown<const N: usize>(name: &str, known: [&str; N], columns: &Columns) -> String {
    let (name, field) = columns.unknown(name);
    let meant = nearest(&name, known).map(str::to_owned).or(field).or_else(|| filter::suffix::meant(&name, columns));
    let hint = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
    format!("there is no parameter \"{name}\"{}", hint.unwrap_or_default())
}

/// A whole number from 1, cut to `most`.
fn number(name: &str, value: &str, most: u32) -> Result<u32, String> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    // Digits that no u64 holds are a large number all the same.
    let number = if digits { value.parse().unwrap_or(u64::MAX) } else { 0 };
    match u32::try_from(number.min(u64::from(most))) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{name} is a whole number from 1")),
    }
}

fn shown(name: impl Display) -> String {
    name.to_string().chars().take(64).collect()
}
