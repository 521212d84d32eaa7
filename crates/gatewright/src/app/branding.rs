//! The presentation of pages and mails, and the product's logo.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use gatewright_http::locale::{Languages, Presentation};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::Config;
use crate::config::LogoPlace;
use crate::picture::Picture;

/// Where the server serves the logo, and the one for dark mode.
pub(crate) const LOGO: &str = "/branding/logo";
pub(crate) const LOGO_DARK: &str = "/branding/logo-dark";

/// The content security policy of a picture that is opened as a page: nothing is allowed. An SVG may contain scripts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The configured appearance and texts of pages and mails.
pub(crate) fn presentation(config: &Config) -> Presentation {
    // The check has refused languages that cannot be read.
    let languages = config.branding.languages().unwrap_or_else(|_| Languages::shipped());
    let presentation = Presentation::new(config.branding.shown([LOGO, LOGO_DARK]), languages);
    if config.auth.enabled {
        presentation.with_chooser(format!("{}/language", config.auth.base_path))
    } else {
        presentation
    }
}

/// The logos that are files.
pub(super) fn routes(config: &Config) -> Router {
    let logos = [LOGO, LOGO_DARK].into_iter().zip(config.branding.logos());
    logos.fold(Router::new(), |router, (at, logo)| {
        let Some(LogoPlace::File(path)) = logo.map(LogoPlace::of) else { return router };
        let Picture { kind, bytes } = match Picture::read(&path) {
            Ok(picture) => picture,
            Err(error) => {
                tracing::error!(path = %path.display(), error, "the logo cannot be served");
                return router;
            }
        };
        let headers =
            [(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=3600"), (CONTENT_SECURITY_POLICY, POLICY)];
        router.route(at, get(async move || (headers, bytes.clone()).into_response()))
    })
}
