//! A real server on a free port, with clients on plain sockets.

/// A declaration of an entity with one field, a text.
macro_rules! entity {
    (owned $name:literal $field:literal) => { entity!(@ $name "owner_field = \"user_id\"" $field) };
    (public $name:literal $field:literal) => { entity!(@ $name "public = true" $field) };
    (multi_tenant $name:literal $field:literal) => { entity!(@ $name "multi_tenant = true" $field) };
    (@ $name:literal $kind:literal $field:literal) => {
        concat!(
            "[[entity]]\nname = \"", $name, "\"\n", $kind,
            "\n[[entity.field]]\nname = \"", $field, "\"\ntype = \"string\"\n",
        )
    };
}

mod access;
mod account_deletion;
mod account_events;
mod account_export;
mod admin;
mod any_origin;
mod branding;
mod browser_backend;
mod consumers;
mod crowd;
mod csrf;
mod descriptions;
mod docs;
mod embedding;
mod field_reads;
mod files;
mod functions;
mod fuzz;
mod guests;
mod home;
mod hooks;
mod identifiers;
mod ids_in_any_case;
mod includes;
mod injections;
mod invitations;
mod jobs;
mod leaks;
mod mail;
mod mcp;
mod mcp_groups;
mod mcp_hostile;
mod mcp_records;
mod mcp_writes;
mod numbers;
mod oauth2;
mod openapi;
mod operations;
mod patches;
mod presets;
mod profile;
mod profile_mailed;
mod providers;
mod read_only;
mod safe_methods;
mod search;
mod shutdown;
mod siblings;
mod stream_tickets;
mod surfaces;
mod texts;
mod unreadable_rows;
mod unserved;
mod wire;

use std::net::SocketAddr;

use axum::Router;
use gatewright::{App, Config};
use gatewright_base::Secret;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server in dev mode, on a database of its own.
struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
    _folder: TempDir,
}

impl Server {
    async fn start(change: impl FnOnce(&mut Config), routes: Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.server.dev_mode = true;
        config.database.url = Secret::new(format!("sqlite://{}/test.db", folder.path().display()));
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = App::builder(config).routes(routes).build().await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(app.serve(listener, async {
            let _asked = stopped.await;
        }));
        Self { address, stop: Some(stop), running, _folder: folder }
    }

    async fn plain() -> Self {
        Self::start(|_| {}, Router::new()).await
    }

    /// Sends bytes on a connection of their own and reads until the server closes it.
    async fn exchange(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn get(&self, path: &str) -> String {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")).await
    }

    fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }
}
