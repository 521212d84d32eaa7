//! Read-only entities, which have neither a table nor writes.

use super::Check;
use crate::access::Action;
use crate::declare::entity::Access;
use crate::declare::names::{TENANT_COLUMN, USERS};
use crate::declare::{Entity, Field, OnDelete, Query};
use crate::schema::MAX_QUERY;

impl Check<'_> {
    /// Notes what means nothing for records that nobody writes: a silent attribute would be a rule that its author believes in.
    pub(super) fn read_only(&mut self) {
        let entity = self.entity;
        let Some(query) = entity.query.as_deref() else { return };
        self.query(query);
        if entity.fields.iter().any(|field| field.kind == crate::declare::Kind::File) {
            self.wrong("field", "a field of files has no meaning here: the records are only read".to_owned());
        }
        let written = [Action::Create, Action::Update, Action::Delete];
        let access = Access { read: None, export: None, ..entity.access.clone() };
        for (attribute, given) in [
            ("table", entity.table.is_some()),
            ("renamed_from", entity.renamed_from.is_some()),
            ("access", access != Access::default()),
            ("cross_owner_write", entity.cross_owner_write.is_some()),
            ("rules.update_before", entity.update_before.is_some() || entity.update_after.is_some()),
            ("rules", written.iter().any(|action| entity.row_rules.get(*action).is_some())),
            ("soft_delete", entity.soft_delete),
            ("search", entity.search.is_some()),
            ("client_ids", entity.client_ids),
            ("unique", !entity.unique.is_empty()),
            ("index", !entity.index.is_empty()),
            ("check", !entity.checks.is_empty()),
        ] {
            if given {
                self.wrong(attribute, format!("{attribute} has no meaning here: the records are only read"));
            }
        }
        if let Some(owner) = entity.owner.as_deref().filter(|owner| !has(entity, owner)) {
            let message = format!("there is no field \"{owner}\"; a view has the column of its owner as a field");
            self.wrong("owner_field", message);
        }
        for (index, field) in entity.fields.iter().enumerate() {
            for attribute in written_attributes(field) {
                let message = format!("{attribute} has no meaning here: the records are only read");
                self.note(Some(index), Some(attribute), message);
            }
        }
    }

    fn query(&mut self, query: &Query) {
        use gatewright_db::Engine::{Postgres, Sqlite};
        let texts = [query.sql(Sqlite), query.sql(Postgres)];
        if texts.iter().all(Option::is_none) || texts.iter().flatten().any(|text| text.is_empty()) {
            self.wrong("sql", "a view needs sql = the SELECT of its rows");
        }
        if texts.iter().flatten().any(|text| text.len() > MAX_QUERY) {
            self.wrong("sql", format!("a SELECT takes at most {MAX_QUERY} bytes"));
        }
        if texts.iter().flatten().any(|text| text.contains(['?', '\0']) && has_parameter(text)) {
            self.wrong("sql", "a SELECT has no parameters; a question mark belongs into quotes");
        }
        if self.entity.public && self.entity.multi_tenant {
            let message = format!("the SELECT names {TENANT_COLUMN}: say all_tenants = true if everybody may read all");
            self.wrong("sql", message);
        }
        if self.entity.name == USERS && !self.entity.is_directory {
            self.wrong("name", "the accounts are opened by [auth.directory]");
        }
    }
}

/// Whether a text has a question mark outside of quotes, where it would be the placeholder of a value. Comments count as text.
fn has_parameter(text: &str) -> bool {
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (_, '\0') | (None, '?') => return true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    false
}

fn has(entity: &Entity, name: &str) -> bool {
    entity.fields.iter().any(|field| field.name == name)
}

/// The attributes that are about writing.
fn written_attributes(field: &Field) -> impl Iterator<Item = &'static str> {
    [
        ("required", field.required),
        ("unique", field.unique),
        ("index", field.index),
        ("read_only", field.read_only),
        ("default", field.default.is_some()),
        ("min", field.min.is_some()),
        ("max", field.max.is_some()),
        ("pattern", field.pattern.is_some()),
        ("on_delete", field.on_delete.is_some_and(|rule| rule != OnDelete::default())),
        ("renamed_from", field.renamed_from.is_some()),
        ("write", field.write.is_some()),
        ("sequence", field.sequence.is_some()),
        ("unique_items", field.unique_items),
        ("many", field.many),
    ]
    .into_iter()
    .filter_map(|(attribute, given)| given.then_some(attribute))
}
