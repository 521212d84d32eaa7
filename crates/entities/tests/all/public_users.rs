//! Public fields of profiles, through relations to users.

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{JsonCase, Subject, TenantId};
use gatewright_db::{column_types, params};
use gatewright_entities::tenancy::{MembershipError, Memberships};
use gatewright_entities::{Entity, Field, Profile, ProfileField};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::support::{World, anonymous, pending, service, user, worlds_with};

fn profile() -> Arc<Profile> {
    let fields = [ProfileField::new(Field::string("nick_name")).public(), ProfileField::new(Field::string("secret"))];
    Arc::new(Profile::declare(&fields, JsonCase::Camel).unwrap())
}

async fn know(world: &World, id: &str, profile: &str) {
    let sql = "UPDATE users SET profile = ?2 WHERE id = ?1";
    assert_eq!(world.test_db.db.execute(sql, params![id, profile]).await.unwrap(), 1);
}

/// Adds the column, and the profiles of ann and ben.
async fn people(world: &World) {
    let db = &world.test_db.db;
    db.execute(column_types("ALTER TABLE users ADD COLUMN profile {text}", db.engine()), vec![]).await.unwrap();
    for id in ["ann", "ben"] {
        know(world, id, &json!({ "nick_name": format!("{id}!"), "secret": "canary" }).to_string()).await;
    }
}

fn named(id: &str) -> Value {
    json!({ "id": id, "nickName": format!("{id}!") })
}

#[tokio::test]
async fn an_anonymous_caller_sees_only_the_id() {
    let notes = Entity::new("notes").public().field(Field::relation("writer", "users"));
    for world in worlds_with([notes], |builder| builder.profiles(profile(), "users")).await {
        people(&world).await;
        for writer in ["ann", "ben", "ann"] {
            world.post(&anonymous(), "/notes", json!({ "writer": writer })).await.data();
        }
        let path = "/notes?include=writer";
        for (caller, knows) in
            [(anonymous(), false), (pending(), false), (user("ben"), true), (service("bot", &["*:*"]), true)]
        {
            let list = world.get(&caller, path).await;
            let expected = |id: &str| if knows { named(id) } else { json!({ "id": id }) };
            for (index, id) in ["ann", "ben", "ann"].into_iter().enumerate() {
                assert_eq!(list.data()[index]["_included"]["writer"], expected(id), "{} {caller:?}", world.name());
            }
            assert!(!list.text.contains("canary") && !list.text.contains("secret"), "{}", list.text);
        }
        // If memberships cannot be read, the fields are hidden, but not the record.
        for broken in ["not JSON", "[]", "{\"nick_name\": 5}"] {
            know(&world, "ann", broken).await;
            let list = world.get(&user("ben"), path).await;
            assert_eq!(list.data()[0]["_included"]["writer"], json!({ "id": "ann", "nickName": null }), "{broken}");
        }
    }
}

/// Everybody belongs to every tenant; for "?" the store fails.
struct Members(Mutex<Vec<&'static str>>);

#[async_trait]
impl Memberships for Members {
    async fn is_member(&self, subject: &Subject, _: &TenantId) -> Result<bool, MembershipError> {
        let members = self.0.lock();
        let fails = members.contains(&"?") && subject.as_str() != "ann";
        if fails { Err(MembershipError::Store("canary".into())) } else { Ok(members.contains(&subject.as_str())) }
    }
}

#[tokio::test]
async fn a_membership_that_has_ended_or_cannot_be_read_hides_the_fields() {
    let rooms = Entity::new("rooms").multi_tenant().field(Field::relation("host", "users"));
    let members = Arc::new(Members(Mutex::default()));
    let adjust =
        |builder: gatewright_entities::Builder| builder.profiles(profile(), "users").memberships(members.clone());
    for world in worlds_with([rooms], adjust).await {
        people(&world).await;
        *members.0.lock() = vec!["ann", "ben"];
        for host in ["ann", "ben"] {
            let ask = world.ask(&user("ann"), Method::POST, "/rooms").tenant("acme");
            ask.json(json!({ "host": host })).send().await.data();
        }
        let hosts = async || {
            let path = "/rooms?include=host";
            let list = world.ask(&user("ann"), Method::GET, path).tenant("acme").send().await;
            assert!(!list.text.contains("canary"), "{}", list.text);
            [list.data()[0]["_included"]["host"].clone(), list.data()[1]["_included"]["host"].clone()]
        };
        assert_eq!(hosts().await, [named("ann"), named("ben")], "{}", world.name());
        *members.0.lock() = vec!["ann"];
        assert_eq!(hosts().await, [named("ann"), json!({ "id": "ben" })], "{}", world.name());
        *members.0.lock() = vec!["ann", "?"];
        assert_eq!(hosts().await, [json!({ "id": "ann" }), json!({ "id": "ben" })], "{}", world.name());
    }
}
