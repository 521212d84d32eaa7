//! Relations to many records.

use gatewright_db::params;
use gatewright_entities::{Action, Entity, Field, Kind};
use http::Method;
use serde_json::{Value, json};

use super::support::{Stream, World, encoded, user, user_with, worlds};

fn tasks() -> Entity {
    Entity::new("tasks")
        .field(Field::string("title"))
        .field(Field::relation("watchers", "users").many())
        .field(Field::relation("labels", "labels").many().max_items(3))
        .field(Field::relation("after", "tasks").many())
}

fn labels() -> Entity {
    Entity::new("labels").field(Field::string("name")).field(Field::relation("fans", "users").many())
}

fn world_of_tasks() -> [Entity; 2] {
    [tasks(), labels()]
}

async fn made(world: &World, path: &str, body: Value) -> String {
    let answer = world.post(&user("ann"), path, &body).await;
    assert_eq!(answer.status, 201, "{}: {body}: {}", world.name(), answer.text);
    answer.id()
}

async fn titles(world: &World, filter: &str) -> Vec<String> {
    let answer = world.get(&user("ann"), &format!("/tasks?sort=title&limit=100&filter={}", encoded(filter))).await;
    assert_eq!(answer.status, 200, "{}: {filter}: {}", world.name(), answer.text);
    let list = answer.data();
    list.as_array().unwrap().iter().map(|task| task["title"].as_str().unwrap().to_owned()).collect()
}

/// The links that the database has, in their order.
async fn links(world: &World, table: &str, record: &str) -> Vec<String> {
    let sql = format!("SELECT value FROM \"{table}.links\" WHERE record = ?1 ORDER BY position");
    let rows = world.db().query(sql, params![record]).await.unwrap();
    rows.iter().map(|row| row.get("value").unwrap()).collect()
}

#[tokio::test]
async fn a_relation_names_many_records_in_an_order_and_each_once() {
    for mut world in worlds(world_of_tasks()).await {
        let ann = user("ann");
        let [a, b, c] = [
            made(&world, "/labels", json!({"name": "a"})).await,
            made(&world, "/labels", json!({"name": "b"})).await,
            made(&world, "/labels", json!({"name": "c"})).await,
        ];
        for _ in 0..3 {
            world.event().await;
        }
        let id =
            made(&world, "/tasks", json!({"title": "one", "labels": [&b, a.to_uppercase()], "watchers": null})).await;
        let path = format!("/tasks/{id}");
        let record = world.get(&ann, &path).await.data();
        assert_eq!((&record["labels"], &record["watchers"]), (&json!([b, a]), &json!([])), "{}", world.name());
        assert_eq!(world.event().await.2["labels"], json!([b, a]));
        assert_eq!(links(&world, "tasks.labels", &id).await, [&*b, &*a]);

        // Every way to change them is an update with an event, another entity tag and another time.
        for (body, expected) in [
            (json!({"labels": [a, b]}), json!([a, b])),
            (json!({"labels": {"$append": [c, a]}}), json!([a, b, c])),
            (json!({"labels": {"$remove": [b, b]}}), json!([a, c])),
            (json!({"labels": null}), json!([])),
            (json!({"labels": [c]}), json!([c])),
        ] {
            let before = world.get(&ann, &path).await;
            let changed = world.patch(&ann, &path, &body).await;
            assert_eq!((changed.status.as_u16(), &changed.data()["labels"]), (200, &expected), "{}", world.name());
            assert_ne!(changed.header("etag"), before.header("etag"), "{body}");
            let (kind, _, event) = world.event().await;
            assert_eq!((kind.as_str(), &event["labels"]), ("entity.updated", &expected), "{body}");
            let stored = links(&world, "tasks.labels", &id).await;
            assert_eq!(json!(stored), expected, "{} {body}", world.name());
        }
        let one = "0190d2b3-0000-7000-8000-00000000000f";
        for (body, field, code) in [
            (json!({"labels": [a, b, a.to_uppercase()]}), "labels", "duplicate"),
            (json!({"labels": [a, one]}), "labels", "relation"),
            (json!({"labels": {"$append": [one]}}), "labels", "relation"),
            (json!({"watchers": ["nobody"]}), "watchers", "relation"),
            (json!({"labels": a}), "labels", "type"),
            (json!({"labels": [null]}), "labels", "type"),
            (json!({"labels": {"$append": [a, b, one]}}), "labels", "max"),
        ] {
            let refused = world.patch(&ann, &path, &body).await;
            assert_eq!(refused.status, 422, "{} {body}: {}", world.name(), refused.text);
            assert_eq!(refused.faults(), [(field.to_owned(), code.to_owned())].into(), "{} {body}", world.name());
        }
        let refused = world.patch(&ann, &path, json!({"labels": [a, one]})).await;
        assert!(refused.text.contains("labels[1]"), "{}", refused.text);
        let refused = world.post(&ann, "/tasks", json!({"labels": [one, a]})).await;
        assert!(refused.text.contains("labels[0]") && !refused.text.contains("labels[1]"), "{}", refused.text);
    }
}

#[tokio::test]
async fn a_batch_links_records_that_it_creates() {
    for world in worlds(world_of_tasks()).await {
        let batch = json!({"operations": [
            {"op": "create", "entity": "labels", "data": {"name": "new"}, "as": "l"},
            {"op": "create", "entity": "tasks", "data": {"title": "one", "labels": [{"$ref": "l"}]}, "as": "t"},
            {"op": "create", "entity": "tasks", "data": {"title": "two", "after": [{"$ref": "t"}]}},
        ]});
        let done = world.ask(&user("ann"), Method::POST, "/_batch").json(batch).send().await;
        assert_eq!(done.status, 200, "{}", done.text);
        let done = done.json();
        let id = |at: usize| done["results"][at]["data"]["id"].clone();
        assert_eq!(done["results"][1]["data"]["labels"], json!([id(0)]), "{done}");
        assert_eq!(done["results"][2]["data"]["after"], json!([id(1)]), "{done}");
        assert_eq!(titles(&world, "after.labels.name = 'new'").await, ["two"]);
    }
}

#[tokio::test]
async fn filters_follow_links_in_both_directions() {
    for world in worlds(world_of_tasks()).await {
        let [red, blue] = [
            made(&world, "/labels", json!({"name": "red", "fans": ["ben"]})).await,
            made(&world, "/labels", json!({"name": "blue", "fans": ["ann", "ben"]})).await,
        ];
        let one = made(&world, "/tasks", json!({"title": "1", "labels": [red], "watchers": ["ann"]})).await;
        made(&world, "/tasks", json!({"title": "2", "labels": [red, blue], "after": [one]})).await;
        made(&world, "/tasks", json!({"title": "3", "watchers": ["ben", "ann"]})).await;
        made(&world, "/tasks", json!({"title": "4"})).await;
        for (filter, expected) in [
            ("watchers = @me", &["1", "3"][..]),
            ("watchers has @me", &["1", "3"]),
            ("watchers = 'ben'", &["3"]),
            ("watchers.id = 'ben'", &["3"]),
            ("watchers in ['ben', 'nobody']", &["3"]),
            ("watchers != 'ann'", &["3"]),
            ("!(watchers = @me)", &["2", "4"]),
            ("watchers = []", &["2", "4"]),
            ("watchers != []", &["1", "3"]),
            ("watchers = null", &["2", "4"]),
            ("length(watchers) = 2", &["3"]),
            ("length(labels) > 0", &["1", "2"]),
            ("labels.name = 'red'", &["1", "2"]),
            ("labels.name ~ 'BLU'", &["2"]),
            ("labels.fans = 'ann'", &["2"]),
            ("length(labels.fans) = 2", &["2"]),
            ("labels.fans = []", &[]),
            ("any(labels, name = 'red' && fans = 'ben')", &["1", "2"]),
            ("any(labels, name = 'red' && fans = 'ann')", &[]),
            ("all(labels, name = 'red')", &["1", "3", "4"]),
            ("after.watchers = @me", &["2"]),
            ("tasks(after).title = '2'", &["1"]),
            ("any(tasks(after), labels.name = 'blue')", &["1"]),
            ("watchers = @me && labels.name = 'red'", &["1"]),
            ("watchers = @me || title = '4'", &["1", "3", "4"]),
        ] {
            assert_eq!(titles(&world, filter).await, expected, "{} {filter}", world.name());
        }
        for (query, expected) in [("watchers=ann", 2), ("watchers=ben", 1), ("watchers=", 0)] {
            let found = world.get(&user("ann"), &format!("/tasks?{query}")).await;
            assert_eq!(found.status, 200, "{query}: {}", found.text);
            assert_eq!(found.data().as_array().unwrap().len(), expected, "{query}");
        }
        let groups = world.get(&user("ann"), "/tasks?group=watchers").await;
        assert_eq!(groups.status, 200, "{}", groups.text);
        let by_back =
            world.get(&user("ann"), &format!("/labels?filter={}", encoded("tasks(labels).title = '2'"))).await;
        assert_eq!(by_back.data().as_array().unwrap().len(), 2, "{}", by_back.text);
        for (filter, says) in [
            ("watchers.email = 'x'", "a path stops at users"),
            ("any(watchers, id = 'x')", "a path stops at users"),
            ("labels(name).name = 'x'", "is not a relation to"),
        ] {
            let refused = world.get(&user("ann"), &format!("/tasks?filter={}", encoded(filter))).await;
            assert!(refused.status == 400 && refused.text.contains(says), "{filter}: {}", refused.text);
        }
        let refused = world.get(&user("ann"), "/tasks?sort=watchers").await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        let refused = world.get(&user("ann"), "/tasks?sort=labels.name").await;
        assert!(refused.status == 400 && refused.text.contains("many records"), "{}", refused.text);
    }
}

/// Boards that only their members read, and notes that name boards.
fn boards() -> [Entity; 2] {
    let boards = Entity::new("boards")
        .field(Field::string("name"))
        .field(Field::relation("members", "users").many())
        .rule(Action::Read, "members = @me || @roles has 'boss'")
        .rule(Action::Update, "members = @me && length(members) > 0")
        .rule(Action::Delete, "@roles has 'boss'");
    let notes = Entity::new("notes")
        .field(Field::string("text"))
        .field(Field::relation("boards", "boards").many())
        .rule(Action::Read, "boards.members = @me || boards = []");
    [boards, notes]
}

#[tokio::test]
async fn rules_follow_links_and_only_readable_records_are_linked() {
    for world in worlds(boards()).await {
        let (ann, ben, boss) = (user("ann"), user("ben"), user_with("boss", &["boss"]));
        let board = async |name: &str, members: &[&str]| {
            let made = world.post(&boss, "/boards", json!({"name": name, "members": members})).await;
            assert_eq!(made.status, 201, "{}", made.text);
            made.id()
        };
        let (anns, bens, both) =
            (board("anns", &["ann"]).await, board("bens", &["ben"]).await, board("both", &["ann", "ben"]).await);
        let names = async |caller| {
            let list = world.get(caller, "/boards?sort=name").await.data();
            list.as_array().unwrap().iter().map(|board| board["name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&ann).await, names(&ben).await),
            (vec![json!("anns"), json!("both")], vec![json!("bens"), json!("both")])
        );
        assert_eq!(world.get(&ann, &format!("/boards/{bens}")).await.status, 404);

        // Somebody else's board is named by nobody, however it is tried.
        for body in [json!({"boards": [anns, bens]}), json!({"boards": [bens]})] {
            let refused = world.post(&ann, "/notes", &body).await;
            assert_eq!(refused.faults(), [("boards".to_owned(), "relation".to_owned())].into(), "{}", refused.text);
            assert!(!refused.text.contains("boards[2]"));
        }
        let note = world.post(&ann, "/notes", json!({"text": "x", "boards": [both]})).await;
        assert_eq!(note.status, 201, "{}", note.text);
        let path = format!("/notes/{}", note.id());
        for body in [json!({"boards": [both, bens]}), json!({"boards": {"$append": [bens]}})] {
            assert_eq!(world.patch(&ann, &path, &body).await.status, 422, "{body}");
        }
        // What is there already may stay, also if the caller may no longer read it.
        assert_eq!(world.patch(&ben, &path, json!({"boards": {"$append": [bens]}})).await.status, 200);
        let kept = world.patch(&ann, &path, json!({"boards": [bens, both, anns]})).await;
        assert_eq!(
            (kept.status.as_u16(), kept.data()["boards"].clone()),
            (200, json!([bens, both, anns])),
            "{}",
            kept.text
        );
        assert_eq!(world.patch(&ann, &path, json!({"boards": [both], "text": "y"})).await.status, 200);
        assert_eq!(world.patch(&ann, &path, json!({"boards": [both, bens]})).await.status, 422, "it is gone now");

        // A member who leaves the list no longer reads the board, and sees its notes no more.
        let both_path = format!("/boards/{both}");
        assert_eq!(world.patch(&ann, &both_path, json!({"members": {"$remove": ["ben"]}})).await.status, 200);
        assert_eq!(world.get(&ben, &both_path).await.status, 404);
        assert_eq!(world.get(&ben, &path).await.status, 404);
        assert_eq!(world.get(&ann, &path).await.status, 200);
    }
}

/// The attack: somebody who may write a list but not read it tries ids that they may not read. One that is there already
/// would be accepted.
#[tokio::test]
async fn a_writer_who_may_not_read_a_list_does_not_learn_what_is_in_it() {
    let [boards, _] = boards();
    let places = Field::relation("boards", "boards").many().read("@roles has 'boss'").write("true");
    let notes = Entity::new("notes").field(Field::string("text")).field(places);
    for world in worlds([boards, notes]).await {
        let (ann, boss) = (user("ann"), user_with("boss", &["boss"]));
        let board =
            async |name: &str| world.post(&boss, "/boards", json!({"name": name, "members": ["ben"]})).await.id();
        let (there, elsewhere) = (board("there").await, board("elsewhere").await);
        let note = world.post(&boss, "/notes", json!({"text": "x", "boards": [there]})).await;
        assert_eq!(note.status, 201, "{}", note.text);
        let path = format!("/notes/{}", note.id());
        let tried = async |id: &String| world.patch(&ann, &path, json!({"boards": [id]})).await;
        let (one, other) = (tried(&there).await, tried(&elsewhere).await);
        assert_eq!((one.status.as_u16(), &one.text), (422, &other.text), "{}", world.name());
        assert_eq!(world.get(&boss, &path).await.data()["boards"], json!([there]));
    }
}

#[tokio::test]
async fn streams_tell_who_enters_and_leaves_a_list() {
    for world in worlds(boards()).await {
        let (ann, ben, boss) = (user("ann"), user("ben"), user_with("boss", &["boss"]));
        let mut anns = Stream::open(world.ask(&ann, Method::GET, "/boards/_events")).await;
        let filter = format!("/boards/_events?filter={}", encoded("members = 'ben'"));
        let mut with_ben = Stream::open(world.ask(&boss, Method::GET, &filter)).await;
        let made = world.post(&boss, "/boards", json!({"name": "b", "members": ["ben"]})).await;
        let path = format!("/boards/{}", made.id());
        assert_eq!(world.patch(&ben, &path, json!({"members": {"$append": ["ann"]}})).await.status, 200);
        assert_eq!(world.patch(&ann, &path, json!({"name": "c"})).await.status, 200);
        assert_eq!(world.patch(&ben, &path, json!({"members": ["ben"]})).await.status, 200);
        assert_eq!(world.patch(&ben, &path, json!({"name": "unseen"})).await.status, 200);
        let seen = async |stream: &mut Stream, count: usize| {
            let mut seen = Vec::new();
            while seen.len() < count {
                let (kind, record) = stream.next().await.expect("an event");
                seen.push(format!("{kind} {}", record["name"].as_str().unwrap_or_default()));
            }
            seen
        };
        let expected = ["entity.updated b", "entity.updated c", "entity.deleted "];
        assert_eq!(seen(&mut anns, 3).await, expected, "{}", world.name());
        let expected =
            ["entity.created b", "entity.updated b", "entity.updated c", "entity.updated c", "entity.updated unseen"];
        assert_eq!(seen(&mut with_ben, 5).await, expected, "{}", world.name());
    }
}

#[tokio::test]
async fn a_deleted_target_leaves_every_list_with_an_event() {
    for mut world in worlds([tasks(), labels().soft_delete()]).await {
        let ann = user("ann");
        let [a, b] =
            [made(&world, "/labels", json!({"name": "a"})).await, made(&world, "/labels", json!({"name": "b"})).await];
        let first = made(&world, "/tasks", json!({"title": "1", "labels": [a, b]})).await;
        let second = made(&world, "/tasks", json!({"title": "2", "labels": [b], "after": [first]})).await;
        for _ in 0..4 {
            world.event().await;
        }
        // The trash keeps links, but nothing links to it any more.
        assert_eq!(world.delete(&ann, &format!("/labels/{b}")).await.status, 204);
        world.event().await;
        assert_eq!(world.get(&ann, &format!("/tasks/{second}")).await.data()["labels"], json!([b]));
        assert_eq!(titles(&world, "labels.name = 'b'").await, Vec::<String>::new());
        assert_eq!(world.patch(&ann, &format!("/tasks/{second}"), json!({"labels": [b, a]})).await.status, 200);
        assert_eq!(world.patch(&ann, &format!("/tasks/{second}"), json!({"labels": [a]})).await.status, 200);
        assert_eq!(world.patch(&ann, &format!("/tasks/{second}"), json!({"labels": [b]})).await.status, 422);
        world.event().await;
        world.event().await;

        // A task is gone at once: it leaves the lists, each with its event, before its own.
        let before = world.get(&ann, &format!("/tasks/{second}")).await;
        assert_eq!(world.delete(&ann, &format!("/tasks/{first}")).await.status, 204);
        let (kind, _, record) = world.event().await;
        assert_eq!((kind.as_str(), &record["id"], &record["after"]), ("entity.updated", &json!(second), &json!([])));
        let after = world.get(&ann, &format!("/tasks/{second}")).await;
        assert_ne!(after.header("etag"), before.header("etag"), "{}", world.name());
        assert_eq!(world.event().await.0, "entity.deleted");
        assert_eq!(links(&world, "tasks.after", &second).await, Vec::<String>::new());
        assert_eq!(links(&world, "tasks.labels", &first).await, Vec::<String>::new(), "its own links are gone too");
    }
}

#[tokio::test]
async fn a_deleted_account_leaves_every_list() {
    for world in worlds(world_of_tasks()).await {
        let ids = [
            made(&world, "/tasks", json!({"title": "1", "watchers": ["ben", "ann"]})).await,
            made(&world, "/tasks", json!({"title": "2", "watchers": ["ben"]})).await,
        ];
        let ben = gatewright_base::UserId::parse("ben").unwrap();
        let owned = gatewright_entities::operations::OwnedRecords::Keep;
        assert_eq!(world.entities.holder_of_account(&ben, owned).await.unwrap(), None, "nobody is held by a list");
        world.entities.release_account(&ben, owned).await.unwrap();
        world.db().execute("DELETE FROM users WHERE id = 'ben'", params![]).await.unwrap();
        let watchers =
            async |id: &String| world.get(&user("ann"), &format!("/tasks/{id}")).await.data()["watchers"].clone();
        assert_eq!([watchers(&ids[0]).await, watchers(&ids[1]).await], [json!(["ann"]), json!([])], "{}", world.name());
        assert_eq!(titles(&world, "length(watchers) = 0").await, ["2"]);
    }
}

#[tokio::test]
async fn twenty_callers_add_twenty_links() {
    for world in worlds(world_of_tasks()).await {
        let ann = user("ann");
        let mut labels = Vec::new();
        for number in 0..20 {
            labels.push(made(&world, "/tasks", json!({"title": number.to_string()})).await);
        }
        let id = made(&world, "/tasks", json!({"title": "all"})).await;
        let path = format!("/tasks/{id}");
        let adds = labels.iter().map(|label| world.patch(&ann, &path, json!({"after": {"$append": [label]}})));
        for done in futures_util::future::join_all(adds).await {
            assert_eq!(done.status, 200, "{}", done.text);
        }
        let mut found: Vec<String> =
            serde_json::from_value(world.get(&ann, &path).await.data()["after"].clone()).unwrap();
        let mut stored = links(&world, "tasks.after", &id).await;
        assert_eq!(found, stored, "{}", world.name());
        for list in [&mut found, &mut stored, &mut labels] {
            list.sort();
        }
        assert_eq!(found, labels, "{}", world.name());
    }
}

#[tokio::test]
async fn links_stay_within_the_tenant() {
    let notes = Entity::new("notes")
        .multi_tenant()
        .field(Field::relation("readers", "users").many())
        .field(Field::relation("next", "notes").many());
    for world in worlds([notes]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        world.join("acme", &ann).await;
        world.join("other", &ann).await;
        world.join("other", &ben).await;
        let create = async |tenant: &str, body: Value| {
            world.ask(&ann, Method::POST, "/notes").tenant(tenant).json(body).send().await
        };
        let elsewhere = create("other", json!({"readers": ["ben", "ann"]})).await;
        assert_eq!(elsewhere.status, 201, "{}", elsewhere.text);
        let here = create("acme", json!({"readers": ["ann"]})).await;
        assert_eq!(here.status, 201, "{}", here.text);
        for (body, at) in [
            (json!({"readers": ["ann", "ben"]}), "readers[1]"),
            (json!({"next": [here.id(), elsewhere.id()]}), "next[1]"),
        ] {
            let refused = create("acme", body).await;
            assert!(refused.status == 422 && refused.text.contains(at), "{}: {}", world.name(), refused.text);
        }
        assert_eq!(create("acme", json!({"next": [here.id()]})).await.status, 201);
    }
}

#[test]
fn mistakes_in_relations_to_many_are_named() {
    let errors = |field: Field| {
        let declared = [Entity::new("tasks").field(field), Entity::new("labels").field(Field::string("name"))];
        gatewright_entities::Declarations::check(&declared).unwrap_err().to_string()
    };
    let relation = || Field::relation("labels", "labels").many();
    for (field, says) in [
        (relation().required(), "it always has a value"),
        (relation().unique(), "it names each record once"),
        (relation().index(), "it always has one"),
        (relation().on_delete(gatewright_entities::OnDelete::Cascade), "a deleted record is taken out of it"),
        (relation().default("@me"), "default has no meaning"),
        (relation().max_items(0), "max_items of a relation is 1 to 1000"),
        (relation().max_items(1001), "max_items of a relation is 1 to 1000"),
        (Field::list("labels", Kind::Uuid).many(), "many has no meaning for the type list"),
        (Field::relation("labels", "label").many(), "did you mean \"labels\"?"),
    ] {
        let found = errors(field);
        assert!(found.contains(says), "{says}: {found}");
    }
    let bad =
        Entity::new("tasks").field(Field::relation("labels", "labels").many()).rule(Action::Read, "labels.title = 'x'");
    let declared = [bad, Entity::new("labels").field(Field::string("name"))];
    let refused = gatewright_entities::Declarations::check(&declared).unwrap_err().to_string();
    assert!(refused.contains("unknown field \"title\" of \"labels\""), "{refused}");
}

#[tokio::test]
async fn links_come_with_the_field_and_follow_its_names() {
    use super::schema::{apply, plan};
    use gatewright_db::schema::describe;
    for test_db in gatewright_db::testing::engines().await {
        let db = &test_db.db;
        super::support::make_users(db).await;
        let plain = Entity::new("tasks").field(Field::string("title"));
        apply(db, &[plain]).await.unwrap();
        let row = "INSERT INTO tasks (id, title, created_at, updated_at) VALUES ('t', 'x', ?1, ?1)";
        db.execute(row, params![jiff::Timestamp::UNIX_EPOCH]).await.unwrap();
        let with =
            Entity::new("tasks").field(Field::string("title")).field(Field::relation("watchers", "users").many());
        apply(db, std::slice::from_ref(&with)).await.unwrap();
        assert!(describe(db, "tasks.watchers.links").await.unwrap().is_some(), "{}", test_db.name);
        assert_eq!(plan(db, &[with]).await.unwrap().statements, Vec::<String>::new());
        let sql = "INSERT INTO \"tasks.watchers.links\" (record, value, position) VALUES ('t', 'ann', 0)";
        db.execute(sql, params![]).await.unwrap();
        assert!(db.execute(sql, params![]).await.is_err(), "each record once");
        let nobody = "INSERT INTO \"tasks.watchers.links\" (record, value, position) VALUES ('t', 'nobody', 0)";
        assert!(db.execute(nobody, params![]).await.is_err(), "a link to nothing");

        let renamed = Entity::new("jobs")
            .renamed_from("tasks")
            .field(Field::string("title"))
            .field(Field::relation("followers", "users").many().renamed_from("watchers"));
        apply(db, std::slice::from_ref(&renamed)).await.unwrap();
        assert!(describe(db, "tasks.watchers.links").await.unwrap().is_none(), "{}", test_db.name);
        assert_eq!(plan(db, &[renamed]).await.unwrap().statements, Vec::<String>::new(), "{}", test_db.name);
        let kept = db.query("SELECT value FROM \"jobs.followers.links\"", params![]).await.unwrap();
        assert_eq!(kept.len(), 1, "{}", test_db.name);
    }
}
