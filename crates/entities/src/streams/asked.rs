//! The parameters of a stream.

use std::sync::Arc;

use gatewright_base::nearest;
use gatewright_http::Problem;

use crate::context::entities::Entities;
use crate::filter::syntax::Expression;
use crate::filter::{self, Predicate};
use crate::operations;
use crate::readable::FieldRights;

/// The most entities of a stream.
const MOST: usize = 50;
/// The parameter that names them.
const ENTITIES: &str = "entities";

/// An entity that a stream carries.
pub(super) struct Selected {
    /// Its position.
    pub(super) index: usize,
    /// The parameter with its filter.
    pub(super) filter: String,
}

/// The entities that a query names.
pub(super) fn selected(entities: &Entities, query: &str) -> Result<Vec<Selected>, Problem> {
    let refused = |detail: &str| Err(Problem::bad_request(detail.to_owned()));
    let mut given = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == ENTITIES);
    let named = given.next().map(|(_, named)| named).unwrap_or_default();
    if given.next().is_some() {
        return refused("the parameter \"entities\" is given more than once");
    }
    if named.is_empty() {
        return refused("name the entities: entities=tickets,comments");
    }
    if named.split(',').count() > MOST {
        return Err(Problem::bad_request(format!("a stream carries at most {MOST} entities")));
    }
    let mut selected: Vec<Selected> = Vec::new();
    for name in named.split(',') {
        let found = entities.table(name).ok().map(|table| table.plan()).filter(|plan| plan.crud());
        // As at its own address.
        let Some(plan) = found else { return Err(Problem::not_found("there is nothing at this path")) };
        if plan.is_read_only {
            return Err(Problem::bad_request(format!("entities: \"{name}\" changes without events")));
        }
        if selected.iter().any(|other| other.index == plan.index) {
            return Err(Problem::bad_request(format!("entities: \"{name}\" is named more than once")));
        }
        selected.push(Selected { index: plan.index, filter: format!("filter.{name}") });
    }
    Ok(selected)
}

/// The filter of one entity. Both are `None` without a filter.
#[derive(Default)]
pub(super) struct Filter {
    /// What the record itself decides.
    pub(super) plain: Option<Predicate>,
    /// A filter that the database evaluates, because the record itself is not enough.
    pub(super) related: Option<Arc<Expression>>,
}

/// The parameters that select records.
pub(super) struct Asked {
    /// One for each entity.
    pub(super) filters: Vec<Filter>,
    /// Whether records carry their entity tags.
    pub(super) tags: bool,
}

impl Asked {
    /// Reads filters and `etag`, and refuses parameters that are not known: one that is silently ignored could be a
    /// condition that its author believes in.
    pub(super) fn read(
        query: &str,
        entities: &Entities,
        selected: &[Selected],
        rights: &FieldRights,
    ) -> Result<Self, Problem> {
        let mut known = vec!["slow", "subscriber_id", "etag", "tenant"];
        known.extend(entities.log().map(|_| "since"));
        known.extend(selected.iter().map(|one| &*one.filter));
        if selected.iter().all(|one| one.filter != "filter") {
            known.push(ENTITIES);
        }
        let mut filters: Vec<Option<Filter>> = selected.iter().map(|_| None).collect();
        let mut tags = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = selected.iter().position(|one| *one.filter == *name);
            let is_repeated = match (&*name, place) {
                (_, Some(_)) if value.is_empty() => false,
                (_, Some(place)) => {
                    let index = selected[place].index;
                    let filter =
                        Filter::read(&value, entities, index, rights).map_err(|error| format!("{name}: {error}"));
                    filters[place].replace(filter.map_err(Problem::bad_request)?).is_some()
                }
                ("etag", _) => tags.replace(operations::tags(&value).map_err(Problem::bad_request)?).is_some(),
                (name, _) if known.contains(&name) => false,
                (name, _) => {
                    let name: String = name.chars().take(64).collect();
                    let hint = nearest(&name, known).map(|meant| format!("; did you mean \"{meant}\"?"));
                    let detail = format!("there is no parameter \"{name}\"{}", hint.unwrap_or_default());
                    return Err(Problem::bad_request(detail));
                }
            };
            if is_repeated {
                return Err(Problem::bad_request(format!("the parameter \"{name}\" is given more than once")));
            }
        }
        let filters = filters.into_iter().map(Option::unwrap_or_default).collect();
        Ok(Self { filters, tags: tags.unwrap_or_default() })
    }
}

impl Filter {
    fn read(text: &str, entities: &Entities, index: usize, rights: &FieldRights) -> Result<Self, String> {
        let expression = filter::syntax::parse(text).map_err(|error| error.to_string())?;
        let names = entities.at(index).columns.seen_by(rights.of(index));
        if filter::typed::is_plain(&expression, names) {
            Ok(Self { plain: Some(filter::typed::resolve(&expression, names)?), related: None })
        } else {
            Ok(Self { plain: None, related: Some(Arc::new(expression)) })
        }
    }
}
