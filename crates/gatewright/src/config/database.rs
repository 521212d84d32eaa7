use gatewright_base::Secret;

use super::read::Section;

/// `[database]`: where everything is kept.
#[derive(Debug, Clone)]
pub struct Database {
    /// `sqlite://FILE` or `postgres://…`. A secret, since it may carry a password.
    pub url: Secret,
    /// Whether tables are created and extended at start. If not, the operator runs `gatewright migrate`.
    pub create_tables: bool,
    /// Postgres connections, or SQLite readers, at most.
    pub max_connections: usize,
}

impl Default for Database {
    fn default() -> Self {
        Self { url: Secret::new("sqlite://gatewright.db"), create_tables: true, max_connections: 16 }
    }
}

impl Database {
    /// Whether the data is gone when the process ends.
    pub fn in_memory(&self) -> bool {
        let url = self.url.expose();
        url.starts_with("sqlite:") && (url.contains(":memory:") || url.contains("mode=memory"))
    }

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            url: section.value("url", default.url),
            create_tables: section.value("create_tables", default.create_tables),
            max_connections: section.value("max_connections", default.max_connections),
        }
    }
}
