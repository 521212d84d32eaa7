//! The texts of mails: a subject, a text part and an HTML part for each kind of letter.
//!
//! The built-in files are in `templates/builtin/`; an operator's folder replaces any of them by file name, and may
//! contain more `.txt` and `.html` files for its templates to include. All files are read, compiled and tried once when
//! the program starts ([`Templates::load`]), so that an error is found then, with its file and line, and not in the
//! mail of a user who cannot sign in.
//!
//! Templates have the values `product`, `email` (the account's address), `lifetime` ("15 minutes"), `language` (the reader's, such as `de`)
//! and, in the bodies, `link`, `code` (or an empty text), `direction`, `support_url`, `logo`, `color`, `color_text` and `color_link`. In
//! their bodies, those of a new device also have its `device`, `address` and the `time`, and those of an invitation the names of the `tenant` and of the
//! `inviter` (or empty texts), and those of changed members the `tenant` and the `change`. The texts of the built-in templates are in the
//! catalogues of languages: `t("mail.hello")` writes one of them as HTML, `words` without markup. In `.html` files, the output is escaped.

mod check;
mod files;
mod wrap;

use std::path::Path;
use std::sync::Arc;

use gatewright_base::{Live, Secret};
use gatewright_http::html;
use gatewright_http::locale::{Branding, Color, Languages, Locale, Logo, Presentation, templates};
use jiff::Timestamp;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context, escape_formatter};
use uuid::Uuid;

pub use check::TemplateError;

use self::files::Part;
use crate::{Address, Device, Kind, Letter, Mail, SendError, Written};

/// The default color of buttons and links in mails.
const COLOR: Color = Color::rgb(0x1a, 0x4f, 0xa3);

/// The compiled templates. Cheap to clone; all clones change together.
#[derive(Clone)]
pub struct Templates(Live<Compiled>);

#[derive(Clone)]
struct Compiled {
    environment: Arc<Environment<'static>>,
    presentation: Presentation,
}

impl Templates {
    /// Reads the built-in templates and those of `folder`, if there is one, and tries them all.
    ///
    /// `product` is the service's name in mails; line breaks and similar characters in it are refused. Mails are in English
    /// or German.
    pub fn load(product: &str, folder: Option<&Path>) -> Result<Self, TemplateError> {
        let branding = Branding { name: Some(product.trim().to_owned()), ..Branding::default() };
        Self::for_product(Presentation::new(branding, Languages::shipped()), folder)
    }

    /// The same for mails with a product's branding, in its languages. A logo must be an address that mail programs reach.
    pub fn for_product(presentation: Presentation, folder: Option<&Path>) -> Result<Self, TemplateError> {
        let product = presentation.branding().product();
        if product.is_empty() || product.chars().any(char::is_control) {
            return Err(TemplateError::product());
        }
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Debug information repeats the values that a template was given, links among them.
        environment.set_debug(false);
        templates::add_texts(&mut environment);
        environment.add_filter("wrapped", wrap::wrapped);
        environment.set_formatter(|out, state, value| match (state.auto_escape(), value.as_str()) {
            // The default would write every slash of a link as an entity.
            (AutoEscape::Html, Some(text)) if !value.is_safe() => Ok(out.write_str(&html::escape(text))?),
            _ => escape_formatter(out, state, value),
        });
        files::add_builtin(&mut environment);
        if let Some(folder) = folder {
            files::add_folder(&mut environment, folder)?;
        }
        let templates = Self(Live::new(Compiled { environment: environment.into(), presentation }));
        check::try_all(&templates, folder)?;
        Ok(templates)
    }

    /// Replaces the templates for all clones: the next mail is written with the others.
    pub fn replace(&self, others: &Self) {
        self.0.set((*others.0.get()).clone());
    }

    /// Writes the mail of `letter`, whose address was parsed as `to`.
    pub(crate) fn write(&self, letter: &Letter, to: Address, id: Uuid, now: Timestamp) -> Result<Mail, SendError> {
        if let Some(Written { subject, text, html }) = &letter.written {
            let (text, html) = (Secret::new(text), html.as_ref().map(Secret::new));
            return Ok(Mail { id, written_at: now, subject: subject.clone(), text, html, links: Vec::new(), to });
        }
        let render = |part| {
            self.render(part, letter).map_err(|error| {
                // The message of an error may quote a value, so only its kind is logged.
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
            links: if letter.kind == Kind::EmailCode { Vec::new() } else { vec![letter.link.clone()] },
            to,
        })
    }

    fn render(&self, part: Part, letter: &Letter) -> Result<String, minijinja::Error> {
        self.render_in(&self.0.get().presentation.locale(letter.language.as_deref()), part, letter)
    }

    fn render_in(&self, locale: &Locale, part: Part, letter: &Letter) -> Result<String, minijinja::Error> {
        let compiled = self.0.get();
        let branding = compiled.presentation.branding();
        let (email, lifetime) = (&*letter.to, locale.duration(letter.lifetime.as_secs()));
        let (product, language) = (branding.product(), locale.language().tag());
        let values: Value = match part {
            Part::Subject => context! { product, lifetime, email, language },
            Part::Text | Part::Html => {
                let color = branding.color.unwrap_or(COLOR);
                let more = match &letter.device {
                    Some(Device { time, name: device, address }) => context! { time, device, address },
                    None => context! {},
                };
                context! {
                    product, lifetime, email, language,
                    account => letter.account.as_deref().unwrap_or(""),
                    credentials => &letter.credentials,
                    tenant => &letter.invitation.tenant,
                    inviter => &letter.invitation.inviter,
                    change => letter.change.as_deref().unwrap_or(""),
                    link => letter.link.expose(),
                    code => letter.code.as_ref().map_or("", Secret::expose),
                    direction => locale.language().direction(),
                    support_url => branding.support_url.as_ref().map(url::Url::as_str),
                    logo => branding.logo.as_ref().map(Logo::address),
                    color => color.to_string(),
                    color_text => color.text_on().to_string(),
                    color_link => color.readable_on(&[Color::WHITE], Color::BLACK).to_string(),
                    ..more
                }
            }
        };
        let template = compiled.environment.get_template(&files::name(letter.kind, part))?;
        locale.clone().within(|| template.render(values))
    }
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").field("presentation", &self.0.get().presentation).finish_non_exhaustive()
    }
}
