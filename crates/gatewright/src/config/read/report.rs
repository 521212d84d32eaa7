use std::cell::RefCell;

use super::node::Node;
use super::setting::Setting;
use crate::config::{Place, Problem};

/// A problem and the path of the setting that has it, such as `auth.limits.login`.
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

/// Where problems gather while a tree is read. It knows the path of the setting that is being read.
pub(crate) struct Report<'a> {
    findings: &'a RefCell<Vec<Finding>>,
    /// Where settings gather when they are described and nothing is read.
    settings: Option<&'a RefCell<Vec<Setting>>>,
    path: String,
}

impl<'a> Report<'a> {
    pub(crate) fn new(findings: &'a RefCell<Vec<Finding>>) -> Self {
        Self { findings, settings: None, path: String::new() }
    }

    /// Notes a problem with the setting that is being read.
    pub(crate) fn add(&self, node: &Node, message: &str) {
        self.add_at(node.place.clone(), message);
    }

    /// Notes that `node` is not what was expected. The value itself is not repeated: it may be a secret.
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

    /// Reports that values are described and not read; the settings gather in `settings`.
    pub(super) fn describing(findings: &'a RefCell<Vec<Finding>>, settings: &'a RefCell<Vec<Setting>>) -> Self {
        Self { findings, settings: Some(settings), path: String::new() }
    }

    /// Whether settings are described and nothing is read.
    pub(super) fn describes(&self) -> bool {
        self.settings.is_some()
    }

    /// Notes a setting, if settings are described. `make` gets the path of its section.
    pub(super) fn describe(&self, make: impl FnOnce(&str) -> Setting) {
        if let Some(settings) = self.settings {
            settings.borrow_mut().push(make(&self.path));
        }
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
