use std::cell::RefCell;

use super::node::Node;
use super::secret::SecretSources;
use super::setting::Setting;
use crate::config::{Place, Problem};

/// A problem and the path of the setting that has it, such as `auth.limits.login`.
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

/// Collects problems while a tree is read. It has the path of the setting that is being read.
#[derive(Clone)]
pub(crate) struct Report<'a> {
    findings: &'a RefCell<Vec<Finding>>,
    /// Collects settings, if they are described and nothing is read.
    settings: Option<&'a RefCell<Vec<Setting>>>,
    /// Where secrets are that are not written in place. `None` if they are not read.
    secrets: Option<&'a SecretSources>,
    path: String,
}

impl<'a> Report<'a> {
    pub(crate) fn new(findings: &'a RefCell<Vec<Finding>>, secrets: &'a SecretSources) -> Self {
        Self { findings, settings: None, secrets: Some(secrets), path: String::new() }
    }

    /// Adds a problem with the setting that is being read.
    pub(crate) fn add(&self, node: &Node, message: &str) {
        self.add_at(node.place.clone(), message);
    }

    /// Adds a problem: `node` is not what was expected. The message does not contain the value: it may be a secret.
    pub(crate) fn expected(&self, node: &Node, expected: &str) {
        self.add(node, &format!("expected {expected}, got {}", node.value.shape()));
    }

    pub(super) fn add_at(&self, place: Place, message: &str) {
        let message = if self.path.is_empty() { message.to_owned() } else { format!("{}: {message}", self.path) };
        self.note(Problem { place, message });
    }

    pub(super) fn note(&self, problem: Problem) {
        self.findings.borrow_mut().push(Finding { path: self.path.clone(), problem });
    }

    /// A report that describes settings instead of reading values. It adds them to `settings`.
    pub(super) fn describing(findings: &'a RefCell<Vec<Finding>>, settings: &'a RefCell<Vec<Setting>>) -> Self {
        Self { findings, settings: Some(settings), secrets: None, path: String::new() }
    }

    /// Whether settings are described and nothing is read.
    pub(super) fn describes(&self) -> bool {
        self.settings.is_some()
    }

    /// Adds a setting, if settings are described. `make` gets the path of its section.
    pub(super) fn describe(&self, make: impl FnOnce(&str) -> Setting) {
        if let Some(settings) = self.settings {
            settings.borrow_mut().push(make(&self.path));
        }
    }

    /// The same for a value that another one replaced: files that it names are not read.
    pub(super) fn replaced(&self) -> Self {
        Self { secrets: None, path: self.path.clone(), ..*self }
    }

    /// Where secrets are that are not written in place. `None` if they are not read.
    pub(super) fn secrets(&self) -> Option<&'a SecretSources> {
        self.secrets
    }

    /// The path of the setting that is being read.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn below(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { path, ..*self }
    }

    pub(crate) fn item(&self, index: usize) -> Self {
        Self { path: format!("{}[{index}]", self.path), ..*self }
    }
}
