//! The endpoints, and forms with files on the endpoints of records.

mod caller;
mod download;
mod form;
mod parts;
mod range;
mod sign;
mod tus;
mod upload;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use gatewright_entities::{Entities, Plan};
use gatewright_http::{ContentType, Origin, cross_site, layers};

use crate::Files;

/// The endpoints of files.
#[derive(Debug, Clone)]
pub struct Routes(Arc<State>);

#[derive(Debug)]
struct State {
    files: Files,
    entities: Entities,
    /// The path under which the endpoints are.
    prefix: String,
    /// The origin of the service's own pages.
    origin: Option<Origin>,
}

impl Routes {
    /// Of the entities that have files.
    pub fn new(files: Files, entities: Entities, prefix: &str, origin: Option<Origin>) -> Self {
        Self(Arc::new(State { files, entities, prefix: prefix.to_owned(), origin }))
    }

    /// `_files`, and the downloads of each entity, without the prefix.
    pub fn router(&self) -> Router {
        let state = &self.0;
        let origin = state.origin.clone();
        let upload = post(upload::upload).fallback(layers::method_not_allowed);
        let mut router = Router::new().route("/_files", upload).merge(tus::router());
        for plan in state.entities.plans().iter().filter(|plan| plan.crud() && has_files(plan)) {
            let path = format!("/{}/{{id}}/_files/{{field}}/{{file}}/{{name}}", plan.table());
            let table: Arc<str> = plan.table().into();
            let (shown, signed) = (table.clone(), table);
            let download = get(move |state, path, request| download::download(state, shown.clone(), path, request));
            let sign = post(move |state, path, request| sign::sign(state, signed.clone(), path, request));
            router = router
                .route(&path, download.fallback(layers::method_not_allowed))
                .route(&format!("{path}/_sign"), sign.fallback(layers::method_not_allowed));
        }
        router.with_state(self.0.clone()).layer(from_fn_with_state(origin, cross_site::guard))
    }

    /// Lets the endpoints of records take forms with files.
    pub fn around(&self, records: Router) -> Router {
        records
            .layer(from_fn_with_state(self.0.clone(), form::take))
            .layer(from_fn_with_state(self.0.origin.clone(), cross_site::guard))
    }
}

/// Whether records of the entity have files that clients see.
fn has_files(plan: &Plan) -> bool {
    plan.fields().any(|field| field.files().is_some())
}

/// Whether a request uploads files: then neither the limit of bodies nor the time of requests applies to it, and this crate has
/// its own. `prefix` is that of the endpoints, and `has_files` tells it of a table.
pub fn is_upload(request: &Request, prefix: &str, has_files: impl Fn(&str) -> bool) -> bool {
    let Some(path) = request.uri().path().strip_prefix(prefix) else { return false };
    let mut segments = path.trim_start_matches('/').split('/');
    let (table, id, more) = (segments.next().unwrap_or_default(), segments.next(), segments.next());
    let method = request.method();
    if table == "_files" {
        return match id {
            None => *method == http::Method::POST,
            Some("tus") => *method == http::Method::POST || *method == http::Method::PATCH,
            Some(_) => false,
        };
    }
    if more.is_some() || ContentType::of(request.headers()) != ContentType::Multipart || !has_files(table) {
        return false;
    }
    match id {
        None => *method == http::Method::POST,
        Some(id) if id.starts_with('_') => false,
        Some(_) => *method == http::Method::PUT || *method == http::Method::PATCH,
    }
}
