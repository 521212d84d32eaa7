//! What mails say: a subject, a text part and an HTML part for each kind of letter.
//!
//! The built-in files lie in `templates/builtin/`; an operator's folder replaces any of them by file name, and may hold
//! more `.txt` and `.html` files for its templates to include. Everything is read, compiled and tried once when the
//! program starts ([`Templates::load`]), so that a mistake is found then, with its file and line, and not at night in
//! the mail of a user who cannot sign in.
//!
//! Templates know `product`, `email` (the account's address), `lifetime` ("15 minutes") and, in the bodies, `link`.
//! In `.html` files what they print is escaped.

mod check;
mod files;
mod lifetime;

use std::path::Path;
use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_http::html;
use jiff::Timestamp;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context, escape_formatter};
use uuid::Uuid;

pub use check::TemplateError;

use self::files::Part;
use crate::{Address, Letter, Mail, SendError};

/// The compiled templates. Cheap to clone.
#[derive(Clone)]
pub struct Templates {
    environment: Arc<Environment<'static>>,
    product: Arc<str>,
}

impl Templates {
    /// Reads the built-in templates and those of `folder`, if there is one, and tries them all.
    ///
    /// `product` is how mails call the service; line breaks and the like in it are refused.
    pub fn load(product: &str, folder: Option<&Path>) -> Result<Self, TemplateError> {
        let product = product.trim();
        if product.is_empty() || product.chars().any(char::is_control) {
            return Err(TemplateError::product());
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Debug information repeats the values that a template was given, links among them.
        environment.set_debug(false);
        environment.set_formatter(|out, state, value| match (state.auto_escape(), value.as_str()) {
            // The default would write every slash of a link as an entity.
            (AutoEscape::Html, Some(text)) if !value.is_safe() => Ok(out.write_str(&html::escape(text))?),
            _ => escape_formatter(out, state, value),
        });
        files::add_builtin(&mut environment);
        if let Some(folder) = folder {
            files::add_folder(&mut environment, folder)?;
        }
        let templates = Self { environment: environment.into(), product: product.into() };
        check::try_all(&templates, folder)?;
        Ok(templates)
    }

    /// Writes the mail of `letter`, whose address was read as `to`.
    pub(crate) fn write(&self, letter: &Letter, to: Address, id: Uuid, now: Timestamp) -> Result<Mail, SendError> {
        let render = |part| {
            self.render(part, letter).map_err(|error| {
                // The message of an error may quote a value, so only what kind it is goes into the log.
                let (file, line) = (error.name().unwrap_or_default(), error.line().unwrap_or_default());
                SendError::permanent(format!("{file}:{line} cannot be rendered: {:?}", error.kind()))
            })
        };
        Ok(Mail {
            id,
            written_at: now,
            subject: render(Part::Subject)?.trim().to_owned(),
            text: Secret::new(render(Part::Text)?),
            html: Some(Secret::new(render(Part::Html)?)),
            links: vec![letter.link.clone()],
            to,
        })
    }

    fn render(&self, part: Part, letter: &Letter) -> Result<String, minijinja::Error> {
        let (product, email, lifetime) = (&*self.product, &*letter.to, lifetime::words(letter.lifetime));
        let values: Value = match part {
            Part::Subject => context! { product, lifetime, email },
            Part::Text | Part::Html => context! { product, lifetime, email, link => letter.link.expose() },
        };
        self.environment.get_template(&files::name(letter.kind, part))?.render(values)
    }
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").field("product", &self.product).finish_non_exhaustive()
    }
}
