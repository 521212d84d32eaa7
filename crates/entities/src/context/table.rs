use std::sync::Arc;

use gatewright_base::nearest;

use super::entities::Entities;
use crate::error::UnknownTable;
use crate::plan::Plan;

/// One entity and its records, from [`Entities::table`]. A pair of references: cheap to make and to copy.
///
/// Its methods are the operations of the service, the same that REST and tools call: each checks access for the
/// [`Call`](crate::Call) and access rules, validates input, runs hooks, and publishes events after the commit. A table
/// belongs to its entity, so that an operation cannot get the plan of another one.
///
/// ```no_run
/// # async fn example(entities: gatewright_entities::Entities, identity: gatewright_base::Identity) -> Result<(), gatewright_entities::operations::Error> {
/// use gatewright_entities::{Call, ListQuery};
/// use serde_json::json;
///
/// let (posts, call) = (entities.table("posts")?, Call::from(identity));
/// let post = posts.create(&call, json!({ "title": "First" })).await?;
/// let newest = posts.list(&call, &ListQuery::new().condition("title", "First").sort("-created_at").limit(10)).await?;
/// posts.update(&call, post.id(), json!({ "title": "Changed" }), None).await?;
/// # let _ = newest; Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    pub(crate) entities: &'a Entities,
    pub(crate) plan: &'a Arc<Plan>,
}

impl Entities {
    /// The entity with this name or, if no entity has it, the one with this table.
    pub fn table(&self, name: &str) -> Result<Table<'_>, UnknownTable> {
        let of_table = || self.plans().iter().find(|plan| plan.table() == name);
        self.plan(name).or_else(of_table).map(|plan| Table { entities: self, plan }).ok_or_else(|| UnknownTable {
            name: name.to_owned(),
            meant: nearest(name, self.plans().iter().map(|plan| plan.name())).map(str::to_owned),
        })
    }

    /// All entities in the order of their declaration.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = Table<'_>> {
        self.plans().iter().map(|plan| Table { entities: self, plan })
    }

    /// The entity at a position.
    pub(crate) fn table_at(&self, index: usize) -> Table<'_> {
        Table { entities: self, plan: self.at(index) }
    }
}

impl<'a> Table<'a> {
    /// The entity as it was compiled: its names, fields and rules.
    pub fn plan(&self) -> &'a Arc<Plan> {
        self.plan
    }

    /// The entities that it is one of.
    pub fn entities(&self) -> &'a Entities {
        self.entities
    }

    /// Another of the same entities.
    pub(crate) fn other(&self, index: usize) -> Self {
        self.entities.table_at(index)
    }
}
