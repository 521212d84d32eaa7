//! `GET /api/docs`: the document as a page, which can send requests.
//!
//! Everything it loads is compiled in: Swagger UI, from the crate that contains its files, and our own stylesheet and
//! script. It has the same strict content security policy as all pages: nothing inline, nothing from another host.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use gatewright_http::{html, layers};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use utoipa_swagger_ui::Config as SwaggerConfig;

use crate::Config;

const PAGE: &str = include_str!("page.html");
const START: &str = include_str!("start.js");
const STYLE: &str = include_str!("page.css");
/// How long a browser caches files that only change with a new version of the server.
const KEPT: &str = "public, max-age=3600";

/// The page and its files.
pub(crate) fn routes(config: &Config) -> Router {
    let page: Arc<str> = page(config).into();
    Router::new()
        .route("/api/docs", get(show).fallback(layers::method_not_allowed))
        .route("/api/docs/{file}", get(file).fallback(layers::method_not_allowed))
        .with_state(page)
}

async fn show(State(page): State<Arc<str>>) -> Html<String> {
    Html(page.to_string())
}

async fn file(name: Result<Path<String>, PathRejection>) -> Response {
    // A name that is not UTF-8 is not that of a file.
    let Ok(Path(name)) = name else { return layers::not_found(HeaderMap::new()).await };
    let own = match &*name {
        "start.js" => Some(("text/javascript; charset=utf-8", START)),
        "page.css" => Some(("text/css; charset=utf-8", STYLE)),
        _ => None,
    };
    if let Some((kind, text)) = own {
        return ([(CONTENT_TYPE, kind), (CACHE_CONTROL, KEPT)], text).into_response();
    }
    let kind = match &*name {
        "swagger-ui-bundle.js" => "text/javascript; charset=utf-8",
        "swagger-ui.css" => "text/css; charset=utf-8",
        "favicon-32x32.png" => "image/png",
        _ => return layers::not_found(HeaderMap::new()).await,
    };
    let file = utoipa_swagger_ui::serve(&name, Arc::new(SwaggerConfig::from("/openapi.json"))).ok().flatten();
    match file {
        Some(file) => ([(CONTENT_TYPE, kind), (CACHE_CONTROL, KEPT)], file.bytes.into_owned()).into_response(),
        None => layers::not_found(HeaderMap::new()).await,
    }
}

/// The page, with the paths for signing in and for CSRF tokens.
fn page(config: &Config) -> String {
    let base = if config.auth.enabled { &*config.auth.base_path } else { "" };
    let csrf = config.csrf.enabled || config.browser_backend.is_some();
    PAGE.replace("{auth}", &html::escape(base)).replace("{csrf}", if csrf { "on" } else { "" })
}
