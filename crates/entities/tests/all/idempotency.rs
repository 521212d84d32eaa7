//! `Idempotency-Key`: a write happens once, and its repeats get the same answer.

use futures_util::future::join_all;
use gatewright_base::{Identity, Subject, UserId};
use gatewright_db::Value as Stored;
use gatewright_entities::answers::AnswerOptions;
use gatewright_entities::operations::OwnedRecords;
use gatewright_entities::{Action, Entity, Field};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, keeping_worlds, service, user, user_with};

fn entities() -> [Entity; 3] {
    [
        Entity::new("notes")
            .owner("user_id")
            .soft_delete()
            .field(Field::string("slug").unique())
            .field(Field::string("title").max(200))
            .field(Field::int("votes")),
        Entity::new("posts").access(Action::Create, "posts:write").field(Field::string("title")),
        Entity::new("open").public().field(Field::string("title")),
    ]
}

async fn worlds() -> Vec<World> {
    keeping_worlds(entities(), |builder| builder, AnswerOptions::default()).await
}

/// One request with a key.
async fn send(world: &World, caller: &Identity, method: Method, path: &str, key: &str, body: Option<Value>) -> Answer {
    let ask = world.ask(caller, method, path).header("idempotency-key", key);
    match body {
        Some(body) => ask.json(body).send().await,
        None => ask.send().await,
    }
}

async fn post(world: &World, caller: &Identity, path: &str, key: &str, body: Value) -> Answer {
    send(world, caller, Method::POST, path, key, Some(body)).await
}

fn is_repeat(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == "true"
}

/// Asserts that an answer is a repeat of another.
#[track_caller]
fn repeats(repeat: &Answer, first: &Answer) {
    assert!(is_repeat(repeat) && !is_repeat(first), "{} {}", first.text, repeat.text);
    assert_eq!((repeat.status, &repeat.text), (first.status, &first.text));
    for name in ["etag", "location", "content-type"] {
        assert_eq!(repeat.header(name), first.header(name), "{name} of {}", first.text);
    }
}

#[tokio::test]
async fn every_write_happens_once_under_a_key() {
    for mut world in worlds().await {
        let ann = user("ann");
        let made = post(&world, &ann, "/notes", "create", json!({"slug": "a", "votes": 1})).await;
        assert_eq!(made.status, 201, "{} {}", world.name(), made.text);
        let record = format!("/notes/{}", made.id());
        let operations = json!({"operations": [
            {"op": "create", "entity": "notes", "data": {"slug": "m"}, "as": "n"},
            {"op": "create", "entity": "open", "data": {"title": "o"}},
        ]});
        let writes = [
            (Method::POST, "/notes".to_owned(), Some(json!({"slug": "a", "votes": 1})), "create"),
            (Method::PATCH, record.clone(), Some(json!({"votes": {"$add": 1}})), "patch"),
            (Method::PUT, record.clone(), Some(json!({"votes": {"$add": 1}})), "put"),
            (Method::PATCH, record.clone(), Some(json!({})), "nothing"),
            (
                Method::POST,
                "/notes?on_conflict=slug".to_owned(),
                Some(json!({"slug": "a", "votes": {"$add": 1}})),
                "upsert",
            ),
            (Method::POST, "/notes/_batch".to_owned(), Some(json!({"items": [{"slug": "b"}, {"slug": "c"}]})), "many"),
            (Method::POST, "/_batch".to_owned(), Some(operations), "mixed"),
            (Method::DELETE, record.clone(), None, "delete"),
            (Method::POST, format!("{record}/_restore"), None, "restore"),
        ];
        let mut firsts = vec![made];
        for (method, path, body, key) in &writes[1..] {
            let first = send(&world, &ann, method.clone(), path, key, body.clone()).await;
            assert!(first.status.is_success(), "{} {key}: {}", world.name(), first.text);
            firsts.push(first);
        }
        let counts = (world.rows("notes").await, world.rows("open").await);
        for _ in 0..10 {
            world.event().await;
        }
        for ((method, path, body, key), first) in writes.iter().zip(&firsts) {
            // Answers with the record that was deleted meanwhile are gone.
            let repeat = send(&world, &ann, method.clone(), path, key, body.clone()).await;
            if ["create", "patch", "put", "nothing", "upsert"].contains(key) {
                assert_eq!(repeat.status, 410, "{} {key}: {}", world.name(), repeat.text);
                assert_eq!(repeat.json()["code"], "idempotency_answer_deleted");
            } else {
                repeats(&repeat, first);
            }
        }
        assert_eq!(counts, (world.rows("notes").await, world.rows("open").await), "{}", world.name());
        let note = world.get(&ann, &record).await.data();
        assert_eq!(note["votes"], 4, "{} {note}", world.name());
        world.no_more_events().await;
        // Without a key, and for another key, the write runs.
        assert_eq!(world.patch(&ann, &record, json!({"votes": {"$add": 1}})).await.data()["votes"], 5);
        let again = send(&world, &ann, Method::PATCH, &record, "patch-2", Some(json!({"votes": {"$add": 1}}))).await;
        assert_eq!(again.data()["votes"], 6);
    }
}

#[tokio::test]
async fn a_key_belongs_to_one_request_of_one_caller() {
    for world in worlds().await {
        let (ann, ben) = (user("ann"), user("ben"));
        let body = json!({"slug": "a", "title": "canary"});
        let first = post(&world, &ann, "/notes", "k", body.clone()).await;
        assert_eq!(first.status, 201, "{}", first.text);
        let record = format!("/notes/{}", first.id());
        for (method, path, body) in [
            (Method::POST, "/notes", json!({"slug": "a", "title": "canary "})),
            (Method::POST, "/notes?x=1", body.clone()),
            (Method::POST, "/open", body.clone()),
            (Method::PATCH, &*record, body.clone()),
            (Method::POST, "/notes/_batch", json!({"items": []})),
        ] {
            let other = send(&world, &ann, method, path, "k", Some(body)).await;
            assert_eq!(
                (other.status.as_u16(), &other.json()["code"]),
                (422, &json!("idempotency_key_reused")),
                "{path}"
            );
            assert!(!other.text.contains("canary"));
        }
        let tagged = world.ask(&ann, Method::PATCH, &record).header("idempotency-key", "t").json(json!({"votes": 1}));
        assert_eq!(tagged.header("if-match", "*").send().await.status, 200);
        let other = world.ask(&ann, Method::PATCH, &record).header("idempotency-key", "t").json(json!({"votes": 1}));
        assert_eq!(other.send().await.json()["code"], "idempotency_key_reused");
        // The key of another caller is another key.
        let bens = post(&world, &ben, "/notes", "k", json!({"slug": "b", "title": "Ben's"})).await;
        assert_eq!((bens.status.as_u16(), is_repeat(&bens)), (201, false), "{} {}", world.name(), bens.text);
        let through = post(&world, &ben, "/notes", "k", body.clone()).await;
        assert!(!through.text.contains("canary"), "{}", through.text);
        // Anonymous callers have no keys.
        for _ in 0..2 {
            let open = post(&world, &anonymous(), "/open", "k", json!({"title": "o"})).await;
            assert_eq!((open.status.as_u16(), is_repeat(&open)), (201, false));
        }
        assert_eq!(world.rows("open").await, 2);
        for key in ["", "a b", &"x".repeat(256)] {
            let refused = post(&world, &ann, "/open", key, json!({})).await;
            assert_eq!(refused.status, 400, "{key}: {}", refused.text);
        }
        repeats(&post(&world, &ann, "/notes", "k", body).await, &first);
    }
}

/// A repeat is answered only to the rights of the first request, and the rights are checked before anything is revealed.
#[tokio::test]
async fn a_repeat_needs_the_rights_of_the_first_request() {
    for world in worlds().await {
        let body = json!({"title": "canary"});
        let editor = user_with("ann", &["editor"]);
        let first = post(&world, &editor, "/posts", "k", body.clone()).await;
        assert_eq!(first.status, 201, "{}", first.text);
        repeats(&post(&world, &editor, "/posts", "k", body.clone()).await, &first);
        let demoted = post(&world, &user("ann"), "/posts", "k", body.clone()).await;
        assert_eq!((demoted.status.as_u16(), demoted.text.contains("canary")), (403, false), "{}", demoted.text);
        let reused = post(&world, &user("ann"), "/posts", "k", json!({"title": "x"})).await;
        assert_eq!(reused.status, 403, "not even that the key is known");
        let other = post(&world, &user_with("ann", &["editor", "auditor"]), "/posts", "k", body.clone()).await;
        assert_eq!(
            (other.status.as_u16(), &other.json()["code"]),
            (422, &json!("idempotency_key_reused")),
            "{}",
            other.text
        );
        assert!(!other.text.contains("canary"));
        let operations = json!({"operations": [{"op": "create", "entity": "posts", "data": {"title": "m"}}]});
        let mixed = post(&world, &editor, "/_batch", "m", operations.clone()).await;
        assert_eq!(mixed.status, 200, "{}", mixed.text);
        repeats(&post(&world, &editor, "/_batch", "m", operations.clone()).await, &mixed);
        assert_eq!(post(&world, &user("ann"), "/_batch", "m", operations).await.status, 403, "{}", world.name());
        // Scopes of a token.
        let wide = service("s", &["open:write", "open:read"]);
        let made = post(&world, &wide, "/open", "k", body.clone()).await;
        assert_eq!(made.status, 201);
        let narrow = post(&world, &service("s", &["open:write"]), "/open", "k", body.clone()).await;
        assert_eq!((narrow.status.as_u16(), narrow.text.contains("canary")), (422, false), "{}", narrow.text);
        let none = post(&world, &service("s", &["open:read"]), "/open", "k", body).await;
        assert_eq!(none.status, 403, "{}", none.text);
        assert_eq!((world.rows("posts").await, world.rows("open").await), (2, 1), "{}", world.name());
    }
}

#[tokio::test]
async fn a_key_is_for_one_tenant_and_its_roles() {
    let posts = Entity::new("posts").multi_tenant().field(Field::string("title"));
    for world in keeping_worlds([posts], |builder| builder, AnswerOptions::default()).await {
        let ann = user("ann");
        world.join("one", &ann).await;
        world.join("two", &ann).await;
        let send = async |tenant: &str| {
            let ask = world.ask(&ann, Method::POST, "/posts").tenant(tenant).header("idempotency-key", "k");
            ask.json(json!({"title": "canary"})).send().await
        };
        let first = send("one").await;
        assert_eq!((first.status.as_u16(), is_repeat(&first)), (201, false), "{}", first.text);
        let second = send("two").await;
        assert_eq!((second.status.as_u16(), is_repeat(&second)), (201, false), "{} {}", world.name(), second.text);
        assert_ne!(first.id(), second.id());
        repeats(&send("one").await, &first);
        world.leave("one", &ann).await;
        let left = send("one").await;
        assert_eq!((left.status.as_u16(), left.text.contains("canary")), (403, false), "{}", left.text);
    }
}

#[tokio::test]
async fn refusals_are_kept_and_failures_are_not() {
    for mut world in worlds().await {
        let ann = user("ann");
        let invalid = json!({"title": 7});
        let refused = post(&world, &ann, "/notes", "invalid", invalid.clone()).await;
        assert_eq!(refused.status, 422);
        repeats(&post(&world, &ann, "/notes", "invalid", invalid).await, &refused);
        let missing = send(&world, &ann, Method::PATCH, "/notes/nope", "missing", Some(json!({}))).await;
        assert_eq!(missing.status, 404);
        repeats(&send(&world, &ann, Method::PATCH, "/notes/nope", "missing", Some(json!({}))).await, &missing);
        // A value that was taken stays taken for the key, also once it is free.
        let made = world.post(&ann, "/notes", json!({"slug": "a"})).await;
        let taken = post(&world, &ann, "/notes", "taken", json!({"slug": "a"})).await;
        assert_eq!(taken.status, 409);
        let items = json!({"items": [{"slug": "free"}, {"slug": "a"}]});
        let batch = post(&world, &ann, "/notes/_batch", "batch", items.clone()).await;
        assert_eq!((batch.status.as_u16(), &batch.json()["committed"]), (409, &json!(false)));
        assert_eq!(world.delete(&ann, &format!("/notes/{}", made.id())).await.status, 204);
        repeats(&post(&world, &ann, "/notes", "taken", json!({"slug": "a"})).await, &taken);
        repeats(&post(&world, &ann, "/notes/_batch", "batch", items).await, &batch);
        assert_eq!(world.rows("notes").await, 1, "{}", world.name());
        for _ in 0..2 {
            world.event().await;
        }
        world.no_more_events().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_parallel_requests_with_one_key_one_writes() {
    for mut world in worlds().await {
        let ann = user("ann");
        let made = world.post(&ann, "/notes", json!({"slug": "a", "votes": 0})).await;
        world.event().await;
        let record = format!("/notes/{}", made.id());
        let add = async |_| send(&world, &ann, Method::PATCH, &record, "k", Some(json!({"votes": {"$add": 1}}))).await;
        let answers = join_all((0..20).map(add)).await;
        for answer in &answers {
            match answer.status.as_u16() {
                200 => assert_eq!(answer.data()["votes"], 1, "{}", world.name()),
                409 => {
                    assert_eq!(answer.json()["code"], "idempotency_in_progress", "{}", answer.text);
                    assert_eq!(answer.header("retry-after"), "1");
                }
                _ => panic!("{} {}", world.name(), answer.text),
            }
        }
        let wrote = answers.iter().filter(|answer| answer.status == 200 && !is_repeat(answer)).count();
        assert_eq!((wrote, world.get(&ann, &record).await.data()["votes"].clone()), (1, json!(1)), "{}", world.name());
        assert_eq!(world.event().await.0, "entity.updated");
        world.no_more_events().await;
    }
}

/// A server that died leaves its claim, which is free after 30 seconds.
#[tokio::test]
async fn a_claim_without_an_answer_ends_after_thirty_seconds() {
    for world in worlds().await {
        let ann = user("ann");
        let body = json!({"slug": "a"});
        post(&world, &ann, "/notes", "k", body.clone()).await;
        // As if the server had died before the write.
        let sql = "UPDATE gatewright_answers SET status = NULL, headers = NULL, body = NULL";
        world.db().execute(sql, vec![]).await.unwrap();
        world.db().execute("DELETE FROM notes", vec![]).await.unwrap();
        let early = post(&world, &ann, "/notes", "k", body.clone()).await;
        assert_eq!((early.status.as_u16(), &early.json()["code"]), (409, &json!("idempotency_in_progress")));
        world.clock.advance(SignedDuration::from_secs(31));
        let late = post(&world, &ann, "/notes", "k", body.clone()).await;
        assert_eq!((late.status.as_u16(), is_repeat(&late)), (201, false), "{} {}", world.name(), late.text);
        repeats(&post(&world, &ann, "/notes", "k", body.clone()).await, &late);
        world.clock.advance(SignedDuration::from_hours(25));
        let next_day = post(&world, &ann, "/notes", "k", body).await;
        assert_eq!(
            (next_day.status.as_u16(), is_repeat(&next_day)),
            (409, false),
            "{} {}",
            world.name(),
            next_day.text
        );
    }
}

/// A write whose key was taken over meanwhile commits nothing.
#[tokio::test]
async fn a_write_commits_only_while_the_key_is_its_own() {
    struct Stealing;
    #[async_trait::async_trait]
    impl gatewright_entities::hooks::EntityHooks for Stealing {
        async fn after_create(
            &self,
            writing: gatewright_entities::hooks::Writing<'_>,
            _: &gatewright_entities::Record,
        ) -> Result<(), gatewright_entities::operations::Error> {
            writing.tx.execute("UPDATE gatewright_answers SET claim = 'another'", vec![]).await?;
            Ok(())
        }
    }
    let adjust = |builder: gatewright_entities::Builder| builder.entity_hooks("notes", Stealing);
    for mut world in keeping_worlds(entities(), adjust, AnswerOptions::default()).await {
        let late = post(&world, &user("ann"), "/notes", "k", json!({"slug": "a"})).await;
        assert_eq!(
            (late.status.as_u16(), &late.json()["code"]),
            (409, &json!("idempotency_in_progress")),
            "{}",
            late.text
        );
        assert_eq!(world.rows("notes").await, 0, "{}", world.name());
        world.no_more_events().await;
    }
}

async fn count(world: &World, condition: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) AS n FROM gatewright_answers WHERE {condition}");
    world.db().query_opt(sql, vec![]).await.unwrap().unwrap().get("n").unwrap()
}

#[tokio::test]
async fn answers_are_bounded_swept_and_go_with_the_account() {
    let options = AnswerOptions { max_bytes: 3_000, ..AnswerOptions::default() };
    for world in keeping_worlds(entities(), |builder| builder, options).await {
        let ann = user("ann");
        // A thousand keys of one caller, and the oldest goes.
        let fill = "INSERT INTO gatewright_answers (id, caller, request, rights, claim, claimed_at, status, body) \
            VALUES (?1, 'ann', '', '', '', ?2, 200, '{}')";
        for number in 0..1_000_i64 {
            let at: jiff::Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
            let at = at + SignedDuration::from_secs(number);
            world.db().execute(fill, vec![Stored::Text(format!("key {number}")), Stored::Time(at)]).await.unwrap();
        }
        assert_eq!(post(&world, &ann, "/notes", "new", json!({"slug": "a"})).await.status, 201);
        assert_eq!(
            (count(&world, "caller = 'ann'").await, count(&world, "id = 'key 0'").await),
            (1_000, 0),
            "{}",
            world.name()
        );
        // Sixteen MiB of one caller.
        let large = "UPDATE gatewright_answers SET bytes = 16777216 WHERE id = 'key 999'";
        world.db().execute(large, vec![]).await.unwrap();
        assert_eq!(post(&world, &ann, "/notes", "newer", json!({"slug": "b"})).await.status, 201);
        assert_eq!(count(&world, "id = 'key 999'").await, 0, "{}", world.name());
        // The sweep removes what is old, and the oldest beyond the room of all.
        let answers = world.entities.kept_answers().unwrap().clone();
        for slug in ["c", "d", "e"] {
            world.clock.advance(SignedDuration::from_secs(1));
            let title = "x".repeat(190);
            let made = post(&world, &ann, "/notes", slug, json!({"slug": slug, "title": title})).await;
            assert_eq!(made.status, 201);
        }
        let sum = "UPDATE gatewright_answers SET bytes = 1001 WHERE bytes > 0";
        world.db().execute(sum, vec![]).await.unwrap();
        answers.sweep().await.unwrap();
        assert_eq!(count(&world, "bytes > 0").await, 2, "{}", world.name());
        repeats_note(&world, &ann, "e").await;
        world.clock.advance(SignedDuration::from_hours(25));
        answers.sweep().await.unwrap();
        assert_eq!(count(&world, "1 = 1").await, 0, "{}", world.name());
        // An account takes its answers along.
        post(&world, &ann, "/notes", "last", json!({"slug": "z"})).await;
        post(&world, &user("ben"), "/notes", "last", json!({"slug": "y"})).await;
        let Some(principal) = ann.principal() else { panic!() };
        let Subject::User(id) = &principal.subject else { panic!() };
        world.entities.release_account(id, OwnedRecords::Delete).await.unwrap();
        world.entities.forget_answers(&UserId::parse("ann").unwrap()).await.unwrap();
        assert_eq!((count(&world, "caller = 'ann'").await, count(&world, "caller = 'ben'").await), (0, 1));
    }
}

async fn repeats_note(world: &World, caller: &Identity, slug: &str) {
    let body = json!({"slug": slug, "title": "x".repeat(190)});
    let repeat = post(world, caller, "/notes", slug, body).await;
    assert!(repeat.status == 201 && is_repeat(&repeat), "{} {}", world.name(), repeat.text);
}

/// Also of the answers to other callers, and in a cascade.
#[tokio::test]
async fn a_deleted_record_leaves_the_answers_that_contained_it() {
    let topics = Entity::new("topics").public().field(Field::string("title"));
    let posts = Entity::new("posts")
        .public()
        .field(Field::relation("topic", "topics").on_delete(gatewright_entities::OnDelete::Cascade))
        .field(Field::string("title"));
    for world in keeping_worlds([topics, posts], |builder| builder, AnswerOptions::default()).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let topic = world.post(&ann, "/topics", json!({"title": "t"})).await.id();
        let body = json!({"topic": topic, "title": "canary"});
        let post_of_ann = post(&world, &ann, "/posts", "k", body.clone()).await;
        let path = format!("/posts/{}", post_of_ann.id());
        let changed = send(&world, &ben, Method::PATCH, &path, "b", Some(json!({"title": "canary 2"}))).await;
        assert_eq!(changed.status, 200);
        assert_eq!(count(&world, "body LIKE '%canary%'").await, 2);
        assert_eq!(send(&world, &ben, Method::DELETE, &format!("/topics/{topic}"), "d", None).await.status, 204);
        assert_eq!(count(&world, "body LIKE '%canary%'").await, 0, "{}", world.name());
        assert_eq!(post(&world, &ann, "/posts", "k", body).await.status, 410, "{}", world.name());
        let repeat = send(&world, &ben, Method::PATCH, &path, "b", Some(json!({"title": "canary 2"}))).await;
        assert_eq!((repeat.status.as_u16(), &repeat.json()["code"]), (410, &json!("idempotency_answer_deleted")));
        let deleted = send(&world, &ben, Method::DELETE, &format!("/topics/{topic}"), "d", None).await;
        assert_eq!((deleted.status.as_u16(), is_repeat(&deleted)), (204, true), "{}", world.name());
        assert_eq!(world.rows("posts").await, 0);
    }
}
