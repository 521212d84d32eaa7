//! `include=`: related records, under their own entity's rules, one query for each relation.

use std::sync::{Arc, OnceLock};

use gatewright_entities::{Action, Entity, Field};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::support::{anonymous, user, user_with, worlds};

/// The statements of all tests in this process: count only those on tables that no other test has.
pub(super) fn statements() -> &'static Arc<Mutex<Vec<String>>> {
    static STATEMENTS: OnceLock<Arc<Mutex<Vec<String>>>> = OnceLock::new();
    STATEMENTS.get_or_init(|| {
        let statements = Arc::<Mutex<Vec<String>>>::default();
        let subscriber = Listener(statements.clone());
        tracing::subscriber::set_global_default(subscriber).unwrap();
        statements
    })
}

/// Records the text of every statement that the data layer logs.
struct Listener(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == gatewright_db::STATEMENT_LOG
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 = format!("{value:?}");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().push(text.0);
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

fn included(record: &Value) -> &Value {
    &record["_included"]
}

#[tokio::test]
async fn related_records_are_included_with_one_statement_for_each_relation() {
    let seen = statements();
    let entities = [
        Entity::new("n1_topics").public().field(Field::string("name")),
        Entity::new("n1_images").public().field(Field::string("url")),
        Entity::new("n1_posts")
            .public()
            .field(Field::string("title"))
            .field(Field::relation("topic_id", "n1_topics"))
            .field(Field::relation("cover", "n1_images"))
            .field(Field::relation("author", "users")),
    ];
    for world in worlds(entities).await {
        let mut topics = Vec::new();
        for name in ["rust", "sql"] {
            topics.push(world.post(&anonymous(), "/n1_topics", json!({"name": name})).await.data());
        }
        let image = world.post(&anonymous(), "/n1_images", json!({"url": "/a.png"})).await.data();
        for number in 0..30 {
            let post = json!({
                "title": number.to_string(),
                "topicId": topics[number % 2]["id"],
                "cover": if number % 3 == 0 { image["id"].clone() } else { Value::Null },
                "author": "ann",
            });
            world.post(&anonymous(), "/n1_posts", post).await.data();
        }
        for paging in ["limit=30", "limit=30&cursor=", "limit=30&cursor=&direction=backward"] {
            let about = |word: &str| seen.lock().iter().filter(|sql| sql.contains(word)).count();
            let before = [about("n1_posts"), about("n1_topics"), about("n1_images")];
            let list =
                world.get(&anonymous(), &format!("/n1_posts?{paging}&include=topicId,cover,author")).await.data();
            let after = [about("n1_posts"), about("n1_topics"), about("n1_images")];
            // On Postgres the total of numbered pages is read with the page, even if it is not needed.
            let pages = if world.name() == "postgres" && paging == "limit=30" { 2 } else { 1 };
            assert_eq!(
                [after[0] - before[0], after[1] - before[1], after[2] - before[2]],
                [pages, 1, 1],
                "{} {paging}",
                world.name()
            );
            for (number, post) in list.as_array().unwrap().iter().enumerate() {
                assert_eq!(post["title"], number.to_string(), "{paging}");
                let cover = if number % 3 == 0 { image.clone() } else { Value::Null };
                let expected = json!({"topicId": topics[number % 2], "cover": cover, "author": {"id": "ann"}});
                assert_eq!(included(post), &expected);
                assert_eq!(post["topicId"], topics[number % 2]["id"], "the relation itself stays an id");
            }
        }
        let id = world.get(&anonymous(), "/n1_posts?limit=1").await.data()[0]["id"].as_str().unwrap().to_owned();
        let one = world.get(&anonymous(), &format!("/n1_posts/{id}?include=topic_id&fields=title")).await;
        assert_eq!(one.data(), json!({"title": "0", "_included": {"topicId": topics[0]}}));
        assert_eq!(one.header("etag"), "");
        let whole = world.get(&anonymous(), &format!("/n1_posts/{id}?include=author")).await.data();
        let sent_back = world.patch(&anonymous(), &format!("/n1_posts/{id}"), &whole).await;
        assert_eq!(sent_back.status, 200, "{}", sent_back.text);
    }
}

#[tokio::test]
async fn a_related_record_is_shown_as_its_own_list_would() {
    let entities = [
        Entity::new("notes")
            .owner("user_id")
            .field(Field::string("text"))
            .field(Field::string("secret").hidden().default("canary")),
        Entity::new("drafts").public().soft_delete().field(Field::string("text")),
        Entity::new("pins")
            .public()
            .field(Field::relation("note", "notes"))
            .field(Field::relation("draft", "drafts"))
            .field(Field::relation("parent", "pins")),
    ];
    for world in worlds(entities).await {
        let note = world.post(&user("ann"), "/notes", json!({"text": "of ann"})).await;
        let draft = world.post(&anonymous(), "/drafts", json!({"text": "thrown away"})).await;
        let pin = json!({"note": note.id(), "draft": draft.id()});
        let pin = world.post(&user("ann"), "/pins", pin).await;
        let child = world.post(&user("ben"), "/pins", json!({"parent": pin.id()})).await;
        world.delete(&anonymous(), draft.header("location")).await;
        let path = format!("{}?include=note,draft", pin.header("location"));
        let own = world.get(&user("ann"), &path).await;
        assert_eq!(included(&own.data()), &json!({"note": note.data(), "draft": null}));
        assert!(!own.text.contains("canary"));
        let others = world.get(&user("ben"), &path).await;
        assert_eq!(included(&others.data()), &json!({"note": null, "draft": null}));
        assert!(!others.text.contains("of ann"));
        for query in ["include=note", "include=note&cursor=", "include=note&limit=1&page=2"] {
            let list = world.get(&user("ben"), &format!("/pins?{query}")).await;
            assert!(list.status.is_success() && !list.text.contains("of ann"), "{}", list.text);
        }
        let parent = world.get(&anonymous(), &format!("{}?include=parent", child.header("location"))).await.data();
        assert_eq!(included(&parent)["parent"], pin.data(), "one step deep");
    }
}

#[tokio::test]
async fn a_caller_who_may_not_read_the_target_is_refused() {
    let entities = [
        Entity::new("posts").access(Action::Read, "posts:read").field(Field::string("title")),
        Entity::new("links").public().field(Field::relation("post", "posts")).field(Field::relation("author", "users")),
    ];
    for world in worlds(entities).await {
        let reader = user_with("ann", &["reader"]);
        let link = world.post(&anonymous(), "/links", json!({"author": "ann"})).await;
        for path in ["/links".to_owned(), link.header("location").to_owned()] {
            for (caller, status) in [(&reader, 200), (&user("ben"), 403), (&anonymous(), 401)] {
                let answer = world.get(caller, &format!("{path}?include=post,author")).await;
                assert_eq!(answer.status, status, "{path}: {}", answer.text);
            }
            // No caller sees more of a user than the id, whatever their permissions.
            let answer = world.get(&anonymous(), &format!("{path}?include=author")).await.data();
            let record = answer.get(0).unwrap_or(&answer);
            assert_eq!(included(record)["author"], json!({"id": "ann"}));
        }
        let token = super::support::service("bot", &["links:read"]);
        let answer = world.get(&token, "/links?include=post").await;
        answer.is_refused(403, "the token lacks the scope posts:read");
    }
}

#[tokio::test]
async fn a_field_without_a_relation_is_refused_without_revealing_hidden_ones() {
    let posts = || {
        Entity::new("posts")
            .public()
            .field(Field::string("title"))
            .field(Field::relation("main_topic", "topics"))
            .field(Field::relation("hidden_topic", "topics").hidden())
    };
    for world in worlds([posts(), Entity::new("topics").public()]).await {
        let made = world.post(&anonymous(), "/posts", json!({})).await;
        for (include, detail) in [
            ("mainTopc", "include: there is no relation \"mainTopc\"; did you mean \"mainTopic\"?"),
            ("zebra", "include: there is no relation \"zebra\""),
            ("hiddenTopic", "include: there is no relation \"hiddenTopic\""),
            ("hidden_topic", "include: there is no relation \"hidden_topic\""),
            ("title", "include: \"title\" is not a relation"),
            ("id", "include: \"id\" is not a relation"),
            ("mainTopic.owner", "include: there is no relation \"owner\" of \"topics\""),
        ] {
            for path in ["/posts".to_owned(), made.header("location").to_owned()] {
                let answer = world.get(&anonymous(), &format!("{path}?include={include}")).await;
                let expected = (400, json!(detail));
                let hint = answer.json()["detail"].clone();
                assert_eq!((answer.status.as_u16(), hint), expected, "{path} {include}");
            }
        }
        for path in ["/posts".to_owned(), made.header("location").to_owned()] {
            let (plain, empty) =
                (world.get(&anonymous(), &path).await, world.get(&anonymous(), &format!("{path}?include=")).await);
            assert_eq!(
                (empty.status.as_u16(), empty.json()),
                (200, plain.json()),
                "an empty include is absent: {path}"
            );
        }
    }
}

#[tokio::test]
async fn included_records_stay_within_the_tenant_of_the_request() {
    // The program's own SQL sets the relation: no request could.
    let entities = [
        Entity::new("rooms").multi_tenant().field(Field::string("name")),
        Entity::new("keys").public().field(Field::relation("room", "rooms")),
    ];
    for world in worlds(entities).await {
        let caller = user("ann");
        for tenant in ["acme", "other"] {
            world.join(tenant, &caller).await;
        }
        for (tenant, name) in [("acme", "ours"), ("other", "theirs")] {
            let room = world.ask(&caller, Method::POST, "/rooms").tenant(tenant).json(json!({"name": name}));
            let (room, key) = (room.send().await.id(), world.post(&anonymous(), "/keys", "{}").await.id());
            let sql = "UPDATE keys SET room = ?1 WHERE id = ?2";
            world.db().execute(sql, gatewright_db::params![&room, &key]).await.unwrap();
        }
        let list = world.ask(&caller, Method::GET, "/keys?include=room").tenant("acme").send().await.data();
        assert_eq!(included(&list[0])["room"]["name"], "ours");
        assert_eq!(included(&list[1])["room"], Value::Null);
        assert_eq!(world.get(&caller, "/keys?include=room").await.status, 400);
        let stranger = world.ask(&user("eve"), Method::GET, "/keys?include=room").tenant("acme").send().await;
        assert_eq!(stranger.status, 403);
    }
}

#[tokio::test]
async fn cross_owner_read_applies_only_to_the_entity_that_grants_it() {
    let entities = [
        Entity::new("notes").owner("user_id").cross_owner_read("posts:audit").field(Field::string("text")),
        Entity::new("diaries").owner("user_id").field(Field::string("text")),
        Entity::new("rooms")
            .multi_tenant()
            .owner("user_id")
            .cross_owner_read("posts:audit")
            .field(Field::string("text")),
        Entity::new("pages")
            .owner("user_id")
            .cross_owner_read("posts:audit")
            .field(Field::relation("note", "notes"))
            .field(Field::relation("diary", "diaries"))
            .field(Field::relation("room", "rooms")),
    ];
    for world in worlds(entities).await {
        let (ann, ben, auditor) = (user("ann"), user("ben"), user_with("ben", &["auditor"]));
        for tenant in ["acme", "other"] {
            world.join(tenant, &ann).await;
        }
        world.join("acme", &ben).await;
        let note = world.post(&ann, "/notes", json!({"text": "a note of ann"})).await;
        let diary = world.post(&ann, "/diaries", json!({"text": "a diary of ann"})).await;
        for tenant in ["acme", "other"] {
            let room =
                world.ask(&ann, Method::POST, "/rooms").tenant(tenant).json(json!({"text": tenant})).send().await;
            let page = json!({"note": note.id(), "diary": diary.id(), "room": room.id()});
            let page = world.ask(&ann, Method::POST, "/pages").tenant(tenant).json(page).send().await;
            let one = page.header("location").to_owned();
            for path in ["/pages?sort=-id&limit=1&".to_owned(), "/pages?cursor=&".to_owned(), format!("{one}?")] {
                let ask = |caller: &gatewright_base::Identity| {
                    world.ask(caller, Method::GET, &format!("{path}include=note,diary,room")).tenant("acme")
                };
                let seen = ask(&auditor).send().await;
                assert!(!seen.text.contains("diary of ann"), "{} {}", world.name(), seen.text);
                let data = seen.data();
                let page = data.as_array().map_or(&data, |pages| pages.last().unwrap());
                assert_eq!((&included(page)["note"], &included(page)["diary"]), (&note.data(), &Value::Null), "{path}");
                // The tenant stays the request's.
                let expected = if tenant == "acme" { room.data() } else { Value::Null };
                assert_eq!(included(page)["room"], expected, "{} {path}", world.name());
                // Without the role no record of another owner is shown, nor the page itself.
                assert!(!ask(&ben).send().await.text.contains("of ann"), "{path}");
            }
        }
        // Only reads use the permission, including reads of the trash.
        assert_eq!(world.patch(&auditor, note.header("location"), json!({"text": "x"})).await.status, 403);
        assert_eq!(world.delete(&auditor, note.header("location")).await.status, 403);
    }
}
