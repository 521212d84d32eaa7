//! A path from a record to one value, for lists that are sorted by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gatewright_db::{Engine, Value};

use super::resolve::At;
use super::resolve::{Resolver, Rights};
use super::sql::{Caller, Form, Writer};
use super::{Catalog, Hop, HopDirection, Operand, Viewer};
use crate::access::Reach;
use crate::declare::Kind;
use crate::filter::lexer::Place;
use crate::filter::syntax::{Path, Step};
use crate::readable::FieldRights;

/// A path over relations to one record each, under the caller's own rights.
#[derive(Debug, PartialEq)]
pub(crate) struct Followed {
    /// The path, in the names of the columns.
    pub(crate) text: String,
    pub(crate) hops: Vec<Hop>,
    pub(crate) operand: Operand,
    pub(crate) kind: Kind,
    /// The entities that it leads to.
    pub(crate) entities: BTreeSet<usize>,
}

/// Looks up `project.owner` from the entity at `entity`. The error is a sentence for the caller.
pub(crate) fn follow(text: &str, catalog: &Catalog, entity: usize, rights: &FieldRights) -> Result<Followed, String> {
    if text.contains('(') {
        return Err("a list is sorted by relations that lead to one record, not by those that lead to many".to_owned());
    }
    let place = Place { line: 1, column: 1 };
    let steps = text.split('.').map(|name| Step { name: name.to_owned(), back: None, place }).collect();
    let mut resolver =
        Resolver { catalog, rights: Rights::Reader(rights), row: 0, entities: BTreeSet::new(), names_tenant: false };
    let ended = resolver.field(At { row: 0, entity, depth: 0 }, &Path(steps)).map_err(|fault| fault.message)?;
    if ended.hops.iter().any(|hop| hop.direction != HopDirection::Forward) {
        return Err(format!("a list cannot be sorted by \"{text}\": it leads to many records"));
    }
    if let Some(what) = ended.column.kind.unordered() {
        return Err(format!("a list cannot be sorted by \"{}\": {what} has no order", ended.column.key));
    }
    let steps = ended.hops.iter().map(|hop| &*hop.from_column).chain([&*ended.column.name]);
    Ok(Followed {
        text: steps.collect::<Vec<_>>().join("."),
        kind: ended.column.kind,
        hops: ended.hops,
        operand: ended.operand,
        entities: resolver.entities,
    })
}

/// The rights under which paths are followed.
pub(crate) struct Reader {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) engine: Engine,
    pub(crate) viewer: Arc<Viewer>,
    /// How far the caller reaches in each entity of the path.
    pub(crate) guards: Arc<BTreeMap<usize, Reach>>,
}

impl Reader {
    /// Selects each path as a column with its own name, for the rows of `table`. The parameters are numbered from `first`. A
    /// related record that the caller may not read has no value.
    pub(crate) fn columns<'a>(
        &self,
        table: &str,
        paths: impl Iterator<Item = (&'a str, &'a Followed)>,
        first: usize,
    ) -> (String, Vec<Value>) {
        let mut writer = Writer::new(&self.catalog, self.engine, Caller::Bound(&self.viewer), first, Form::Single);
        writer.guards = Some(&self.guards);
        writer.columns(table, paths);
        writer.finish()
    }
}
