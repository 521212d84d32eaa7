//! `/admin/api`, the API for operators of a deployment, and `/admin`, its console.
//!
//! Every request passes [`gate`]: it decides who may administer, refuses pages of other sites, and records each act in
//! the audit log with the operator and the client address. So a handler checks no permissions, except that acts which
//! are hard to undo take [`Fresh`](gate::Fresh) as an argument. The handlers are thin: each resource is one file, which
//! calls the crate that owns it. Records are read and written by the same operations as everywhere, with the operator's
//! permissions.
//!
//! The module is not a separate crate, because it shows the configuration, the pending migrations and the metrics of
//! the process, which only this crate knows.

mod answer;
mod audit;
mod backup;
mod clients;
mod configuration;
mod console;
mod explain;
mod export;
mod gate;
mod health;
mod impersonation;
mod invitations;
mod jobs;
mod live;
mod lockouts;
#[cfg(feature = "mail")]
mod mails;
mod me;
mod outbox;
mod records;
mod series;
mod service_accounts;
mod state;
mod tenants;
mod users;

use axum::Router;
use axum::middleware::from_fn_with_state;
use gatewright_http::layers;

pub(crate) use series::Series;
pub(crate) use state::{AdminState, Parts};

/// The path of everything in this module.
pub(crate) const PATH: &str = "/admin";
/// The path of the request whose duration depends on the size of the database.
pub(crate) const BACKUP: &str = "/admin/api/backup";

/// The admin API and the console. They must be mounted inside of authentication.
pub(crate) fn routes(state: &AdminState) -> Router {
    let routes = Router::new()
        .merge(me::routes())
        .merge(users::routes())
        .merge(export::routes())
        .merge(impersonation::routes())
        .merge(invitations::routes())
        .merge(records::routes())
        .merge(explain::routes())
        .merge(live::routes())
        .merge(outbox::routes())
        .merge(jobs::routes())
        .merge(lockouts::routes())
        .merge(audit::routes())
        .merge(clients::routes())
        .merge(service_accounts::routes())
        .merge(tenants::routes())
        .merge(backup::routes())
        .merge(health::routes())
        .merge(configuration::routes());
    #[cfg(feature = "mail")]
    let routes = routes.merge(mails::routes());
    let routes = routes.method_not_allowed_fallback(layers::method_not_allowed);
    let guarded = routes.route_layer(from_fn_with_state(state.clone(), gate::pass)).layer(layers::NoStoreLayer);
    Router::new().nest(&format!("{PATH}/api"), guarded.with_state(state.clone())).merge(console::routes(&state.config))
}
