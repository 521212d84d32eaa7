use gatewright_http::Problem;

use crate::access::Action;
use crate::call::Call;
use crate::context::entities::Entities;
use crate::context::table::Table;

/// What a handler works with: one entity of all.
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

    /// Why the caller may not, if so: it goes before what is wrong with the body.
    pub(super) async fn refusal(&self, call: &Call, action: Action) -> Option<Problem> {
        self.table().reach(call, action).await.err().map(Problem::from)
    }
}
