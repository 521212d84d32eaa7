//! `/_batch`: writes to several entities as one, and conditions in batches of one.

use futures_util::future::join_all;
use gatewright_base::Identity;
use gatewright_entities::{Action, Entity, Field, OnDelete};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, service, user, worlds};

fn entities() -> [Entity; 4] {
    [
        Entity::new("projects").owner("user_id").field(Field::string("name").unique()),
        Entity::new("tasks")
            .table("todos")
            .owner("user_id")
            .field(Field::relation("project", "projects").on_delete(OnDelete::Cascade))
            .field(Field::string("title"))
            .field(Field::int("votes").max(100))
            .field(Field::json("meta")),
        Entity::new("notes").public().field(Field::string("title")),
        Entity::new("inner").crud(false).field(Field::string("title")),
    ]
}

async fn batch(world: &World, caller: &Identity, operations: Value) -> Answer {
    world.post(caller, "/_batch", json!({"operations": operations})).await
}

#[tokio::test]
async fn operations_on_several_entities_are_one_transaction() {
    for mut world in worlds(entities()).await {
        let ann = user("ann");
        let note = world.post(&anonymous(), "/notes", json!({"title": "old"})).await;
        world.event().await;
        let done = batch(&world, &ann, json!([
            {"op": "create", "entity": "projects", "data": {"name": "Moon"}, "as": "p"},
            {"op": "create", "entity": "tasks", "data": {"project": {"$ref": "p"}, "title": "Go", "meta": {"$ref": "p"}}, "as": "t"},
            {"op": "update", "entity": "todos", "id": {"$ref": "t"}, "data": {"votes": {"$add": 3}}},
            {"op": "update", "entity": "notes", "id": note.id(), "data": {"title": "new"}, "ifMatch": note.header("etag")},
            {"op": "upsert", "entity": "projects", "on": ["name"], "data": {"name": "Moon"}, "as": "same"},
            {"op": "create", "entity": "tasks", "data": {"project": {"$ref": "same"}, "title": "Back"}},
            {"op": "delete", "entity": "notes", "id": note.id()},
        ])).await;
        let json = done.json();
        assert_eq!((done.status.as_u16(), &json["committed"]), (200, &json!(true)), "{} {}", world.name(), done.text);
        let results = json["results"].as_array().unwrap();
        let named: Vec<_> = results.iter().map(|result| result["entity"].as_str().unwrap()).collect();
        assert_eq!(named, ["projects", "tasks", "todos", "notes", "projects", "tasks", "notes"]);
        let project = results[0]["data"]["id"].as_str().unwrap();
        assert_eq!(results[1]["data"]["project"], project);
        // A JSON field keeps an object that looks like a reference.
        assert_eq!(results[1]["data"]["meta"], json!({"$ref": "p"}));
        assert_eq!((&results[2]["data"]["votes"], &results[2]["data"]["id"]), (&json!(3), &results[1]["data"]["id"]));
        assert_eq!(results[4]["data"]["id"], project);
        assert_eq!(results[5]["data"]["project"], project);
        assert_eq!(results[6]["data"], json!({"id": note.id()}));
        let mut told = Vec::new();
        for _ in 0..7 {
            let (kind, table, _) = world.event().await;
            told.push(format!("{} {table}", kind.trim_start_matches("entity.")));
        }
        let expected = [
            "created projects",
            "created todos",
            "updated todos",
            "updated notes",
            "updated projects",
            "created todos",
            "deleted notes",
        ];
        assert_eq!(told, expected, "{}", world.name());
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn the_first_operation_that_fails_undoes_all() {
    for mut world in worlds(entities()).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let bens = world.post(&ben, "/projects", json!({"name": "Ben's"})).await;
        let note = world.post(&anonymous(), "/notes", json!({"title": "old"})).await;
        for _ in 0..2 {
            world.event().await;
        }
        let first = json!({"op": "create", "entity": "projects", "data": {"name": "Moon"}, "as": "p"});
        for (operation, status, code) in [
            (json!({"op": "create", "entity": "projects", "data": {"name": "Moon"}}), 409, "conflict"),
            (json!({"op": "update", "entity": "projects", "id": bens.id(), "data": {"name": "x"}}), 404, "not_found"),
            (json!({"op": "delete", "entity": "projects", "id": bens.id()}), 404, "not_found"),
            (json!({"op": "create", "entity": "tasks", "data": {"project": bens.id()}}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "tasks", "data": {"project": {"$ref": "q"}}}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "tasks", "data": {"title": {"$ref": "p"}}}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "inner", "data": {"title": "x"}}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "nosuch", "data": {"title": "x"}}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "users", "data": {}}), 422, "validation_failed"),
            (json!({"op": "read", "entity": "notes"}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "notes"}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "notes", "data": []}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "notes", "data": {}, "as": "p"}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "notes", "data": {}, "as": ""}), 422, "validation_failed"),
            (json!({"op": "create", "entity": "notes", "data": {}, "ifMatch": "*"}), 422, "validation_failed"),
            (json!({"op": "delete", "entity": "notes", "id": {"$ref": "n"}}), 422, "validation_failed"),
            (json!({"op": "delete", "entity": "notes", "id": {"$ref": "p"}}), 404, "not_found"),
            (
                json!({"op": "update", "entity": "notes", "id": note.id(), "data": {}, "ifMatch": "\"other\""}),
                412,
                "precondition_failed",
            ),
            (
                json!({"op": "delete", "entity": "notes", "id": note.id(), "if_match": "\"other\""}),
                412,
                "precondition_failed",
            ),
            (json!({"op": "upsert", "entity": "notes", "on": ["title"], "data": {"title": "x"}}), 400, "bad_request"),
            (json!({"op": "upsert", "entity": "projects", "on": ["name"], "data": {"name": "Ben's"}}), 409, "conflict"),
            (json!(7), 400, "bad_request"),
        ] {
            let after = json!({"op": "create", "entity": "notes", "data": {}});
            let answer = batch(&world, &ann, json!([first, operation, after])).await;
            let json = answer.json();
            assert_eq!(answer.status, status, "{} {operation}: {}", world.name(), answer.text);
            let undone = json!({"index": 0, "entity": "projects", "rolledBack": true});
            assert_eq!((&json["committed"], &json["results"][0]), (&json!(false), &undone));
            assert_eq!(json["results"][1]["error"]["code"], code, "{operation}");
            assert_eq!(json["results"][2], json!({"index": 2, "entity": "notes", "skipped": true}));
        }
        for (body, status) in [
            (json!({}), 422),
            (json!({"operations": 7}), 422),
            (json!({"operations": [], "more": 1}), 422),
            (json!({"operations": vec![first.clone(); 101]}), 422),
            (json!([]), 400),
        ] {
            assert_eq!(world.post(&ann, "/_batch", &body).await.status, status, "{body}");
        }
        assert_eq!(batch(&world, &ann, json!([])).await.json(), json!({"committed": true, "results": []}));
        assert_eq!((world.rows("projects").await, world.rows("todos").await, world.rows("notes").await), (1, 0, 1));
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn each_operation_needs_its_own_rights() {
    let mine = Entity::new("posts").access(Action::Create, "posts:write").field(Field::string("title"));
    let open = Entity::new("notes").public().field(Field::string("title"));
    for world in worlds([mine, open]).await {
        let note = json!({"op": "create", "entity": "notes", "data": {"title": "n"}});
        let post = json!({"op": "create", "entity": "posts", "data": {"title": "p"}});
        let asked = json!([note, post]);
        let refused = batch(&world, &anonymous(), asked.clone()).await;
        assert_eq!(
            (refused.status.as_u16(), refused.header("www-authenticate").is_empty()),
            (401, false),
            "{}",
            refused.text
        );
        assert_eq!(batch(&world, &user("ann"), asked.clone()).await.status, 403);
        for (scopes, status) in [(&["notes:write"][..], 403), (&["notes:write", "posts:write"], 403)] {
            // A service account has no roles here, so only the scope differs.
            let answer = batch(&world, &service("s", scopes), asked.clone()).await;
            assert_eq!(answer.status, status, "{scopes:?} {}", answer.text);
        }
        assert_eq!(batch(&world, &service("s", &["notes:write"]), json!([note])).await.status, 200, "{}", world.name());
        assert_eq!(batch(&world, &anonymous(), json!([note])).await.status, 200);
        assert_eq!((world.rows("notes").await, world.rows("posts").await), (2, 0), "{}", world.name());
    }
}

/// A reference is an id like any other: it opens no record of another tenant.
#[tokio::test]
async fn a_reference_stays_within_the_tenant() {
    let projects = Entity::new("projects").multi_tenant().field(Field::string("name").unique());
    let tasks = Entity::new("tasks").multi_tenant().field(Field::relation("project", "projects"));
    let shared =
        Entity::new("shared").field(Field::string("name").unique()).field(Field::relation("project", "projects"));
    for world in worlds([projects, tasks, shared]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        world.join("one", &ann).await;
        world.join("two", &ben).await;
        let ask = async |caller: &Identity, tenant: &str, operations: Value| {
            let ask = world.ask(caller, Method::POST, "/_batch").tenant(tenant);
            ask.json(json!({"operations": operations})).send().await
        };
        let made = ask(&ann, "one", json!([{"op": "create", "entity": "projects", "data": {"name": "Moon"}}])).await;
        let project = made.json()["results"][0]["data"]["id"].clone();
        let upsert = json!({"op": "upsert", "entity": "projects", "on": ["name"], "data": {"name": "Moon"}, "as": "p"});
        let task = json!({"op": "create", "entity": "tasks", "data": {"project": {"$ref": "p"}}});
        // In the other tenant the name is free: the reference is to a record of its own.
        let own = ask(&ben, "two", json!([upsert, task])).await;
        assert_eq!(own.status, 200, "{} {}", world.name(), own.text);
        assert_ne!(own.json()["results"][1]["data"]["project"], project);
        let found = ask(&ann, "one", json!([upsert, task])).await;
        assert_eq!(found.json()["results"][1]["data"]["project"], project, "{}", world.name());
        for link in [
            json!({"op": "create", "entity": "tasks", "data": {"project": project}}),
            json!({"op": "create", "entity": "shared", "data": {"project": project}}),
            json!({"op": "update", "entity": "projects", "id": project, "data": {"name": "x"}}),
        ] {
            let refused = ask(&ben, "two", json!([upsert, link])).await;
            assert!([404, 422].contains(&refused.status.as_u16()), "{} {}", world.name(), refused.text);
        }
        // A record that is found by an upsert and refers to a project of the other tenant gives its own id, not that one.
        ask(&ann, "one", json!([{"op": "create", "entity": "shared", "data": {"name": "s", "project": project}}]))
            .await;
        let through = ask(&ben, "two", json!([
            {"op": "upsert", "entity": "shared", "on": ["name"], "data": {"name": "s"}, "resolution": "ignore", "as": "s"},
            {"op": "create", "entity": "tasks", "data": {"project": {"$ref": "s"}}},
        ])).await;
        assert_eq!(through.status, 422, "{} {}", world.name(), through.text);
        let stranger = ask(&ben, "one", json!([upsert])).await;
        assert_eq!(stranger.status, 403, "{}", stranger.text);
    }
}

#[tokio::test]
async fn items_of_a_batch_have_conditions() {
    for mut world in worlds(entities()).await {
        let mut made = Vec::new();
        for title in ["a", "b"] {
            made.push(world.post(&anonymous(), "/notes", json!({"title": title})).await);
            world.event().await;
        }
        let (a, b) = (&made[0], &made[1]);
        let stale = json!({"items": [
            {"id": a.id(), "title": "A", "ifMatch": a.header("etag")},
            {"id": b.id(), "title": "B", "if_match": a.header("etag")},
        ]});
        let refused = send(&world, Method::PATCH, stale).await;
        assert_eq!(refused.status, 412, "{} {}", world.name(), refused.text);
        assert_eq!(refused.json()["results"][1]["error"]["code"], "precondition_failed");
        let fresh = json!({"items": [
            {"id": a.id(), "title": "A", "ifMatch": a.header("etag")},
            {"id": b.id(), "title": "B", "ifMatch": "*"},
        ]});
        let changed = send(&world, Method::PATCH, fresh.clone()).await;
        assert_eq!(changed.status, 200, "{} {}", world.name(), changed.text);
        for _ in 0..2 {
            assert_eq!(world.event().await.0, "entity.updated");
        }
        assert_eq!(send(&world, Method::PATCH, fresh).await.status, 412);
        for (body, status) in [
            (json!({"items": [{"id": a.id(), "ifMatch": a.header("etag")}]}), 412),
            (json!({"items": [{"id": a.id(), "ifMatch": 7}]}), 422),
            (json!({"items": [{"id": a.id(), "ifMatch": "*", "if_match": "*"}]}), 422),
            (json!({"items": [{"id": a.id(), "title": "A"}]}), 422),
            (json!({"items": [{"id": a.id()}], "ids": [b.id()]}), 422),
            (json!({"items": [a.id()]}), 400),
        ] {
            let refused = send(&world, Method::DELETE, body.clone()).await;
            assert_eq!(refused.status, status, "{} {body}: {}", world.name(), refused.text);
        }
        let etag = world.get(&anonymous(), &format!("/notes/{}", a.id())).await.header("etag").to_owned();
        let gone =
            send(&world, Method::DELETE, json!({"items": [{"id": a.id(), "ifMatch": etag}, {"id": b.id()}]})).await;
        assert_eq!(gone.status, 200, "{} {}", world.name(), gone.text);
        assert_eq!(gone.json()["results"][1]["data"], json!({"id": b.id()}));
        for _ in 0..2 {
            assert_eq!(world.event().await.0, "entity.deleted");
        }
        world.no_more_events().await;
    }
}

async fn send(world: &World, method: Method, body: Value) -> Answer {
    world.ask(&anonymous(), method, "/notes/_batch").json(body).send().await
}

/// Batches that change the same rows of two entities, in opposite orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_parallel_batches_add_twenty_to_both_entities() {
    let counter = |name: &str| Entity::new(name).public().field(Field::int("n"));
    for world in worlds([counter("lefts"), counter("rights")]).await {
        let left = world.post(&anonymous(), "/lefts", "{}").await.id();
        let right = world.post(&anonymous(), "/rights", "{}").await.id();
        let add = async |number: usize| {
            let mut operations = [("lefts", &left), ("rights", &right)]
                .map(|(entity, id)| json!({"op": "update", "entity": entity, "id": id, "data": {"n": {"$add": 1}}}));
            if number.is_multiple_of(2) {
                operations.reverse();
            }
            batch(&world, &anonymous(), json!(operations)).await.status.as_u16()
        };
        assert_eq!(join_all((0..20).map(add)).await, [200; 20], "{}", world.name());
        for path in [format!("/lefts/{left}"), format!("/rights/{right}")] {
            assert_eq!(world.get(&anonymous(), &path).await.data()["n"], 20, "{}", world.name());
        }
    }
}

/// References in operators, to a new record and to one that an upsert finds.
#[tokio::test]
async fn a_batch_appends_and_removes_records_that_it_creates() {
    let labels = Entity::new("labels").public().field(Field::string("name").unique());
    let tasks = Entity::new("tasks").public().field(Field::relation("labels", "labels").many());
    for world in worlds([labels, tasks]).await {
        let old = world.post(&anonymous(), "/labels", json!({"name": "old"})).await.id();
        let task = world.post(&anonymous(), "/tasks", json!({"labels": [old]})).await.id();
        let batch = json!({"operations": [
            {"op": "create", "entity": "labels", "data": {"name": "new"}, "as": "n"},
            {"op": "upsert", "entity": "labels", "on": ["name"], "data": {"name": "old"}, "as": "o"},
            {"op": "update", "entity": "tasks", "id": task, "data": {"labels": {"$append": [{"$ref": "n"}]}}},
            {"op": "update", "entity": "tasks", "id": task, "data": {"labels": {"$remove": [{"$ref": "o"}]}}},
            {"op": "update", "entity": "tasks", "id": task, "data": {"labels": {"$append": [{"$ref": "x"}]}}},
        ]});
        let send = async |batch: &Value| world.ask(&user("ann"), Method::POST, "/_batch").json(batch).send().await;
        let refused = send(&batch).await;
        assert!(refused.text.contains("is not the name of an earlier create or upsert"), "{}", refused.text);
        let mut batch = batch.clone();
        batch["operations"].as_array_mut().unwrap().pop();
        let done = send(&batch).await;
        assert_eq!(done.status, 200, "{} {}", world.name(), done.text);
        let done = done.json();
        let id = |at: usize| done["results"][at]["data"]["id"].clone();
        assert_eq!(done["results"][2]["data"]["labels"], json!([old, id(0)]), "{} {done}", world.name());
        assert_eq!(done["results"][3]["data"]["labels"], json!([id(0)]), "{} {done}", world.name());
    }
}
