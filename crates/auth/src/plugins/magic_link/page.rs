use axum::response::Response;
use gatewright_base::Secret;
use gatewright_http::Problem;
use serde::Serialize;

use crate::screens::{self, Messages, OwnTemplate};

/// The values of a confirmation page. Its form must post `token` and, if there is one, `_csrf` to `action`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Confirmation<'a> {
    /// The address that will be signed in, if it is known. It is untrusted input of the request for the link: escape
    /// it.
    pub email: Option<&'a str>,
    /// Where the form posts to.
    pub action: &'a str,
    /// The field `token`. A credential.
    pub token: &'a Secret,
    /// The field `_csrf`, if the CSRF middleware is mounted.
    pub csrf: Option<&'a str>,
}

/// A host's own page.
pub(super) type Hook = Box<dyn Fn(&Confirmation<'_>) -> Response + Send + Sync>;

/// How the confirmation looks.
pub(super) struct Page(Look);

enum Look {
    BuiltIn,
    Template(Box<OwnTemplate>),
    Hook(Hook),
}

#[derive(Serialize)]
struct Context<'a> {
    email: Option<&'a str>,
    action: &'a str,
    token: &'a str,
    csrf: Option<&'a str>,
    /// Whether the built-in page asks for the code of the mail.
    code: bool,
    #[serde(flatten)]
    messages: Messages,
}

const TITLE: &str = "magic.title";

impl Page {
    pub(super) fn built_in() -> Self {
        Self(Look::BuiltIn)
    }

    pub(super) fn hook(hook: Hook) -> Self {
        Self(Look::Hook(hook))
    }

    /// Compiles a template and tries it, with all values and with only those that are always present.
    pub(super) fn template(source: &str) -> Result<Self, String> {
        let template = OwnTemplate::compile(source)?;
        for (email, csrf) in [(Some("probe-email@example.com"), Some("probe-csrf")), (None, None)] {
            let messages = Messages::default();
            let context = Context { email, action: "/probe/action", token: "probe-token", csrf, code: false, messages };
            let text = template.render(&context)?;
            let fields = [(Some("/probe/action"), "action"), (Some("probe-token"), "token"), (csrf, "csrf")];
            for (value, name) in fields {
                if value.is_some_and(|value| !text.contains(value)) {
                    return Err(format!("it never shows {{{{ {name} }}}}; its form cannot sign in without it"));
                }
            }
        }
        Ok(Self(Look::Template(Box::new(template))))
    }

    /// The built-in page asks for the `code` of the mail too, where that is wanted, and shows a problem.
    pub(super) fn show(&self, confirmation: &Confirmation<'_>, code: bool, problem: Option<&Problem>) -> Response {
        let Confirmation { email, action, token, csrf } = *confirmation;
        let messages = Messages::of(problem, code.then_some("code"));
        let context = Context { email, action, token: token.expose(), csrf, code, messages };
        match &self.0 {
            Look::BuiltIn => screens::page(TITLE, "confirm_link.html", &context),
            Look::Template(template) => template.page(TITLE, &context),
            Look::Hook(hook) => hook(confirmation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_whose_form_could_not_work_is_refused() {
        let good = "<form action=\"{{ action }}\">{% if csrf %}<input name=_csrf value=\"{{ csrf }}\">{% endif %}\
                    <input name=token value=\"{{ token }}\"></form>";
        assert!(Page::template(good).is_ok());
        for (bad, word) in [
            (good.replace("{{ token }}", ""), "token"),
            (good.replace("{{ action }}", ""), "action"),
            (good.replace("{{ csrf }}", ""), "csrf"),
            (good.replace("{{ token }}", "{{ tokne }}"), "undefined"),
            (good.replace("{% endif %}", ""), "syntax"),
        ] {
            let problem = Page::template(&bad).err().unwrap();
            assert!(problem.contains(word), "{problem}");
        }
    }
}
