//! Relations: which records they may refer to, and who may set them.

use gatewright_entities::{Action, Entity, Field, Users};
use serde_json::json;

use super::support::{anonymous, user, user_with, worlds, worlds_with};

fn album() -> Entity {
    Entity::new("albums").public().field(Field::string("title"))
}

#[tokio::test]
async fn a_relation_names_a_record_that_exists() {
    let photos = Entity::new("photos")
        .public()
        .field(Field::relation("album", "albums").required())
        .field(Field::relation("cover_of", "albums"))
        .field(Field::relation("taken_by", "users"));
    for world in worlds([photos, album()]).await {
        let album = world.post(&anonymous(), "/albums", json!({"title": "x"})).await.id();
        let good = world.post(&anonymous(), "/photos", json!({"album": album, "takenBy": "ann"})).await;
        assert_eq!(good.data()["album"], album.as_str());
        let cases = [
            (json!({"album": "nope"}), vec!["album"]),
            (json!({"album": album, "takenBy": "nobody"}), vec!["takenBy"]),
            (json!({"album": "nope", "coverOf": "nope", "takenBy": "ann"}), vec!["album", "coverOf"]),
        ];
        for (body, fields) in cases {
            for answer in [
                world.post(&anonymous(), "/photos", &body).await,
                world.patch(&anonymous(), good.header("location"), &body).await,
            ] {
                assert_eq!(answer.status, 422, "{} {body} {}", world.name(), answer.text);
                let faults = answer.faults();
                assert_eq!(faults.keys().collect::<Vec<_>>(), fields);
                assert!(faults.values().all(|code| code == "relation"));
            }
        }
        let missing = world.post(&anonymous(), "/photos", json!({"coverOf": album})).await;
        assert_eq!(missing.faults()["album"], "required");
        assert_eq!(world.rows("photos").await, 1);
    }
}

#[tokio::test]
async fn a_relation_to_an_owned_record_needs_one_that_the_caller_could_read() {
    let projects =
        Entity::new("projects").owner("user_id").cross_owner_read("posts:audit").field(Field::string("name"));
    let tasks = Entity::new("tasks").field(Field::relation("project", "projects"));
    for world in worlds([projects, tasks]).await {
        let of_ann = world.post(&user("ann"), "/projects", json!({"name": "x"})).await.id();
        let body = json!({"project": of_ann});
        let mine = world.post(&user("ann"), "/tasks", &body).await;
        assert_eq!(mine.status, 201, "{}", mine.text);
        assert_eq!(world.post(&user_with("ben", &["auditor"]), "/tasks", &body).await.status, 201);

        // A record of another owner and a missing one look the same.
        let others = world.post(&user("ben"), "/tasks", &body).await;
        let absent = world.post(&user("ben"), "/tasks", json!({"project": "nope"})).await;
        assert_eq!(others.status, 422);
        assert_eq!(others.text, absent.text);
        let moved = world.patch(&user("ben"), mine.header("location"), &body).await;
        assert_eq!(moved.status, 422);
        assert_eq!(world.rows("tasks").await, 2);
    }
}

#[tokio::test]
async fn relations_to_missing_records_are_reported_with_the_other_errors_of_a_body() {
    let projects = Entity::new("projects").owner("user_id").field(Field::string("name"));
    let tasks = Entity::new("tasks")
        .field(Field::string("title").required().min(2))
        .field(Field::relation("album", "albums"))
        .field(Field::relation("project", "projects"))
        .field(Field::relation("taken_by", "users"));
    for world in worlds([projects, tasks, album()]).await {
        let of_ann = world.post(&user("ann"), "/projects", json!({"name": "x"})).await.id();
        let task = world.post(&user("ben"), "/tasks", json!({"title": "mine"})).await;
        let path = task.header("location").to_owned();
        for (body, expected) in [
            (
                json!({"title": "x", "album": "nope", "project": of_ann, "takenBy": "nobody"}),
                vec![("album", "relation"), ("project", "relation"), ("takenBy", "relation"), ("title", "min")],
            ),
            (json!({"title": "x", "takenBy": "ann"}), vec![("title", "min")]),
            (json!({"title": "x", "album": 7}), vec![("album", "type"), ("title", "min")]),
            // For a valid body, relations that the foreign key refuses are reported with those that the caller may not read.
            (
                json!({"title": "fits", "album": "nope", "project": of_ann}),
                vec![("album", "relation"), ("project", "relation")],
            ),
        ] {
            let items = json!({"items": [{"title": "good"}, body]});
            let mut change = body.clone();
            change["id"] = json!(path.rsplit('/').next());
            let changes = json!({"items": [change]});
            for (way, answer) in [
                ("create", world.post(&user("ben"), "/tasks", &body).await),
                ("update", world.patch(&user("ben"), &path, &body).await),
                ("batch", world.post(&user("ben"), "/tasks/_batch", &items).await),
                ("batch of updates", world.patch(&user("ben"), "/tasks/_batch", &changes).await),
            ] {
                assert_eq!(answer.status, 422, "{} {way} {}", world.name(), answer.text);
                let problem = answer.json();
                let results = problem["results"].as_array().and_then(|results| results.last());
                let errors = results.map_or(&problem["errors"], |last| &last["error"]["errors"]);
                let mut told: Vec<_> = errors
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|error| (error["field"].as_str().unwrap(), error["code"].as_str().unwrap()))
                    .collect();
                told.sort_unstable();
                assert_eq!(told, expected, "{} {way}", world.name());
            }
        }
        // A record of another owner and a missing one look the same.
        let refused = async |project: &str| {
            world.post(&user("ben"), "/tasks", json!({"title": "x", "project": project})).await.text
        };
        assert_eq!(refused(&of_ann).await, refused("nope").await);
        assert_eq!(world.rows("tasks").await, 1);
    }
}

#[tokio::test]
async fn users_may_be_stored_elsewhere() {
    let notes = Entity::new("notes").public().field(Field::relation("author", "users"));
    for world in worlds_with([notes], |builder| builder.users(Users::Elsewhere)).await {
        let made = world.post(&anonymous(), "/notes", json!({"author": "somebody-of-another-system"})).await;
        assert_eq!(made.status, 201);
    }
}

#[tokio::test]
async fn entities_may_refer_to_each_other_in_a_cycle_and_to_themselves() {
    let people = Entity::new("people")
        .public()
        .field(Field::relation("home", "houses"))
        .field(Field::relation("boss", "people"));
    let houses = Entity::new("houses").public().field(Field::relation("landlord", "people"));
    for world in worlds([people, houses]).await {
        let boss = world.post(&anonymous(), "/people", "{}").await.id();
        let house = world.post(&anonymous(), "/houses", json!({"landlord": boss})).await.id();
        let settled = world.patch(&anonymous(), &format!("/people/{boss}"), json!({"home": house, "boss": boss})).await;
        assert_eq!(settled.data()["home"], house.as_str());
        let nowhere = world.patch(&anonymous(), &format!("/people/{boss}"), json!({"home": "nope"})).await;
        assert_eq!(nowhere.status, 422, "{}", world.name());
    }
}

/// Several writes in one transaction: an invalid relation is reported like that of a single write.
#[tokio::test]
async fn a_batch_reports_relations_to_missing_records() {
    let photos = Entity::new("photos")
        .public()
        .field(Field::string("title"))
        .field(Field::relation("album", "albums"))
        .field(Field::relation("taken_by", "users"));
    for world in worlds([photos, album()]).await {
        let made = world.post(&anonymous(), "/photos", json!({"title": "x"})).await.id();
        for (body, fields) in [
            (json!({"album": "nope"}), vec!["album"]),
            (json!({"album": "nope", "takenBy": "nobody"}), vec!["album", "takenBy"]),
        ] {
            let mut item = body.clone();
            item["id"] = json!(made);
            for answer in [
                world.post(&anonymous(), "/photos/_batch", json!({"items": [{"title": "y"}, body]})).await,
                world.patch(&anonymous(), "/photos/_batch", json!({"items": [{"id": made, "title": "y"}, item]})).await,
            ] {
                assert_eq!(answer.status, 422, "{} {}", world.name(), answer.text);
                let errors = answer.json()["results"][1]["error"]["errors"].clone();
                let told: Vec<_> = errors.as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
                assert_eq!(told, fields, "{}", world.name());
            }
        }
        assert_eq!(world.rows("photos").await, 1);
        let album = world.post(&anonymous(), "/albums", json!({"title": "x"})).await.id();
        let good = json!({"items": [{"album": album, "takenBy": "ann"}, {"id": made, "album": album}]});
        assert_eq!(world.post(&anonymous(), "/photos/_batch", good).await.status, 200);
    }
}

/// A refusal by a permission and one by a rule are the same: a record that the caller may not read does not exist.
#[tokio::test]
async fn a_record_of_an_entity_that_the_caller_may_not_read_cannot_be_named() {
    let posts = Entity::new("posts").access(Action::Read, "posts:read").field(Field::string("title"));
    let bin = Entity::new("bins").access(Action::Read, "posts:read").soft_delete().field(Field::string("title"));
    let notes = Entity::new("notes")
        .field(Field::string("title"))
        .field(Field::relation("post", "posts"))
        .field(Field::relation("bin", "bins"));
    for world in worlds([posts, bin, notes]).await {
        let reader = user_with("reader", &["reader"]);
        let post = world.post(&reader, "/posts", json!({"title": "x"})).await.id();
        let bin = world.post(&reader, "/bins", json!({"title": "x"})).await.id();
        for (field, id) in [("post", &post), ("bin", &bin)] {
            let hidden = world.post(&user("ann"), "/notes", json!({field: id})).await;
            let absent = json!({field: "0191d2b3-0000-7000-8000-00000000000a"});
            let absent = world.post(&user("ann"), "/notes", absent).await;
            assert_eq!(hidden.status, 422, "{} {field} {}", world.name(), hidden.text);
            assert_eq!(hidden.text, absent.text, "{} {field}", world.name());
            let named = world.post(&reader, "/notes", json!({field: id})).await;
            assert_eq!(named.status, 201, "{} {field} {}", world.name(), named.text);
            let path = named.header("location").to_owned();
            let moved = world.patch(&user("ann"), &path, &json!({field: id})).await;
            assert_eq!(moved.status, 422, "{} {field} {}", world.name(), moved.text);
        }
        assert_eq!(world.rows("notes").await, 2);
    }
}

/// 404 before 412 before 422, on entities without rules too.
#[tokio::test]
async fn a_missing_or_changed_record_is_reported_before_an_invalid_body() {
    for world in worlds([album()]).await {
        let ann = user("ann");
        let path = world.post(&ann, "/albums", json!({"title": "x"})).await.header("location").to_owned();
        let wrong = json!({"title": 7, "nothing": true});
        assert_eq!(world.patch(&ann, "/albums/0191d2b3-0000-7000-8000-00000000000a", &wrong).await.status, 404);
        assert_eq!(world.patch(&ann, &path, &wrong).await.status, 422, "{}", world.name());
    }
}
