use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, Credential, Identity, Principal, Roles, ServiceId, SessionId, Subject, UserId};
use gatewright_events::sse::{EventBody, Params, Refused, Subscribe};
use gatewright_events::{Bus, EntityEvent, EventKind, StreamOptions, Streams};
use http_body_util::BodyExt;

pub(crate) const OPENING: &str = ": connected\nretry: 3000\n\n";
pub(crate) const HEARTBEAT: &str = ": heartbeat\n\n";

pub(crate) fn bus() -> Bus {
    let (ambient, _) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 1);
    Bus::new(&ambient)
}

pub(crate) fn streams(options: StreamOptions) -> (Bus, Streams) {
    let bus = bus();
    let streams = Streams::start(&bus, options);
    (bus, streams)
}

/// A created record of `posts` with this number.
pub(crate) fn event(n: u64) -> EntityEvent {
    EntityEvent::new(EventKind::Created, "posts", "posts", format!(r#"{{"n":{n}}}"#))
}

/// The frame of [`event`].
pub(crate) fn frame(n: u64) -> String {
    format!(
        "event: entity.created\ndata: {{\"type\":\"entity.created\",\"data\":{{\"entity\":\"posts\",\"table\":\"posts\",\
         \"record\":{{\"n\":{n}}}}}}}\n\n"
    )
}

pub(crate) fn frames(range: std::ops::Range<u64>) -> String {
    range.map(frame).collect::<Vec<_>>().concat()
}

pub(crate) fn publish(bus: &Bus, range: std::ops::Range<u64>) {
    assert!(bus.publish_all(range.map(event).collect()).is_none());
}

pub(crate) fn user(id: &str) -> Identity {
    known(Subject::User(UserId::parse(id).unwrap()), &format!("session-of-{id}"))
}

pub(crate) fn service(id: &str) -> Identity {
    known(Subject::Service(ServiceId::parse(id).unwrap()), "none")
}

fn known(subject: Subject, session: &str) -> Identity {
    Identity::Known(Arc::new(Principal {
        subject,
        email: None,
        roles: Roles::default(),
        credential: Credential::Session {
            id: SessionId::parse(session).unwrap(),
            two_factor_verified: false,
            impersonated_by: None,
        },
    }))
}

/// A request for everything in `posts`.
pub(crate) fn everything(caller: Identity) -> Subscribe {
    Subscribe::new("posts", caller, Params::default(), |_| true)
}

pub(crate) fn named(table: &str, caller: Identity, subscriber_id: &str) -> Subscribe {
    let params = Params { block: false, subscriber_id: Some(subscriber_id.to_owned()), since: None };
    Subscribe::new(table.to_owned(), caller, params, |_| true)
}

pub(crate) fn blocking(table: &str) -> Subscribe {
    Subscribe::new(
        table.to_owned(),
        Identity::Anonymous,
        Params { block: true, subscriber_id: None, since: None },
        |_| true,
    )
}

/// Lets everything that can run do so. Only with paused time, which moves by a millisecond when all is idle.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A client's end of a stream.
#[derive(Debug)]
pub(crate) struct Reader(EventBody);

impl Reader {
    /// Opens a stream and reads its opening.
    pub(crate) async fn open(streams: &Streams, request: Subscribe) -> Result<Self, Refused> {
        let mut reader = Self(streams.subscribe(request)?);
        assert_eq!(reader.chunk().await.as_deref(), Some(OPENING));
        Ok(reader)
    }

    /// Opens a stream of everything in `posts`, for an anonymous caller.
    pub(crate) async fn everything(streams: &Streams) -> Self {
        Self::open(streams, everything(Identity::Anonymous)).await.unwrap()
    }

    /// What the next write to the connection would be; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        let data = self.0.frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }

    /// Everything there is until nothing comes for a millisecond.
    pub(crate) async fn available(&mut self) -> String {
        let mut all = String::new();
        while let Ok(Some(chunk)) = tokio::time::timeout(Duration::from_millis(1), self.chunk()).await {
            all.push_str(&chunk);
        }
        all
    }

    /// Everything up to the end, which must come.
    pub(crate) async fn rest(&mut self) -> String {
        let mut all = String::new();
        let reading = async {
            while let Some(chunk) = self.chunk().await {
                all.push_str(&chunk);
            }
        };
        tokio::time::timeout(Duration::from_hours(2), reading).await.expect("the stream ends");
        all
    }
}
