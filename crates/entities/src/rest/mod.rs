//! The endpoints: thin layers over the [operations](crate::operations).
//!
//! A handler parses the request, calls one operation and builds the answer, which contains the record's bytes
//! unchanged.
//!
//! | method and path | handler |
//! |---|---|
//! | `GET /{table}` | [`records::list`] |
//! | `POST /{table}` | [`records::create`] |
//! | `GET /{table}/{id}` | [`records::get`] |
//! | `PUT`, `PATCH /{table}/{id}` | [`records::update`] |
//! | `DELETE /{table}/{id}` | [`records::delete`] |
//! | `POST`, `PATCH`, `DELETE /{table}/_batch` | [`batch`] |
//! | `POST /_batch` | [`batch::mixed`] |
//! | `POST /{table}/{id}/_restore` | [`records::restore`] |
//! | `GET /{table}/_events`, `GET /_events` | [`streams`](crate::streams) |

mod answer;
mod batch;
mod endpoint;
mod event_cursor;
pub(crate) mod once;
mod own_page;
mod record_id;
mod records;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, post};
use gatewright_http::layers;

use self::endpoint::Endpoint;
use crate::context::entities::Entities;
use crate::context::table::Table;
use crate::streams;

impl Entities {
    /// The endpoints of every entity with `crud`, including event streams.
    ///
    /// The caller's [`Identity`](gatewright_base::Identity) is read from the request's extensions; without one every
    /// caller is anonymous. If the extensions contain a [`Presented`](gatewright_base::Presented), a stream resolves
    /// its caller again at each heartbeat.
    pub fn router(&self) -> Router {
        let served = self.tables().filter(|table| table.plan().crud());
        let mixed = post(batch::mixed).fallback(layers::method_not_allowed).with_state(self.clone());
        let streams = get(streams::of_several).fallback(layers::method_not_allowed).with_state(self.clone());
        let router = Router::new().route("/_batch", mixed).route("/_events", streams);
        served.fold(router, |router, table| router.merge(table.routes()))
    }
}

impl Table<'_> {
    fn routes(self) -> Router {
        let endpoint = Arc::new(Endpoint::new(self));
        let plan = self.plan();
        let table = plan.table();
        if plan.is_read_only {
            let router = Router::new()
                .route(&format!("/{table}"), only(get(records::list)))
                .route(&format!("/{table}/{{id}}"), only(get(records::get)));
            return router.with_state(endpoint);
        }
        let stream = get(streams::of_one).fallback(layers::method_not_allowed);
        let stream = stream.with_state((self.entities.clone(), plan.index));
        let list = get(records::list).post(records::create);
        let batch = post(batch::create).patch(batch::update).delete(batch::delete);
        let record = get(records::get).put(records::update).patch(records::update).delete(records::delete);
        let router = Router::new()
            .route(&format!("/{table}"), only(list))
            .route(&format!("/{table}/_batch"), only(batch))
            .route(&format!("/{table}/_events"), stream)
            .route(&format!("/{table}/{{id}}"), only(record));
        let restore = format!("/{table}/{{id}}/_restore");
        let router = if plan.soft_delete { router.route(&restore, only(post(records::restore))) } else { router };
        router.with_state(endpoint)
    }
}

/// Other methods are answered with 405; the router adds `Allow`.
fn only(methods: MethodRouter<Arc<Endpoint>>) -> MethodRouter<Arc<Endpoint>> {
    methods.fallback(layers::method_not_allowed)
}
