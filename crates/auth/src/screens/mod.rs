//! Server-rendered pages: plain forms that work without JavaScript and load no other resource.
//!
//! A page is a template of this folder (`templates/*.html`, every value escaped) within the frame of
//! `gatewright_http::html`. Its content security policy allows only the frame's own style and the scripts of this folder, by
//! their hashes: `pages.js`, which makes forms easier, and the one for passkeys. Every page works without them. The forms post to the same routes that scripts use. If a form fails, the answer is the form again, with the status
//! and the message. The screens are mounted only if the host does so: [`Auth::screens`](crate::Auth::screens).

pub(crate) mod account;
pub(crate) mod language;
pub(crate) mod mailed;
pub(crate) mod marks;
mod messages;
mod passkey_words;
pub(crate) mod passkeys;
pub(crate) mod paths;

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use gatewright_http::html::{Page, Script, Width};
use gatewright_http::locale::{self, templates};
use gatewright_http::{Problem, html};
use http::header::WWW_AUTHENTICATE;
use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

use crate::password::Passwords;
pub use crate::web::CsrfField;
pub(crate) use messages::Messages;

/// What makes forms easier: a button shows that it works, a password can be shown, a code of six digits sends itself, and a
/// text can be copied.
pub static SCRIPT: Script = Script::new(include_str!("pages.js"));

/// An environment that escapes every value and takes no unknown name for an empty one.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_formatter(|out, _, value| {
        let text = value.to_string();
        let escaped = if value.is_safe() { text.into() } else { html::escape(&text) };
        out.write_str(&escaped).map_err(Into::into)
    });
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    // Debug information repeats the values that a template was given, tokens among them.
    environment.set_debug(false);
    templates::add_texts(&mut environment);
    environment.add_function("passkey_words", passkey_words::words);
    environment
}

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = environment();
    for (name, source) in [
        ("account/address.html", include_str!("templates/account/address.html")),
        ("account/programs.html", include_str!("templates/account/programs.html")),
        ("account/page.html", include_str!("templates/account/page.html")),
        ("account/passkeys.html", include_str!("templates/account/passkeys.html")),
        ("account/password.html", include_str!("templates/account/password.html")),
        ("account/providers.html", include_str!("templates/account/providers.html")),
        ("account/second_factor.html", include_str!("templates/account/second_factor.html")),
        ("account/new_token.html", include_str!("templates/account/new_token.html")),
        ("check_mail.html", include_str!("templates/check_mail.html")),
        ("code.html", include_str!("templates/code.html")),
        ("end_session.html", include_str!("templates/end_session.html")),
        ("device.html", include_str!("templates/device.html")),
        ("account/browsers.html", include_str!("templates/account/browsers.html")),
        ("account/organisations.html", include_str!("templates/account/organisations.html")),
        ("account/tokens.html", include_str!("templates/account/tokens.html")),
        ("account/deletion.html", include_str!("templates/account/deletion.html")),
        ("account/export.html", include_str!("templates/account/export.html")),
        ("account/email.html", include_str!("templates/account/email.html")),
        ("account/profile.html", include_str!("templates/account/profile.html")),
        ("account/fresh.html", include_str!("templates/account/fresh.html")),
        ("ask.html", include_str!("templates/ask.html")),
        ("backup_codes.html", include_str!("templates/backup_codes.html")),
        ("enroll.html", include_str!("templates/enroll.html")),
        ("confirm_address.html", include_str!("templates/confirm_address.html")),
        ("consent.html", include_str!("templates/consent.html")),
        ("confirm_link.html", include_str!("templates/confirm_link.html")),
        ("forgot_password.html", include_str!("templates/forgot_password.html")),
        ("note.html", include_str!("templates/note.html")),
        ("reset_password.html", include_str!("templates/reset_password.html")),
        ("hidden.html", include_str!("templates/hidden.html")),
        ("message.html", include_str!("templates/message.html")),
        ("providers.html", include_str!("templates/providers.html")),
        ("reset_others.html", include_str!("templates/reset_others.html")),
        ("secret.html", include_str!("templates/secret.html")),
        ("invited.html", include_str!("templates/invited.html")),
        ("login.html", include_str!("templates/login.html")),
        ("passkey_sign_in.html", include_str!("templates/passkey_sign_in.html")),
        ("profile_inputs.html", include_str!("templates/profile_inputs.html")),
        ("complete_profile.html", include_str!("templates/complete_profile.html")),
        ("register.html", include_str!("templates/register.html")),
        ("two_factor.html", include_str!("templates/two_factor.html")),
    ] {
        environment.add_template(name, source).expect("a template of this folder parses");
    }
    environment
});

/// Renders a template within the frame of every page. `title` is the key of its text.
pub(crate) fn page(title: &str, template: &str, context: &impl Serialize) -> Response {
    page_of(Width::Card, title, template, context)
}

/// The same in another width.
pub(crate) fn page_of(width: Width, title: &str, template: &str, context: &impl Serialize) -> Response {
    match fragment(template, context) {
        Ok(main) => Page::new(&locale::text(title, &[]), &main).width(width).script(&SCRIPT).respond(),
        Err(problem) => problem.into_page(),
    }
}

/// Renders a template as a part of a page.
pub(crate) fn fragment(template: &str, context: &impl Serialize) -> Result<String, Problem> {
    let rendered = TEMPLATES.get_template(template).and_then(|template| template.render(Serde(context)));
    rendered.map_err(|error| Problem::internal(&error))
}

/// The requirements of a new password, for its field.
#[derive(Serialize)]
pub(crate) struct PasswordRule {
    shortest: usize,
    longest: usize,
    /// Whether common passwords are refused.
    common: bool,
    /// Whether the address and the name are refused.
    personal: bool,
}

impl PasswordRule {
    pub(crate) fn of(passwords: &Passwords) -> Self {
        let ((shortest, longest), policy) = (passwords.lengths(), passwords.policy());
        Self { shortest, longest, common: policy.common, personal: policy.personal }
    }
}

/// A template of a program or an operator that replaces a built-in one.
pub(crate) struct OwnTemplate(Environment<'static>);

impl OwnTemplate {
    /// Compiles it; the error names the line.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        let mut environment = environment();
        environment.add_template_owned("own.html", source.to_owned()).map_err(|error| error.to_string())?;
        Ok(Self(environment))
    }

    /// The markup.
    pub(crate) fn render(&self, context: &impl Serialize) -> Result<String, String> {
        let rendered = self.0.get_template("own.html").and_then(|template| template.render(Serde(context)));
        rendered.map_err(|error| error.to_string())
    }

    /// The markup within the frame of every page.
    pub(crate) fn page(&self, title: &str, context: &impl Serialize) -> Response {
        let rendered = self.0.get_template("own.html").and_then(|template| template.render(Serde(context)));
        match rendered {
            Ok(main) => html::page(&locale::text(title, &[]), &main),
            Err(error) => Problem::internal(&error).into_page(),
        }
    }
}

/// Gives a page the status and the headers of the failure that it shows, except the header that makes some browsers show
/// their own password dialog.
pub(crate) fn with_problem(problem: &Problem, page: Response) -> Response {
    let mut response = (problem.status(), problem.headers().clone(), page).into_response();
    response.headers_mut().remove(WWW_AUTHENTICATE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_parses() {
        assert!(TEMPLATES.templates().count() >= 3);
    }

    #[test]
    fn the_script_can_be_embedded_in_a_page() {
        let script = include_str!("pages.js");
        assert!(!script.contains("</script") && !script.contains("<!--"));
    }
}
