pub(crate) mod account_events;
pub(crate) mod account_records;
mod admin;
pub(crate) mod audit;
mod authorization_server;
mod banner;
pub(crate) mod branding;
mod browsers;
mod builder;
mod error;
#[cfg(feature = "files")]
pub(crate) mod files;
#[cfg(not(feature = "files"))]
#[path = "no_files.rs"]
pub(crate) mod files;
mod housekeeping;
pub(crate) mod limits;
#[cfg(feature = "mail")]
pub(crate) mod mail;
#[cfg(not(feature = "mail"))]
#[path = "no_mail.rs"]
pub(crate) mod mail;
pub(crate) mod parts;
pub(crate) mod profiles;
#[cfg(feature = "oauth")]
mod providers;
mod reload;
mod router;
pub(crate) mod tasks;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use axum::Router;
use gatewright_auth::Auth;
use gatewright_db::Db;
use gatewright_entities::Entities;
use gatewright_entities::operations::{Error as OperationError, Transaction};
use gatewright_events::fanout::FanoutStatus;
use gatewright_events::outbox::{Outbox, Pulls};
use gatewright_events::{Bus, Streams};

use banner::Banner;
pub use builder::AppBuilder;
pub use error::BuildError;
use mail::MailService;
pub use reload::{ReloadError, Reloaded, Reloader};
use tasks::Tasks;

use crate::Config;
use crate::serve::{Listeners, Server};

/// How long requests may take to finish once the server no longer listens.
const GRACE: Duration = Duration::from_secs(10);

/// A running backend: its tables exist, its tasks run, its routes can be served.
pub struct App {
    banner: Banner,
    db: Db,
    auth: Option<Auth>,
    entities: Entities,
    bus: Bus,
    streams: Streams,
    outbox: Option<Outbox>,
    pulls: Option<Pulls>,
    fanout: Option<FanoutStatus>,
    tasks: Tasks,
    mail: MailService,
    reloader: Reloader,
    server: Server,
}

impl App {
    /// Starts from a configuration.
    pub fn builder(config: Config) -> AppBuilder {
        AppBuilder::new(config)
    }

    /// All routes, with their layers. Serve it with `ConnectInfo<SocketAddr>` in the requests' extensions
    /// (`into_make_service_with_connect_info`). Otherwise the limiters count all clients as one.
    pub fn router(&self) -> Router {
        self.server.router.clone()
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Authentication, if it is enabled.
    pub fn auth(&self) -> Option<&Auth> {
        self.auth.as_ref()
    }

    /// The entities.
    pub fn entities(&self) -> &Entities {
        &self.entities
    }

    /// Runs a program's own writes and entity writes in one transaction; events are published after its commit. See
    /// [`Entities::transaction`].
    pub async fn transaction<T, F>(&self, work: F) -> Result<T, OperationError>
    where
        F: AsyncFn(&Transaction<'_>) -> Result<T, OperationError> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.entities.transaction(work).await
    }

    /// The bus of committed writes, for the program's own handlers.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The event streams.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The outbox, if it is enabled, for staging the program's own events. Deliveries continue while the `App` or a
    /// clone of its router exists.
    pub fn outbox(&self) -> Option<&Outbox> {
        self.outbox.as_ref()
    }

    /// The state of the connection to the other replicas, if there is one. The connection lasts while the `App` or a
    /// clone of its router exists.
    pub fn fanout(&self) -> Option<&FanoutStatus> {
        self.fanout.as_ref()
    }

    /// Changes settings while the application runs.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// The lines that the server prints at start: `listening on http://ADDR`, URLs to open, and a command to paste.
    pub fn banner(&self) -> Vec<String> {
        self.banner.lines()
    }

    /// Serves HTTP/1.1, and HTTP/2 over TLS, until `shutdown` resolves. Then it drains for [`Config::drain`], lets requests finish, ends
    /// event streams and waiting pulls, sends the remaining events to the other replicas, finishes deliveries that have
    /// begun, sends the remaining mails, closes the database, and returns.
    ///
    /// `listeners` is one socket for plain HTTP, or all those that [`Listeners::bind`] has opened.
    pub async fn serve(self, listeners: impl Into<Listeners>, shutdown: impl Future<Output = ()>) {
        let Self { server, streams, pulls, tasks, mail, auth, db, .. } = self;
        let closing = || {
            streams.shutdown();
            pulls.iter().for_each(Pulls::close);
        };
        server.run(listeners.into(), shutdown, closing).await;
        tasks.stop(GRACE).await;
        if let Some(auth) = &auth {
            auth.settle(GRACE).await;
        }
        mail.close(GRACE).await;
        db.close().await;
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("db", &self.db).field("streams", &self.streams).finish_non_exhaustive()
    }
}
