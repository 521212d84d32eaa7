//! The checks of a whole list of declarations.

mod keys;
mod queries;
mod read_only;
mod stamped;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gatewright_base::{JsonCase, Permission, nearest};

use super::rules::{self, Wrong};
use super::written::WriteRules;
use super::{
    ByAction, DeclarationError, DeclarationErrors, DefaultWord, Entity, Field, Kind, Location, Model, ModelField,
    OnDelete, Relation, Target, names,
};
use crate::access::{Demand, Rules};
use crate::condition::{Catalog, Rule};
use crate::value::list;

/// The highest allowed limit of records on one page of a list.
const MAX_LIST_LIMIT: u32 = 1_000;
/// The most fields of one entity.
const MAX_FIELDS: usize = 200;
/// The most characters of a description.
const MAX_DESCRIPTION: usize = 1_000;

/// Entities that passed every check, individually and together.
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    pub(crate) models: Vec<Model>,
    /// The access rules, by the models' positions. They are parsed once all entities are known.
    pub(crate) row_rules: Vec<ByAction<Arc<Rule>>>,
    /// The conditions on what is written, by the models' positions.
    pub(crate) write_rules: Vec<WriteRules>,
    /// Who may read fields, by their positions, in the order of the entities.
    pub(crate) read_rules: Vec<Vec<(usize, Arc<Rule>)>>,
    /// Who may read entities at all, as rules over the caller, by the models' positions.
    pub(crate) readers: Vec<Option<Arc<Rule>>>,
}

impl Declarations {
    /// Checks `entities`. Returns all errors together.
    pub fn check(entities: &[Entity]) -> Result<Self, DeclarationErrors> {
        let mut names = HashMap::new();
        for (index, entity) in entities.iter().enumerate() {
            names.entry(entity.name.as_str()).or_insert(index);
        }
        let mut errors = Vec::new();
        let mut models = Vec::with_capacity(entities.len());
        for (index, entity) in entities.iter().enumerate() {
            let mut check = Check { entities, names: &names, index, entity, errors: &mut errors };
            models.push(check.run());
        }
        // Rules follow relations into other entities, which must be right before.
        let (mut row_rules, mut write_rules, mut read_rules) = (Vec::new(), Vec::new(), Vec::new());
        let mut readers = Vec::new();
        if errors.is_empty() {
            let catalog = Catalog::new(&models, JsonCase::Snake);
            row_rules = super::row_rules::compile(entities, &catalog, &mut errors);
            write_rules = super::written::compile(entities, &models, &catalog, &mut errors);
            read_rules = super::read::compile(entities, &catalog, &mut errors);
            readers = super::read::readers(entities, &catalog, &mut errors);
        }
        if !errors.is_empty() {
            return Err(DeclarationErrors(errors));
        }
        for (model, rules) in models.iter_mut().zip(&row_rules) {
            model.leading = super::row_rules::leading(model, rules);
        }
        Ok(Self { models, row_rules, write_rules, read_rules, readers })
    }

    /// The entities' names in the order of their declaration.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.models.iter().map(|model| &*model.name)
    }

    /// The permissions that the entities require, each with the entity's position and the attribute that names it.
    pub fn permissions(&self) -> impl Iterator<Item = (usize, &'static str, &Permission)> {
        self.models.iter().enumerate().flat_map(|(index, model)| {
            let Rules { read, create, update, delete, export, cross_owner_read, cross_owner_write, .. } = &model.rules;
            let demanded = [
                ("access.read", read.permission()),
                ("access.create", create.permission()),
                ("access.update", update.permission()),
                ("access.delete", delete.permission()),
                ("access.export", export.as_ref().and_then(Demand::permission)),
                ("cross_owner_read", cross_owner_read.as_ref()),
                ("cross_owner_write", cross_owner_write.as_ref()),
            ];
            demanded.into_iter().filter_map(move |(attribute, permission)| Some((index, attribute, permission?)))
        })
    }

    /// The entities' tables, which are also their paths, in the order of their declaration.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &str> {
        self.models.iter().map(|model| &*model.table)
    }
}

/// One entity under examination.
struct Check<'a> {
    entities: &'a [Entity],
    names: &'a HashMap<&'a str, usize>,
    index: usize,
    entity: &'a Entity,
    errors: &'a mut Vec<DeclarationError>,
}

fn table_of(entity: &Entity) -> &str {
    entity.table.as_deref().unwrap_or(&entity.name)
}

impl Check<'_> {
    /// The model; worth something only when no error was noted.
    fn run(&mut self) -> Model {
        let entity = self.entity;
        self.check_names();
        self.check_limits();
        self.check_descriptions();
        self.check_renames();
        self.read_only();
        let mut fields = self.fields();
        let owner = self.owner(&mut fields);
        let tenant = self.tenant(&mut fields);
        let keys = self.keys(&mut fields);
        let indexes = self.indexes(&mut fields);
        let sequences = self.sequences(&mut fields, tenant);
        Model {
            name: entity.name.as_str().into(),
            table: table_of(entity).into(),
            renamed_from: entity.renamed_from.clone(),
            owner,
            tenant,
            description: entity.description.clone(),
            label: self.label(),
            rules: self.rules(),
            crud: entity.crud,
            mcp: entity.mcp,
            max_list_limit: entity.max_list_limit,
            soft_delete: entity.soft_delete,
            client_ids: entity.client_ids,
            search_fields: self.search_fields(),
            search: self.search(),
            cursor_fields: self.cursor_fields(&mut fields),
            keys,
            sequences,
            indexes,
            fields,
            leading: BTreeSet::new(),
            query: entity.query.as_deref().cloned().map(Arc::new),
            is_directory: entity.is_directory,
        }
    }

    fn wrong(&mut self, attribute: &'static str, message: impl Into<String>) {
        self.note(None, Some(attribute), message.into());
    }

    fn note(&mut self, field: Option<usize>, attribute: Option<&'static str>, message: String) {
        self.errors.push(DeclarationError {
            location: Location { entity: self.index, field, attribute },
            entity: self.entity.name.chars().take(80).collect(),
            field: field.map(|index| self.entity.fields[index].name.chars().take(80).collect()),
            message,
            place: None,
        });
    }

    fn check_names(&mut self) {
        let entity = self.entity;
        if let Some(message) = names::refuse_entity(&entity.name).filter(|_| !entity.is_directory) {
            self.wrong("name", message);
        }
        if let Some(table) = &entity.table
            && let Some(message) = names::refuse_entity(table)
        {
            self.wrong("table", message);
        }
        let before = &self.entities[..self.index];
        if before.iter().any(|other| other.name == entity.name) {
            self.wrong("name", "an entity of this name is declared already");
        } else if let Some(other) = before.iter().find(|other| table_of(other) == table_of(entity)) {
            let message = format!("its table \"{}\" is the one of entity \"{}\"", table_of(entity), other.name);
            self.wrong(if entity.table.is_some() { "table" } else { "name" }, message);
        }
    }

    /// An old name that another entity has would take that entity's table.
    fn check_renames(&mut self) {
        let entity = self.entity;
        if let Some(old) = &entity.renamed_from {
            let others = self.entities.iter().enumerate().filter(|(index, _)| *index != self.index);
            let mut others = others.map(|(_, other)| other);
            if let Some(message) = names::refuse_entity(old) {
                self.wrong("renamed_from", message);
            } else if self.entities.iter().any(|other| table_of(other) == old) {
                self.wrong("renamed_from", format!("there is a table \"{old}\" now; an old name is one that is gone"));
            } else if others.any(|other| other.renamed_from.as_ref() == Some(old)) {
                self.wrong("renamed_from", format!("only one entity can have been \"{old}\""));
            }
        }
        for (index, field) in entity.fields.iter().enumerate() {
            let Some(old) = &field.renamed_from else { continue };
            let message = if let Some(message) = names::refuse_field(old) {
                message
            } else if entity.fields.iter().any(|other| other.name == *old) {
                format!("there is a field \"{old}\" now; an old name is one that is gone")
            } else if entity.fields[..index].iter().any(|other| other.renamed_from.as_ref() == Some(old)) {
                format!("only one field can have been \"{old}\"")
            } else {
                continue;
            };
            self.note(Some(index), Some("renamed_from"), message);
        }
    }

    fn check_limits(&mut self) {
        let entity = self.entity;
        if !(1..=MAX_LIST_LIMIT).contains(&entity.max_list_limit) {
            self.wrong("max_list_limit", format!("max_list_limit is 1 to {MAX_LIST_LIMIT}"));
        }
        if entity.fields.len() > MAX_FIELDS {
            self.note(None, None, format!("an entity has at most {MAX_FIELDS} fields"));
        }
    }

    fn check_descriptions(&mut self) {
        let entity = self.entity;
        let fields = entity.fields.iter().enumerate().map(|(index, field)| (Some(index), &field.description));
        for (field, text) in fields.chain([(None, &entity.description)]) {
            if text.as_ref().is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
                let message = format!("a description has at most {MAX_DESCRIPTION} characters");
                self.note(field, Some("description"), message);
            }
        }
    }

    /// The position of the field that stands for a record.
    fn label(&mut self) -> Option<usize> {
        let (entity, name) = (self.entity, self.entity.label.as_deref()?);
        let Some(index) = entity.fields.iter().position(|field| field.name == name) else {
            let known = entity.fields.iter().map(|field| &*field.name);
            let hint = nearest(name, known).map(|meant| format!("; did you mean \"{meant}\"?"));
            self.wrong("label", format!("there is no field \"{name}\"{}", hint.unwrap_or_default()));
            return None;
        };
        let field = &entity.fields[index];
        if field.hidden || matches!(field.kind, Kind::Json | Kind::List | Kind::Relation | Kind::File) {
            self.wrong(
                "label",
                format!(
                    "\"{name}\" is no text for readers: name a field that is not hidden, json, a list, a relation or a file"
                ),
            );
        }
        Some(index)
    }

    fn rules(&mut self) -> Rules {
        let entity = self.entity;
        let owned = entity.owner.is_some();
        if entity.public && owned {
            self.wrong(
                "public",
                "public opens every record to everybody, owner_field keeps each to its owner; keep one of them",
            );
        }
        if entity.public && entity.multi_tenant {
            self.wrong(
                "public",
                "public opens every record to everybody, multi_tenant keeps each to its tenant; keep one of them",
            );
        }
        if entity.public && entity.access != super::entity::Access::default() {
            self.wrong("public", "public opens every operation, access closes some; write access alone, with the word public where everybody may do it");
        }
        let cross_owner_read = match entity.cross_owner_read.as_deref().filter(|text| !text.is_empty()) {
            Some(_) if !owned => {
                self.wrong("cross_owner_read", "cross_owner_read lifts the limits of owner_field, which is not set");
                None
            }
            Some(text) => self.permission("cross_owner_read", text),
            None => None,
        };
        let cross_owner_write = match entity.cross_owner_write.as_deref().filter(|text| !text.is_empty()) {
            Some(_) if !owned => {
                self.wrong("cross_owner_write", "cross_owner_write lifts the limits of owner_field, which is not set");
                None
            }
            Some(text) => self.permission("cross_owner_write", text),
            None => None,
        };
        Rules {
            resource: table_of(entity).into(),
            read: self.demand("read", entity.access.read.as_deref()),
            create: self.demand("create", entity.access.create.as_deref()),
            update: self.demand("update", entity.access.update.as_deref()),
            delete: self.demand("delete", entity.access.delete.as_deref()),
            export: entity.access.export.as_deref().map(|text| self.demand("export", Some(text))),
            owned,
            cross_owner_read,
            cross_owner_write,
            multi_tenant: entity.multi_tenant,
        }
    }

    fn demand(&mut self, action: &str, text: Option<&str>) -> Demand {
        match text {
            None if self.entity.public => Demand::Public,
            None => Demand::SignedIn,
            Some("public") => {
                let bounds = [
                    (self.entity.owner.is_some(), "owner_field keeps every record to its owner"),
                    (self.entity.multi_tenant, "multi_tenant keeps every record to its tenant"),
                ];
                for (_, keeps) in bounds.into_iter().filter(|(given, _)| *given) {
                    let message = format!("access.{action} is public, and {keeps}; keep one of them");
                    self.wrong("access", message);
                }
                Demand::Public
            }
            Some(text) => self.permission("access", text).map_or(Demand::SignedIn, Demand::Permission),
        }
    }

    fn permission(&mut self, attribute: &'static str, text: &str) -> Option<Permission> {
        text.parse().map_err(|error| self.wrong(attribute, format!("{error}"))).ok()
    }

    fn fields(&mut self) -> Vec<ModelField> {
        let entity = self.entity;
        let mut models = Vec::with_capacity(entity.fields.len() + 1);
        for (index, field) in entity.fields.iter().enumerate() {
            // A view may have the times that a table has.
            let is_own = names::OWN_COLUMNS[1..].contains(&&*field.name) && entity.query.is_some();
            if let Some(message) = names::refuse_field(&field.name).filter(|_| !is_own) {
                self.note(Some(index), Some("name"), message);
            }
            if entity.soft_delete && field.name == names::DELETED_COLUMN {
                let message = "every entity with soft_delete has deleted_at; it cannot be declared";
                self.note(Some(index), Some("name"), message.to_owned());
            }
            if entity.fields[..index].iter().any(|other| other.name == field.name) {
                self.note(Some(index), Some("name"), "a field of this name is declared already".to_owned());
            }
            let mut wrongs = rules::misplaced(field);
            let stamped = if entity.owner.as_deref() == Some(&*field.name) {
                Some("owner")
            } else {
                (entity.multi_tenant && field.name == names::TENANT_COLUMN).then_some("tenant")
            };
            wrongs.extend(contradictions(field, stamped));
            match self.field(field) {
                Ok(model) => models.push(model),
                Err(wrong) => wrongs.push(wrong),
            }
            for wrong in wrongs {
                self.note(Some(index), Some(wrong.attribute), wrong.message);
            }
        }
        models
    }

    fn field(&self, field: &Field) -> Result<ModelField, Wrong> {
        let rule = rules::compile(field)?;
        let relation = if field.kind == Kind::Relation { Some(self.relation(field)?) } else { None };
        let links = relation.filter(|_| field.many).map(|relation| relation.to);
        let kind = if field.many { Kind::List } else { field.kind };
        let word = DefaultWord::of(field);
        if let Some(Err(expected)) = word.map(|word| word.fits(field)) {
            return Err(Wrong::new("default", format!("this default is {expected}")));
        }
        let default = match &field.default {
            Some(literal) if word.is_none() => Some(
                rule.read(&literal.to_json())
                    .map_err(|fault| Wrong::new("default", format!("the default {}", fault.message)))?,
            ),
            None if kind == Kind::List => rule.read(list::EMPTY).ok(),
            _ => None,
        };
        Ok(ModelField {
            name: field.name.clone(),
            kind,
            rule,
            // A list is never null: one that is not named is empty.
            required: field.required || kind == Kind::List,
            unique: field.unique,
            index: field.index,
            hidden: field.hidden,
            // Clients send what the server numbers back, and change nothing by it.
            read_only: field.read_only || field.sequence.is_some() || self.entity.query.is_some(),
            default,
            word,
            relation: relation.filter(|_| !field.many),
            links,
            files: (field.kind == Kind::File).then(|| Arc::new(field.files.clone())),
            renamed_from: field.renamed_from.clone(),
            description: field.description.clone(),
        })
    }

    fn relation(&self, field: &Field) -> Result<Relation, Wrong> {
        let on_delete = field.on_delete.unwrap_or_default();
        if on_delete == OnDelete::SetNull && field.required {
            return Err(Wrong::new("on_delete", "set_null would leave a required field empty"));
        }
        let to = match field.to.as_deref() {
            None => return Err(Wrong::new("to", "a relation needs to = the name of an entity, or \"users\"")),
            Some(names::USERS) => Target::Users,
            Some(name) => match self.names.get(name) {
                Some(index) if self.entities[*index].query.is_some() => {
                    return Err(Wrong::new("to", format!("\"{name}\" is a view, to which no relation leads")));
                }
                Some(index) => Target::Entity(*index),
                None => {
                    let known = self.names.keys().copied().chain([names::USERS]);
                    let hint = nearest(name, known).map(|meant| format!("; did you mean \"{meant}\"?"));
                    let message = format!("there is no entity \"{}\"{}", name, hint.unwrap_or_default());
                    return Err(Wrong::new("to", message));
                }
            },
        };
        Ok(Relation { to, on_delete })
    }
}

/// Attributes that exclude each other. `stamped` is what the service fills in by itself, if this is such a field.
fn contradictions(field: &Field, stamped: Option<&str>) -> Vec<Wrong> {
    let mut wrongs = Vec::new();
    let unfillable = field.required && field.default.is_none() && field.sequence.is_none() && stamped.is_none();
    if unfillable && field.hidden {
        wrongs.push(Wrong::new(
            "hidden",
            "a field that is required and hidden needs a default: no request could give it a value",
        ));
    } else if unfillable && field.read_only {
        wrongs.push(Wrong::new(
            "read_only",
            "a field that is required and read_only needs a default: no request could give it a value",
        ));
    }
    if field.default.is_some() && DefaultWord::of(field).is_none() && field.unique {
        wrongs.push(Wrong::new("default", "a unique field has no default: the second record could not have it"));
    }
    if field.sequence.is_some() && (field.default.is_some() || field.write.is_some() || stamped.is_some()) {
        wrongs.push(Wrong::new(
            "sequence",
            "the server numbers this field: it has no default and no rule for writing it",
        ));
    }
    if field.sequence.is_some() && field.required {
        let message = "a numbered field need not be required: each new record has a number";
        wrongs.push(Wrong::new("required", message));
    }
    if let (Some(_), Some(whose)) = (&field.default, stamped) {
        let message = format!("the {whose}'s field has no default: it is stamped from the request");
        wrongs.push(Wrong::new("default", message));
    }
    wrongs
}

impl Model {
    /// The column of a record's owner.
    pub(crate) fn owner_column(&self) -> Option<&str> {
        self.owner.map(|index| &*self.fields[index].name)
    }

    /// The column of a record's tenant.
    pub(crate) fn tenant_column(&self) -> Option<&str> {
        self.tenant.map(|index| &*self.fields[index].name)
    }
}

#[cfg(test)]
mod tests;
