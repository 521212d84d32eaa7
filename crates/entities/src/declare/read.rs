//! The rules for reading that are about the caller alone: of fields, and of whole entities.

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

/// Who may read entities at all, in the order of the entities.
pub(super) fn readers(
    entities: &[Entity],
    catalog: &Catalog,
    errors: &mut Vec<DeclarationError>,
) -> Vec<Option<Arc<Rule>>> {
    let mut all = Vec::with_capacity(entities.len());
    for (entity, declared) in entities.iter().enumerate() {
        let rule = declared.readers.as_ref().map(|text| rule(text, catalog, entity, Rights::Caller));
        all.push(match rule.transpose() {
            Ok(rule) => rule.map(Arc::new),
            Err((message, place)) => {
                let location = Location { entity, field: None, attribute: Some("read") };
                errors.push(DeclarationError { location, entity: declared.name.clone(), field: None, message, place });
                None
            }
        });
    }
    all
}
