//! `POST /{table}?on_conflict=…`: a create, or a change of the record that has the same values.

use async_trait::async_trait;
use futures_util::future::join_all;
use gatewright_base::Identity;
use gatewright_entities::hooks::{EntityHooks, Values, Writing};
use gatewright_entities::operations::Error;
use gatewright_entities::{Action, Call, Entity, Field, Record};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, service, user, worlds, worlds_with};

fn counters() -> Entity {
    Entity::new("counters")
        .public()
        .client_ids()
        .field(Field::string("slug").unique())
        .field(Field::string("code").unique())
        .field(Field::string("title").required())
        .field(Field::int("votes").max(100))
}

async fn upsert(world: &World, caller: &Identity, path: &str, body: Value) -> Answer {
    world.post(caller, path, body).await
}

#[tokio::test]
async fn an_upsert_creates_and_then_changes() {
    for mut world in worlds([counters()]).await {
        let path = "/counters?on_conflict=slug";
        let first =
            upsert(&world, &anonymous(), path, json!({"slug": "a", "title": "One", "votes": {"$add": 2}})).await;
        assert_eq!(
            (first.status.as_u16(), &first.data()["votes"]),
            (201, &json!(2)),
            "{} {}",
            world.name(),
            first.text
        );
        let location = format!("/counters/{}", first.id());
        assert_eq!(first.header("location"), location);
        assert_eq!(world.event().await.0, "entity.created");
        // Only what the body names changes, and what a create requires need not be there.
        let second = upsert(&world, &anonymous(), path, json!({"slug": "a", "votes": {"$add": 3}})).await;
        let data = second.data();
        assert_eq!((second.status.as_u16(), &data["votes"], &data["title"]), (200, &json!(5), &json!("One")));
        assert_eq!((second.id(), second.header("location")), (first.id(), ""));
        assert_eq!(second.header("etag"), world.get(&anonymous(), &location).await.header("etag"));
        assert_eq!(world.event().await.0, "entity.updated");
        let left = upsert(
            &world,
            &anonymous(),
            "/counters?on_conflict=slug&resolution=ignore",
            json!({"slug": "a", "title": "x"}),
        )
        .await;
        assert_eq!((left.status.as_u16(), left.data()), (200, data), "{}", world.name());
        // Nulls differ from each other.
        for number in 0..2 {
            let made = upsert(&world, &anonymous(), path, json!({"slug": null, "title": number.to_string()})).await;
            assert_eq!(made.status, 201, "{}", made.text);
            assert_eq!(world.event().await.0, "entity.created");
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn an_upsert_is_checked_as_what_it_turns_out_to_be() {
    for mut world in worlds([counters()]).await {
        let made =
            upsert(&world, &anonymous(), "/counters", json!({"slug": "a", "code": "x", "title": "One", "votes": 99}))
                .await;
        upsert(&world, &anonymous(), "/counters", json!({"slug": "b", "code": "y", "title": "Two"})).await;
        world.event().await;
        world.event().await;
        let new = "0190d2b3-0000-7000-8000-00000000000a";
        for (path, body, status, faults) in [
            ("on_conflict=slug", json!({"slug": "new"}), 422, json!({"title": "required"})),
            ("on_conflict=slug", json!({"title": "x"}), 422, json!({"slug": "required"})),
            ("on_conflict=slug", json!({"slug": 7, "title": "x"}), 422, json!({"slug": "type"})),
            ("on_conflict=slug", json!({"slug": "a", "votes": {"$add": 2}}), 422, json!({"votes": "max"})),
            (
                "on_conflict=slug",
                json!({"slug": "new", "title": "x", "votes": {"$add": 101}}),
                422,
                json!({"votes": "max"}),
            ),
            ("on_conflict=slug", json!({"slug": "a", "nosuch": 1}), 422, json!({"nosuch": "unknown_field"})),
            ("on_conflict=slug", json!({"slug": "a", "code": "y"}), 409, json!({"code": "unique"})),
            ("on_conflict=slug", json!({"slug": "new", "code": "y", "title": "x"}), 409, json!({"code": "unique"})),
        ] {
            let refused = upsert(&world, &anonymous(), &format!("/counters?{path}"), body.clone()).await;
            assert_eq!(refused.status, status, "{} {body}: {}", world.name(), refused.text);
            assert_eq!(json!(refused.faults()), faults, "{} {body}", world.name());
        }
        for query in [
            "on_conflict=title",
            "on_conflict=",
            "on_conflict=slug,code",
            "on_conflict=nosuch",
            "on_conflict=slug&on_conflict=code",
            "on_conflict=slug&resolution=merge",
            "resolution=ignore",
        ] {
            let body = json!({"slug": "z", "code": "z", "title": "z"});
            let refused = upsert(&world, &anonymous(), &format!("/counters?{query}"), body).await;
            assert_eq!(refused.status, 400, "{} {query}: {}", world.name(), refused.text);
        }
        // The id of a record does not change; a new one gets that of the body.
        let kept = upsert(&world, &anonymous(), "/counters?on_conflict=slug", json!({"slug": "a", "id": new})).await;
        assert_eq!((kept.status.as_u16(), kept.id()), (200, made.id()));
        let taken = json!({"slug": "c", "title": "x", "id": made.id()});
        let taken = upsert(&world, &anonymous(), "/counters?on_conflict=slug", taken).await;
        assert_eq!((taken.status.as_u16(), &taken.json()["code"]), (409, &json!("id_taken")));
        world.event().await;
        world.no_more_events().await;
    }
}

/// A record that the caller may not read is neither changed nor shown: the answer is that of a create.
#[tokio::test]
async fn an_upsert_does_not_reach_through_the_record_of_somebody_else() {
    let owned =
        Entity::new("owned").owner("user_id").field(Field::string("slug").unique()).field(Field::string("title"));
    let ruled = Entity::new("ruled")
        .field(Field::string("slug").unique())
        .field(Field::string("title"))
        .field(Field::relation("author", "users"))
        .rule(Action::Read, "author = @me || title = 'shared'")
        .rule(Action::Create, "author = @me")
        .rule(Action::Update, "author = @me");
    for mut world in worlds([owned, ruled]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        for path in ["/owned", "/ruled"] {
            let of = |who: &str, title: &str| match path {
                "/owned" => json!({"slug": "a", "title": title}),
                _ => json!({"slug": "a", "title": title, "author": who}),
            };
            let made = world.post(&ann, path, of("ann", "canary")).await;
            assert_eq!(made.status, 201, "{}", made.text);
            world.event().await;
            let plain = world.post(&ben, path, of("ben", "x")).await;
            for query in ["on_conflict=slug", "on_conflict=slug&resolution=ignore"] {
                let through = world.post(&ben, &format!("{path}?{query}"), of("ben", "x")).await;
                assert_eq!((through.status.as_u16(), &through.text), (409, &plain.text), "{} {path}", world.name());
            }
            let items = json!({"items": [of("ben", "x")]});
            let batch =
                world.ask(&ben, Method::POST, &format!("{path}/_batch?on_conflict=slug")).json(items).send().await;
            assert_eq!(batch.status, 409, "{}", batch.text);
            assert_eq!(world.get(&ann, &format!("{path}/{}", made.id())).await.data(), made.data());
        }
        world.no_more_events().await;
        // A record that the caller may read but not change: 403, and `ignore` needs nothing more than reading.
        world.patch(&ann, &format!("/ruled/{}", id_of(&world, &ann, "/ruled").await), json!({"title": "shared"})).await;
        let body = json!({"slug": "a", "author": "ben"});
        let refused = world.post(&ben, "/ruled?on_conflict=slug", &body).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        let left = world.post(&ben, "/ruled?on_conflict=slug&resolution=ignore", &body).await;
        assert_eq!((left.status.as_u16(), &left.data()["author"]), (200, &json!("ann")), "{}", world.name());
        // The rule of a create holds for a new record.
        let other = json!({"slug": "b", "author": "ann"});
        assert_eq!(world.post(&ben, "/ruled?on_conflict=slug", other).await.status, 403, "{}", world.name());
    }
}

async fn id_of(world: &World, caller: &Identity, path: &str) -> String {
    world.get(caller, path).await.json()["data"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn rights_are_those_of_the_write_that_happens() {
    let posts = Entity::new("posts")
        .access(Action::Update, "posts:audit")
        .field(Field::string("slug").unique())
        .field(Field::int("votes"));
    for world in worlds([posts]).await {
        let path = "/posts?on_conflict=slug";
        assert_eq!(upsert(&world, &anonymous(), path, json!({"slug": "a"})).await.status, 401);
        assert_eq!(upsert(&world, &user("ann"), path, json!({"slug": "a"})).await.status, 201, "{}", world.name());
        assert_eq!(upsert(&world, &user("ann"), path, json!({"slug": "a"})).await.status, 403, "{}", world.name());
        let ignored = upsert(&world, &user("ann"), &format!("{path}&resolution=ignore"), json!({"slug": "a"})).await;
        assert_eq!(ignored.status, 200);
        // Without the right to read, an existing record is a taken value.
        let writer = service("w", &["posts:write"]);
        assert_eq!(upsert(&world, &writer, path, json!({"slug": "a"})).await.status, 409, "{}", world.name());
        let reader = service("r", &["posts:read"]);
        assert_eq!(upsert(&world, &reader, path, json!({"slug": "b"})).await.status, 403, "{}", world.name());
    }
}

#[tokio::test]
async fn records_of_other_tenants_and_in_the_trash_are_no_conflict() {
    let notes = Entity::new("notes").multi_tenant().soft_delete().field(Field::string("slug").unique());
    for world in worlds([notes]).await {
        let ann = user("ann");
        let mut made = Vec::new();
        for tenant in ["one", "two"] {
            world.join(tenant, &ann).await;
            let post =
                || world.ask(&ann, Method::POST, "/notes?on_conflict=slug").tenant(tenant).json(json!({"slug": "a"}));
            let first = post().send().await;
            assert_eq!(first.status, 201, "{} {}", world.name(), first.text);
            assert_eq!((post().send().await.status.as_u16(), post().send().await.id()), (200, first.id()));
            made.push(first.id());
            let gone = world.ask(&ann, Method::DELETE, &format!("/notes/{}", first.id())).tenant(tenant).send().await;
            assert_eq!(gone.status, 204);
            let again = post().send().await;
            assert_eq!(again.status, 201, "{} {}", world.name(), again.text);
            assert!(!made.contains(&again.id()));
        }
    }
}

#[tokio::test]
async fn the_owner_may_be_part_of_what_is_unique() {
    let settings = Entity::new("settings")
        .owner("user_id")
        .field(Field::relation("user_id", "users").unique())
        .field(Field::int("n"));
    for world in worlds([settings]).await {
        for (caller, sum) in [("ann", 1), ("ann", 2), ("ben", 1), ("ann", 3)] {
            let path = "/settings?on_conflict=userId";
            let answer = upsert(&world, &user(caller), path, json!({"n": {"$add": 1}})).await;
            assert_eq!(answer.data()["n"], sum, "{} {}", world.name(), answer.text);
        }
        assert_eq!(world.rows("settings").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_parallel_upserts_create_one_record_and_count_twenty() {
    let ruled = Entity::new("ruled")
        .field(Field::string("slug").unique())
        .field(Field::int("votes"))
        .field(Field::string("title"))
        .rule(Action::Update, "votes < 1000");
    for world in worlds([counters(), ruled]).await {
        for (path, caller) in [("/counters", anonymous()), ("/ruled", user("ann"))] {
            let add = async |number: usize| {
                let body = json!({"slug": "one", "title": "One", "votes": {"$add": 1}});
                if number.is_multiple_of(4) {
                    let items = json!({"items": [body]});
                    let ask = world.ask(&caller, Method::POST, &format!("{path}/_batch?on_conflict=slug"));
                    return ask.json(items).send().await.status.as_u16();
                }
                upsert(&world, &caller, &format!("{path}?on_conflict=slug"), body).await.status.as_u16()
            };
            let statuses = join_all((0..20).map(add)).await;
            assert!(statuses.iter().all(|status| [200, 201].contains(status)), "{} {statuses:?}", world.name());
            assert!(statuses.iter().filter(|status| **status == 201).count() <= 1, "{} {statuses:?}", world.name());
            let list = world.get(&caller, path).await.json();
            assert_eq!((&list["total"], &list["data"][0]["votes"]), (&json!(1), &json!(20)), "{} {path}", world.name());
        }
    }
}

/// Hooks of a create run for a new record, those of an update for one that exists. A hook that hides a record from reads
/// hides it from upserts too.
#[tokio::test]
async fn an_upsert_runs_the_hooks_of_what_happens() {
    struct Notes;
    #[async_trait]
    impl EntityHooks for Notes {
        async fn before_create(&self, _: Writing<'_>, values: &mut Values) -> Result<(), Error> {
            values.set("title", "made")
        }
        async fn before_update(&self, _: Writing<'_>, _: &Record, values: &mut Values) -> Result<(), Error> {
            values.set("title", "changed")
        }
        async fn before_get(&self, call: &Call, _: &str) -> Result<(), Error> {
            if call.identity.principal().is_some() { Ok(()) } else { Err(Error::NotFound) }
        }
    }
    let notes = Entity::new("notes").public().field(Field::string("slug").unique()).field(Field::string("title"));
    for world in worlds_with([notes], |builder| builder.entity_hooks("notes", Notes)).await {
        let path = "/notes?on_conflict=slug";
        for title in ["made", "changed"] {
            let answer = upsert(&world, &user("ann"), path, json!({"slug": "a"})).await;
            assert_eq!(answer.data()["title"], title, "{}", world.name());
        }
        let operation = json!({"op": "upsert", "entity": "notes", "on": ["slug"], "data": {"slug": "b"}});
        let batch = world.post(&user("ann"), "/_batch", json!({"operations": [operation, operation]})).await.json();
        let titles = [&batch["results"][0]["data"]["title"], &batch["results"][1]["data"]["title"]];
        assert_eq!(titles, [&json!("made"), &json!("changed")], "{}", world.name());
        let hidden = upsert(&world, &anonymous(), path, json!({"slug": "a"})).await;
        assert_eq!(hidden.status, 409, "{} {}", world.name(), hidden.text);
    }
}
