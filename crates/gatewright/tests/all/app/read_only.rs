//! The directory of accounts and views, as a configuration declares them, on every surface.

use gatewright::config::Loader;
use gatewright_testing::{Actor, TestApp};
use serde_json::{Value, json};

use super::admin::operator;
use super::mcp::{failed, scoped, worked};

const DESK: &str = r#"
[auth]
guests = true

[[auth.profile.field]]
name = "display_name"
type = "string"
[[auth.profile.field]]
name = "team"
type = "enum"
values = ["blue", "red"]
[[auth.profile.field]]
name = "floor"
type = "int"
[[auth.profile.field]]
name = "remote"
type = "bool"
[[auth.profile.field]]
name = "canary_note"
type = "string"

[auth.directory]
read = "@roles has 'staff'"
fields = ["email", "display_name", "team", "floor", "remote", "email_verified", "created_at"]

[roles]
staff = ["reports:read"]

[[entity]]
name = "tickets"
public = true
[[entity.field]]
name = "status"
type = "string"
[[entity.field]]
name = "requester"
type = "relation"
to = "users"
default = "@me"

[[view]]
name = "load"
description = "Open tickets of each requester."
sql = "SELECT requester AS id, requester, count(*) AS open FROM tickets WHERE status = 'open' GROUP BY requester"
access = { read = "reports:read" }
[[view.field]]
name = "requester"
type = "relation"
to = "users"
[[view.field]]
name = "open"
type = "int"
description = "How many."
"#;

async fn person(app: &TestApp, email: &str, profile: Value) -> Actor {
    let actor = app.signed_in(email).await;
    actor.patch("/auth/me", json!({ "profile": profile })).await.is(200);
    actor.post("/tickets", json!({ "status": "open" })).await.is(201);
    actor
}

async fn staff(app: &TestApp, email: &str) -> Actor {
    let profile = json!({ "displayName": "Ann", "team": "red", "floor": -3, "remote": true, "canaryNote": "canary" });
    let actor = person(app, email, profile).await;
    app.grant(email, &["user", "staff"]).await;
    actor
}

#[tokio::test]
async fn the_directory_shows_declared_fields_of_open_accounts_with_an_address() {
    for app in TestApp::on_every_engine(DESK).await {
        let ann = staff(&app, "ann@example.com").await;
        let ben = person(&app, "ben@example.com", json!({ "displayName": "Ben" })).await;
        let (ann_id, ben_id) = (app.user_id("ann@example.com").await, app.user_id("ben@example.com").await);
        let mut guest = app.anonymous();
        guest.keep_cookies(&guest.post("/auth/anonymous", json!({})).await.is(200));
        guest.post("/tickets", json!({ "status": "open" })).await.is(201);
        let list = ann.get("/users?sort=displayName").await.is(200);
        assert_eq!(list.at("/total"), 2, "{}", list.text());
        let first = list.at("/data/0");
        for (key, value) in [
            ("id", json!(ann_id.as_str())),
            ("email", json!("ann@example.com")),
            ("displayName", json!("Ann")),
            ("team", json!("red")),
            ("floor", json!(-3)),
            ("remote", json!(true)),
            ("emailVerified", json!(false)),
        ] {
            assert_eq!(first[key], value, "{} {key}", app.engine());
        }
        assert!(first["createdAt"].as_str().unwrap().ends_with('Z') && first.get("updatedAt").is_none(), "{first}");
        assert_eq!(list.at("/data/1/team"), Value::Null);
        for (query, total) in [
            ("team=red", 1),
            ("floor_lt=0", 1),
            ("remote=true", 1),
            ("q=ben", 1),
            ("filter=displayName~%22e%22", 1),
            ("created_at_gt=2020-01-01T00:00:00Z", 2),
        ] {
            assert_eq!(
                ann.get(&format!("/users?{query}")).await.is(200).at("/total"),
                total,
                "{} {query}",
                app.engine()
            );
        }
        assert_eq!(ann.get("/tickets?filter=requester.team%3D%22red%22").await.is(200).at("/total"), 1);
        let included = ann.get("/tickets?include=requester&sort=-requester.displayName").await.is(200);
        assert!(!included.text().contains("canary") && !included.text().contains("guest"), "{}", included.text());
        assert_eq!(included.text().matches("\"displayName\":\"Ben\"").count(), 1, "{}", included.text());
        let operator = operator(&app).await;
        operator.post(&format!("/admin/api/users/{}/disable", ben_id.as_str()), json!({})).await.is(204);
        ann.get(&format!("/users/{}", ben_id.as_str())).await.is(404);
        let included = ann.get("/tickets?include=requester").await.is(200);
        assert!(!included.text().contains("Ben"), "{}", included.text());
        ben.get("/users").await.is(401);
        assert_eq!(ann.get("/tickets?filter=requester.displayName%3D%22Ben%22").await.is(200).at("/total"), 0);
        for path in
            ["/users?canary_note=x", "/users?sort=password_hash", "/users?fields=roles", "/sessions", "/load?x=1"]
        {
            assert!([400, 404].contains(&ann.get(path).await.status()), "{path}");
        }
        // A corrupt profile hides its own fields.
        let db = app.app().db();
        for broken in ["{\"floor\":\"high\",\"team\":\"green\",\"remote\":1}", "[]"] {
            let sql = "UPDATE users SET profile = ?1 WHERE email = 'ann@example.com'";
            db.execute(sql, gatewright_db::params![broken]).await.unwrap();
            let one = ann.get(&format!("/users/{}", ann_id.as_str())).await.is(200);
            for key in ["/data/floor", "/data/team", "/data/remote", "/data/displayName"] {
                assert_eq!(one.at(key), Value::Null, "{} {broken} {key}", app.engine());
            }
        }
    }
}

#[tokio::test]
async fn tools_documents_types_and_explanations_know_read_only_entities() {
    for app in TestApp::on_every_engine(DESK).await {
        let ann = staff(&app, "ann@example.com").await;
        let ben = person(&app, "ben@example.com", json!({})).await;
        assert_eq!(worked(&ann, "users_list", json!({ "filter": "team = 'red'" })).await["total"], 1);
        assert_eq!(worked(&ann, "load_group", json!({ "sum": "open" })).await["data"][0]["sum"]["open"], 2);
        let load = worked(&ann, "load_list", json!({ "include": "requester" })).await;
        assert!(load.to_string().contains("ann@example.com"), "{load}");
        let refused = failed(&ben, "users_list", json!({})).await;
        assert!(refused.to_string().contains("may not read users"), "{refused}");
        let tools = ann.rpc("tools/list", json!({})).await.is(200).text().to_owned();
        for (name, there) in [("users_get", true), ("users_create", false), ("load_list", true), ("load_delete", false)]
        {
            assert_eq!(tools.contains(&format!("\"{name}\"")), there, "{name}");
        }
        assert!(!ben.rpc("tools/list", json!({})).await.is(200).text().contains("\"users_list\""));
        let token = app.anonymous().with_identity(scoped(&["tickets:read"]));
        token.get("/users").await.is(403);
        let operations = json!({ "operations": [{ "op": "create", "entity": "load", "data": {} }] });
        assert!(failed(&ann, "batch", operations).await.to_string().contains("read-only"));
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let methods = |path: &str| -> Vec<String> {
            document["paths"][path].as_object().map(|path| path.keys().cloned().collect()).unwrap_or_default()
        };
        assert_eq!((methods("/users"), methods("/users/{id}")), (vec!["get".to_owned()], vec!["get".to_owned()]));
        assert_eq!((methods("/load"), methods("/load/_events")), (vec!["get".to_owned()], vec![]));
        let properties = &document["components"]["schemas"]["Load"]["properties"];
        assert!(properties["open"]["description"].as_str().unwrap().starts_with("How many."), "{properties}");
        assert!(properties.get("createdAt").is_none() && document["components"]["schemas"].get("LoadCreate").is_none());
        let operator = operator(&app).await;
        let records = operator.get("/admin/api/records").await.is(200);
        let names: Vec<_> = records.at("/data").as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        assert_eq!(names, ["tickets", "load"]);
        assert_eq!(operator.get("/admin/api/records/load").await.is(200).at("/total"), 2);
        operator.get("/admin/api/records/users").await.is(404);
        operator.delete("/admin/api/records/load/x").await.is(405);
        for (who, table, allowed) in
            [("ann", "users", true), ("ben", "users", false), ("ann", "load", true), ("ben", "load", false)]
        {
            let question = json!({ "as": format!("{who}@example.com"), "operation": "read", "table": table });
            let answer = operator.post("/admin/api/explain", question).await.is(200);
            assert_eq!(answer.at("/data/allowed"), allowed, "{who} {table}: {}", answer.text());
        }
        let id = app.user_id("ann@example.com").await;
        let question = json!({ "as": "ann@example.com", "operation": "read", "table": "load", "id": id.as_str() });
        assert_eq!(operator.post("/admin/api/explain", question).await.is(200).at("/data/allowed"), true);
        // Deleting an account and exporting its records pass over views.
        ben.post("/auth/export", json!({ "password": "correct horse battery" })).await.is(200);
    }
    let config = Loader::text("test.toml", DESK).dev_mode().load().unwrap();
    let types = gatewright::types::typescript(&config).unwrap();
    for line in [
        "  readonly displayName?: string | null;",
        "  /** For readers of the directory. */",
        "    record: Load;\n    create: never;\n    update: never;",
        "    relations: { requester: User }",
        "    relations: { \"tickets(requester)\": { back: \"tickets\"; more: \"hasMore\" }",
    ] {
        assert!(types.contains(line), "{line}: {types}");
    }
    assert!(!types.contains("LoadCreate"), "{types}");
}

#[tokio::test]
async fn the_limit_of_the_api_covers_the_directory_and_views() {
    let limited = format!("{DESK}\n[rate_limit.api]\nper_second = 0.01\nburst = 4\n");
    for app in TestApp::on_every_engine(&limited).await {
        let nobody = app.anonymous();
        let mut statuses = Vec::new();
        for path in ["/users", "/load", "/users/x", "/load/x", "/users", "/load"] {
            statuses.push(nobody.get(path).await.status());
        }
        assert_eq!(statuses, [401, 401, 401, 401, 429, 429], "{}", app.engine());
    }
}

#[test]
fn what_is_wrong_with_a_directory_or_a_view_is_named_with_its_place() {
    let directory = |keys: &str| format!("[auth.directory]\n{keys}\n");
    let view =
        |rest: &str| format!("[[entity]]\nname = \"notes\"\nsoft_delete = true\n[[view]]\nname = \"seen\"\n{rest}\n");
    for (text, place, words) in [
        (directory("read = \"true\"\nfields = []"), "auth.directory.fields", "at least one"),
        (directory("read = \"true\"\nfields = [\"emial\"]"), "auth.directory.fields", "did you mean \"email\""),
        (directory("read = \"true\"\nfields = [\"password_hash\"]"), "auth.directory.fields", "no field"),
        (directory("read = \"true\"\nfields = [\"email\", \"email\"]"), "auth.directory.fields", "twice"),
        (directory("read = \"email = 'x'\"\nfields = [\"email\"]"), "auth.directory.read", "the caller alone"),
        (directory("read = \"\"\nfields = [\"email\"]"), "auth.directory.read", "empty"),
        (
            directory("read = \"true\"\nfields = [\"email\"]\nscope = \"tenant\""),
            "auth.directory.scope",
            "multi-tenant",
        ),
        (
            "[auth]\nenabled = false\n[auth.directory]\nread = \"true\"\nfields = [\"email\"]".to_owned(),
            "auth.directory",
            "accounts",
        ),
        (view("sql = \"SELECT id FROM nots\""), "view[0].sql", "no such table: nots"),
        (view("sql = \"SELECT id FROM users\""), "view[0].sql", "users"),
        (view("sql = { postgres = \"SELECT id FROM notes\" }"), "view[0].sql", "sql.sqlite"),
        (view("sql = \"\""), "view[0].sql", "needs sql"),
        (
            view("sql = \"SELECT id FROM notes\"\n[[view.field]]\nname = \"x\"\ntype = \"int\""),
            "view[0].sql",
            "no column \"x\"",
        ),
        (view("sql = \"SELECT id FROM notes\"\nsoft_delete = true"), "view[0].soft_delete", "unknown key"),
        (
            view("sql = \"SELECT id FROM notes\"\n[view.access]\ncreate = \"x:y\""),
            "view[0].access.create",
            "unknown key",
        ),
    ] {
        let problems = Loader::text("f.toml", &text).dev_mode().load().unwrap_err().to_string();
        assert!(
            problems.contains(words) && problems.contains(place.trim_end_matches("[0].soft_delete")),
            "{text}: {problems}"
        );
    }
    let warned = |text: &str| -> String {
        let config = Loader::text("f.toml", text).dev_mode().load().unwrap();
        config.warnings().iter().map(|warning| format!("{warning}\n")).collect::<Vec<_>>().concat()
    };
    let trash = warned(&view("sql = \"SELECT id FROM notes\""));
    assert!(trash.contains("view[0].sql: it reads the trash of \"notes\" too"), "{trash}");
    let postgres = format!("[database]\nurl = \"postgres://127.0.0.1/x\"\n{}", view("sql = \"SELECT id FROM notes\""));
    let untried = warned(&postgres);
    assert!(untried.contains("view[0].sql: was not tried"), "{untried}");
}
