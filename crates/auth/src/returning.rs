//! Redirects browsers back to a front end on another origin, for routes and screens.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next as Onward;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;

use crate::core::Core;

/// Makes `next` of bodies use the configured URLs, and allows redirects to them after forms of pages: browsers apply
/// the page's policy to the answer of its form.
pub(crate) async fn allow(State(core): State<Arc<Core>>, mut request: Request, onward: Onward) -> Response {
    request.extensions_mut().insert(core.redirects.clone());
    let mut response = onward.run(request).await;
    if let (Some(sources), Some(policy)) = (core.redirects.policy_sources(), policy(&response)) {
        let wider = policy.replace("form-action 'self'", &format!("form-action 'self' {sources}"));
        if let Ok(wider) = HeaderValue::from_str(&wider) {
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, wider);
        }
    }
    response
}

fn policy(response: &Response) -> Option<String> {
    response.headers().get(CONTENT_SECURITY_POLICY)?.to_str().ok().map(str::to_owned)
}
