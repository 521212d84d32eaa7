use std::sync::Arc;

use axum::Router;
use gatewright_auth::{Auth, AuthBuilder};
use gatewright_base::{Ambient, Budget};
use gatewright_db::Db;
use gatewright_entities::{Builder as EntitiesBuilder, Entities};
use gatewright_events::fanout::{FanoutOptions, attach};
use gatewright_events::outbox::{Consumer, Outbox, Pulls, RelayBuilder};
use gatewright_events::{Bus, EventLog};

use super::account_events::AccountOutbox;
use super::account_records::EntityRecords;
use super::admin::Admin;
use super::audit::EntityAudit;
use super::banner::Banner;
use super::browsers::Browsers;
use super::files::FileService;
use super::housekeeping::Housekeeper;
use super::limits::Limits;
use super::mail::MailService;
use super::tasks::Running;
use super::{App, BuildError, GRACE, Reloader, Tasks, parts, profiles, router};
use crate::Config;
use crate::functions::Functions;
use crate::hooks;
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::replicas::{Agreement, Replica};
use crate::serve::{Draining, Server};

type Change<T> = Box<dyn FnOnce(T) -> T + Send>;

/// Builds an [`App`]. From [`App::builder`].
#[must_use = "nothing happens before build"]
pub struct AppBuilder {
    config: Config,
    ambient: Ambient,
    database: Option<Db>,
    routes: Router,
    auth: Vec<Change<AuthBuilder>>,
    entities: Vec<Change<EntitiesBuilder>>,
    consumers: Vec<Consumer>,
}

impl AppBuilder {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            ambient: Ambient::system(),
            database: None,
            routes: Router::new(),
            auth: Vec::new(),
            entities: Vec::new(),
            consumers: Vec::new(),
        }
    }

    /// Uses this source of time and randomness.
    pub fn ambient(self, ambient: Ambient) -> Self {
        Self { ambient, ..self }
    }

    /// Uses an open database instead of the configured one.
    pub fn database(self, db: Db) -> Self {
        Self { database: Some(db), ..self }
    }

    /// Changes the builder of authentication after the configuration was applied: for the program's own users and
    /// sessions, further credential schemes, an audit sink.
    pub fn auth(mut self, change: impl FnOnce(AuthBuilder) -> AuthBuilder + Send + 'static) -> Self {
        self.auth.push(Box::new(change));
        self
    }

    /// Changes the builder of entities after the configuration was applied: for hooks on writes, or another table of
    /// users.
    pub fn entities(mut self, change: impl FnOnce(EntitiesBuilder) -> EntitiesBuilder + Send + 'static) -> Self {
        self.entities.push(Box::new(change));
        self
    }

    /// Adds the program's own durable consumer, in addition to the configured ones. Needs `outbox.enabled`.
    pub fn consumer(mut self, consumer: Consumer) -> Self {
        self.consumers.push(consumer);
        self
    }

    /// Adds the program's own routes. Their requests have an [`Identity`](gatewright_base::Identity). They must not use
    /// a path that the configuration uses.
    pub fn routes(self, routes: Router) -> Self {
        Self { routes: self.routes.merge(routes), ..self }
    }

    /// Checks the configuration, opens the database, brings its tables up to date and starts the tasks. Needs a Tokio
    /// runtime.
    pub async fn build(self) -> Result<App, BuildError> {
        let Self { mut config, ambient, database, routes, auth: auth_changes, entities: entities_changes, consumers } =
            self;
        config.check()?;
        let functions = functions(&mut config, &ambient)?;
        config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        // It takes several milliseconds, which the database needs too.
        let recorder = tokio::task::spawn_blocking(Metrics::recorder);
        let db = claimed(database, &config).await?;
        // Entities may point at users, so that users come first.
        let mail = MailService::open(&config, &db, &ambient).await?;
        let limits = Limits::open(&config, &db, &ambient).await?;
        let budget = Budget::new(config.server.memory_budget_bytes);
        let outbox = Box::pin(outbox(&config, functions.as_ref(), &db, &ambient, &budget)).await?;
        let account_events = AccountOutbox::new(&config, outbox.as_ref());
        let auth = parts::auth(&config, &db, &ambient, account_events.as_ref());
        let auth = auth.map(|builder| changed(sending(limits.give_to(builder), &mail), auth_changes));
        let auth = Box::pin(built(auth)).await?;
        let bus = Bus::new(&ambient);
        let log = parts::log(&config, &db, &ambient, &budget).await?;
        let following = log.as_ref().map(|log| log.follow(&bus));
        let streams = parts::streams(&config, &bus, log.as_ref(), &budget);
        let backend = parts::fanout(&config, &db, &ambient).await?;
        let entities = with_members(parts::entities(&config, &db, &ambient), &config, &db, &ambient).await?;
        let entities = entities.bus(bus.clone()).streams(streams.clone()).budget(budget.clone());
        let entities = profiles::shown_by(entities, &config, auth.as_ref());
        let pulls = pulls(&config, outbox.as_ref())?;
        let relay = relay(&config, outbox.as_ref(), pulls.as_ref(), &ambient, consumers)?;
        let files = Box::pin(FileService::open(&config, &db, &ambient)).await?;
        let answers = parts::answers(&config, &db, &ambient).await?;
        let entities = keeping(entities, &config, &ambient, outbox.as_ref(), log.as_ref()).answers(answers.clone());
        let entities = files.give_to(entities, &config);
        let entities = hooked(entities, &config, functions.as_ref(), &ambient)?;
        let entities = Box::pin(changed(entities, entities_changes).build()).await?;
        let relay = listening(relay, functions.as_ref(), (&config, &mail, &limits, &ambient), &entities)?;
        EntityRecords::new(&config, &entities, outbox.as_ref(), log).give_to(auth.as_ref());
        let jobs = Jobs::open(&config, functions.as_ref(), (&db, &entities), outbox.as_ref(), &ambient).await?;
        let (replica, agreement) = Box::pin(joined(&config, &db, &ambient)).await?;
        let banner = Banner::new(&config, &entities);
        let browsers = Browsers::new(&config, &ambient, functions.as_ref())?;
        let fanout = backend.map(|backend| attach(&bus, backend, ambient.clone(), FanoutOptions::default()));
        let fanout_status = fanout.as_ref().map(|fanout| fanout.status().clone());
        let (draining, tasks) = (Draining::default(), Tasks::default());
        let recorder = recorder.await.expect("the recorder is built");
        let reloader = reloader(&config, &entities, auth.as_ref(), &mail, &browsers, &limits);
        let admin = Admin { config: &config, auth: auth.as_ref(), entities: &entities, db: &db, streams: &streams };
        let admin = admin.state(&ambient, outbox.as_ref(), fanout_status.as_ref(), &mail, jobs.as_ref());
        let router = router::Parts {
            config: &config,
            auth: auth.as_ref(),
            browsers: &browsers,
            entities: &entities,
            db: &db,
            bus: &bus,
            streams: &streams,
            outbox: outbox.as_ref(),
            jobs: jobs.as_ref(),
            mail: &mail,
            files: &files,
            pulls: pulls.as_ref(),
            fanout: fanout_status.as_ref(),
            tasks: tasks.clone(),
            api_limit: limits.api(),
            limits: limits.status(),
            agreement,
            mailbox: mail.routes(&config, auth.as_ref()),
            metrics: Metrics::start(recorder, admin.as_ref().map(|state| state.series.clone())),
            admin,
            functions: functions.map(|functions| functions.routes(&config, &entities)),
            budget,
            draining: draining.clone(),
        }
        .assemble(ambient, routes);
        let server = server(&config, router, draining);
        // Last, so that nothing is delivered by an application that is not there.
        tasks.own(Running {
            relay: relay.map(RelayBuilder::start),
            fanout,
            following,
            limits: limits.into_tasks(),
            housekeeper: Some(Housekeeper::start(auth.clone(), answers, entities.clone())),
            jobs: jobs.map(|jobs| jobs.start(config.functions.job_timeout)),
            replica,
            files: files.task(),
        });
        Ok(App {
            server,
            banner,
            db,
            auth,
            entities,
            bus,
            streams,
            outbox,
            pulls,
            fanout: fanout_status,
            tasks,
            mail,
            reloader,
        })
    }
}

/// The program's database or the configured one, which no other process serves.
async fn claimed(given: Option<Db>, config: &Config) -> Result<Db, BuildError> {
    let db = match given {
        Some(db) => db,
        None => parts::open(config).await?,
    };
    db.claim()?;
    Ok(db)
}

async fn with_members(
    entities: EntitiesBuilder,
    config: &Config,
    db: &Db,
    ambient: &Ambient,
) -> Result<EntitiesBuilder, BuildError> {
    if !parts::has_tenants(config) {
        return Ok(entities);
    }
    Ok(entities.memberships(Arc::new(parts::memberships(config, db, ambient).await?)))
}

/// What changes without a restart.
fn reloader(
    config: &Config,
    entities: &Entities,
    auth: Option<&Auth>,
    mail: &MailService,
    browsers: &Browsers,
    limits: &Limits,
) -> Reloader {
    Reloader {
        roles: entities.policy().roles.clone(),
        tenant_roles: entities.policy().tenant_roles.clone(),
        known_tenant_roles: config.tenancy.roles.keys().cloned().collect(),
        auth: auth.cloned(),
        mail: mail.clone(),
        origins: browsers.allowed().cloned(),
        rate: limits.rate(),
        tls: None,
    }
}

fn server(config: &Config, router: Router, draining: Draining) -> Server {
    Server {
        router,
        public_url: config.public_url(),
        max_connections: config.server.max_connections,
        max_connections_per_address: config.server.max_connections_per_address,
        trusted_proxies: config.server.trusted_proxies.clone(),
        slow_reader: config.server.slow_reader,
        draining,
        drain: config.drain(),
        grace: GRACE,
    }
}

/// The entities with what is called before their writes: functions, and programs by HTTP.
fn hooked(
    entities: EntitiesBuilder,
    config: &Config,
    functions: Option<&Functions>,
    ambient: &Ambient,
) -> Result<EntitiesBuilder, BuildError> {
    let entities = functions.into_iter().fold(entities, |entities, functions| functions.around(entities));
    hooks::around(entities, config, ambient).map_err(BuildError::Hook)
}

async fn joined(config: &Config, db: &Db, ambient: &Ambient) -> Result<(Option<Replica>, Agreement), BuildError> {
    Replica::join(config, db, ambient).await.map_err(BuildError::Replicas)
}

async fn built(auth: Option<AuthBuilder>) -> Result<Option<Auth>, BuildError> {
    Ok(match auth {
        Some(builder) => Some(builder.build().await?),
        None => None,
    })
}

/// Authentication that sends mails, if there is a mail server.
fn sending(auth: AuthBuilder, mail: &MailService) -> AuthBuilder {
    mail.mailer().into_iter().fold(auth, AuthBuilder::mailer)
}

/// The entities with what each write is also stored in.
fn keeping(
    entities: EntitiesBuilder,
    config: &Config,
    ambient: &Ambient,
    outbox: Option<&Outbox>,
    log: Option<&EventLog>,
) -> EntitiesBuilder {
    let entities =
        if config.audit.entities { entities.change_hook(EntityAudit::new(ambient.clone())) } else { entities };
    let entities = outbox.into_iter().cloned().fold(entities, EntitiesBuilder::outbox);
    log.into_iter().cloned().fold(entities, EntitiesBuilder::log)
}

/// The relay that delivers to all consumers, if there is an outbox.
fn relay(
    config: &Config,
    outbox: Option<&Outbox>,
    pulls: Option<&Pulls>,
    ambient: &Ambient,
    consumers: Vec<Consumer>,
) -> Result<Option<RelayBuilder>, BuildError> {
    match outbox {
        Some(outbox) => {
            let relay = declared(parts::webhooks(config, outbox, ambient)?, consumers)?;
            Ok(Some(pulled(relay, pulls)?))
        }
        None if consumers.is_empty() => Ok(None),
        None => Err(BuildError::NoOutbox),
    }
}

/// The functions, with the outbox that they need in the configuration.
fn functions(config: &mut Config, ambient: &Ambient) -> Result<Option<Functions>, BuildError> {
    let functions = Functions::load(config, ambient).map_err(BuildError::Functions)?;
    if let Some(functions) = &functions {
        functions.turn_outbox_on(config);
    }
    Ok(functions)
}

/// The outbox, which stores the earlier values that functions want.
async fn outbox(
    config: &Config,
    functions: Option<&Functions>,
    db: &Db,
    ambient: &Ambient,
    budget: &Budget,
) -> Result<Option<Outbox>, BuildError> {
    let previous = functions.map(|functions| functions.wants_previous(config)).unwrap_or_default();
    Ok(parts::outbox(config, &previous, db, ambient, budget).await?)
}

/// The consumers that pull, if there are some.
fn pulls(config: &Config, outbox: Option<&Outbox>) -> Result<Option<Pulls>, BuildError> {
    let Some(outbox) = outbox else { return Ok(None) };
    parts::pulls(config, outbox).map_err(|error| BuildError::Consumer(error.into()))
}

/// The relay, with the functions that listen to events. From now on, functions send mails.
fn listening(
    relay: Option<RelayBuilder>,
    functions: Option<&Functions>,
    (config, mail, limits, ambient): (&Config, &MailService, &Limits, &Ambient),
    entities: &Entities,
) -> Result<Option<RelayBuilder>, BuildError> {
    if let Some(functions) = functions {
        functions.send_by(mail, limits.store(), ambient);
    }
    match (relay, functions) {
        (Some(relay), Some(functions)) => {
            let relay = functions.listening(relay, config, entities);
            relay.map(Some).map_err(|error| BuildError::Consumer(error.into()))
        }
        (relay, _) => Ok(relay),
    }
}

fn declared(relay: RelayBuilder, consumers: Vec<Consumer>) -> Result<RelayBuilder, BuildError> {
    consumers
        .into_iter()
        .try_fold(relay, |relay, consumer| relay.declare(consumer).map_err(|error| BuildError::Consumer(error.into())))
}

fn pulled(relay: RelayBuilder, pulls: Option<&Pulls>) -> Result<RelayBuilder, BuildError> {
    let Some(pulls) = pulls else { return Ok(relay) };
    relay.pulled(pulls).map_err(|error| BuildError::Consumer(error.into()))
}

fn changed<T>(builder: T, changes: Vec<Change<T>>) -> T {
    changes.into_iter().fold(builder, |builder, change| change(builder))
}

impl std::fmt::Debug for AppBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
