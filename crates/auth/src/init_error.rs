use gatewright_base::nearest;

/// Why authentication refuses to start. Each error says what to change. All are found at the start, and none by the
/// first request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthInitError {
    /// Production without a JWT secret.
    #[error(
        "the JWT secret is empty: outside dev mode one of at least 32 bytes is required; without it anybody could sign in as anybody"
    )]
    MissingJwtSecret,
    /// Only verify-only secrets.
    #[error(
        "there are previous JWT secrets but no current one: set the JWT secret that new tokens are to be signed with"
    )]
    PreviousJwtSecretsOnly,
    /// A secret that could be guessed.
    #[error("{name} has {bytes} bytes; outside dev mode a secret has at least 32")]
    ShortSecret {
        /// Which setting.
        name: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A store of provider tokens, and nothing to seal them with.
    #[error(
        "the OAuth token encryption key is empty: provider tokens are stored only encrypted; set one of at least 32 bytes"
    )]
    MissingTokenEncryptionKey,
    /// An in-memory store: it loses its data at every restart and is not shared with other replicas.
    #[error(
        "the {store} store keeps its data in memory, which outside dev mode needs `allow_in_memory_stores` \
         (one node only; a restart loses everything)"
    )]
    InMemoryStore {
        /// Which one: `session` or `2FA`.
        store: &'static str,
    },
    /// There is no user store and no database.
    #[error("there is no user store: give the builder a database or a user store of your own")]
    NoUserStore,
    /// A plugin needs a capability that the store lacks.
    #[error("the {plugin} plugin needs a {store} store with {capability}: {remedy}")]
    MissingCapability {
        /// The plugin's name.
        plugin: &'static str,
        /// `user`, `session`, …
        store: &'static str,
        /// The capability, in the words of the documentation.
        capability: &'static str,
        /// How to fix it.
        remedy: &'static str,
    },
    /// The same plugin twice, or two plugins with one name.
    #[error("the plugin {0} is registered twice")]
    DuplicatePlugin(&'static str),
    /// A name that no plugin has.
    #[error("there is no plugin \"{name}\"{}", .nearest.as_ref().map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default())]
    UnknownPlugin {
        /// As it was written.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
    },
    /// A setting out of range.
    #[error("{setting}: {problem}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// The error of the setting.
        problem: String,
    },
    /// Tables are missing, and automatic migration is off.
    #[error("the tables of {} are missing or outdated, and `create_tables` is off: run `gatewright migrate` first", .0.join(", "))]
    TablesMissing(Vec<&'static str>),
    /// The user store could not return how stored passwords are hashed.
    #[error("cannot read the settings of stored password hashes: {0}")]
    UserStore(#[from] crate::users::UserStoreError),
    /// The keys of JWTs could not be read or made.
    #[error(transparent)]
    Keys(#[from] crate::jwt::KeyError),
    /// The tables could not be created or migrated.
    #[error("the authentication tables could not be prepared: {0}")]
    Database(#[from] gatewright_db::MigrateError),
}

impl AuthInitError {
    /// The error for a plugin name that is not among `known`.
    pub fn unknown_plugin<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::UnknownPlugin { name: name.to_owned(), nearest: nearest(name, known).map(str::to_owned) }
    }
}
