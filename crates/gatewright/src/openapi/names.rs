//! The names of the shared components.

use http::StatusCode;
use utoipa::openapi::security::SecurityRequirement;

/// Whether a failure may be a page: for requests from a browser's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Never,
    ForForms,
}

/// The session's cookie.
pub(super) const SESSION: &str = "session";
/// A JSON web token.
pub(super) const JWT: &str = "jwt";
/// An API token, `svc_…`.
pub(super) const API_TOKEN: &str = "apiToken";

/// The name of a failure's response.
pub(super) fn failure_name(status: u16, page: Page) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Failure");
    let name: String = reason.split(' ').flat_map(str::chars).collect();
    // The limiter's answer is the same for every client.
    if page == Page::ForForms && status != 429 { format!("{name}OrPage") } else { name }
}

/// One of `schemes`, or nothing where that is enough.
pub(super) fn requirements(schemes: &[&str], optional: bool) -> Vec<SecurityRequirement> {
    let one = |name: &&str| SecurityRequirement::new(*name, Vec::<String>::new());
    schemes.iter().map(one).chain(optional.then(SecurityRequirement::default)).collect()
}
