//! Secrets: written in place, in a file (`{ file = "…" }`), or a credential of systemd (`{ credential = "…" }`).
//!
//! Every setting that is a secret is read here, so that none of them can miss a source or a refusal. No message contains a
//! secret, nor a path: somebody may have written the secret in its place.

use std::cell::RefCell;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use gatewright_base::Secret;

use super::node::{Node, Table};
use super::report::Report;
use super::scalar::text;
use crate::config::{Place, Problem};

/// The key of a secret that is in a file.
pub(super) const FILE: &str = "file";
/// The key of a secret that is a credential of systemd.
const CREDENTIAL: &str = "credential";

/// What a secret may be written as.
pub(super) const EXPECTED: &str = "text, { file = \"PATH\" } or { credential = \"NAME\" }";

/// The largest file with a secret, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Where secrets are that are not written in place, and what was noticed about them.
#[derive(Default)]
pub(crate) struct SecretSources {
    /// Relative paths in the configuration file are relative to this folder; without it, to the current one.
    pub(crate) folder: Option<PathBuf>,
    /// `$CREDENTIALS_DIRECTORY`, which systemd sets for the processes of a unit with credentials.
    pub(crate) credentials: Option<PathBuf>,
    /// The home directory, to recognize paths in the place of secrets.
    pub(crate) home: Option<PathBuf>,
    /// Whether files stay unread: their secrets are empty. For documents, which contain no secret.
    pub(crate) stay_unread: bool,
    /// Files that other users of this computer can read.
    pub(crate) exposed: RefCell<Vec<Problem>>,
    /// What was read, by the path of the setting.
    pub(crate) read: RefCell<Vec<(String, Secret)>>,
}

const A_FILE: &str = "is the path of a file, not a secret. To read the secret from the file, write { file = \"PATH\" }; in the \
                      environment, add _FILE to the name of the variable";

/// A secret that is written in place. The path of an existing file is refused: it was meant to be read, and anybody who knows the
/// deployment could guess it.
pub(super) fn in_place(text: &str, node: &Node, report: &Report<'_>) -> Option<Secret> {
    let home = report.secrets().and_then(|sources| sources.home.as_deref());
    if is_file(text.trim(), home) {
        report.add(node, A_FILE);
        return None;
    }
    Some(Secret::new(text))
}

fn is_file(text: &str, home: Option<&Path>) -> bool {
    let at_home = || text.strip_prefix("~/").zip(home).is_some_and(|(rest, home)| home.join(rest).is_file());
    !text.is_empty() && (Path::new(text).is_file() || at_home())
}

/// A secret that is a file or a credential.
pub(super) fn elsewhere(table: &Table, node: &Node, report: &Report<'_>) -> Option<Secret> {
    let mut entries = table.0.iter();
    let (Some((key, entry)), None) = (entries.next(), entries.next()) else {
        report.add(node, &format!("expected {EXPECTED}"));
        return None;
    };
    let named = text(&entry.node, report, "text")?;
    let source = match &**key {
        FILE => Source::File,
        CREDENTIAL => Source::Credential,
        _ => {
            report.add(node, &format!("expected {EXPECTED}"));
            return None;
        }
    };
    let Some(sources) = report.secrets().filter(|sources| !sources.stay_unread) else { return Some(Secret::new("")) };
    match source.path(named, sources, &node.place).and_then(|path| content(&path)) {
        Ok(Content { secret, is_exposed }) => {
            if is_exposed {
                let message = format!(
                    "{}: every user of this computer can read the file; remove their right: chmod o-r FILE",
                    report.path()
                );
                sources.exposed.borrow_mut().push(Problem { place: node.place.clone(), message });
            }
            sources.read.borrow_mut().push((report.path().to_owned(), secret.clone()));
            Some(secret)
        }
        Err(message) => {
            report.add(node, &message);
            None
        }
    }
}

enum Source {
    File,
    Credential,
}

impl Source {
    fn path(&self, named: &str, sources: &SecretSources, place: &Place) -> Result<PathBuf, String> {
        match self {
            Self::File if named.is_empty() => Err("the path of the file is empty".to_owned()),
            Self::File => Ok(match (&sources.folder, place) {
                (Some(folder), Place::File { .. }) => folder.join(named),
                _ => PathBuf::from(named),
            }),
            Self::Credential => {
                let is_name = !named.is_empty() && !named.contains('/') && named != "." && named != "..";
                if !is_name {
                    return Err("the name of a credential has no slash and is not empty".to_owned());
                }
                let folder = sources.credentials.as_ref().ok_or(
                    "the environment variable CREDENTIALS_DIRECTORY is not set. systemd sets it for the processes of a unit \
                     with LoadCredential=. For a command, use `systemd-run --pipe --wait --property=LoadCredential=NAME:FILE`",
                )?;
                Ok(folder.join(named))
            }
        }
    }
}

struct Content {
    secret: Secret,
    /// Every user of the computer can read it.
    is_exposed: bool,
}

/// The text of a file without the newline at its end.
fn content(path: &Path) -> Result<Content, String> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "the file does not exist".to_owned(),
        kind => format!("the file cannot be read: {kind}"),
    };
    // Before it is opened: opening a pipe waits for somebody who writes.
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(if metadata.is_dir() { "is a directory, not a file" } else { "is not a regular file" }.to_owned());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("the file is larger than 64 KiB".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_owned())?;
    let text = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() {
        return Err("the file is empty".to_owned());
    }
    Ok(Content { secret: Secret::new(text), is_exposed: is_exposed(&metadata) })
}

#[cfg(unix)]
fn is_exposed(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.mode() & 0o004 != 0
}

#[cfg(not(unix))]
fn is_exposed(_: &std::fs::Metadata) -> bool {
    false
}
