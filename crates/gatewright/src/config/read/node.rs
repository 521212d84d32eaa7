use std::collections::BTreeMap;

use crate::config::Place;

/// A value as written, with its place. It may hold secrets, so it has no `Debug`.
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
    /// The original text of an environment variable. It may be meant as text even if it parses as a number.
    pub(crate) raw: Option<String>,
}

/// The shapes of TOML.
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Datetime(String),
    List(Vec<Node>),
    Table(Table),
}

/// Keys in alphabetical order, each with the place of its name.
#[derive(Default)]
pub(crate) struct Table(pub(crate) BTreeMap<String, Entry>);

pub(crate) struct Entry {
    pub(crate) key_place: Place,
    pub(crate) node: Node,
    /// The values that the environment or a flag replaced. They are still checked: otherwise a mistake in the file
    /// would appear only when somebody leaves the flag out.
    pub(crate) replaced: Vec<Node>,
}

impl Value {
    /// The shape's name for messages, with its article.
    pub(crate) fn shape(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a fractional number",
            Self::Bool(true) => "true",
            Self::Bool(false) => "false",
            Self::Datetime(_) => "a date or time",
            Self::List(_) => "a list",
            Self::Table(_) => "a section",
        }
    }
}

impl Node {
    pub(crate) fn new(value: Value, place: Place) -> Self {
        Self { value, place, raw: None }
    }
}

impl Entry {
    pub(crate) fn new(key_place: Place, node: Node) -> Self {
        Self { key_place, node, replaced: Vec::new() }
    }
}

impl Table {
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.get(key)
    }

    /// The place of the setting that `path` names (`auth.limits.login.max_attempts`, `entity[0].field[2].max`), or of the
    /// innermost section around it that was written.
    pub(crate) fn locate(&self, path: &str) -> Option<&Place> {
        let mut table = self;
        let mut found = None;
        for step in path.split('.') {
            let (key, index) = split_index(step);
            let Some(mut node) = table.entry(key).map(|entry| &entry.node) else { return found };
            found = Some(&node.place);
            if let (Value::List(items), Some(index)) = (&node.value, index) {
                let Some(item) = items.get(index) else { return found };
                (node, found) = (item, Some(&item.place));
            }
            let Value::Table(inner) = &node.value else { return found };
            table = inner;
        }
        found
    }

    /// Removes the section at `path`, so that what is put there is not merged with it. Any other value stays.
    pub(crate) fn remove_section(&mut self, path: &[&str]) {
        let [key, rest @ ..] = path else { return };
        match self.0.get_mut(*key).map(|entry| &mut entry.node.value) {
            Some(Value::Table(_)) if rest.is_empty() => drop(self.0.remove(*key)),
            Some(Value::Table(table)) => table.remove_section(rest),
            Some(_) | None => {}
        }
    }

    /// Puts `node` at `path` and replaces an existing value; two sections are merged. If a value on the way is not a
    /// section, fails with its path.
    pub(crate) fn put(&mut self, path: &[&str], node: Node) -> Result<(), String> {
        let [key, rest @ ..] = path else { return Ok(()) };
        let place = node.place.clone();
        let entry = self.0.entry((*key).to_owned());
        if rest.is_empty() {
            return match entry {
                std::collections::btree_map::Entry::Vacant(vacant) => {
                    vacant.insert(Entry::new(place, node));
                    Ok(())
                }
                std::collections::btree_map::Entry::Occupied(mut occupied) => occupied.get_mut().replace(node),
            };
        }
        let empty = || Node::new(Value::Table(Self::default()), place.clone());
        let below = entry.or_insert_with(|| Entry::new(place.clone(), empty()));
        match &mut below.node.value {
            Value::Table(table) => table.put(rest, node).map_err(|inner| format!("{key}.{inner}")),
            _ => Err((*key).to_owned()),
        }
    }
}

impl Entry {
    fn replace(&mut self, node: Node) -> Result<(), String> {
        match (&mut self.node.value, node) {
            (Value::Table(old), Node { value: Value::Table(new), .. }) => {
                for (key, entry) in new.0 {
                    old.put(&[&key], entry.node)?;
                }
            }
            (_, node) => {
                self.key_place = node.place.clone();
                self.replaced.push(std::mem::replace(&mut self.node, node));
            }
        }
        Ok(())
    }
}

fn split_index(step: &str) -> (&str, Option<usize>) {
    step.strip_suffix(']')
        .and_then(|step| step.split_once('['))
        .and_then(|(key, index)| Some((key, Some(index.parse().ok()?))))
        .unwrap_or((step, None))
}
