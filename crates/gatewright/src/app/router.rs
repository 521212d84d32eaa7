use std::sync::Arc;

use axum::routing::get;
use axum::{Extension, Router};
use gatewright_auth::Auth;
use gatewright_base::Ambient;
use gatewright_db::Db;
use gatewright_entities::Entities;
use gatewright_events::fanout::FanoutStatus;
use gatewright_events::outbox::Outbox;
use gatewright_events::{Bus, Streams};
use gatewright_http::Caller;
use gatewright_http::layers::{BodyLimit, Deadline, EnvelopeLayer, standard};
use gatewright_limits::bucket::TokenBucketLayer;
use tower::ServiceBuilder;

use super::browsers::Browsers;
use crate::home::home;
use crate::metrics::{CountLayer, Metrics};
use crate::{Config, docs, health, mcp, openapi};

/// What routes are made of.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    pub(super) auth: Option<&'a Auth>,
    pub(super) browsers: &'a Browsers,
    pub(super) entities: &'a Entities,
    pub(super) db: &'a Db,
    pub(super) bus: &'a Bus,
    pub(super) streams: &'a Streams,
    pub(super) outbox: Option<&'a Outbox>,
    pub(super) fanout: Option<&'a FanoutStatus>,
    /// What limits requests of entity routes, where something does.
    pub(super) api_limit: Option<TokenBucketLayer>,
    /// The development mailbox, where there is one.
    pub(super) mailbox: Router,
    pub(super) metrics: Metrics,
}

impl Parts<'_> {
    /// Puts all routes together and the layers around them.
    pub(super) fn assemble(self, ambient: Ambient, routes: Router) -> Router {
        let (server, guard) = (&self.config.server, self.browsers.guard());
        let routes = self.identified(routes).merge(self.operations()).merge(self.mailbox);
        let patience = Deadline::new(server.request_timeout);
        let envelope = EnvelopeLayer::new(ambient, BodyLimit(server.max_body_bytes), patience);
        let envelope = envelope.trusted_proxies(server.trusted_proxies.clone());
        let envelope = match self.auth {
            Some(auth) => envelope.never_store(auth.base_path()),
            None => envelope,
        };
        let layers = ServiceBuilder::new().layer(CountLayer(self.metrics)).layer(envelope).option_layer(guard);
        standard(routes, layers)
    }

    /// The routes whose requests bear an identity.
    fn identified(&self, own: Router) -> Router {
        // A layer of the routes alone: what matches none costs nobody a token.
        let limited = match &self.api_limit {
            Some(limit) => self.entities.router().route_layer(limit.clone()),
            None => self.entities.router(),
        };
        let entities = match self.config.api_prefix() {
            "" => limited,
            prefix => Router::new().nest(prefix, limited),
        };
        let base = self.auth.map(|auth| Arc::<str>::from(auth.base_path()));
        let home = get(async move |caller: Caller| home(base.as_deref(), caller).await);
        let own = if own.has_routes() { own } else { own.route("/", home) };
        let routes = own.merge(entities);
        let routes = if self.config.mcp { routes.merge(self.tools()) } else { routes };
        let routes = match self.auth {
            Some(auth) => {
                let endpoints = auth.router().layer(Extension(self.config.server.json_case));
                routes.merge(endpoints).merge(auth.screens())
            }
            None => routes,
        };
        self.browsers.around(routes, self.auth)
    }

    /// The entities as tools. Records cost the same by either door.
    fn tools(&self) -> Router {
        let tools = mcp::routes(self.config, self.entities);
        match &self.api_limit {
            Some(limit) => tools.route_layer(limit.clone()),
            None => tools,
        }
    }

    /// The routes for operators, which need no credentials.
    fn operations(&self) -> Router {
        let (bus, streams, metrics) = (self.bus.clone(), self.streams.clone(), self.metrics.clone());
        let (outbox, fanout) = (self.outbox.cloned(), self.fanout.cloned());
        let readiness = (self.db.clone(), self.fanout.cloned());
        let docs = if self.config.docs { docs::routes(self.config) } else { Router::new() };
        openapi::routes(&openapi::describe(self.config, self.entities.plans()))
            .merge(docs)
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(move || health::readyz(readiness.0.clone(), readiness.1.clone())))
            .route(
                "/metrics",
                get(move || async move {
                    if let Some(outbox) = &outbox {
                        metrics.observe_outbox(outbox).await;
                    }
                    if let Some(fanout) = &fanout {
                        metrics.observe_fanout(fanout);
                    }
                    metrics.render(&bus, &streams)
                }),
            )
    }
}
