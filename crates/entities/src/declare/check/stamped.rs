//! The fields that the service fills in by itself: the owner's and the tenant's.

use super::Check;
use crate::declare::{Kind, ModelField, names};
use crate::value::Type;
use crate::value::types::{INDEXED_BYTES, Text};

impl Check<'_> {
    /// The position of the owner's field, which is added if it is not declared.
    pub(super) fn owner(&mut self, fields: &mut Vec<ModelField>) -> Option<usize> {
        let name = self.entity.owner.as_deref()?;
        if let Some(index) = self.entity.fields.iter().position(|field| field.name == name) {
            let field = &self.entity.fields[index];
            let to_users = field.kind == Kind::Relation && field.to.as_deref() == Some(names::USERS);
            if !matches!(field.kind, Kind::String | Kind::Text) && !to_users {
                let message = "the owner's field holds an account's id: make it a string or a relation to users";
                self.note(Some(index), Some("type"), message.to_owned());
            }
            // The service gives it to each new record; it is empty once the account is deleted.
            // With an error noted elsewhere, positions may be off; the models are not used then.
            fields.get_mut(index)?.required = false;
            return Some(index);
        }
        if let Some(message) = names::refuse_field(name) {
            self.wrong("owner_field", message);
        }
        fields.push(ModelField { required: false, ..stamped_field(name) });
        Some(fields.len() - 1)
    }

    /// The position of the tenant's field, which is added if it is not declared.
    pub(super) fn tenant(&mut self, fields: &mut Vec<ModelField>) -> Option<usize> {
        if !self.entity.multi_tenant {
            return None;
        }
        let name = names::TENANT_COLUMN;
        if self.entity.owner.as_deref() == Some(name) {
            self.wrong("owner_field", format!("\"{name}\" holds a record's tenant; the owner needs another column"));
        }
        if let Some(index) = self.entity.fields.iter().position(|field| field.name == name) {
            let field = &self.entity.fields[index];
            if !matches!(field.kind, Kind::String | Kind::Text) {
                self.note(Some(index), Some("type"), "this field holds a tenant's name: make it a string".to_owned());
            }
            if field.unique {
                self.note(Some(index), Some("unique"), "a tenant has more than one record".to_owned());
            }
            return Some(index);
        }
        fields.push(stamped_field(name));
        Some(fields.len() - 1)
    }
}

/// The field of a column that the service creates and fills in by itself.
fn stamped_field(name: &str) -> ModelField {
    ModelField {
        name: name.to_owned(),
        kind: Kind::String,
        rule: Type::Text(Text { indexed: Some(INDEXED_BYTES), ..Text::default() }),
        required: true,
        unique: false,
        index: true,
        hidden: true,
        read_only: false,
        default: None,
        word: None,
        relation: None,
        links: None,
        files: None,
        renamed_from: None,
        description: None,
    }
}
