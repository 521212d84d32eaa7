//! An empty database of either engine.

use std::{
    env,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use gatewright_servers::PrivatePostgres;

use super::run;

/// The value of the server's `--database`, and the resources that must outlive the server.
pub(crate) enum Database {
    /// The server's default: a file in the server's folder.
    Sqlite,
    /// A new database on the server that all tests share.
    Shared(Fresh),
    /// Another URL of a database that another value owns.
    Through(String),
    /// A database on a private Postgres, which the test may kill.
    Own(Box<PrivatePostgres>),
}

/// A database that is dropped when its test ends.
pub(crate) struct Fresh {
    server: String,
    name: String,
}

/// Distinguishes the databases of this process. The process id distinguishes them from those of other processes.
static COUNT: AtomicU32 = AtomicU32::new(0);

impl Database {
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite => "sqlite://gatewright.db".to_owned(),
            Self::Shared(fresh) => fresh.url(),
            Self::Through(url) => url.clone(),
            Self::Own(server) => server.url(),
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        !matches!(self, Self::Sqlite)
    }

    /// A new database on the shared server. `None` if there is no server and none is required.
    pub(crate) async fn postgres() -> Option<Self> {
        Self::created("").await
    }

    /// The same, in another encoding than UTF8.
    pub(crate) async fn postgres_in(encoding: &str) -> Option<Self> {
        Self::created(&format!("ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")).await
    }

    async fn created(options: &str) -> Option<Self> {
        let server = shared_server()?;
        let name = format!("blackbox_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        execute(&server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        execute(&server, &format!("CREATE DATABASE {name} {options}")).await;
        Some(Self::Shared(Fresh { server, name }))
    }

    /// The server's URL and the database's name.
    pub(crate) fn server_and_name(&self) -> (String, String) {
        let url = self.url();
        let (_, name) = url.rsplit_once('/').unwrap();
        (url.clone(), name.to_owned())
    }

    /// A private Postgres that the test may kill.
    pub(crate) fn own_postgres() -> Option<Self> {
        shared_server()?;
        Some(Self::Own(Box::new(PrivatePostgres::start().unwrap())))
    }

    /// Runs a statement, or several on Postgres, while the server with this folder runs.
    pub(crate) async fn execute(&self, folder: &Path, statement: &str) {
        let Self::Sqlite = self else { return execute(&self.url(), statement).await };
        let script = "import sqlite3, sys; base = sqlite3.connect(sys.argv[1], timeout=30); \
                      base.execute(sys.argv[2]); base.commit()";
        let python = env::var("GATEWRIGHT_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let file = folder.join("gatewright.db");
        run(python, &["-c", script, file.to_str().unwrap(), statement]).await;
    }

    /// Every engine that is available for tests.
    pub(crate) async fn all() -> Vec<Self> {
        let mut engines = vec![Self::Sqlite];
        engines.extend(Self::postgres().await);
        engines
    }
}

impl Fresh {
    fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let (server, statement) = (self.server.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        // `drop` cannot wait for the runtime that it may be running on, so it uses a new one.
        let dropping = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(execute(&server, &statement));
        });
        let _ = dropping.join();
    }
}

async fn execute(server: &str, statement: &str) {
    let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{error}: {statement}"));
    connection.abort();
}

fn shared_server() -> Option<String> {
    let url = env::var("GATEWRIGHT_TEST_POSTGRES").ok();
    let required = env::var_os("GATEWRIGHT_TEST_REQUIRED").is_some();
    assert!(url.is_some() || !required, "GATEWRIGHT_TEST_POSTGRES must name a Postgres server");
    url
}
