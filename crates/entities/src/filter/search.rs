use gatewright_db::dialect;

use super::columns::Columns;
use super::typed::{Predicate, Test};
use crate::declare::Model;

/// The columns that `q=` searches, as positions in [`Columns`].
#[derive(Debug)]
pub(crate) struct Search(Vec<usize>);

impl Search {
    pub(crate) fn new(model: &Model, columns: &Columns) -> Self {
        Self(model.search_fields.iter().filter_map(|name| columns.find(name)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of the columns contains `text`, ignoring case.
    pub(crate) fn contains(&self, text: &str) -> Predicate {
        let needle = dialect::fold_case(text);
        Predicate::Any(self.0.iter().map(|index| Predicate::Test(*index, Test::Contains(needle.clone()))).collect())
    }
}
