//! Fan-out over real servers, which are killed, get invalid messages and hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gatewright_base::{Ambient, Secret};
use gatewright_db::testing::REQUIRED;
use gatewright_db::{Db, Options, dialect, params};
use gatewright_events::bus::{Bound, Interest};
use gatewright_events::fanout::{
    Attached, Fanout, FanoutCounts, FanoutError, FanoutOptions, NatsFanout, PostgresFanout, Received, Receiver,
    RedisFanout, attach,
};
use gatewright_events::outbox::Backoff;
use gatewright_events::{Bus, EntityEvent, EventKind};
use gatewright_servers::{Error, PrivateNats, PrivatePostgres, PrivateRedis};
use tokio::sync::mpsc;

use crate::support::event;

/// A server that tests may kill.
enum Server {
    Postgres(PrivatePostgres),
    Redis(PrivateRedis),
    Nats(PrivateNats),
}

impl Server {
    /// Every kind whose program is installed, or must be.
    fn all() -> Vec<Self> {
        let postgres = installed(PrivatePostgres::start()).map(Self::Postgres);
        let redis = installed(PrivateRedis::start()).map(Self::Redis);
        let nats = installed(PrivateNats::start()).map(Self::Nats);
        [postgres, redis, nats].into_iter().flatten().collect()
    }

    async fn backend(&self) -> Arc<dyn Fanout> {
        match self {
            Self::Postgres(server) => {
                let backend = PostgresFanout::open(&Secret::new(server.url()), &Ambient::system()).await.unwrap();
                backend.prepare(true).await.unwrap();
                Arc::new(backend)
            }
            Self::Redis(server) => Arc::new(RedisFanout::open(&Secret::new(server.url())).unwrap()),
            Self::Nats(server) => Arc::new(NatsFanout::open(&Secret::new(server.url())).unwrap()),
        }
    }

    fn kill(&mut self) {
        match self {
            Self::Postgres(server) => server.kill(),
            Self::Redis(server) => server.kill(),
            Self::Nats(server) => server.kill(),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::Postgres(server) => server.restart(),
            Self::Redis(server) => server.restart(),
            Self::Nats(server) => server.restart(),
        }
        .unwrap();
    }
}

fn installed<T>(server: Result<T, Error>) -> Option<T> {
    assert!(server.is_ok() || std::env::var(REQUIRED).is_err(), "{:?}", server.err());
    server.ok()
}

/// A replica: a bus, its connection to the others, and the events that it received.
struct Replica {
    bus: Bus,
    attached: Attached,
    remote: mpsc::UnboundedReceiver<Arc<EntityEvent>>,
}

/// Finds a backend that came back soon, and gives one up only when its connection ends: a machine that is busy with other
/// tests is no outage.
pub(crate) fn quick() -> FanoutOptions {
    let backoff = Backoff { first: Duration::from_millis(10), cap: Duration::from_millis(200) };
    let timeout = Duration::from_secs(30);
    FanoutOptions { backoff, timeout, probe: timeout, ..FanoutOptions::default() }
}

impl Replica {
    async fn of(server: &Server) -> Self {
        Self::with(server, quick()).await
    }

    async fn with(server: &Server, options: FanoutOptions) -> Self {
        let bus = Bus::new(&Ambient::system());
        let (sender, remote) = mpsc::unbounded_channel();
        bus.on(Interest::all(), move |event: Arc<EntityEvent>| {
            if event.is_remote() {
                sender.send(event).unwrap();
            }
            async {}
        });
        let attached = attach(&bus, server.backend().await, Ambient::system(), options);
        let replica = Self { bus, attached, remote };
        replica.is_up(true).await;
        replica
    }

    async fn is_up(&self, up: bool) {
        until(|| self.attached.status().is_up() == up).await;
    }

    fn counts(&self) -> FanoutCounts {
        self.attached.status().counts()
    }

    fn write(&self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            assert!(self.bus.publish(event(number)).is_none());
        }
    }

    /// The next event of another replica.
    async fn next_event(&mut self) -> Arc<EntityEvent> {
        tokio::time::timeout(Duration::from_mins(1), self.remote.recv()).await.expect("an event comes").unwrap()
    }

    /// The numbers of the next events.
    async fn numbers(&mut self, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            numbers.push(number(&*self.next_event().await));
        }
        numbers
    }
}

fn number(event: &EntityEvent) -> u64 {
    serde_json::from_slice::<serde_json::Value>(event.record()).unwrap()["n"].as_u64().unwrap()
}

pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.expect("it comes to hold");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_writes_of_one_replica_reach_the_others_once_and_in_order() {
    for server in Server::all() {
        let [mut a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
        a.write(0..500);
        b.write(500..600);
        assert_eq!(b.numbers(500).await, (0..500).collect::<Vec<_>>());
        assert_eq!(a.numbers(100).await, (500..600).collect::<Vec<_>>());

        // A received event is not forwarded: neither to its sender nor to others.
        b.write(600..601);
        assert_eq!(a.numbers(1).await, [600]);
        until(|| a.counts().sent == 500 && b.counts().sent == 101).await;
        assert!(a.remote.try_recv().is_err() && b.remote.try_recv().is_err());
        // An event is counted after it is sent.
        until(|| a.counts().received == 101).await;
        let expected = FanoutCounts { sent: 500, received: 101, ..FanoutCounts::default() };
        assert_eq!(a.counts(), expected, "{:?}", a.attached);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_any_size_arrives_complete_with_owner_and_tenant() {
    for server in Server::all() {
        let [a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
        // A notification of Postgres holds 7,999 bytes, and a message of NATS one mebibyte.
        for length in [1, 7_000, 7_700, 7_800, 7_900, 8_000, 8_100, 100_000, 1_000_000] {
            let record = format!(r#"{{"n":{length},"text":"{}\u0000\\ \"ö\""}}"#, "x".repeat(length));
            let event = EntityEvent::new(EventKind::Deleted, "posts", "blog", record.clone());
            assert!(a.bus.publish(event.with_owner("ada").with_tenant("acme")).is_none());
            let next_event = b.next_event().await;
            assert_eq!(next_event.record(), &record.into_bytes(), "{length}");
            assert_eq!((next_event.owner(), next_event.tenant_id()), (Some("ada"), Some("acme")));
            assert_eq!(
                (next_event.kind(), next_event.entity(), next_event.table()),
                (EventKind::Deleted, "posts", "blog")
            );
        }
        assert_eq!(b.counts().malformed, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_above_the_nats_limit_stays_local_and_delays_nothing() {
    let Some(server) = installed(PrivateNats::start()).map(Server::Nats) else { return };
    let [a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
    a.write(0..1);
    assert_eq!(b.numbers(1).await, [0]);
    let huge = format!(r#"{{"n":1,"text":"{}"}}"#, "x".repeat(2 << 20));
    assert!(a.bus.publish(EntityEvent::new(EventKind::Created, "posts", "posts", huge)).is_none());
    a.write(2..3);
    assert_eq!(b.numbers(1).await, [2]);
    until(|| a.counts().lost == 1).await;
    until(|| b.counts().missed == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_not_text_delays_nothing() {
    for server in Server::all() {
        let [a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
        for bytes in [&b"{\"n\":\"\xff\"}"[..], b"{\"n\":\"\0\"}"] {
            assert!(a.bus.publish(EntityEvent::new(EventKind::Created, "posts", "posts", bytes)).is_none());
        }
        a.write(2..3);
        assert_eq!(b.numbers(1).await, [2]);
        // It is detected before it is sent, or when it arrives.
        until(|| a.counts().lost + b.counts().malformed == 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_after_a_subscription_is_received() {
    for server in Server::all() {
        let (speaker, listener) = (server.backend().await, server.backend().await);
        // Its connection is there, so that the message may overtake whatever is not awaited.
        speaker.send(&[Bytes::from_static(b"before")]).await.unwrap();
        for number in 0..50 {
            let message = Bytes::from(number.to_string());
            let mut receiver = listener.listen().await.unwrap();
            speaker.send(std::slice::from_ref(&message)).await.unwrap();
            let heard = tokio::time::timeout(Duration::from_mins(1), receiver.next()).await;
            assert_eq!(heard.expect("it is heard").unwrap(), Received::Message(message));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_channel_is_reopened() {
    let bus = Bus::new(&Ambient::system());
    let listened = Arc::new(AtomicU64::new(0));
    let options = FanoutOptions { probe: Duration::from_millis(20), ..quick() };
    let attached = attach(&bus, Arc::new(Silent(listened.clone())), Ambient::system(), options);
    until(|| listened.load(Ordering::Relaxed) > 3 && attached.status().counts().outages > 2).await;
}

/// Accepts everything and does not answer, like a firewall that has dropped the connection.
pub(crate) struct Silent(pub(crate) Arc<AtomicU64>);

#[async_trait]
impl Fanout for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    async fn send(&self, _messages: &[Bytes]) -> Result<usize, FanoutError> {
        Ok(0)
    }

    async fn listen(&self) -> Result<Box<dyn Receiver>, FanoutError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Self(self.0.clone())))
    }
}

#[async_trait]
impl Receiver for Silent {
    async fn next(&mut self) -> Result<Received, FanoutError> {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_backend_is_reconnected_and_queued_events_are_sent() {
    for mut server in Server::all() {
        let [a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
        a.write(0..1);
        assert_eq!(b.numbers(1).await, [0]);
        server.kill();
        a.write(1..50);
        a.is_up(false).await;
        b.is_up(false).await;
        tokio::task::block_in_place(|| server.restart());
        a.is_up(true).await;
        b.is_up(true).await;
        // Queued events are sent; the first of them may have been sent before b listened again.
        a.write(50..100);
        let mut seen = 0;
        while seen < 99 {
            let [number] = b.numbers(1).await[..] else { unreachable!("one was asked for") };
            assert!(number > seen, "once, and in order: {number} after {seen}");
            seen = number;
        }
        assert!(a.counts().outages > 0 && b.counts().outages > 0);
        assert_eq!(a.counts().lost, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listening_session_that_an_operator_ends_is_reopened() {
    let Some(server) = installed(PrivatePostgres::start()).map(Server::Postgres) else { return };
    let Server::Postgres(postgres) = &server else { unreachable!("it was just made") };
    let [a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
    let db = Db::open(&postgres.url(), Options::default()).await.unwrap();
    for round in 0..3 {
        let end = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
        // One that was ended before may not be gone yet.
        assert!(db.query(end, params![]).await.unwrap().len() >= 2);
        until(|| a.counts().outages > round && b.counts().outages > round).await;
        a.is_up(true).await;
        b.is_up(true).await;
        a.write(round..round + 1);
        assert_eq!(b.numbers(1).await, [round]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_during_an_outage_and_lost_events_are_counted() {
    for mut server in Server::all() {
        let bound = Bound { events: 10, ..Bound::default() };
        let a = Replica::with(&server, FanoutOptions { bound, ..quick() }).await;
        server.kill();
        a.write(0..1);
        a.is_up(false).await;
        a.write(1..1_000);
        let lost = a.counts().lost;
        assert!((730..=990).contains(&lost), "{lost} lost: ten wait, and at most one batch is on its way");
        tokio::task::block_in_place(|| server.restart());
        until(|| a.counts().sent + a.counts().lost == 1_000).await;
        assert!(a.counts().sent >= 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_messages_are_counted_and_dropped_and_a_forgery_silences_no_replica() {
    for server in Server::all() {
        let [a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
        a.write(0..1);
        let first = b.next_event().await;
        assert_eq!(number(&first), 0);
        let outsider = server.backend().await;
        let message = |text: &str| Bytes::from(text.to_owned());
        let mut nonsense = vec![
            message(""),
            message("hello"),
            message("{}"),
            message("null"),
            message(&"[".repeat(5_000)),
            message(r#"{"v":1,"origin":"x","number":1,"type":"entity.created","entity":"e","table":"t","record":7}"#),
            message(r#"{"v":9,"origin":"x","number":1,"type":"entity.created","entity":"e","table":"t","record":{}}"#),
            message(&"x".repeat(100_000)),
        ];
        if let Server::Postgres(server) = &server {
            let db = Db::open(&server.url(), Options::default()).await.unwrap();
            for payload in ["large", "large ", "large nobody/7", &format!("large {}", "x".repeat(5_000))] {
                dialect::notify(&db, "gatewright_events", payload).await.unwrap();
            }
        } else {
            nonsense.push(Bytes::from_static(b"\xff\xfe\0"));
        }
        outsider.send(&nonsense).await.unwrap();
        let more = if matches!(server, Server::Postgres(_)) { 4 } else { 1 };
        until(|| b.counts().malformed == 8 + more).await;

        // A forged message with a's name, which every listener can read, and with a number that a never reaches.
        let mut receiver = outsider.listen().await.unwrap();
        a.write(1..2);
        let origin = loop {
            let Received::Message(heard) = receiver.next().await.unwrap() else { continue };
            let Ok(heard) = serde_json::from_slice::<serde_json::Value>(&heard) else { continue };
            break heard["origin"].as_str().unwrap().to_owned();
        };
        assert_eq!(b.numbers(1).await, [1]);
        let forged = message(&format!(
            r#"{{"v":1,"origin":"{origin}","number":18446744073709551615,"type":"entity.created","entity":"posts",
                "table":"posts","record":{{"n":7}}}}"#,
        ));
        // Within one transaction Postgres would itself leave the second out.
        for _ in 0..2 {
            outsider.send(std::slice::from_ref(&forged)).await.unwrap();
        }
        assert_eq!(b.numbers(1).await, [7], "the transport is trusted");
        // The second was left out, and does not disturb messages of another connection.
        until(|| b.counts().repeated == 1).await;
        a.write(8..20);
        assert_eq!(b.numbers(12).await, (8..20).collect::<Vec<_>>());
        let counts = b.counts();
        assert_eq!((counts.repeated, counts.outages), (1, 0), "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_published_before_an_orderly_stop_are_sent() {
    for server in Server::all() {
        let [a, mut b] = [Replica::of(&server).await, Replica::of(&server).await];
        a.write(0..1_000);
        a.attached.stop(Duration::from_mins(1)).await;
        a.bus.publish(event(1_000)).wait().await;
        assert_eq!(b.numbers(1_000).await, (0..1_000).collect::<Vec<_>>());
        b.write(1_001..1_002);
        until(|| b.counts().sent == 1).await;
        assert!(b.remote.try_recv().is_err(), "and nothing after it");
    }
}

#[tokio::test]
async fn applications_with_their_own_channels_do_not_receive_each_others_events() {
    let servers =
        [installed(PrivateRedis::start()).map(Server::Redis), installed(PrivateNats::start()).map(Server::Nats)];
    for server in servers.into_iter().flatten() {
        let (own, other): (Arc<dyn Fanout>, Arc<dyn Fanout>) = match &server {
            Server::Redis(server) => {
                let open = |url: String| Arc::new(RedisFanout::open(&Secret::new(url)).unwrap());
                (open(server.url()), open(server.url().replace("/0", "/1")))
            }
            Server::Nats(server) => {
                let open = |url: String| Arc::new(NatsFanout::open(&Secret::new(url)).unwrap());
                (open(server.url()), open(format!("{}?channel=shop", server.url())))
            }
            Server::Postgres(_) => unreachable!("databases are apart"),
        };
        let mut receiver = own.listen().await.unwrap();
        other.send(&[Bytes::from_static(b"for others")]).await.unwrap();
        own.send(&[Bytes::from_static(b"for us")]).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_mins(1), receiver.next()).await.unwrap().unwrap();
        assert_eq!(heard, Received::Message(Bytes::from_static(b"for us")));
    }
}

#[tokio::test]
async fn large_messages_are_removed_once_they_are_no_longer_needed() {
    for engine in gatewright_db::testing::engines().await {
        let Ok(backend) = PostgresFanout::new(engine.db.clone(), &Ambient::system()) else { continue };
        assert!(backend.prepare(false).await.is_err(), "the table is missing");
        backend.prepare(true).await.unwrap();
        backend.prepare(false).await.unwrap();
        backend.send(&[Bytes::from("x".repeat(10_000)), Bytes::from("y".repeat(20_000))]).await.unwrap();
        let rows = async || engine.db.query("SELECT id FROM event_fanout", params![]).await.unwrap().len();
        backend.sweep().await.unwrap();
        assert_eq!(rows().await, 2, "somebody may still be about to read them");
        let age = "UPDATE event_fanout SET created_at = created_at - 301000000 WHERE length(message) = 10000";
        engine.db.execute(age, params![]).await.unwrap();
        backend.sweep().await.unwrap();
        assert_eq!(rows().await, 1);
    }
}

#[test]
fn the_display_of_a_backend_contains_no_credentials() {
    let url = |scheme: &str| Secret::new(format!("{scheme}://canary-user:canary@host.example:1234/0"));
    let shown = [
        format!("{:?}", RedisFanout::open(&url("redis")).unwrap()),
        format!("{:?}", NatsFanout::open(&Secret::new("nats://canary-user:canary@host.example:1234")).unwrap()),
    ];
    for shown in shown {
        assert!(shown.contains("host.example:1234") && !shown.contains("canary"), "{shown}");
    }
    for bad in ["http", "nope"] {
        let errors = [
            format!("{:?}", RedisFanout::open(&url(bad)).unwrap_err()),
            format!("{:?}", NatsFanout::open(&url(bad)).unwrap_err()),
        ];
        assert!(errors.iter().all(|error| !error.contains("canary")), "{errors:?}");
    }
}

#[tokio::test]
async fn a_refused_password_is_an_error_that_does_not_repeat_it() {
    if let Some(server) = installed(PrivateRedis::start()) {
        let url = server.url().replace("redis://:", "redis://:canary");
        let backend = RedisFanout::open(&Secret::new(url)).unwrap();
        let error = backend.send(&[Bytes::from_static(b"x")]).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
    if let Some(server) = installed(PrivateNats::start()) {
        let url = server.url().replace("gatewright:", "gatewright:canary");
        let backend = NatsFanout::open(&Secret::new(url)).unwrap();
        let error = backend.send(&[Bytes::from_static(b"x")]).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}
