//! `filter=` of streams that follows relations, reads JSON or names the caller: asked of the database, under the listener's own
//! rights.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::extract::ConnectInfo;
use gatewright_base::{Ambient, Identity};
use gatewright_db::testing::engines;
use gatewright_entities::{Action, Builder, Entity, Field};
use gatewright_events::{Bus, StreamOptions, Streams};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::include::statements;
use super::support::{Answer, Stream, World, anonymous, encoded, logged, user, user_with, worlds_with};

fn entities(prefix: &str) -> Vec<Entity> {
    let (projects, tasks) = (format!("{prefix}projects"), format!("{prefix}tasks"));
    vec![
        Entity::new(format!("{prefix}folders")).access(Action::Read, "posts:audit").field(Field::string("name")),
        Entity::new(&projects)
            .field(Field::string("name"))
            .field(Field::relation("boss", "users"))
            .field(Field::relation("folder", format!("{prefix}folders")))
            .rule(Action::Read, "name != 'secret' || boss = @me"),
        Entity::new(&tasks)
            .public()
            .field(Field::string("title"))
            .field(Field::relation("project", &projects))
            .field(Field::json("tags"))
            .field(Field::json("meta"))
            .field(Field::string("hidden").hidden()),
    ]
}

/// Worlds with long heartbeats, so that no stream ends because a busy machine was late to confirm its caller.
async fn patient_worlds(entities: impl IntoIterator<Item = Entity>) -> Vec<World> {
    let patient = |builder: Builder| {
        let bus = Bus::new(&Ambient::system());
        let streams = Streams::start(&bus, StreamOptions::default());
        builder.bus(bus).streams(streams)
    };
    worlds_with(entities, patient).await
}

async fn open(world: &World, caller: &Identity, table: &str, filter: &str) -> Stream {
    let filter = format!("({filter}) || title = 'end'");
    Stream::open(world.ask(caller, Method::GET, &format!("/{table}/_events?filter={}", encoded(&filter)))).await
}

async fn next(stream: &mut Stream) -> (String, Value) {
    let next = tokio::time::timeout(Duration::from_mins(1), stream.next()).await.expect("no event within a minute");
    next.expect("the stream ended")
}

/// What a stream shows up to the record `end`, each as its type and title.
async fn until_end(stream: &mut Stream) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let (kind, record) = next(stream).await;
        if record["title"] == "end" {
            return seen;
        }
        seen.push(format!("{} {}", kind.trim_start_matches("entity."), record["title"].as_str().unwrap_or("?")));
    }
}

async fn task(world: &World, body: Value) -> String {
    format!("/tasks/{}", world.post(&user("ann"), "/tasks", body).await.id())
}

async fn project(world: &World, body: Value) -> String {
    world.post(&user("ann"), "/projects", body).await.id()
}

async fn patch(world: &World, path: &str, body: Value) -> Answer {
    let answer = world.patch(&user("ann"), path, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer
}

#[tokio::test]
async fn a_stream_shows_what_its_filter_matches() {
    for world in patient_worlds(entities("")).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let red = project(&world, json!({"name": "red", "boss": "ben"})).await;
        let blue = project(&world, json!({"name": "blue", "boss": "ann"})).await;
        let mut by_name = open(&world, &ben, "tasks", "project.name = 'red'").await;
        let mut bens = open(&world, &ben, "tasks", "project.boss = @me").await;
        let mut anns = open(&world, &ann, "tasks", "project.boss = @me").await;
        let mut urgent = open(&world, &ben, "tasks", "tags has 'urgent'").await;
        let mut large = open(&world, &anonymous(), "tasks", "meta.size > 3").await;
        let mut all = open(&world, &ben, "tasks", "title != null").await;
        let one = task(&world, json!({"title": "one", "project": red, "tags": ["urgent"], "meta": {"size": 4}})).await;
        let two = task(&world, json!({"title": "two", "project": blue, "tags": "urgent", "meta": {"size": 3}})).await;
        patch(&world, &one, json!({"title": "one, moved", "project": blue})).await;
        patch(&world, &two, json!({"title": "two, moved", "project": red, "meta": {"size": "4"}})).await;
        for path in [&one, &two] {
            assert_eq!(world.delete(&ann, path).await.status, StatusCode::NO_CONTENT);
        }
        task(&world, json!({"title": "end"})).await;
        let of_red = ["created one", "updated two, moved", "deleted two, moved"];
        let of_blue = ["created two", "updated one, moved", "deleted one, moved"];
        let of_one = ["created one", "updated one, moved", "deleted one, moved"];
        assert_eq!(until_end(&mut by_name).await, of_red, "{}", world.name());
        assert_eq!(until_end(&mut bens).await, of_red, "{}", world.name());
        assert_eq!(until_end(&mut anns).await, of_blue, "{}", world.name());
        assert_eq!(until_end(&mut urgent).await, of_one, "{}", world.name());
        // An anonymous caller may not read projects, and need not here.
        assert_eq!(until_end(&mut large).await, of_one, "{}", world.name());
        assert_eq!(until_end(&mut all).await.len(), 6, "{}", world.name());
    }
}

#[tokio::test]
async fn a_related_record_that_the_listener_may_not_read_does_not_count() {
    for world in patient_worlds(entities("")).await {
        let secret = project(&world, json!({"name": "secret", "boss": "ann"})).await;
        let open_to_all = project(&world, json!({"name": "open", "boss": "ann"})).await;
        // Equal filters, asked for callers of different rights.
        let mut bens = open(&world, &user("ben"), "tasks", "project.name ~ 'e'").await;
        let mut anns = open(&world, &user("ann"), "tasks", "project.name ~ 'e'").await;
        let mut bosses = open(&world, &user("ben"), "tasks", "project.boss = 'ann'").await;
        task(&world, json!({"title": "one", "project": secret})).await;
        task(&world, json!({"title": "two", "project": open_to_all})).await;
        task(&world, json!({"title": "end"})).await;
        assert_eq!(until_end(&mut anns).await, ["created one", "created two"], "{}", world.name());
        assert_eq!(until_end(&mut bens).await, ["created two"], "{}", world.name());
        assert_eq!(until_end(&mut bosses).await, ["created two"], "{}", world.name());
    }
}

#[tokio::test]
async fn ownership_of_related_records_is_checked_for_each_listener() {
    let entities = [
        Entity::new("notes").owner("user_id").cross_owner_read("posts:audit").field(Field::string("text")),
        Entity::new("tasks").public().field(Field::string("title")).field(Field::relation("note", "notes")),
    ];
    for world in patient_worlds(entities).await {
        let note = world.post(&user("ann"), "/notes", json!({"text": "a"})).await.id();
        let mut anns = open(&world, &user("ann"), "tasks", "note.text = 'a'").await;
        let mut bens = open(&world, &user("ben"), "tasks", "note.text = 'a'").await;
        let mut auditors = open(&world, &user_with("ben", &["auditor"]), "tasks", "note.text = 'a'").await;
        task(&world, json!({"title": "one", "note": note})).await;
        task(&world, json!({"title": "end"})).await;
        assert_eq!(until_end(&mut anns).await, ["created one"], "{}", world.name());
        assert_eq!(until_end(&mut bens).await, Vec::<String>::new(), "{}", world.name());
        assert_eq!(until_end(&mut auditors).await, ["created one"], "{}", world.name());
    }
}

#[tokio::test]
async fn a_record_that_leaves_a_rules_view_is_deleted_whatever_the_filter() {
    let entities = [
        Entity::new("projects").field(Field::string("name")),
        Entity::new("tasks")
            .field(Field::string("title"))
            .field(Field::relation("reader", "users"))
            .field(Field::relation("project", "projects"))
            .rule(Action::Read, "reader = @me || @me = 'ann'"),
    ];
    for world in patient_worlds(entities).await {
        let red = project(&world, json!({"name": "red"})).await;
        let blue = project(&world, json!({"name": "blue"})).await;
        let mut bens = open(&world, &user("ben"), "tasks", "project.name = 'red'").await;
        let one = task(&world, json!({"title": "one", "reader": "ben", "project": blue})).await;
        let two = task(&world, json!({"title": "two", "reader": "ben", "project": red})).await;
        let out = task(&world, json!({"title": "of ann alone", "project": red})).await;
        patch(&world, &two, json!({"title": "two, moved", "project": blue})).await;
        patch(&world, &one, json!({"reader": null})).await;
        patch(&world, &out, json!({"title": "of ann alone still"})).await;
        task(&world, json!({"title": "end", "reader": "ben"})).await;
        assert_eq!(next(&mut bens).await.1["title"], "two", "{}", world.name());
        // A record that merely leaves the filter sends nothing.
        let left = ("entity.deleted".to_owned(), json!({"id": one.trim_start_matches("/tasks/")}));
        assert_eq!(next(&mut bens).await, left, "{}", world.name());
        assert_eq!(next(&mut bens).await.1["title"], "end", "{}", world.name());
    }
}

#[tokio::test]
async fn invalid_stream_filters_are_refused() {
    for world in patient_worlds(entities("")).await {
        let ask = async |caller: &Identity, filter: &str| {
            let path = format!("/tasks/_events?filter={}", encoded(filter));
            // A stream that opens has no end.
            let answer = world.ask(caller, Method::GET, &path).send();
            tokio::time::timeout(Duration::from_mins(1), answer).await.unwrap_or_else(|_| panic!("opened: {filter}"))
        };
        let ben = user("ben");
        assert_eq!(ask(&ben, "project.folder.name = 'a'").await.status, StatusCode::FORBIDDEN);
        assert_eq!(ask(&anonymous(), "project.name = 'a'").await.status, StatusCode::UNAUTHORIZED);
        let (hidden, never) = (ask(&ben, "hidden has 'a'").await, ask(&ben, "zzzzzz has 'a'").await);
        assert_eq!((hidden.status, never.status), (StatusCode::BAD_REQUEST, StatusCode::BAD_REQUEST));
        assert_eq!(hidden.text.replace("hidden", "zzzzzz"), never.text);
        let many = vec!["project.name = 'a'"; 17].join(" || ");
        let long = format!("project.name in [{}]", vec!["'a'"; 101].join(","));
        for filter in [&*many, &long, "project.nosuch = 'a'", "project.name = 'a' ||"] {
            let answer = ask(&ben, filter).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{filter}: {}", answer.text);
            assert!(answer.json()["detail"].as_str().unwrap().starts_with("filter: "), "{}", answer.text);
        }
        let twice = world.get(&ben, "/tasks/_events?filter=tags%20has%20'a'&filter=tags%20has%20'a'").await;
        assert_eq!(twice.status, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test]
async fn filters_are_limited_per_caller_without_affecting_others() {
    for world in patient_worlds(entities("")).await {
        let ben = user("ben");
        let ask = async |caller: &Identity, number: usize| {
            let filter = encoded(&format!("project.name = '{number}'"));
            world.ask(caller, Method::GET, &format!("/tasks/_events?filter={filter}")).open().await
        };
        // Eight of twenty parallel requests are admitted.
        let opened = futures_util::future::join_all((0..20).map(|number| ask(&ben, number))).await;
        let (found, refused): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|answer| answer.status() == StatusCode::OK);
        assert_eq!((found.len(), refused.len()), (8, 12), "{}", world.name());
        for answer in refused {
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            assert!(answer.headers().contains_key("retry-after"));
        }
        // A stream with an equal filter costs nothing more; other callers have their own limit.
        let again = open(&world, &ben, "tasks", "title = 'plain'").await;
        let anns = ask(&user("ann"), 99).await;
        assert_eq!(anns.status(), StatusCode::OK);
        drop(found);
        let later = ask(&ben, 77).await;
        assert_eq!(later.status(), StatusCode::OK, "a stream that has ended makes room: {}", world.name());
        drop((again, later, anns));
    }
}

#[tokio::test]
async fn all_filters_of_an_entity_are_evaluated_in_one_statement() {
    let seen = statements();
    for world in patient_worlds(entities("w1_")).await {
        let project = world.post(&user("ann"), "/w1_projects", json!({"name": "3", "boss": "ben"})).await.id();
        let mut streams = Vec::new();
        for number in 0..12 {
            let caller = user(if number % 2 == 0 { "ann" } else { "ben" });
            let filter = format!("project.name = '{}'", number / 2);
            streams.push(open(&world, &caller, "w1_tasks", &filter).await);
            streams.push(open(&world, &caller, "w1_tasks", "project.boss = @me").await);
        }
        let about = || seen.lock().iter().filter(|sql| sql.contains("_c") && sql.contains("w1_tasks")).count();
        let before = about();
        world.post(&user("ann"), "/w1_tasks", json!({"title": "one", "project": project})).await.id();
        assert_eq!(about() - before, 1, "{}", world.name());
        world.post(&user("ann"), "/w1_tasks", json!({"title": "end"})).await.id();
        let mut count = 0;
        for stream in &mut streams {
            count += until_end(stream).await.len();
        }
        // Two of the twelve by name, and the six of ben.
        assert_eq!(count, 8, "{}", world.name());
        drop(streams);
        let before = about();
        world.post(&user("ann"), "/w1_tasks", json!({"title": "two", "project": project})).await.id();
        assert_eq!(about() - before, 0, "{}", world.name());
    }
}

/// Tasks for which a filter takes long: it searches every byte of their comments.
fn discussed() -> Vec<Entity> {
    vec![
        Entity::new("projects").field(Field::string("name")),
        Entity::new("tasks")
            .field(Field::string("title"))
            .field(Field::relation("reader", "users"))
            .field(Field::relation("project", "projects"))
            .rule(Action::Read, "reader != 'ann' || @me = 'ann'"),
        Entity::new("comments").field(Field::text("text")).field(Field::relation("task", "tasks")),
    ]
}

/// Follows 16 relations, and matches a task with a comment that ends with `found`.
fn slow_filter() -> String {
    let mut parts: Vec<String> = (0..15).map(|number| format!("comments(task).text ~ 'nothing{number}'")).collect();
    parts.push("comments(task).text ~ 'found'".to_owned());
    parts.join(" || ")
}

/// Adds comments to a task, one of which ends with `found`, until the slow filter takes that long. Returns the time.
async fn discuss(world: &World, task: &str, least: Duration) -> Duration {
    let (ann, task) = (user("ann"), task.trim_start_matches("/tasks/"));
    let path = format!("/tasks?limit=1&filter={}", encoded(&slow_filter()));
    let text = "x".repeat(100_000);
    world.post(&ann, "/comments", json!({"text": format!("{text}found"), "task": task})).await.data();
    for number in 1..=512_usize {
        world.post(&ann, "/comments", json!({"text": text, "task": task})).await.data();
        if !number.is_power_of_two() {
            continue;
        }
        let began = Instant::now();
        assert_eq!(world.get(&ann, &path).await.status, StatusCode::OK);
        if began.elapsed() >= least {
            return began.elapsed();
        }
    }
    panic!("{}: the filter is quick", world.name());
}

/// Changes a task that often, to the titles `slow 0` and so on. Returns how many of the writes took less than `least`.
async fn quick_writes(world: &World, task: &str, count: usize, least: Duration) -> usize {
    let mut quick = 0;
    for number in 0..count {
        let began = Instant::now();
        patch(world, task, json!({"title": format!("slow {number}")})).await;
        quick += usize::from(began.elapsed() < least);
    }
    quick
}

#[tokio::test]
async fn a_slow_filter_delays_no_write_and_its_stream_gets_its_events() {
    for test_db in engines().await {
        let (world, _following) = logged(test_db, discussed()).await;
        let ben = user("ben");
        let red = project(&world, json!({"name": "red"})).await;
        let slow = task(&world, json!({"title": "slow", "project": red})).await;
        let takes = discuss(&world, &slow, Duration::from_millis(300)).await;
        let mut bens = open(&world, &ben, "tasks", &slow_filter()).await;
        let mut eves = open(&world, &user("eve"), "tasks", "project.name = 'red'").await;
        let count = 6_usize;
        let quick = quick_writes(&world, &slow, count, takes).await;
        // Each write would have waited for it.
        assert!(quick > count / 2, "{}: {quick} of {count} writes took less than the filter: {takes:?}", world.name());
        // A task whose comments do not match, and one that leaves the view.
        let other = task(&world, json!({"title": "other"})).await;
        patch(&world, &other, json!({"reader": "ann"})).await;
        task(&world, json!({"title": "end"})).await;
        let mut of_red: Vec<String> = (0..count).map(|number| format!("updated slow {number}")).collect();
        of_red.push("deleted ?".to_owned());
        for (whose, stream) in [("eve", &mut eves), ("ben", &mut bens)] {
            let got = until_end(stream).await;
            let mut left = of_red.iter();
            assert!(got.iter().all(|event| left.any(|other| other == event)), "{} {whose}: {got:?}", world.name());
            assert!(got.ends_with(&of_red[of_red.len() - 2..]), "{} {whose}: {got:?}", world.name());
        }
    }
}

/// The rule is slow for ben alone, because of records that callers create.
#[tokio::test]
async fn a_rule_that_is_slow_for_a_listener_delays_no_write_and_their_stream_gets_its_events() {
    let [projects, tasks, comments]: [Entity; 3] = discussed().try_into().unwrap();
    let rule = format!("@me = 'ann' || title = 'end' || {}", slow_filter());
    let tasks = tasks.rule(Action::Read, rule);
    for test_db in engines().await {
        let (world, _following) = logged(test_db, [projects.clone(), tasks.clone(), comments.clone()]).await;
        let slow = task(&world, json!({"title": "slow"})).await;
        let takes = discuss(&world, &slow, Duration::from_millis(900)).await;
        let [mut bens, mut anns] = [
            open(&world, &user("ben"), "tasks", "title != 'x'").await,
            open(&world, &user("ann"), "tasks", "title != 'x'").await,
        ];
        let count = 6_usize;
        // The list evaluates the rule at most twice.
        let quick = quick_writes(&world, &slow, count, takes / 3).await;
        assert!(
            quick > count / 2,
            "{}: {quick} of {count} writes took less than a third of the list: {takes:?}",
            world.name()
        );
        task(&world, json!({"title": "end"})).await;
        let all: Vec<String> = (0..count).map(|number| format!("updated slow {number}")).collect();
        for (whose, stream) in [("ann", &mut anns), ("ben", &mut bens)] {
            assert_eq!(until_end(stream).await, all, "{} {whose}", world.name());
        }
    }
}

#[tokio::test]
async fn without_a_log_a_write_is_delayed_for_a_limited_time() {
    for world in patient_worlds(discussed()).await {
        let ann = user("ann");
        let slow = task(&world, json!({"title": "slow"})).await;
        let takes = discuss(&world, &slow, Duration::from_millis(1_200)).await;
        let _bens = open(&world, &user("ben"), "tasks", &slow_filter()).await;
        let mut anns = open(&world, &ann, "tasks", "title != 'x'").await;
        let mut quick = 0;
        for number in 0..3 {
            let began = Instant::now();
            patch(&world, &slow, json!({"title": number.to_string()})).await;
            quick += u32::from(began.elapsed() < takes);
        }
        assert!(quick > 1, "{}: {quick} of 3 writes took less than the filter: {takes:?}", world.name());
        task(&world, json!({"title": "end"})).await;
        assert_eq!(until_end(&mut anns).await, ["updated 0", "updated 1", "updated 2"], "{}", world.name());
    }
}

#[tokio::test]
async fn filters_of_anonymous_callers_are_limited_by_address() {
    for world in patient_worlds(entities("")).await {
        let ask = async |address: [u8; 4], filter: &str| {
            let path = format!("/tasks/_events?filter={}", encoded(filter));
            let peer = ConnectInfo(SocketAddr::from((address, 4711)));
            world.ask(&anonymous(), Method::GET, &path).extension(peer).open().await
        };
        let mut streams = Vec::new();
        for number in 0..8 {
            streams.push(ask([192, 0, 2, 1], &format!("meta.size = {number}")).await);
        }
        assert!(streams.iter().all(|answer| answer.status() == StatusCode::OK));
        let ninth = ask([192, 0, 2, 1], "meta.size = 8").await;
        assert_eq!(ninth.status(), StatusCode::TOO_MANY_REQUESTS, "{}", world.name());
        let elsewhere = ask([192, 0, 2, 2], "meta.size = 8").await;
        assert_eq!(elsewhere.status(), StatusCode::OK, "{}", world.name());
        // The filters of others count against a caller's own share.
        let mut shared = Vec::new();
        for number in 0..7 {
            shared.push(ask([192, 0, 2, 2], &format!("meta.size = {number}")).await.status());
        }
        assert_eq!(shared, [StatusCode::OK; 7]);
        drop(streams);
        assert_eq!(ask([192, 0, 2, 1], "meta.size = 8").await.status(), StatusCode::OK, "{}", world.name());
    }
}

#[tokio::test]
async fn a_resumed_stream_shows_what_its_filter_matches() {
    for test_db in engines().await {
        let (world, _following) = logged(test_db, entities("")).await;
        let red = project(&world, json!({"name": "red"})).await;
        let blue = project(&world, json!({"name": "blue"})).await;
        let mut stream = open(&world, &user("ben"), "tasks", "project.name = 'red' || meta.size = 1").await;
        task(&world, json!({"title": "end"})).await;
        assert_eq!(until_end(&mut stream).await, Vec::<String>::new());
        let position = stream.position.clone();
        drop(stream);
        let one = task(&world, json!({"title": "one", "project": red})).await;
        task(&world, json!({"title": "two", "project": blue})).await;
        task(&world, json!({"title": "three", "meta": {"size": 1}})).await;
        world.delete(&user("ann"), &one).await;
        task(&world, json!({"title": "end"})).await;
        let filter = encoded("project.name = 'red' || meta.size = 1 || title = 'end'");
        let path = format!("/tasks/_events?since={position}&filter={filter}");
        let mut stream = Stream::open(world.ask(&user("ben"), Method::GET, &path)).await;
        let seen = until_end(&mut stream).await;
        assert_eq!(seen, ["created one", "created three", "deleted one"], "{}", world.name());
        task(&world, json!({"title": "four", "project": red})).await;
        task(&world, json!({"title": "end"})).await;
        assert_eq!(until_end(&mut stream).await, ["created four"], "{}", world.name());
    }
}
