//! The decision of `explain` is that of the operations.

use gatewright_base::Identity;
use gatewright_entities::operations::{Explanation, Term};
use gatewright_entities::{Action, Call, Entity, Field, RecordCheck};
use http::StatusCode;
use serde_json::{Value, json};

use super::support::{World, anonymous, tenant_id, user, user_with, worlds};

fn entities() -> [Entity; 3] {
    [
        Entity::new("projects")
            .access(Action::Read, "public")
            .field(Field::string("name"))
            .field(Field::relation("boss", "users")),
        Entity::new("members")
            .field(Field::relation("project", "projects").required())
            .field(Field::relation("user", "users").required())
            .field(Field::string("role")),
        Entity::new("tasks")
            .access(Action::Read, "public")
            .access(Action::Create, "public")
            .access(Action::Update, "public")
            .field(Field::string("title"))
            .field(Field::relation("project", "projects"))
            .field(Field::string("secret").hidden().default("canary"))
            .rule(Action::Read, "project.members(project).user = @me || project.boss = @me || title = 'open'")
            .rule(Action::Create, "any(project.members(project), user = @me && role = 'editor') || title = 'open'")
            .rule(Action::Update, "project.boss = @me || !(secret = 'canary')")
            .rule(Action::Delete, "project.boss = @me"),
    ]
}

async fn explain(world: &World, caller: &Identity, action: Action, id: Option<&str>) -> Explanation {
    world.entities.table("tasks").unwrap().explain(&Call::from(caller), action, id).await.unwrap()
}

async fn task(world: &World, project: &str, title: &str) -> String {
    let sql =
        "INSERT INTO tasks (id, title, project, secret, created_at, updated_at) VALUES (?1, ?2, ?3, 'canary', ?4, ?4)";
    let id = format!("0191d2b3-0000-7000-8000-{:012x}", world.rows("tasks").await);
    let now = gatewright_db::Value::Time("2026-01-02T03:04:05Z".parse().unwrap());
    let params = vec![id.as_str().into(), title.into(), project.into(), now];
    world.db().execute(sql, params).await.unwrap();
    id
}

#[tokio::test]
async fn the_decision_is_that_of_the_operations() {
    for world in worlds(entities()).await {
        let ann = user("ann");
        let project = world.post(&ann, "/projects", json!({"name": "p", "boss": "ann"})).await.id();
        let stranger = user("cid");
        let editor = json!({"project": project, "user": "ben", "role": "editor"});
        for (member, role) in [(false, ""), (true, "editor")] {
            if member {
                assert_eq!(world.post(&ann, "/members", &editor).await.status, StatusCode::CREATED, "{role}");
            }
            for caller in [user("ann"), user("ben"), stranger.clone(), user_with("ben", &["editor"]), anonymous()] {
                for title in ["open", "closed"] {
                    let id = task(&world, &project, title).await;
                    let path = format!("/tasks/{id}");
                    let body = json!({"title": title, "project": project});
                    for action in Action::ALL {
                        let explained = explain(&world, &caller, action, Some(&id)).await;
                        let answer = match action {
                            Action::Read => world.get(&caller, &path).await,
                            Action::Create => world.post(&caller, "/tasks", body.clone()).await,
                            Action::Update => world.patch(&caller, &path, json!({})).await,
                            Action::Delete => world.delete(&caller, &path).await,
                        };
                        // A relation to a record that the caller may not read is another matter.
                        let status = Some(answer.status).filter(|status| !status.is_success());
                        let case = format!("{} {caller:?} {action:?} {title} {member}: {explained:?}", world.name());
                        assert_eq!(explained.status, status.map(|status| status.as_u16()), "{case} {}", answer.text);
                        assert_eq!(explained.allowed, explained.status.is_none(), "{case}");
                        assert_eq!(explained.reason.is_some(), !explained.allowed, "{case}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn every_term_has_its_values_and_hidden_fields_have_none() {
    for world in worlds(entities()).await {
        let ann = user("ann");
        let project = world.post(&ann, "/projects", json!({"name": "p", "boss": "ann"})).await.id();
        for (who, role) in [("ben", "viewer"), ("ann", "editor")] {
            world.post(&ann, "/members", json!({"project": project, "user": who, "role": role})).await.id();
        }
        let id = task(&world, &project, "closed").await;
        let read = explain(&world, &user("ben"), Action::Read, Some(&id)).await;
        assert!(read.allowed, "{read:?}");
        let terms: Vec<(&str, bool, Value)> = read.checks.last().unwrap().terms.iter().map(shown).collect();
        assert_eq!(
            terms,
            [
                (
                    "project.members(project).user = @me",
                    true,
                    json!({"project.members(project).user": ["ann", "ben"], "@me": ["ben"]})
                ),
                ("project.boss = @me", false, json!({"project.boss": ["ann"], "@me": ["ben"]})),
                ("title = 'open'", false, json!({"title": ["closed"]})),
            ],
            "{}",
            world.name()
        );
        let create = explain(&world, &user("ben"), Action::Create, Some(&id)).await;
        assert_eq!(create.status, Some(403), "{create:?}");
        let terms: Vec<(&str, bool, usize)> =
            create.checks.last().unwrap().terms.iter().map(|term| (&*term.term, term.holds, term.depth)).collect();
        assert_eq!(
            terms,
            [
                ("any(project.members(project), user = @me && role = 'editor')", false, 0),
                ("any(project.members(project), user = @me)", true, 1),
                ("any(project.members(project), role = 'editor')", true, 1),
                ("title = 'open'", false, 0),
            ]
        );
        let update = explain(&world, &user("ben"), Action::Update, Some(&id)).await;
        let hidden = &update.checks.last().unwrap().terms[1].values[0];
        assert!(hidden.hidden && hidden.values.is_empty(), "{hidden:?}");
        let values = serde_json::to_value(&update.checks.last().unwrap().terms[1].values).unwrap();
        assert_eq!(values, json!([{"of": "secret", "values": [], "hidden": true}]));
        // An absent relation has no value.
        let alone = task(&world, &project, "alone").await;
        world.db().execute("UPDATE tasks SET project = NULL WHERE id = ?1", vec![alone.as_str().into()]).await.unwrap();
        let alone = explain(&world, &ann, Action::Read, Some(&alone)).await;
        assert_eq!(alone.checks.last().unwrap().terms[1].values[0].values, Vec::<Value>::new());
    }
}

fn shown(term: &Term) -> (&str, bool, Value) {
    let values = term.values.iter().map(|side| (side.of.clone(), Value::from(side.values.clone())));
    (&term.term, term.holds, Value::Object(values.collect()))
}

#[tokio::test]
async fn owner_tenant_and_existence_are_separate_checks() {
    let notes = Entity::new("notes").owner("user_id").multi_tenant().soft_delete().field(Field::string("title"));
    for world in worlds([notes]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        world.join("acme", &ann).await;
        world.join("acme", &ben).await;
        world.join("other", &ann).await;
        let ask = world.ask(&ann, http::Method::POST, "/notes").tenant("acme").json(json!({"title": "x"}));
        let id = ask.send().await.id();
        let notes = world.entities.table("notes").unwrap();
        let gone = "0191d2b3-0000-7000-8000-00000000000a";
        for (caller, tenant, id, failing, status) in [
            (&ann, Some("acme"), &*id, "", None),
            (&ben, Some("acme"), &*id, "owner", Some(404)),
            (&ann, Some("other"), &*id, "tenant", Some(404)),
            (&ben, Some("other"), &*id, "access", Some(403)),
            (&ann, None, &*id, "access", Some(400)),
            (&ann, Some("acme"), gone, "record", Some(404)),
            (&ann, Some("acme"), "'; DROP TABLE notes; --", "record", Some(404)),
        ] {
            let call = Call::from(caller);
            let call = tenant.map(|tenant| call.clone().in_tenant(tenant_id(tenant))).unwrap_or(call);
            let explained = notes.explain(&call, Action::Update, Some(id)).await.unwrap();
            assert_eq!(explained.status, status, "{} {tenant:?} {explained:?}", world.name());
            let failed = explained.checks.iter().find(|check| check.passed == Some(false));
            assert_eq!(failed.map_or("", |check| check.check), failing, "{explained:?}");
        }
        let path = format!("/notes/{id}");
        assert!(world.ask(&ann, http::Method::DELETE, &path).tenant("acme").send().await.status.is_success());
        let call = Call::from(&ann).in_tenant(tenant_id("acme"));
        let trashed = notes.explain(&call, Action::Read, Some(&id)).await.unwrap();
        assert_eq!(trashed.status, Some(404), "{trashed:?}");
        let alone = notes.explain(&call, Action::Read, None).await.unwrap();
        assert!(alone.allowed && alone.checks.len() == 1, "{alone:?}");
    }
}

/// What depends on the values that are written, or on the caller's right to read fields, is named too.
#[tokio::test]
async fn rules_of_fields_checks_and_rules_for_what_an_update_leaves_are_named() {
    let tasks = Entity::new("tasks")
        .field(Field::string("title"))
        .field(Field::string("state").write("@roles has 'boss'"))
        .field(Field::int("score").read("@roles has 'boss'"))
        .check(RecordCheck::new("score = null || score > 0", "must be positive").field("score"))
        .rule_before_update("title = 'open'")
        .rule_after_update("!changed(title)");
    for world in worlds([tasks]).await {
        let id = world.post(&user("ann"), "/tasks", json!({"title": "open"})).await.id();
        for (caller, action, sees_score) in [
            (user("ann"), Action::Update, false),
            (user_with("ann", &["boss"]), Action::Update, true),
            (user("ann"), Action::Create, false),
            (user("ann"), Action::Read, false),
        ] {
            let explained = explain(&world, &caller, action, Some(&id)).await;
            let checks: Vec<_> =
                explained.checks.iter().map(|check| (check.check, check.passed, check.detail.as_deref())).collect();
            let mut wanted = vec![("access", Some(true), None)];
            wanted.extend((!sees_score).then_some((
                "fields.read",
                Some(true),
                Some("these fields do not exist for the caller: score"),
            )));
            wanted.push(("record", Some(true), None));
            wanted.extend((action == Action::Update).then_some(("rules.update_before", Some(true), None)));
            if action != Action::Read {
                wanted.push(("check", None, Some("\"score must be positive\": depends on what is written")));
                wanted.push(("fields.write", None, Some("state: depends on what is written")));
            }
            let after = ("rules.update_after", None, Some("depends on what is written"));
            wanted.extend((action == Action::Update).then_some(after));
            assert_eq!(checks, wanted, "{} {caller:?} {action:?}", world.name());
            assert!(explained.allowed);
        }
    }
}
