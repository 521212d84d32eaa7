//! The builder of [`Entities`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gatewright_base::{Ambient, Budget, JsonCase, RolePermissions, Secret};
use gatewright_db::Db;
use gatewright_events::outbox::Outbox;
use gatewright_events::{Bus, EventLog, Streams};
use gatewright_http::Origin;
use http::HeaderName;

use crate::access::Policy;
use crate::answers::KeptAnswers;
use crate::audience::Followers;
use crate::context::body_turns::BodyTurns;
use crate::context::cursor::CursorKey;
use crate::context::entities::{Entities, Parts, Upkeep};
use crate::context::exports::{ExportLimits, Exports};
use crate::context::gate::{Gate, ListLimits};
use crate::declare::{DeclarationErrors, Declarations, Entity};
use crate::files::FileStore;
use crate::fragment::quoted;
use crate::hooks::outside::{self, Outside};
use crate::hooks::{ChangeHook, EntityHooks, OutsideHook};
use crate::ids::Ids;
use crate::plan::Plan;
use crate::profile::{Profile, PublicUsers};
use crate::schema::{self, Rules, SchemaError, Users};
use crate::tenancy::Memberships;

/// Whether tables are created or only checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tables {
    /// Missing tables and columns are created.
    #[default]
    Create,
    /// The build fails if something is missing.
    Check,
}

/// Why entities could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The declarations are wrong.
    #[error(transparent)]
    Declarations(#[from] DeclarationErrors),
    /// An entity is multi-tenant, and no store of memberships is configured.
    #[error("entity \"{0}\" is multi-tenant: give the builder memberships, which limit callers to their tenants")]
    NoMemberships(String),
    /// An entity has files, and no store of files is configured.
    #[error("entity \"{0}\" has files: give the builder a store of files")]
    NoFiles(String),
    /// Hooks were added for an entity that is not declared, or twice for one entity.
    #[error("hooks for \"{0}\": there is no such entity, or it has hooks already")]
    Hooks(String),
    /// The tables cannot be migrated to the declarations.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// Builds [`Entities`].
#[must_use = "nothing happens before build"]
pub struct Builder {
    db: Db,
    ambient: Ambient,
    bus: Option<Bus>,
    streams: Streams,
    log: Option<EventLog>,
    outbox: Option<Outbox>,
    answers: Option<KeptAnswers>,
    policy: Policy,
    json_case: JsonCase,
    public_origin: Option<Origin>,
    users: Users,
    profiles: Option<(Arc<Profile>, String)>,
    closed_users: Option<String>,
    tables: Tables,
    cursors: CursorKey,
    lists: ListLimits,
    exports: ExportLimits,
    budget: Budget,
    hooks: Vec<Arc<dyn ChangeHook>>,
    own_hooks: Vec<(String, Arc<dyn EntityHooks>)>,
    outside_hooks: Vec<(String, Arc<dyn OutsideHook>)>,
    memberships: Option<Arc<dyn Memberships>>,
    files: Option<Arc<dyn FileStore>>,
    api_prefix: String,
    declared: Vec<Entity>,
}

impl Builder {
    /// Adds an entity.
    pub fn declare(mut self, entity: Entity) -> Self {
        self.declared.push(entity);
        self
    }

    /// Adds several entities.
    pub fn declare_all(mut self, entities: impl IntoIterator<Item = Entity>) -> Self {
        self.declared.extend(entities);
        self
    }

    /// The bus on which writes are published. Without it no events are emitted.
    pub fn bus(self, bus: Bus) -> Self {
        Self { bus: Some(bus), ..self }
    }

    /// Opens the event streams. Without it they answer 503.
    pub fn streams(self, streams: Streams) -> Self {
        Self { streams, ..self }
    }

    /// The permissions of each role. Default: none.
    pub fn roles(mut self, roles: RolePermissions) -> Self {
        self.policy.roles = roles;
        self
    }

    /// Whether scopes of API tokens and grants are checked: `{table}:read` for reading, `{table}:write` for the rest.
    /// Default: off. A token then has all permissions of its owner, and the host must check its scopes.
    pub fn scope_guard(mut self, on: bool) -> Self {
        self.policy.scope_guard = on;
        self
    }

    /// The case of JSON keys. Default: camel case.
    pub fn json_case(self, json_case: JsonCase) -> Self {
        Self { json_case, ..self }
    }

    /// The origin of the service's own pages, which may restore records by session. Default: only the origin of each
    /// request's own host.
    pub fn public_origin(self, origin: Origin) -> Self {
        Self { public_origin: Some(origin), ..self }
    }

    /// Where users are stored. Default: the table `users`.
    pub fn users(self, users: Users) -> Self {
        Self { users, ..self }
    }

    /// Shows the public fields of users to signed-in callers, where `include` follows a relation to `users`. They are
    /// read from the columns `id` and `profile` of `table` in the same database. Without it, only the id is shown.
    pub fn profiles(self, profile: Arc<Profile>, table: impl Into<String>) -> Self {
        Self { profiles: Some((profile, table.into())), ..self }
    }

    /// The condition, on the columns of the table of [`profiles`](Self::profiles), of closed accounts. Callers who read the
    /// [directory](Entity::directory) get their ids alone.
    pub fn closed_users(self, condition: impl Into<String>) -> Self {
        Self { closed_users: Some(condition.into()), ..self }
    }

    /// The secret that authenticates cursors. Replicas with the same secret accept each other's cursors. Without it the
    /// process uses a random key, and its cursors become invalid when it ends.
    pub fn secret(self, secret: &Secret) -> Self {
        Self { cursors: CursorKey::derive(secret), ..self }
    }

    /// Accepts the cursors that replicas authenticate with these secrets too, for a rotation. Call it after
    /// [`secret`](Self::secret).
    pub fn previous_secrets(self, secrets: &[Secret]) -> Self {
        Self { cursors: self.cursors.accepting(secrets), ..self }
    }

    /// How many lists may run at the same time for one caller and for one address.
    pub fn lists(self, lists: ListLimits) -> Self {
        Self { lists, ..self }
    }

    /// How many exports may run at the same time, and for how long.
    pub fn exports(self, exports: ExportLimits) -> Self {
        Self { exports, ..self }
    }

    /// What the records that writes read take their memory from. Default: no limit.
    pub fn budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Whether missing tables are created. Default: they are.
    pub fn tables(self, tables: Tables) -> Self {
        Self { tables, ..self }
    }

    /// Stages the event of every write for durable consumers, in the write's own transaction.
    pub fn outbox(self, outbox: Outbox) -> Self {
        Self { outbox: Some(outbox), ..self }
    }

    /// Keeps the answers to requests with an `Idempotency-Key`. Without it such a request runs each time.
    pub fn answers(self, answers: KeptAnswers) -> Self {
        Self { answers: Some(answers), ..self }
    }

    /// Logs the event of every write in the write's own transaction, so that streams can resume.
    pub fn log(self, log: EventLog) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Adds a hook that runs in every write's transaction. Hooks run in the order in which they were added.
    pub fn change_hook(mut self, hook: impl ChangeHook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Adds a hook for the entity called `name` that runs outside of transactions. An entity may have several.
    pub fn outside_hook(mut self, name: impl Into<String>, hook: impl OutsideHook) -> Self {
        self.outside_hooks.push((name.into(), Arc::new(hook)));
        self
    }

    /// Adds the program's hooks for the entity called `name`.
    pub fn entity_hooks(mut self, name: impl Into<String>, hooks: impl EntityHooks) -> Self {
        self.own_hooks.push((name.into(), Arc::new(hooks)));
        self
    }

    /// Where files are stored. Entities with fields of the kind `file` need it.
    pub fn files(self, files: Arc<dyn FileStore>) -> Self {
        Self { files: Some(files), ..self }
    }

    /// The path under which [`Entities::router`] is mounted, for the addresses of files. Default: none.
    pub fn api_prefix(self, prefix: impl Into<String>) -> Self {
        Self { api_prefix: prefix.into(), ..self }
    }

    /// The memberships of tenants. Multi-tenant entities need it.
    pub fn memberships(self, memberships: Arc<dyn Memberships>) -> Self {
        Self { memberships: Some(memberships), ..self }
    }

    /// The permissions of each role within a tenant. They apply to multi-tenant entities, only within that tenant.
    pub fn tenant_roles(mut self, roles: RolePermissions) -> Self {
        self.policy.tenant_roles = roles;
        self
    }

    /// The header in which requests name their tenant. Default: [`TENANT_HEADER`](crate::TENANT_HEADER).
    pub fn tenant_header(mut self, header: HeaderName) -> Self {
        self.policy.tenant_header = header;
        self
    }

    /// Checks the declarations, migrates the tables and compiles the entities.
    pub async fn build(self) -> Result<Entities, BuildError> {
        let declarations = Declarations::check(&self.declared)?;
        let tenants = declarations.models.iter().find(|model| model.tenant.is_some());
        if let (Some(model), None) = (tenants, &self.memberships) {
            return Err(BuildError::NoMemberships(model.name.to_string()));
        }
        let with_files = declarations.models.iter().find(|model| model.has_files());
        if let (Some(model), None) = (with_files, &self.files) {
            return Err(BuildError::NoFiles(model.name.to_string()));
        }
        let own_hooks = own_hooks(&declarations, self.own_hooks)?;
        let own_hooks = with_outside(&declarations, own_hooks, self.outside_hooks)?;
        match self.tables {
            Tables::Check => {
                schema::check(&self.db, &declarations, &self.users).await?;
                warn_of(schema::broken_rules(&self.db, &declarations, Rules::Unknown).await);
            }
            Tables::Create => {
                let changes = schema::apply(&self.db, &declarations, &self.users).await?;
                changes.notes.iter().for_each(|note| tracing::info!("{note}"));
                warn_of(schema::remember_kept_rules(&self.db, &declarations, Rules::Unknown).await);
            }
        }
        schema::check_views(&self.db, &declarations).await?.iter().for_each(|remark| tracing::warn!("{remark}"));
        let upkeep = Upkeep { users: self.users.clone(), tables: self.tables, declarations };
        let declarations = &upkeep.declarations;
        let plans = Plan::compile(declarations, self.db.engine(), self.json_case, &self.api_prefix);
        let by_name = plans.iter().map(|plan| (plan.name.clone(), plan.index)).collect();
        let users_exist = match self.users {
            Users::Table(table) | Users::TableToCome(table) => {
                Some(format!("SELECT 1 AS found FROM {} WHERE \"id\" = ?1", quoted(&table)).into())
            }
            Users::Elsewhere => None,
        };
        let engine = self.db.engine();
        let closed = self.closed_users.as_deref();
        let public_users = self.profiles.and_then(|(profile, table)| PublicUsers::new(profile, &table, closed, engine));
        Ok(Entities::new(Parts {
            db: self.db,
            ambient: self.ambient,
            ids: Ids::default(),
            bus: self.bus,
            streams: self.streams,
            followers: Followers::default(),
            log: self.log,
            outbox: self.outbox,
            answers: self.answers,
            policy: self.policy,
            json_case: self.json_case,
            public_origin: self.public_origin,
            users_exist,
            public_users,
            cursors: self.cursors,
            list_gate: Gate::new(self.lists),
            exports: Exports::new(self.exports),
            budget: self.budget,
            body_turns: BodyTurns::new(),
            hooks: self.hooks,
            own_hooks,
            hook_turns: outside::turns(),
            memberships: self.memberships,
            files: self.files,
            plans,
            by_name,
            upkeep,
        }))
    }
}

impl Entities {
    /// Starts with a database, and the time and randomness that ids and timestamps come from.
    pub fn builder(db: Db, ambient: Ambient) -> Builder {
        Builder {
            cursors: CursorKey::random(ambient.bytes()),
            lists: ListLimits::default(),
            exports: ExportLimits::default(),
            budget: Budget::unlimited(),
            db,
            ambient,
            bus: None,
            streams: Streams::disabled(),
            log: None,
            outbox: None,
            answers: None,
            policy: Policy::default(),
            json_case: JsonCase::default(),
            public_origin: None,
            users: Users::default(),
            profiles: None,
            closed_users: None,
            tables: Tables::default(),
            hooks: Vec::new(),
            own_hooks: Vec::new(),
            outside_hooks: Vec::new(),
            memberships: None,
            files: None,
            api_prefix: String::new(),
            declared: Vec::new(),
        }
    }
}

/// Rows that break a rule do not stop a start: they can be read, and be mended through the service too.
fn warn_of(remarks: Result<Vec<String>, gatewright_db::Error>) {
    match remarks {
        Ok(remarks) => remarks.iter().for_each(|remark| tracing::warn!("{remark}")),
        Err(error) => {
            tracing::warn!(%error, "existing rows were not checked against new rules; run `gatewright migrate --plan`");
        }
    }
}

fn own_hooks(
    declarations: &Declarations,
    hooks: Vec<(String, Arc<dyn EntityHooks>)>,
) -> Result<Vec<Option<Arc<dyn EntityHooks>>>, BuildError> {
    if hooks.is_empty() {
        return Ok(Vec::new());
    }
    let mut own = vec![None; declarations.names().len()];
    for (name, hooks) in hooks {
        match declarations.names().position(|declared| declared == name) {
            Some(index) if own[index].is_none() => own[index] = Some(hooks),
            _ => return Err(BuildError::Hooks(name)),
        }
    }
    Ok(own)
}

/// The hooks of each entity, after those that run outside of transactions.
fn with_outside(
    declarations: &Declarations,
    mut own: Vec<Option<Arc<dyn EntityHooks>>>,
    outside: Vec<(String, Arc<dyn OutsideHook>)>,
) -> Result<Vec<Option<Arc<dyn EntityHooks>>>, BuildError> {
    let mut each: BTreeMap<usize, Vec<Arc<dyn OutsideHook>>> = BTreeMap::new();
    for (name, hook) in outside {
        let index = declarations.names().position(|declared| declared == name).ok_or(BuildError::Hooks(name))?;
        each.entry(index).or_default().push(hook);
    }
    if !each.is_empty() {
        own.resize(declarations.names().len(), None);
    }
    for (index, hooks) in each {
        let inner = own[index].take();
        own[index] = Some(Arc::new(Outside { hooks, inner }));
    }
    Ok(own)
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("declared", &self.declared).finish_non_exhaustive()
    }
}
