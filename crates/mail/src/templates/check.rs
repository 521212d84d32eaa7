//! The trial of every template at start.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gatewright_base::Secret;

use super::Templates;
use super::files::{self, Part};
use crate::{Device, Kind, Letter};

/// An invalid template: its file, the line if it is known, and the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    file: Option<PathBuf>,
    line: Option<usize>,
    message: String,
}

impl TemplateError {
    /// The file, in the operator's folder where it comes from there.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The line, from 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    pub(super) fn product() -> Self {
        let message = "the product's name in mails must be one line of text".to_owned();
        Self { file: None, line: None, message }
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self { file: Some(path.to_owned()), line: None, message: format!("cannot be read: {error}") }
    }

    pub(super) fn misnamed(path: &Path, meant: &str) -> Self {
        let message = format!("is not the name of a template; did you mean {meant}? Give it another name if not");
        Self { file: Some(path.to_owned()), line: None, message }
    }

    pub(super) fn unused(path: &Path) -> Self {
        let message =
            "is not the name of a template, and no template includes it. The names are those of the built-in \
                       templates, such as invitation.txt"
                .to_owned();
        Self { file: Some(path.to_owned()), line: None, message }
    }

    /// The template engine's message.
    pub(super) fn of(error: &minijinja::Error, folder: Option<&Path>) -> Self {
        let innermost = innermost(error);
        let message = match innermost.detail() {
            Some(detail) => format!("{}: {detail}", innermost.kind()),
            None => innermost.kind().to_string(),
        };
        Self { file: innermost.name().map(|name| place(name, folder)), line: innermost.line(), message }
    }
}

impl TemplateError {
    /// The same with the line of the template, for an error that does not say which value is meant.
    fn quoting(mut self, templates: &Templates, name: &str) -> Self {
        let compiled = templates.0.get();
        let template = compiled.environment.get_template(name).ok();
        let line = self
            .line
            .zip(template)
            .and_then(|(line, template)| template.source().lines().nth(line - 1).map(str::to_owned));
        if let Some(line) = line {
            self.message = format!("{} in `{}`", self.message, line.trim());
        }
        self
    }
}

/// An error inside an included file or a block is the cause of the error at its place.
fn innermost(error: &minijinja::Error) -> &minijinja::Error {
    let mut innermost = error;
    while let Some(cause) = std::error::Error::source(innermost).and_then(|cause| cause.downcast_ref()) {
        innermost = cause;
    }
    innermost
}

/// Renders every template with a sample letter, and checks the output.
pub(super) fn try_all(templates: &Templates, folder: Option<&Path>) -> Result<(), TemplateError> {
    for language in templates.0.get().presentation.languages().iter() {
        for kind in Kind::ALL {
            for part in Part::ALL {
                try_one(templates, language.tag(), kind, part, folder)?;
            }
        }
    }
    Ok(())
}

/// A word that no template has in it by chance, and no escaping touches.
const LINK: &str = "https://example.com/a-link-that-must-be-in-the-mail";
/// The same for the code of [`Kind::EmailCode`].
const CODE: &str = "a-code-that-must-be-in-the-mail";

fn try_one(
    templates: &Templates,
    language: &str,
    kind: Kind,
    part: Part,
    folder: Option<&Path>,
) -> Result<(), TemplateError> {
    let name = files::name(kind, part);
    let letter = Letter::new(kind, "ann@example.com", Secret::new(LINK), Duration::from_mins(15)).language(language);
    let letter = match kind {
        Kind::NewDevice => letter.device(Device::default()),
        Kind::EmailCode => letter.code(Secret::new(CODE)),
        _ => letter,
    };
    // Before the trial, which runs one branch of every condition and does not say which name is unknown.
    let known = part.values(kind);
    only_known_names(templates, &name, &known, folder)?;
    let rendered = templates.render(part, &letter).map_err(|error| {
        let included = innermost(&error).name().unwrap_or(&name);
        let named = only_known_names(templates, included, &known, folder).err();
        named.unwrap_or_else(|| TemplateError::of(&error, folder).quoting(templates, included))
    })?;
    let message = match part {
        Part::Subject if rendered.trim().is_empty() || rendered.trim().chars().any(char::is_control) => {
            "a subject is one line of text"
        }
        Part::Text | Part::Html if kind == Kind::EmailCode && !rendered.contains(CODE) => "never shows {{ code }}",
        Part::Text | Part::Html if kind != Kind::EmailCode && !rendered.contains(LINK) => "never shows {{ link }}",
        Part::Subject | Part::Text | Part::Html => return Ok(()),
    };
    Err(TemplateError { file: Some(place(&name, folder)), line: None, message: message.to_owned() })
}

fn only_known_names(
    templates: &Templates,
    name: &str,
    known: &[&str],
    folder: Option<&Path>,
) -> Result<(), TemplateError> {
    let compiled = templates.0.get();
    let environment = &compiled.environment;
    let template = environment.get_template(name).map_err(|error| TemplateError::of(&error, folder))?;
    let is_known = |name: &str| known.contains(&name) || environment.globals().any(|(global, _)| global == name);
    let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    unknown.retain(|name| !is_known(name));
    unknown.sort_unstable();
    let Some(unknown) = unknown.first() else { return Ok(()) };
    let line = template.source().lines().position(|line| line.contains(unknown)).map(|index| index + 1);
    let message = format!("`{unknown}` does not exist here; there are {}", known.join(", "));
    Err(TemplateError { file: Some(place(name, folder)), line, message })
}

/// The path of the template with this name.
fn place(name: &str, folder: Option<&Path>) -> PathBuf {
    let own = folder.map(|folder| folder.join(name)).filter(|path| path.exists());
    own.unwrap_or_else(|| name.into())
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}
