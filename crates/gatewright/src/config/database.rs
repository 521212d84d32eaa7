use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use gatewright_base::Secret;
use gatewright_entities::ListLimits;

use super::read::Section;

/// `[database]`: the database.
#[derive(Debug, Clone)]
pub struct Database {
    /// `sqlite://FILE` or `postgres://…`. A secret, because it may contain a password.
    pub url: Secret,
    /// The URL of the database without the pooler in transaction mode at `url`. A secret, because it may contain a
    /// password.
    pub direct_url: Option<Secret>,
    /// Whether tables are created and extended at start. If not, the operator runs `gatewright migrate`.
    pub create_tables: bool,
    /// Whether a missing SQLite file is created. Not a setting of the file: commands that only read turn it off.
    pub create_file: bool,
    /// The maximum number of Postgres connections, at least 5. The readers of SQLite depend on the number of cores.
    pub max_connections: usize,
    /// How long a list may take, including the time that it waits.
    pub list_timeout: Duration,
    /// How many bytes of text a list on SQLite may search. The bytes of a text count once for each condition on it.
    pub list_search_bytes: u64,
    /// How many lists may run at a time for one caller and for one address.
    pub lists: ListLimits,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: Secret::new("sqlite://gatewright.db"),
            direct_url: None,
            create_tables: true,
            create_file: true,
            max_connections: 16,
            list_timeout: Duration::from_secs(5),
            list_search_bytes: 1 << 30,
            lists: ListLimits::default(),
        }
    }
}

impl Database {
    /// Whether the data is lost when the process ends.
    pub fn in_memory(&self) -> bool {
        let url = self.url.expose();
        url.starts_with("sqlite:") && (url.contains(":memory:") || url.contains("mode=memory"))
    }

    /// Whether it is a SQLite database.
    pub(crate) fn is_sqlite(&self) -> bool {
        self.url.expose().starts_with("sqlite:")
    }

    /// The file of a SQLite database.
    pub fn file(&self) -> Option<&Path> {
        let url = self.url.expose();
        let file = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"))?;
        (!file.is_empty() && !self.in_memory()).then(|| Path::new(file))
    }

    /// The file that a server on a SQLite database holds locked. It contains the number of the server's process.
    pub fn lock_file(&self) -> Option<std::path::PathBuf> {
        self.file().map(gatewright_db::lock_file)
    }

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            url: section.value("url", default.url, "`sqlite://FILE` (relative to the folder of this file; in `--database` and in the environment, to the current folder; `sqlite:///var/lib/app.db` is absolute), or `postgres://USER:PASSWORD@HOST/DATABASE`. `postgresql://` means the same. To a Postgres on another computer, verified TLS is required unless `sslmode` names less: see [encryption](postgres.md#encryption)."),
            direct_url: section
                .optional(
                    "direct_url",
                    "If `url` is that of a [pooler in transaction mode](postgres.md#behind-pgbouncer): the URL of the \
                     same database without the pooler.",
                )
                .filter(|url: &Secret| !url.is_empty()),
            create_tables: section.value(
                "create_tables",
                default.create_tables,
                "Create and extend tables at start. If `false`, the operator runs `gatewright migrate`, and `serve` \
                 refuses to start while migrations are pending.",
            ),
            create_file: default.create_file,
            max_connections: section.value(
                "max_connections",
                default.max_connections,
                "The maximum number of connections to Postgres; at least 6 are used. Identities, records, lists, \
                 single writes and transactions each have separate connections. SQLite has one writer, and a number \
                 of readers that depends on the number of cores.",
            ),
            list_timeout: section.seconds(
                "list_timeout_seconds",
                default.list_timeout,
                "The maximum time of a list, including waiting. After that: 503 `list_timeout`. The shorter of this \
                 and `server.request_timeout_seconds` applies.",
            ),
            list_search_bytes: section.value(
                "list_search_bytes",
                default.list_search_bytes,
                "SQLite: how many bytes of text the `~` and `q` conditions of one list may search. A text counts once \
                 for each condition on it. Above it: 400 `list_too_costly`. On Postgres only the timeout limits a \
                 search.",
            ),
            lists: ListLimits {
                per_caller: count(
                    section,
                    "lists_per_caller",
                    default.lists.per_caller,
                    "The maximum number of lists of one account in progress at the same time. Above it: 429 \
                     `too_many_lists` with `Retry-After`.",
                ),
                per_address: count(
                    section,
                    "lists_per_address",
                    default.lists.per_address,
                    "The same for one address (an IPv6 /64; eight times as many for a /48).",
                ),
            },
        }
    }
}

/// A number of lists. 0 means 1.
fn count(section: &mut Section<'_>, key: &'static str, default: NonZeroUsize, about: &'static str) -> NonZeroUsize {
    NonZeroUsize::new(section.value(key, default.get(), about)).unwrap_or(NonZeroUsize::MIN)
}
