//! The rules of fields for reading, which are about the caller alone.

use std::sync::Arc;

use super::row_rules::rule;
use super::{DeclarationError, Entity, Location, TextPlace};
use crate::condition::resolve::Rights;
use crate::condition::{Catalog, Rule};

/// Reads them, in the order of the entities, each with the position of its field.
pub(super) fn compile(
    entities: &[Entity],
    catalog: &Catalog,
    errors: &mut Vec<DeclarationError>,
) -> Vec<Vec<(usize, Arc<Rule>)>> {
    let mut all = Vec::with_capacity(entities.len());
    for (entity, declared) in entities.iter().enumerate() {
        let mut rules = Vec::new();
        for (index, field) in declared.fields.iter().enumerate() {
            let Some(text) = &field.read else { continue };
            let mut wrong = |message: String, place: Option<TextPlace>| {
                errors.push(DeclarationError {
                    location: Location { entity, field: Some(index), attribute: Some("read") },
                    entity: declared.name.clone(),
                    field: Some(field.name.clone()),
                    message,
                    place,
                });
            };
            if field.hidden {
                wrong("nobody reads a hidden field, so that a rule for reading it has no meaning".to_owned(), None);
            }
            match rule(text, catalog, entity, Rights::Caller) {
                Ok(rule) => rules.push((index, Arc::new(rule))),
                Err((message, place)) => wrong(message, place),
            }
        }
        all.push(rules);
    }
    all
}
