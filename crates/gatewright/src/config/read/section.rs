use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use gatewright_base::{Secret, nearest};
use url::Url;

use super::node::{Entry, Table, Value};
use super::report::Report;
use super::scalar::FromNode;
use super::setting::{Absent, Setting};
use super::to_toml::ToToml;
use crate::config::{Place, Problem};

/// One section of the configuration while it is read. `read` requests every key once. The requested keys are the known
/// ones, so reading is also the schema. Every other key is unknown.
pub(crate) struct Section<'a> {
    table: Option<&'a Table>,
    /// The place of the section's header.
    place: Place,
    report: Report<'a>,
    known: Vec<&'static str>,
    /// The beginnings of keys that end in a language.
    translated: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Reads a table, or the defaults if it is absent, and reports the keys that `read` did not request.
    pub(crate) fn read<T>(
        table: Option<(&'a Table, &Place)>,
        report: Report<'a>,
        read: impl FnOnce(&mut Section<'a>) -> T,
    ) -> T {
        let place = table.map_or(Place::Unwritten, |(_, place)| place.clone());
        let mut section =
            Section { table: table.map(|(table, _)| table), place, report, known: Vec::new(), translated: Vec::new() };
        let value = read(&mut section);
        section.report_unknown();
        value
    }

    /// Every setting that `read` requests, including those of nested sections.
    pub(crate) fn describe(read: impl FnOnce(&mut Section<'_>)) -> Vec<Setting> {
        let (findings, settings) = (RefCell::default(), RefCell::default());
        let report = Report::describing(&findings, &settings);
        Section::read(None, report, read);
        settings.into_inner()
    }

    /// The setting's value, if it was written and is well formed. If it is absent, its feature is off.
    pub(crate) fn optional<T: FromNode>(&mut self, key: &'static str, about: &'static str) -> Option<T> {
        self.setting(key, Absent::Nothing, about)
    }

    /// The setting's value, if it was written and is well formed. Otherwise the caller gives it the value that `default`
    /// describes.
    pub(crate) fn derived<T: FromNode>(
        &mut self,
        key: &'static str,
        default: &'static str,
        about: &'static str,
    ) -> Option<T> {
        self.setting(key, Absent::Derived(default), about)
    }

    /// The setting's value or `default`.
    pub(crate) fn value<T: FromNode + ToToml>(&mut self, key: &'static str, default: T, about: &'static str) -> T {
        self.setting(key, Absent::Value(default.toml()), about).unwrap_or(default)
    }

    /// The value of a required setting. If it is absent, this reports a problem and returns a placeholder, so that
    /// reading continues.
    pub(crate) fn required<T: FromNode + Default>(&mut self, key: &'static str, about: &'static str) -> T {
        self.refused_if_absent(key, about).unwrap_or_default()
    }

    /// A required secret.
    pub(crate) fn required_secret(&mut self, key: &'static str, about: &'static str) -> Secret {
        self.refused_if_absent(key, about).unwrap_or_else(|| Secret::new(""))
    }

    /// A required URL.
    pub(crate) fn required_url(&mut self, key: &'static str, about: &'static str) -> Url {
        let placeholder = || Url::parse("https://localhost/").expect("a URL");
        self.refused_if_absent(key, about).unwrap_or_else(placeholder)
    }

    /// A time in whole seconds.
    pub(crate) fn seconds(&mut self, key: &'static str, default: Duration, about: &'static str) -> Duration {
        Duration::from_secs(self.value(key, default.as_secs(), about))
    }

    /// A time in whole milliseconds.
    pub(crate) fn milliseconds(&mut self, key: &'static str, default: Duration, about: &'static str) -> Duration {
        let default = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.value(key, default, about))
    }

    /// A nested section. An absent one is read as an empty one.
    pub(crate) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'a>) -> T) -> T {
        let table = self.table_at(key);
        Section::read(table, self.report.below(key), read)
    }

    /// A nested section whose presence has a meaning.
    pub(crate) fn optional_section<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'a>) -> T,
    ) -> Option<T> {
        let table = self.table_at(key);
        (table.is_some() || self.describes()).then(|| Section::read(table, self.report.below(key), read))
    }

    /// The sections of an array of tables (`[[key]]`).
    pub(crate) fn sections<T>(&mut self, key: &'static str, mut read: impl FnMut(&mut Section<'a>) -> T) -> Vec<T> {
        let report = self.report.below(key);
        if self.describes() {
            Section::read(None, report, read);
            return Vec::new();
        }
        let Some(Entry { node, .. }) = self.take(key) else { return Vec::new() };
        let Value::List(items) = &node.value else {
            report.expected(node, &format!("a list of sections, each headed [[{}]]", report.path()));
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

    /// A section whose keys the operator chooses.
    pub(crate) fn entries<T: FromNode>(&mut self, key: &'static str, about: &'static str) -> BTreeMap<String, T> {
        let report = self.report.below(key);
        report.describe(|section| Setting::new(section, "NAME", T::kind, Absent::Nothing, about));
        let Some((table, _)) = self.table_at(key) else { return BTreeMap::new() };
        table
            .0
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), T::from_node(&entry.node, &report.below(name))?)))
            .collect()
    }

    /// The texts whose keys are `prefix` and a language of two letters, such as `message_de`, by language.
    pub(crate) fn languages(&mut self, prefix: &'static str) -> Vec<(String, String)> {
        self.translated.push(prefix);
        let keys = self.table.into_iter().flat_map(|table| &table.0);
        let texts = keys.filter_map(|(key, entry)| {
            let language = language(key, prefix)?;
            Some((language.to_owned(), String::from_node(&entry.node, &self.report.below(key))?))
        });
        texts.collect()
    }

    fn refused_if_absent<T: FromNode>(&mut self, key: &'static str, about: &'static str) -> Option<T> {
        if self.table.is_some_and(|table| table.entry(key).is_none()) {
            self.report.add_at(self.place.clone(), &format!("`{key}` is missing"));
        }
        self.setting(key, Absent::Refused, about)
    }

    fn setting<T: FromNode>(&mut self, key: &'static str, absent: Absent, about: &'static str) -> Option<T> {
        self.report.describe(|section| Setting::new(section, key, T::kind, absent, about));
        let entry = self.take(key)?;
        let report = self.report.below(key);
        for replaced in &entry.replaced {
            T::from_node(replaced, &report.replaced());
        }
        T::from_node(&entry.node, &report)
    }

    fn describes(&self) -> bool {
        self.report.describes()
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
        report.expected(node, &format!("a section, headed [{}]", report.path()));
        None
    }

    fn report_unknown(&self) {
        for (key, entry) in self.table.into_iter().flat_map(|table| &table.0) {
            let is_translated = self.translated.iter().any(|prefix| language(key, prefix).is_some());
            if is_translated || self.known.contains(&key.as_str()) {
                continue;
            }
            let report = self.report.below(key);
            let suggestion = nearest(key, self.known.iter().copied())
                .map(|near| self.report.below(near).path().to_owned())
                .map(|near| format!("; did you mean `{near}`{}?", variable(&entry.key_place, &near)))
                .unwrap_or_default();
            let message = format!("unknown key `{}`{suggestion}", report.path());
            report.note(Problem { place: entry.key_place.clone(), message });
        }
    }
}

/// The language in a key that ends in one.
fn language<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    let language = key.strip_prefix(prefix)?;
    (language.len() == 2 && language.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(language)
}

/// The environment variable for `path`, if the mistake is in one.
fn variable(place: &Place, path: &str) -> String {
    match place {
        Place::Environment(_) => format!(" ({})", super::environment::name_of(path)),
        _ => String::new(),
    }
}
