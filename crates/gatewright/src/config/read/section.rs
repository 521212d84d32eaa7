use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use gatewright_base::{Secret, nearest};

use super::node::{Entry, Node, Table, Value};
use super::scalar::FromNode;
use crate::config::{Place, Problem};

/// A problem and the path of the setting that has it, such as `auth.limits.login`.
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

/// Where problems gather while a tree is read. It knows the path of the setting that is being read.
pub(crate) struct Report<'a> {
    findings: &'a RefCell<Vec<Finding>>,
    path: String,
}

impl<'a> Report<'a> {
    pub(crate) fn new(findings: &'a RefCell<Vec<Finding>>) -> Self {
        Self { findings, path: String::new() }
    }

    /// Notes a problem with the setting that is being read.
    pub(crate) fn add(&self, node: &Node, message: &str) {
        self.add_at(node.place.clone(), message);
    }

    /// Notes that `node` is not what was expected. The value itself is not repeated: it may be a secret.
    pub(crate) fn expected(&self, node: &Node, expected: &str) {
        self.add(node, &format!("expected {expected}, got {}", node.value.shape()));
    }

    fn add_at(&self, place: Place, message: &str) {
        let message = if self.path.is_empty() { message.to_owned() } else { format!("{}: {message}", self.path) };
        self.note(Problem { place, message });
    }

    fn note(&self, problem: Problem) {
        self.findings.borrow_mut().push(Finding { path: self.path.clone(), problem });
    }

    fn below(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { findings: self.findings, path }
    }

    pub(crate) fn item(&self, index: usize) -> Self {
        Self { findings: self.findings, path: format!("{}[{index}]", self.path) }
    }
}

/// One section of the configuration while it is read. Every key is asked for once; the keys that were asked for are
/// the known ones, so that reading is also the schema, and a key left over is unknown.
pub(crate) struct Section<'a> {
    table: Option<&'a Table>,
    /// Where the section's header stands.
    place: Place,
    report: Report<'a>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Reads a table, or the defaults where it is absent, and reports the keys that `read` did not ask for.
    pub(crate) fn read<T>(
        table: Option<(&'a Table, &Place)>,
        report: Report<'a>,
        read: impl FnOnce(&mut Section<'a>) -> T,
    ) -> T {
        let place = table.map_or(Place::Unwritten, |(_, place)| place.clone());
        let mut section = Section { table: table.map(|(table, _)| table), place, report, known: Vec::new() };
        let value = read(&mut section);
        section.report_unknown();
        value
    }

    /// The keys that `read` asks for.
    pub(crate) fn keys(read: impl FnOnce(&mut Section<'_>)) -> Vec<&'static str> {
        let findings = RefCell::default();
        let report = Report::new(&findings);
        let mut section = Section { table: None, place: Place::Unwritten, report, known: Vec::new() };
        read(&mut section);
        section.known
    }

    /// The setting's value, if it was written and is well formed.
    pub(crate) fn optional<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        let entry = self.take(key)?;
        let report = self.report.below(key);
        for replaced in &entry.replaced {
            T::from_node(replaced, &report);
        }
        T::from_node(&entry.node, &report)
    }

    /// The setting's value or `default`.
    pub(crate) fn value<T: FromNode>(&mut self, key: &'static str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    /// The value of a setting that must be written. A stand-in comes back beside the reported problem, so that reading
    /// goes on.
    pub(crate) fn required<T: FromNode + Default>(&mut self, key: &'static str) -> T {
        if self.table.is_some_and(|table| table.entry(key).is_none()) {
            self.report.add_at(self.place.clone(), &format!("`{key}` is missing"));
        }
        self.value(key, T::default())
    }

    /// A secret that must be written.
    pub(crate) fn required_secret(&mut self, key: &'static str) -> Secret {
        Secret::new(self.required::<String>(key))
    }

    /// A time in whole seconds.
    pub(crate) fn seconds(&mut self, key: &'static str, default: Duration) -> Duration {
        self.optional(key).map_or(default, Duration::from_secs)
    }

    /// A time in whole milliseconds.
    pub(crate) fn milliseconds(&mut self, key: &'static str, default: Duration) -> Duration {
        self.optional(key).map_or(default, Duration::from_millis)
    }

    /// A section below; absent, it is read as an empty one.
    pub(crate) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'a>) -> T) -> T {
        let table = self.table_at(key);
        Section::read(table, self.report.below(key), read)
    }

    /// A section below that means something by being there.
    pub(crate) fn optional_section<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'a>) -> T,
    ) -> Option<T> {
        let table = self.table_at(key)?;
        Some(Section::read(Some(table), self.report.below(key), read))
    }

    /// The sections of an array of tables (`[[key]]`).
    pub(crate) fn sections<T>(&mut self, key: &'static str, mut read: impl FnMut(&mut Section<'a>) -> T) -> Vec<T> {
        let Some(Entry { node, .. }) = self.take(key) else { return Vec::new() };
        let report = self.report.below(key);
        let Value::List(items) = &node.value else {
            report.expected(node, &format!("a list of sections, each headed [[{}]]", report.path));
            return Vec::new();
        };
        let tables = items.iter().enumerate().filter_map(|(index, item)| match &item.value {
            Value::Table(table) => Some((index, (table, &item.place))),
            _ => {
                report.item(index).expected(item, "a section");
                None
            }
        });
        tables.map(|(index, table)| Section::read(Some(table), report.item(index), &mut read)).collect()
    }

    /// A section whose keys are the operator's own words.
    pub(crate) fn entries<T: FromNode>(&mut self, key: &'static str) -> BTreeMap<String, T> {
        let Some((table, _)) = self.table_at(key) else { return BTreeMap::new() };
        let report = self.report.below(key);
        table
            .0
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), T::from_node(&entry.node, &report.below(name))?)))
            .collect()
    }

    fn take(&mut self, key: &'static str) -> Option<&'a Entry> {
        debug_assert!(!self.known.contains(&key), "`{key}` is asked for twice");
        self.known.push(key);
        self.table?.entry(key)
    }

    fn table_at(&mut self, key: &'static str) -> Option<(&'a Table, &'a Place)> {
        let Entry { key_place, node, .. } = self.take(key)?;
        if let Value::Table(table) = &node.value {
            return Some((table, key_place));
        }
        let report = self.report.below(key);
        report.expected(node, &format!("a section, headed [{}]", report.path));
        None
    }

    fn report_unknown(&self) {
        for (key, entry) in self.table.into_iter().flat_map(|table| &table.0) {
            if self.known.contains(&key.as_str()) {
                continue;
            }
            let report = self.report.below(key);
            let suggestion = nearest(key, self.known.iter().copied())
                .map(|near| self.report.below(near).path)
                .map(|near| format!("; did you mean `{near}`{}?", variable(&entry.key_place, &near)))
                .unwrap_or_default();
            let message = format!("unknown key `{}`{suggestion}", report.path);
            report.note(Problem { place: entry.key_place.clone(), message });
        }
    }
}

/// The environment variable for `path`, where the mistake is in one.
fn variable(place: &Place, path: &str) -> String {
    match place {
        Place::Environment(_) => format!(" ({})", super::environment::name_of(path)),
        _ => String::new(),
    }
}
