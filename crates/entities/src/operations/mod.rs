//! What can be done with records: one function for each operation, and no HTTP in any of them.
//!
//! Each takes a [`Call`] (who asks) and input as it came, and goes the same way: [`access`](crate::access) decides how
//! far the caller reaches; the input is parsed by the entity's [`Plan`]; SQL runs that is bounded by that reach; and the
//! event goes out once the write is durable. REST and tools are thin faces over these functions, so that they cannot
//! differ.
//!
//! # The path of a write
//!
//! [`write`] runs it. Where nothing else belongs into its transaction it is a single statement with RETURNING, which
//! both engines commit on their own. Where something does (a precondition, a relation to somebody's record, a
//! [`WriteHook`], the entity's [`Hooks`]) it is one transaction. Either way the record is encoded once, from the row that RETURNING gave
//! or, where the database keeps what it is given, from the values of an INSERT: the bytes that answer the writer are the bytes of the
//! event.

mod authority;
mod batch;
pub(crate) mod before;
mod cascade;
mod create;
mod current;
mod delete;
mod error;
mod explain;
mod get;
mod hook;
mod hooks;
mod leaving;
mod links;
mod list;
mod narrow;
mod precondition;
mod restore;
mod rules;
mod staging;
mod surface;
mod transaction;
mod update;
mod values;
mod view;
mod write;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use gatewright_base::{Identity, TenantId};

use crate::access::{Action, Reach, Standing, decide};
use crate::condition::{Bound, Rule, Viewer};
use crate::encode::Record;
use crate::entities::Entities;
use crate::filter::syntax::Expression;
use crate::plan::Plan;
use crate::tenancy::{self, Named};

pub(crate) use authority::Authority;
pub use batch::{Batch, MOST_ITEMS};
pub(crate) use current::{Print, print};
pub use error::Error;
pub use explain::{Check, Explanation, Term, Values as TermValues};
pub use hook::{Change, HookFuture, WriteHook};
pub use hooks::{Hooks, Object, ReadFuture, Values, Writing};
pub use leaving::{Owned, OwnedRecords};
pub(crate) use list::cursor::CursorKey;
pub(crate) use list::gate::Gate;
pub use list::gate::ListLimits;
pub(crate) use list::parameters::tags;
pub use list::{List, PagePlace, Total};
pub use precondition::IfMatch;
pub use surface::Surface;
pub use transaction::Transaction;
pub use view::Viewed;

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The caller, as authentication found them.
    pub identity: Identity,
    /// The tenant that the request named. It counts on multi-tenant entities alone, and only for its members.
    pub tenant: Named,
    /// Where the request came from, if it is known. For the record alone.
    pub address: Option<IpAddr>,
    /// By which surface it came.
    pub surface: Surface,
    /// By what right it is made.
    pub(crate) authority: Authority,
}

impl Call {
    /// The same call from an address.
    pub fn from_address(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }

    /// The same call by a surface.
    pub fn through(self, surface: Surface) -> Self {
        Self { surface, ..self }
    }

    /// The same call for a tenant.
    pub fn in_tenant(self, tenant: TenantId) -> Self {
        Self { tenant: tenant.into(), ..self }
    }
}

impl From<Identity> for Call {
    fn from(identity: Identity) -> Self {
        Self { identity, ..Self::default() }
    }
}

impl From<&Identity> for Call {
    fn from(identity: &Identity) -> Self {
        Self::from(identity.clone())
    }
}

/// The operations of all entities. Cheap to clone.
///
/// # Panics
///
/// All of them, with a [`Plan`] that belongs to other [`Entities`].
#[derive(Debug, Clone)]
pub struct Operations(Entities);

impl Operations {
    pub(crate) fn new(entities: Entities) -> Self {
        Self(entities)
    }

    /// One page of the records that the caller reaches. `query` is the list's parameters: `page`, `limit`, `sort`,
    /// `cursor`, `direction`, `fields`, `include`, `etag`, `q`, `filter`, `trashed`, `group`, `sum`, `min`, `max`, `avg`, and
    /// conditions on fields.
    pub async fn list(&self, plan: &Plan, call: &Call, query: &[(String, String)]) -> Result<List, Error> {
        let Some(hooks) = self.0.hooks_of(plan) else { return list::list(&self.0, plan, call, query).await };
        let mut query = query.to_vec();
        reach(&self.0, plan, call, Action::Read).await?;
        hooks.before_list(call, &mut query).await?;
        let mut list = list::list(&self.0, plan, call, &query).await?;
        if list.place == PagePlace::Groups {
            return Ok(list);
        }
        let mut records: Vec<Object> = serde_json::from_slice(&list.json).map_err(Error::hook)?;
        hooks.after_list(call, &mut records).await?;
        list.json = serde_json::to_vec(&records).map_err(Error::hook)?;
        Ok(list)
    }

    /// The record with that id, if the caller reaches it.
    pub async fn get(&self, plan: &Plan, call: &Call, id: &str) -> Result<Record, Error> {
        let Some(hooks) = self.0.hooks_of(plan) else { return get::get(&self.0, plan, call, id).await };
        reach(&self.0, plan, call, Action::Read).await?;
        hooks.before_get(call, id).await?;
        let record = get::get(&self.0, plan, call, id).await?;
        let mut object: Object = serde_json::from_slice(record.json()).map_err(Error::hook)?;
        hooks.after_get(call, &mut object).await?;
        Ok(record.showing(serde_json::to_vec(&object).map_err(Error::hook)?))
    }

    /// The record with that id, shown as `query` asks: with some `fields` alone, with related records
    /// (`include`), or with its entity tag (`etag`).
    pub async fn view(&self, plan: &Plan, call: &Call, id: &str, query: &[(String, String)]) -> Result<Viewed, Error> {
        let Some(hooks) = self.0.hooks_of(plan) else { return view::view(&self.0, plan, call, id, query).await };
        reach(&self.0, plan, call, Action::Read).await?;
        hooks.before_get(call, id).await?;
        let viewed = view::view(&self.0, plan, call, id, query).await?;
        let mut object: Object = serde_json::from_slice(&viewed.json).map_err(Error::hook)?;
        hooks.after_get(call, &mut object).await?;
        // The tag stays the record's own: by it a change is made conditional on what is stored.
        Ok(Viewed { json: serde_json::to_vec(&object).map_err(Error::hook)?.into(), ..viewed })
    }

    /// Makes a record of a JSON object.
    pub async fn create(&self, plan: &Plan, call: &Call, body: &[u8]) -> Result<Record, Error> {
        create::create(&self.0, plan, call, body).await
    }

    /// Changes the fields that a JSON object names, and leaves the others as they are. An object that names none
    /// changes nothing, is no write and emits no event. Of the record, callers who may not read it are shown what they
    /// wrote alone.
    pub async fn update(
        &self,
        plan: &Plan,
        call: &Call,
        id: &str,
        body: &[u8],
        if_match: Option<IfMatch>,
    ) -> Result<Record, Error> {
        let updated = update::update(&self.0, plan, call, id, body, if_match).await;
        self.told(plan, call, id, updated).await
    }

    /// Deletes a record, with those that go with it, and returns it as it last was.
    pub async fn delete(&self, plan: &Plan, call: &Call, id: &str, if_match: Option<IfMatch>) -> Result<Record, Error> {
        let deleted = delete::delete(&self.0, plan, call, id, if_match).await;
        self.told(plan, call, id, deleted).await
    }

    /// Runs many writes of one kind as one: `{"items":[…]}` of records to make or, each with its `id`, to change;
    /// `{"ids":[…]}` of records to delete. All of it happens, or nothing.
    pub async fn batch(&self, plan: &Plan, call: &Call, action: Action, body: &[u8]) -> Result<Batch, Error> {
        batch::batch(&self.0, plan, call, action, body).await
    }

    /// The result of a write to the record with that id. One that the write does not reach is told to be there to those who
    /// may read it, and to nobody else.
    async fn told<T>(&self, plan: &Plan, call: &Call, id: &str, written: Result<T, Error>) -> Result<T, Error> {
        match written {
            Err(Error::NotFound) if Box::pin(self.get(plan, call, id)).await.is_ok() => Err(Error::NotChangeable),
            written => written,
        }
    }

    /// Takes a record out of the trash, on entities with soft delete. One that is not there stays as it is. It is shown like
    /// an updated one.
    pub async fn restore(&self, plan: &Plan, call: &Call, id: &str) -> Result<Record, Error> {
        let restored = restore::restore(&self.0, plan, call, id).await;
        let record = self.told(plan, call, id, restored).await?;
        if plan.row_rules.iter().next().is_some() {
            return Ok(record);
        }
        let standing = self::standing(&self.0, plan, call).await?;
        Ok(narrow::narrowed(&self.0, plan, call, &standing, record, std::iter::empty()))
    }

    /// How far the caller reaches with `action`, or why not. The event streams ask this.
    pub async fn reach(&self, plan: &Plan, call: &Call, action: Action) -> Result<Reach, Error> {
        reach(&self.0, plan, call, action).await
    }

    /// Of the records with these ids, those that are there now and lie outside of `reach`.
    pub(crate) async fn out_of_reach(
        &self,
        plan: &Plan,
        reach: &Reach,
        ids: &[Option<String>],
    ) -> Result<HashSet<String>, Error> {
        current::out_of_reach(&self.0, plan, reach, ids).await
    }

    /// Of the records with these ids, those within `reach` as they are now, by their prints.
    pub(crate) async fn prints(
        &self,
        plan: &Plan,
        reach: &Reach,
        ids: &[Option<String>],
    ) -> Result<HashMap<String, Print>, Error> {
        current::prints(&self.0, plan, reach, ids).await
    }

    /// Why the caller may do something, or may not: with the record with this id, or with the entity as a whole. It is for
    /// operators: it tells whether records exist, and what related records hold. For [`Action::Create`] the record is judged as
    /// it is stored.
    pub async fn explain(
        &self,
        plan: &Plan,
        call: &Call,
        action: Action,
        id: Option<&str>,
    ) -> Result<Explanation, Error> {
        explain::explain(&self.0, plan, call, action, id).await
    }

    /// For each of some records as they were before a write, whether it lay within the rules of `reach`.
    pub(crate) async fn could_read(
        &self,
        plan: &Plan,
        reach: &Reach,
        before: &[(usize, &str)],
    ) -> Result<Vec<bool>, Error> {
        current::could_read(&self.0, plan, reach, before).await
    }

    /// What a filter asks of records under the caller's own rights. A caller who may not read a related entity is refused.
    pub(crate) async fn condition(&self, plan: &Plan, call: &Call, filter: &Expression) -> Result<Bound, Error> {
        list::condition(&self.0, plan, call, filter).await
    }

    /// Which of some records in wire form a filter of this caller lets through, with related records as they are now. `None` if
    /// it takes too long.
    pub(crate) async fn matching(
        &self,
        plan: &Plan,
        call: &Call,
        filter: &Bound,
        records: &[&str],
    ) -> Result<Option<Vec<bool>>, Error> {
        current::matching(&self.0, plan, filter, list::gate::share(call), records).await
    }

    /// For each entity and action whether the caller may, at the price of one look at the memberships.
    pub async fn allowed(&self, call: &Call, wanted: &[(&Plan, Action)]) -> Result<Vec<bool>, Error> {
        let mut standing = None;
        let mut allowed = Vec::with_capacity(wanted.len());
        for (plan, action) in wanted {
            if plan.tenant.is_some() && standing.is_none() {
                standing = Some(self::standing(&self.0, plan, call).await?);
            }
            let standing = standing.as_ref().filter(|_| plan.tenant.is_some()).unwrap_or(&Standing::Unnamed);
            allowed.push(decide(self.0.policy(), &plan.rules, &call.identity, standing, *action).is_ok());
        }
        Ok(allowed)
    }
}

/// A caller who was let in to write: how far they reach, and how they stand to the request's tenant, as far as the
/// entity and its relations need to know.
#[derive(Debug, Clone)]
struct Admission {
    reach: Reach,
    standing: Standing,
    /// The access rule of the action itself; the one for reading is part of the reach.
    rule: Option<Bound>,
}

async fn admit(entities: &Entities, plan: &Plan, call: &Call, action: Action) -> Result<Admission, Error> {
    let (reach, viewer) = judged(entities, plan, call, action).await?;
    let standing = links::standing(entities, plan, call, &reach).await?;
    let rule = plan.row_rules.get(action).zip(viewer.as_ref()).map(|(rule, viewer)| bound(plan, rule, viewer));
    Ok(Admission { reach, standing, rule })
}

async fn reach(entities: &Entities, plan: &Plan, call: &Call, action: Action) -> Result<Reach, Error> {
    judged(entities, plan, call, action).await.map(|(reach, _)| reach)
}

/// How far the caller reaches, and for whom rules ask where there are any.
async fn judged(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    action: Action,
) -> Result<(Reach, Option<Arc<Viewer>>), Error> {
    let is_ours = entities.plans().get(plan.index).is_some_and(|ours| std::ptr::eq(&raw const **ours, plan));
    assert!(is_ours, "the plan belongs to the entities whose operations these are");
    if call.is_operators() {
        return Ok((call.operator_reach(plan, action, &entities.policy().tenant_header)?, None));
    }
    let standing = standing(entities, plan, call).await?;
    let reach = decide(entities.policy(), &plan.rules, &call.identity, &standing, action)?;
    if plan.row_rules.iter().next().is_none() {
        return Ok((reach, None));
    }
    let viewer = Arc::new(Viewer::new(&call.identity, &standing, entities.ambient().now()));
    // What is changed or deleted must be readable too.
    let read = plan.row_rules.get(Action::Read).filter(|_| action != Action::Create);
    Ok((reach.under(read.map(|rule| bound(plan, rule, &viewer))), Some(viewer)))
}

fn bound(plan: &Plan, rule: &Arc<Rule>, viewer: &Arc<Viewer>) -> Bound {
    Bound {
        catalog: plan.catalog.clone(),
        engine: plan.engine,
        rule: rule.clone(),
        viewer: viewer.clone(),
        guards: Arc::default(),
    }
}

/// How the caller stands to the tenant that the request named; looked up where the entity has tenants.
async fn standing(entities: &Entities, plan: &Plan, call: &Call) -> Result<Standing, Error> {
    if plan.tenant.is_none() && !plan.names_tenant {
        return Ok(Standing::Unnamed);
    }
    Ok(tenancy::standing(entities.memberships(), &call.identity, &call.tenant).await?)
}
