//! The template files, and their sources.

use std::fs;
use std::path::Path;

use gatewright_base::nearest;
use minijinja::Environment;

use super::TemplateError;
use crate::Kind;

/// One of the three templates of a kind of letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Subject,
    Text,
    Html,
}

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::Subject, Self::Text, Self::Html];

    /// The names that exist in it. A subject ends up in the logs of every mail server on the way, so it gets no link.
    pub(super) fn values(self, kind: Kind) -> Vec<&'static str> {
        let mut values = vec!["product", "lifetime", "email", "language"];
        if matches!(self, Self::Text | Self::Html) {
            values.extend(["link", "code", "direction", "support_url", "logo", "color", "color_text", "color_link"]);
            match kind {
                Kind::NewDevice => values.extend(["time", "device", "address"]),
                Kind::Invitation => values.extend(["tenant", "inviter"]),
                Kind::EmailChange => values.push("account"),
                Kind::MembersChanged => values.extend(["tenant", "change"]),
                Kind::EmailChanged | Kind::EmailChangeUndone => values.push("credentials"),
                _ => {}
            }
        }
        values
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Subject => "subject.txt",
            Self::Text => "txt",
            Self::Html => "html",
        }
    }
}

/// The file of this part of this kind of letter.
pub(super) fn name(kind: Kind, part: Part) -> String {
    format!("{}.{}", kind.name(), part.ending())
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("builtin/", $name)))),*] };
}

const BUILTIN: [(&str, &str); 52] = builtin![
    "layout.html",
    "magic_link.subject.txt",
    "magic_link.txt",
    "magic_link.html",
    "email_code.subject.txt",
    "email_code.txt",
    "email_code.html",
    "email_verification.subject.txt",
    "email_verification.txt",
    "email_verification.html",
    "password_reset.subject.txt",
    "password_reset.txt",
    "password_reset.html",
    "invitation.subject.txt",
    "invitation.txt",
    "invitation.html",
    "email_change.subject.txt",
    "email_change.txt",
    "email_change.html",
    "email_changed.subject.txt",
    "email_changed.txt",
    "email_changed.html",
    "email_change_undone.subject.txt",
    "email_change_undone.txt",
    "email_change_undone.html",
    "passkey_added.subject.txt",
    "passkey_added.txt",
    "passkey_added.html",
    "two_factor_enabled.subject.txt",
    "two_factor_enabled.txt",
    "two_factor_enabled.html",
    "two_factor_disabled.subject.txt",
    "two_factor_disabled.txt",
    "two_factor_disabled.html",
    "backup_codes_replaced.subject.txt",
    "backup_codes_replaced.txt",
    "backup_codes_replaced.html",
    "new_device.subject.txt",
    "new_device.txt",
    "new_device.html",
    "token_created.subject.txt",
    "token_created.txt",
    "token_created.html",
    "program_connected.subject.txt",
    "program_connected.txt",
    "program_connected.html",
    "provider_linked.subject.txt",
    "provider_linked.txt",
    "provider_linked.html",
    "members_changed.subject.txt",
    "members_changed.txt",
    "members_changed.html",
];

pub(super) fn add_builtin(environment: &mut Environment<'static>) {
    for (name, source) in BUILTIN {
        environment.add_template(name, source).expect("the built-in templates compile: a test loads them");
    }
}

/// Adds the files of an operator's folder, replacing built-in ones of the same name.
///
/// A file whose name is similar to that of a template, or that no template includes, is refused: otherwise it would be
/// ignored silently.
pub(super) fn add_folder(environment: &mut Environment<'static>, folder: &Path) -> Result<(), TemplateError> {
    let unreadable = |error| TemplateError::unreadable(folder, &error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort_unstable();
    // By name: those that replace no built-in one, and the sources that may include them.
    let (mut others, mut sources) = (Vec::new(), Vec::new());
    for path in paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let is_backup = name.starts_with('.') || name.ends_with('~');
        if is_backup || path.is_dir() {
            continue;
        }
        let is_known = BUILTIN.iter().any(|(known, _)| *known == name);
        if !is_known && let Some(meant) = nearest(name, BUILTIN.map(|(known, _)| known)) {
            return Err(TemplateError::misnamed(&path, meant));
        }
        let is_template = matches!(path.extension().and_then(|end| end.to_str()), Some("txt" | "html"));
        if !is_template {
            continue;
        }
        let source = fs::read_to_string(&path).map_err(|error| TemplateError::unreadable(&path, &error))?;
        let name = name.to_owned();
        sources.push((name.clone(), source.clone()));
        if !is_known {
            others.push((name.clone(), path.clone()));
        }
        environment.add_template_owned(name, source).map_err(|error| TemplateError::of(&error, Some(folder)))?;
    }
    // Otherwise it would be ignored silently, and the mail would stay as it is.
    let is_included = |name: &str| {
        let quoted = ['"', '\''].map(|quote| format!("{quote}{name}{quote}"));
        sources.iter().any(|(other, source)| other != name && quoted.iter().any(|quoted| source.contains(quoted)))
    };
    match others.iter().find(|(name, _)| !is_included(name)) {
        Some((_, path)) => Err(TemplateError::unused(path)),
        None => Ok(()),
    }
}
