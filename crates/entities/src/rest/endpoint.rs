use gatewright_http::Problem;

use crate::access::Action;
use crate::call::Call;
use crate::context::entities::Entities;
use crate::context::table::Table;

/// The state of a handler: all entities, and the position of one.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) entities: Entities,
    pub(super) index: usize,
}

impl Endpoint {
    pub(super) fn new(table: Table<'_>) -> Self {
        Self { entities: table.entities.clone(), index: table.plan.index }
    }

    pub(super) fn table(&self) -> Table<'_> {
        self.entities.table_at(self.index)
    }

    /// The refusal of the caller, if there is one: it takes precedence over errors in the body.
    pub(super) async fn refusal(&self, call: &Call, action: Action) -> Option<Problem> {
        self.table().reach(call, action).await.err().map(Problem::from)
    }
}
