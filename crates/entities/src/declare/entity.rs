use super::{Field, Kind, Language, Query, RecordCheck, Unique, names};
use crate::access::Action;

/// An entity as declared: nothing is checked before the entities are built.
///
/// ```
/// use gatewright_entities::{Entity, Field};
/// let posts = Entity::new("posts")
///     .owner("user_id")
///     .field(Field::string("title").required().min(1).max(200))
///     .field(Field::text("body"));
/// ```
#[expect(clippy::struct_excessive_bools, reason = "one for each attribute that a declaration may set")]
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    pub(crate) name: String,
    pub(crate) table: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) public: bool,
    pub(crate) access: Access,
    pub(crate) cross_owner_read: Option<String>,
    pub(crate) cross_owner_write: Option<String>,
    pub(crate) row_rules: Box<ByAction<String>>,
    pub(crate) crud: bool,
    pub(crate) mcp: bool,
    pub(crate) max_list_limit: u32,
    pub(crate) multi_tenant: bool,
    pub(crate) soft_delete: bool,
    pub(crate) client_ids: bool,
    pub(crate) search_fields: Vec<String>,
    /// The language and the fields, each with its weight.
    pub(crate) search: Option<(Language, Vec<(String, u32)>)>,
    pub(crate) cursor_fields: Vec<String>,
    pub(crate) update_before: Option<String>,
    pub(crate) update_after: Option<String>,
    pub(crate) checks: Vec<RecordCheck>,
    pub(crate) unique: Vec<Unique>,
    pub(crate) index: Vec<Vec<String>>,
    pub(crate) renamed_from: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) fields: Vec<Field>,
    /// What its records are selected by, if they are in no table of its own.
    pub(crate) query: Option<Box<Query>>,
    /// Who may read it, as a rule over the caller alone.
    pub(crate) readers: Option<String>,
    /// Whether relations to users lead to it.
    pub(crate) is_directory: bool,
}

/// The permission that each action requires, as text: `posts:read`, or `public` for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: Option<String>,
    pub(crate) create: Option<String>,
    pub(crate) update: Option<String>,
    pub(crate) delete: Option<String>,
    pub(crate) export: Option<String>,
}

/// Something that each action may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByAction<T>([Option<T>; 4]);

impl<T> ByAction<T> {
    pub(crate) fn get(&self, action: Action) -> Option<&T> {
        self.0[action as usize].as_ref()
    }

    pub(crate) fn set(&mut self, action: Action, value: T) {
        self.0[action as usize] = Some(value);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

impl<T> Default for ByAction<T> {
    fn default() -> Self {
        Self([None, None, None, None])
    }
}

/// The default of the most records on one page of a list.
pub const DEFAULT_MAX_LIST_LIMIT: u32 = 100;

impl Entity {
    /// An entity whose table has the same name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            table: None,
            owner: None,
            public: false,
            access: Access::default(),
            cross_owner_read: None,
            cross_owner_write: None,
            row_rules: Box::default(),
            crud: true,
            mcp: true,
            max_list_limit: DEFAULT_MAX_LIST_LIMIT,
            multi_tenant: false,
            soft_delete: false,
            client_ids: false,
            search_fields: Vec::new(),
            search: None,
            cursor_fields: Vec::new(),
            update_before: None,
            update_after: None,
            checks: Vec::new(),
            unique: Vec::new(),
            index: Vec::new(),
            renamed_from: None,
            description: None,
            label: None,
            fields: Vec::new(),
            query: None,
            readers: None,
            is_directory: false,
        }
    }

    /// A read-only entity: its records are the rows of a query, which has a column `id` with a value that no other row has. They have
    /// no events. If the query names the column `tenant_id` and is not for [all tenants](Query::all_tenants), callers see the rows
    /// of their tenant.
    ///
    /// ```
    /// use gatewright_entities::{Entity, Field, Query};
    /// let load = Entity::view(
    ///     "desk_load",
    ///     Query::new("SELECT desk AS id, count(*) AS open FROM tickets WHERE state = 'open' GROUP BY desk"),
    /// )
    /// .field(Field::int("open"));
    /// ```
    pub fn view(name: impl Into<String>, query: Query) -> Self {
        let multi_tenant = query.names(names::TENANT_COLUMN) && !query.all_tenants;
        Self { query: Some(Box::new(query)), multi_tenant, ..Self::new(name) }
    }

    /// The accounts as a read-only entity called `users`, to which relations to users lead, in `include`, `filter` and `sort`. The
    /// columns of the query are `id` and those of the fields, and `tenant_id` if callers see the members of their tenant alone.
    pub fn directory(query: Query, readers: impl Into<String>) -> Self {
        Self { is_directory: true, readers: Some(readers.into()), ..Self::view(names::USERS, query.of_program()) }
    }

    /// The name of the table, which is also the path of the endpoints.
    pub fn table(self, table: impl Into<String>) -> Self {
        Self { table: Some(table.into()), ..self }
    }

    /// The former name of the table: it is renamed if it still has that name. It may stay declared.
    pub fn renamed_from(self, table: impl Into<String>) -> Self {
        Self { renamed_from: Some(table.into()), ..self }
    }

    /// What its records are, for documents, tools and generated types: at most 1,000 characters.
    pub fn description(self, text: impl Into<String>) -> Self {
        Self { description: Some(text.into()), ..self }
    }

    /// The field that the console shows where it would show a record's id.
    pub fn label(self, field: impl Into<String>) -> Self {
        Self { label: Some(field.into()), ..self }
    }

    /// The column with the id of a record's owner. Each user sees and changes only their own records. If no field
    /// declares the column, it is created as a hidden one.
    pub fn owner(self, column: impl Into<String>) -> Self {
        Self { owner: Some(column.into()), ..self }
    }

    /// Allows every operation to all callers, including anonymous ones.
    pub fn public(self) -> Self {
        Self { public: true, ..self }
    }

    /// The permission that `action` requires (`posts:write`), or the word `public`, which allows it to all callers.
    pub fn access(mut self, action: Action, permission: impl Into<String>) -> Self {
        let slot = match action {
            Action::Read => &mut self.access.read,
            Action::Create => &mut self.access.create,
            Action::Update => &mut self.access.update,
            Action::Delete => &mut self.access.delete,
        };
        *slot = Some(permission.into());
        self
    }

    /// The permission that an export of all records requires, in addition to reading them. A token needs the scope
    /// `{table}:export` too.
    pub fn export(mut self, permission: impl Into<String>) -> Self {
        self.access.export = Some(permission.into());
        self
    }

    /// The permission to read the records of every owner.
    pub fn cross_owner_read(self, permission: impl Into<String>) -> Self {
        Self { cross_owner_read: Some(permission.into()), ..self }
    }

    /// The permission to change and delete the records of every owner, for example for moderators. It does not include
    /// reading them.
    pub fn cross_owner_write(self, permission: impl Into<String>) -> Self {
        Self { cross_owner_write: Some(permission.into()), ..self }
    }

    /// The rule that must hold for a record for `action`, in the language of `filter=`. It further restricts what
    /// owner, permission and tenant allow.
    ///
    /// ```
    /// use gatewright_entities::{Action, Entity, Field};
    /// let tasks = Entity::new("tasks")
    ///     .field(Field::relation("project", "projects").required())
    ///     .field(Field::relation("assignee", "users"))
    ///     .rule(Action::Read, "project.members(project).user = @me || assignee = @me")
    ///     .rule(Action::Delete, "project.owner = @me");
    /// ```
    pub fn rule(mut self, action: Action, rule: impl Into<String>) -> Self {
        self.row_rules.set(action, rule.into());
        self
    }

    /// The rule that must hold for a record before an update, in place of the rule for [`Action::Update`], which must hold before
    /// and after.
    ///
    /// ```
    /// use gatewright_entities::{Entity, Field};
    /// let tickets = Entity::new("tickets")
    ///     .field(Field::relation("requester", "users"))
    ///     .field(Field::string("state"))
    ///     .rule_before_update("requester = @me && state = 'open'")
    ///     .rule_after_update("requester = @me && (!changed(state) || state = 'closed')");
    /// ```
    pub fn rule_before_update(self, rule: impl Into<String>) -> Self {
        Self { update_before: Some(rule.into()), ..self }
    }

    /// The rule that must hold for a record as an update leaves it.
    pub fn rule_after_update(self, rule: impl Into<String>) -> Self {
        Self { update_after: Some(rule.into()), ..self }
    }

    /// Adds a condition that every record must pass when it is created or changed.
    pub fn check(mut self, check: RecordCheck) -> Self {
        self.checks.push(check);
        self
    }

    /// Whether it has endpoints under `/{table}`. Default: true.
    pub fn crud(self, on: bool) -> Self {
        Self { crud: on, ..self }
    }

    /// Whether it has tools at `/mcp`. Default: true.
    pub fn mcp(self, on: bool) -> Self {
        Self { mcp: on, ..self }
    }

    /// The most records on one page of a list. Default: [`DEFAULT_MAX_LIST_LIMIT`].
    pub fn max_list_limit(self, limit: u32) -> Self {
        Self { max_list_limit: limit, ..self }
    }

    /// Isolates the records of tenants: each record belongs to the tenant of the request that created it, and only that
    /// tenant's members see and change it. If no field declares the column `tenant_id`, it is created as a hidden one.
    pub fn multi_tenant(self) -> Self {
        Self { multi_tenant: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its table. Default: its name.
    pub fn table_name(&self) -> &str {
        self.table.as_deref().unwrap_or(&self.name)
    }

    /// The name of the field at that position.
    pub fn field_name(&self, index: usize) -> Option<&str> {
        self.fields.get(index).map(|field| &*field.name)
    }

    /// Whether it has endpoints.
    pub fn has_crud(&self) -> bool {
        self.crud
    }

    /// Whether it has tools.
    pub fn has_tools(&self) -> bool {
        self.mcp
    }

    /// Whether every operation is open to all callers.
    pub fn is_public(&self) -> bool {
        self.public
    }

    /// Whether records have owners.
    pub fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether any operation has a rule.
    pub fn has_rules(&self) -> bool {
        let split = [&self.update_before, &self.update_after];
        self.row_rules.iter().next().is_some() || split.into_iter().any(Option::is_some)
    }

    /// Whether any operation has an `access` setting.
    pub fn has_access(&self) -> bool {
        self.access != Access::default()
    }

    /// Whether an export needs a permission.
    pub fn has_export(&self) -> bool {
        self.access.export.is_some()
    }

    /// Whether its records are the rows of a query, which nobody writes.
    pub fn is_read_only(&self) -> bool {
        self.query.is_some()
    }

    /// Whether it is a view that shows the rows of all tenants to every caller whom its access allows.
    pub fn shows_all_tenants(&self) -> bool {
        self.query.as_ref().is_some_and(|query| query.all_tenants)
    }

    /// Whether its records are the accounts.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Whether its records have files.
    pub fn has_files(&self) -> bool {
        self.fields.iter().any(|field| field.kind == Kind::File)
    }

    /// Whether it isolates the records of tenants.
    pub fn is_multi_tenant(&self) -> bool {
        self.multi_tenant
    }

    /// A deleted record is only marked as such.
    pub fn soft_delete(self) -> Self {
        Self { soft_delete: true, ..self }
    }

    /// A create may bring its own id, a UUID of version 7 or 4. Lists are in the order of `created_at` and the id then,
    /// because ids of clients are in no order. An id that any record has is refused, so callers learn whether it is in use.
    pub fn client_ids(self) -> Self {
        Self { client_ids: true, ..self }
    }

    /// Lets `q=` search an index of the words of these fields: at most eight, each with what its words count in the rank of a record,
    /// from 1 to 1,000. Words of the language are compared by their stems.
    pub fn search<F: Into<String>>(self, language: Language, fields: impl IntoIterator<Item = (F, u32)>) -> Self {
        let fields = fields.into_iter().map(|(field, weight)| (field.into(), weight)).collect();
        Self { search: Some((language, fields)), ..self }
    }

    /// The fields in which `q=` looks for a text, if there is no [`search`](Self::search).
    pub fn search_fields<F: Into<String>>(self, fields: impl IntoIterator<Item = F>) -> Self {
        Self { search_fields: fields.into_iter().map(Into::into).collect(), ..self }
    }

    /// The order that `cursor=` pages through.
    pub fn cursor_fields<F: Into<String>>(self, fields: impl IntoIterator<Item = F>) -> Self {
        Self { cursor_fields: fields.into_iter().map(Into::into).collect(), ..self }
    }

    /// Adds a key: no two records have the same values in these fields, within a tenant and among records that are not
    /// deleted. See [`Unique`] for keys that ignore case.
    pub fn unique(mut self, key: impl Into<Unique>) -> Self {
        self.unique.push(key.into());
        self
    }

    /// Adds an index over these columns in this order, each descending if it begins with `-`. The id follows them. Besides
    /// fields, it may name `created_at` and `updated_at`.
    pub fn index<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.index.push(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a field. Answers and documents list the fields in this order.
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }
}
