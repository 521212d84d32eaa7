//! Multi-tenant entities: isolation of tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use gatewright_base::{Ambient, Identity, Subject, TenantId};
use gatewright_entities::tenancy::{MembershipError, Memberships};
use gatewright_entities::{BuildError, Entities, Entity, Field, OnDelete};
use gatewright_events::EventKind;
use gatewright_events::outbox::{Outbox, OutboxOptions};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, Stream, World, anonymous, pending, service, user, worlds, worlds_with};

fn posts() -> Entity {
    Entity::new("posts").multi_tenant().field(Field::string("title").unique())
}

fn comments() -> Entity {
    Entity::new("comments").multi_tenant().field(Field::relation("post", "posts").on_delete(OnDelete::Cascade))
}

/// One request in a tenant's name.
async fn ask(
    world: &World,
    caller: &Identity,
    tenant: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Answer {
    let ask = world.ask(caller, method, path).tenant(tenant);
    match body {
        Some(body) => ask.json(body).send().await,
        None => ask.send().await,
    }
}

async fn post(world: &World, caller: &Identity, tenant: &str, path: &str, body: Value) -> Answer {
    ask(world, caller, tenant, Method::POST, path, Some(body)).await
}

async fn get(world: &World, caller: &Identity, tenant: &str, path: &str) -> Answer {
    ask(world, caller, tenant, Method::GET, path, None).await
}

#[tokio::test]
async fn a_request_without_a_tenant_is_refused_with_the_name_of_the_header() {
    let header: http::HeaderName = "x-workspace".parse().unwrap();
    for world in worlds_with([posts()], |builder| builder.tenant_header(header.clone())).await {
        for answer in [world.get(&user("ann"), "/posts").await, world.post(&user("ann"), "/posts", "{}").await] {
            assert_eq!(answer.status, 400, "{}", answer.text);
            assert_eq!(answer.json()["code"], "tenant_required");
            assert!(answer.text.contains("send its id in the header x-workspace"), "{}", answer.text);
        }
    }
}

/// Worlds in which ann belongs to acme and to both, ben to other and to both.
async fn shared(entities: impl IntoIterator<Item = Entity>) -> Vec<World> {
    let worlds = worlds(entities).await;
    for world in &worlds {
        for (tenant, caller) in [("acme", "ann"), ("both", "ann"), ("other", "ben"), ("both", "ben")] {
            world.join(tenant, &user(caller)).await;
        }
    }
    worlds
}

#[tokio::test]
async fn every_operation_needs_a_tenant_that_the_caller_belongs_to() {
    for world in shared([posts()]).await {
        let planted = post(&world, &user("ann"), "acme", "/posts", json!({"title": "planted"})).await;
        let path = planted.header("location").to_owned();
        world.join("acme", &service("bot", &[])).await;
        let cases = [
            (anonymous(), Some("acme"), 401),
            (anonymous(), None, 401),
            (pending(), Some("acme"), 403),
            (user("ann"), None, 400),
            (user("ann"), Some(""), 400),
            (user("ann"), Some("two words"), 400),
            (user("ann"), Some("other"), 403),
            (user("ann"), Some("ACME"), 403),
            (user("ann"), Some("nosuch"), 403),
            (user("ben"), Some("acme"), 403),
            // A user with a service account's id is another member.
            (user("bot"), Some("acme"), 403),
            (service("ann", &["*:*"]), Some("acme"), 403),
            (service("bot", &["other:*"]), Some("acme"), 403),
        ];
        for (caller, tenant, status) in cases {
            for (method, path, body) in [
                (Method::GET, "/posts", None),
                (Method::GET, "/posts/_events", None),
                (Method::GET, &*path, None),
                (Method::POST, "/posts", Some(json!({"title": "x"}))),
                (Method::POST, "/posts", Some(json!({"title": 1}))),
                (Method::PATCH, &*path, Some(json!({"title": "x"}))),
                (Method::DELETE, &*path, None),
            ] {
                let mut ask = world.ask(&caller, method.clone(), path);
                ask = tenant.into_iter().fold(ask, super::support::Ask::tenant);
                ask = body.into_iter().fold(ask, super::support::Ask::json);
                let answer = ask.open().await;
                assert_eq!(answer.status().as_u16(), status, "{} {caller:?} {tenant:?} {method} {path}", world.name());
            }
        }
        let bot = service("bot", &["posts:*"]);
        assert_eq!(get(&world, &bot, "acme", "/posts").await.json()["total"], 1);
        let twice = world.ask(&user("ann"), Method::GET, "/posts").tenant("acme").tenant("acme").send().await;
        assert_eq!((twice.status.as_u16(), &twice.json()["code"]), (400, &json!("tenant_required")));
        assert_eq!(world.rows("posts").await, 1);
    }
}

#[tokio::test]
async fn a_tenant_sees_and_changes_nothing_of_another() {
    for world in shared([posts()]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let theirs = post(&world, &ann, "acme", "/posts", json!({"title": "canary-acme"})).await;
        assert_eq!(theirs.data().get("tenantId"), None, "the column is hidden");
        let path = theirs.header("location");
        post(&world, &ben, "other", "/posts", json!({"title": "mine"})).await.data();

        // Not even for a member of both, where the request names the other one.
        for (caller, tenant) in [(&ben, "other"), (&ann, "both")] {
            let tag = theirs.header("etag");
            let mut said = String::new();
            for path in [path, "/posts/nosuch"] {
                for answer in [
                    get(&world, caller, tenant, path).await,
                    ask(&world, caller, tenant, Method::PATCH, path, Some(json!({"title": "taken"}))).await,
                    ask(&world, caller, tenant, Method::PATCH, path, Some(json!({}))).await,
                    ask(&world, caller, tenant, Method::DELETE, path, None).await,
                    world.ask(caller, Method::DELETE, path).tenant(tenant).header("if-match", tag).send().await,
                    world.ask(caller, Method::GET, path).tenant(tenant).header("if-none-match", tag).send().await,
                ] {
                    assert_eq!(answer.status, 404, "{} {path} {}", world.name(), answer.text);
                    said.push_str(&answer.text);
                }
            }
            for query in ["", "?title=canary-acme", "?filter=title~'canary'||id!=''", "?sort=-title&limit=100"] {
                let list = get(&world, caller, tenant, &format!("/posts{query}")).await;
                assert_eq!(list.status, 200, "{}", list.text);
                said.push_str(&list.text);
            }
            for query in ["?tenant_id=acme", "?tenantId=acme", "?filter=tenantId='acme'", "?sort=tenant_id"] {
                assert_eq!(get(&world, caller, tenant, &format!("/posts{query}")).await.status, 400, "{query}");
            }
            assert!(!said.contains("canary-acme"), "{said}");
        }
        let total = async |caller, tenant| get(&world, caller, tenant, "/posts").await.json()["total"].clone();
        assert_eq!(
            (total(&ann, "acme").await, total(&ben, "other").await, total(&ann, "both").await),
            (1.into(), 1.into(), 0.into())
        );
        assert_eq!(get(&world, &ann, "acme", path).await.data(), theirs.data());
    }
}

#[tokio::test]
async fn the_tenant_is_stamped_from_the_request_and_never_from_the_body() {
    for world in shared([posts()]).await {
        for key in ["tenantId", "tenant_id"] {
            let answer = post(&world, &user("ann"), "acme", "/posts", json!({"title": "x", key: "other"})).await;
            assert_eq!((answer.status.as_u16(), &*answer.faults()[key]), (422, "unknown_field"));
        }
    }
    let declared = posts().field(Field::string("tenant_id"));
    for world in shared([declared]).await {
        let (ann, sent) = (user("ann"), json!({"title": "x", "tenantId": "other"}));
        let made = post(&world, &ann, "acme", "/posts", sent.clone()).await;
        assert_eq!(made.data()["tenantId"], "acme");
        let changed = ask(&world, &ann, "acme", Method::PATCH, made.header("location"), Some(sent)).await;
        assert_eq!(changed.data()["tenantId"], "acme");
        let found = get(&world, &ann, "acme", "/posts?tenantId=acme").await;
        assert_eq!(found.json()["total"], 1);
        assert_eq!(get(&world, &ann, "acme", "/posts?filter=tenantId!='acme'").await.json()["total"], 0);
    }
}

#[tokio::test]
async fn unique_holds_within_a_tenant() {
    for world in shared([posts()]).await {
        let title = json!({"title": "taken"});
        post(&world, &user("ann"), "acme", "/posts", title.clone()).await.data();
        post(&world, &user("ben"), "other", "/posts", title.clone()).await.data();
        let again = post(&world, &user("ann"), "acme", "/posts", title.clone()).await;
        assert_eq!((again.status.as_u16(), &*again.faults()["title"]), (409, "unique"), "{}", world.name());
        post(&world, &user("ann"), "both", "/posts", title).await.data();
    }
    let visible = posts().field(Field::string("tenant_id"));
    for world in shared([visible]).await {
        post(&world, &user("ann"), "acme", "/posts", json!({"title": "taken"})).await.data();
        let again = post(&world, &user("ann"), "acme", "/posts", json!({"title": "taken"})).await;
        assert_eq!(again.faults().keys().collect::<Vec<_>>(), ["title"]);
    }
}

#[tokio::test]
async fn relations_do_not_cross_tenants() {
    let likes = Entity::new("likes").field(Field::relation("post", "posts"));
    for mut world in shared([posts(), comments(), likes]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let of_acme = post(&world, &ann, "acme", "/posts", json!({"title": "a"})).await;
        let of_both = post(&world, &ann, "both", "/posts", json!({"title": "b"})).await;
        let (acme, both) = (json!({"post": of_acme.id()}), json!({"post": of_both.id()}));
        for (caller, tenant, body, status) in [
            (&ann, "acme", &acme, 201),
            (&ann, "both", &acme, 422),
            (&ann, "acme", &both, 422),
            (&ben, "other", &acme, 422),
            (&ben, "both", &both, 201),
        ] {
            let made = post(&world, caller, tenant, "/comments", body.clone()).await;
            assert_eq!(made.status, status, "{} {tenant} {}", world.name(), made.text);
            if status == 422 {
                assert_eq!(made.faults()["post"], "relation");
            }
            // An entity without tenants may point at a record of the tenant that the request names.
            let like = post(&world, caller, tenant, "/likes", body.clone()).await;
            assert_eq!(like.status, status, "{}", like.text);
        }
        let unnamed = world.post(&ann, "/likes", &acme).await;
        assert_eq!(unnamed.status, 422, "{}", unnamed.text);
        // An update does not bypass it.
        let mine = post(&world, &ann, "both", "/comments", both.clone()).await;
        let moved = ask(&world, &ann, "both", Method::PATCH, mine.header("location"), Some(acme)).await;
        assert_eq!(moved.status, 422, "{}", moved.text);

        world.db().execute("DELETE FROM likes", vec![]).await.unwrap();
        let gone = ask(&world, &ann, "acme", Method::DELETE, of_acme.header("location"), None).await;
        assert_eq!(gone.status, 204, "{}", gone.text);
        for table in ["comments", "posts"] {
            // Events of the writes above may still arrive.
            let event = loop {
                let event = world.events.recv().await.unwrap();
                if event.kind() == EventKind::Deleted {
                    break event;
                }
            };
            assert_eq!((event.table(), event.tenant_id()), (table, Some("acme")));
        }
        assert_eq!(world.rows("comments").await, 2);
    }
}

#[tokio::test]
async fn a_stream_has_events_of_its_tenant_only_and_ends_with_the_membership() {
    for world in shared([posts()]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let open = async |caller: &Identity, tenant: &str| {
            Stream::open(world.ask(caller, Method::GET, "/posts/_events").tenant(tenant)).await
        };
        let (mut acme, mut both, mut other) =
            (open(&ann, "acme").await, open(&ben, "both").await, open(&ben, "other").await);
        let titles = [("acme", &ann, "first"), ("both", &ann, "second"), ("other", &ben, "third")];
        for (tenant, caller, title) in titles {
            post(&world, caller, tenant, "/posts", json!({"title": title})).await.data();
        }
        for (stream, title) in [(&mut acme, "first"), (&mut both, "second"), (&mut other, "third")] {
            assert_eq!(stream.next().await.unwrap().1["title"], title);
        }
        world.leave("both", &ben).await;
        assert!(both.next().await.is_none(), "the stream ends within a heartbeat");
        // The membership that is left still counts, and so does everybody else's.
        post(&world, &ben, "other", "/posts", json!({"title": "fourth"})).await.data();
        assert_eq!(other.next().await.unwrap().1["title"], "fourth");
        post(&world, &ann, "acme", "/posts", json!({"title": "fifth"})).await.data();
        assert_eq!(acme.next().await.unwrap().1["title"], "fifth");
    }
}

#[tokio::test]
async fn a_lost_membership_ends_all_access() {
    for world in shared([posts()]).await {
        let ann = user("ann");
        let made = post(&world, &ann, "acme", "/posts", json!({"title": "x"})).await;
        world.leave("acme", &ann).await;
        assert_eq!(get(&world, &ann, "acme", made.header("location")).await.status, 403);
        assert_eq!(get(&world, &ann, "acme", "/posts").await.status, 403);
        assert_eq!(get(&world, &ann, "both", made.header("location")).await.status, 404);
    }
}

#[tokio::test]
async fn an_owned_record_is_its_owners_within_the_tenant() {
    let notes =
        Entity::new("notes").multi_tenant().owner("user_id").cross_owner_read("posts:audit").field(Field::text("t"));
    for world in shared([notes]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let auditor = super::support::user_with("ben", &["auditor"]);
        let in_both = post(&world, &ann, "both", "/notes", json!({"t": "both"})).await;
        let in_acme = post(&world, &ann, "acme", "/notes", json!({"t": "acme"})).await;
        for (caller, tenant, path, status) in [
            (&ann, "both", in_both.header("location"), 200),
            (&ann, "acme", in_both.header("location"), 404),
            (&ben, "both", in_both.header("location"), 404),
            (&auditor, "both", in_both.header("location"), 200),
            // A permission for every owner's records ends at the tenant.
            (&auditor, "both", in_acme.header("location"), 404),
            (&auditor, "acme", in_acme.header("location"), 403),
        ] {
            assert_eq!(get(&world, caller, tenant, path).await.status, status, "{} {tenant} {path}", world.name());
        }
        assert_eq!(get(&world, &auditor, "both", "/notes").await.json()["total"], 1);
        let changed =
            ask(&world, &auditor, "both", Method::PATCH, in_both.header("location"), Some(json!({"t": "y"}))).await;
        assert_eq!(changed.status, 403);
    }
}

#[tokio::test]
async fn events_and_outbox_rows_name_the_tenant() {
    for mut world in shared([posts()]).await {
        post(&world, &user("ann"), "acme", "/posts", json!({"title": "x"})).await.data();
        let event = world.events.recv().await.unwrap();
        assert_eq!(event.tenant_id(), Some("acme"));

        let ambient = Ambient::system();
        let outbox = Outbox::open(world.db().clone(), ambient.clone(), OutboxOptions::default()).await.unwrap();
        let entities = Entities::builder(world.db().clone(), ambient)
            .memberships(Arc::new(world.memberships()))
            .outbox(outbox)
            .declare(posts())
            .build()
            .await
            .unwrap();
        let call = gatewright_entities::Call::from(user("ann")).in_tenant(super::support::tenant_id("acme"));
        let posts = entities.table("posts").unwrap();
        posts.create(&call, br#"{"title":"y"}"#).await.unwrap();
        let row = world.db().query_opt("SELECT payload FROM event_outbox", vec![]).await.unwrap().unwrap();
        let payload: Value = serde_json::from_str(&row.get::<String>("payload").unwrap()).unwrap();
        assert_eq!((&payload["tenantId"], &payload["record"]["title"]), (&json!("acme"), &json!("y")));
    }
}

/// A custom store that is unavailable.
struct Away;

#[async_trait]
impl Memberships for Away {
    async fn is_member(&self, _: &Subject, _: &TenantId) -> Result<bool, MembershipError> {
        Err(MembershipError::Store("canary-4e1".into()))
    }
}

#[tokio::test]
async fn access_is_refused_while_memberships_cannot_be_read() {
    for world in worlds_with([posts()], |builder| builder.memberships(Arc::new(Away))).await {
        for answer in [
            get(&world, &user("ann"), "acme", "/posts").await,
            post(&world, &user("ann"), "acme", "/posts", json!({"title": "x"})).await,
        ] {
            assert_eq!(answer.status, 503);
            assert!(!answer.text.contains("canary"), "{}", answer.text);
        }
        assert_eq!(world.rows("posts").await, 0);
    }
}

/// Everybody belongs to every tenant; counts the calls.
#[derive(Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Memberships for Counting {
    async fn is_member(&self, _: &Subject, _: &TenantId) -> Result<bool, MembershipError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
}

#[tokio::test]
async fn a_batch_reads_the_membership_once() {
    let likes = Entity::new("likes").field(Field::relation("post", "posts"));
    let asked = Arc::new(Counting::default());
    for world in worlds_with([posts(), likes], |builder| builder.memberships(asked.clone())).await {
        let ann = user("ann");
        let batch = async |method: Method, path: &str, body: Value| {
            let before = asked.0.load(Ordering::Relaxed);
            let answer = ask(&world, &ann, "acme", method, path, Some(body)).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            assert_eq!(asked.0.load(Ordering::Relaxed) - before, 1, "{} {path}", world.name());
            answer.json()["results"].clone()
        };
        let items: Vec<Value> = (0..50).map(|number| json!({"title": number.to_string()})).collect();
        let made = batch(Method::POST, "/posts/_batch", json!({"items": items})).await;
        let ids: Vec<&Value> = made.as_array().unwrap().iter().map(|result| &result["data"]["id"]).collect();
        let changes: Vec<Value> = ids.iter().map(|id| json!({"id": id, "title": id})).collect();
        batch(Method::PATCH, "/posts/_batch", json!({"items": changes})).await;
        // So does one of an entity without tenants, whose relations need to know.
        let items: Vec<Value> = ids.iter().map(|id| json!({"post": id})).collect();
        batch(Method::POST, "/likes/_batch", json!({"items": items})).await;
        world.db().execute("DELETE FROM likes", vec![]).await.unwrap();
        batch(Method::DELETE, "/posts/_batch", json!({"ids": ids})).await;
        assert_eq!(world.rows("posts").await, 0);
    }
}

#[tokio::test]
async fn multi_tenant_entities_without_memberships_are_not_built() {
    for test_db in gatewright_db::testing::engines().await {
        let built = Entities::builder(test_db.db.clone(), Ambient::system()).declare(posts()).build().await;
        assert!(matches!(built, Err(BuildError::NoMemberships(name)) if name == "posts"));
    }
}
