use std::sync::Arc;

/// The tables of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    /// Sorted, each once.
    names: Arc<[Arc<str>]>,
    /// All names, to find what was read for a stream of the same tables.
    key: Arc<str>,
}

/// Begins the names under which the seats of streams of several tables are listed: one for each set of tables, so that a burst in one
/// table delays only those who follow it. No table has such a name.
pub(super) const SEVERAL: &str = "*";

impl Tables {
    pub(super) fn of(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut names: Vec<Arc<str>> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let key = match &*names {
            [one] => one.clone(),
            several => several.join("\n").into(),
        };
        Self { names: names.into(), key }
    }

    pub(crate) fn names(&self) -> &Arc<[Arc<str>]> {
        &self.names
    }

    pub(super) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Under which name its seat is listed.
    pub(super) fn seat(&self) -> Arc<str> {
        match &*self.names {
            [one] => one.clone(),
            _ => format!("{SEVERAL}{}", self.key).into(),
        }
    }

    /// What `subscriber_id` names a stream of: a table, or several whichever they are.
    pub(super) fn named(&self) -> Arc<str> {
        match &*self.names {
            [one] => one.clone(),
            _ => SEVERAL.into(),
        }
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.names.binary_search_by(|name| (**name).cmp(table)).is_ok()
    }
}
