//! Roles within a tenant, and relations to its members.

use std::collections::BTreeMap;

use gatewright_base::{Grants, Identity, RolePermissions};
use gatewright_entities::{Action, Entity, Field};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, service, tenant_id, user, worlds, worlds_with};

async fn ask(world: &World, caller: &Identity, tenant: &str, method: Method, path: &str, body: Value) -> Answer {
    let ask = world.ask(caller, method, path).tenant(tenant);
    if body.is_null() { ask.send().await } else { ask.json(body).send().await }
}

async fn put(world: &World, tenant: &str, caller: &Identity, roles: &[&str]) {
    let subject = &caller.principal().unwrap().subject;
    let roles = roles.iter().copied().collect();
    world.memberships().put(&tenant_id(tenant), subject, &roles).await.unwrap();
}

/// A role in one tenant permits nothing in another, nor on entities without tenants.
#[tokio::test]
async fn a_role_within_a_tenant_permits_only_there_and_ends_with_the_membership() {
    let guarded = |entity: Entity| entity.access(Action::Read, "posts:read").access(Action::Update, "posts:write");
    let posts = guarded(Entity::new("posts").multi_tenant()).field(Field::string("title"));
    let notes = guarded(Entity::new("notes")).field(Field::string("title"));
    let worlds = worlds_with([posts, notes], |builder| {
        let editor = Grants::parse(["posts:read", "posts:write"]).unwrap();
        let writer = Grants::parse(["posts:write"]).unwrap();
        let roles = BTreeMap::from([("chief".to_owned(), editor), ("scribe".to_owned(), writer)]);
        builder.tenant_roles(RolePermissions::new(roles))
    });
    for world in worlds.await {
        let ann = user("ann");
        put(&world, "acme", &ann, &["chief"]).await;
        put(&world, "other", &ann, &["member"]).await;
        let made = ask(&world, &ann, "acme", Method::POST, "/posts", json!({ "title": "one" })).await;
        assert_eq!(made.status.as_u16(), 201);
        let path = made.header("location").to_owned();
        assert_eq!(ask(&world, &ann, "acme", Method::GET, &path, Value::Null).await.status.as_u16(), 200);
        assert_eq!(ask(&world, &ann, "other", Method::GET, "/posts", Value::Null).await.status.as_u16(), 403);
        assert_eq!(ask(&world, &ann, "acme", Method::GET, "/notes", Value::Null).await.status.as_u16(), 403);
        // Without a tenant the answer says what is missing.
        let unnamed = world.get(&ann, "/posts").await;
        assert_eq!((unnamed.status.as_u16(), &unnamed.json()["code"]), (400, &json!("tenant_required")));
        // An editor gets the whole record back; a caller who may only change it does not.
        let changed = ask(&world, &ann, "acme", Method::PATCH, &path, json!({ "title": "two" })).await;
        assert_eq!(changed.json()["data"]["title"], "two", "{} {}", changed.status, changed.text);
        put(&world, "acme", &ann, &["scribe"]).await;
        assert_eq!(ask(&world, &ann, "acme", Method::GET, &path, Value::Null).await.status.as_u16(), 403);
        let unseen = ask(&world, &ann, "acme", Method::PATCH, &path, json!({})).await.json();
        assert!(unseen["data"]["id"].is_string() && unseen["data"].get("title").is_none(), "{unseen}");
        put(&world, "acme", &ann, &[]).await;
        let refused = ask(&world, &ann, "acme", Method::PATCH, &path, json!({ "title": "three" })).await;
        assert_eq!(refused.status.as_u16(), 403);
    }
}

/// A user outside the tenant looks like one who does not exist.
#[tokio::test]
async fn a_relation_to_users_names_only_members() {
    let tasks = Entity::new("tasks").multi_tenant().field(Field::relation("assignee", "users"));
    let free = Entity::new("memos").field(Field::relation("assignee", "users"));
    for world in worlds([tasks, free]).await {
        let ann = user("ann");
        world.join("acme", &ann).await;
        world.join("other", &user("ben")).await;
        // A service account with a user's id does not make the user a member.
        world.join("acme", &service("ben", &[])).await;
        let create = |who: &'static str| ask(&world, &ann, "acme", Method::POST, "/tasks", json!({ "assignee": who }));
        let (stranger, missing) = (create("ben").await, create("nosuch").await);
        assert_eq!((stranger.status.as_u16(), missing.status.as_u16()), (422, 422));
        assert_eq!(stranger.json()["errors"], missing.json()["errors"]);
        let mine = create("ann").await;
        assert_eq!(mine.status.as_u16(), 201);
        let path = mine.header("location").to_owned();
        let hand = |who: &'static str| ask(&world, &ann, "acme", Method::PATCH, &path, json!({ "assignee": who }));
        assert_eq!(hand("ben").await.status.as_u16(), 422);
        let batch = json!({ "items": [{ "assignee": "ann" }, { "assignee": "ben" }] });
        assert_eq!(ask(&world, &ann, "acme", Method::POST, "/tasks/_batch", batch).await.status.as_u16(), 422);
        world.join("acme", &user("ben")).await;
        assert_eq!(hand("ben").await.status.as_u16(), 200);
        assert_eq!(create("ben").await.status.as_u16(), 201);
        // An entity without tenants accepts every user.
        assert_eq!(world.post(&ann, "/memos", json!({ "assignee": "ben" })).await.status.as_u16(), 201);
    }
}
