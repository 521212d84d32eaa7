//! Access over HTTP: every method checks the same rules.

use gatewright_base::Identity;
use gatewright_entities::operations::{Error, Transaction};
use gatewright_entities::{Action, Entity, Field};
use gatewright_http::Problem;
use http::Method;
use serde_json::json;

use super::support::{World, anonymous, pending, service, user, user_with, worlds, worlds_with};

fn posts() -> Entity {
    Entity::new("posts").field(Field::string("title"))
}

fn by_role() -> Entity {
    posts()
        .access(Action::Read, "posts:read")
        .access(Action::Create, "posts:write")
        .access(Action::Update, "posts:write")
        .access(Action::Delete, "posts:write")
}

/// The statuses of list, get, stream, create, update and delete of an existing record.
async fn statuses(world: &World, caller: &Identity, id: &str) -> [u16; 6] {
    let record = format!("/posts/{id}");
    let stream = world.ask(caller, Method::GET, "/posts/_events").open().await.status().as_u16();
    [
        world.get(caller, "/posts").await.status.as_u16(),
        world.get(caller, &record).await.status.as_u16(),
        stream,
        world.post(caller, "/posts", json!({"title": "x"})).await.status.as_u16(),
        world.patch(caller, &record, json!({"title": "y"})).await.status.as_u16(),
        world.delete(caller, &record).await.status.as_u16(),
    ]
}

/// A record for the requests of all callers, inserted without the rules.
async fn plant(world: &World, owner: Option<&str>) -> String {
    let time = "2026-01-01T00:00:00.000000Z";
    let (columns, values) = match owner {
        Some(owner) => (", user_id", format!(", '{owner}'")),
        None => ("", String::new()),
    };
    let sql = format!(
        "INSERT INTO posts (id, title, created_at, updated_at{columns}) VALUES ('planted', 'x', '{time}', '{time}'{values})
         ON CONFLICT (id) DO NOTHING"
    );
    world.db().execute(sql, vec![]).await.unwrap();
    "planted".to_owned()
}

#[tokio::test]
async fn every_endpoint_enforces_the_rules() {
    let open = [200, 200, 200, 201, 200, 204];
    let tables = [
        (
            posts().public(),
            None,
            vec![
                (anonymous(), open),
                (user("ann"), open),
                (pending(), open),
                (service("bot", &[]), [403; 6]),
                (service("bot", &["posts:read"]), [200, 200, 200, 403, 403, 403]),
            ],
        ),
        (
            posts(),
            None,
            vec![
                (anonymous(), [401; 6]),
                (pending(), [403; 6]),
                (user("ann"), open),
                (service("bot", &["*:*"]), open),
                (service("bot", &["posts:write"]), [403, 403, 403, 201, 200, 204]),
                (service("bot", &["other:*"]), [403; 6]),
            ],
        ),
        (
            by_role(),
            None,
            vec![
                (anonymous(), [401; 6]),
                (user("ann"), [403; 6]),
                (user_with("ann", &["reader"]), [200, 200, 200, 403, 403, 403]),
                (user_with("ann", &["editor"]), open),
                (service("bot", &["*:*"]), [403; 6]),
            ],
        ),
        (
            by_role().access(Action::Read, "public"),
            None,
            vec![
                (anonymous(), [200, 200, 200, 401, 401, 401]),
                (pending(), [200, 200, 200, 403, 403, 403]),
                (user_with("ann", &["editor"]), open),
            ],
        ),
        (
            posts().owner("user_id"),
            Some("ann"),
            vec![
                (anonymous(), [401; 6]),
                (pending(), [403; 6]),
                (user("ann"), open),
                (user("ben"), [200, 404, 200, 201, 404, 404]),
                (service("bot", &["*:*"]), [200, 404, 200, 201, 404, 404]),
                (service("ann", &["posts:*"]), open),
            ],
        ),
        (
            posts().owner("user_id").cross_owner_read("posts:audit"),
            Some("ann"),
            vec![
                (user("ben"), [200, 404, 200, 201, 404, 404]),
                (user_with("ben", &["auditor"]), [200, 200, 200, 201, 403, 403]),
            ],
        ),
    ];
    for (entity, owner, callers) in tables {
        for world in worlds([entity.clone()]).await {
            for (caller, expected) in &callers {
                let id = plant(&world, owner).await;
                assert_eq!(statuses(&world, caller, &id).await, *expected, "{} {caller:?} {entity:?}", world.name());
            }
        }
    }
}

#[tokio::test]
async fn a_record_that_may_be_read_and_not_changed_is_403_and_one_that_may_not_be_read_404() {
    let entity = posts().owner("user_id").cross_owner_read("posts:audit");
    for world in worlds([entity]).await {
        let id = plant(&world, Some("ann")).await;
        let (path, items) = (format!("/posts/{id}"), json!({"items": [{"id": id, "title": "y"}]}));
        for (caller, status, code) in
            [(user_with("ben", &["auditor"]), 403, "forbidden"), (user("ben"), 404, "not_found")]
        {
            for answer in [
                world.patch(&caller, &path, json!({"title": "y"})).await,
                world.patch(&caller, &path, "{}").await,
                world.delete(&caller, &path).await,
                world.patch(&caller, "/posts/_batch", &items).await,
                world.ask(&caller, Method::DELETE, "/posts/_batch").json(json!({"ids": [id]})).send().await,
            ] {
                assert_eq!(answer.status, status, "{} {}", world.name(), answer.text);
                assert!(answer.text.contains(code), "{}", answer.text);
            }
            // A missing record is a 404 for both.
            assert_eq!(world.patch(&caller, "/posts/nowhere", "{}").await.status, 404);
            let (call, id) = (caller.clone().into(), id.clone());
            let error = world
                .entities
                .transaction(async move |transaction: &Transaction<'_>| -> Result<(), Error> {
                    transaction.table("posts")?.update(&call, &id, b"{\"title\":\"y\"}").await.map(|_| ())
                })
                .await
                .unwrap_err();
            assert_eq!(Problem::from(error).status(), status, "{}", world.name());
        }
        assert_eq!(world.get(&user("ann"), &path).await.data()["title"], "x");
    }
}

#[tokio::test]
async fn refusals_have_the_documented_texts() {
    for world in worlds([by_role()]).await {
        let detail = async |caller| world.get(&caller, "/posts").await.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(detail(pending()).await, "two-factor verification required");
        assert_eq!(world.get(&pending(), "/posts").await.json()["code"], "two_factor_required");
        assert_eq!(detail(anonymous()).await, "authentication is required");
        assert_eq!(detail(user("ann")).await, "the permission posts:read is required");
        assert_eq!(detail(service("bot", &[])).await, "the token lacks the scope posts:read");
    }
}

#[tokio::test]
async fn a_refused_caller_learns_nothing_from_a_bad_body() {
    for world in worlds([by_role()]).await {
        for (caller, status) in [(anonymous(), 401), (user("ann"), 403)] {
            for body in ["{", "{\"nope\":1}", "{\"title\":1}"] {
                assert_eq!(world.post(&caller, "/posts", body).await.status, status, "{body}");
                assert_eq!(world.patch(&caller, "/posts/x", body).await.status, status, "{body}");
            }
            let plain = world.ask(&caller, Method::POST, "/posts").header("content-type", "text/plain").send().await;
            assert_eq!(plain.status, status);
            assert_eq!(world.get(&caller, "/posts?nope=1").await.status, status);
            assert_eq!(world.get(&caller, "/posts/_events?nope=1").await.status, status);
        }
    }
}

#[tokio::test]
async fn without_the_guard_a_token_acts_as_its_owner() {
    for world in worlds_with([posts()], |builder| builder.scope_guard(false)).await {
        assert_eq!(world.post(&service("bot", &[]), "/posts", json!({"title": "x"})).await.status, 201);
    }
}

#[tokio::test]
async fn the_owner_is_stamped_from_the_caller_and_never_from_the_body() {
    let declared = posts().owner("user_id").field(Field::relation("user_id", "users"));
    for world in worlds([declared]).await {
        let made = world.post(&user("ann"), "/posts", json!({"title": "x", "userId": "ben"})).await;
        assert_eq!(made.data()["userId"], "ann");
        let path = made.header("location");
        let updated = world.patch(&user("ann"), path, json!({"userId": "ben", "title": "y"})).await;
        assert_eq!(updated.data()["userId"], "ann");
        assert_eq!(world.get(&user("ben"), path).await.status, 404);
        let bot = world.post(&service("bot", &["*:*"]), "/posts", json!({"title": "x"})).await;
        assert_eq!(bot.status, 403, "{}", bot.text);
        let ghost = world.post(&user("ghost"), "/posts", json!({"title": "x"})).await;
        assert_eq!(ghost.status, 409, "{}", ghost.text);
    }
    for world in worlds([posts().owner("user_id")]).await {
        let made = world.post(&user("ann"), "/posts", json!({"title": "x"})).await;
        assert!(made.data().get("userId").is_none());
        for key in ["userId", "user_id"] {
            let answer = world.post(&user("ann"), "/posts", json!({"title": "x", key: "ben"})).await;
            assert_eq!(answer.status, 422);
            assert_eq!(answer.faults()[key], "unknown_field");
        }
    }
}

/// If an empty change returned the record, the right to write would include the right to read.
#[tokio::test]
async fn a_writer_who_may_not_read_sees_only_what_they_wrote() {
    let guarded = by_role().soft_delete().field(Field::int("net_price")).field(Field::string("key_word"));
    for world in worlds([guarded]).await {
        let editor = user_with("ann", &["editor"]);
        let body = json!({"title": "canary", "netPrice": 7, "keyWord": "canary"});
        let made = world.post(&editor, "/posts", body).await;
        let path = made.header("location").to_owned();
        let writer = user_with("ben", &["writer"]);
        // A create shows no default and no entity tag, alone and in a batch.
        let sent = json!({"netPrice": 1});
        let created = world.post(&writer, "/posts", sent.clone()).await;
        assert_eq!((created.status.as_u16(), created.header("etag")), (201, ""), "{}", created.text);
        let batch = world.post(&writer, "/posts/_batch", json!({ "items": [sent] })).await;
        for shown in [created.data(), batch.json()["results"][0]["data"].clone()] {
            let keys: Vec<_> = shown.as_object().unwrap().keys().cloned().collect();
            assert_eq!(keys, ["id", "netPrice", "createdAt", "updatedAt"], "{} {shown}", world.name());
        }
        assert_eq!(world.get(&writer, created.header("location")).await.status, 403);
        for (sent, shown) in [
            (json!({}), vec!["id", "createdAt", "updatedAt"]),
            (json!({"net_price": 8}), vec!["id", "netPrice", "createdAt", "updatedAt"]),
            (
                json!({"netPrice": 9, "id": "x", "keyWord": "new"}),
                vec!["id", "netPrice", "keyWord", "createdAt", "updatedAt"],
            ),
        ] {
            let changed = world.patch(&writer, &path, &sent).await;
            let data = changed.data();
            assert_eq!(data.as_object().unwrap().keys().collect::<Vec<_>>(), shown, "{} {sent}", world.name());
            assert_eq!(changed.header("etag"), "", "it would tell what is stored");
            assert!(!changed.text.contains("canary"), "{}", changed.text);
        }
        let item = json!({"items": [{"id": made.id(), "netPrice": 9}]});
        let batch = world.patch(&writer, "/posts/_batch", item).await;
        let shown = batch.json()["results"][0]["data"].clone();
        let keys: Vec<_> = shown.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["id", "netPrice", "createdAt", "updatedAt"], "{}", batch.text);
        let whole = world.get(&editor, &path).await;
        assert_eq!((&whole.data()["netPrice"], &whole.data()["title"]), (&json!(9), &json!("canary")));
        let restored = world.post(&writer, &format!("{path}/_restore"), "{}").await;
        assert_eq!((restored.data().get("title"), restored.header("etag")), (None, ""));
        assert_eq!(world.delete(&writer, &path).await.status, 204);
        let restored = world.post(&writer, &format!("{path}/_restore"), "{}").await;
        assert_eq!((restored.data().get("title"), restored.header("etag")), (None, ""));
        assert_eq!(world.get(&writer, &path).await.status, 403);
    }
    for world in worlds([posts()]).await {
        let made = world.post(&user("ann"), "/posts", json!({"title": "canary"})).await;
        let token = service("bot", &["posts:write"]);
        let changed = world.patch(&token, made.header("location"), json!({})).await;
        assert!(!changed.text.contains("canary") && changed.status == 200, "{}", changed.text);
        let both = service("bot", &["posts:write", "posts:read"]);
        assert_eq!(world.patch(&both, made.header("location"), json!({})).await.data(), made.data());
    }
}
