//! `include=` over several relations, to many records, and backward.

use gatewright_entities::{Action, Entity, Field};
use http::Method;
use serde_json::{Value, json};

use super::include::statements;
use super::support::{World, anonymous, user, user_with, worlds};

fn included(record: &Value) -> &Value {
    &record["_included"]
}

/// Teams with projects, whose tickets have labels and comments, each with an author.
fn helpdesk(prefix: &str) -> Vec<Entity> {
    let name = |name: &str| format!("{prefix}{name}");
    vec![
        Entity::new(name("teams")).public().field(Field::string("name")),
        Entity::new(name("projects"))
            .public()
            .field(Field::string("name"))
            .field(Field::relation("team", name("teams"))),
        Entity::new(name("labels")).public().field(Field::string("name")),
        Entity::new(name("tickets"))
            .public()
            .field(Field::string("subject"))
            .field(Field::relation("project", name("projects")))
            .field(Field::relation("labels", name("labels")).many())
            .field(Field::relation("watchers", "users").many()),
        Entity::new(name("comments"))
            .public()
            .field(Field::int("number"))
            .field(Field::relation("ticket_id", name("tickets")))
            .field(Field::relation("author", "users"))
            .field(Field::relation("parent", name("comments"))),
    ]
}

async fn post(world: &World, path: &str, body: Value) -> Value {
    world.post(&anonymous(), path, body).await.data()
}

#[tokio::test]
async fn three_relations_are_followed_forward_to_many_and_back() {
    for world in worlds(helpdesk("")).await {
        let team = post(&world, "/teams", json!({ "name": "core" })).await;
        let project = post(&world, "/projects", json!({ "name": "moon", "team": team["id"] })).await;
        let [red, blue] = [
            post(&world, "/labels", json!({ "name": "red" })).await,
            post(&world, "/labels", json!({ "name": "blue" })).await,
        ];
        let ticket = json!({ "subject": "one", "project": project["id"], "labels": [blue["id"], red["id"]], "watchers": ["ben", "ann"] });
        let ticket = post(&world, "/tickets", ticket).await;
        let bare = post(&world, "/tickets", json!({ "subject": "two" })).await;
        let mut comments = Vec::new();
        for number in 0..30 {
            let comment = json!({ "number": number, "ticketId": ticket["id"], "author": if number % 2 == 0 { "ann" } else { "ben" } });
            comments.push(post(&world, "/comments", comment).await);
        }
        let id = ticket["id"].as_str().unwrap();
        for path in [
            format!("/tickets/{id}?"),
            "/tickets?sort=subject&limit=1&".to_owned(),
            "/tickets?cursor=&limit=1&".to_owned(),
        ] {
            let get = async |include: &str| {
                let data = world.get(&anonymous(), &format!("{path}include={include}")).await.data();
                data.get(0).unwrap_or(&data)["_included"].clone()
            };
            // Forward: a record within a record.
            let mut inner = project.clone();
            inner["_included"] = json!({ "team": team });
            assert_eq!(get("project.team").await, json!({ "project": inner }), "{} {path}", world.name());
            // To many: in the order of the links.
            let many = get("labels,watchers").await;
            assert_eq!(
                many,
                json!({ "labels": [blue, red], "watchers": [{ "id": "ben" }, { "id": "ann" }] }),
                "{}",
                world.name()
            );
            // Back: the newest first, with whether there are more. The key has no number.
            let back = get("comments(ticketId)").await;
            let newest: Vec<Value> = comments.iter().rev().take(25).cloned().collect();
            assert_eq!(back, json!({ "comments(ticketId)": { "data": newest, "hasMore": true } }), "{}", world.name());
            let all = get("comments(ticket_id):100").await["comments(ticketId)"].clone();
            assert_eq!((all["data"].as_array().unwrap().len(), &all["hasMore"]), (30, &json!(false)));
            let exact = get("comments(ticketId):30").await["comments(ticketId)"].clone();
            assert_eq!(exact, all, "as many as there are");
            // And further.
            let deep = get("comments(ticketId):2.author").await["comments(ticketId)"].clone();
            let mut first = comments[29].clone();
            first["_included"] = json!({ "author": { "id": "ben" } });
            assert_eq!((&deep["data"][0], deep["data"].as_array().unwrap().len()), (&first, 2));
            let round = get("comments(ticketId):1.ticketId.project").await;
            let last = &round["comments(ticketId)"]["data"][0];
            assert_eq!(included(&included(last)["ticketId"])["project"], project, "{last}");
        }
        // Backward over a relation to many, and of a record without any.
        let label = red["id"].as_str().unwrap();
        let of_label =
            world.get(&anonymous(), &format!("/labels/{label}?include=tickets(labels).project")).await.data();
        let found = &included(&of_label)["tickets(labels)"];
        assert_eq!((&found["data"][0]["id"], &found["hasMore"]), (&ticket["id"], &json!(false)), "{}", world.name());
        assert_eq!(included(&found["data"][0])["project"]["name"], "moon");
        let id = bare["id"].as_str().unwrap();
        let none = world
            .get(&anonymous(), &format!("/tickets/{id}?include=project.team,labels,comments(ticketId)"))
            .await
            .data();
        let empty = json!({ "project": null, "labels": [], "comments(ticketId)": { "data": [], "hasMore": false } });
        assert_eq!(included(&none), &empty, "{}", world.name());
        // What a client sends back is still ignored.
        assert_eq!(world.patch(&anonymous(), &format!("/tickets/{id}"), &none).await.status, 200);
        // Entity tags at each step.
        let tagged =
            world.get(&anonymous(), "/tickets?include=project.team&etag=true&limit=1&sort=subject").await.data();
        let project = &included(&tagged[0])["project"];
        let team = &included(project)["team"];
        for (table, record) in [("projects", project), ("teams", team)] {
            let path = format!("/{table}/{}", record["id"].as_str().unwrap());
            assert_eq!(record["_etag"], world.get(&anonymous(), &path).await.header("etag"), "{table}");
        }
    }
}

#[tokio::test]
async fn the_number_of_statements_does_not_depend_on_the_number_of_records() {
    let seen = statements();
    for world in worlds(helpdesk("deep_")).await {
        let team = post(&world, "/deep_teams", json!({ "name": "core" })).await;
        let label = post(&world, "/deep_labels", json!({ "name": "red" })).await;
        let mut counts = Vec::new();
        for round in 0..3 {
            for _ in 0..[1, 4, 15][round] {
                let project = post(&world, "/deep_projects", json!({ "name": "p", "team": team["id"] })).await;
                let ticket = json!({ "project": project["id"], "labels": [label["id"]], "watchers": ["ann"] });
                let ticket = post(&world, "/deep_tickets", ticket).await;
                let mut parent = Value::Null;
                for _ in 0..3 {
                    let comment = json!({ "ticketId": ticket["id"], "author": "ann", "parent": parent });
                    parent = post(&world, "/deep_comments", comment).await["id"].clone();
                }
            }
            let before = seen.lock().iter().filter(|sql| sql.contains("deep_")).count();
            let include =
                "project.team,labels,watchers,deep_comments(ticketId):3.author,deep_comments(ticketId).parent.author";
            let list =
                world.get(&anonymous(), &format!("/deep_tickets?limit=100&total=none&include={include}")).await.data();
            counts.push(seen.lock().iter().filter(|sql| sql.contains("deep_")).count() - before);
            let expected = [1, 5, 20][round];
            assert_eq!(list.as_array().unwrap().len(), expected);
            for ticket in list.as_array().unwrap() {
                let comments = &included(ticket)["deep_comments(ticketId)"]["data"];
                assert_eq!(comments.as_array().unwrap().len(), 3);
                assert_eq!(included(&comments[0])["parent"], {
                    let mut parent = comments[1].clone();
                    parent["_included"] = json!({ "author": { "id": "ann" } });
                    parent
                });
            }
        }
        // The page, projects, teams, labels, comments and their parents.
        assert_eq!(counts, [6, 6, 6], "{}", world.name());
    }
}

#[tokio::test]
async fn each_entity_on_the_way_has_its_own_rights() {
    let entities = [
        Entity::new("secrets").access(Action::Read, "posts:read").field(Field::string("text")),
        Entity::new("diaries")
            .owner("user_id")
            .field(Field::string("text"))
            .field(Field::relation("secret", "secrets")),
        Entity::new("notes")
            .rule(Action::Read, "text != 'canary'")
            .soft_delete()
            .field(Field::string("text"))
            .field(Field::string("hidden").hidden().default("canary"))
            .field(Field::string("inner").read("@roles has 'editor'"))
            .field(Field::relation("pin", "pins"))
            .field(Field::relation("diary", "diaries"))
            .field(Field::relation("writer", "users"))
            .field(Field::relation("only", "pins").read("@roles has 'editor'")),
        Entity::new("pins")
            .field(Field::string("name"))
            .field(Field::relation("diary", "diaries"))
            .field(Field::relation("many", "notes").many()),
    ];
    for world in worlds(entities).await {
        let (ann, ben, editor) = (user("ann"), user("ben"), user_with("eve", &["editor"]));
        let diary = world.post(&ann, "/diaries", json!({ "text": "of ann" })).await.id();
        let pin = world.post(&ann, "/pins", json!({ "name": "p", "diary": diary })).await.id();
        let note = async |text: &str, caller: &gatewright_base::Identity| {
            world.post(caller, "/notes", json!({ "text": text, "pin": pin })).await.id()
        };
        let (fine, gone) = (note("fine", &ann).await, note("gone", &ann).await);
        let inner = world
            .post(&editor, "/notes", json!({ "text": "inner", "pin": pin, "inner": "4711", "only": pin }))
            .await
            .id();
        assert_eq!(
            world.patch(&ann, &format!("/pins/{pin}"), json!({ "many": [gone, inner, fine] })).await.status,
            200
        );
        world.delete(&ann, &format!("/notes/{gone}")).await;
        // No request could make it.
        let planted = "INSERT INTO notes (id, text, pin, hidden, created_at, updated_at) SELECT 'planted', 'canary', pin, hidden, created_at, updated_at FROM notes WHERE id = ?1";
        world.db().execute(planted, gatewright_db::params![&fine]).await.unwrap();

        let path = format!("/pins/{pin}?include=notes(pin).pin.diary,many");
        let seen = world.get(&ben, &path).await;
        for canary in ["canary", "gone", "4711", "of ann", "inner\":"] {
            assert!(!seen.text.contains(canary), "{} {canary}: {}", world.name(), seen.text);
        }
        let seen = seen.data();
        let data = included(&seen)["notes(pin)"]["data"].as_array().unwrap();
        assert_eq!(data.iter().map(|note| note["text"].as_str().unwrap()).collect::<Vec<_>>(), ["inner", "fine"]);
        assert_eq!(included(&included(&data[0])["pin"])["diary"], Value::Null, "of another owner");
        let many: Vec<&str> =
            included(&seen)["many"].as_array().unwrap().iter().map(|note| note["text"].as_str().unwrap()).collect();
        assert_eq!(many, ["inner", "fine"], "who is not reached is left out");
        let own = world.get(&ann, &path).await.text;
        assert!(own.contains("of ann") && !own.contains("4711"), "{own}");
        assert!(world.get(&editor, &path).await.text.contains("4711"));

        // A field that the caller may not read leads nowhere, in either direction.
        for (include, detail) in [
            ("notes(only)", "include: there is no relation \"notes(only)\" to \"pins\""),
            ("notes(onl)", "include: there is no relation \"notes(onl)\" to \"pins\""),
            ("notes(diary)", "include: there is no relation \"notes(diary)\" to \"pins\""),
            ("nosuch(pin)", "include: there is no relation \"nosuch(pin)\" to \"pins\""),
            ("many.only", "include: there is no relation \"only\" of \"notes\""),
            ("many.text", "include: \"text\" of \"notes\" is not a relation"),
            ("notes(pin).hidden", "include: there is no relation \"hidden\" of \"notes\""),
            ("diary.userId.x", "include: there is no relation \"userId\" of \"diaries\""),
            ("diary.secret.x.y", "include: \"diary.secret.x.y\" has more than 3 relations"),
            ("notes(pin):101", "include: the number of records is 1 to 100, not \"101\""),
        ] {
            let refused = world.get(&ben, &format!("/pins/{pin}?include={include}")).await;
            refused.is_refused(400, detail);
        }
        assert_eq!(world.get(&editor, &format!("/pins/{pin}?include=notes(only),many.only")).await.status, 200);
        // An entity that the caller may not read at all refuses, also as the last of three.
        let refused = world.get(&ben, &format!("/pins/{pin}?include=diary.secret")).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        let refused = world.get(&ben, "/pins?include=notes(pin).diary.secret").await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        // Such a caller learns nothing about its fields either: every name is refused alike.
        let expected = world.get(&ben, &format!("/pins/{pin}?include=diary.secret")).await.text;
        for name in ["text", "nosuch", "diaries(secret)", "nosuch(x)"] {
            let refused = world.get(&ben, &format!("/pins/{pin}?include=diary.secret.{name}")).await;
            assert_eq!((refused.status.as_u16(), &refused.text), (403, &expected), "{name}");
        }
        for include in ["secrets(text)", "secrets(nosuch)"] {
            let refused = world.get(&ben, &format!("/pins/{pin}?include={include}")).await;
            assert_eq!((refused.status.as_u16(), &refused.text), (403, &expected), "{include}");
        }
        let account = world.get(&ben, &format!("/pins/{pin}?include=notes(pin).writer.email")).await;
        account.is_refused(400, "include: accounts have no relation \"email\"");
    }
}

#[tokio::test]
async fn included_records_at_every_step_are_of_the_tenant_of_the_request() {
    let entities = [
        Entity::new("rooms").multi_tenant().field(Field::string("name")).field(Field::relation("house", "houses")),
        Entity::new("houses").field(Field::string("name")),
    ];
    for world in worlds(entities).await {
        let ann = user("ann");
        let house = world.post(&ann, "/houses", json!({ "name": "h" })).await.id();
        for tenant in ["acme", "other"] {
            world.join(tenant, &ann).await;
            let room = json!({ "name": tenant, "house": house });
            assert_eq!(world.ask(&ann, Method::POST, "/rooms").tenant(tenant).json(room).send().await.status, 201);
        }
        let path = format!("/houses/{house}?include=rooms(house).house.rooms(house)");
        let seen = world.ask(&ann, Method::GET, &path).tenant("acme").send().await;
        assert!(seen.text.contains("acme") && !seen.text.contains("other"), "{} {}", world.name(), seen.text);
        assert_eq!(world.get(&ann, &path).await.status, 400, "without a tenant");
        assert_eq!(world.ask(&user("ben"), Method::GET, &path).tenant("acme").send().await.status, 403);
    }
}

/// A record is included wherever it is named: a few kilobytes could become gigabytes.
#[tokio::test]
async fn a_storm_of_included_records_is_bounded_by_bytes() {
    let entities = [
        Entity::new("bigs").public().field(Field::text("text").max(1_000_000)),
        Entity::new("roots").public().field(Field::string("name")),
        Entity::new("leaves")
            .public()
            .field(Field::relation("root", "roots"))
            .field(Field::relation("big", "bigs"))
            .field(Field::relation("bigs", "bigs").many()),
    ];
    for world in worlds(entities).await {
        let big = post(&world, "/bigs", json!({ "text": "x".repeat(400_000) })).await;
        let mut roots = Vec::new();
        for _ in 0..4 {
            let root = post(&world, "/roots", json!({})).await;
            for _ in 0..10 {
                post(&world, "/leaves", json!({ "root": root["id"], "big": big["id"], "bigs": [big["id"]] })).await;
            }
            roots.push(root);
        }
        // Each root would bring 4 MB: two fit.
        let page = world.get(&anonymous(), "/roots?include=leaves(root).big").await.json();
        let shown = page["data"].as_array().unwrap().len();
        assert!(
            (1..4).contains(&shown) && page["hasMore"] == true && page["cursor"].is_string(),
            "{} {shown}",
            world.name()
        );
        assert!(page.to_string().len() < 9_000_000);
        let rest = format!("/roots?include=leaves(root).big&cursor={}", page["cursor"].as_str().unwrap());
        assert!(!world.get(&anonymous(), &rest).await.json()["data"].as_array().unwrap().is_empty());
        // One record alone would bring more than an answer may have.
        let root = roots[0]["id"].as_str().unwrap();
        for _ in 0..20 {
            post(&world, "/leaves", json!({ "root": root, "big": big["id"] })).await;
        }
        for path in [format!("/roots/{root}?"), "/roots?limit=1&".to_owned(), "/roots?".to_owned()] {
            for include in
                ["leaves(root).big", "leaves(root).big.leaves(big)", "leaves(root):100.root.leaves(root):100"]
            {
                let answer = world.get(&anonymous(), &format!("{path}include={include}")).await;
                let fits = include.ends_with(":100");
                assert_eq!(answer.status, if fits { 200 } else { 413 }, "{} {path} {include}", world.name());
                assert!(answer.text.len() < 9_000_000, "{}", answer.text.len());
            }
        }
        let answer = world.get(&anonymous(), &format!("/roots/{root}?include=leaves(root).big")).await;
        assert_eq!(answer.json()["code"], "answer_too_large");
    }
}
