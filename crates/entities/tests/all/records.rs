//! Get, create, update and delete over HTTP.

use gatewright_base::JsonCase;
use gatewright_entities::{Entity, Field};
use http::Method;
use serde_json::json;

use super::support::{anonymous, user, worlds, worlds_with};

fn posts() -> Entity {
    Entity::new("posts")
        .table("blog_posts")
        .public()
        .field(Field::string("title").required().unique().max(20))
        .field(Field::int("view_count").default(0))
        .field(Field::json("meta"))
        .field(Field::string("state").read_only().default("draft"))
        .field(Field::string("secret").hidden().default("canary"))
}

#[tokio::test]
async fn a_record_is_created_read_changed_and_deleted() {
    for world in worlds([posts()]).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One", "meta": {"a": [1, 2.5]}})).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let record = created.data();
        let id = record["id"].as_str().unwrap();
        assert_eq!(created.header("location"), format!("/blog_posts/{id}"));
        assert_eq!(created.header("content-type"), "application/json");
        assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 7);
        let keys: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["id", "title", "viewCount", "meta", "state", "createdAt", "updatedAt"]);
        assert_eq!(record["viewCount"], 0);
        assert_eq!(record["createdAt"], "2026-01-02T03:04:05.000006Z");

        let path = format!("/blog_posts/{id}");
        let got = world.get(&anonymous(), &path).await;
        assert_eq!((got.status.as_u16(), got.data()), (200, record.clone()));
        assert_eq!(got.header("etag"), created.header("etag"));

        world.clock.advance(jiff::SignedDuration::from_secs(1));
        for method in [Method::PATCH, Method::PUT] {
            let updated = world.ask(&anonymous(), method, &path).json(json!({"view_count": 7})).send().await;
            let expected = json!({"title": "One", "viewCount": 7, "meta": {"a": [1, 2.5]}, "state": "draft"});
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&updated.data()[key], value);
            }
            assert_eq!(updated.data()["createdAt"], record["createdAt"]);
            assert_eq!(updated.data()["updatedAt"], "2026-01-02T03:04:06.000006Z");
            assert_ne!(updated.header("etag"), created.header("etag"));
        }

        let deleted = world.delete(&anonymous(), &path).await;
        assert_eq!((deleted.status.as_u16(), deleted.text.as_str()), (204, ""));
        for method in [Method::GET, Method::DELETE] {
            assert_eq!(world.ask(&anonymous(), method, &path).send().await.status, 404);
        }
        assert_eq!(world.patch(&anonymous(), &path, json!({"title": "Two"})).await.status, 404);
        assert_eq!(world.patch(&anonymous(), &path, json!({})).await.status, 404);
    }
}

#[tokio::test]
async fn an_answer_can_be_sent_back() {
    for world in worlds([posts()]).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        let path = created.header("location").to_owned();
        let mut record = created.data();
        record["title"] = "Two".into();
        record["id"] = "another".into();
        record["state"] = "published".into();
        record["createdAt"] = "1999-01-01T00:00:00Z".into();
        let updated = world.patch(&anonymous(), &path, &record).await.data();
        assert_eq!(updated["title"], "Two");
        assert_eq!(updated["state"], "draft");
        assert_eq!(updated["id"], created.data()["id"]);
        assert_eq!(updated["createdAt"], created.data()["createdAt"]);
        let second = world.post(&anonymous(), "/blog_posts", json!({"id": updated["id"], "title": "x"})).await;
        assert_ne!(second.id(), updated["id"].as_str().unwrap());
    }
}

#[tokio::test]
async fn an_update_that_names_no_field_changes_nothing_and_is_no_write() {
    for mut world in worlds([posts()]).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        world.event().await;
        world.clock.advance(jiff::SignedDuration::from_secs(1));
        let same = world.patch(&anonymous(), created.header("location"), json!({"id": "x", "state": "y"})).await;
        assert_eq!(same.data(), created.data());
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn a_stale_record_is_not_overwritten() {
    for world in worlds([posts()]).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        let (path, etag) = (created.header("location").to_owned(), created.header("etag").to_owned());
        let ask = |method: Method, tag: &str| {
            let ask = world.ask(&anonymous(), method.clone(), &path).header("if-match", tag);
            if method == Method::DELETE { ask } else { ask.json(json!({"viewCount": 1})) }
        };
        for method in [Method::PATCH, Method::PUT, Method::DELETE] {
            for stale in ["\"stale\"", "", "W/\"x\"", &format!("W/{etag}")] {
                assert_eq!(ask(method.clone(), stale).send().await.status, 412, "{method} {stale}");
            }
        }
        let nothing =
            world.ask(&anonymous(), Method::PATCH, &path).header("if-match", "\"stale\"").json("{}").send().await;
        assert_eq!(nothing.status, 412);
        let updated = ask(Method::PATCH, &format!("\"other\", {etag}")).send().await;
        assert_eq!(updated.data()["viewCount"], 1);
        assert_eq!(ask(Method::PATCH, &etag).send().await.status, 412);
        assert_eq!(ask(Method::DELETE, updated.header("etag")).send().await.status, 204);
        assert_eq!(ask(Method::PATCH, "*").send().await.status, 404);
    }
}

#[tokio::test]
async fn a_caller_who_has_the_record_already_gets_304() {
    for world in worlds([posts()]).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        let (path, etag) = (created.header("location"), created.header("etag"));
        for (tag, status) in [(etag, 304), (&*format!("W/{etag}"), 304), ("*", 304), ("\"other\"", 200)] {
            let got = world.ask(&anonymous(), Method::GET, path).header("if-none-match", tag).send().await;
            assert_eq!(got.status, status, "{tag}");
            assert_eq!(got.header("etag"), etag);
        }
    }
}

#[tokio::test]
async fn a_write_with_if_none_match_is_refused_for_a_record_that_matches() {
    for world in worlds([posts()]).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        let (path, etag) = (created.header("location").to_owned(), created.header("etag").to_owned());
        let ask = |method: Method, header: &'static str, tag: &str| {
            let ask = world.ask(&anonymous(), method.clone(), &path).header(header, tag);
            if method == Method::DELETE { ask } else { ask.json(json!({"title": "Two"})) }
        };
        for method in [Method::PATCH, Method::PUT, Method::DELETE] {
            for tag in ["*", &etag, &format!("W/{etag}"), &format!("\"other\", {etag}")] {
                let refused = ask(method.clone(), "if-none-match", tag).send().await;
                refused.is_refused(412, "the record has changed since it was read");
            }
        }
        let read = world.ask(&anonymous(), Method::GET, &path).header("if-match", "\"other\"").send().await;
        assert_eq!(read.status, 412);
        let read = world.ask(&anonymous(), Method::GET, &path).header("if-match", &etag).send().await;
        assert_eq!((read.status.as_u16(), read.data()["title"].as_str()), (200, Some("One")));
        assert_eq!(ask(Method::PATCH, "if-none-match", "\"other\"").send().await.status, 200);
        // A create has no record that could match.
        let create = world.ask(&anonymous(), Method::POST, "/blog_posts").header("if-none-match", "*");
        assert_eq!(create.json(json!({"title": "Three"})).send().await.status, 201);
    }
}

#[tokio::test]
async fn a_value_that_is_taken_is_a_conflict_that_names_the_field() {
    for world in worlds([posts()]).await {
        let first = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        let second = world.post(&anonymous(), "/blog_posts", json!({"title": "Two"})).await;
        let taken = [
            world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await,
            world.patch(&anonymous(), second.header("location"), json!({"title": "One"})).await,
        ];
        for answer in taken {
            answer.is_refused(409, "title is taken already");
            assert_eq!(answer.faults()["title"], "unique");
        }
        let own = world.patch(&anonymous(), first.header("location"), json!({"title": "One"})).await;
        assert_eq!(own.status, 200);
    }
}

#[tokio::test]
async fn malformed_requests_are_refused_with_the_right_status() {
    for world in worlds([posts()]).await {
        let post = |body: &'static str, content_type: &'static str| {
            let ask = world.ask(&anonymous(), Method::POST, "/blog_posts").json(body);
            async move { ask.header("content-type", content_type).send().await.status.as_u16() }
        };
        for body in
            ["", "{", "[]", "null", "7", "{\"title\":\"a\"} x", "{\"title\":}", "{'title':1}", "{\"title\":\"\u{1}\"}"]
        {
            let answer = world.post(&anonymous(), "/blog_posts", body).await;
            assert_eq!(answer.status, 400, "{body}: {}", answer.text);
            assert_eq!(answer.header("content-type"), "application/problem+json");
        }
        let deep = format!("{{\"meta\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(world.post(&anonymous(), "/blog_posts", deep).await.status, 422);
        assert_eq!(post("{}", "text/plain").await, 415);
        let plain =
            world.ask(&anonymous(), Method::POST, "/blog_posts").header("content-type", "text/plain").send().await;
        assert_eq!(plain.status, 415);
    }
}

#[tokio::test]
async fn paths_that_name_no_record_are_404_and_methods_that_are_not_there_405() {
    for world in worlds([posts()]).await {
        for id in
            ["nope", "%00", "%ff%fe", "a%20b", "..%2f..%2fetc", &"x".repeat(5_000), "'%20OR%201=1--", "%F0%9F%92%A9"]
        {
            let path = format!("/blog_posts/{id}");
            assert_eq!(world.get(&anonymous(), &path).await.status, 404, "{id}");
            assert_eq!(world.patch(&anonymous(), &path, json!({"title": "x"})).await.status, 404, "{id}");
            assert_eq!(world.delete(&anonymous(), &path).await.status, 404, "{id}");
        }
        let cases = [
            ("/blog_posts", Method::DELETE, "GET,HEAD,POST"),
            ("/blog_posts/x", Method::POST, "GET,HEAD,PUT,PATCH,DELETE"),
            ("/blog_posts/_events", Method::POST, "GET,HEAD"),
        ];
        for (path, method, allowed) in cases {
            let answer = world.ask(&anonymous(), method, path).json("{}").send().await;
            assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, allowed), "{path}");
            assert_eq!(answer.json()["code"], "method_not_allowed");
        }
        assert_eq!(world.get(&anonymous(), "/posts").await.status, 404);
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    for world in worlds([posts()]).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        for path in ["/blog_posts", created.header("location")] {
            let head = world.ask(&anonymous(), Method::HEAD, path).send().await;
            assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
        }
    }
}

#[tokio::test]
async fn keys_follow_the_case_that_is_configured() {
    for world in worlds_with([posts()], |builder| builder.json_case(JsonCase::Snake)).await {
        let created = world.post(&anonymous(), "/blog_posts", json!({"title": "One", "viewCount": 3})).await.data();
        assert_eq!(created["view_count"], 3);
        let list = world.get(&anonymous(), "/blog_posts").await.json();
        assert_eq!(list["has_more"], false);
        assert_eq!(list["data"][0]["created_at"], created["created_at"]);
    }
}

#[tokio::test]
async fn an_entity_without_crud_has_no_endpoints_and_keeps_its_operations() {
    for world in worlds([posts().crud(false)]).await {
        for path in ["/blog_posts", "/blog_posts/x", "/blog_posts/_events"] {
            assert_eq!(world.get(&anonymous(), path).await.status, 404, "{path}");
        }
        let posts = world.entities.table("posts").unwrap();
        let call = anonymous().into();
        let record = posts.create(&call, br#"{"title":"One"}"#).await.unwrap();
        assert_eq!(posts.get(&call, record.id()).await.unwrap().json(), record.json());
    }
}

#[tokio::test]
async fn answers_are_kept_out_of_shared_caches() {
    for world in worlds([Entity::new("notes").owner("user_id").field(Field::string("text"))]).await {
        let made = world.post(&user("ada"), "/notes", json!({"text": "mine"})).await;
        let path = format!("/notes/{}", made.id());
        let list = world.get(&user("ada"), "/notes").await;
        let again = world.ask(&user("ada"), http::Method::GET, &path).header("if-none-match", made.header("etag"));
        for answer in [&made, &list, &world.get(&user("ada"), &path).await, &again.send().await] {
            assert_eq!(answer.header("cache-control"), "private, no-cache", "{}", answer.status);
        }
    }
}
