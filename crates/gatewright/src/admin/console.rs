//! `/admin`: the console, a user interface for the admin API.
//!
//! One page without data and a few ES modules, compiled in: there is no build step, and nothing is loaded from other
//! hosts. The page is the same for every caller, so it needs no credentials; it gets its data from the API, as the
//! signed-in user. Values become only text nodes, and the content security policy requires trusted types and allows no
//! policy, so that a browser refuses to turn text into markup.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{OriginalUri, Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use gatewright_http::{html, layers};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use super::PATH;
use crate::Config;

const PAGE: &str = include_str!("console/page.html");

/// The content security policy of the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const FILES: [(&str, &str); 17] = [
    ("api.js", include_str!("console/api.js")),
    ("app.js", include_str!("console/app.js")),
    ("chart.js", include_str!("console/chart.js")),
    ("console.css", include_str!("console/console.css")),
    ("events.js", include_str!("console/events.js")),
    ("explain.js", include_str!("console/explain.js")),
    ("jobs.js", include_str!("console/jobs.js")),
    ("mails.js", include_str!("console/mails.js")),
    ("outbox.js", include_str!("console/outbox.js")),
    ("overview.js", include_str!("console/overview.js")),
    ("people.js", include_str!("console/people.js")),
    ("records.js", include_str!("console/records.js")),
    ("system.js", include_str!("console/system.js")),
    ("tenants.js", include_str!("console/tenants.js")),
    ("ui.js", include_str!("console/ui.js")),
    ("users.js", include_str!("console/users.js")),
    ("watch.js", include_str!("console/watch.js")),
];

/// The page at `/admin` and below, and its files.
pub(crate) fn routes(config: &Config) -> Router {
    let page: Arc<str> = page(config).into();
    Router::new()
        .route(PATH, get(show).fallback(layers::method_not_allowed))
        .route(&format!("{PATH}/"), get(Redirect::permanent(PATH)).fallback(layers::method_not_allowed))
        .route(&format!("{PATH}/{{*page}}"), get(show).fallback(layers::method_not_allowed))
        .route(&format!("{PATH}/assets/{{file}}"), get(file).fallback(layers::method_not_allowed))
        .with_state(page)
}

async fn show(State(page): State<Arc<str>>, OriginalUri(uri): OriginalUri, headers: HeaderMap) -> Response {
    // The API's own paths are separate routes: a request that gets here matches none of them.
    let lies_below = |part: &str| uri.path().strip_prefix(PATH).is_some_and(|rest| rest.starts_with(part));
    if lies_below("/api") || lies_below("/assets") {
        return layers::not_found(headers).await;
    }
    let headers =
        [(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "no-cache"), (CONTENT_SECURITY_POLICY, POLICY)];
    (headers, page.to_string()).into_response()
}

async fn file(name: Result<Path<String>, PathRejection>) -> Response {
    // A name that is not UTF-8 is not that of a file.
    let Ok(Path(name)) = name else { return layers::not_found(HeaderMap::new()).await };
    let found = FILES.iter().find(|(known, _)| *known == name);
    let Some((name, text)) = found else { return layers::not_found(HeaderMap::new()).await };
    let kind = if *name == "console.css" { "text/css; charset=utf-8" } else { "text/javascript; charset=utf-8" };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], *text).into_response()
}

/// The page, with the path of the accounts, whether CSRF tokens are required, and the header of the tenant.
fn page(config: &Config) -> String {
    let csrf = config.csrf.enabled || config.browser_backend.is_some();
    PAGE.replace("{auth}", &html::escape(&config.auth.base_path))
        .replace("{csrf}", if csrf { "on" } else { "" })
        .replace("{tenant}", &html::escape(config.tenancy.header().as_str()))
}
