//! `sort=` by the values of related records, under the reader's own rights.

use gatewright_entities::{Action, Entity, Field};
use http::StatusCode;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, tenant_id, user, user_with, worlds};

fn entities() -> [Entity; 3] {
    [
        Entity::new("folders").access(Action::Read, "posts:audit").field(Field::string("name")),
        Entity::new("projects")
            .soft_delete()
            .field(Field::string("name"))
            .field(Field::decimal("budget"))
            .field(Field::timestamp("due"))
            .field(Field::boolean("closed"))
            .field(Field::string("secret").hidden())
            .field(Field::json("meta"))
            .field(Field::relation("boss", "users"))
            .field(Field::relation("parent", "projects"))
            .field(Field::relation("folder", "folders"))
            .rule(Action::Read, "secret != 'closed to ben' || boss = @me"),
        Entity::new("tasks")
            .max_list_limit(100)
            .field(Field::string("title"))
            .field(Field::relation("project", "projects")),
    ]
}

/// A project for each of these bodies and a task in each, called by their numbers; and one task without a project.
async fn fill(world: &World, projects: &[Value]) -> Vec<String> {
    let ann = user("ann");
    let mut ids: Vec<String> = Vec::new();
    world.post(&ann, "/tasks", json!({"title": "none"})).await.id();
    for (number, body) in projects.iter().enumerate() {
        let mut body = body.clone();
        if let Some(parent) = body["parent"].as_u64() {
            body["parent"] = json!(ids[usize::try_from(parent).unwrap()]);
        }
        body["boss"] = json!("ann");
        let secret = body.as_object_mut().unwrap().remove("secret");
        ids.push(world.post(&ann, "/projects", &body).await.id());
        if let Some(secret) = secret {
            let sql = "UPDATE projects SET secret = ?1 WHERE id = ?2";
            let params = gatewright_db::params![secret.as_str().unwrap(), ids[number].as_str()];
            world.db().execute(sql, params).await.unwrap();
        }
        world.post(&ann, "/tasks", json!({"title": number.to_string(), "project": ids[number]})).await.id();
    }
    ids
}

fn titles(answer: &Answer) -> Vec<String> {
    answer.data().as_array().unwrap().iter().map(|task| task["title"].as_str().unwrap().to_owned()).collect()
}

/// All titles by cursor, two at a time, from the end that `direction` reads from; each page in the list's own order.
async fn walked(world: &World, caller: &str, sort: &str, direction: &str) -> Vec<String> {
    let (mut from, mut pages) = (String::new(), Vec::new());
    loop {
        let path = format!("/tasks?limit=2&sort={sort}&direction={direction}&cursor={from}");
        let answer = world.get(&user(caller), &path).await;
        pages.push(titles(&answer));
        match answer.json()["cursor"].as_str() {
            Some(cursor) => cursor.clone_into(&mut from),
            None => break,
        }
    }
    if direction == "backward" {
        pages.reverse();
    }
    pages.concat()
}

async fn sorted(world: &World, caller: &str, sort: &str) -> Vec<String> {
    let listed = titles(&world.get(&user(caller), &format!("/tasks?sort={sort}")).await);
    for direction in ["forward", "backward"] {
        assert_eq!(walked(world, caller, sort, direction).await, listed, "{} {sort} {direction}", world.name());
    }
    listed
}

#[tokio::test]
async fn a_list_is_sorted_by_related_records_page_by_page() {
    for world in worlds(entities()).await {
        fill(
            &world,
            &[
                json!({"name": "b", "budget": "10", "due": "2026-01-02T00:00:00Z", "closed": true}),
                json!({"name": "a", "budget": "9.5", "due": "2026-01-01T00:00:00Z", "closed": false, "parent": 0}),
                json!({"name": "a", "budget": "-1", "due": "2026-01-01T00:00:00.5Z", "closed": true, "parent": 1}),
                json!({"name": null, "parent": 0}),
            ],
        )
        .await;
        for (sort, wanted) in [
            ("project.name", ["1", "2", "0", "none", "3"]),
            ("-project.name", ["none", "3", "0", "1", "2"]),
            ("project.name,-title", ["2", "1", "0", "none", "3"]),
            ("project.budget", ["2", "1", "0", "none", "3"]),
            ("-project.budget,title", ["3", "none", "0", "1", "2"]),
            ("project.due", ["1", "2", "0", "none", "3"]),
            ("project.closed,project.name", ["1", "2", "0", "none", "3"]),
            ("project.parent.name", ["2", "1", "3", "none", "0"]),
            ("-project.parent.parent.name,title", ["0", "1", "3", "none", "2"]),
            ("title,project.name", ["0", "1", "2", "3", "none"]),
            ("project.boss,title", ["0", "1", "2", "3", "none"]),
            ("project.boss.id,-title", ["3", "2", "1", "0", "none"]),
        ] {
            assert_eq!(sorted(&world, "ann", sort).await, wanted, "{} {sort}", world.name());
        }
    }
}

#[tokio::test]
async fn a_related_record_that_the_caller_may_not_read_sorts_as_an_absent_one() {
    for world in worlds(entities()).await {
        // Each secret name lies between two known ones: a sort by it would reveal its position.
        let ids = fill(
            &world,
            &[
                json!({"name": "c"}),
                json!({"name": "b", "secret": "closed to ben"}),
                json!({"name": "a"}),
                json!({"name": "d", "secret": "closed to ben"}),
                json!({"name": "0", "parent": 1}),
                json!({"name": "1"}),
            ],
        )
        .await;
        assert_eq!(sorted(&world, "ann", "project.name").await, ["4", "5", "2", "1", "0", "3", "none"]);
        assert_eq!(sorted(&world, "ben", "project.name").await, ["4", "5", "2", "0", "none", "1", "3"]);
        assert_eq!(sorted(&world, "ben", "-project.name").await, ["none", "1", "3", "0", "2", "5", "4"]);
        // A record that refers to it does not bypass its rule.
        assert_eq!(sorted(&world, "ann", "project.parent.name").await[0], "4");
        assert_eq!(sorted(&world, "ben", "project.parent.name").await, ["none", "0", "1", "2", "3", "4", "5"]);
        // The parameters of a filter and of a page are combined with those of the path.
        let filter = "filter=title!='5'%26%26project.name!='c'&title_ne=4";
        let both = world.get(&user("ben"), &format!("/tasks?sort=project.name&{filter}")).await;
        assert_eq!(titles(&both), ["2", "none", "1", "3"], "{}", world.name());
        assert_eq!(both.json()["total"], 4);
        let second = world.get(&user("ben"), &format!("/tasks?sort=-project.name&{filter}&limit=3&page=2")).await;
        assert_eq!((titles(&second), &second.json()["total"]), (vec!["2".to_owned()], &json!(4)));
        // What is in the trash is absent.
        world.delete(&user("ann"), &format!("/projects/{}", ids[4])).await;
        assert_eq!(sorted(&world, "ann", "project.name").await, ["5", "2", "1", "0", "3", "none", "4"]);
    }
}

#[tokio::test]
async fn a_path_into_what_the_caller_may_not_read_is_refused() {
    for world in worlds(entities()).await {
        fill(&world, &[json!({"name": "a"})]).await;
        let ask = async |caller: &gatewright_base::Identity, sort: &str| {
            world.get(caller, &format!("/tasks?sort={sort}")).await
        };
        let refused = ask(&user("ben"), "project.folder.name").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
        let auditor = user_with("ben", &["auditor"]);
        assert_eq!(ask(&auditor, "project.folder.name").await.status, StatusCode::OK);
        assert_eq!(ask(&anonymous(), "project.name").await.status, StatusCode::UNAUTHORIZED);
        // A hidden field is unknown, with the text of an undeclared one.
        let hidden = ask(&user("ann"), "project.secret").await;
        let never = ask(&user("ann"), "project.zzzzzz").await;
        assert_eq!(hidden.status, StatusCode::BAD_REQUEST);
        assert_eq!(hidden.text.replace("secret", "zzzzzz"), never.text);
        for sort in ["project.meta", "project.meta.size", "tasks(project).title", "project.boss.email", "title.x", "."]
        {
            let answer = ask(&user("ann"), sort).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{sort}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_cursor_is_valid_only_for_its_path() {
    for world in worlds(entities()).await {
        fill(&world, &[json!({"name": "a"}), json!({"name": "b"}), json!({"name": "c"})]).await;
        let first = world.get(&user("ann"), "/tasks?sort=project.name&limit=1&cursor=").await;
        let cursor = first.json()["cursor"].as_str().unwrap().to_owned();
        for (sort, status) in [
            ("project.name", 200),
            ("-project.name", 400),
            ("project.parent.name", 400),
            ("project.boss", 400),
            ("title", 400),
        ] {
            let answer = world.get(&user("ann"), &format!("/tasks?sort={sort}&cursor={cursor}")).await;
            assert_eq!(answer.status.as_u16(), status, "{sort}: {}", answer.text);
        }
        // The cursor of one caller shows another what they may read themselves.
        let other = world.get(&user("ben"), &format!("/tasks?sort=project.name&cursor={cursor}")).await;
        assert_eq!(titles(&other), ["1", "2", "none"]);
    }
}

#[tokio::test]
async fn a_path_into_another_tenant_has_no_value() {
    let entities = [
        Entity::new("projects").multi_tenant().field(Field::string("name")),
        Entity::new("tasks").multi_tenant().field(Field::string("title")).field(Field::relation("project", "projects")),
    ];
    for world in worlds(entities).await {
        let ann = user("ann");
        world.join("red", &ann).await;
        world.join("blue", &ann).await;
        let post = async |tenant: &str, path: &str, body: Value| {
            world.ask(&ann, http::Method::POST, path).tenant(tenant).json(body).send().await.id()
        };
        let red = post("red", "/projects", json!({"name": "a"})).await;
        let blue = post("blue", "/projects", json!({"name": "0"})).await;
        let one = post("red", "/tasks", json!({"title": "one", "project": red})).await;
        let two = post("red", "/tasks", json!({"title": "two", "project": red})).await;
        // As a row from another source might be.
        let sql = "UPDATE tasks SET project = ?1 WHERE id = ?2";
        world.db().execute(sql, gatewright_db::params![blue, two]).await.unwrap();
        let ask = async |sort: &str| {
            let path = format!("/tasks?sort={sort}");
            titles(&world.ask(&ann, http::Method::GET, &path).tenant(tenant_id("red").as_str()).send().await)
        };
        assert_eq!(ask("project.name").await, ["one", "two"], "{} {one}", world.name());
        assert_eq!(ask("-project.name").await, ["two", "one"], "{}", world.name());
    }
}
