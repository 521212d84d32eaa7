//! A world per engine: entities on a fresh database, a bus with a receiver, and callers by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use gatewright_base::{
    Ambient, Credential, Grants, Identity, ManualClock, Principal, RolePermissions, Scope, Subject, TenantId,
    TenantLimit, UserId,
};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, column_types, params};
use gatewright_entities::answers::{AnswerOptions, KeptAnswers};
use gatewright_entities::tenancy::{self, SqlMemberships};
use gatewright_entities::{Builder, Entities, Entity};
use gatewright_events::bus::Interest;
use gatewright_events::log::Following;
use gatewright_events::{Bus, EntityEvent, EventLog, LogOptions, StreamOptions, Streams};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tower::ServiceExt;

pub(crate) struct World {
    pub(crate) entities: Entities,
    pub(crate) router: Router,
    pub(crate) bus: Bus,
    pub(crate) events: mpsc::UnboundedReceiver<Arc<EntityEvent>>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) test_db: TestDb,
}

/// A world on every engine.
pub(crate) async fn worlds(entities: impl IntoIterator<Item = Entity>) -> Vec<World> {
    Box::pin(worlds_with(entities, |builder| builder)).await
}

/// A world on every engine, its builder adjusted.
pub(crate) async fn worlds_with(
    entities: impl IntoIterator<Item = Entity>,
    adjust: impl Fn(Builder) -> Builder,
) -> Vec<World> {
    Box::pin(made(entities, adjust, None)).await
}

/// A world on every engine that keeps the answers to requests with keys.
pub(crate) async fn keeping_worlds(
    entities: impl IntoIterator<Item = Entity>,
    adjust: impl Fn(Builder) -> Builder,
    options: AnswerOptions,
) -> Vec<World> {
    Box::pin(made(entities, adjust, Some(options))).await
}

async fn made(
    entities: impl IntoIterator<Item = Entity>,
    adjust: impl Fn(Builder) -> Builder,
    answers: Option<AnswerOptions>,
) -> Vec<World> {
    let entities: Vec<Entity> = entities.into_iter().collect();
    let mut worlds = Vec::new();
    for test_db in engines().await {
        make_users(&test_db.db).await;
        let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05.000006Z".parse().unwrap(), 7);
        let bus = Bus::new(&ambient);
        let events = event_receiver(&bus);
        gatewright_db::migrate(&test_db.db, tenancy::COMPONENT, tenancy::STEPS).await.unwrap();
        let memberships = Arc::new(SqlMemberships::new(test_db.db.clone(), ambient.clone()));
        let answering = ambient.clone();
        let builder = Entities::builder(test_db.db.clone(), ambient)
            .memberships(memberships)
            .bus(bus.clone())
            .streams(Streams::start(&bus, streams()))
            .roles(roles())
            .scope_guard(true)
            .declare_all(entities.clone());
        let builder = match &answers {
            Some(options) => {
                let (db, options) = (test_db.db.clone(), options.clone());
                builder.answers(KeptAnswers::open(db, answering, options).await.unwrap())
            }
            None => builder,
        };
        let entities = adjust(builder).build().await.unwrap_or_else(|error| panic!("{}: {error}", test_db.name));
        worlds.push(World { router: entities.router(), entities, bus, events, clock, test_db });
    }
    worlds
}

/// An event log that looks for other servers' rows often.
pub(crate) async fn open_log(db: &Db) -> EventLog {
    let options = LogOptions { poll_interval: Duration::from_millis(20), ..LogOptions::default() };
    EventLog::open(db.clone(), Ambient::system(), options).await.unwrap()
}

/// A world with an event log, which is followed until the second value is dropped.
pub(crate) async fn logged(test_db: TestDb, entities: impl IntoIterator<Item = Entity>) -> (World, Following) {
    make_users(&test_db.db).await;
    let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05.000006Z".parse().unwrap(), 7);
    let bus = Bus::new(&ambient);
    let events = event_receiver(&bus);
    let log = open_log(&test_db.db).await;
    let following = log.follow(&bus);
    let streams = Streams::start(&bus, StreamOptions { log: Some(log.clone()), ..StreamOptions::default() });
    gatewright_db::migrate(&test_db.db, tenancy::COMPONENT, tenancy::STEPS).await.unwrap();
    let memberships = Arc::new(SqlMemberships::new(test_db.db.clone(), ambient.clone()));
    let builder = Entities::builder(test_db.db.clone(), ambient).memberships(memberships).bus(bus.clone());
    let entities = builder.streams(streams).log(log).declare_all(entities).build().await.unwrap();
    (World { router: entities.router(), entities, bus, events, clock, test_db }, following)
}

/// Receives every event of a bus.
pub(crate) fn event_receiver(bus: &Bus) -> mpsc::UnboundedReceiver<Arc<EntityEvent>> {
    let (sender, events) = mpsc::unbounded_channel();
    bus.on(Interest::all(), move |event| {
        let sent = sender.send(event);
        async move { drop(sent) }
    });
    events
}

/// Heartbeats are as short as they may be, so that tests see re-checks soon.
fn streams() -> StreamOptions {
    StreamOptions { heartbeat: Duration::from_millis(100), ..StreamOptions::default() }
}

pub(crate) async fn make_users(db: &Db) {
    let table = column_types("CREATE TABLE users (id {text} PRIMARY KEY)", db.engine());
    db.execute(table, vec![]).await.unwrap();
    for user in ["ann", "ben"] {
        db.execute("INSERT INTO users (id) VALUES (?1)", params![user]).await.unwrap();
    }
}

fn roles() -> RolePermissions {
    RolePermissions::new(BTreeMap::from([
        ("editor".to_owned(), Grants::parse(["posts:read", "posts:write"]).unwrap()),
        ("writer".to_owned(), Grants::parse(["posts:write"]).unwrap()),
        ("reader".to_owned(), Grants::parse(["posts:read"]).unwrap()),
        ("auditor".to_owned(), Grants::parse(["posts:audit"]).unwrap()),
    ]))
}

pub(crate) fn anonymous() -> Identity {
    Identity::Anonymous
}

pub(crate) fn pending() -> Identity {
    Identity::Pending(UserId::parse("ann").unwrap())
}

pub(crate) fn tenant_id(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

pub(crate) fn user(id: &str) -> Identity {
    user_with(id, &[])
}

pub(crate) fn user_with(id: &str, roles: &[&str]) -> Identity {
    let credential = Credential::Jwt { expires_at: jiff::Timestamp::MAX };
    known(Subject::User(UserId::parse(id).unwrap()), roles, credential)
}

pub(crate) fn service(id: &str, scopes: &[&str]) -> Identity {
    let scopes = scopes.iter().map(|scope| scope.parse::<Scope>().unwrap()).collect();
    let id_of = gatewright_base::TokenId::parse("token").unwrap();
    let credential = Credential::ApiToken { id: id_of, scopes, expires_at: None, tenants: TenantLimit::default() };
    known(Subject::Service(gatewright_base::ServiceId::parse(id).unwrap()), &[], credential)
}

fn known(subject: Subject, roles: &[&str], credential: Credential) -> Identity {
    let roles = roles.iter().copied().collect();
    Identity::Known(Arc::new(Principal { subject, email: None, roles, credential }))
}

/// A text as the value of a query's parameter.
pub(crate) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A query of one parameter, whose name may be anything too.
pub(crate) fn query(name: &str, value: &str) -> String {
    format!("{}={}", encoded(name), encoded(value))
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    request: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The record, or the records, under `data`.
    #[track_caller]
    pub(crate) fn data(&self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.text);
        self.json()["data"].clone()
    }

    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.data()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks for a refusal with these words.
    #[track_caller]
    pub(crate) fn is_refused(&self, status: u16, detail: &str) {
        let found = self.json()["detail"].as_str().map(str::to_owned);
        assert_eq!((self.status.as_u16(), found.as_deref()), (status, Some(detail)), "{}: {}", self.request, self.text);
    }

    /// The codes of a 422 by their fields.
    #[track_caller]
    pub(crate) fn faults(&self) -> BTreeMap<String, String> {
        let json = self.json();
        let errors = json["errors"].as_array().unwrap_or_else(|| panic!("no errors in {}", self.text));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        errors.iter().map(|error| (text(&error["field"]), text(&error["code"]))).collect()
    }
}

/// A request being built.
pub(crate) struct Ask<'a> {
    world: &'a World,
    request: http::request::Builder,
    body: Body,
}

impl World {
    pub(crate) fn name(&self) -> &'static str {
        self.test_db.name
    }

    pub(crate) fn db(&self) -> &Db {
        &self.test_db.db
    }

    pub(crate) fn ask(&self, caller: &Identity, method: Method, path: &str) -> Ask<'_> {
        let request = Request::builder().method(method).uri(path).extension(caller.clone());
        Ask { world: self, request, body: Body::empty() }
    }

    pub(crate) async fn get(&self, caller: &Identity, path: &str) -> Answer {
        self.ask(caller, Method::GET, path).send().await
    }

    pub(crate) async fn post(&self, caller: &Identity, path: &str, body: impl ToString) -> Answer {
        self.ask(caller, Method::POST, path).json(body).send().await
    }

    pub(crate) async fn patch(&self, caller: &Identity, path: &str, body: impl ToString) -> Answer {
        self.ask(caller, Method::PATCH, path).json(body).send().await
    }

    pub(crate) async fn delete(&self, caller: &Identity, path: &str) -> Answer {
        self.ask(caller, Method::DELETE, path).send().await
    }

    /// The memberships of this world.
    pub(crate) fn memberships(&self) -> SqlMemberships {
        SqlMemberships::new(self.db().clone(), Ambient::system())
    }

    /// Makes a caller a member of a tenant.
    pub(crate) async fn join(&self, tenant: &str, caller: &Identity) {
        let subject = &caller.principal().unwrap().subject;
        assert!(self.memberships().add(&tenant_id(tenant), subject).await.unwrap());
    }

    /// Ends a caller's membership.
    pub(crate) async fn leave(&self, tenant: &str, caller: &Identity) {
        let subject = &caller.principal().unwrap().subject;
        assert!(self.memberships().remove(&tenant_id(tenant), subject).await.unwrap());
    }

    /// The next event, as `kind table record`.
    pub(crate) async fn event(&mut self) -> (String, String, Value) {
        let event = self.events.recv().await.unwrap();
        let record = serde_json::from_slice(event.record()).unwrap();
        (event.kind().to_string(), event.table().to_owned(), record)
    }

    /// Asserts that no event is left. Events are delivered in order, so an event published now comes last.
    pub(crate) async fn no_more_events(&mut self) {
        let marker = EntityEvent::new(gatewright_events::EventKind::Created, "marker", "marker", "{}");
        drop(self.bus.publish(marker));
        let (_, table, record) = self.event().await;
        assert_eq!(table, "marker", "{}: {record}", self.name());
    }

    /// How many rows a table has.
    pub(crate) async fn rows(&self, table: &str) -> i64 {
        let row = self.db().query_opt(format!("SELECT COUNT(*) AS n FROM \"{table}\""), vec![]).await;
        row.unwrap().unwrap().get("n").unwrap()
    }
}

impl Ask<'_> {
    pub(crate) fn json(mut self, body: impl ToString) -> Self {
        self.request = self.request.header("content-type", "application/json");
        self.body = Body::from(body.to_string());
        self
    }

    pub(crate) fn merge_patch(mut self, body: impl ToString) -> Self {
        self.request = self.request.header("content-type", "application/merge-patch+json");
        self.body = Body::from(body.to_string());
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Names the request's tenant.
    pub(crate) fn tenant(self, tenant: &str) -> Self {
        self.header("x-tenant-id", tenant)
    }

    pub(crate) fn extension<T: Clone + Send + Sync + 'static>(mut self, extension: T) -> Self {
        self.request = self.request.extension(extension);
        self
    }

    pub(crate) async fn open(self) -> Response {
        let request = self.request.body(self.body).unwrap();
        self.world.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(self) -> Answer {
        let (method, uri) = (self.request.method_ref().unwrap(), self.request.uri_ref().unwrap());
        let request = format!("{method} {uri} on {}", self.world.name());
        let response = self.open().await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { request, status: parts.status, headers: parts.headers, text }
    }
}

/// An open event stream.
pub(crate) struct Stream {
    body: Body,
    text: String,
    /// The last event's position, where events are logged.
    pub(crate) position: String,
}

impl Stream {
    pub(crate) async fn open(ask: Ask<'_>) -> Self {
        let response = ask.open().await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new(), position: String::new() }
    }

    /// The next event's type and record; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((message, rest)) = self.text.split_once("\n\n") {
                let (message, rest) = (message.to_owned(), rest.to_owned());
                self.text = rest;
                let Some((event, data)) = message.split_once("\ndata: ") else { continue };
                let data: Value = serde_json::from_str(data).unwrap();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let kind = field("event: ").unwrap();
                field("id: ").unwrap_or_default().clone_into(&mut self.position);
                if kind == "ready" {
                    continue;
                }
                assert_eq!(data["type"], kind);
                return Some((kind.to_owned(), data["data"]["record"].clone()));
            }
            let frame = self.body.frame().await?.unwrap();
            self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }
}
