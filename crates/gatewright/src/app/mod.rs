mod audit;
mod banner;
mod browsers;
mod builder;
mod error;
mod limits;
pub(crate) mod mail;
pub(crate) mod parts;
mod providers;
mod router;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use axum::Router;
use gatewright_auth::Auth;
use gatewright_db::Db;
use gatewright_entities::Entities;
use gatewright_entities::operations::{Error as OperationError, Transaction};
use gatewright_events::fanout::{Attached, FanoutStatus};
use gatewright_events::outbox::{Outbox, Relay};
use gatewright_events::{Bus, Streams};
use tokio::net::TcpListener;

use banner::Banner;
pub use builder::AppBuilder;
pub use error::BuildError;
use limits::Sweeper;
use mail::PostOffice;

use crate::{Config, serve};

/// How long requests may finish after a stop was asked for.
const DRAIN: Duration = Duration::from_secs(10);

/// A running backend: its tables are there, its tasks run, its routes can be served.
pub struct App {
    router: Router,
    banner: Banner,
    db: Db,
    auth: Option<Auth>,
    entities: Entities,
    bus: Bus,
    streams: Streams,
    outbox: Option<Outbox>,
    relay: Option<Relay>,
    fanout: Option<Attached>,
    /// Runs for as long as this lives.
    _sweeper: Option<Sweeper>,
    mail: PostOffice,
    most_connections: usize,
}

impl App {
    /// Starts from a configuration.
    pub fn builder(config: Config) -> AppBuilder {
        AppBuilder::new(config)
    }

    /// Everything there is to route, layers included. Serve it with `ConnectInfo<SocketAddr>` in the requests'
    /// extensions (`into_make_service_with_connect_info`), or all clients count as one for the limiters.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Authentication, where it is switched on.
    pub fn auth(&self) -> Option<&Auth> {
        self.auth.as_ref()
    }

    /// The entities.
    pub fn entities(&self) -> &Entities {
        &self.entities
    }

    /// Runs a program's own writes beside entity writes, in one transaction; events go out after its commit. See
    /// [`Entities::transaction`].
    pub async fn transaction<T, F>(&self, work: F) -> Result<T, OperationError>
    where
        F: AsyncFn(&Transaction<'_>) -> Result<T, OperationError> + Send + 'static,
        T: Send + 'static,
    {
        self.entities.transaction(work).await
    }

    /// Where committed writes are told, for handlers of the program's own.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The event streams.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The outbox, where it is switched on, for staging events of the program's own. Deliveries are made for as long as
    /// the `App` lives: keep it, also where only its router is served.
    pub fn outbox(&self) -> Option<&Outbox> {
        self.outbox.as_ref()
    }

    /// How the tie to the other replicas fares, where there is one. It lasts for as long as the `App` lives: keep it, also
    /// where only its router is served.
    pub fn fanout(&self) -> Option<&FanoutStatus> {
        self.fanout.as_ref().map(Attached::status)
    }

    /// What to tell whoever starts the server: `listening on http://ADDR`, addresses to look at, and a command to paste.
    pub fn banner(&self) -> Vec<String> {
        self.banner.lines()
    }

    /// Serves HTTP/1.1 until `shutdown` resolves, then lets requests finish, ends the event streams, tells the
    /// other replicas what is left, finishes the deliveries that have begun, sends the mails that are left, and returns.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let Self { router, streams, relay, fanout, mail, auth, most_connections, _sweeper, .. } = self;
        serve::serve(listener, router, most_connections, shutdown, || streams.shutdown(), DRAIN).await;
        if let Some(fanout) = fanout {
            fanout.stop(DRAIN).await;
        }
        if let Some(relay) = relay {
            relay.stop(DRAIN).await;
        }
        mail.close(auth.as_ref(), DRAIN).await;
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("db", &self.db).field("streams", &self.streams).finish_non_exhaustive()
    }
}
