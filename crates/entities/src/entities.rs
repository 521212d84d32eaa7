use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use gatewright_base::{Ambient, Identity, JsonCase, RolePermissions, Secret};
use gatewright_db::{Db, Sql};
use gatewright_events::outbox::Outbox;
use gatewright_events::{Bus, Cursor, EventLog, Streams};
use http::{HeaderMap, HeaderName};

use crate::access::Policy;
use crate::audience::Followers;
use crate::declare::{DeclarationErrors, Declarations, Entity};
use crate::ids::Ids;
use crate::operations::{Call, CursorKey, Gate, Hooks, ListLimits, Operations, WriteHook};
use crate::plan::{Plan, quoted};
use crate::profile::{Profile, PublicUsers};
use crate::schema::{self, Rules, SchemaError, Users};
use crate::tenancy::{Memberships, Named};

/// The entities of a program, declared, compiled and with their tables in place. Cheap to clone.
///
/// ```no_run
/// # async fn example(db: gatewright_db::Db, bus: gatewright_events::Bus) -> Result<(), gatewright_entities::BuildError> {
/// use gatewright_base::Ambient;
/// use gatewright_entities::{Entities, Entity, Field};
///
/// let entities = Entities::builder(db, Ambient::system())
///     .bus(bus)
///     .declare(Entity::new("posts").owner("user_id").field(Field::string("title").required()))
///     .build()
///     .await?;
/// let routes: axum::Router = entities.router();
/// # let _ = routes; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Entities(Arc<Inner>);

struct Inner {
    db: Db,
    ambient: Ambient,
    ids: Ids,
    bus: Option<Bus>,
    streams: Streams,
    followers: Followers,
    log: Option<EventLog>,
    outbox: Option<Outbox>,
    policy: Policy,
    json_case: JsonCase,
    users_exist: Option<Sql>,
    public_users: Option<PublicUsers>,
    cursors: CursorKey,
    list_gate: Gate,
    hooks: Vec<Arc<dyn WriteHook>>,
    /// By the entity's position. Empty where no entity has any.
    own_hooks: Vec<Option<Arc<dyn Hooks>>>,
    memberships: Option<Arc<dyn Memberships>>,
    plans: Vec<Arc<Plan>>,
    by_name: HashMap<Arc<str>, usize>,
}

/// The header in which requests name their tenant, unless a program says another.
pub const TENANT_HEADER: HeaderName = HeaderName::from_static("x-tenant-id");

/// Whether tables are made or only looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tables {
    /// What is missing is made.
    #[default]
    Create,
    /// What is missing stops the build.
    Check,
}

/// Why entities could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The declarations are wrong.
    #[error(transparent)]
    Declarations(#[from] DeclarationErrors),
    /// An entity is multi-tenant, and nobody knows who belongs to which tenant.
    #[error(
        "entity \"{0}\" is multi-tenant: give the builder memberships, so that callers can be held to their tenants"
    )]
    NoMemberships(String),
    /// Hooks are for an entity that is not declared, or that has some already.
    #[error("hooks for \"{0}\": there is no such entity, or it has hooks already")]
    Hooks(String),
    /// The tables cannot be brought in line with them.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// Collects what [`Entities`] are made of.
#[must_use = "nothing happens before build"]
pub struct Builder {
    db: Db,
    ambient: Ambient,
    bus: Option<Bus>,
    streams: Streams,
    log: Option<EventLog>,
    outbox: Option<Outbox>,
    policy: Policy,
    json_case: JsonCase,
    users: Users,
    profiles: Option<(Arc<Profile>, String)>,
    tables: Tables,
    cursors: CursorKey,
    lists: ListLimits,
    hooks: Vec<Arc<dyn WriteHook>>,
    own_hooks: Vec<(String, Arc<dyn Hooks>)>,
    memberships: Option<Arc<dyn Memberships>>,
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

    /// Where writes are made known. Without it writes emit nothing.
    pub fn bus(self, bus: Bus) -> Self {
        Self { bus: Some(bus), ..self }
    }

    /// What opens the event streams. Without it they answer 503.
    pub fn streams(self, streams: Streams) -> Self {
        Self { streams, ..self }
    }

    /// Which permissions each role brings. None, unless said.
    pub fn roles(mut self, roles: RolePermissions) -> Self {
        self.policy.roles = roles;
        self
    }

    /// Whether API tokens and grants are held to their scopes: `{table}:read` to read, `{table}:write` for the rest. Off
    /// unless said: a token then authenticates as its owner, and its scopes are the host's to check.
    pub fn scope_guard(mut self, on: bool) -> Self {
        self.policy.scope_guard = on;
        self
    }

    /// How keys are spelled. In camel case, unless said.
    pub fn json_case(self, json_case: JsonCase) -> Self {
        Self { json_case, ..self }
    }

    /// Where users are. In the table `users`, unless said.
    pub fn users(self, users: Users) -> Self {
        Self { users, ..self }
    }

    /// Shows the public fields of users to signed-in callers, where `include` follows a relation to `users`. They are read
    /// from the columns `id` and `profile` of `table` in the same database. Without it, the id alone is shown.
    pub fn profiles(self, profile: Arc<Profile>, table: impl Into<String>) -> Self {
        Self { profiles: Some((profile, table.into())), ..self }
    }

    /// What cursors are authenticated with. Replicas that share one take each other's cursors. Without it the process has a
    /// key of its own, and its cursors die with it.
    pub fn secret(self, secret: &Secret) -> Self {
        Self { cursors: CursorKey::derive(secret), ..self }
    }

    /// How many lists a caller and an address may have under way.
    pub fn lists(self, lists: ListLimits) -> Self {
        Self { lists, ..self }
    }

    /// Whether missing tables are made. They are, unless said.
    pub fn tables(self, tables: Tables) -> Self {
        Self { tables, ..self }
    }

    /// Stages the event of every write for durable consumers, in the write's own transaction.
    pub fn outbox(self, outbox: Outbox) -> Self {
        Self { outbox: Some(outbox), ..self }
    }

    /// Logs the event of every write in the write's own transaction, so that streams can resume.
    pub fn log(self, log: EventLog) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Adds something that belongs into every write's transaction. Hooks run in the order they were added.
    pub fn hook(mut self, hook: Arc<dyn WriteHook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// What the program does around the operations on the entity called `name`.
    pub fn hooks(mut self, name: impl Into<String>, hooks: impl Hooks) -> Self {
        self.own_hooks.push((name.into(), Arc::new(hooks)));
        self
    }

    /// Who belongs to which tenant. Multi-tenant entities need it.
    pub fn memberships(self, memberships: Arc<dyn Memberships>) -> Self {
        Self { memberships: Some(memberships), ..self }
    }

    /// Which permissions each role within a tenant brings, for multi-tenant entities and within that tenant alone.
    pub fn tenant_roles(mut self, roles: RolePermissions) -> Self {
        self.policy.tenant_roles = roles;
        self
    }

    /// The header in which requests name their tenant: [`TENANT_HEADER`] unless said.
    pub fn tenant_header(mut self, header: HeaderName) -> Self {
        self.policy.tenant_header = header;
        self
    }

    /// Checks the declarations, brings the tables in line and compiles the entities.
    pub async fn build(self) -> Result<Entities, BuildError> {
        let declarations = Declarations::check(&self.declared)?;
        let tenants = declarations.models.iter().find(|model| model.tenant.is_some());
        if let (Some(model), None) = (tenants, &self.memberships) {
            return Err(BuildError::NoMemberships(model.name.to_string()));
        }
        let own_hooks = own_hooks(&declarations, self.own_hooks)?;
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
        let plans = Plan::compile(&declarations, self.db.engine(), self.json_case);
        let by_name = plans.iter().map(|plan| (plan.name.clone(), plan.index)).collect();
        let users_exist = match self.users {
            Users::Table(table) | Users::TableToCome(table) => {
                Some(format!("SELECT 1 AS found FROM {} WHERE \"id\" = ?1", quoted(&table)).into())
            }
            Users::Elsewhere => None,
        };
        let engine = self.db.engine();
        let public_users = self.profiles.and_then(|(profile, table)| PublicUsers::new(profile, &table, engine));
        Ok(Entities(Arc::new(Inner {
            db: self.db,
            ambient: self.ambient,
            ids: Ids::default(),
            bus: self.bus,
            streams: self.streams,
            followers: Followers::default(),
            log: self.log,
            outbox: self.outbox,
            policy: self.policy,
            json_case: self.json_case,
            users_exist,
            public_users,
            cursors: self.cursors,
            list_gate: Gate::new(self.lists),
            hooks: self.hooks,
            own_hooks,
            memberships: self.memberships,
            plans,
            by_name,
        })))
    }
}

impl Entities {
    /// Starts with a database, and the time and randomness that ids and timestamps come from.
    pub fn builder(db: Db, ambient: Ambient) -> Builder {
        Builder {
            cursors: CursorKey::random(ambient.bytes()),
            lists: ListLimits::default(),
            db,
            ambient,
            bus: None,
            streams: Streams::disabled(),
            log: None,
            outbox: None,
            policy: Policy::default(),
            json_case: JsonCase::default(),
            users: Users::default(),
            profiles: None,
            tables: Tables::default(),
            hooks: Vec::new(),
            own_hooks: Vec::new(),
            memberships: None,
            declared: Vec::new(),
        }
    }

    /// What can be done with their records.
    pub fn operations(&self) -> Operations {
        Operations::new(self.clone())
    }

    /// A request's call: who asks, as authentication found them, and the tenant that its headers name.
    pub fn call(&self, identity: Identity, headers: &HeaderMap) -> Call {
        Call { tenant: Named::read(headers, &self.0.policy.tenant_header), ..Call::from(identity) }
    }

    /// The entities in the order of their declaration.
    pub fn plans(&self) -> &[Arc<Plan>] {
        &self.0.plans
    }

    /// The entity called `name`.
    pub fn plan(&self, name: &str) -> Option<&Arc<Plan>> {
        self.0.by_name.get(name).map(|index| &self.0.plans[*index])
    }

    /// How keys are spelled.
    pub fn json_case(&self) -> JsonCase {
        self.0.json_case
    }

    /// The roles' permissions, and whether tokens are held to their scopes.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    pub(crate) fn at(&self, index: usize) -> &Arc<Plan> {
        &self.0.plans[index]
    }

    pub(crate) fn db(&self) -> &Db {
        &self.0.db
    }

    pub(crate) fn ambient(&self) -> &Ambient {
        &self.0.ambient
    }

    pub(crate) fn bus(&self) -> Option<&Bus> {
        self.0.bus.as_ref()
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.0.streams
    }

    pub(crate) fn followers(&self) -> &Followers {
        &self.0.followers
    }

    pub(crate) fn log(&self) -> Option<&EventLog> {
        self.0.log.as_ref()
    }

    pub(crate) fn outbox(&self) -> Option<&Outbox> {
        self.0.outbox.as_ref()
    }

    /// Where a stream must start to miss nothing that a read from now on does not show.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.0.log.as_ref().map(EventLog::cursor)
    }

    pub(crate) fn hooks(&self) -> &[Arc<dyn WriteHook>] {
        &self.0.hooks
    }

    pub(crate) fn hooks_of(&self, plan: &Plan) -> Option<&dyn Hooks> {
        self.0.own_hooks.get(plan.index)?.as_deref()
    }

    pub(crate) fn memberships(&self) -> Option<&dyn Memberships> {
        self.0.memberships.as_deref()
    }

    pub(crate) fn shared_memberships(&self) -> Option<&Arc<dyn Memberships>> {
        self.0.memberships.as_ref()
    }

    pub(crate) fn cursors(&self) -> &CursorKey {
        &self.0.cursors
    }

    pub(crate) fn list_gate(&self) -> &Gate {
        &self.0.list_gate
    }

    pub(crate) fn next_id(&self) -> String {
        self.0.ids.next(&self.0.ambient)
    }

    /// The query for a user's existence, where users are in the same database.
    pub(crate) fn users_exist(&self) -> Option<Sql> {
        self.0.users_exist.clone()
    }

    /// The public fields of users, where there are any.
    pub(crate) fn public_users(&self) -> Option<&PublicUsers> {
        self.0.public_users.as_ref()
    }
}

/// Rows that break a rule do not stop a start: they can be read, and be mended through the service too.
fn warn_of(remarks: Result<Vec<String>, gatewright_db::Error>) {
    match remarks {
        Ok(remarks) => remarks.iter().for_each(|remark| tracing::warn!("{remark}")),
        Err(error) => {
            tracing::warn!(%error, "rows were not checked against new rules; `gatewright migrate --plan` does it");
        }
    }
}

fn own_hooks(
    declarations: &Declarations,
    hooks: Vec<(String, Arc<dyn Hooks>)>,
) -> Result<Vec<Option<Arc<dyn Hooks>>>, BuildError> {
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

impl fmt::Debug for Entities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.plans().iter().map(|plan| plan.name())).finish()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("declared", &self.declared).finish_non_exhaustive()
    }
}
