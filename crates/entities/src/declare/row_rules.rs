//! The access rules of all entities, read once all of them are known.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ByAction, DeclarationError, Entity, Location, Model, TextPlace};
use crate::access::Action;
use crate::condition::resolve::{self, Fault, Rights};
use crate::condition::{Catalog, Rule};

/// The longest rule, in bytes.
const LONGEST: usize = 10_000;

/// Reads them, in the order of the entities.
pub(super) fn compile(
    entities: &[Entity],
    catalog: &Catalog,
    errors: &mut Vec<DeclarationError>,
) -> Vec<ByAction<Arc<Rule>>> {
    let mut all = Vec::with_capacity(entities.len());
    for (index, entity) in entities.iter().enumerate() {
        let mut rules = ByAction::default();
        for action in Action::ALL {
            let mut attribute = attribute(action);
            let mut text = entity.row_rules.get(action);
            if let (Action::Update, None, Some(before)) = (action, text, &entity.update_before) {
                (attribute, text) = ("rules.update_before", Some(before));
            }
            let Some(text) = text else { continue };
            let rights = if action == Action::Update { Rights::Change } else { Rights::Declared };
            match rule(text, catalog, index, rights) {
                Ok(rule) => rules.set(action, Arc::new(rule)),
                Err((message, place)) => errors.push(DeclarationError {
                    location: Location { entity: index, field: None, attribute: Some(attribute) },
                    entity: entity.name.clone(),
                    field: None,
                    message: format!("{attribute}: {message}"),
                    place,
                }),
            }
        }
        all.push(rules);
    }
    all
}

/// The columns of `model` by which lists under its rule for reading find their records.
pub(super) fn leading(model: &Model, rules: &ByAction<Arc<Rule>>) -> BTreeSet<String> {
    let indexed: BTreeSet<&str> = model.indexed().collect();
    let rule = rules.get(Action::Read);
    let leads = rule.and_then(|rule| rule.resolved.condition.leads(&|column| indexed.contains(column)));
    let columns: BTreeSet<_> = leads.iter().flatten().filter_map(|lead| lead.source.column()).collect();
    let fields = model.fields.iter().map(|field| &field.name);
    fields.filter(|name| columns.contains(name.as_str())).cloned().collect()
}

pub(super) fn rule(
    text: &str,
    catalog: &Catalog,
    entity: usize,
    rights: Rights<'_>,
) -> Result<Rule, (String, Option<TextPlace>)> {
    if text.trim().is_empty() {
        return Err(("the rule is empty; leave it out if nothing is to be narrowed".to_owned(), None));
    }
    if text.len() > LONGEST {
        return Err((format!("a rule takes at most {LONGEST} bytes"), None));
    }
    let resolved = resolve::read(text, catalog, entity, rights)
        .map_err(|Fault { message, place }| (message, Some(TextPlace { line: place.line, column: place.column })))?;
    Ok(Rule { text: text.to_owned(), resolved })
}

pub(super) fn attribute(action: Action) -> &'static str {
    match action {
        Action::Read => "rules.read",
        Action::Create => "rules.create",
        Action::Update => "rules.update",
        Action::Delete => "rules.delete",
    }
}
