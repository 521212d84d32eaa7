//! Notifications of Postgres: every replica listens on its own connection.
//!
//! A notification has less than 8,000 bytes. A larger message is put into the table `event_fanout`, and the
//! notification contains its key. Rows are removed after a few minutes, when every replica has read them.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use gatewright_base::{Ambient, Secret};
use gatewright_db::{Db, Engine, Listener, Options, Sql, Step, dialect, migrate, params, schema};

use super::{ChannelError, Fanout, FanoutError, Received, Receiver, take_channel};

/// The longest payload of a notification, in bytes.
const LONGEST: usize = 7_999;
/// The prefix of a notification that contains the key of a large message.
const LARGE: &str = "large ";
/// The longest name of a large message that is looked for.
const LONGEST_NAME: usize = 64;
/// How long a large message is kept, in microseconds of the database's clock.
const KEPT_FOR: i64 = 300_000_000;
/// Large messages removed in one transaction.
const SWEPT: i64 = 100;

/// Fan-out over the notifications of a Postgres database.
#[derive(Debug)]
pub struct PostgresFanout {
    db: Db,
    channel: String,
    /// Begins the names of this process's large messages.
    process: String,
    count: AtomicU64,
    insert: Sql,
    sweep: Sql,
}

impl PostgresFanout {
    /// The component's name and the steps that make its table, for the program's schema plan.
    pub const SCHEMA: (&'static str, &'static [Step]) = ("fanout", STEPS);

    /// Over the database `db`, which must be Postgres. The table must exist: see [`PostgresFanout::prepare`].
    pub fn new(db: Db, ambient: &Ambient) -> Result<Self, ChannelError> {
        if db.engine() != Engine::Postgres {
            return Err(ChannelError::NotPostgres);
        }
        let now = dialect::now_micros(db.engine());
        let insert = format!("INSERT INTO event_fanout (id, message, created_at) VALUES (?1, ?2, {now})");
        let sweep = format!(
            "DELETE FROM event_fanout WHERE id IN (SELECT id FROM event_fanout WHERE created_at < {now} - ?1
             ORDER BY created_at LIMIT ?2 FOR UPDATE SKIP LOCKED)"
        );
        Ok(Self {
            db,
            channel: super::CHANNEL.to_owned(),
            process: ambient.uuid().to_string(),
            count: AtomicU64::new(0),
            insert: insert.into(),
            sweep: sweep.into(),
        })
    }

    /// Over a separate database, which is opened now with a few connections. The parameter `channel` of the URL names
    /// the channel.
    pub async fn open(url: &Secret, ambient: &Ambient) -> Result<Self, ChannelError> {
        let mut url = url::Url::parse(url.expose()).map_err(|error| ChannelError::Url(error.to_string()))?;
        let channel = take_channel(&mut url)?;
        let options = Options { max_connections: 4.try_into().expect("4 is not zero"), ..Options::default() };
        let db = Db::open(url.as_str(), options).await.map_err(|error| ChannelError::Url(error.to_string()))?;
        Ok(Self { channel, ..Self::new(db, ambient)? })
    }

    /// Creates the table of large messages, or only checks whether it exists.
    pub async fn prepare(&self, create: bool) -> Result<(), ChannelError> {
        let (component, steps) = Self::SCHEMA;
        if create {
            migrate(&self.db, component, steps).await?;
        } else if schema::describe(&self.db, "event_fanout").await?.is_none() {
            return Err(ChannelError::NoTable);
        }
        Ok(())
    }

    /// The payload of the notification for a message. A large message is stored in a table.
    async fn payload(&self, text: &str) -> Result<String, FanoutError> {
        if text.len() <= LONGEST {
            return Ok(text.to_owned());
        }
        let name = format!("{}/{}", self.process, self.count.fetch_add(1, Ordering::Relaxed));
        self.db.execute(&self.insert, params![&name, text]).await?;
        Ok(format!("{LARGE}{name}"))
    }
}

#[async_trait]
impl Fanout for PostgresFanout {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn send(&self, messages: &[Bytes]) -> Result<usize, FanoutError> {
        let texts: Vec<&str> = messages.iter().filter_map(|message| storable(message)).collect();
        let payloads = try_join_all(texts.iter().map(|text| self.payload(text))).await?;
        dialect::notify_all(&self.db, &self.channel, &payloads).await?;
        Ok(messages.len() - texts.len())
    }

    async fn listen(&self) -> Result<Box<dyn Receiver>, FanoutError> {
        let listener = self.db.listen(&self.channel).await?;
        let listener = listener.ok_or_else(|| FanoutError::new(ChannelError::NotPostgres))?;
        let (db, own) = (self.db.clone(), format!("{}/", self.process));
        Ok(Box::new(Notifications { listener, db, own, wanted: None }))
    }

    async fn sweep(&self) -> Result<(), FanoutError> {
        while self.db.execute(&self.sweep, params![KEPT_FOR, SWEPT]).await? >= SWEPT.unsigned_abs() {}
        Ok(())
    }
}

/// A message as text that Postgres accepts. A program can publish a record that is not; retrying it forever would block
/// all later messages.
fn storable(message: &Bytes) -> Option<&str> {
    std::str::from_utf8(message).ok().filter(|text| !text.contains('\0'))
}

struct Notifications {
    listener: Listener,
    db: Db,
    /// The prefix of the keys of this process's large messages.
    own: String,
    /// A large message that is being read.
    wanted: Option<String>,
}

#[async_trait]
impl Receiver for Notifications {
    async fn next(&mut self) -> Result<Received, FanoutError> {
        if self.wanted.is_none() {
            let payload = self.listener.next().await?;
            match payload.strip_prefix(LARGE) {
                None => return Ok(Received::Message(payload.into())),
                Some(name) if name.starts_with(&self.own) => return Ok(Received::Own),
                Some(name) if name.len() > LONGEST_NAME => return Ok(Received::Noise),
                Some(name) => self.wanted = Some(name.to_owned()),
            }
        }
        // Bytes: of one record.
        let query = "SELECT message FROM event_fanout WHERE id = ?1";
        let found = self.db.query_opt(query, params![self.wanted.as_deref()]).await?;
        self.wanted = None;
        let Some(row) = found else { return Ok(Received::Noise) };
        Ok(Received::Message(row.get::<String>("message")?.into()))
    }
}

/// Its contents may be lost, so Postgres need not write them twice. On other engines it is not created.
const STEPS: &[Step] = &[Step {
    version: 1,
    name: "large fan-out messages",
    sql: "CREATE UNLOGGED TABLE event_fanout (
              id {text} PRIMARY KEY,
              message {text} NOT NULL,
              created_at {int} NOT NULL
          );
          CREATE INDEX event_fanout_created_at ON event_fanout (created_at)",
}];
