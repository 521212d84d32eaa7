use gatewright_db::dialect;

use super::columns::{Columns, Names};
use super::typed::{Predicate, Test};
use crate::declare::Model;

/// The columns that `q=` searches, as positions in [`Columns`].
#[derive(Debug)]
pub(crate) struct Search(Vec<usize>);

impl Search {
    pub(crate) fn new(model: &Model, columns: &Columns) -> Self {
        Self(model.search_fields.iter().filter_map(|name| columns.declared(name)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of the columns that the caller may use contains `text`, ignoring case. `None` if there is no such column.
    pub(crate) fn contains(&self, text: &str, names: Names<'_>) -> Option<Predicate> {
        let needle = dialect::fold_case(text);
        let searched = self.0.iter().filter(|index| names.has(**index));
        let tests: Vec<_> = searched.map(|index| Predicate::Test(*index, Test::Contains(needle.clone()))).collect();
        (!tests.is_empty()).then_some(Predicate::Any(tests))
    }
}
