//! `group=`: records counted, and their numbers summed up, by the values of some fields.
//!
//! A group consists of the records that the list would show: the same reach, rules, filters and tenants. Only fields that
//! clients know can be used. Sums are exact, and both engines return the same.

use std::sync::Arc;

use gatewright_db::dialect::TimeUnit;
use gatewright_db::{Error as DatabaseError, RowRef, Tx, ValueRef, dialect};

use super::clock::Clock;
use super::sums::{average, sum};
use crate::declare::Kind;
use crate::encode;
use crate::error::Error;
use crate::filter::Names;
use crate::filter::columns::Column;
use crate::fragment::quoted;
use crate::plan::{Plan, Scope};
use crate::query::{Given, Groups as Asked, ListQuery};

/// The most fields to group by.
const MAX_FIELDS: usize = 4;
/// The most fields of one function.
const MAX_VALUES: usize = 8;
/// The most groups in one answer.
const MAX_GROUPS: usize = 1_000;
/// A key of the answer, so a field cannot have this name here.
const COUNT: &str = "count";

/// The functions of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Sum,
    Min,
    Max,
    Avg,
    CountDistinct,
}

/// The requested groups. Fields are positions in [`Columns`](crate::filter::Columns).
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Grouping {
    by: Vec<By>,
    /// Where days and hours begin.
    zone: Clock,
    /// In the order of the answer.
    values: Vec<(Function, Vec<usize>)>,
}

/// What records are grouped by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct By {
    index: usize,
    /// The part of a time or a date, if not the whole value.
    unit: Option<TimeUnit>,
    /// The key in the answer.
    key: String,
}

impl Function {
    const ALL: [Self; 5] = [Self::Sum, Self::Min, Self::Max, Self::Avg, Self::CountDistinct];

    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::CountDistinct => "count_distinct",
        }
    }

    /// Its key in the answer.
    fn key(self, plan: &Plan) -> String {
        plan.case.spell(self.name())
    }

    /// The names of the fields that the request gives for it.
    fn asked(self, groups: &Asked) -> Option<&str> {
        let names = match self {
            Self::Sum => &groups.sum,
            Self::Min => &groups.min,
            Self::Max => &groups.max,
            Self::Avg => &groups.avg,
            Self::CountDistinct => &groups.count_distinct,
        };
        names.as_deref()
    }

    /// Whether it can be applied to values of this kind.
    fn takes(self, kind: Kind) -> bool {
        match kind {
            Kind::Int | Kind::Float | Kind::Decimal => true,
            Kind::String | Kind::Text | Kind::Enum | Kind::Date | Kind::Timestamp => {
                matches!(self, Self::Min | Self::Max | Self::CountDistinct)
            }
            Kind::Bool | Kind::Uuid | Kind::Relation => self == Self::CountDistinct,
            Kind::Json | Kind::List | Kind::File => false,
        }
    }
}

impl Grouping {
    /// Reads the parameters; `None` if the request does not group. The error is a sentence for the caller.
    pub(super) fn read(plan: &Plan, asked: &ListQuery, known: Names<'_>) -> Result<Option<Self>, String> {
        let Some(groups) = &asked.groups else { return Ok(None) };
        let mut read = Self::default();
        if let Some(names) = &groups.by {
            read.by = by(known, names)?;
        }
        read.zone = Clock::read(&asked.conditions, &read.by)?;
        for function in Function::ALL {
            let Some(names) = function.asked(groups) else { continue };
            let fields = fields(known, function.name(), names, MAX_VALUES)?;
            let misfit = fields.iter().map(|index| plan.columns.at(*index)).find(|column| !function.takes(column.kind));
            if let Some(column) = misfit {
                let takes = match function {
                    Function::Sum | Function::Avg => "numbers",
                    Function::Min | Function::Max => "numbers, text and times",
                    Function::CountDistinct => "fields that are no lists",
                };
                return Err(format!("{} takes {takes}; \"{}\" is none", function.name(), column.key));
            }
            read.values.push((function, fields));
        }
        if read.by.is_empty() && read.values.is_empty() {
            return Ok(None);
        }
        let reserved = |by: &&By| by.key == COUNT || Function::ALL.iter().any(|function| function.key(plan) == by.key);
        if read.by.iter().filter(|by| plan.columns.at(by.index).kind == Kind::List).count() > 1 {
            return Err("group takes at most one list".to_owned());
        }
        if let Some(by) = read.by.iter().find(reserved) {
            return Err(format!("group: a field called \"{}\" cannot be grouped by", by.key));
        }
        match beside(plan, asked) {
            Some(name) => Err(format!("{name} goes with a list of records, not with group, sum, min, max or avg")),
            None => Ok(Some(read)),
        }
    }

    /// The selected expressions, and the GROUP BY and ORDER BY.
    fn statement(&self, plan: &Plan, condition: &str) -> String {
        let list = self.by.iter().map(|by| plan.columns.at(by.index)).find(|column| column.kind == Kind::List);
        let name = |index: usize| match (list, plan.columns.at(index)) {
            (None, column) => quoted(&column.name),
            (Some(_), column) => match column.of {
                None => format!("{RECORDS}.{}", quoted(&column.name)),
                Some(kind) => dialect::json_item(plan.engine, ITEMS, item_type(kind)),
            },
        };
        let ordered = |index: usize| match shown_kind(plan.columns.at(index)) {
            Kind::Decimal => dialect::decimal_order(plan.engine, &name(index)),
            _ => name(index),
        };
        let bucket = |by: &By, whole: &dyn Fn(usize) -> String| match by.unit {
            Some(unit) => {
                let is_date = plan.columns.at(by.index).kind == Kind::Date;
                dialect::truncated(plan.engine, unit, &name(by.index), is_date, self.zone.sql())
            }
            None => whole(by.index),
        };
        // One of several spellings of a number represents all.
        let shown = |index: usize| match shown_kind(plan.columns.at(index)) {
            Kind::Decimal => format!("MIN({})", ordered(index)),
            _ => name(index),
        };
        let sum = |index: usize| match plan.columns.at(index).kind {
            Kind::Float => dialect::exact_sum_of_floats(plan.engine, &name(index)),
            _ => dialect::exact_sum(plan.engine, &name(index)),
        };
        let mut select: Vec<String> = self.by.iter().map(|by| bucket(by, &shown)).collect();
        select.push("COUNT(*)".to_owned());
        for (function, fields) in &self.values {
            for index in fields {
                select.extend(match function {
                    Function::Sum => vec![sum(*index)],
                    Function::Min => vec![format!("MIN({})", ordered(*index))],
                    Function::Max => vec![format!("MAX({})", ordered(*index))],
                    Function::Avg => {
                        vec![sum(*index), format!("COUNT({})", name(*index))]
                    }
                    Function::CountDistinct => vec![format!("COUNT(DISTINCT {})", ordered(*index))],
                });
            }
        }
        let (select, table) = (select.join(", "), plan.sql.source());
        let from = match list {
            None => format!("{table}{condition}"),
            // The condition is inside, where its columns are those of the table only. A record without items has the group null.
            Some(column) => format!(
                "(SELECT * FROM {table}{condition}) AS {RECORDS} LEFT JOIN {} AS {ITEMS} ON TRUE",
                dialect::json_distinct(plan.engine, &format!("{RECORDS}.{}", quoted(&column.name)))
            ),
        };
        let by: Vec<String> = self.by.iter().map(|by| bucket(by, &ordered)).collect();
        let order: Vec<String> = by.iter().map(|column| format!("{column} NULLS LAST")).collect();
        let grouped = if by.is_empty() {
            String::new()
        } else {
            format!(" GROUP BY {} ORDER BY {}", by.join(", "), order.join(", "))
        };
        // Bytes: rows are folded one by one until the answer is full.
        format!("SELECT {select} FROM {from}{grouped} LIMIT {}", MAX_GROUPS + 1)
    }
}

/// The records in a statement that groups by the items of a list, and the items.
const RECORDS: &str = "\"_t\"";
const ITEMS: &str = "\"_i\"";

/// The kind of a group's value: for a list that of its items.
fn shown_kind(column: &Column) -> Kind {
    column.of.unwrap_or(column.kind)
}

fn item_type(kind: Kind) -> dialect::ItemType {
    match kind {
        Kind::Int => dialect::ItemType::Int,
        Kind::Float => dialect::ItemType::Float,
        Kind::Decimal => dialect::ItemType::Decimal,
        _ => dialect::ItemType::Text,
    }
}

/// A parameter that is only valid for a list of records.
fn beside(plan: &Plan, asked: &ListQuery) -> Option<&'static str> {
    let total = asked.conditions.iter().any(|(name, value)| name == "total" && plan.takes_total() && !value.is_empty());
    let given = [
        ("page", asked.page.is_some_and(is_said)),
        ("limit", asked.limit.is_some()),
        ("sort", asked.sort.is_some()),
        ("cursor", asked.cursor.as_ref().is_some_and(|cursor| !cursor.is_empty())),
        ("direction", asked.is_backward.is_some_and(is_said)),
        ("fields", asked.view.fields.is_some()),
        ("include", asked.view.include.is_some()),
        ("etag", asked.view.tags.is_some()),
        ("total", asked.count.is_some() || total),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
}

/// Whether a parameter was more than an empty text.
fn is_said<T>(given: Given<T>) -> bool {
    given.map_or_else(|unreadable| !unreadable.is_empty, |_| true)
}

/// Reads `status,day(created_at)`.
fn by(columns: Names<'_>, names: &str) -> Result<Vec<By>, String> {
    let mut all: Vec<By> = Vec::new();
    for name in names.split(',') {
        let part = name.strip_suffix(')').and_then(|part| part.split_once('('));
        let Some((unit, field)) = part else {
            let index = fields(columns, "group", name, 1)?[0];
            all.push(By { index, unit: None, key: columns.at(index).key.clone() });
            continue;
        };
        let Some(unit) = TimeUnit::ALL.into_iter().find(|known| known.name() == unit) else {
            let known = TimeUnit::ALL.map(TimeUnit::name).join(", ");
            return Err(format!("group: times are grouped by one of {known}, as in day(created_at)"));
        };
        let index = fields(columns, "group", field, 1)?[0];
        match (columns.at(index).kind, unit) {
            (Kind::Timestamp, _)
            | (Kind::Date, TimeUnit::Day | TimeUnit::Week | TimeUnit::Month | TimeUnit::Quarter | TimeUnit::Year) => {}
            (Kind::Date, TimeUnit::Hour) => {
                return Err(format!("group: \"{}\" is a date and has no hours", columns.at(index).key));
            }
            _ => return Err(format!("group: \"{}\" is no time and no date", columns.at(index).key)),
        }
        all.push(By { index, unit: Some(unit), key: name.to_owned() });
    }
    for (place, by) in all.iter().enumerate() {
        if all[..place].iter().any(|other| (other.index, other.unit) == (by.index, by.unit)) {
            return Err(format!("group names \"{}\" twice", by.key));
        }
    }
    if all.len() > MAX_FIELDS {
        return Err(format!("group takes at most {MAX_FIELDS} fields"));
    }
    Ok(all)
}

fn fields(columns: Names<'_>, parameter: &str, names: &str, most: usize) -> Result<Vec<usize>, String> {
    let mut found = Vec::new();
    for name in names.split(',') {
        let Some(index) = columns.find(name) else {
            let (shown, meant) = columns.unknown(name);
            let hint = meant.map(|meant| format!("; did you mean \"{meant}\"?")).unwrap_or_default();
            return Err(format!("{parameter}: there is no field \"{shown}\"{hint}"));
        };
        let column = columns.at(index);
        if column.kind == Kind::File || column.of == Some(Kind::File) {
            return Err(format!("{parameter}: \"{}\" is a file and has no order", column.key));
        }
        if column.kind == Kind::Json {
            return Err(format!("{parameter}: \"{}\" is JSON and has no order", column.key));
        }
        if found.contains(&index) {
            return Err(format!("{parameter} names \"{}\" twice", columns.at(index).key));
        }
        found.push(index);
    }
    if found.len() > most {
        return Err(format!("{parameter} takes at most {most} fields"));
    }
    Ok(found)
}

impl Grouping {
    /// Writes one group: `{"status":"open","count":3,"sum":{"n":12}}`.
    fn append(&self, plan: &Plan, row: &RowRef<'_>, out: &mut Vec<u8>) -> Result<(), DatabaseError> {
        let mut at = 0;
        out.push(b'{');
        for by in &self.by {
            let column = plan.columns.at(by.index);
            key(&by.key, out);
            let kind = match by.unit {
                None => shown_kind(column),
                Some(TimeUnit::Hour) => Kind::Timestamp,
                Some(_) => Kind::Date,
            };
            let start = out.len();
            encode::value(&plan.table, &column.name, kind, &row.value(at)?, out)?;
            if by.unit == Some(TimeUnit::Hour) {
                self.zone.localize(out, start);
            }
            out.push(b',');
            at += 1;
        }
        key(COUNT, out);
        encode::value(&plan.table, COUNT, Kind::Int, &row.value(at)?, out)?;
        at += 1;
        for (function, fields) in &self.values {
            out.push(b',');
            key(&function.key(plan), out);
            for (number, index) in fields.iter().enumerate() {
                out.push(if number == 0 { b'{' } else { b',' });
                let column = plan.columns.at(*index);
                key(&column.key, out);
                match function {
                    Function::Min | Function::Max => {
                        encode::value(&plan.table, &column.name, column.kind, &row.value(at)?, out)?;
                    }
                    Function::CountDistinct => {
                        encode::value(&plan.table, &column.name, Kind::Int, &row.value(at)?, out)?;
                    }
                    Function::Sum => {
                        let value = row.value(at)?;
                        out.extend_from_slice(sum(column.kind, exact(plan, column, &value)?).as_bytes());
                    }
                    Function::Avg => {
                        let (value, count) = (row.value(at)?, row.value(at + 1)?);
                        out.extend_from_slice(average(column.kind, exact(plan, column, &value)?, &count).as_bytes());
                        at += 1;
                    }
                }
                at += 1;
            }
            out.push(b'}');
        }
        out.push(b'}');
        Ok(())
    }
}

fn key(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(serde_json::Value::from(name).to_string().as_bytes());
    out.push(b':');
}

/// The digits of an exact sum; `None` without values. On Postgres a sum is infinite or no number if one of its values is.
fn exact<'a>(plan: &Plan, column: &Column, value: &'a ValueRef<'_>) -> Result<Option<&'a str>, DatabaseError> {
    match value {
        ValueRef::Text(text) if text.bytes().all(|byte| matches!(byte, b'-' | b'.' | b'0'..=b'9')) => Ok(Some(text)),
        ValueRef::Null => Ok(None),
        _ => Err(DatabaseError::Corrupt {
            statement: format!("a sum of {}", plan.table),
            column: column.name.clone(),
            found: "a value that is not finite",
            expected: "a number",
        }),
    }
}

/// The groups of an answer in progress.
#[derive(Debug, Clone, Default)]
struct Groups {
    json: Vec<u8>,
    count: usize,
    has_more: bool,
    /// How many groups are left out, because a value of theirs cannot be read.
    unreadable: u32,
}

/// The groups as a JSON array, whether there are more than fit into one answer, and how many are unreadable.
pub(super) async fn read(
    tx: &Tx,
    plan: &Arc<Plan>,
    scope: &Scope,
    most: usize,
    grouping: &Grouping,
) -> Result<(Vec<u8>, bool, u32), Error> {
    let sql = grouping.statement(plan, scope.condition());
    let (plan, asked) = (plan.clone(), grouping.clone());
    let found = tx.fold(sql, scope.params.clone(), Groups::default(), move |groups, row| {
        if groups.has_more || groups.count == MAX_GROUPS {
            groups.has_more = true;
            return Ok(());
        }
        let start = groups.json.len();
        groups.json.push(if groups.count == 0 { b'[' } else { b',' });
        match asked.append(&plan, row, &mut groups.json) {
            Ok(()) => {}
            Err(error @ DatabaseError::Corrupt { .. }) => {
                tracing::error!(table = %plan.table, %error, "a group of records has an unreadable value and is left out");
                groups.json.truncate(start);
                groups.unreadable += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        if groups.json.len() > most && groups.count > 0 {
            groups.json.truncate(start);
            groups.has_more = true;
            return Ok(());
        }
        groups.count += 1;
        Ok(())
    });
    let mut groups = found.await?;
    if groups.count == 0 {
        groups.json.push(b'[');
    }
    groups.json.push(b']');
    Ok((groups.json, groups.has_more, groups.unreadable))
}
