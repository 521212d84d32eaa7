//! Hooks of a program in the operations of one entity.

use async_trait::async_trait;
use gatewright_db::params;
use gatewright_entities::hooks::{EntityHooks, Object, Values, Writing};
use gatewright_entities::operations::Error;
use gatewright_entities::{BuildError, Call, Entities, Entity, Field, ListQuery, OnDelete, Record};
use gatewright_http::Problem;
use serde_json::{Value, json};

use super::support::{World, anonymous, tenant_id, user, worlds_with};

/// Makes slugs, keeps a ledger, and refuses records that say so, in the hook that they name.
struct Desk;

impl Desk {
    async fn note(writing: Writing<'_>, what: &'static str, record: &Record) -> Result<(), Error> {
        let line = format!("{what} {} {}", writing.plan.name(), title(record));
        writing.tx.execute("INSERT INTO ledger (line) VALUES (?1)", params![line]).await?;
        refuse(&title(record), what)
    }
}

fn title(record: &Record) -> String {
    let record: Value = serde_json::from_slice(record.json()).unwrap();
    record["title"].as_str().unwrap_or_default().to_owned()
}

fn refuse(title: &str, at: &str) -> Result<(), Error> {
    match title {
        "fail" if at.starts_with("before") => Err(Error::hook("canary-77")),
        _ if title == format!("no {at}") => Err(Problem::forbidden("not at this desk").into()),
        _ => Ok(()),
    }
}

#[async_trait]
impl EntityHooks for Desk {
    async fn before_create(&self, writing: Writing<'_>, values: &mut Values) -> Result<(), Error> {
        let title = values.get("title").and_then(|title| title.as_str().map(str::to_owned)).unwrap_or_default();
        refuse(&title, "before create")?;
        match &*title {
            "too long" => values.set("slug", "x".repeat(21))?,
            "no slug" => values.set("slug", Value::Null)?,
            "unset" => values.leave("slug"),
            "stamped" => values.set("user_id", "ben")?,
            "unknown" => values.set("nosuch", 1)?,
            _ => values.set("slug", title.to_lowercase().replace(' ', "-"))?,
        }
        values.set("secret", format!("by {}", writing.call.identity.principal().unwrap().subject.as_str()))
    }

    async fn after_create(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        Self::note(writing, "after create", record).await
    }

    async fn before_update(&self, _: Writing<'_>, before: &Record, values: &mut Values) -> Result<(), Error> {
        if title(before) == "locked" {
            return Err(Error::Rejected("it is locked".to_owned()));
        }
        if let Some(title) = values.get("title") {
            let title = title.as_str().unwrap();
            refuse(title, "before update")?;
            if title == "ignore me" {
                values.leave("title");
            }
        }
        Ok(())
    }

    async fn after_update(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        Self::note(writing, "after update", record).await
    }

    async fn before_delete(&self, _: Writing<'_>, record: &Record) -> Result<(), Error> {
        refuse(&title(record), "before delete")
    }

    async fn after_delete(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        Self::note(writing, "after delete", record).await
    }

    async fn before_get(&self, _: &Call, id: &str) -> Result<(), Error> {
        if id == "refused" { Err(Problem::forbidden("not this one").into()) } else { Ok(()) }
    }

    async fn after_get(&self, _: &Call, record: &mut Object) -> Result<(), Error> {
        record.insert("shown".to_owned(), json!(true));
        Ok(())
    }

    async fn before_list(&self, _: &Call, query: &mut ListQuery) -> Result<(), Error> {
        query.narrow("title_ne", "locked");
        Ok(())
    }

    async fn after_list(&self, _: &Call, records: &mut Vec<Object>) -> Result<(), Error> {
        for record in records.iter_mut() {
            record.remove("slug");
        }
        Ok(())
    }
}

fn posts() -> Entity {
    Entity::new("posts")
        .owner("user_id")
        .field(Field::string("title"))
        .field(Field::string("slug").required().max(20).unique())
        .field(Field::string("secret").hidden())
        .field(Field::relation("parent", "posts").on_delete(OnDelete::Cascade))
}

async fn worlds() -> Vec<World> {
    let worlds = worlds_with([posts()], |builder| builder.entity_hooks("posts", Desk)).await;
    for world in &worlds {
        world.db().execute("CREATE TABLE ledger (line TEXT)", vec![]).await.unwrap();
    }
    worlds
}

async fn lines(world: &World) -> Vec<String> {
    let rows = world.db().query("SELECT line FROM ledger", vec![]).await.unwrap();
    rows.iter().map(|row| row.get("line").unwrap()).collect()
}

fn body(title: &str) -> Value {
    json!({"title": title, "slug": "given"})
}

#[tokio::test]
async fn hooks_change_values_and_work_in_the_writes_transaction() {
    for mut world in worlds().await {
        let ann = user("ann");
        let made = world.post(&ann, "/posts", body("First Post")).await;
        assert_eq!(made.data()["slug"], "first-post", "{}", made.text);
        assert_eq!(world.event().await.2["slug"], "first-post", "the event tells what was written");
        let hidden = world.db().query_opt("SELECT secret FROM posts", vec![]).await.unwrap().unwrap();
        assert_eq!(hidden.get::<String>("secret").unwrap(), "by ann");

        let path = made.header("location");
        assert_eq!(world.patch(&ann, path, json!({"title": "Second"})).await.data()["title"], "Second");
        let ignored = world.patch(&ann, path, json!({"title": "ignore me"})).await;
        assert_eq!(ignored.data()["title"], "Second", "a change that a hook empties is none");
        let child = world.post(&ann, "/posts", json!({"title": "child", "slug": "x", "parent": made.id()})).await;
        assert_eq!(child.status, 201);
        assert_eq!(world.delete(&ann, path).await.status, 204);
        let told = [
            "after create posts First Post",
            "after update posts Second",
            "after create posts child",
            "after delete posts child",
            "after delete posts Second",
        ];
        assert_eq!(lines(&world).await, told);
        for expected in ["updated", "created", "deleted", "deleted"] {
            assert_eq!(world.event().await.0, format!("entity.{expected}"));
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn values_set_by_a_hook_are_validated_and_a_refused_write_leaves_no_trace() {
    for mut world in worlds().await {
        let ann = user("ann");
        let stays = world.post(&ann, "/posts", body("stays")).await;
        let locked = world.post(&ann, "/posts", body("locked")).await;
        let refuses_to_go = world.post(&ann, "/posts", body("no before delete")).await;
        for _ in 0..3 {
            world.event().await;
        }
        let before = lines(&world).await;
        for (title, status) in [
            ("too long", 422),
            ("no slug", 422),
            ("unset", 422),
            ("stamped", 500),
            ("unknown", 500),
            ("fail", 500),
            ("no before create", 403),
            ("no after create", 403),
            ("stays", 409),
        ] {
            let answer = world.post(&ann, "/posts", body(title)).await;
            assert_eq!(answer.status, status, "{} {title}: {}", world.name(), answer.text);
            assert!(!answer.text.contains("canary"), "{}", answer.text);
        }
        assert_eq!(world.post(&ann, "/posts", body("no before create")).await.json()["detail"], "not at this desk");
        for (path, title, status) in [
            (stays.header("location"), "no before update", 403),
            (stays.header("location"), "no after update", 403),
            (locked.header("location"), "x", 422),
            ("/posts/nosuch", "x", 404),
        ] {
            let answer = world.patch(&ann, path, json!({"title": title})).await;
            assert_eq!(answer.status, status, "{} {title}: {}", world.name(), answer.text);
        }
        // A parent is not deleted if a hook refuses the deletion of its child.
        let moved = world.patch(&ann, refuses_to_go.header("location"), json!({"parent": stays.id()})).await;
        assert_eq!(moved.status, 200);
        world.event().await;
        assert_eq!(world.delete(&ann, refuses_to_go.header("location")).await.status, 403);
        assert_eq!(world.delete(&ann, stays.header("location")).await.status, 403);
        // For a caller without access, the hooks do not run.
        assert_eq!(world.patch(&user("ben"), locked.header("location"), json!({"title": "x"})).await.status, 404);
        assert_eq!(world.post(&anonymous(), "/posts", body("fail")).await.status, 401);

        assert_eq!(world.rows("posts").await, 3);
        assert_eq!(lines(&world).await.len(), before.len() + 1, "the one change that went through");
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn reads_pass_through_hooks_too() {
    for world in worlds().await {
        let ann = user("ann");
        let made = world.post(&ann, "/posts", body("open")).await;
        world.post(&ann, "/posts", body("locked")).await.data();
        let got = world.get(&ann, made.header("location")).await;
        assert_eq!((&got.data()["shown"], &got.data()["title"]), (&json!(true), &json!("open")));
        assert_eq!(world.get(&ann, "/posts/refused").await.json()["detail"], "not this one");
        assert_eq!(world.get(&anonymous(), "/posts/refused").await.status, 401);

        let list = world.get(&ann, "/posts").await;
        assert_eq!(list.json()["total"], 1, "{}", list.text);
        assert!(list.data()[0].get("slug").is_none());
        // No permission removes a condition that a hook added.
        assert_eq!(world.get(&ann, "/posts?title_ne=x").await.status, 400);
        assert_eq!(world.get(&ann, "/posts?filter=title='locked'||title!='locked'").await.json()["total"], 1);
    }
}

#[tokio::test]
async fn a_hook_cannot_refer_to_records_that_the_caller_may_not_read() {
    struct Hang;
    #[async_trait]
    impl EntityHooks for Hang {
        async fn before_create(&self, _: Writing<'_>, values: &mut Values) -> Result<(), Error> {
            let title = values.get("title").unwrap_or_default();
            values.set("parent", title)
        }
    }
    let notes =
        Entity::new("notes").multi_tenant().field(Field::string("title")).field(Field::relation("parent", "notes"));
    for world in worlds_with([notes], |builder| builder.entity_hooks("notes", Hang)).await {
        let notes = world.entities.table("notes").unwrap();
        for tenant in ["acme", "other"] {
            world.join(tenant, &user("ann")).await;
        }
        world.db().execute("INSERT INTO notes (id, tenant_id, created_at, updated_at) VALUES ('root', 'acme', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z')", vec![]).await.unwrap();
        let call = |tenant: &str| Call::from(user("ann")).in_tenant(tenant_id(tenant));
        assert!(notes.create(&call("acme"), br#"{"title":"root"}"#).await.is_ok());
        assert!(matches!(notes.create(&call("other"), br#"{"title":"root"}"#).await, Err(Error::Body(_))));
    }
}

#[tokio::test]
async fn hooks_for_an_unknown_entity_are_refused() {
    for test_db in gatewright_db::testing::engines().await {
        let builder =
            || Entities::builder(test_db.db.clone(), gatewright_base::Ambient::system()).declare(Entity::new("posts"));
        let unknown = builder().entity_hooks("post", Desk).build().await;
        assert!(matches!(unknown, Err(BuildError::Hooks(name)) if name == "post"));
        let twice = builder().entity_hooks("posts", Desk).entity_hooks("posts", Desk).build().await;
        assert!(matches!(twice, Err(BuildError::Hooks(name)) if name == "posts"));
    }
}
