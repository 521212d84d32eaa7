//! Entities without HTTP: a program's calls to a `Table` behave like the endpoints for the same caller.

use gatewright_base::Identity;
use gatewright_entities::operations::{Body, Error, IfMatch, Transaction};
use gatewright_entities::{Action, Call, Entity, Field, ListQuery, RecordQuery};
use gatewright_http::Problem;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::support::{World, anonymous, service, tenant_id, user, user_with, worlds};

/// Owners, permissions, a rule on what others may see, and a trash.
fn entities() -> [Entity; 3] {
    [
        Entity::new("notes").owner("user_id").soft_delete().field(Field::string("title").required().unique()),
        Entity::new("posts")
            .access(Action::Read, "posts:read")
            .access(Action::Create, "posts:write")
            .access(Action::Update, "posts:write")
            .access(Action::Delete, "posts:write")
            .field(Field::string("title").max(20)),
        Entity::new("tasks")
            .public()
            .rule(Action::Read, "state != 'secret'")
            .rule(Action::Create, "state = 'open'")
            .rule(Action::Update, "state = 'open'")
            .rule(Action::Delete, "@me = 'ann'")
            .field(Field::string("state")),
    ]
}

fn callers() -> [(&'static str, Identity); 7] {
    [
        ("nobody", anonymous()),
        ("ann", user("ann")),
        ("ben", user("ben")),
        ("editor", user_with("ann", &["editor"])),
        ("writer", user_with("ann", &["writer"])),
        ("token to read", service("robot", &["posts:read"])),
        ("token to write", service("robot", &["posts:write", "notes:write"])),
    ]
}

/// The status that an outcome has over HTTP.
fn status<T>(done: Result<T, Error>, ok: u16) -> u16 {
    done.map_or_else(|error| Problem::from(error).status().as_u16(), |_| ok)
}

/// Inserts a record without any check.
async fn plant(world: &World, id: &str, table: &str, fields: &str, values: &str) {
    let now = "2026-01-02T03:04:05Z";
    let sql = format!(
        "INSERT INTO {table} (id, created_at, updated_at, {fields}) VALUES ('{id}', '{now}', '{now}', {values})"
    );
    let time = |sql: &str| sql.replace(&format!("'{now}'"), "?1");
    let at = gatewright_db::Value::Time(now.parse().unwrap());
    world.db().execute(time(&sql), vec![at]).await.unwrap();
}

#[tokio::test]
async fn library_calls_answer_like_the_endpoints_for_the_same_caller() {
    for world in worlds(entities()).await {
        plant(&world, "n1", "notes", "title, user_id", "'first', 'ann'").await;
        plant(&world, "p1", "posts", "title", "'first'").await;
        for (id, state) in [("t1", "open"), ("t2", "closed"), ("t3", "secret")] {
            plant(&world, id, "tasks", "state", &format!("'{state}'")).await;
        }
        for (who, caller) in callers() {
            let call = Call::from(&caller);
            for (table, id, body) in [
                ("notes", "n1", json!({ "title": "first" })),
                ("posts", "p1", json!({ "title": "x".repeat(21) })),
                ("tasks", "t1", json!({ "state": "secret" })),
                ("tasks", "t2", json!({ "state": "open" })),
                ("tasks", "t3", json!({ "state": "open" })),
                ("notes", "nowhere", json!({ "nosuch": 1 })),
            ] {
                let (of, path) = (world.entities.table(table).unwrap(), format!("/{table}/{id}"));
                let place = format!("{}, {who}, {path}", world.name());
                let stale = || Some(IfMatch::parse("\"stale\""));

                let read = world.get(&caller, &path).await;
                let got = of.get(&call, id).await;
                if let Ok(record) = &got {
                    assert_eq!(record.read::<Value>().unwrap(), read.data(), "{place}");
                }
                assert_eq!(status(got, 200), read.status.as_u16(), "{place}");
                let viewed = of.view(&call, id, &RecordQuery::new().fields(["id"])).await;
                assert_eq!(status(viewed, 200), read.status.as_u16(), "{place}");

                let listed = world.get(&caller, &format!("/{table}")).await;
                let list = of.list(&call, &ListQuery::new()).await;
                if let Ok(list) = &list {
                    assert_eq!(Value::from(list.records::<Value>().unwrap()), listed.data(), "{place}");
                }
                assert_eq!(status(list, 200), listed.status.as_u16(), "{place}");

                let changing = world.ask(&caller, Method::PATCH, &path).header("if-match", "\"stale\"").json(&body);
                let expected = changing.send().await.status.as_u16();
                assert_eq!(status(of.update(&call, id, &body, stale()).await, 200), expected, "{place}");
                let removing = world.ask(&caller, Method::DELETE, &path).header("if-match", "\"stale\"");
                let expected = removing.send().await.status.as_u16();
                assert_eq!(status(of.delete(&call, id, stale()).await, 204), expected, "{place}");
            }
            // Refusals are the same; records are created twice, and counted.
            for (table, body) in [
                ("posts", json!({ "title": "x" })),
                ("posts", json!({ "titel": "x" })),
                ("tasks", json!({ "state": "open" })),
                ("tasks", json!({ "state": "closed" })),
                ("notes", json!({ "title": "first" })),
            ] {
                let place = format!("{}, {who}, {table} {body}", world.name());
                let before = world.rows(table).await;
                let posted = world.post(&caller, &format!("/{table}"), &body).await.status.as_u16();
                let made = status(world.entities.table(table).unwrap().create(&call, &body).await, 201);
                assert_eq!(made, posted, "{place}");
                assert_eq!(world.rows(table).await - before, if made == 201 { 2 } else { 0 }, "{place}");
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_table_is_a_typed_error_with_a_suggestion() {
    for mut world in worlds(entities()).await {
        let unknown = world.entities.table("post").unwrap_err();
        assert_eq!((&*unknown.name, unknown.meant.as_deref()), ("post", Some("posts")));
        assert_eq!(unknown.to_string(), "there is no entity \"post\"; did you mean \"posts\"?");
        for name in ["", "users", "posts; DROP TABLE posts", "gatewright_migrations"] {
            assert_eq!(world.entities.table(name).unwrap_err().name, name);
        }
        // In a transaction it rolls back the earlier operations.
        let call = Call::from(user("ann"));
        let failed = world.entities.transaction(async move |transaction: &Transaction<'_>| {
            transaction.table("notes")?.create(&call, json!({ "title": "undone" })).await?;
            transaction.table("note")?.create(&call, json!({ "title": "never" })).await
        });
        let failed = failed.await.unwrap_err();
        assert!(matches!(&failed, Error::UnknownTable(unknown) if unknown.name == "note"), "{failed}");
        assert_eq!(Problem::from(failed).status(), 500, "it is the program's mistake, and no caller's");
        assert_eq!(world.rows("notes").await, 0, "{}", world.name());
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn an_entity_is_found_by_its_name_before_any_table() {
    let entities = [Entity::new("a").table("c"), Entity::new("b").table("a"), Entity::new("c").table("d")];
    for world in worlds(entities.map(|entity| entity.public().field(Field::string("title")))).await {
        for (name, table) in [("a", "c"), ("b", "a"), ("c", "d"), ("d", "d")] {
            assert_eq!(world.entities.table(name).unwrap().plan().table(), table, "{name}");
        }
        let call = Call::from(anonymous());
        world.entities.table("a").unwrap().create(&call, "{}").await.unwrap();
        let rows = (world.rows("c").await, world.rows("a").await, world.rows("d").await);
        assert_eq!(rows, (1, 0, 0), "{}: a table writes where its own entity is", world.name());
        let names: Vec<String> = world.entities.tables().map(|table| table.plan().name().to_owned()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn a_query_by_methods_lists_the_same_as_its_query_string() {
    let items = Entity::new("items")
        .public()
        .soft_delete()
        .search_fields(["name"])
        .field(Field::string("name"))
        .field(Field::int("rank"))
        .field(Field::relation("parent", "items"));
    for world in worlds([items]).await {
        let mut parent = Value::Null;
        for rank in 0..12 {
            let name = if rank % 2 == 0 { "even" } else { "odd" };
            let made =
                world.post(&anonymous(), "/items", json!({ "name": name, "rank": rank, "parent": parent })).await;
            parent = made.data()["id"].clone();
        }
        world.delete(&anonymous(), &format!("/items/{}", parent.as_str().unwrap())).await;
        let (items, call, case) =
            (world.entities.table("items").unwrap(), Call::from(anonymous()), world.entities.json_case());
        let query = ListQuery::new;
        for (built, read) in [
            (query(), ""),
            (query().condition("name", "odd").condition("rank_gte", 4), "name=odd&rank_gte=4"),
            (
                query().filter("rank > 3 && name = 'even'").sort("-rank"),
                "filter=rank%3E3%26%26name%3D'even'&sort=-rank",
            ),
            (query().search("OD").limit(3).page(2), "q=OD&limit=3&page=2"),
            (query().fields(["rank", "id"]).include(["parent"]).limit(2), "fields=rank,id&include=parent&limit=2"),
            (query().with_tags().limit(1), "etag=true&limit=1"),
            (query().sort("rank").after("").limit(2), "sort=rank&cursor=&limit=2"),
            (query().sort("rank").before("").limit(2), "sort=rank&cursor=&direction=backward&limit=2"),
            (query().only_trash(), "trashed=only"),
            (query().with_trash().count(gatewright_entities::Count::None), "trashed=with&total=none"),
            (query().count(gatewright_entities::Count::Estimate), "total=estimate"),
            (
                query().group_by(["name"]).sum(["rank"]).min(["rank"]).max(["rank"]).avg(["rank"]),
                "group=name&sum=rank&min=rank&max=rank&avg=rank",
            ),
        ] {
            let answer = world.get(&anonymous(), &format!("/items?{read}")).await;
            let list = items.list(&call, &built).await.unwrap_or_else(|error| panic!("{read}: {error}"));
            let list: Value = serde_json::from_slice(&list.to_json(case)).unwrap();
            assert_eq!(list, answer.json(), "{}: {read}", world.name());
            assert!(!answer.data().as_array().unwrap().is_empty(), "{read}");
        }
    }
}

#[tokio::test]
async fn query_errors_are_shown_only_to_callers_who_may_list() {
    for world in worlds(entities()).await {
        let notes = world.entities.table("notes").unwrap();
        for wrong in [
            ListQuery::new().limit(0),
            ListQuery::new().condition("nosuch", 1),
            ListQuery::new().condition("title", "a").condition("title", "b"),
            ListQuery::new().fields(["nosuch"]),
            ListQuery::new().sort("title").page(1).after("x"),
            ListQuery::new().filter("title ="),
            ListQuery::new().group_by(["title"]).limit(3),
            ListQuery::new().after("forged"),
        ] {
            let refused = notes.list(&Call::from(anonymous()), &wrong).await;
            assert!(matches!(refused, Err(Error::Refused(_))), "{wrong:?} {refused:?}");
            let told = notes.list(&Call::from(user("ann")), &wrong).await;
            assert!(matches!(told, Err(Error::Query(_))), "{} {wrong:?} {told:?}", world.name());
        }
        let unknown = notes.view(&Call::from(user("ann")), "n1", &RecordQuery::parse("limit=1")).await;
        assert!(matches!(unknown, Err(Error::Query(_))), "{unknown:?}");
    }
}

#[tokio::test]
async fn a_tenants_records_are_open_only_to_its_members() {
    let posts = Entity::new("posts").multi_tenant().field(Field::string("title"));
    for world in worlds([posts]).await {
        world.join("acme", &user("ann")).await;
        let (posts, ann) = (world.entities.table("posts").unwrap(), Call::from(user("ann")));
        let acme = ann.clone().in_tenant(tenant_id("acme"));
        let post = posts.create(&acme, json!({ "title": "ours" })).await.unwrap();
        assert_eq!(post.tenant().map(|tenant| &**tenant), Some("acme"));
        assert!(posts.get(&acme, post.id()).await.is_ok());
        for (call, expected) in [
            (ann.clone(), 400),
            (ann.in_tenant(tenant_id("other")), 403),
            (Call::from(user("ben")).in_tenant(tenant_id("acme")), 403),
            (Call::from(anonymous()).in_tenant(tenant_id("acme")), 401),
        ] {
            assert_eq!(status(posts.get(&call, post.id()).await, 200), expected, "{}", world.name());
            assert_eq!(status(posts.update(&call, post.id(), "{}", None).await, 200), expected, "{}", world.name());
            assert_eq!(status(posts.list(&call, &ListQuery::new()).await, 200), expected, "{}", world.name());
        }
    }
}

#[tokio::test]
async fn a_programs_own_types_are_written_and_read() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        title: String,
    }
    for world in worlds(entities()).await {
        let (notes, call) = (world.entities.table("notes").unwrap(), Call::from(user("ann")));
        let note = Note { title: "typed".to_owned() };
        let made = notes.create(&call, Body::of(&note).unwrap()).await.unwrap();
        assert_eq!(made.read::<Note>().unwrap(), note);
        let found = notes.list(&call, &ListQuery::new().condition("title", "typed")).await.unwrap();
        assert_eq!(found.records::<Note>().unwrap(), [note]);
        let trashed = notes.delete(&call, made.id(), None).await.unwrap();
        assert_eq!(trashed.id(), made.id());
        assert!(matches!(notes.get(&call, made.id()).await, Err(Error::NotFound)));
        assert!(notes.restore(&call, made.id()).await.is_ok() && notes.get(&call, made.id()).await.is_ok());
        for not_a_record in ["[]", "1", "", "{", "{\"title\":"] {
            let refused = notes.create(&call, not_a_record).await;
            assert!(matches!(refused, Err(Error::Body(_))), "{not_a_record:?} {refused:?}");
        }
        assert!(matches!(Body::of(&std::collections::BTreeMap::from([((1, 2), 3)])), Err(Error::Body(_))));
    }
}
