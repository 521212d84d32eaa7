//! What a configuration says, to compare it with a later one.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::read::{Node, Table, Value};

/// The values of all settings that are written, by path. A list is one value. Values are fingerprints: some are secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Written(BTreeMap<String, [u8; 32]>);

impl Written {
    /// `secrets` are those that are not written in place, by path.
    pub(super) fn new(tree: &Table, secrets: &[(String, gatewright_base::Secret)]) -> Self {
        let mut written = BTreeMap::new();
        flatten(tree, "", &mut written);
        for (path, secret) in secrets {
            written.insert(path.clone(), Sha256::digest(secret.expose()).into());
        }
        Self(written)
    }

    /// The paths of the settings that differ, in order.
    pub fn changes(&self, other: &Self) -> Vec<String> {
        let paths: std::collections::BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        paths.into_iter().filter(|path| self.0.get(*path) != other.0.get(*path)).cloned().collect()
    }
}

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn flatten(table: &Table, above: &str, written: &mut BTreeMap<String, [u8; 32]>) {
    for (key, entry) in &table.0 {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match &entry.node.value {
            Value::Table(inner) => flatten(inner, &path, written),
            _ => {
                let mut hash = Sha256::new();
                feed(&entry.node, &mut hash);
                written.insert(path, hash.finalize().into());
            }
        }
    }
}

/// Each part with its length or number, so that no two values have one text.
fn feed(node: &Node, hash: &mut Sha256) {
    let mut text = |kind: &str, text: &str| {
        hash.update(format!("{kind}{}:", text.len()));
        hash.update(text);
    };
    match &node.value {
        Value::Text(value) => text("t", value),
        Value::Integer(number) => text("i", &number.to_string()),
        Value::Float(number) => text("f", &number.to_string()),
        Value::Bool(truth) => text("b", &truth.to_string()),
        Value::Datetime(time) => text("d", time),
        Value::List(items) => {
            text("l", &items.len().to_string());
            for item in items {
                feed(item, hash);
            }
        }
        Value::Table(table) => {
            text("s", &table.0.len().to_string());
            for (key, entry) in &table.0 {
                hash.update(format!("k{}:{key}", key.len()));
                feed(&entry.node, hash);
            }
        }
    }
}
