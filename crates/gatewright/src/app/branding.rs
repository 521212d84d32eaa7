//! The presentation of pages and mails, and the product's logo.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use gatewright_http::locale::{Languages, Presentation};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::Config;
use crate::config::LogoPlace;
use crate::picture::Picture;

/// Where the server serves the logo.
pub(crate) const LOGO: &str = "/branding/logo";

/// The content security policy of a picture that is opened as a page: nothing is allowed. An SVG may contain scripts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The configured appearance and texts of pages and mails.
pub(crate) fn presentation(config: &Config) -> Presentation {
    // The check has refused languages that cannot be read.
    let languages = config.branding.languages().unwrap_or_else(|_| Languages::shipped());
    let presentation = Presentation::new(config.branding.shown(LOGO), languages);
    if config.auth.enabled {
        presentation.with_chooser(format!("{}/language", config.auth.base_path))
    } else {
        presentation
    }
}

/// `/branding/logo`, if the logo is a file.
pub(super) fn routes(config: &Config) -> Router {
    let Some(LogoPlace::File(path)) = config.branding.logo_place() else { return Router::new() };
    let picture = match Picture::read(&path) {
        Ok(picture) => picture,
        Err(error) => {
            tracing::error!(path = %path.display(), error, "the logo cannot be served");
            return Router::new();
        }
    };
    let Picture { kind, bytes } = picture;
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=3600"), (CONTENT_SECURITY_POLICY, POLICY)];
    Router::new().route(LOGO, get(async move || (headers, bytes.clone()).into_response()))
}
