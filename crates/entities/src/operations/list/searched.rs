//! `q=` on an entity with an index of words, `prefix`, `highlight` and the rank.

use std::sync::Arc;

use gatewright_db::Value;

use crate::filter::Names;
use crate::fragment::quoted;
use crate::plan::{HIGHLIGHT, Keyset, PREFIX, Plan, RANK};
use crate::query::ListQuery;
use crate::search::{Indexed, Query, Sought};

/// The maximum number of characters of `q`.
const LONGEST_SEARCH: usize = 200;
/// The key of what was found, in a record.
const HIGHLIGHTS: &str = "_highlights";

/// Refuses a text that is too long to be searched for.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.contains('\0') || text.chars().nth(LONGEST_SEARCH).is_some() {
        return Err(format!("q takes at most {LONGEST_SEARCH} characters, and not U+0000"));
    }
    Ok(())
}

/// What an index of words is asked for, in the fields that the caller may read. `None` if there is no index.
pub(super) fn read(
    plan: &Plan,
    asked: &ListQuery,
    text: &str,
    names: Names<'_>,
) -> Result<Option<Arc<Sought>>, String> {
    let Some(index) = &plan.index_of_words else { return Ok(None) };
    let is_readable = |column: &str| plan.columns.declared(column).is_some_and(|place| names.has(place));
    let fields = index.fields.iter().enumerate().filter(|(_, field)| is_readable(&field.column));
    let fields: Vec<usize> = fields.map(|(place, _)| place).collect();
    if fields.is_empty() {
        return Err("q: none of the fields here can be searched".to_owned());
    }
    check(text)?;
    is_set(plan, asked, HIGHLIGHT)?;
    let query = Query::read(text, index.language, is_set(plan, asked, PREFIX)?)?;
    Ok(Some(Arc::new(Sought { index: index.clone(), query, fields })))
}

/// Whether a parameter that goes with a search is true.
pub(super) fn is_set(plan: &Plan, asked: &ListQuery, name: &str) -> Result<bool, String> {
    let given = asked.conditions.iter().find(|(given, _)| given == name && plan.takes_with_search(name));
    match given.map(|(_, value)| value.as_str()) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(format!("{name} is true or false")),
    }
}

/// The column of the rank, its parameters numbered from `first`, if the order has it.
pub(super) fn rank(sought: Option<&Sought>, order: Option<&Keyset>, first: usize) -> Option<(String, Vec<Value>)> {
    let sought = sought.filter(|_| order.is_some_and(Keyset::ranks))?;
    let mut params = Vec::new();
    let rank = sought.rank(&mut |value| {
        params.push(value);
        format!("?{}", first + params.len() - 1)
    });
    Some((format!("{rank} AS {}", quoted(RANK)), params))
}

/// The columns whose words a record shows: those that it shows itself.
pub(super) fn columns<'a>(plan: &Plan, sought: Option<&'a Sought>, shown: Option<&[usize]>) -> Vec<&'a str> {
    let is_shown = |column: &str| {
        let place = plan.shape.position(column);
        place.is_some_and(|place| shown.is_none_or(|shown| shown.contains(&place)))
    };
    let fields = sought.into_iter().flat_map(Sought::fields).map(|field| &*field.column);
    fields.filter(|column| is_shown(column)).collect()
}

/// The most bytes of texts in which a page shows what was found, in addition to one record of any size.
pub(super) const LONGEST_PAGE: usize = 1 << 20;

/// The bytes in which is looked for what was found.
pub(super) fn length(texts: &[Value]) -> usize {
    texts.iter().map(|text| if let Value::Text(text) = text { text.len() } else { 0 }).sum()
}

/// Adds what was found in these texts to a record.
pub(super) fn append(plan: &Plan, sought: &Sought, texts: (&[&str], &[Value]), out: &mut Vec<u8>) {
    if out.pop() != Some(b'}') {
        return;
    }
    out.extend_from_slice(format!(",\"{HIGHLIGHTS}\":{{").as_bytes());
    let mut is_first = true;
    for (column, text) in texts.0.iter().zip(texts.1) {
        let Value::Text(text) = text else { continue };
        let places = Indexed::of(text, sought.index.language).highlights(text, &sought.query);
        if places.is_empty() {
            continue;
        }
        let key = plan.case.spell(column);
        let comma = if std::mem::take(&mut is_first) { "" } else { "," };
        out.extend_from_slice(format!("{comma}\"{key}\":{}", serde_json::json!(places)).as_bytes());
    }
    out.extend_from_slice(b"}}");
}
