//! The fields that lists search, and those that order cursors.

use super::Check;
use crate::declare::model::ModelSearch;
use crate::declare::names::{cut, hint};
use crate::declare::{Field, Kind, ModelField, names};
use crate::value::Type;
use crate::value::types::INDEXED_BYTES;

/// The most columns of a cursor's key, besides the id.
const MAX_CURSOR_FIELDS: usize = 4;
/// The most fields of an index of words.
const MAX_SEARCH_FIELDS: usize = 8;
/// The greatest weight of one.
const MAX_WEIGHT: u32 = 1000;

impl Check<'_> {
    /// The columns that `q=` searches. Only text that clients see: a search over a hidden field would reveal its
    /// contents.
    pub(super) fn search_fields(&mut self) -> Vec<String> {
        let entity = self.entity;
        for (index, name) in entity.search_fields.iter().enumerate() {
            if entity.search_fields[..index].contains(name) {
                self.wrong("search_fields", format!("search_fields names \"{}\" twice", cut(name)));
            }
            match self.visible("search_fields", name) {
                Some(field) if !matches!(field.kind, Kind::String | Kind::Text | Kind::Enum) => {
                    self.wrong("search_fields", format!("\"{name}\" is not text, and cannot be searched"));
                }
                _ => {}
            }
        }
        entity.search_fields.clone()
    }

    /// The index of words, of texts that clients see.
    pub(super) fn search(&mut self) -> Option<ModelSearch> {
        let entity = self.entity;
        let (language, declared) = entity.search.as_ref()?;
        if declared.is_empty() || declared.len() > MAX_SEARCH_FIELDS {
            self.wrong("search", format!("search takes from 1 to {MAX_SEARCH_FIELDS} fields"));
        }
        let mut fields = Vec::new();
        for (index, (name, weight)) in declared.iter().enumerate() {
            if declared[..index].iter().any(|(other, _)| other == name) {
                self.wrong("search", format!("search names \"{}\" twice", cut(name)));
            }
            if !(1..=MAX_WEIGHT).contains(weight) {
                self.wrong(
                    "search",
                    format!("the weight of \"{}\" is a whole number from 1 to {MAX_WEIGHT}", cut(name)),
                );
            }
            match self.visible("search", name) {
                Some(field) if !matches!(field.kind, Kind::String | Kind::Text | Kind::Enum) => {
                    self.wrong("search", format!("\"{name}\" is not text, and cannot be searched"));
                }
                _ => {}
            }
            fields.extend(entity.fields.iter().position(|field| field.name == *name).map(|index| (index, *weight)));
        }
        Some(ModelSearch { language: *language, fields })
    }

    /// The columns that order cursors, without the id, which always comes last. Text among them is limited to the length
    /// that an index accepts.
    pub(super) fn cursor_fields(&mut self, fields: &mut [ModelField]) -> Vec<String> {
        let entity = self.entity;
        let names = match entity.cursor_fields.split_last() {
            Some((last, before)) if last == "id" => before,
            // Ids that clients choose are in no order.
            None if entity.client_ids => return vec!["created_at".to_owned()],
            _ => &entity.cursor_fields,
        };
        if names.len() > MAX_CURSOR_FIELDS {
            self.wrong("cursor_fields", format!("cursor_fields takes at most {MAX_CURSOR_FIELDS} fields and the id"));
        }
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                self.wrong("cursor_fields", format!("cursor_fields names \"{}\" twice", cut(name)));
            }
            if name == "id" {
                self.wrong("cursor_fields", "the id comes last: it is unique, so fields after it have no effect");
            } else if (entity.query.is_some() || !names::OWN_COLUMNS.contains(&name.as_str()))
                && let Some(field) = self.visible("cursor_fields", name)
                && let Some(what) = field.kind.unordered()
            {
                self.wrong("cursor_fields", format!("\"{name}\" is {what} and has no order"));
            }
        }
        for field in fields.iter_mut().filter(|field| names.contains(&field.name)) {
            if let Type::Text(text) = &mut field.rule {
                text.index(INDEXED_BYTES);
            }
        }
        names.to_vec()
    }

    /// The declared field with that name, if clients know it. Otherwise notes an error.
    fn visible(&mut self, attribute: &'static str, name: &str) -> Option<&Field> {
        let entity = self.entity;
        let field = entity.fields.iter().find(|field| field.name == *name);
        match field {
            Some(field) if field.hidden => {
                let message = format!("\"{name}\" is hidden, and {attribute} would reveal its values");
                self.wrong(attribute, message);
                None
            }
            // A cursor contains the values of its fields, and its caller could read them from it.
            Some(field) if field.read.is_some() && attribute == "cursor_fields" => {
                let message = format!("\"{name}\" has a rule for reading, and {attribute} would reveal its values");
                self.wrong(attribute, message);
                None
            }
            Some(field) => Some(field),
            None => {
                let known = entity.fields.iter().filter(|field| !field.hidden).map(|field| &*field.name);
                let message = format!("{attribute}: there is no field \"{}\"{}", cut(name), hint(name, known));
                self.wrong(attribute, message);
                None
            }
        }
    }
}
