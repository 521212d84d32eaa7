//! How many streams with a filter that the database evaluates are open at a time, and whose.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::response::Response;
use gatewright_base::{Ambient, Identity, Presented, Reauthenticate, Unavailable};
use gatewright_entities::{Builder, Entity, Field};
use gatewright_events::{Bus, StreamOptions, Streams};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::json;

use super::support::{Stream, World, anonymous, encoded, user, user_with, worlds_with};

fn entities() -> [Entity; 2] {
    [
        Entity::new("projects").owner("user_id").cross_owner_read("posts:audit").field(Field::string("name")),
        Entity::new("tasks")
            .public()
            .field(Field::string("title"))
            .field(Field::relation("project", "projects"))
            .field(Field::json("meta")),
    ]
}

async fn worlds(heartbeat: Duration) -> Vec<World> {
    let patient = |builder: Builder| {
        let bus = Bus::new(&Ambient::system());
        let streams = Streams::start(&bus, StreamOptions { heartbeat, ..StreamOptions::default() });
        builder.bus(bus).streams(streams)
    };
    worlds_with(entities(), patient).await
}

async fn patient_worlds() -> Vec<World> {
    worlds(StreamOptions::default().heartbeat).await
}

/// The open streams, with a different filter for each.
#[derive(Default)]
struct Opened(Vec<Response>);

impl Opened {
    /// Opens streams until one is refused, and returns how many.
    async fn fill(&mut self, world: &World, caller: &Identity, address: &str) -> usize {
        let before = self.0.len();
        loop {
            let filter = encoded(&format!("meta.size = {}", self.0.len()));
            let peer: IpAddr = address.parse().unwrap();
            let ask = world.ask(caller, Method::GET, &format!("/tasks/_events?filter={filter}"));
            let answer = ask.extension(ConnectInfo(SocketAddr::from((peer, 4711)))).open().await;
            if answer.status() != StatusCode::OK {
                assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
                return self.0.len() - before;
            }
            self.0.push(answer);
        }
    }
}

#[tokio::test]
async fn an_ipv6_48_has_one_share_of_the_filters() {
    for world in patient_worlds().await {
        let mut opened = Opened::default();
        let mut of_networks = Vec::new();
        for network in 0..10 {
            of_networks.push(opened.fill(&world, &anonymous(), &format!("2001:db8:1:{network}::1")).await);
        }
        assert_eq!(of_networks, [8, 0, 0, 0, 0, 0, 0, 0, 0, 0], "{}", world.name());
        assert_eq!(opened.fill(&world, &anonymous(), "2001:db8:2::1").await, 8, "{}", world.name());
    }
}

#[tokio::test]
async fn strangers_with_many_networks_take_no_filters_from_accounts() {
    for world in patient_worlds().await {
        let mut opened = Opened::default();
        for network in 0..40 {
            opened.fill(&world, &anonymous(), &format!("192.0.2.{network}")).await;
        }
        assert_eq!(opened.0.len(), 32, "{}", world.name());
        assert_eq!(opened.fill(&world, &user("ben"), "192.0.2.1").await, 8, "{}", world.name());
    }
}

#[tokio::test]
async fn accounts_with_many_filters_leave_some_to_others() {
    for world in patient_worlds().await {
        let mut opened = Opened::default();
        for number in 0..8 {
            opened.fill(&world, &user(&format!("user{number}")), "192.0.2.1").await;
        }
        for number in 8..32 {
            let held = opened.fill(&world, &user(&format!("user{number}")), "192.0.2.1").await;
            assert_eq!(held, 1, "{} user{number}", world.name());
        }
        assert_eq!(opened.0.len(), 64, "{}", world.name());
        assert_eq!(opened.fill(&world, &anonymous(), "192.0.2.2").await, 8, "{}", world.name());
    }
}

struct Credentials(Mutex<Identity>);

impl Reauthenticate for Credentials {
    fn again(&self) -> Pin<Box<dyn Future<Output = Result<Identity, Unavailable>> + Send + '_>> {
        let now = self.0.lock().clone();
        Box::pin(async move { Ok(now) })
    }
}

/// The filter of a caller with other rights is another filter.
#[tokio::test]
async fn a_stream_keeps_its_place_if_its_rights_change_while_the_limit_is_reached() {
    for world in worlds(Duration::from_millis(500)).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let red = world.post(&ann, "/projects", json!({"name": "red"})).await.id();
        let credentials = Arc::new(Credentials(Mutex::new(ben.clone())));
        let filter = encoded("project.name = 'red' || title = 'end'");
        let ask = world.ask(&ben, Method::GET, &format!("/tasks/_events?filter={filter}"));
        let mut stream = Stream::open(ask.extension(Presented(credentials.clone()))).await;
        let mut opened = Opened::default();
        for number in 0..40 {
            opened.fill(&world, &user(&format!("user{number}")), "192.0.2.1").await;
        }
        assert_eq!(opened.0.len(), 63, "{}", world.name());
        *credentials.0.lock() = user_with("ben", &["auditor"]);
        // At a heartbeat, ben begins to see ann's project. An event that was evaluated for his former rights and is delivered
        // after it is lost, because there is no log.
        let red_arrives = async {
            loop {
                world.post(&ann, "/tasks", json!({"title": "red", "project": red})).await.id();
                world.post(&ann, "/tasks", json!({"title": "end"})).await.id();
                let next = tokio::time::timeout(Duration::from_millis(100), stream.next()).await;
                let Ok(next) = next else { continue };
                let (_, record) = next.unwrap_or_else(|| panic!("{}: the stream ended", world.name()));
                if record["title"] == "red" {
                    break;
                }
            }
        };
        tokio::time::timeout(Duration::from_mins(1), red_arrives).await.expect("no event within a minute");
    }
}
