//! Fresh databases for tests.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::{Db, Options};

/// The environment variable with the URL of a Postgres server on which tests may create databases.
pub const POSTGRES: &str = "GATEWRIGHT_TEST_POSTGRES";
/// The environment variable with which a missing server is an error.
pub const REQUIRED: &str = "GATEWRIGHT_TEST_REQUIRED";

/// An empty database for one test, removed at its end.
#[derive(Debug)]
pub struct TestDb {
    /// The database.
    pub db: Db,
    /// Its URL, to open it a second time.
    pub url: String,
    /// `sqlite` or `postgres`, for messages.
    pub name: &'static str,
    _folder: Option<tempfile::TempDir>,
}

/// An empty database on every available engine: always SQLite, and Postgres if [`POSTGRES`] is set.
///
/// # Panics
/// When a database cannot be made, or when Postgres is [`REQUIRED`] and missing.
pub async fn engines() -> Vec<TestDb> {
    engines_with(Options::default()).await
}

/// Like [`engines`], opened with `options`.
///
/// # Panics
/// When a database cannot be made, or when Postgres is [`REQUIRED`] and missing.
pub async fn engines_with(options: Options) -> Vec<TestDb> {
    let mut engines = vec![sqlite(options.clone()).await];
    match std::env::var(POSTGRES) {
        Ok(server) => engines.push(postgres(&server, options).await),
        Err(_) => assert!(std::env::var(REQUIRED).is_err(), "{POSTGRES} is not set; run `cargo xtask test`"),
    }
    engines
}

async fn sqlite(options: Options) -> TestDb {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("sqlite://{}", folder.path().join("test.db").display());
    let db = Db::open(&url, options).await.expect("a fresh SQLite database opens");
    TestDb { db, url, name: "sqlite", _folder: Some(folder) }
}

async fn postgres(server: &str, options: Options) -> TestDb {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("gw_test_{}_{number}", std::process::id());
    // A process id may occur again on a server that is used for more than one run.
    administrator(server).run(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    administrator(server).run(format!("CREATE DATABASE {name}")).await;
    let mut url = url::Url::parse(server).expect("a URL");
    url.set_path(&name);
    let url = url.to_string();
    let options = Options { max_connections: options.max_connections.min(8.try_into().expect("not zero")), ..options };
    TestDb { db: Db::open(&url, options).await.expect("opens"), url, name: "postgres", _folder: None }
}

/// One connection of the process to the maintenance database, on a thread of its own: each test has its own runtime.
struct Administrator(mpsc::UnboundedSender<(String, oneshot::Sender<()>)>);

fn administrator(server: &str) -> &'static Administrator {
    static ONLY: OnceLock<Administrator> = OnceLock::new();
    ONLY.get_or_init(|| {
        let (sender, mut statements) = mpsc::unbounded_channel::<(String, oneshot::Sender<()>)>();
        let server = server.to_owned();
        let work = async move {
            let connected = tokio_postgres::connect(&server, tokio_postgres::NoTls).await;
            let (client, connection) = connected.expect("the test server is reachable");
            tokio::spawn(connection);
            while let Some((statement, done)) = statements.recv().await {
                client.batch_execute(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
                let _gone = done.send(());
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        thread::spawn(move || runtime.block_on(work));
        Administrator(sender)
    })
}

impl Administrator {
    async fn run(&self, statement: String) {
        let (done, finished) = oneshot::channel();
        self.0.send((statement, done)).expect("the administrator's thread runs");
        finished.await.expect("the statement succeeds");
    }
}
