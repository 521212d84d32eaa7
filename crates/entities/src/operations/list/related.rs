//! `filter=` with paths, back relations and `@` words, and `sort=` with paths, under the caller's own rights.
//!
//! A related record counts if the caller could read it: its entity's permission, owner, tenant and read rule hold. A path into
//! an entity that the caller may not read at all is refused, as `include` is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gatewright_db::Value;

use super::parameters::{Paging, Query};
use super::searched;
use crate::access::{Action, Standing};
use crate::call::Call;
use crate::condition::follow::Reader;
use crate::condition::resolve::{Rights, resolve};
use crate::condition::{Bound, Rule, Viewer};
use crate::context::admission::{field_rights, named_standing, reach};
use crate::context::table::Table;
use crate::error::Error;
use crate::filter::syntax::Expression;
use crate::fragment::quoted;
use crate::plan::{Keyset, Scope};

/// The most values that such a filter compares with.
const MAX_VALUES: usize = 10_000;

impl Table<'_> {
    /// A filter's condition under the caller's own rights. A caller who may not read a related entity is refused.
    pub(crate) async fn condition(self, call: &Call, expression: &Expression) -> Result<Bound, Error> {
        let plan = self.plan;
        let rights = field_rights(self.entities, call).await?;
        let resolved = resolve(expression, &plan.catalog, plan.index, Rights::Reader(&rights))
            .map_err(|fault| Error::Query(format!("filter: {fault}")))?;
        if resolved.condition.values() > MAX_VALUES {
            return Err(Error::Query(format!("filter: a list compares with at most {MAX_VALUES} values in all")));
        }
        let reader = reader(self, call, &resolved.entities, resolved.names_tenant).await?;
        Ok(Bound {
            catalog: reader.catalog,
            engine: reader.engine,
            rule: Arc::new(Rule { text: "filter".to_owned(), resolved }),
            viewer: reader.viewer,
            guards: reader.guards,
        })
    }
}

/// The rows of a list with what it is sorted by and its table has no column for: the ends of paths, and the rank of a search. An index
/// that does not have all records yet is [`Error::SearchBuilding`].
pub(super) async fn sorted(table: Table<'_>, call: &Call, query: &Query, scope: Scope) -> Result<Scope, Error> {
    if let Some(sought) = &query.sought
        && !sought.index.is_built(table.entities.db()).await?
    {
        return Err(Error::SearchBuilding);
    }
    let first = scope.params.len() + 1;
    let paths = paths(table, call, &query.paging, first).await?;
    let next = first + paths.as_ref().map_or(0, |(_, params)| params.len());
    let rank = searched::rank(query.sought.as_deref(), query.paging.sort(), next);
    let (columns, params): (Vec<_>, Vec<_>) = paths.into_iter().chain(rank).unzip();
    Ok(if columns.is_empty() { scope } else { scope.with(columns.join(", "), params.concat()) })
}

/// The columns at the ends of the paths that a list is sorted by, their parameters numbered from `first`. `None` if it is
/// sorted only by its own columns.
async fn paths(
    table: Table<'_>,
    call: &Call,
    paging: &Paging,
    first: usize,
) -> Result<Option<(String, Vec<Value>)>, Error> {
    let paths = || paging.sort().into_iter().flat_map(Keyset::paths);
    let on_the_way: BTreeSet<usize> = paths().flat_map(|(_, path)| path.entities.iter().copied()).collect();
    if on_the_way.is_empty() {
        return Ok(None);
    }
    let reader = Box::pin(reader(table, call, &on_the_way, false)).await?;
    Ok(Some(reader.columns(&quoted(&table.plan.table), paths(), first)))
}

/// How far the caller reaches in the entities that paths lead to.
async fn reader(
    table: Table<'_>,
    call: &Call,
    on_the_way: &BTreeSet<usize>,
    names_tenant: bool,
) -> Result<Reader, Error> {
    let Table { entities, plan } = table;
    let mut guards = BTreeMap::new();
    let mut needs_tenant = names_tenant;
    for index in on_the_way {
        let target = table.other(*index);
        if !call.surface.serves(target.plan) {
            return Err(Error::NotServed(target.plan.name.to_string()));
        }
        needs_tenant |= target.plan.tenant.is_some() || target.plan.names_tenant;
        guards.insert(*index, reach(target, call, Action::Read).await?);
    }
    let standing = if needs_tenant { named_standing(entities, call).await? } else { Standing::Unnamed };
    Ok(Reader {
        catalog: plan.catalog.clone(),
        engine: plan.engine,
        viewer: Arc::new(Viewer::new(&call.identity, &standing, entities.ambient().now())),
        guards: Arc::new(guards),
    })
}
