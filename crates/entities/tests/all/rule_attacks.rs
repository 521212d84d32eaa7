//! Attacks of a caller who may not read a record: every answer must be the same as if the record did not exist.

use gatewright_base::Identity;
use gatewright_entities::{Action, Entity, Field};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, Stream, World, encoded, user, worlds};

const ABSENT: &str = "0191d2b3-0000-7000-8000-00000000000a";

/// Files may be read by members of their drawer, and by callers who know the hidden code.
fn entities() -> [Entity; 3] {
    [
        Entity::new("drawers")
            .field(Field::relation("keeper", "users"))
            .field(Field::string("code").hidden().default("canary-code"))
            .rule(Action::Read, "keeper = @me"),
        Entity::new("files")
            .search_fields(["title"])
            .soft_delete()
            .field(Field::string("title").unique())
            .field(Field::int("size"))
            .field(Field::json("tags"))
            .field(Field::relation("drawer", "drawers"))
            .rule(Action::Read, "drawer.keeper = @me && drawer.code = 'canary-code'")
            .rule(Action::Create, "drawer.keeper = @me")
            .rule(Action::Update, "drawer.keeper = @me && title != 'locked'")
            .rule(Action::Delete, "drawer.keeper = @me"),
        Entity::new("links").field(Field::relation("file", "files")).field(Field::string("note")),
    ]
}

struct Scene {
    /// A file of ann, and a link of ben without a target.
    file: String,
    drawer: String,
    link: String,
}

async fn scene(world: &World) -> Scene {
    let (ann, ben) = (user("ann"), user("ben"));
    let drawer = world.post(&ann, "/drawers", json!({"keeper": "ann"})).await.id();
    let bens = world.post(&ben, "/drawers", json!({"keeper": "ben"})).await.id();
    let file = json!({"title": "canary", "size": 42, "tags": ["canary"], "drawer": drawer});
    let file = world.post(&ann, "/files", file).await.id();
    for (title, size) in [("ben one", 1), ("ben two", 99)] {
        let own = json!({"title": title, "size": size, "drawer": bens});
        assert!(world.post(&ben, "/files", own).await.status.is_success());
    }
    let link = world.post(&ann, "/links", json!({"file": file})).await.id();
    Scene { file, drawer, link }
}

/// Method, path, body and header.
type Attempt<'a> = (Method, &'a str, Option<Value>, Option<(&'a str, &'a str)>);

/// The answer without the name of the requested record.
fn shape(answer: &Answer, file: &str) -> (u16, String, String) {
    let text = answer.text.replace(file, "ID").replace(ABSENT, "ID");
    (answer.status.as_u16(), text, answer.header("etag").to_owned())
}

#[tokio::test]
async fn an_unreadable_record_is_indistinguishable_from_a_missing_one() {
    for world in worlds(entities()).await {
        let scene = scene(&world).await;
        let ben = user("ben");
        let ask = async |method: Method, path: String, body: Option<Value>, header: Option<(&str, &str)>| {
            let ask = world.ask(&ben, method, &path);
            let ask = header
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .fold(ask, |ask, (name, value)| ask.header(&name, &value));
            match body {
                Some(body) => ask.json(body).send().await,
                None => ask.send().await,
            }
        };
        let file = format!("/files/{}", scene.file);
        let etag = world.get(&user("ann"), &file).await.header("etag").to_owned();
        let attempts: Vec<Attempt<'_>> = vec![
            (Method::GET, "/files/{}", None, None),
            (Method::GET, "/files/{}?fields=id", None, None),
            (Method::GET, "/files/{}?include=drawer", None, None),
            // The caller knows the tag from before they lost the right to read the record.
            (Method::GET, "/files/{}", None, Some(("if-none-match", &etag))),
            (Method::PATCH, "/files/{}", Some(json!({})), Some(("if-match", &etag))),
            (Method::PATCH, "/files/{}", Some(json!({})), Some(("if-match", "\"x\""))),
            (Method::PATCH, "/files/{}", Some(json!({"title": "ben one"})), None),
            (Method::PATCH, "/files/{}", Some(json!({"size": "no number"})), None),
            (Method::PATCH, "/files/{}", Some(json!({"drawer": ABSENT})), None),
            (Method::PUT, "/files/{}", Some(json!({"title": "x"})), None),
            (Method::DELETE, "/files/{}", None, None),
            (Method::DELETE, "/files/{}", None, Some(("if-match", &etag))),
            (Method::POST, "/files/{}/_restore", Some(json!({})), None),
        ];
        for (method, path, body, header) in attempts {
            let case = format!("{} {method} {path} {body:?} {header:?}", world.name());
            let hidden = ask(method.clone(), path.replace("{}", &scene.file), body.clone(), header).await;
            let absent = ask(method, path.replace("{}", ABSENT), body, header).await;
            assert_eq!(hidden.status.as_u16(), 404, "{case}: {}", hidden.text);
            assert_eq!(shape(&hidden, &scene.file), shape(&absent, &scene.file), "{case}");
        }
        for (method, body) in
            [(Method::PATCH, json!({"items": [{"id": "{}", "size": 1}]})), (Method::DELETE, json!({"ids": ["{}"]}))]
        {
            let batch = async |id: &str| {
                let body = body.to_string().replace("{}", id);
                world.ask(&ben, method.clone(), "/files/_batch").json(body).send().await
            };
            let (hidden, absent) = (batch(&scene.file).await, batch(ABSENT).await);
            assert_eq!(shape(&hidden, &scene.file), shape(&absent, &scene.file), "{} {method}", world.name());
        }
        // A relation to it is refused as if it did not exist, and an existing one includes nothing.
        for (method, path, key) in
            [(Method::POST, "/links".to_owned(), "file"), (Method::PATCH, format!("/links/{}", scene.link), "file")]
        {
            let hidden = ask(method.clone(), path.clone(), Some(json!({key: scene.file})), None).await;
            let absent = ask(method, path, Some(json!({key: ABSENT})), None).await;
            assert_eq!(hidden.status.as_u16(), 422, "{}", hidden.text);
            assert_eq!(shape(&hidden, &scene.file), shape(&absent, &scene.file), "{}", world.name());
        }
        let included = world.get(&ben, &format!("/links/{}?include=file", scene.link)).await.data();
        assert_eq!(included["_included"]["file"], Value::Null, "{}", world.name());
        let of_ann = world.get(&user("ann"), &file).await.data();
        assert_eq!((&of_ann["title"], &of_ann["size"]), (&json!("canary"), &json!(42)), "nothing was changed");
    }
}

#[tokio::test]
async fn lists_totals_sorts_groups_and_filters_reveal_nothing_of_an_unreadable_record() {
    let filters = [
        "title = 'canary'",
        "title ~ 'canary'",
        "size = 42",
        "size > 1 && size < 99",
        "tags has 'canary'",
        "!(title != 'canary')",
        "title != null && size = 42",
        "drawer.id != null && size = 42",
        "links(file).id != null",
        "any(links(file), note = null)",
    ];
    for world in worlds(entities()).await {
        scene(&world).await;
        let ben = user("ben");
        for query in
            ["", "?sort=size", "?sort=-size", "?sort=title", "?cursor=", "?cursor=&direction=backward", "?limit=1"]
        {
            let list = world.get(&ben, &format!("/files{query}")).await;
            assert!(!list.text.contains("canary"), "{} {query} {}", world.name(), list.text);
            if let Some(total) = list.json().get("total") {
                assert_eq!(total, 2, "{} {query}", world.name());
            }
        }
        for filter in filters {
            let list = world.get(&ben, &format!("/files?filter={}", encoded(filter))).await.json();
            assert_eq!((&list["total"], &list["data"]), (&json!(0), &json!([])), "{} {filter}", world.name());
            let groups = world.get(&ben, &format!("/files?group=title&sum=size&filter={}", encoded(filter))).await;
            assert_eq!(groups.data(), json!([]), "{} {filter}", world.name());
        }
        for query in ["q=canary", "title=canary", "size_gt=1&size_lt=99", "title_in=canary,x", "title_like=canary"] {
            assert_eq!(
                world.get(&ben, &format!("/files?{query}")).await.json()["total"],
                0,
                "{} {query}",
                world.name()
            );
        }
        let groups = world.get(&ben, "/files?min=size&max=size&sum=size").await.data();
        assert_eq!(groups, json!([{"count": 2, "sum": {"size": 100}, "min": {"size": 1}, "max": {"size": 99}}]));
        // From the other side: everybody sees the link, but no filter can read its file.
        for filter in ["file.title = 'canary'", "file.size = 42", "file.tags has 'canary'", "file.drawer.id != null"] {
            let list = world.get(&ben, &format!("/links?filter={}", encoded(filter))).await.json();
            assert_eq!(list["total"], 0, "{} {filter}", world.name());
        }
        // A hidden field is unknown to filters, with the same text as an undeclared one.
        for path in [
            "/drawers?filter={} = 'x'",
            "/files?filter=drawer.{} = 'x'",
            "/drawers?sort={}",
            "/drawers?group={}",
            "/drawers?fields={}",
        ] {
            let error = async |name: &str| {
                let (path, query) = path.split_once('=').map_or((path, ""), |(path, query)| (path, query));
                let answer = world.get(&ben, &format!("{path}={}", encoded(&query.replace("{}", name)))).await;
                (answer.status.as_u16(), answer.json()["detail"].as_str().unwrap_or_default().replace(name, "_"))
            };
            let (hidden, absent) = (error("code").await, error("zzzz").await);
            assert_eq!((hidden.0, &hidden), (400, &absent), "{} {path}", world.name());
        }
    }
}

#[tokio::test]
async fn a_caller_who_may_not_create_learns_no_unique_value_or_hidden_field() {
    for world in worlds(entities()).await {
        let scene = scene(&world).await;
        let (ben, eve) = (user("ben"), user("eve"));
        let create = async |caller: &Identity, title: &str, drawer: &str| {
            let answer = world.post(caller, "/files", json!({"title": title, "drawer": drawer})).await;
            assert!(!answer.text.contains("canary-code") && !answer.text.contains("keeper"), "{}", answer.text);
            (answer.status.as_u16(), answer.text)
        };
        for caller in [&ben, &eve] {
            let taken = create(caller, "canary", &scene.drawer).await;
            let free = create(caller, "free", &scene.drawer).await;
            let nowhere = create(caller, "canary", ABSENT).await;
            assert_eq!(taken, free, "{}", world.name());
            assert_eq!((taken.0, nowhere.0), (403, 403), "{} {} {}", world.name(), taken.1, nowhere.1);
        }
        // A rule over a hidden field refuses without naming it.
        let locked = world.post(&ben, "/drawers", json!({"keeper": "ben"})).await.id();
        world
            .db()
            .execute("UPDATE drawers SET code = 'other' WHERE id = ?1", vec![locked.as_str().into()])
            .await
            .unwrap();
        let unread = world.post(&ben, "/files", json!({"title": "unread", "drawer": locked})).await;
        assert_eq!(unread.status.as_u16(), 201, "{}", unread.text);
        let answer = world.get(&ben, &format!("/files/{}", unread.id())).await;
        assert_eq!(answer.status.as_u16(), 404, "{}", world.name());
        assert!(!answer.text.contains("code") || answer.json()["code"] == "not_found", "{}", answer.text);
    }
}

#[tokio::test]
async fn a_stream_never_reports_an_unreadable_record() {
    for world in worlds(entities()).await {
        let scene = scene(&world).await;
        let (ann, ben) = (user("ann"), user("ben"));
        let mut streams = Vec::new();
        for filter in ["", "title ~ 'canary'", "size > 1", "id != null"] {
            let path = format!("/files/_events?filter={}", encoded(filter));
            streams.push(Stream::open(world.ask(&ben, Method::GET, &path)).await);
        }
        let file = format!("/files/{}", scene.file);
        for body in [json!({"size": 43}), json!({"title": "canary two"}), json!({"tags": ["canary", 2]})] {
            assert!(world.patch(&ann, &file, body).await.status.is_success());
        }
        assert!(world.delete(&ann, &file).await.status.is_success());
        assert!(world.post(&ann, &format!("{file}/_restore"), "{}").await.status.is_success());
        let drawer = world.post(&ben, "/drawers", json!({"keeper": "ben"})).await.id();
        let marker = json!({"title": "marker canary", "size": 50, "drawer": drawer});
        assert!(world.post(&ben, "/files", marker).await.status.is_success());
        for stream in &mut streams {
            let (kind, record) = stream.next().await.unwrap();
            assert_eq!((&*kind, &record["title"]), ("entity.created", &json!("marker canary")), "{}", world.name());
        }
    }
}
