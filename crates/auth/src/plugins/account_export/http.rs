use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gatewright_base::JsonCase;
use gatewright_http::{Problem, Submission};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use super::flow::{Export, ExportError, Flow};
use super::writer;
use crate::fresh::{FreshError, Given};
use crate::problem::store_failed;
use crate::session::Session;
use crate::web::{By, Case, Visitor, guarded, own_site_only};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let route = guarded(&flow.core, None, own_site_only(&flow.core, post(with_proof).get(by_young_session)));
    Router::new().route("/export", route).with_state(flow)
}

async fn with_proof(
    State(flow): State<Arc<Flow>>,
    Case(case): Case,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<Given>,
) -> Response {
    match flow.begin(&session, Some(&submission.value), &visitor.client).await {
        Ok(export) => answer(&flow, export, case),
        Err(ExportError::Fresh(FreshError::Denied(denied))) => denied.into_response(),
        Err(error) => submission.kind.refuse(error.into()),
    }
}

async fn by_young_session(
    State(flow): State<Arc<Flow>>,
    Case(case): Case,
    visitor: Visitor,
    By(session): By<Session>,
) -> Response {
    match flow.begin(&session, None, &visitor.client).await {
        Ok(export) => answer(&flow, export, case),
        Err(ExportError::Fresh(FreshError::Denied(denied))) => denied.into_response(),
        Err(error) => Problem::from(error).answer(&visitor.headers),
    }
}

/// The export as a file.
pub(crate) fn answer(flow: &Flow, export: Export, case: JsonCase) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CONTENT_DISPOSITION, "attachment; filename=\"account.json\"")];
    (headers, writer::body(flow.core.clone(), export, case)).into_response()
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Fresh(error) => error.into(),
            ExportError::UnderWay => Self::conflict(error.to_string()).with_code("export_under_way"),
            ExportError::Busy => Self::unavailable(error.to_string(), std::time::Duration::from_mins(1)),
            ExportError::Users(error) => error.into(),
            ExportError::Sessions(error) => error.into(),
            ExportError::Tenants(error) => store_failed(&error),
            ExportError::Store(error) => store_failed(&*error),
        }
    }
}
