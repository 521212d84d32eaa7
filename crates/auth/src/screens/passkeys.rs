//! Passkeys on the screens: a button, the browser's suggestions on the sign-in form, and the script that passkeys need.

use axum::response::Response;
use gatewright_http::html::{Page, Script, Width};
use gatewright_http::{Next, locale};
use serde::Serialize;

use super::fragment;
use crate::core::Core;
use crate::web::onward;

/// The script of pages with passkeys. It calls this service.
static SCRIPT: Script = Script::new(include_str!("passkeys.js"));

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
    page_of(core, Width::Card, title, template, context)
}

/// The same in another width. `title` is the key of its text.
pub(crate) fn page_of(core: &Core, width: Width, title: &str, template: &str, context: &impl Serialize) -> Response {
    let (main, title) = match fragment(template, context) {
        Ok(main) => (main, locale::text(title, &[])),
        Err(problem) => return problem.into_page(),
    };
    let page = Page::new(&title, &main).width(width).script(&super::SCRIPT);
    let has_passkeys = core.screens.get().is_some_and(|screens| screens.passkeys);
    if has_passkeys { page.script(&SCRIPT).connects().respond() } else { page.respond() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_script_can_be_embedded_in_a_page() {
        let script = include_str!("passkeys.js");
        assert!(!script.contains("</script") && !script.contains("<!--"));
    }
}
