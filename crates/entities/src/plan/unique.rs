//! The sets of fields that a unique index covers.

use gatewright_base::to_snake;

use super::Plan;
use crate::declare::KeyField;
use crate::readable::Readable;

impl Plan {
    /// The positions of the fields of each unique index, without the tenant's column. Only those whose values a write has:
    /// fields that clients may set, and the owner's.
    pub(crate) fn unique_sets(&self) -> impl Iterator<Item = &[KeyField]> {
        let sets = self.unique.iter().map(|key| &*key.fields);
        sets.filter(|set| set.iter().all(|field| self.is_given_by_writes(field.index)))
    }

    /// Whether a create may be an upsert.
    pub fn takes_upserts(&self) -> bool {
        self.unique_sets().next().is_some()
    }

    fn is_given_by_writes(&self, index: usize) -> bool {
        self.owner == Some(index) || self.fields.at(index).is_writable()
    }

    /// The unique set of fields with these names, in either case and any order. The error is a sentence for the caller.
    pub(crate) fn unique_set(&self, names: &[String], readable: &Readable) -> Result<Vec<KeyField>, String> {
        let position = |name: &String| {
            let column = to_snake(name);
            let found = self.fields.iter().position(|field| field.column == *column);
            found.filter(|index| readable.has(*index))
        };
        let mut asked: Vec<Option<usize>> = names.iter().map(position).collect();
        asked.sort_unstable();
        for set in self.unique_sets() {
            let mut sorted: Vec<usize> = set.iter().map(|field| field.index).collect();
            sorted.sort_unstable();
            if asked.iter().copied().eq(sorted.into_iter().map(Some)) {
                return Ok(set.to_vec());
            }
        }
        // Only what clients know is named.
        let shown = |KeyField { index, .. }: &KeyField| {
            Some(&*self.fields.at(*index).key).filter(|_| !self.fields.at(*index).hidden && readable.has(*index))
        };
        let known: Vec<String> = self
            .unique_sets()
            .filter_map(|set| set.iter().map(shown).collect::<Option<Vec<_>>>())
            .map(|set| set.join(","))
            .collect();
        let known = if known.is_empty() { String::new() } else { format!("; there are: {}", known.join("; ")) };
        Err(format!("on_conflict takes the fields of a declared unique{known}"))
    }
}
