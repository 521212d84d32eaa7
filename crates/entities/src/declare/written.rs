//! What must hold of a record that is written, besides its access rules: checks, and the rules of fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::hint;
use super::row_rules::rule;
use super::{DeclarationError, Entity, Location, Model, TextPlace};
use crate::access::Action;
use crate::condition::resolve::Rights;
use crate::condition::{Catalog, Rule};

/// The most checks of one entity.
const MOST_CHECKS: usize = 64;
/// The most characters of a check's message.
const LONGEST_MESSAGE: usize = 1_000;

/// The conditions on what is written to an entity.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteRules {
    /// The access rule for a record as an update leaves it.
    pub(crate) update_after: Option<Arc<Rule>>,
    /// Whether the rules for a record before and after an update are declared apart.
    pub(crate) is_split: bool,
    pub(crate) checks: Vec<Check>,
    /// Who may set a field, by the position of the field.
    pub(crate) fields: Vec<(usize, Arc<Rule>)>,
}

/// A condition that every record must pass.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) rule: Arc<Rule>,
    /// The position of the field that a failure is about.
    pub(crate) field: Option<usize>,
    /// In English.
    pub(crate) message: String,
    messages: BTreeMap<String, String>,
}

impl WriteRules {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.update_after.is_none() && self.checks.is_empty() && self.fields.is_empty()
    }
}

impl Check {
    /// The message in the language that an `Accept-Language` prefers.
    pub(crate) fn message(&self, languages: Option<&str>) -> &str {
        let mut preferred: Vec<(&str, u16)> =
            languages.map(|header| gatewright_http::preferences(header).collect()).unwrap_or_default();
        preferred.sort_by_key(|(_, quality)| std::cmp::Reverse(*quality));
        for (language, _) in preferred.iter().filter(|(_, quality)| *quality > 0) {
            let language = language.split('-').next().unwrap_or(language).to_ascii_lowercase();
            if let Some(message) = self.messages.get(&language) {
                return message;
            }
            if language == "en" {
                break;
            }
        }
        &self.message
    }
}

/// Reads them, in the order of the entities.
pub(super) fn compile(
    entities: &[Entity],
    models: &[Model],
    catalog: &Catalog,
    errors: &mut Vec<DeclarationError>,
) -> Vec<WriteRules> {
    let each = entities.iter().zip(models).enumerate();
    each.map(|(index, (entity, model))| Reader { index, entity, model, catalog, errors }.read()).collect()
}

struct Reader<'a> {
    index: usize,
    entity: &'a Entity,
    model: &'a Model,
    catalog: &'a Catalog,
    errors: &'a mut Vec<DeclarationError>,
}

impl Reader<'_> {
    fn read(mut self) -> WriteRules {
        let is_split = self.entity.update_before.is_some() || self.entity.update_after.is_some();
        WriteRules { update_after: self.update_after(), is_split, checks: self.checks(), fields: self.fields() }
    }

    fn wrong(&mut self, field: Option<usize>, attribute: &'static str, message: String, place: Option<TextPlace>) {
        self.errors.push(DeclarationError {
            location: Location { entity: self.index, field, attribute: Some(attribute) },
            entity: self.entity.name.clone(),
            field: field.map(|index| self.entity.fields[index].name.clone()),
            message,
            place,
        });
    }

    /// The rule for the record as an update leaves it: one rule holds before and after, unless it is split.
    fn update_after(&mut self) -> Option<Arc<Rule>> {
        let whole = self.entity.row_rules.get(Action::Update);
        if whole.is_some() && (self.entity.update_before.is_some() || self.entity.update_after.is_some()) {
            let message = "rules.update holds before and after a change; keep it, or update_before and update_after";
            self.wrong(None, "rules.update", message.to_owned(), None);
        }
        let (text, attribute) = match &self.entity.update_after {
            Some(text) => (text, "rules.update_after"),
            // Its mistakes were named with the other access rules.
            None => {
                return whole.and_then(|text| rule(text, self.catalog, self.index, Rights::Change).ok()).map(Arc::new);
            }
        };
        match rule(text, self.catalog, self.index, Rights::Change) {
            Ok(rule) => Some(Arc::new(rule)),
            Err((message, place)) => {
                self.wrong(None, attribute, format!("{attribute}: {message}"), place);
                None
            }
        }
    }

    fn checks(&mut self) -> Vec<Check> {
        let entity = self.entity;
        if entity.checks.len() > MOST_CHECKS {
            self.wrong(None, "check", format!("an entity has at most {MOST_CHECKS} checks"), None);
        }
        let mut checks = Vec::new();
        for (number, check) in (1..).zip(&entity.checks) {
            let field = check.field.as_deref().and_then(|name| {
                let found = self.model.fields.iter().position(|field| field.name == name);
                if found.is_none() {
                    let known = self.model.fields.iter().map(|field| &*field.name);
                    let hint = hint(name, known);
                    self.wrong(None, "check", format!("check {number}: there is no field \"{name}\"{hint}"), None);
                }
                found
            });
            for message in std::iter::once(&check.message).chain(check.messages.values()) {
                if message.trim().is_empty() || message.chars().count() > LONGEST_MESSAGE {
                    let message = format!("check {number}: a message has 1 to {LONGEST_MESSAGE} characters");
                    self.wrong(None, "check", message, None);
                }
            }
            match rule(&check.rule, self.catalog, self.index, Rights::Change) {
                Ok(rule) => checks.push(Check {
                    rule: Arc::new(rule),
                    field,
                    message: check.message.clone(),
                    messages: check.messages.clone(),
                }),
                Err((message, place)) => self.wrong(None, "check", format!("check {number}: {message}"), place),
            }
        }
        checks
    }

    fn fields(&mut self) -> Vec<(usize, Arc<Rule>)> {
        let mut rules = Vec::new();
        for (index, field) in self.entity.fields.iter().enumerate() {
            let Some(text) = &field.write else { continue };
            if self.model.owner == Some(index) || self.model.tenant == Some(index) || field.hidden || field.read_only {
                let message = "no client writes this field, so that a rule for writing it has no meaning";
                self.wrong(Some(index), "write", message.to_owned(), None);
            }
            match rule(text, self.catalog, self.index, Rights::Change) {
                Ok(rule) => rules.push((index, Arc::new(rule))),
                Err((message, place)) => self.wrong(Some(index), "write", message, place),
            }
        }
        rules
    }
}
