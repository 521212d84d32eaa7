//! `GET /api/docs`: the document as a page, which can send requests.
//!
//! Everything it loads is compiled in: Swagger UI, compressed by the build script, and our own stylesheet and script. It has the same strict content security policy as all pages: nothing inline, nothing from another host.

use std::io::Read;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use flate2::read::GzDecoder;
use gatewright_http::locale::Color;
use gatewright_http::{html, layers, preferences};
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};

use crate::Config;

const PAGE: &str = include_str!("page.html");
const START: &str = include_str!("start.js");
const STYLE: &str = include_str!("page.css");
/// The color of the header, unless the product has one.
const HEADER: Color = Color::rgb(0x1f, 0x29, 0x33);
/// How long a browser caches files that only change with a new version of the server.
const KEPT: &str = "public, max-age=3600";

/// The page and its files.
pub(crate) fn routes(config: &Config) -> Router {
    let shown = Shown { page: page(config).into(), style: style(config).into() };
    Router::new()
        .route("/api/docs", get(show).fallback(layers::method_not_allowed))
        .route("/api/docs/{file}", get(file).fallback(layers::method_not_allowed))
        .with_state(shown)
}

/// What depends on the configuration.
#[derive(Clone)]
struct Shown {
    page: Arc<str>,
    style: Arc<str>,
}

async fn show(State(shown): State<Shown>) -> Html<String> {
    Html(shown.page.to_string())
}

async fn file(State(shown): State<Shown>, headers: HeaderMap, name: Result<Path<String>, PathRejection>) -> Response {
    // A name that is not UTF-8 is not that of a file.
    let Ok(Path(name)) = name else { return layers::not_found(HeaderMap::new()).await };
    let own = match &*name {
        "start.js" => Some(("text/javascript; charset=utf-8", START)),
        "page.css" => Some(("text/css; charset=utf-8", &*shown.style)),
        _ => None,
    };
    if let Some((kind, text)) = own {
        return ([(CONTENT_TYPE, kind), (CACHE_CONTROL, KEPT)], text.to_owned()).into_response();
    }
    let Some(file) = SWAGGER_UI.iter().find(|file| file.name == name) else {
        return layers::not_found(HeaderMap::new()).await;
    };
    let head = [(CONTENT_TYPE, file.kind), (CACHE_CONTROL, KEPT), (VARY, "accept-encoding")];
    if takes_gzip(&headers) {
        return (head, [(CONTENT_ENCODING, "gzip")], file.compressed).into_response();
    }
    (head, file.plain.clone()).into_response()
}

/// A file of Swagger UI.
struct SwaggerUi {
    name: &'static str,
    kind: &'static str,
    /// With gzip, by the build script.
    compressed: &'static [u8],
    /// Decompressed when a client first needs it.
    plain: LazyLock<Bytes>,
}

macro_rules! swagger_ui {
    ($name:literal, $kind:literal) => {{
        const COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz"));
        SwaggerUi {
            name: $name,
            kind: $kind,
            compressed: COMPRESSED,
            plain: LazyLock::new(|| decompressed(COMPRESSED)),
        }
    }};
}

static SWAGGER_UI: [SwaggerUi; 3] = [
    swagger_ui!("swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    swagger_ui!("swagger-ui.css", "text/css; charset=utf-8"),
    swagger_ui!("favicon-32x32.png", "image/png"),
];

fn decompressed(compressed: &[u8]) -> Bytes {
    let mut plain = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut plain).expect("the build script compressed it");
    plain.into()
}

/// Whether a client takes answers compressed with gzip: all browsers do.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let mut codings =
        headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).flat_map(preferences);
    codings.any(|(coding, quality)| coding.eq_ignore_ascii_case("gzip") && quality > 0)
}

/// The page, with the paths for signing in and for CSRF tokens.
fn page(config: &Config) -> String {
    let base = if config.auth.enabled { &*config.auth.base_path } else { "" };
    let csrf = config.csrf.enabled || config.browser_backend.is_some();
    let product = config.branding.name.as_deref().unwrap_or("Gatewright");
    PAGE.replace("{auth}", &html::escape(base))
        .replace("{csrf}", if csrf { "on" } else { "" })
        .replace("{product}", &html::escape(product))
}

/// The sheet, with the product's color for our own part of the page.
fn style(config: &Config) -> String {
    let act: Color = config.branding.color.as_deref().and_then(|color| color.parse().ok()).unwrap_or(HEADER);
    format!(":root {{ --act: {act}; --on: {}; }}\n{STYLE}", act.text_on())
}
