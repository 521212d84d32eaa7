use std::sync::Arc;

use axum::routing::get;
use axum::{Extension, Router};
use gatewright_auth::Auth;
use gatewright_base::{Ambient, Budget};
use gatewright_db::Db;
use gatewright_entities::{Entities, Plan};
use gatewright_events::fanout::FanoutStatus;
use gatewright_events::outbox::{Outbox, Pulls};
use gatewright_events::{Bus, Streams};
#[cfg(feature = "mcp")]
use gatewright_http::OpenPath;
use gatewright_http::layers::{AnswerBudgetLayer, BodyLimit, Deadline, EnvelopeLayer, standard};
use gatewright_http::{AnyOrigin, Caller, Origin};
use gatewright_limits::bucket::TokenBucketLayer;
use tower::ServiceBuilder;

use super::Tasks;
use super::banner::Banner;
use super::browsers::Browsers;
use super::files::FileService;
use super::limits::LimitsStatus;
use super::mail::MailService;
use super::{authorization_server, branding};
use crate::admin::{self, AdminState};
#[cfg(feature = "docs")]
use crate::docs;
use crate::health::Readiness;
use crate::home::{Home, Listed, StartPage};
use crate::jobs::Jobs;
#[cfg(feature = "mcp")]
use crate::mcp;
use crate::metrics::{CountLayer, Metrics};
use crate::replicas::Agreement;
use crate::serve::Draining;
use crate::{Config, consumers, health, openapi};

/// The parts that routes are built from.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    pub(super) auth: Option<&'a Auth>,
    pub(super) browsers: &'a Browsers,
    pub(super) entities: &'a Entities,
    pub(super) db: &'a Db,
    pub(super) bus: &'a Bus,
    pub(super) streams: &'a Streams,
    pub(super) outbox: Option<&'a Outbox>,
    pub(super) jobs: Option<&'a Jobs>,
    pub(super) mail: &'a MailService,
    pub(super) files: &'a FileService,
    pub(super) pulls: Option<&'a Pulls>,
    pub(super) fanout: Option<&'a FanoutStatus>,
    /// The limit of entity routes, if there is one.
    pub(super) api_limit: Option<TokenBucketLayer>,
    /// Whether the store of limits answers.
    pub(super) limits: LimitsStatus,
    /// Whether the other servers have the same settings.
    pub(super) agreement: Agreement,
    /// The development mailbox, if there is one.
    pub(super) mailbox: Router,
    pub(super) metrics: Metrics,
    /// The routes of functions, if there are functions.
    pub(super) functions: Option<Router>,
    /// The state of the admin API, if it is enabled.
    pub(super) admin: Option<AdminState>,
    pub(super) draining: Draining,
    /// Owned by the routes, so that it lasts as long as they do.
    pub(super) tasks: Tasks,
    /// The budget for bodies and answers.
    pub(super) budget: Budget,
}

impl Parts<'_> {
    /// Puts all routes together and the layers around them.
    pub(super) fn assemble(self, ambient: Ambient, routes: Router) -> Router {
        let (server, guard, any_origin) = (&self.config.server, self.browsers.guard(), self.any_origin());
        let presentation = branding::presentation(self.config);
        let routes = self.identified(routes).merge(self.operations(&ambient)).merge(self.mailbox);
        let routes = routes.merge(branding::routes(self.config));
        // A large database takes longer to copy.
        let deadline = Deadline::new(server.request_timeout).exempting(|uri| uri.path() == admin::BACKUP);
        let limit = BodyLimit::new(server.max_body_bytes).set_by("server.max_body_bytes");
        let envelope = EnvelopeLayer::new(ambient, limit, deadline).budget(self.budget);
        let envelope = envelope.trusted_proxies(server.trusted_proxies.clone());
        let uploads = self.files.is_upload(self.config, self.entities);
        let envelope = uploads.into_iter().fold(envelope, EnvelopeLayer::streaming);
        let envelope = match self.auth {
            Some(auth) => {
                let small = self.config.auth.max_body_bytes;
                let is_smaller = small < server.max_body_bytes;
                let limit = if is_smaller { BodyLimit::new(small).set_by("auth.max_body_bytes") } else { limit };
                envelope.never_store(auth.base_path()).limit_below(auth.base_path(), limit)
            }
            None => envelope,
        };
        let layers = ServiceBuilder::new()
            .layer(CountLayer { metrics: self.metrics, proxies: server.trusted_proxies.clone() })
            .layer(presentation.layer());
        let layers = layers.layer(envelope).layer(any_origin).option_layer(guard);
        standard(routes, layers)
    }

    /// Lets pages of every origin call what programs find by discovery: with tokens, never with cookies.
    fn any_origin(&self) -> AnyOrigin {
        let paths = self.auth.map(Auth::open_paths).unwrap_or_default().to_vec();
        #[cfg(feature = "mcp")]
        let tools = OpenPath { path: mcp::PATH.to_owned(), methods: "GET, POST, DELETE" };
        #[cfg(feature = "mcp")]
        let paths = paths.into_iter().chain(self.config.mcp.enabled.then_some(tools)).collect();
        AnyOrigin::new(Origin::of(&self.config.public_url()), paths)
    }

    /// What `/` is, if the program has no routes of its own.
    fn home(&self) -> Home {
        let config = self.config;
        if !config.server.dev_mode {
            let app_url = config.server.app_url.as_ref().map(ToString::to_string);
            return Home::Leads { auth: self.auth.is_some(), app_url };
        }
        let banner = Banner::new(config, self.entities);
        let listed = |plan: &Arc<Plan>| Listed {
            table: plan.table().to_owned(),
            path: plan.crud().then(|| format!("{}/{}", config.api_prefix(), plan.table())),
        };
        let warnings = config.warnings();
        let warnings = warnings.iter().filter(|warning| !warning.key.starts_with("view["));
        Home::Start(StartPage {
            db: self.db.clone(),
            auth_base: self.auth.map(|auth| auth.base_path().to_owned()),
            entities: self.entities.plans().iter().map(listed).collect(),
            places: banner.places(config),
            command: banner.command(),
            stream: self
                .entities
                .plans()
                .iter()
                .find(|plan| plan.crud() && !plan.is_read_only() && config.events.enabled)
                .map(|plan| format!("{}/{}/_events", config.api_prefix(), plan.table())),
            // What a view shows of hidden fields is for operators, and everybody reads this page.
            warnings: warnings.map(ToString::to_string).collect(),
        })
    }

    /// The routes whose requests have an identity.
    fn identified(&self, own: Router) -> Router {
        // A layer of the routes only: a request that matches no route uses up no caller's budget.
        let records = self.files.around(self.entities.router(), self.config, self.entities);
        let limited = self.limited(records);
        let entities = match self.config.api_prefix() {
            "" => limited,
            prefix => Router::new().nest(prefix, limited),
        };
        let home = Arc::new(self.home());
        let home = get(async move |caller: Caller| home.clone().show(caller).await);
        let own = if own.has_routes() { own } else { own.route("/", home) };
        let routes = own.merge(entities);
        #[cfg(feature = "mcp")]
        let routes = if self.config.mcp.enabled { routes.merge(self.tools()) } else { routes };
        let routes = self.pulls.map(|pulls| self.consumers(pulls)).into_iter().fold(routes, Router::merge);
        let routes =
            self.functions.iter().fold(routes, |routes, functions| routes.merge(self.limited(functions.clone())));
        let routes = match &self.admin {
            Some(state) => routes.merge(admin::routes(state)),
            None => routes,
        };
        let routes = match self.auth {
            Some(auth) => {
                let endpoints = auth.router().layer(Extension(self.config.server.json_case));
                let routes = routes.merge(endpoints).merge(auth.screens()).merge(auth.well_known());
                match auth.oauth2_challenge(&authorization_server::for_tools(self.config)) {
                    Some(challenge) => routes.layer(challenge),
                    None => routes,
                }
            }
            None => routes,
        };
        // Inside of authentication, so that a caller's share is that of the account.
        self.browsers.around(routes, self.auth, AnswerBudgetLayer::new(self.budget.clone()))
    }

    /// The entities as tools. They share the rate limit of the REST routes.
    #[cfg(feature = "mcp")]
    fn tools(&self) -> Router {
        self.limited(mcp::routes(self.config, self.entities, self.browsers.allowed()))
    }

    /// The consumers that pull.
    fn consumers(&self, pulls: &Pulls) -> Router {
        self.limited(consumers::routes(self.config, pulls, &self.entities.policy().roles))
    }

    /// The routes under the limit of requests to the API. Without routes there is nothing to limit.
    fn limited(&self, routes: Router) -> Router {
        match &self.api_limit {
            Some(limit) if routes.has_routes() => routes.route_layer(limit.clone()),
            Some(_) | None => routes,
        }
    }

    /// The routes for operators, which need no credentials.
    fn operations(&self, ambient: &Ambient) -> Router {
        let ambient = ambient.clone();
        let (bus, streams, metrics) = (self.bus.clone(), self.streams.clone(), self.metrics.clone());
        let (budget, auth, limits) = (self.budget.clone(), self.auth.cloned(), self.limits.clone());
        let (outbox, fanout, mail) = (self.outbox.cloned(), self.fanout.cloned(), self.mail.clone());
        let jobs = self.jobs.cloned();
        let readiness = Readiness {
            db: self.db.clone(),
            fanout: self.fanout.cloned(),
            limits: self.limits.clone(),
            agreement: self.agreement.clone(),
            draining: self.draining.clone(),
            _tasks: self.tasks.clone(),
        };
        let (config, entities) = (self.config.clone(), self.entities.clone());
        let routes = openapi::routes(move || openapi::describe(&config, entities.plans()));
        #[cfg(feature = "docs")]
        let routes = if self.config.docs { routes.merge(docs::routes(self.config)) } else { routes };
        routes
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(move || health::readyz(readiness.clone())))
            .route(
                "/metrics",
                get(move || async move {
                    let observe = async {
                        if let Some(outbox) = &outbox {
                            metrics.observe_outbox(outbox).await;
                        }
                        if let Some(fanout) = &fanout {
                            metrics.observe_fanout(fanout);
                        }
                        metrics.observe_mail(&mail, ambient.now()).await;
                        if let Some(jobs) = &jobs {
                            metrics.observe_jobs(jobs).await;
                        }
                        if let Some(auth) = &auth {
                            metrics.observe_passwords(auth.hashing_load());
                        }
                        metrics.observe_budget(&budget);
                        metrics.observe_limits(&limits);
                        metrics.observe_process();
                    };
                    metrics.answer(&bus, &streams, observe).await
                }),
            )
    }
}
