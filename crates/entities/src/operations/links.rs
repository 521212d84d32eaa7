//! Relations to records that belong to somebody, or to a tenant.
//!
//! A foreign key knows whether a record exists, not whose it is. Without a check, whoever learns the id of another
//! account's record could hang records on it and, with `restrict`, keep its owner from deleting it. So a relation to an
//! owned or multi-tenant entity must name a record that the caller could read, in the request's own tenant; any other
//! looks like one that does not exist. So does one that is in the trash, where the foreign key would still find it.

use std::sync::Arc;

use gatewright_db::{Error as DatabaseError, Sql, Tx, Value, params};

use super::{Call, Error};
use crate::access::{Action, Reach, Standing, decide};
use crate::condition::Viewer;
use crate::declare::Target;
use crate::entities::Entities;
use crate::plan::Plan;

/// A record that must be the caller's.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// The field's key on the wire.
    key: String,
    sql: Sql,
    params: Vec<Value>,
}

/// How the caller stands to the request's tenant, as far as the entity's relations need to know. `reach` is that of the
/// write, whose tenant was looked up already.
pub(super) async fn standing(entities: &Entities, plan: &Plan, call: &Call, reach: &Reach) -> Result<Standing, Error> {
    if let Some(tenant) = reach.tenant() {
        return Ok(Standing::Member(tenant.clone()));
    }
    for field in plan.fields.iter() {
        if let Some(Target::Entity(index)) = field.relation.map(|relation| relation.to)
            && (entities.at(index).tenant.is_some() || entities.at(index).names_tenant)
        {
            return super::standing(entities, entities.at(index), call).await;
        }
    }
    Ok(Standing::Unnamed)
}

/// The links that a write's values make.
pub(super) fn links(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    standing: &Standing,
    values: &[Option<Value>],
) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    let mut unreachable = Vec::new();
    for (field, value) in plan.given(values) {
        let (Some(relation), Value::Text(id)) = (field.relation, value) else { continue };
        let Target::Entity(index) = relation.to else { continue };
        let target = entities.at(index);
        let rule = target.row_rules.get(Action::Read);
        let is_kept = target.owner.is_some() || target.tenant.is_some() || rule.is_some();
        if !is_kept && !target.soft_delete {
            continue;
        }
        let reach = match decide(entities.policy(), &target.rules, &call.identity, standing, Action::Read) {
            Ok(reach) => {
                let viewer = || Arc::new(Viewer::new(&call.identity, standing, entities.ambient().now()));
                reach.under(rule.map(|rule| super::bound(target, rule, &viewer())))
            }
            // A record that is nobody's in particular may be pointed at like any other, in the trash or not.
            Err(_) if !is_kept => Reach::ALL,
            Err(_) => {
                unreachable.push(field.key.clone());
                continue;
            }
        };
        if reach != Reach::ALL || target.soft_delete {
            links.push(Link {
                key: field.key.clone(),
                sql: target.sql.exists(Some(&reach)),
                params: params![id].into_iter().chain(reach.params()).collect(),
            });
        }
    }
    if unreachable.is_empty() { Ok(links) } else { Err(Error::no_such_relation(unreachable)) }
}

/// Fails when a link's record is not there or not the caller's.
pub(super) async fn check(tx: &Tx, links: &[Link]) -> Result<(), Error> {
    let mut missing = Vec::new();
    for link in links {
        if tx.query_opt(&link.sql, link.params.clone()).await?.is_none() {
            missing.push(link.key.clone());
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Error::no_such_relation(missing)) }
}

/// After a foreign key refused a write, on its own or inside `tx`: which of its relations name no record. SQLite does not
/// tell.
pub(super) async fn explain(entities: &Entities, tx: Option<&Tx>, plan: &Plan, values: &[Option<Value>]) -> Error {
    let mut missing = Vec::new();
    for (field, value) in plan.given(values) {
        let (Some(relation), Value::Text(id)) = (field.relation, value) else { continue };
        let sql = match relation.to {
            Target::Entity(index) => entities.at(index).sql.exists(None),
            Target::Users => match entities.users_exist() {
                Some(sql) => sql,
                None => continue,
            },
        };
        match is_there(entities, tx, &sql, id).await {
            // The owner's column is stamped: a caller whose account is gone is no mistake of the body.
            Ok(false) if field.is_writable() => missing.push(field.key.clone()),
            Ok(_) => {}
            Err(error) => return error.into(),
        }
    }
    if missing.is_empty() { Error::LostRelation } else { Error::no_such_relation(missing) }
}

/// A transaction alone sees what it has made. Postgres has given it up by now and answers nothing in it any more: there
/// another connection is asked, and SQLite, whose writer this would hold up, never comes to that.
async fn is_there(entities: &Entities, tx: Option<&Tx>, sql: &Sql, id: &str) -> Result<bool, DatabaseError> {
    if let Some(tx) = tx
        && let Ok(found) = tx.query_opt(sql, params![id]).await
    {
        return Ok(found.is_some());
    }
    Ok(entities.db().query_opt(sql.clone(), params![id]).await?.is_some())
}
