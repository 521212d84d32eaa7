//! Passkeys on the screens: a button, the browser's suggestions on the sign-in form, and the only script of this
//! service's pages, which passkeys need.

use std::sync::LazyLock;

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatewright_http::{Next, html, locale};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::fragment;
use crate::core::Core;
use crate::web::onward;

/// The script, within the page, named by its hash in the page's policy.
const SCRIPT: &str = include_str!("passkeys.js");

/// The additional permissions of a page with the script: running it, and calling this service.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT));
    format!("; script-src 'sha256-{hash}'; connect-src 'self'")
});

/// The sign-in by a passkey, for templates.
#[derive(Serialize)]
pub(crate) struct Offer {
    options: String,
    finish: String,
    next: String,
}

impl Offer {
    /// Where the screens offer passkeys.
    pub(crate) fn new(core: &Core, next: Option<&Next>) -> Option<Self> {
        core.screens.get().filter(|screens| screens.passkeys)?;
        let base = &core.config.base_path;
        Some(Self {
            options: format!("{base}/passkeys/login/options"),
            finish: format!("{base}/passkeys/login"),
            next: onward(core, next, "/").to_owned(),
        })
    }
}

/// Renders a template within the frame of every page, with the script if the screens offer passkeys.
pub(crate) fn page(core: &Core, title: &str, template: &str, context: &impl Serialize) -> Response {
    if !core.screens.get().is_some_and(|screens| screens.passkeys) {
        return super::page(title, template, context);
    }
    match fragment(template, context) {
        Ok(main) => html::page_with(&locale::text(title, &[]), &format!("{main}<script>{SCRIPT}</script>\n"), &POLICY),
        Err(problem) => problem.into_page(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_can_be_embedded_in_a_page() {
        assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--"));
        assert!(POLICY.starts_with("; script-src 'sha256-"));
    }
}
