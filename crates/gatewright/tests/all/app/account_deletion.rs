//! Deleted accounts: what remains of them and their records, and which deletions are refused.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::join_all;
use gatewright_auth::EmailAddress;
use gatewright_auth::plugins::invitations::NewInvitation;
use gatewright_base::{Ambient, Subject, TenantId, UserId};
use gatewright_db::{Db, Engine, params};
use gatewright_entities::tenancy::SqlMemberships;
use gatewright_testing::{Actor, Answer, TestApp};
use jiff::SignedDuration;
use serde_json::json;

const ANN: &str = "canary-ann@example.com";
const BEN: &str = "ben@example.com";
const PASSWORD: &str = "correct horse battery";

const ENTITIES: &str = r#"
[outbox]
enabled = true
poll_interval_ms = 20
handler_grace_seconds = 1
[audit]
entities = true
[[entity]]
name = "notes"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "text"
type = "string"
[[entity]]
name = "books"
owner_field = "owner"
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "owner"
type = "relation"
to = "users"
[[entity]]
name = "covers"
public = true
[[entity.field]]
name = "text"
type = "string"
[[entity.field]]
name = "book"
type = "relation"
to = "books"
on_delete = "cascade"
[[entity]]
name = "tasks"
public = true
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "assignee"
type = "relation"
to = "users"
on_delete = "set_null"
[[entity.field]]
name = "reviewer"
type = "relation"
to = "users"
on_delete = "cascade"
[[entity.field]]
name = "approver"
type = "relation"
to = "users"
on_delete = "restrict"
[[entity]]
name = "stickers"
public = true
[[entity.field]]
name = "text"
type = "string"
[[entity.field]]
name = "task"
type = "relation"
to = "tasks"
on_delete = "cascade"
[[entity]]
name = "rooms"
multi_tenant = true
[[entity.field]]
name = "name"
type = "string"
"#;

async fn apps(policy: &str) -> Vec<TestApp> {
    let policy = if policy.is_empty() { String::new() } else { format!("[auth]\non_account_delete = \"{policy}\"\n") };
    TestApp::on_every_engine(&format!("{policy}{ENTITIES}")).await
}

/// Stores a deletion like a server that then stops, before or after the account was closed.
async fn note(app: &TestApp, id: &UserId, is_closed: bool) {
    let sql = "INSERT INTO users_deletions (user_id, email, method, begun_at, next_at, closed_at) \
               VALUES (?1, NULL, 'owner', ?2, ?2, ?3)";
    let closed_at = is_closed.then(|| app.now());
    app.app().db().execute(sql, params![id, app.now(), closed_at]).await.unwrap();
}

async fn delete(actor: &Actor) -> Answer {
    actor.post("/auth/delete-account", json!({ "password": PASSWORD })).await
}

/// Waits for the work in the background and of the sweep.
async fn settle(app: &TestApp) {
    let (auth, db) = (app.app().auth().unwrap(), app.app().db());
    for _ in 0..600 {
        auth.settle(Duration::from_secs(10)).await;
        app.wait(SignedDuration::from_mins(6));
        auth.sweep().await;
        let left = db.query("SELECT user_id FROM users_deletions", params![]).await.unwrap();
        if left.is_empty() {
            return;
        }
        tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>()).await.unwrap_err();
    }
    panic!("{}: the deletion does not end", app.engine());
}

/// Every table with all its rows, as text.
async fn everything(db: &Db) -> String {
    let tables = match db.engine() {
        Engine::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
        Engine::Postgres => "SELECT tablename::text AS name FROM pg_tables WHERE schemaname = current_schema()",
    };
    let mut text = String::new();
    for row in db.query(tables, params![]).await.unwrap() {
        let table: String = row.get("name").unwrap();
        let mut columns = gatewright_db::schema::describe(db, &table).await.unwrap().unwrap().columns;
        columns.retain(|column| !column.type_name.eq_ignore_ascii_case("blob") && column.type_name != "bytea");
        let all = columns.iter().map(|column| format!("COALESCE(CAST(\"{}\" AS TEXT), '')", column.name));
        let all = all.collect::<Vec<_>>().join(" || ' ' || ");
        let rows = db.query(format!("SELECT {all} AS line FROM \"{table}\""), params![]).await.unwrap();
        for row in rows {
            writeln!(text, "{table}: {}", row.get::<String>("line").unwrap()).unwrap();
        }
    }
    text
}

async fn count(db: &Db, table: &str, condition: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) AS n FROM {table} WHERE {condition}");
    db.query_opt(sql, params![]).await.unwrap().unwrap().get("n").unwrap()
}

/// Ann creates data of every kind.
async fn furnish(app: &TestApp, ann: &Actor, id: &UserId) {
    for text in ["canary-one", "canary-two"] {
        ann.post("/notes", json!({ "text": text })).await.is(201);
    }
    let trashed = ann.post("/notes", json!({ "text": "canary-trash" })).await.is(201).json();
    ann.delete(&format!("/notes/{}", trashed["data"]["id"].as_str().unwrap())).await.is(204);
    let book = ann.post("/books", json!({ "title": "canary-book" })).await.is(201).json();
    // Records without an owner, which are deleted with hers.
    let cover = json!({ "text": "canary-cover", "book": book["data"]["id"] });
    let cover = ann.post("/covers", cover).await.is(201).json();
    let path = format!("/covers/{}", cover["data"]["id"].as_str().unwrap());
    ann.patch(&path, json!({ "text": "canary-second-cover" })).await.is(200);
    ann.post("/tasks", json!({ "title": "kept", "assignee": id.as_str() })).await.is(201);
    let gone = ann.post("/tasks", json!({ "title": "canary-gone", "reviewer": id.as_str() })).await.is(201).json();
    ann.post("/stickers", json!({ "text": "canary-sticker", "task": gone["data"]["id"] })).await.is(201);
    ann.post("/auth/tokens", json!({ "name": "canary-token", "scopes": ["*:*"] })).await.is(200);
    ann.post("/auth/forgot-password", json!({ "email": ANN })).await.is(200);
    ann.post("/auth/change-email", json!({ "email": "canary-new@example.com", "password": PASSWORD })).await.is(200);
    // Invitations that she sent, that a member and an operator sent to her, and one of others.
    let cleo = &app.signed_in("cleo@example.com").await;
    for (sender, email) in [(ann, "canary-guest@example.com"), (cleo, ANN), (cleo, "zoe@example.com")] {
        let tenant = sender.post("/auth/tenants", json!({ "name": "Acme" })).await.is(201).at("/id");
        let members = format!("/auth/tenants/{}/members", tenant.as_str().unwrap());
        sender.post(&members, json!({ "email": email })).await.is(201);
    }
    let to_her = NewInvitation::new(EmailAddress::parse(ANN).unwrap());
    app.app().auth().unwrap().accounts().invite(to_her).await.unwrap();
    assert_eq!(count(app.app().db(), "account_invitations", "1 = 1").await, 4, "{}", app.engine());
    app.app().auth().unwrap().settle(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_deleted_account_leaves_no_personal_data_with_delete() {
    for app in apps("delete").await {
        let ann = app.signed_in(ANN).await;
        let ben = app.signed_in(BEN).await;
        let id = app.user_id(ANN).await;
        app.prove_mailbox(ANN).await;
        furnish(&app, &ann, &id).await;
        ben.post("/notes", json!({ "text": "of ben" })).await.is(201);
        // Failed sign-ins are in the audit log.
        app.anonymous().post("/auth/login", json!({ "email": ANN, "password": "wrong" })).await.is(401);
        let db = app.app().db();
        assert!(everything(db).await.contains("canary"));
        delete(&ann).await.is(200);
        ann.get("/auth/me").await.is(401);
        app.anonymous().post("/auth/login", json!({ "email": ANN, "password": PASSWORD })).await.is(401);
        settle(&app).await;
        let left = everything(db).await;
        let canaries: Vec<_> = left.lines().filter(|line| line.contains("canary")).collect();
        assert!(canaries.is_empty(), "{}: {canaries:#?}", app.engine());
        assert_eq!(count(db, "notes", "1 = 1").await, 1, "those of others stay");
        assert_eq!(count(db, "account_invitations", "email = 'zoe@example.com'").await, 1);
        assert_eq!(count(db, "books", "1 = 1").await, 0);
        assert_eq!(count(db, "tasks", "title = 'kept' AND assignee IS NULL").await, 1);
        assert_eq!((count(db, "covers", "1 = 1").await, count(db, "tasks", "title = 'canary-gone'").await), (0, 0));
        // The audit log has only the id, and consumers get the deletions by id.
        for kind in ["account.closed", "account.deleted"] {
            assert_eq!(count(db, "audit_log", &format!("user_id = '{id}' AND kind = '{kind}'")).await, 1);
        }
        assert_eq!(count(db, "audit_log", &format!("user_id = '{id}' AND remote IS NOT NULL")).await, 0);
        assert!(count(db, "event_outbox", "type = 'entity.deleted'").await >= 4, "{left}");
        // The address is free.
        app.registered(ANN).await;
    }
}

#[tokio::test]
async fn kept_records_lose_their_owner_and_other_records_do_not() {
    for app in apps("").await {
        let ann = app.signed_in(ANN).await;
        let ben = app.signed_in(BEN).await;
        let id = app.user_id(ANN).await;
        app.prove_mailbox(ANN).await;
        furnish(&app, &ann, &id).await;
        ben.post("/notes", json!({ "text": "of ben" })).await.is(201);
        delete(&ann).await.is(200);
        settle(&app).await;
        let db = app.app().db();
        assert_eq!(count(db, "notes", "user_id IS NULL").await, 3, "{}", app.engine());
        assert_eq!(count(db, "notes", "user_id IS NOT NULL").await, 1);
        assert_eq!(count(db, "books", "owner IS NULL").await, 1);
        assert_eq!(count(db, "event_outbox", &format!("owner_id = '{id}'")).await, 0);
        assert_eq!(count(db, "event_log", &format!("owner_id = '{id}'")).await, 0);
        let left = everything(db).await;
        let told = left.lines().filter(|line| line.contains(ANN) || line.contains("canary-new"));
        let told: Vec<_> = told.filter(|line| !line.starts_with("audit_log")).collect();
        assert!(told.is_empty(), "{}: {told:#?}", app.engine());
        // Events of records that were deleted nevertheless contain only the id; those of kept records stay.
        let events = |words: &str| {
            left.lines().filter(|line| line.starts_with("event_") && line.contains(words)).map(str::to_owned).collect()
        };
        let (gone, kept): (Vec<String>, Vec<String>) = (events("canary-gone"), events("canary-cover"));
        assert!(gone.is_empty() && !kept.is_empty(), "{}: {gone:#?}", app.engine());
        let gone: Vec<String> = events("canary-sticker");
        assert!(gone.is_empty(), "{}: {gone:#?}", app.engine());
        // A record in the trash is kept, and so are its events.
        let in_the_trash: Vec<String> = events("canary-trash");
        assert!(!in_the_trash.is_empty(), "{}", app.engine());
        assert_eq!(count(db, "tasks", "title = 'canary-gone'").await, 0);
        // Nobody has them now: neither a new account with the address nor Ben.
        let again = app.signed_in(ANN).await;
        assert_eq!(again.get("/notes").await.is(200).json()["data"], json!([]));
        assert_eq!(ben.get("/notes").await.is(200).json()["data"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_record_that_requires_its_user_prevents_the_deletion_before_any_change() {
    for app in apps("delete").await {
        let ann = app.signed_in(ANN).await;
        let id = app.user_id(ANN).await;
        furnish(&app, &ann, &id).await;
        let held = ann.post("/tasks", json!({ "title": "held", "approver": id.as_str() })).await.is(201).json();
        let refused = delete(&ann).await.is(409).json();
        assert_eq!(refused["code"], "referenced");
        ann.get("/auth/me").await.is(200);
        assert_eq!(ann.get("/notes").await.is(200).json()["data"].as_array().unwrap().len(), 2);
        assert_eq!(count(app.app().db(), "users_deletions", "1 = 1").await, 0);
        ann.delete(&format!("/tasks/{}", held["data"]["id"].as_str().unwrap())).await.is(204);
        delete(&ann).await.is(200);
        settle(&app).await;
        assert_eq!(count(app.app().db(), "users", &format!("email = '{ANN}'")).await, 0);
    }
}

#[tokio::test]
async fn a_tenant_keeps_its_last_owner() {
    for app in apps("").await {
        let ann = app.signed_in(ANN).await;
        let ben = app.signed_in(BEN).await;
        let (ann_id, ben_id) = (app.user_id(ANN).await, app.user_id(BEN).await);
        let made = ann.post("/auth/tenants", json!({ "name": "Acme" })).await.is(201).json();
        let tenant = TenantId::parse(made["id"].as_str().unwrap()).unwrap();
        ann.post("/auth/tenants", json!({ "name": "Alone" })).await.is(201);
        let memberships = SqlMemberships::new(app.app().db().clone(), Ambient::system());
        memberships.add(&tenant, &Subject::User(ben_id.clone())).await.unwrap();
        let refused = delete(&ann).await.is(409).json();
        assert_eq!(refused["code"], "last_owner", "{refused}");
        assert_eq!(ann.get("/auth/tenants").await.is(200).json()["tenants"].as_array().unwrap().len(), 2);
        // If two owners leave at once, one stays.
        memberships.put(&tenant, &Subject::User(ben_id), &["owner"].into_iter().collect()).await.unwrap();
        memberships.add(&tenant, &Subject::User(UserId::parse("0195-guest").unwrap())).await.unwrap();
        let (one, other) = futures_util::future::join(delete(&ann), delete(&ben)).await;
        let mut both = [one.status(), other.status()];
        both.sort_unstable();
        assert_eq!(both, [200, 409], "{}", app.engine());
        settle(&app).await;
        let owners = count(app.app().db(), "tenant_members", "roles LIKE '%owner%'").await;
        assert!(owners >= 1, "{}: {ann_id}", app.engine());
    }
}

#[tokio::test]
async fn a_thief_with_a_session_deletes_nothing() {
    for app in apps("delete").await {
        let ann = app.signed_in(ANN).await;
        let jwt =
            app.anonymous().post("/auth/login", json!({ "email": ANN, "password": PASSWORD })).await.is(200).json();
        let bearer = app.anonymous().bearing(jwt["token"].as_str().unwrap());
        ann.post("/notes", json!({ "text": "mine" })).await.is(201);
        for body in [json!({}), json!({ "password": "" }), json!({ "password": "a wrong one" })] {
            let status = ann.post("/auth/delete-account", body).await.status();
            assert!([401, 422].contains(&status), "{status}");
        }
        delete(&bearer).await.is(401);
        delete(&app.anonymous()).await.is(401);
        // Guesses are limited, and the owner still signs in.
        for _ in 0..10 {
            ann.post("/auth/delete-account", json!({ "password": "guess" })).await;
        }
        delete(&ann).await.is(429);
        let mut owner = app.anonymous();
        owner.sign_in(ANN).await.is(200);
        assert_eq!(count(app.app().db(), "notes", "1 = 1").await, 1);
    }
}

#[tokio::test]
async fn one_of_many_parallel_requests_deletes() {
    for app in apps("delete").await {
        let ann = app.signed_in(ANN).await;
        ann.post("/notes", json!({ "text": "mine" })).await.is(201);
        let all = join_all((0..20).map(|_| delete(&ann))).await;
        let all: Vec<_> = all.iter().map(Answer::status).collect();
        assert_eq!(all.iter().filter(|status| **status == 200).count(), 1, "{}: {all:?}", app.engine());
        assert!(all.iter().all(|status| [200, 401, 429].contains(status)), "{}: {all:?}", app.engine());
        settle(&app).await;
        let db = app.app().db();
        assert_eq!((count(db, "users", "1 = 1").await, count(db, "notes", "1 = 1").await), (0, 0));
        assert_eq!(count(db, "audit_log", "kind = 'account.deleted'").await, 1);
    }
}

/// The server stopped after the account was closed, and before its records were released.
#[tokio::test]
async fn an_interrupted_deletion_is_finished_by_the_sweep() {
    for app in apps("delete").await {
        let ann = app.signed_in(ANN).await;
        let id = app.user_id(ANN).await;
        ann.post("/notes", json!({ "text": "canary" })).await.is(201);
        note(&app, &id, true).await;
        settle(&app).await;
        ann.get("/auth/me").await.is(401);
        let db = app.app().db();
        assert_eq!((count(db, "users", "1 = 1").await, count(db, "notes", "1 = 1").await), (0, 0), "{}", app.engine());
    }
}

/// The server stopped before it had checked for reasons to refuse the deletion.
#[tokio::test]
async fn a_reason_to_refuse_a_deletion_also_stops_an_interrupted_one() {
    for app in apps("delete").await {
        let (ann, ben) = (app.signed_in(ANN).await, app.signed_in(BEN).await);
        let (ann_id, ben_id) = (app.user_id(ANN).await, app.user_id(BEN).await);
        let made = ann.post("/auth/tenants", json!({ "name": "Acme" })).await.is(201).json();
        let tenant = TenantId::parse(made["id"].as_str().unwrap()).unwrap();
        let memberships = SqlMemberships::new(app.app().db().clone(), Ambient::system());
        memberships.add(&tenant, &Subject::User(UserId::parse("0195-guest").unwrap())).await.unwrap();
        ann.post("/tasks", json!({ "title": "held", "approver": ben_id.as_str() })).await.is(201);
        note(&app, &ann_id, false).await;
        note(&app, &ben_id, false).await;
        settle(&app).await;
        for actor in [&ann, &ben] {
            actor.get("/auth/me").await.is(200);
        }
        assert_eq!(ann.get("/auth/tenants").await.is(200).json()["tenants"].as_array().unwrap().len(), 1);
        assert_eq!(count(app.app().db(), "audit_log", "kind = 'account.closed'").await, 0, "{}", app.engine());
    }
}

/// A relation that is no longer declared keeps its column, with its foreign key.
#[tokio::test]
async fn an_undeclared_column_prevents_the_deletion_before_any_change() {
    for app in apps("delete").await {
        let ann = app.signed_in(ANN).await;
        let id = app.user_id(ANN).await;
        furnish(&app, &ann, &id).await;
        ann.post("/auth/tenants", json!({ "name": "Alone" })).await.is(201);
        let db = app.app().db();
        let sql = "ALTER TABLE rooms ADD COLUMN \"old host\" TEXT REFERENCES users (id)";
        db.execute(sql, params![]).await.unwrap();
        let sql = "INSERT INTO rooms (id, tenant_id, name, created_at, updated_at, \"old host\") \
                   VALUES ('0195-room', 'acme', 'Blue', ?1, ?1, ?2)";
        db.execute(sql, params![app.now(), &id]).await.unwrap();
        let refused = delete(&ann).await.is(409).json();
        assert_eq!(refused["code"], "referenced", "{}", app.engine());
        settle(&app).await;
        assert_eq!(ann.get("/notes").await.is(200).json()["data"].as_array().unwrap().len(), 2);
        assert_eq!(ann.get("/auth/tenants").await.is(200).json()["tenants"].as_array().unwrap().len(), 2);
        db.execute("UPDATE rooms SET \"old host\" = NULL", params![]).await.unwrap();
        delete(&ann).await.is(200);
        settle(&app).await;
        assert_eq!(count(db, "users", &format!("email = '{ANN}'")).await, 0, "{}", app.engine());
    }
}

#[tokio::test]
async fn records_that_refer_to_each_other_are_deleted_together() {
    let toml = r#"
[auth]
on_account_delete = "delete"
[[entity]]
name = "albums"
owner_field = "user_id"
[[entity.field]]
name = "title"
type = "string"
[[entity]]
name = "photos"
owner_field = "user_id"
[[entity.field]]
name = "album"
type = "relation"
to = "albums"
on_delete = "restrict"
"#;
    for app in TestApp::on_every_engine(toml).await {
        let ann = app.signed_in(ANN).await;
        let id = app.user_id(ANN).await;
        let album = ann.post("/albums", json!({ "title": "A" })).await.is(201).json();
        let shared = ann.post("/albums", json!({ "title": "B" })).await.is(201).json();
        ann.post("/photos", json!({ "album": album["data"]["id"] })).await.is(201);
        let photo = ann.post("/photos", json!({ "album": shared["data"]["id"] })).await.is(201).json();
        // A photo of another user prevents the deletion of its album.
        let sql = "UPDATE photos SET user_id = 'somebody' WHERE id = ?1";
        app.app().db().execute(sql, params![photo["data"]["id"].as_str().unwrap()]).await.unwrap();
        app.app().auth().unwrap().accounts().delete(&id).await.unwrap();
        let db = app.app().db();
        assert_eq!((count(db, "photos", "1 = 1").await, count(db, "albums", "1 = 1").await), (1, 1));
        assert_eq!(count(db, "albums", "user_id IS NULL").await, 1, "{}", app.engine());
    }
}

#[tokio::test]
async fn the_page_asks_for_the_address_before_it_deletes() {
    for app in apps("").await {
        let ann = app.signed_in(ANN).await;
        let page = ann.get("/account/data").await.is(200).text().to_owned();
        assert!(page.contains("action=\"/account/delete#delete-account\""), "{page}");
        let form = |confirm: &str| json!({ "confirm": confirm, "password": PASSWORD });
        let refused = ann.post("/account/delete", form("yes")).await.is(422).text().to_owned();
        assert!(refused.contains("Type the email address"), "{refused}");
        ann.get("/auth/me").await.is(200);
        let done =
            ann.post("/account/delete", form(&format!(" {} ", ANN.to_uppercase()))).await.is(200).text().to_owned();
        assert!(done.contains("Your account is deleted"), "{done}");
        ann.get("/auth/me").await.is(401);
    }
}

/// A former holder of an address must not remove data of its present owner: traces of attacks, failed attempts, links.
#[tokio::test]
async fn a_deletion_keeps_the_data_of_the_present_owner_of_a_former_address() {
    for app in apps("").await {
        let eve = app.signed_in(ANN).await;
        let (db, eve_id) = (app.app().db(), app.user_id(ANN).await);
        // Eve had registered the address, and gave it up.
        let sql = "INSERT INTO users_email_changes (token_hash, user_id, old_email, had_second_factor, changed_at, expires_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let until = app.now() + SignedDuration::from_hours(24);
        db.execute(sql, params![vec![7_u8; 32], &eve_id, ANN, false, app.now(), until]).await.unwrap();
        db.execute("UPDATE users SET email = 'eve@example.com' WHERE id = ?1", params![&eve_id]).await.unwrap();
        let ann = app.signed_in(ANN).await;
        for _ in 0..12 {
            app.anonymous().post("/auth/login", json!({ "email": ANN, "password": "guess" })).await;
        }
        let traces = "kind = 'login.failed' AND CAST(meta AS TEXT) LIKE '%canary-ann%'";
        let before = count(db, "audit_log", traces).await;
        assert!(before > 0, "{}", app.engine());
        app.anonymous().post("/auth/login", json!({ "email": ANN, "password": PASSWORD })).await.is(429);
        delete(&eve).await.is(200);
        settle(&app).await;
        assert_eq!(count(db, "audit_log", traces).await, before, "{}", app.engine());
        assert_eq!(count(db, "users", "email = 'eve@example.com'").await, 0);
        ann.get("/auth/me").await.is(200);
    }
}
