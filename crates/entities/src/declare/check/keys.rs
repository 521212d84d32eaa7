//! Keys and indexes over several fields.

use super::Check;
use crate::declare::names::{cut, hint};
use crate::declare::{Key, KeyField, Kind, ModelField, Sequence, names};
use crate::value::Type;
use crate::value::types::INDEXED_BYTES;

/// The most keys, and the most indexes, of one entity.
const MOST: usize = 16;
/// The most fields of one of them.
const MOST_FIELDS: usize = 8;

impl Check<'_> {
    /// The unique fields, then the declared keys.
    pub(super) fn keys(&mut self, fields: &mut [ModelField]) -> Vec<Key> {
        let unique = fields.iter().enumerate().filter(|(_, field)| field.unique);
        let mut keys: Vec<Key> =
            unique.map(|(index, _)| Key { fields: vec![KeyField { index, folded: false }], declared: false }).collect();
        let entity = self.entity;
        self.at_most("unique", entity.unique.len());
        for (number, key) in entity.unique.iter().enumerate() {
            if entity.unique[..number].contains(key) {
                self.wrong("unique", format!("unique names {} twice", key.fields.join(", ")));
            }
            let found = self.named("unique", &key.fields, fields);
            let found: Vec<KeyField> = found
                .into_iter()
                .flatten()
                .map(|index| KeyField { index, folded: key.ignore_case && is_text(fields[index].kind) })
                .collect();
            if found.is_empty() {
                continue;
            }
            if key.ignore_case && found.iter().all(|field| !field.folded) {
                self.wrong("unique", "ignore_case has no meaning for a key without a text");
            }
            if let [KeyField { index, folded: false }] = *found
                && fields[index].unique
            {
                self.wrong("unique", format!("\"{}\" is unique already", fields[index].name));
            }
            limit(fields, found.iter().map(|field| field.index), key.ignore_case);
            keys.push(Key { fields: found, declared: true });
        }
        keys
    }

    /// The declared indexes.
    pub(super) fn indexes(&mut self, fields: &mut [ModelField]) -> Vec<Vec<(String, bool)>> {
        let entity = self.entity;
        self.at_most("index", entity.index.len());
        let mut indexes = Vec::new();
        for (number, columns) in entity.index.iter().enumerate() {
            if entity.index[..number].contains(columns) {
                self.wrong("index", format!("index names {} twice", columns.join(", ")));
            }
            let columns: Vec<(String, bool)> = columns
                .iter()
                .map(|column| match column.strip_prefix('-') {
                    Some(column) => (column.to_owned(), true),
                    None => (column.clone(), false),
                })
                .collect();
            let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
            let found = self.named("index", &names, fields);
            limit(fields, found.into_iter().flatten(), false);
            indexes.push(columns);
        }
        indexes
    }

    /// The fields that the server numbers.
    pub(super) fn sequences(&mut self, fields: &mut [ModelField], tenant: Option<usize>) -> Vec<Sequence> {
        let entity = self.entity;
        let mut sequences = Vec::new();
        for (field, declared) in entity.fields.iter().enumerate() {
            let Some(names) = &declared.sequence else { continue };
            let mut scope: Vec<usize> = tenant.into_iter().collect();
            for (number, name) in names.iter().enumerate() {
                let found = fields.iter().position(|field| field.name == *name);
                let message = match found.map(|index| (index, fields[index].kind)) {
                    _ if names[..number].contains(name) => format!("sequence names \"{}\" twice", cut(name)),
                    Some((index, _)) if index == field => "a sequence does not count within itself".to_owned(),
                    Some((index, _)) if Some(index) == tenant => {
                        format!("\"{name}\" is part of every sequence by itself; leave it out")
                    }
                    Some((index, kind)) if is_counted(kind) => {
                        scope.push(index);
                        continue;
                    }
                    Some((_, kind)) => format!("\"{name}\" is of the type {kind}, within which nothing is counted"),
                    None => {
                        let hint = hint(name, fields.iter().map(|field| &*field.name));
                        format!("there is no field \"{}\"{hint}", cut(name))
                    }
                };
                self.note(Some(field), Some("sequence"), message);
            }
            limit(fields, scope.iter().copied(), true);
            sequences.push(Sequence { field, scope });
        }
        sequences
    }

    fn at_most(&mut self, attribute: &'static str, count: usize) {
        if count > MOST {
            self.wrong(attribute, format!("an entity has at most {MOST} entries in {attribute}"));
        }
    }

    /// The positions of the fields with these names; `None` for the columns that every record has. Notes what is wrong with them.
    fn named(&mut self, attribute: &'static str, names: &[String], fields: &[ModelField]) -> Vec<Option<usize>> {
        if names.is_empty() || names.len() > MOST_FIELDS {
            self.wrong(attribute, format!("an entry of {attribute} names 1 to {MOST_FIELDS} fields"));
        }
        let mut found = Vec::new();
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                self.wrong(attribute, format!("an entry of {attribute} names \"{}\" twice", cut(name)));
                continue;
            }
            if attribute == "index" && names::OWN_COLUMNS.contains(&name.as_str()) {
                if name == "id" {
                    self.wrong(attribute, "the id follows the columns of every index; leave it out");
                }
                found.push(None);
                continue;
            }
            match fields.iter().position(|field| field.name == *name) {
                Some(index) if fields[index].kind.unordered().is_some() => {
                    let what = fields[index].kind.unordered().unwrap_or_default();
                    self.wrong(attribute, format!("\"{name}\" is {what} and has no order"));
                }
                Some(index) if attribute == "unique" && fields[index].name == names::TENANT_COLUMN => {
                    self.wrong(attribute, format!("\"{name}\" is part of every key by itself; leave it out"));
                    found.push(Some(index));
                }
                Some(index) => found.push(Some(index)),
                None => {
                    let hint = hint(name, fields.iter().map(|field| &*field.name));
                    self.wrong(attribute, format!("{attribute}: there is no field \"{}\"{hint}", cut(name)));
                }
            }
        }
        found
    }
}

/// Types whose values have one text on both engines.
fn is_counted(kind: Kind) -> bool {
    is_text(kind) || matches!(kind, Kind::Enum | Kind::Relation | Kind::Int | Kind::Uuid | Kind::Date | Kind::Bool)
}

fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::String | Kind::Text)
}

/// Postgres refuses large entries of an index, so the texts of a key share what one text may have alone. A folded letter may have
/// half as many bytes again.
fn limit(fields: &mut [ModelField], indexes: impl Iterator<Item = usize>, folded: bool) {
    let texts: Vec<usize> = indexes.filter(|index| is_text(fields[*index].kind)).collect();
    for index in &texts {
        let bytes = INDEXED_BYTES / texts.len();
        if let Type::Text(text) = &mut fields[*index].rule {
            text.index(if folded { bytes * 2 / 3 } else { bytes });
        }
    }
}
