//! `filter=` with paths, back relations and `@` words, under the caller's own rights.
//!
//! A related record counts if the caller could read it: its entity's permission, owner, tenant and read rule hold. A path into
//! an entity that the caller may not read at all is refused, as `include` is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::access::{Action, Standing};
use crate::condition::resolve::{Rights, resolve};
use crate::condition::{Bound, Rule, Viewer};
use crate::entities::Entities;
use crate::filter::syntax::Expression;
use crate::operations::{Call, Error, reach};
use crate::plan::Plan;
use crate::tenancy;

/// The most values that one such filter compares with.
const MOST_VALUES: usize = 10_000;

pub(super) async fn condition(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    expression: &Expression,
) -> Result<Bound, Error> {
    let resolved = resolve(expression, &plan.catalog, plan.index, Rights::Reader)
        .map_err(|fault| Error::Query(format!("filter: {fault}")))?;
    if resolved.condition.values() > MOST_VALUES {
        return Err(Error::Query(format!("filter: a list compares with at most {MOST_VALUES} values in all")));
    }
    let mut guards = BTreeMap::new();
    let mut needs_tenant = resolved.names_tenant;
    for index in &resolved.entities {
        let target = entities.at(*index);
        if !call.surface.serves(target) {
            return Err(Error::NotServed(target.name.to_string()));
        }
        needs_tenant |= target.tenant.is_some();
        guards.insert(*index, reach(entities, target, call, Action::Read).await?);
    }
    let standing = if needs_tenant {
        tenancy::standing(entities.memberships(), &call.identity, &call.tenant).await?
    } else {
        Standing::Unnamed
    };
    Ok(Bound {
        catalog: plan.catalog.clone(),
        engine: plan.engine,
        rule: Arc::new(Rule { text: "filter".to_owned(), resolved }),
        viewer: Arc::new(Viewer::new(&call.identity, &standing, entities.ambient().now())),
        guards: Arc::new(guards),
    })
}
