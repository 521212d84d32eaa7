use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use gatewright_base::{Ambient, Budget, Identity, JsonCase, Shares};
use gatewright_db::{Db, Lane, Share, Sql};
use gatewright_events::outbox::Outbox;
use gatewright_events::{Bus, Cursor, EventLog, Streams};
use gatewright_http::Origin;
use http::HeaderMap;
use http::header::ACCEPT_LANGUAGE;

use super::body_turns::BodyTurns;
use super::cursor::CursorKey;
use super::exports::Exports;
use super::gate::{self, Gate};
use crate::access::Policy;
use crate::answers::KeptAnswers;
use crate::audience::Followers;
use crate::builder::Tables;
use crate::call::Call;
use crate::declare::Declarations;
use crate::files::FileStore;
use crate::hooks::{ChangeHook, EntityHooks};
use crate::ids::Ids;
use crate::plan::Plan;
use crate::profile::PublicUsers;
use crate::schema::Users;
use crate::tenancy::{Memberships, Named};

/// The entities of a program, declared, compiled and with their tables. Cheap to clone.
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
pub struct Entities(Arc<Parts>);

/// What they are built from.
pub(crate) struct Parts {
    pub(crate) db: Db,
    pub(crate) ambient: Ambient,
    pub(crate) ids: Ids,
    pub(crate) bus: Option<Bus>,
    pub(crate) streams: Streams,
    pub(crate) followers: Followers,
    pub(crate) log: Option<EventLog>,
    pub(crate) outbox: Option<Outbox>,
    pub(crate) answers: Option<KeptAnswers>,
    pub(crate) policy: Policy,
    pub(crate) json_case: JsonCase,
    pub(crate) public_origin: Option<Origin>,
    pub(crate) users_exist: Option<Sql>,
    pub(crate) public_users: Option<PublicUsers>,
    pub(crate) cursors: CursorKey,
    pub(crate) list_gate: Gate,
    pub(crate) exports: Exports,
    pub(crate) budget: Budget,
    pub(crate) body_turns: BodyTurns,
    pub(crate) hooks: Vec<Arc<dyn ChangeHook>>,
    /// By the entity's position. Empty if no entity has any.
    pub(crate) own_hooks: Vec<Option<Arc<dyn EntityHooks>>>,
    /// How many questions to hooks outside of the server are asked at a time.
    pub(crate) hook_turns: Shares<Share>,
    pub(crate) memberships: Option<Arc<dyn Memberships>>,
    pub(crate) files: Option<Arc<dyn FileStore>>,
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) by_name: HashMap<Arc<str>, usize>,
    pub(crate) upkeep: Upkeep,
}

/// What the tables were made from.
pub(crate) struct Upkeep {
    pub(crate) declarations: Declarations,
    pub(crate) users: Users,
    pub(crate) tables: Tables,
}

impl Entities {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// What the tables were made from.
    pub(crate) fn upkeep(&self) -> &Upkeep {
        &self.0.upkeep
    }

    /// Where files are stored.
    pub(crate) fn files(&self) -> Option<&dyn FileStore> {
        self.0.files.as_deref()
    }

    /// A request's call: the caller, as authentication identified them, and the tenant that its headers name.
    pub fn call(&self, identity: Identity, headers: &HeaderMap) -> Call {
        let tenant = Named::read(headers, &self.0.policy.tenant_header);
        let languages = headers.get(ACCEPT_LANGUAGE).cloned();
        Call { tenant, languages, is_requested: true, ..Call::from(identity) }
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

    /// The origin of the service's own pages, if it is configured.
    pub(crate) fn public_origin(&self) -> Option<&Origin> {
        self.0.public_origin.as_ref()
    }

    /// The roles' permissions, and whether scopes of tokens are checked.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    pub(crate) fn at(&self, index: usize) -> &Arc<Plan> {
        &self.0.plans[index]
    }

    pub(crate) fn exports(&self) -> &Exports {
        &self.0.exports
    }

    pub(crate) fn db(&self) -> &Db {
        &self.0.db
    }

    /// The database for a caller's short reads, which count against the caller's share.
    pub(crate) fn db_for(&self, call: &Call) -> Db {
        self.0.db.clone().lane(Lane::Records(gate::share(call)))
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

    /// The outbox in which events of writes are staged, if there is one.
    pub fn outbox(&self) -> Option<&Outbox> {
        self.0.outbox.as_ref()
    }

    /// The answers that are kept under keys of callers, if the program keeps them.
    pub fn kept_answers(&self) -> Option<&KeptAnswers> {
        self.answers()
    }

    /// The answers that are kept under keys of callers, if they are.
    pub(crate) fn answers(&self) -> Option<&KeptAnswers> {
        self.0.answers.as_ref()
    }

    /// Whether anything could ask later for a record's values from before a write.
    pub(crate) fn asks_before(&self, plan: &Plan) -> bool {
        self.0.log.is_some() || self.0.followers.follow(plan.index)
    }

    /// Where a stream must start to miss nothing that a read from now on does not show.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.0.log.as_ref().map(EventLog::cursor)
    }

    pub(crate) fn hooks(&self) -> &[Arc<dyn ChangeHook>] {
        &self.0.hooks
    }

    pub(crate) fn hook_turns(&self) -> &Shares<Share> {
        &self.0.hook_turns
    }

    pub(crate) fn hooks_of(&self, plan: &Plan) -> Option<&dyn EntityHooks> {
        self.0.own_hooks.get(plan.index)?.as_deref()
    }

    /// The hooks around reads, if they do something there.
    pub(crate) fn read_hooks_of(&self, plan: &Plan) -> Option<&Arc<dyn EntityHooks>> {
        self.0.own_hooks.get(plan.index)?.as_ref().filter(|hooks| hooks.sees_reads())
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

    pub(crate) fn body_turns(&self) -> &BodyTurns {
        &self.0.body_turns
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    pub(crate) fn list_gate(&self) -> &Gate {
        &self.0.list_gate
    }

    pub(crate) fn next_id(&self) -> String {
        self.0.ids.next(&self.0.ambient)
    }

    /// The query for a user's existence, if users are in the same database.
    pub(crate) fn users_exist(&self) -> Option<Sql> {
        self.0.users_exist.clone()
    }

    /// The public fields of users, if there are any.
    pub(crate) fn public_users(&self) -> Option<&PublicUsers> {
        self.0.public_users.as_ref()
    }
}

impl fmt::Debug for Entities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.plans().iter().map(|plan| plan.name())).finish()
    }
}
