//! All records of a list as a file, and who must not get which.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use gatewright_base::{Credential, Identity, Principal, SessionId, Subject, UserId};
use gatewright_db::params;
use gatewright_entities::hooks::{EntityHooks, Object};
use gatewright_entities::operations::Error;
use gatewright_entities::{Action, Call, Entity, ExportLimits, Field, Kind, ListQuery};
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, encoded, service, user, user_with, worlds, worlds_with};

fn posts() -> Entity {
    Entity::new("posts")
        .field(Field::string("title"))
        .field(Field::int("rank"))
        .field(Field::decimal("net_price"))
        .field(Field::json("meta"))
        .field(Field::list("tags", Kind::String))
        .field(Field::string("secret").hidden())
        .field(Field::int("score").read("@roles has 'editor'"))
}

/// The lines of an answer that is a file.
#[track_caller]
fn lines(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn an_export_has_all_records_that_match_in_the_lists_order() {
    for world in worlds([posts()]).await {
        let ann = user("ann");
        for (title, rank) in [("a", 3), ("b, \"c\"", 1), ("d", 2), ("e", 9)] {
            let post =
                json!({ "title": title, "rank": rank, "netPrice": "-1.50", "meta": { "k": [1] }, "tags": ["x", "y"] });
            world.post(&ann, "/posts", post).await.data();
        }
        let query = "rank_lt=5&sort=-rank&fields=title,rank,netPrice,meta,tags";
        let csv = world.get(&ann, &format!("/posts?{query}&format=csv")).await;
        // Postgres writes JSON with spaces.
        let spaces = [("\"\": [", "\"\":["), ("\"\", \"\"", "\"\",\"\"")];
        let compact = |line: String| spaces.iter().fold(line, |line, (from, to)| line.replace(from, to));
        assert_eq!(
            lines(&csv).into_iter().map(compact).collect::<Vec<_>>(),
            [
                "title,rank,netPrice,meta,tags",
                "a,3,-1.5,\"{\"\"k\"\":[1]}\",\"[\"\"x\"\",\"\"y\"\"]\"",
                "d,2,-1.5,\"{\"\"k\"\":[1]}\",\"[\"\"x\"\",\"\"y\"\"]\"",
                "\"b, \"\"c\"\"\",1,-1.5,\"{\"\"k\"\":[1]}\",\"[\"\"x\"\",\"\"y\"\"]\"",
            ],
            "{}",
            world.name()
        );
        assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8; header=present");
        assert_eq!(csv.header("content-disposition"), "attachment; filename=\"posts.csv\"");
        assert!(csv.text.ends_with("\r\n"));

        // The lines are the records of the list, also by the header alone, and with tags.
        for (query, accept) in [("sort=-rank&format=ndjson", ""), ("sort=-rank&etag=true", "application/x-ndjson")] {
            let file = world.ask(&ann, Method::GET, &format!("/posts?{query}")).header("accept", accept).send().await;
            assert_eq!(file.header("content-type"), "application/x-ndjson");
            let records: Vec<Value> = lines(&file).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            let list = world.get(&ann, &format!("/posts?{}", query.replace("&format=ndjson", ""))).await.data();
            assert_eq!(json!(records), list, "{} {query}", world.name());
        }
        let accepted = world.ask(&ann, Method::GET, "/posts?fields=title").header("accept", "text/csv").send().await;
        assert_eq!(lines(&accepted)[0], "title");
        // JSON is a page, whatever else is accepted as well.
        for (path, accept) in
            [("/posts?format=json", "text/csv"), ("/posts", "application/json, text/csv"), ("/posts", "*/*")]
        {
            let page = world.ask(&ann, Method::GET, path).header("accept", accept).send().await;
            assert_eq!(page.json()["total"], 4, "{path} {accept}");
        }
        let none = world.get(&ann, "/posts?format=csv&rank=77&fields=id").await;
        assert_eq!(none.text, "id\r\n");
        assert_eq!(world.get(&ann, "/posts?format=ndjson&rank=77").await.text, "");
    }
}

#[tokio::test]
async fn more_records_than_a_page_has_are_those_of_one_moment() {
    for world in worlds([posts()]).await {
        let sql = "INSERT INTO posts (id, title, rank, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)";
        let now = jiff::Timestamp::UNIX_EPOCH;
        let title = "x".repeat(200);
        for chunk in 0..40_i64 {
            let title = title.clone();
            world
                .db()
                .write(async move |tx: &gatewright_db::Tx| -> Result<(), gatewright_db::Error> {
                    for number in chunk * 100..(chunk + 1) * 100 {
                        let id = format!("00000000-0000-7000-8000-{number:012}");
                        tx.execute(sql, params![id, title.clone(), number, now]).await?;
                    }
                    Ok(())
                })
                .await
                .unwrap();
        }
        let response = world.ask(&user("ann"), Method::GET, "/posts?format=csv&fields=rank").open().await;
        let mut body = response.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        world.db().execute("UPDATE posts SET rank = -1", vec![]).await.unwrap();
        let rest = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8([first, rest].concat()).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!((lines.len(), lines[0], lines[4_001]), (4_002, "rank", ""), "{}", world.name());
        let is_next = |(rank, line): (usize, &&str)| **line == rank.to_string();
        assert!(lines[1..4_001].iter().enumerate().all(is_next), "{}", world.name());
    }
}

#[tokio::test]
async fn parameters_of_pages_are_refused_and_the_permission_comes_first() {
    for world in worlds([posts().access(Action::Read, "posts:read")]).await {
        let reader = user_with("ann", &["reader"]);
        for query in [
            "limit=5",
            "page=1",
            "cursor=",
            "include=",
            "include=owner",
            "total=none",
            "group=title",
            "sum=rank",
            "direction=forward",
            "format=csv",
            "raw=maybe",
            "nosuch=1",
            "sort=nosuch",
            "etag=true",
        ] {
            let path = format!("/posts?format=csv&{query}");
            if query != "include=" {
                assert_eq!(world.get(&reader, &path).await.status, 400, "{} {query}", world.name());
            }
            assert_eq!(world.get(&user("ben"), &path).await.status, 403, "{query}");
            assert_eq!(world.get(&anonymous(), &path).await.status, 401, "{query}");
        }
        assert_eq!(world.get(&reader, "/posts?format=xml").await.status, 400);
        assert_eq!(world.get(&user("ben"), "/posts?format=xml").await.status, 403);
        assert_eq!(world.get(&reader, "/posts?raw=true").await.status, 400);
        assert_eq!(world.get(&reader, "/posts?format=ndjson&raw=true").await.status, 400);
    }
}

#[tokio::test]
async fn a_field_called_format_is_a_condition() {
    for world in worlds([Entity::new("books").public().field(Field::string("format"))]).await {
        world.post(&anonymous(), "/books", json!({ "format": "csv" })).await.data();
        assert_eq!(world.get(&anonymous(), "/books?format=csv").await.json()["total"], 1);
        assert_eq!(world.get(&anonymous(), "/books?format=pdf").await.json()["total"], 0);
        let file = world.ask(&anonymous(), Method::GET, "/books?format=csv&fields=format").header("accept", "text/csv");
        assert_eq!(lines(&file.send().await), ["format", "csv"]);
    }
}

#[tokio::test]
async fn text_that_a_spreadsheet_would_calculate_is_prefixed_unless_it_is_to_stay() {
    for world in worlds([posts()]).await {
        let ann = user("ann");
        let formulas = ["=HYPERLINK(\"http://evil.example\")", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"];
        for title in formulas {
            let post = json!({ "title": title, "rank": -7, "netPrice": "-2", "meta": "=1", "tags": ["=2"] });
            world.post(&ann, "/posts", post).await.data();
        }
        let file = world.get(&ann, "/posts?format=csv&fields=title,rank,netPrice,meta,tags").await;
        let mut reader = file.text.split("\r\n").skip(1);
        for formula in formulas {
            let line = reader.next().unwrap();
            assert!(line.trim_start_matches('"').starts_with('\''), "{formula:?}: {line:?}");
            assert!(line.ends_with(",-7,-2,\"\"\"=1\"\"\",\"[\"\"=2\"\"]\""), "{line:?}");
        }
        let raw = world.get(&ann, "/posts?format=csv&raw=true&fields=title").await;
        assert!(!raw.text.contains('\''), "{}", raw.text);
        assert!(raw.text.contains("\r\n-1\r\n"), "{}", raw.text);
    }
}

#[tokio::test]
async fn a_file_has_only_what_its_caller_may_read() {
    let notes = Entity::new("notes").owner("user_id").field(Field::string("text"));
    let shared = Entity::new("shared").multi_tenant().field(Field::string("text"));
    let ruled = Entity::new("ruled").field(Field::string("text")).rule(Action::Read, "text != 'canary'").soft_delete();
    for world in worlds([posts(), notes, shared, ruled]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        for (tenant, caller) in [("acme", &ann), ("other", &ben)] {
            world.join(tenant, caller).await;
            let made =
                world.ask(caller, Method::POST, "/shared").tenant(tenant).json(json!({ "text": tenant })).send().await;
            assert_eq!(made.status, 201);
        }
        for caller in [&ann, &ben] {
            let text = caller.principal().unwrap().subject.as_str().to_owned();
            world.post(caller, "/notes", json!({ "text": text })).await.data();
        }
        let editor = user_with("eve", &["editor"]);
        world.post(&editor, "/posts", json!({ "title": "t", "score": 4711 })).await.data();
        world.db().execute("UPDATE posts SET secret = 'canary'", vec![]).await.unwrap();
        world.post(&ann, "/ruled", json!({ "text": "fine" })).await.data();
        world.db().execute("INSERT INTO ruled (id, text, created_at, updated_at) SELECT 'x', 'canary', created_at, updated_at FROM ruled", vec![]).await.unwrap();
        let gone = world.post(&ann, "/ruled", json!({ "text": "gone" })).await.id();
        world.delete(&ann, &format!("/ruled/{gone}")).await;

        for format in ["csv", "ndjson"] {
            let own = world.get(&ann, &format!("/notes?format={format}")).await;
            assert!(own.text.contains("\"ann\"") || own.text.contains(",ann,"), "{}", own.text);
            assert!(!own.text.contains("ben"), "{}", own.text);
            let file = world.ask(&ann, Method::GET, &format!("/shared?format={format}")).tenant("acme").send().await;
            assert!(file.text.contains("acme") && !file.text.contains("other"), "{}", file.text);
            for (tenant, status) in [("other", 403), ("nosuch", 403)] {
                let refused =
                    world.ask(&ann, Method::GET, &format!("/shared?format={format}")).tenant(tenant).send().await;
                assert_eq!(refused.status, status, "{}", refused.text);
            }
            assert_eq!(world.get(&ann, &format!("/shared?format={format}")).await.status, 400);
            let file = world.get(&ann, &format!("/posts?format={format}")).await;
            assert!(
                !file.text.contains("4711") && !file.text.contains("score") && !file.text.contains("canary"),
                "{}",
                file.text
            );
            let file = world.get(&editor, &format!("/posts?format={format}")).await;
            assert!(file.text.contains("4711") && !file.text.contains("canary"), "{}", file.text);
            let file = world.get(&ann, &format!("/ruled?format={format}")).await;
            assert!(
                file.text.contains("fine") && !file.text.contains("canary") && !file.text.contains("gone"),
                "{}",
                file.text
            );
            let file = world.get(&ann, &format!("/ruled?format={format}&trashed=only")).await;
            assert!(file.text.contains("gone") && !file.text.contains("fine"), "{}", file.text);
            for filter in ["score > 1", "secret = 'canary'"] {
                let path = format!("/posts?format={format}&filter={}", encoded(filter));
                assert_eq!(world.get(&ann, &path).await.status, 400, "{filter}");
            }
        }
    }
}

/// A session in which an operator acts as a user.
fn impersonated(id: &str) -> Identity {
    let credential = Credential::Session {
        id: SessionId::parse("s").unwrap(),
        two_factor_verified: false,
        impersonated_by: Some(UserId::parse("operator").unwrap()),
    };
    let subject = Subject::User(UserId::parse(id).unwrap());
    let roles = ["editor"].into_iter().collect();
    Identity::Known(Arc::new(Principal { subject, email: None, roles, credential }))
}

#[tokio::test]
async fn an_export_needs_its_own_permission_and_scope_where_they_are_declared() {
    let open = Entity::new("open").public().field(Field::string("title"));
    let guarded = posts().access(Action::Read, "public").export("posts:write");
    for world in worlds([guarded, open]).await {
        for (caller, status) in [
            (anonymous(), 401),
            (user("ann"), 403),
            (user_with("ann", &["reader"]), 403),
            (user_with("ann", &["writer"]), 200),
            (impersonated("ann"), 403),
        ] {
            for ask in [
                world.ask(&caller, Method::GET, "/posts?format=csv"),
                world.ask(&caller, Method::GET, "/posts").header("accept", "application/x-ndjson"),
            ] {
                let answer = ask.send().await;
                assert_eq!(answer.status, status, "{} {caller:?}: {}", world.name(), answer.text);
            }
            // A page needs less.
            assert_eq!(world.get(&caller, "/posts").await.status, 200);
        }
        assert_eq!(world.get(&impersonated("ann"), "/open?format=csv").await.json()["code"], "impersonated");
        assert_eq!(world.get(&anonymous(), "/open?format=csv").await.status, 200);
        assert_eq!(world.get(&service("bot", &["open:read"]), "/open?format=csv").await.status, 200);
    }
    let guarded = posts().access(Action::Read, "public").export("public");
    for world in worlds([guarded]).await {
        for (scopes, status) in [
            (&["posts:read"][..], 403),
            (&["posts:export"], 403),
            (&["posts:read", "posts:export"], 200),
            (&["posts:read", "posts:write"], 403),
            (&["posts:*"], 200),
            (&["other:export", "posts:read"], 403),
        ] {
            let answer = world.get(&service("bot", scopes), "/posts?format=csv").await;
            assert_eq!(answer.status, status, "{} {scopes:?}: {}", world.name(), answer.text);
        }
        assert_eq!(world.get(&anonymous(), "/posts?format=csv").await.status, 200);
    }
}

/// An open file, of which nothing is read.
async fn held(world: &World, caller: &Identity) -> Result<Body, u16> {
    let response = world.ask(caller, Method::GET, "/posts?format=csv").open().await;
    let status = response.status().as_u16();
    if status == 200 { Ok(response.into_body()) } else { Err(status) }
}

#[tokio::test]
async fn a_third_export_is_refused_until_one_has_ended_and_others_go_on() {
    for world in worlds([posts()]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        world.post(&ann, "/posts", json!({ "title": "t" })).await.data();
        let (first, second) = (held(&world, &ann).await.unwrap(), held(&world, &ann).await.unwrap());
        let third = world.get(&ann, "/posts?format=ndjson").await;
        assert_eq!((third.status.as_u16(), &third.json()["code"]), (429, &json!("too_many_exports")));
        assert!(third.header("retry-after").parse::<u32>().unwrap() > 0);
        // Neither the caller's own pages nor anybody else wait for them.
        assert_eq!(world.get(&ann, "/posts").await.json()["total"], 1);
        assert_eq!(lines(&world.get(&ben, "/posts?format=csv").await).len(), 2);
        drop(first);
        assert_eq!(lines(&world.get(&ann, "/posts?format=csv").await).len(), 2);
        second.collect().await.unwrap();

        // Eight in all.
        let mut bodies = Vec::new();
        for number in 0..4 {
            let caller = user(&format!("user{number}"));
            bodies.push(held(&world, &caller).await.unwrap());
            bodies.push(held(&world, &caller).await.unwrap());
        }
        assert_eq!(held(&world, &ben).await.err(), Some(429), "{}", world.name());
        assert_eq!(world.get(&ben, "/posts").await.status, 200);
        // One that is refused for something else takes no place.
        bodies.pop();
        for _ in 0..3 {
            assert_eq!(world.get(&ben, "/posts?format=csv&limit=1").await.status, 400);
        }
        bodies.push(held(&world, &ben).await.unwrap());
    }
}

#[tokio::test]
async fn anonymous_callers_share_the_limit_of_their_address() {
    for world in worlds([Entity::new("posts").public().field(Field::string("title"))]).await {
        let table = world.entities.table("posts").unwrap();
        let export = async |address: &str| {
            let call = Call::from(anonymous()).from_address(address.parse().ok());
            let format = gatewright_entities::ExportFormat::Ndjson;
            table.export(&call, format, &ListQuery::new()).await
        };
        let _held = [export("192.0.2.1").await.unwrap(), export("192.0.2.1").await.unwrap()];
        assert!(matches!(export("192.0.2.1").await, Err(Error::TooManyExports)));
        assert!(export("192.0.2.2").await.is_ok());
    }
}

#[tokio::test]
async fn an_export_that_fails_or_takes_too_long_ends_without_its_end() {
    let limits =
        ExportLimits { time: Duration::from_millis(300), per_caller: NonZeroUsize::MIN, ..ExportLimits::default() };
    for world in worlds_with([posts()], |builder| builder.exports(limits)).await {
        let ann = user("ann");
        for title in ["one", "two", "three"] {
            world.post(&ann, "/posts", json!({ "title": title, "meta": {} })).await.data();
        }
        // A value that cannot be read: no file is taken for a complete one.
        if world.name() == "sqlite" {
            world.db().execute("UPDATE posts SET rank = 'x' WHERE title = 'three'", vec![]).await.unwrap();
        } else {
            let sql = "ALTER TABLE posts ALTER COLUMN rank TYPE text";
            world.db().execute(sql, vec![]).await.unwrap();
            world.db().execute("UPDATE posts SET rank = 'x' WHERE title = 'three'", vec![]).await.unwrap();
        }
        for format in ["csv", "ndjson"] {
            let response = world.ask(&ann, Method::GET, &format!("/posts?format={format}")).open().await;
            let is_whole = response.status() == 200 && response.into_body().collect().await.is_ok();
            assert!(!is_whole, "{} {format}", world.name());
        }
        let late = held(&world, &ann).await;
        if let Ok(body) = late {
            tokio::time::sleep(Duration::from_millis(400)).await;
            assert!(body.collect().await.is_err(), "{}: after its time an export ends", world.name());
        }
    }
}

struct Redacting;

#[async_trait]
impl EntityHooks for Redacting {
    async fn before_list(&self, _: &Call, query: &mut ListQuery) -> Result<(), Error> {
        query.narrow("rank_gt", 1);
        Ok(())
    }

    async fn after_list(&self, _: &Call, records: &mut Vec<Object>) -> Result<(), Error> {
        records.retain(|record| record["rank"] != 3);
        for record in records {
            record.insert("title".to_owned(), json!("=redacted"));
        }
        Ok(())
    }
}

#[tokio::test]
async fn hooks_of_lists_see_and_change_what_is_exported() {
    for world in worlds_with([posts()], |builder| builder.entity_hooks("posts", Redacting)).await {
        let ann = user("ann");
        for rank in 1..5 {
            world.post(&ann, "/posts", json!({ "title": "canary", "rank": rank })).await.data();
        }
        let csv = world.get(&ann, "/posts?format=csv&fields=title,rank,netPrice").await;
        assert_eq!(lines(&csv), ["title,rank,netPrice", "'=redacted,2,", "'=redacted,4,"], "{}", world.name());
        let json = world.get(&ann, "/posts?format=ndjson&fields=rank").await;
        assert_eq!(lines(&json).len(), 2);
        // A caller cannot lift the hook's condition.
        assert_eq!(world.get(&ann, "/posts?format=csv&rank_gt=0").await.status, 400);
    }
}
