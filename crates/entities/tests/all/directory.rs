//! Accounts as a read-only entity: who reads it, and that nothing else of accounts can be reached.

use std::sync::Arc;

use gatewright_base::{Identity, JsonCase};
use gatewright_db::{column_types, params};
use gatewright_entities::{BuildError, Builder, Entity, Field, Profile, ProfileField, Query};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, encoded, service, user, user_with, worlds_with};

const READERS: &str = "@tenant_roles has 'agent' || @roles has 'boss'";

fn profile() -> Arc<Profile> {
    let fields = [ProfileField::new(Field::string("nick_name")).public(), ProfileField::new(Field::string("secret"))];
    Arc::new(Profile::declare(&fields, JsonCase::Camel).unwrap())
}

/// Members alone, or all accounts.
fn directory(within_tenants: bool, readers: &str) -> Entity {
    let (tenant, members) = if within_tenants {
        (", m.tenant_id", " JOIN tenant_members AS m ON m.member_id = users.id AND m.member_kind = 'user'")
    } else {
        ("", "")
    };
    let sql = format!("SELECT users.id, users.email, users.rank{tenant} FROM users{members} WHERE NOT users.closed");
    Entity::directory(Query::new(sql), readers)
        .search_fields(["email"])
        .field(Field::string("email"))
        .field(Field::int("rank"))
}

fn tickets(multi_tenant: bool) -> Entity {
    let tickets = Entity::new("tickets")
        .field(Field::string("subject"))
        .field(Field::relation("requester", "users"))
        .field(Field::relation("watchers", "users").many());
    if multi_tenant { tickets.multi_tenant() } else { tickets.public() }
}

/// Ann, ben and eve in `acme`, of whom eve's account is closed; mia in `other`; zoe nowhere.
async fn people(world: &World) {
    let db = world.db();
    for column in
        ["email {text}", "rank {int}", "closed {bool} NOT NULL DEFAULT FALSE", "secret {text}", "profile {text}"]
    {
        let sql = column_types(&format!("ALTER TABLE users ADD COLUMN {column}"), db.engine());
        db.execute(sql, vec![]).await.unwrap();
    }
    for id in ["eve", "mia", "zoe"] {
        db.execute("INSERT INTO users (id) VALUES (?1)", params![id]).await.unwrap();
    }
    for (rank, id) in ["ann", "ben", "eve", "mia", "zoe"].into_iter().enumerate() {
        let profile = json!({ "nick_name": format!("{id}!"), "secret": "canary" }).to_string();
        let sql = "UPDATE users SET email = ?2, rank = ?3, closed = ?4, secret = 'canary', profile = ?5 WHERE id = ?1";
        let email = format!("{id}@example.com");
        db.execute(sql, params![id, email, i64::try_from(rank).unwrap(), id == "eve", profile]).await.unwrap();
    }
    for (tenant, id) in [("acme", "ann"), ("acme", "ben"), ("acme", "eve"), ("other", "mia"), ("other", "ann")] {
        world.join(tenant, &user(id)).await;
    }
    let sql = "UPDATE tenant_members SET roles = '[\"agent\"]' WHERE member_id IN ('ann', 'mia')";
    db.execute(sql, vec![]).await.unwrap();
}

async fn told(multi_tenant: bool, within_tenants: bool, readers: &str) -> Vec<World> {
    let adjust = |builder: Builder| builder.profiles(profile(), "users").closed_users("closed");
    // The columns that the directory reads are added to the table afterwards.
    let entities = [tickets(multi_tenant), directory(within_tenants, readers)];
    let worlds = worlds_with(entities, adjust).await;
    for world in &worlds {
        people(world).await;
    }
    worlds
}

async fn get(world: &World, caller: &Identity, tenant: &str, path: &str) -> Answer {
    let ask = world.ask(caller, Method::GET, path);
    if tenant.is_empty() { ask.send().await } else { ask.tenant(tenant).send().await }
}

fn ids(answer: &Answer) -> Vec<String> {
    answer.data().as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn filter(text: &str) -> String {
    format!("filter={}", encoded(text))
}

#[tokio::test]
async fn readers_list_get_filter_sort_and_search_the_members_of_their_tenant_and_nobody_writes() {
    for world in told(true, true, READERS).await {
        let (ann, name) = (user("ann"), world.name());
        let list = get(&world, &ann, "acme", "/users?sort=-email").await;
        assert_eq!(ids(&list), ["ben", "ann"], "{name}: a disabled account is not listed");
        assert_eq!(list.data()[1], json!({ "id": "ann", "email": "ann@example.com", "rank": 0 }));
        assert_eq!(list.json()["total"], 2);
        assert_eq!(ids(&get(&world, &ann, "other", "/users").await), ["ann", "mia"]);
        let one = get(&world, &ann, "acme", "/users/ben").await;
        assert_eq!(one.data()["email"], "ben@example.com");
        for (query, found) in [
            ("rank_gt=0", vec!["ben"]),
            ("q=BEN@", vec!["ben"]),
            ("email_like=example", vec!["ann", "ben"]),
            ("filter=rank%3E%3D0%26%26email%21~%22ann%22", vec!["ben"]),
        ] {
            assert_eq!(ids(&get(&world, &ann, "acme", &format!("/users?{query}")).await), found, "{name} {query}");
        }
        let groups = get(&world, &ann, "acme", "/users?group=rank&sum=rank").await;
        assert_eq!(groups.data().as_array().unwrap().len(), 2);
        let first = get(&world, &ann, "acme", "/users?cursor=&limit=1").await;
        let next = format!("/users?limit=1&cursor={}", first.json()["cursor"].as_str().unwrap());
        assert_eq!(
            (ids(&first), ids(&get(&world, &ann, "acme", &next).await)),
            (vec!["ann".into()], vec!["ben".into()])
        );
        // The cursor of one tenant opens nothing in another.
        assert_eq!(ids(&get(&world, &ann, "other", &next).await), ["mia"]);
        let export = get(&world, &ann, "acme", "/users?format=csv").await;
        assert_eq!(export.text, "id,email,rank\r\nann,ann@example.com,0\r\nben,ben@example.com,1\r\n");
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            for path in ["/users", "/users/ann", "/users/_batch", "/users/_events"] {
                let answer = world.ask(&ann, method.clone(), path).tenant("acme").json(json!({})).send().await;
                assert!([404, 405].contains(&answer.status.as_u16()), "{method} {path}: {}", answer.text);
            }
        }
        let batch = json!({ "operations": [{ "op": "delete", "entity": "users", "id": "ben" }] });
        let batch = world.ask(&ann, Method::POST, "/_batch").tenant("acme").json(batch).send().await;
        assert!(!batch.status.is_success(), "{}", batch.text);
        get(&world, &ann, "acme", "/users/_events").await.is_refused(404, "no such record");
    }
}

#[tokio::test]
async fn callers_without_the_rule_the_scope_or_a_tenant_are_refused() {
    for world in told(true, true, READERS).await {
        let paths = |of_relation: &str| {
            [
                "/users".to_owned(),
                "/users/ann".to_owned(),
                "/users?group=rank".to_owned(),
                "/users?format=ndjson".to_owned(),
                format!("/tickets?{}", filter(&format!("{of_relation}.email = 'ann@example.com'"))),
                format!("/tickets?{}", filter("any(watchers, rank > 0)")),
                "/tickets?sort=requester.email".to_owned(),
            ]
        };
        for path in paths("requester") {
            let status =
                async |caller: &Identity, tenant: &str| get(&world, caller, tenant, &path).await.status.as_u16();
            assert_eq!(status(&user("ann"), "acme").await, 200, "{path}");
            assert_eq!(status(&user("ben"), "acme").await, 403, "{path}: not an agent");
            assert_eq!(status(&user_with("mia", &["boss"]), "acme").await, 403, "{path}: not a member");
            assert_eq!(status(&user_with("ann", &["boss"]), "").await, 400, "{path}: no tenant");
            assert_eq!(status(&anonymous(), "acme").await, 401, "{path}");
        }
        world.join("acme", &service("bot", &["*:*"])).await;
        let sql = "UPDATE tenant_members SET roles = '[\"agent\"]' WHERE member_id = 'bot'";
        world.db().execute(sql, vec![]).await.unwrap();
        for (scopes, status) in [(&["*:*"][..], 200), (&["users:read"], 200), (&["tickets:read"], 403)] {
            let found = get(&world, &service("bot", scopes), "acme", "/users").await;
            assert_eq!(found.status, status, "{scopes:?}: {}", found.text);
            assert!(!found.text.contains("bot"), "service accounts are not listed");
        }
        let path = format!("/tickets?{}", filter("requester.rank = 1"));
        assert_eq!(get(&world, &service("bot", &["tickets:read"]), "acme", &path).await.status, 403);
    }
}

#[tokio::test]
async fn nothing_of_other_accounts_or_columns_is_found_by_filters_sorts_groups_includes_or_totals() {
    for world in told(true, true, READERS).await {
        let (ann, name) = (user("ann"), world.name());
        for requester in ["ann", "ben", "eve", "ann"] {
            let body = json!({ "subject": requester, "requester": requester, "watchers": ["ben", "eve"] });
            world.ask(&ann, Method::POST, "/tickets").tenant("acme").json(body).send().await.data();
        }
        // A former member of the tenant.
        world.leave("acme", &user("ben")).await;
        for path in ["/users/ben", "/users/eve", "/users/mia", "/users/zoe", "/users/nobody"] {
            get(&world, &ann, "acme", path).await.is_refused(404, "no such record");
        }
        for (text, total) in [
            ("requester.email ~ '@'", 2),
            ("requester.email = 'ben@example.com'", 0),
            ("requester.email = 'eve@example.com'", 0),
            ("requester.rank >= 0", 2),
            ("watchers.email ~ '@'", 0),
            ("any(watchers, rank >= 0)", 0),
            ("requester.id = 'eve'", 1),
        ] {
            let found = get(&world, &ann, "acme", &format!("/tickets?{}", filter(text))).await;
            assert_eq!(found.json()["total"], total, "{name} {text}: {}", found.text);
        }
        // What nobody may know has the place of what is absent.
        let sorted = get(&world, &ann, "acme", "/tickets?sort=-requester.email,subject&fields=subject").await;
        let subjects: Vec<_> = sorted.data().as_array().unwrap().iter().map(|one| one["subject"].clone()).collect();
        assert_eq!(subjects, ["ben", "eve", "ann", "ann"], "{name}");
        let listed = get(&world, &ann, "acme", &format!("/users?{}", filter("tickets(requester).subject ~ 'a'"))).await;
        assert_eq!(ids(&listed), ["ann"]);
        let included = get(&world, &ann, "acme", "/tickets?include=requester,watchers&sort=subject").await;
        let of = |index: usize| included.data()[index]["_included"].clone();
        assert_eq!(
            of(0)["requester"],
            json!({ "id": "ann", "email": "ann@example.com", "rank": 0, "nickName": "ann!" })
        );
        assert_eq!(of(2)["requester"], json!({ "id": "ben" }), "{name}: not a member");
        assert_eq!(of(3)["requester"], json!({ "id": "eve" }), "{name}: disabled");
        assert_eq!(of(0)["watchers"], json!([{ "id": "ben" }, { "id": "eve" }]));
        let of_users = get(&world, &ann, "acme", "/users?include=tickets(requester)").await;
        assert_eq!(of_users.data()[0]["_included"]["tickets(requester)"]["data"].as_array().unwrap().len(), 2);
        for path in [
            "/users?secret=canary",
            "/users?sort=secret",
            "/users?group=secret",
            "/users?fields=secret",
            "/users?fields=tenant_id",
            "/users?sort=created_at",
            "/users?include=sessions",
            "/users?closed=true",
            "/users?trashed=with",
        ] {
            assert_eq!(get(&world, &ann, "acme", path).await.status, 400, "{name} {path}");
        }
        for text in ["secret = 'canary'", "tenant_id = 'other'", "closed = true", "profile.secret = 'canary'"] {
            let own = get(&world, &ann, "acme", &format!("/users?{}", filter(text))).await;
            let followed = format!("/tickets?{}", filter(&format!("requester.{text}")));
            let followed = get(&world, &ann, "acme", &followed).await;
            assert_eq!((own.status.as_u16(), followed.status.as_u16()), (400, 400), "{name} {text}");
        }
        let injected = format!("/users?{}", filter("email = 'x\\') OR 1=1 --' || email ~ '%'"));
        assert_ne!(get(&world, &ann, "acme", &injected).await.json()["total"], 4);
        assert!(!included.text.contains("canary") && !of_users.text.contains("canary"));
    }
}

#[tokio::test]
async fn include_gives_others_what_they_get_without_a_directory() {
    for world in told(false, false, "@roles has 'boss'").await {
        for requester in ["ann", "eve"] {
            world.post(&user("ann"), "/tickets", json!({ "requester": requester })).await.data();
        }
        let path = "/tickets?include=requester";
        let included = async |caller: &Identity| -> Vec<Value> {
            let list = world.get(caller, path).await;
            (0..2).map(|index| list.data()[index]["_included"]["requester"].clone()).collect()
        };
        let boss = user_with("ann", &["boss"]);
        let full = json!({ "id": "ann", "email": "ann@example.com", "rank": 0, "nickName": "ann!" });
        assert_eq!(included(&boss).await, [full, json!({ "id": "eve" })], "{}", world.name());
        let public = |id: &str| json!({ "id": id, "nickName": format!("{id}!") });
        assert_eq!(included(&user("ann")).await, [public("ann"), public("eve")]);
        assert_eq!(included(&anonymous()).await, [json!({ "id": "ann" }), json!({ "id": "eve" })]);
        assert_eq!(ids(&world.get(&boss, "/users").await), ["ann", "ben", "mia", "zoe"]);
        assert_eq!(world.get(&user("ann"), "/users").await.status, 403);
        // A stream would not hear of changes of accounts.
        let stream = format!("/tickets/_events?{}", filter("requester.rank > 0"));
        let refused = world.get(&boss, &stream).await;
        assert_eq!(
            (refused.status.as_u16(), refused.text.contains("change without events")),
            (400, true),
            "{}",
            refused.text
        );
    }
}

#[tokio::test]
async fn without_a_tenant_an_include_is_refused_only_for_those_who_could_read() {
    for world in told(true, true, "@me = 'ann' || @tenant_roles has 'agent'").await {
        let notes = user("ben");
        assert_eq!(get(&world, &notes, "", "/tickets?include=requester").await.status, 400);
    }
    let adjust = |builder: Builder| builder.profiles(profile(), "users").closed_users("closed");
    let notes = Entity::new("notes").public().field(Field::relation("writer", "users"));
    let rule = "@me = 'ann' || @tenant_roles has 'agent'";
    for world in worlds_with([notes, tickets(true), directory(true, rule)], adjust).await {
        people(&world).await;
        world.post(&user("ann"), "/notes", json!({ "writer": "ben" })).await.data();
        let path = "/notes?include=writer";
        let tenant = get(&world, &user("ann"), "", path).await;
        assert_eq!((tenant.status.as_u16(), &tenant.json()["code"]), (400, &json!("tenant_required")));
        let without = get(&world, &user("ben"), "", path).await;
        assert_eq!(without.data()[0]["_included"]["writer"], json!({ "id": "ben", "nickName": "ben!" }));
        let within = get(&world, &user("ann"), "acme", path).await;
        assert_eq!(within.data()[0]["_included"]["writer"]["email"], "ben@example.com");
    }
}

#[tokio::test]
async fn rules_do_not_read_accounts() {
    for rule in ["requester.email = 'x'", "any(watchers, rank > 1)"] {
        let tickets = tickets(false).rule(gatewright_entities::Action::Read, rule);
        let error = gatewright_entities::Declarations::check(&[tickets, directory(false, "true")]).unwrap_err();
        assert!(error.to_string().contains("a path stops at users"), "{error}");
    }
    let error = gatewright_entities::Declarations::check(&[directory(false, "email = 'x'")]).unwrap_err();
    let _: BuildError = error.clone().into();
    assert!(error.to_string().contains("about the caller alone"), "{error}");
}
