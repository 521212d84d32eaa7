//! Whether a caller is admitted, and how far they reach.

use std::sync::Arc;

use gatewright_http::Problem;
use http::HeaderName;

use super::entities::Entities;
use super::table::Table;
use crate::access::{Action, Reach, Refusal, decide, decide_export};
use crate::call::Call;
use crate::condition::{Bound, Rule, Viewer, caller};
use crate::declare::Target;
use crate::error::Error;
use crate::plan::Plan;
use crate::readable::FieldRights;
use crate::tenancy::{self, Named, Standing};

/// A caller who was admitted to write: how far they reach, and their standing in the request's tenant, if the entity or
/// its relations need it.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    pub(crate) reach: Reach,
    pub(crate) standing: Standing,
    /// The access rule of the action itself; the one for reading is part of the reach.
    pub(crate) rule: Option<Bound>,
    /// Whom rules refer to. Absent for operators, whom no access rule limits, and where there are no rules.
    pub(crate) viewer: Option<Arc<Viewer>>,
    /// The fields that the caller may read.
    pub(crate) rights: FieldRights,
}

/// Admits a caller to write, or returns the reason why not.
pub(crate) async fn admit(table: Table<'_>, call: &Call, action: Action) -> Result<Admission, Error> {
    let (reach, viewer) = judged(table, call, action).await?;
    let standing = standing_of_relations(table, call, &reach).await?;
    let plan = table.plan;
    let rule = plan.row_rules.get(action).zip(viewer.as_ref()).map(|(rule, viewer)| bound(plan, rule, viewer));
    let rights = field_rights(table.entities, call).await?;
    Ok(Admission { reach, standing, rule, viewer, rights })
}

/// Whether a caller who may read the entity may export it too. Somebody who acts as the user of a session may not.
pub(crate) async fn may_export(table: Table<'_>, call: &Call) -> Result<(), Error> {
    if call.is_operators() {
        return Ok(());
    }
    if call.identity.principal().is_some_and(|principal| principal.impersonated_by().is_some()) {
        return Err(Problem::forbidden("an operator who acts as a user cannot do this")
            .with_code("impersonated")
            .into());
    }
    let standing = standing(table, call).await?;
    Ok(decide_export(table.entities.policy(), &table.plan.rules, &call.identity, &standing)?)
}

/// The fields of each entity that the caller may read. The operator reads all.
pub(crate) async fn field_rights(entities: &Entities, call: &Call) -> Result<FieldRights, Error> {
    if call.is_operators() || !entities.plans().iter().any(|plan| !plan.read_rules.is_empty()) {
        return Ok(FieldRights::ALL);
    }
    let names_tenant = |plan: &Arc<Plan>| {
        let written =
            plan.write_rules.fields.iter().filter(|(index, _)| plan.read_rules.iter().any(|(of, _)| of == index));
        plan.read_rules.iter().chain(written).any(|(_, rule)| rule.resolved.names_tenant)
    };
    let standing = if entities.plans().iter().any(names_tenant) {
        Box::pin(named_standing(entities, call)).await?
    } else {
        Standing::Unnamed
    };
    let viewer = Viewer::new(&call.identity, &standing, entities.ambient().now());
    Ok(FieldRights::of_viewer(entities.plans(), &viewer))
}

/// How far the caller reaches with `action`, or why not.
pub(crate) async fn reach(table: Table<'_>, call: &Call, action: Action) -> Result<Reach, Error> {
    judged(table, call, action).await.map(|(reach, _)| reach)
}

/// How far the caller reaches, and the viewer that rules refer to, if there are any.
async fn judged(table: Table<'_>, call: &Call, action: Action) -> Result<(Reach, Option<Arc<Viewer>>), Error> {
    let Table { entities, plan } = table;
    if call.is_operators() {
        is_served(plan, action)?;
        return Ok((operator_reach(call, plan, action, &entities.policy().tenant_header)?, None));
    }
    let standing = standing(table, call).await?;
    let reach = admitted(table, call, &standing, action)?;
    if !plan.needs_viewer() {
        return Ok((reach, None));
    }
    let viewer = Arc::new(Viewer::new(&call.identity, &standing, entities.ambient().now()));
    // What is changed or deleted must be readable too.
    let read = plan.row_rules.get(Action::Read).filter(|_| action != Action::Create);
    Ok((reach.under(read.map(|rule| bound(plan, rule, &viewer))), Some(viewer)))
}

/// How far a caller with this standing reaches, apart from the rules about records, or why not.
pub(crate) fn admitted(table: Table<'_>, call: &Call, standing: &Standing, action: Action) -> Result<Reach, Error> {
    let Table { entities, plan } = table;
    is_served(plan, action)?;
    let reach = decide(entities.policy(), &plan.rules, &call.identity, standing, action)?;
    let Some(rule) = &plan.readers else { return Ok(reach) };
    let viewer = Viewer::new(&call.identity, standing, entities.ambient().now());
    if caller::is_true(&rule.resolved.condition, &viewer) {
        Ok(reach)
    } else {
        Err(Refusal::NotReader(plan.name.clone()).into())
    }
}

/// Nobody writes what is read-only.
fn is_served(plan: &Plan, action: Action) -> Result<(), Error> {
    if plan.is_read_only && action != Action::Read {
        return Err(Error::ReadOnly(plan.name.to_string()));
    }
    Ok(())
}

/// How far the operator reaches.
fn operator_reach(call: &Call, plan: &Plan, action: Action, header: &HeaderName) -> Result<Reach, Error> {
    if plan.tenant.is_none() {
        return Ok(Reach::ALL);
    }
    match &call.tenant {
        Named::Tenant(tenant) => Ok(Reach::ALL.within(tenant.clone())),
        // A new record must belong to one of them.
        Named::Nothing if action == Action::Create => Err(Refusal::NoTenant(header.to_string()).into()),
        Named::Nothing => Ok(Reach::ALL),
        Named::Unreadable => Err(Refusal::UnreadableTenant.into()),
    }
}

/// A rule for a caller.
pub(crate) fn bound(plan: &Plan, rule: &Arc<Rule>, viewer: &Arc<Viewer>) -> Bound {
    Bound {
        catalog: plan.catalog.clone(),
        engine: plan.engine,
        rule: rule.clone(),
        viewer: viewer.clone(),
        guards: Arc::default(),
    }
}

/// The caller's standing in the tenant that the request named; looked up only if the entity has tenants.
pub(crate) async fn standing(table: Table<'_>, call: &Call) -> Result<Standing, Error> {
    if table.plan.tenant.is_none() && !table.plan.names_tenant {
        return Ok(Standing::Unnamed);
    }
    named_standing(table.entities, call).await
}

/// The same for any entity. The operator need not be a member.
pub(crate) async fn named_standing(entities: &Entities, call: &Call) -> Result<Standing, Error> {
    if call.is_operators() {
        return Ok(match &call.tenant {
            Named::Tenant(tenant) => Standing::Member(tenant.clone().into()),
            Named::Nothing => Standing::Unnamed,
            Named::Unreadable => Standing::Unreadable,
        });
    }
    Ok(tenancy::standing(entities.memberships(), &call.identity, &call.tenant).await?)
}

/// The same, if the entity's relations need it. `reach` is that of the write, whose tenant was looked up already.
async fn standing_of_relations(table: Table<'_>, call: &Call, reach: &Reach) -> Result<Standing, Error> {
    if let Some(membership) = reach.membership() {
        return Ok(Standing::Member(membership.clone()));
    }
    for field in table.plan.fields.iter() {
        if let Some(Target::Entity(index)) = field.relation.map(|relation| relation.to).or(field.links) {
            let target = table.other(index);
            if target.plan.tenant.is_some() || target.plan.names_tenant {
                return standing(target, call).await;
            }
        }
    }
    Ok(Standing::Unnamed)
}
