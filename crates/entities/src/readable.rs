//! The fields that a caller may read.
//!
//! A field with a rule for reading does not exist for callers for whom the rule does not hold. Whatever shows records to a
//! caller, or looks up names that a caller sends, needs a [`Readable`], which only [`FieldRights`] has: [`Stored`](crate::encode::Stored)
//! becomes a [`Record`](crate::Record), and [`Columns`](crate::filter::Columns) become names, only together with one.

use std::sync::Arc;

use crate::call::Call;
use crate::condition::{Viewer, caller};
use crate::context::admission::field_rights;
use crate::context::entities::Entities;
use crate::error::Error;
use crate::plan::{Field, Plan};

/// The fields of every entity that one caller may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldRights(Option<Arc<Vec<Readable>>>);

/// The fields of one entity that one caller may read. Hidden ones, which nobody reads, are not its concern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Readable(Vec<Unreadable>);

/// A field that the caller may not read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unreadable {
    index: usize,
    column: String,
    key: String,
    writes: Writes,
}

/// Whether a caller who may not read a field may write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// No: for them there is no such field.
    Never,
    /// Yes.
    Allowed,
    /// The rule depends on the record.
    Ruled,
}

/// All fields.
static ALL: Readable = Readable(Vec::new());

impl FieldRights {
    /// All fields of all entities: for the operator, and where no field has a rule for reading.
    pub(crate) const ALL: Self = Self(None);

    /// Those for which the rules hold.
    pub(crate) fn of_viewer(plans: &[Arc<Plan>], viewer: &Viewer) -> Self {
        Self(Some(Arc::new(plans.iter().map(|plan| Readable::of_viewer(plan, viewer)).collect())))
    }

    /// Of the entity at a position.
    pub(crate) fn of(&self, entity: usize) -> &Readable {
        self.0.as_ref().and_then(|all| all.get(entity)).unwrap_or(&ALL)
    }

    /// The fields that the caller may not read, by their entities: equal for callers with equal rights.
    pub(crate) fn print(&self) -> String {
        let all = self.0.iter().flat_map(|all| all.iter().enumerate());
        let unreadable =
            all.flat_map(|(entity, readable)| readable.0.iter().map(move |field| format!("{entity}.{}", field.column)));
        unreadable.collect::<Vec<_>>().join(",")
    }
}

impl Readable {
    /// All fields: for what the server does by itself, and for the operator.
    pub(crate) fn all() -> &'static Self {
        &ALL
    }

    fn of_viewer(plan: &Plan, viewer: &Viewer) -> Self {
        let may_not = plan.read_rules.iter().filter(|(_, rule)| !caller::is_true(&rule.resolved.condition, viewer));
        let unreadable = |(index, _): &(usize, _)| {
            let field = plan.fields.at(*index);
            let rule = plan.write_rules.fields.iter().find(|(of, _)| of == index);
            let writes = match rule.map(|(_, rule)| caller::holds(&rule.resolved.condition, viewer)) {
                None | Some(Some(false)) => Writes::Never,
                Some(Some(true)) => Writes::Allowed,
                Some(None) => Writes::Ruled,
            };
            Unreadable { index: *index, column: field.column.clone(), key: field.key.clone(), writes }
        };
        Self(may_not.map(unreadable).collect())
    }

    /// Whether these are all fields.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the column called so may be read.
    pub(crate) fn has_column(&self, column: &str) -> bool {
        !self.0.iter().any(|field| field.column == column)
    }

    /// Whether the field with this key on the wire may be read.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        !self.0.iter().any(|field| field.key == key)
    }

    /// Whether the field at this position may be read.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.writes(index).is_none()
    }

    /// Whether the caller may write the field at this position, which they may not read. `None`: they may read it.
    pub(crate) fn writes(&self, index: usize) -> Option<Writes> {
        self.0.iter().find(|field| field.index == index).map(|field| field.writes)
    }
}

/// The fields that a caller may read and write, to describe an entity to them. From [`Entities::seen_fields`].
#[derive(Debug, Clone)]
pub struct SeenFields(FieldRights);

impl SeenFields {
    /// Those of a caller who may read all.
    pub const ALL: Self = Self(FieldRights::ALL);

    /// Whether the caller may read all fields of the entity that are not hidden.
    pub fn are_all(&self, plan: &Plan) -> bool {
        self.0.of(plan.index).is_all()
    }

    /// Whether the caller may read the field.
    pub fn shows(&self, plan: &Plan, field: &Field) -> bool {
        self.0.of(plan.index).has_column(&field.column)
    }

    /// Whether there is such a field in what the caller writes.
    pub fn takes(&self, plan: &Plan, field: &Field) -> bool {
        field.is_writable() && plan.fields.key(&field.key, self.0.of(plan.index)).is_some()
    }
}

impl Entities {
    /// The fields that the caller may read and write.
    pub async fn seen_fields(&self, call: &Call) -> Result<SeenFields, Error> {
        field_rights(self, call).await.map(SeenFields)
    }
}
