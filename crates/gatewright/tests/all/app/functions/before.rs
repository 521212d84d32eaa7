use gatewright_testing::TestApp;
use serde_json::json;

use super::{folder, with_functions};

const TICKETS: &str = r#"
[[entity]]
name = "tickets"
owner_field = "user_id"
[[entity.field]]
name = "subject"
type = "string"
required = true
[[entity.field]]
name = "slug"
type = "string"
required = true
[[entity.field]]
name = "stage"
type = "string"
read_only = true
[[entity.field]]
name = "secret"
type = "string"
hidden = true
[[entity.field]]
name = "priority"
type = "enum"
values = ["low", "high"]
default = "low"
write = "false"
[[entity.field]]
name = "due_at"
type = "timestamp"
[[entity.field]]
name = "opened_at"
type = "timestamp"
[[entity.field]]
name = "views"
type = "int"
[[entity.field]]
name = "agent"
type = "relation"
to = "agents"
[[entity.check]]
rule = "subject != 'nothing'"
field = "subject"
message = "must be something"

[[entity]]
name = "agents"
owner_field = "user_id"
[[entity.field]]
name = "name"
type = "string"
[[entity.field]]
name = "free"
type = "bool"
default = true
[[entity.field]]
name = "tickets"
type = "int"
default = 0
min = 0
max = 1000

[[entity]]
name = "notes"
owner_field = "user_id"
unique = [["text"]]
[[entity.field]]
name = "text"
type = "string"
required = true
max = 20
"#;

#[tokio::test]
async fn a_function_fills_in_validates_and_assigns_in_the_transaction_of_the_write() {
    let file = r#"
        import { before, refuse } from "gatewright";
        export const prepare = before("tickets", "create", async ({ values, old, caller, db }) => {
          if (old !== undefined) throw new Error("a new record has no old one");
          if (values.dueAt && values.openedAt && values.dueAt < values.openedAt) refuse(422, { dueAt: "must be after the opening" });
          if (caller.kind !== "user" || caller.roles[0] !== "user") throw new Error("who?");
          values.slug = String(values.subject ?? "").toLowerCase().replaceAll(" ", "-");
          values.secret = "of the function";
          values.stage = "new";
          values.priority = values.subject === "fire" ? "high" : values.priority;
          const free = await db.system.list("agents", { filter: "free = true", sort: "tickets", limit: 1 });
          const agent = free.data[0];
          if (agent) {
            values.agent = agent.id;
            await db.system.update("agents", agent.id, { tickets: agent.tickets + 1 });
            const again = await db.system.get("agents", agent.id);
            if (again.data.tickets !== agent.tickets + 1) throw new Error("own writes are seen");
          }
        });
        export const keep = before("tickets", "update", async ({ values, old }) => {
          if (values.subject === "back") values.subject = old.subject;
          if (values.views !== undefined) values.views += 1n;
        });
        export const guard = before("tickets", "delete", async ({ old }) => {
          if (old.priority === "high") refuse(409, "it burns");
        });
    "#;
    let (apps, _folder) = with_functions(TICKETS, &[("tickets.ts", file)]).await;
    for app in apps {
        let (ann, operator) = (app.signed_in("ann@example.com").await, app.signed_in("op@example.com").await);
        for name in ["Ada", "Bob"] {
            operator.post("/agents", json!({ "name": name })).await.is(201);
        }
        let first = ann.post("/tickets", json!({"subject": "My Printer"})).await.is(201);
        assert_eq!(first.at("/data/slug"), "my-printer", "{}", app.engine());
        assert_eq!((first.at("/data/priority"), first.at("/data/stage")), (json!("low"), json!("new")));
        assert_eq!(first.json()["data"].get("secret"), None);
        let second = ann.post("/tickets", json!({"subject": "fire"})).await.is(201);
        assert_eq!(second.at("/data/priority"), "high", "a function sets what its caller may not");
        assert_ne!(first.at("/data/agent"), second.at("/data/agent"), "{}", app.engine());
        assert_ne!(first.at("/data/agent"), json!(null), "also a record that the caller may not read");
        let agents = operator.get("/agents").await.is(200);
        let counts: Vec<_> =
            agents.at("/data").as_array().unwrap().iter().map(|agent| agent["tickets"].clone()).collect();
        assert_eq!(counts, [json!(1), json!(1)], "{}", app.engine());

        let dates = json!({"subject": "a", "openedAt": "2026-01-02T00:00:00Z", "dueAt": "2026-01-01T00:00:00Z"});
        let refused = ann.post("/tickets", dates).await.is(422);
        assert_eq!(refused.at("/code"), "refused");
        assert_eq!(
            refused.at("/errors/0"),
            json!({"field": "dueAt", "code": "refused", "message": "must be after the opening"})
        );
        assert_eq!(operator.get("/agents").await.at("/data/0/tickets"), 1, "a refused write changes nothing");

        let path = format!("/tickets/{}", second.at("/data/id").as_str().unwrap());
        let kept = ann.patch(&path, json!({"subject": "back", "views": 9_007_199_254_740_993_i64})).await.is(200);
        assert_eq!(kept.at("/data/subject"), "fire");
        assert_eq!(kept.at("/data/views"), 9_007_199_254_740_994_i64, "{}", app.engine());
        let refused = ann.delete(&path).await.is(409);
        assert_eq!((refused.at("/code"), refused.at("/detail")), (json!("refused"), json!("it burns")));
        ann.delete(&format!("/tickets/{}", first.at("/data/id").as_str().unwrap())).await.is(204);
    }
}

#[tokio::test]
async fn functions_run_between_the_rules_on_the_stored_record_and_validation() {
    let file = r#"
        import { before, refuse } from "gatewright";
        export const one = before("tickets", "create", ({ values }) => {
          values.slug = "x";
          if (values.subject === "stop") refuse(418, "the function was asked");
        });
        export const two = before("tickets", "update", ({ values }) => {
          if (values.subject === "stop") refuse(418, "the function was asked");
          if (values.subject === "clean") values.views = 5;
        });
    "#;
    let (apps, _folder) = with_functions(TICKETS, &[("tickets.ts", file)]).await;
    for app in apps {
        let (ann, bob) = (app.signed_in("ann@example.com").await, app.signed_in("bob@example.com").await);
        // 401 and 404 before the function.
        app.anonymous().post("/tickets", json!({"subject": "stop"})).await.is(401);
        let id = ann.post("/tickets", json!({"subject": "a"})).await.is(201).at("/data/id");
        let path = format!("/tickets/{}", id.as_str().unwrap());
        bob.patch(&path, json!({"subject": "stop"})).await.is(404);
        // 412 before the function.
        let request = ann.request(http::Method::PATCH, &path).header("if-match", "\"other\"");
        let request = request.header("content-type", "application/json");
        let answer = ann.send(request.body(r#"{"subject":"stop"}"#.into()).unwrap()).await;
        answer.is(412);
        // The function before 422, of values and of checks, and before 403 of fields.
        for body in [
            json!({"subject": "stop", "views": "many"}),
            json!({"subject": "stop", "unknown": 1}),
            json!({"subject": "stop", "priority": "high"}),
        ] {
            ann.post("/tickets", body.clone()).await.is(418);
            ann.patch(&path, body).await.is(418);
        }
        let invalid = ann.post("/tickets", json!({"subject": "nothing", "views": "many"})).await.is(422);
        assert_eq!(invalid.at("/errors").as_array().unwrap().len(), 2, "validation and checks together");
        ann.post("/tickets", json!({"subject": "a", "priority": "high"})).await.is(403);
        // What a function sets is no error of the body.
        let clean = ann.patch(&path, json!({"subject": "clean", "views": "many"})).await.is(200);
        assert_eq!(clean.at("/data/views"), 5);
    }
}

#[tokio::test]
async fn db_acts_as_the_caller_and_the_system_without_rules() {
    let file = r#"
        import { before, refuse } from "gatewright";
        export const ask = before("tickets", "create", async ({ values, db }) => {
          values.slug = "x";
          const [space, id] = String(values.subject).split(" ");
          const source = space === "system" ? db.system : db;
          try {
            const note = await source.get("notes", id);
            values.secret = note.data.text;
          } catch (error: any) {
            refuse(409, { subject: `${error.name} ${error.status} ${error.code}` });
          }
          try {
            await db.create("notes", { text: "much too long for a note of this kind" });
          } catch (error: any) {
            if (error.status !== 422 || error.errors[0].field !== "text") throw error;
          }
          await db.create("notes", { text: `by ${space}` });
          try {
            await db.create("notes", { text: `by ${space}` });
          } catch (error: any) {
            if (error.status !== 409) throw error;
          }
          const upserted = await db.upsert("notes", { text: `by ${space}` }, { on: ["text"] });
          const batch = await db.batch([
            { op: "create", entity: "notes", data: { text: `batch ${space}` }, as: "n" },
            { op: "delete", entity: "notes", id: { $ref: "n" } },
          ]);
          if (!batch.committed || !upserted.data.id) throw new Error("no answer");
        });
    "#;
    let (apps, _folder) = with_functions(TICKETS, &[("tickets.ts", file)]).await;
    for app in apps {
        let (ann, bob) = (app.signed_in("ann@example.com").await, app.signed_in("bob@example.com").await);
        let note = bob.post("/notes", json!({"text": "of Bob"})).await.is(201).at("/data/id");
        let note = note.as_str().unwrap();
        let refused = ann.post("/tickets", json!({"subject": format!("caller {note}")})).await.is(409);
        assert_eq!(refused.at("/errors/0/message"), "GatewrightError 404 not_found", "{}", app.engine());
        ann.post("/tickets", json!({"subject": format!("system {note}")})).await.is(201);
        let notes = ann.get("/notes").await.is(200);
        assert_eq!(notes.at("/total"), 1, "what failed left nothing, and the rest is the caller's: {}", notes.text());
        assert_eq!(notes.at("/data/0/text"), "by system");
    }
}

#[tokio::test]
async fn a_failed_function_undoes_the_write_and_says_nothing() {
    let file = r#"
        import { before } from "gatewright";
        export const fail = before("notes", "create", async ({ values, db }) => {
          const word = String(values.text);
          await db.create("agents", { name: word });
          if (word === "throw") throw new Error("secret details");
          if (word === "owner") values.userId = "somebody";
          if (word === "field") values.nothing = 1;
          if (word === "whole") return void Object.assign(values, { text: { a: 1 } });
          if (word === "status") (await import("gatewright")).refuse(200, "no");
          if (word === "uncaught") await db.get("notes", "nothing");
          if (word === "network") await fetch("http://127.0.0.1/");
          if (word === "timer") await new Promise((resolve) => setTimeout(resolve, 1));
          if (word === "never") await new Promise(() => {});
          if (word === "nested") await db.create("notes", { text: "nested" });
        });
    "#;
    let (apps, _folder) = with_functions(TICKETS, &[("notes.ts", file)]).await;
    for app in apps {
        let ann = app.signed_in("ann@example.com").await;
        for word in ["throw", "owner", "field", "status", "uncaught", "network", "timer", "never", "nested"] {
            let failed = ann.post("/notes", json!({"text": word})).await;
            assert_eq!(failed.status(), 500, "{word}: {}", failed.text());
            assert_eq!(failed.at("/code"), "function_failed", "{word}");
            assert!(!failed.text().contains("secret") && !failed.text().contains("nothing"), "{}", failed.text());
        }
        ann.post("/notes", json!({"text": "whole"})).await.is(422);
        assert_eq!(ann.get("/notes").await.at("/total"), 0, "{}", app.engine());
        assert_eq!(ann.get("/agents").await.at("/total"), 0, "what a function wrote is undone: {}", app.engine());
        ann.post("/notes", json!({"text": "fine"})).await.is(201);
        assert_eq!(ann.get("/agents").await.at("/total"), 1);
    }
}

#[tokio::test]
async fn functions_run_at_every_door_that_writes() {
    let file = r#"
        import { before } from "gatewright";
        export const mark = before("notes", "create", ({ values }) => { values.text = `${values.text}!`; });
        export const marked = before("notes", "update", ({ values, old }) => { values.text = `${old.text}?`; });
    "#;
    let toml = format!("[mcp]\nenabled = true\n{TICKETS}");
    let (apps, _folder) = with_functions(&toml, &[("notes.ts", file)]).await;
    for app in apps {
        let ann = app.signed_in("ann@example.com").await;
        let one = ann.post("/notes", json!({"text": "one"})).await.is(201);
        assert_eq!(one.at("/data/text"), "one!");
        let id = one.at("/data/id");
        let batch = ann.post("/notes/_batch", json!({"items": [{"text": "two"}, {"text": "three"}]})).await.is(200);
        assert_eq!(batch.at("/results/1/data/text"), "three!");
        let mixed = json!({"operations": [
            {"op": "create", "entity": "notes", "data": {"text": "four"}},
            {"op": "update", "entity": "notes", "id": id, "data": {"text": "x"}},
        ]});
        let mixed = ann.post("/_batch", mixed).await.is(200);
        assert_eq!(mixed.at("/results/0/data/text"), "four!");
        assert_eq!(mixed.at("/results/1/data/text"), "one!?");
        let upserted = ann.post("/notes?on_conflict=text", json!({"text": "one!?"})).await.is(200);
        assert_eq!(upserted.at("/data/text"), "one!??");
        let called = ann.call_tool("notes_create", json!({"text": "five"})).await.is(200);
        assert!(called.text().contains("five!"), "{}", called.text());
    }
}

#[tokio::test]
async fn faults_of_a_folder_are_told_with_their_places() {
    let folder = folder(&[
        (
            "a.ts",
            "import { before } from \"gatewright\";\nexport const f = before(\"nothing\", \"create\", () => {});\n",
        ),
        ("b.ts", "const a = 1;\nexport const b = process.env;\n"),
        ("c.ts", "import x from \"zod\";\nexport const c = x;\n"),
        ("d.ts", "import { before } from \"gatewright\";\nbefore(\"notes\", \"create\", () => {});\n"),
        ("e.ts", "import { before } from \"gatewright\";\nexport const e = before(\"notes\", \"read\", () => {});\n"),
    ]);
    let toml = format!("[functions]\nfolder = \"{}\"\n{TICKETS}", folder.path().display());
    let loader = gatewright::config::Loader::text("test.toml", &toml).dev_mode().database("sqlite::memory:");
    let faults = gatewright::check_functions(&loader.load().unwrap()).unwrap_err();
    for expected in [
        "b.ts:2:18: `process` does not exist in functions",
        "c.ts",
        "bundle a package into a file of it",
        "d.ts: a function is declared but not exported",
        "e.ts:2:14: e: before(\"notes\", …) is for create, update, delete, not \"read\"",
    ] {
        assert!(faults.contains(expected), "{expected} in\n{faults}");
    }
    let alone = super::folder(&[(
        "a.ts",
        "import { before } from \"gatewright\";\nexport const f = before(\"nothing\", \"create\", () => {});\n",
    )]);
    let toml = format!("[functions]\nfolder = \"{}\"\n{TICKETS}", alone.path().display());
    let loader = gatewright::config::Loader::text("test.toml", &toml).dev_mode().database("sqlite::memory:");
    let faults = gatewright::check_functions(&loader.load().unwrap()).unwrap_err();
    assert_eq!(faults, "a.ts:2:14: f: there is no entity \"nothing\"");
}

#[tokio::test]
async fn without_functions_answers_are_the_same() {
    for app in TestApp::on_every_engine(TICKETS).await {
        let ann = app.signed_in("ann@example.com").await;
        ann.post("/notes", json!({"text": "plain"})).await.is(201);
        app.anonymous().get("/fn/anything").await.is(404);
    }
}

#[tokio::test]
async fn a_body_that_a_function_completes_keeps_all_that_it_says() {
    let toml = r#"
        [[entity]]
        name = "items"
        owner_field = "user_id"
        client_ids = true
        [[entity.field]]
        name = "title"
        type = "string"
        [[entity.field]]
        name = "status"
        type = "string"
        default = "draft"
        [[entity.field]]
        name = "stock"
        type = "int"
        default = 1
    "#;
    let file = r#"
        import { before } from "gatewright";
        export const made = before("items", "create", ({ values }) => { values.title = "completed"; });
        export const changed = before("items", "update", ({ values }) => { values.title = "completed"; });
    "#;
    let (apps, _folder) = with_functions(toml, &[("items.ts", file)]).await;
    for app in apps {
        let ann = app.signed_in("ann@example.com").await;
        let id = "018f0000-0000-7000-8000-000000000001";
        let made = ann.post("/items", json!({"id": id, "title": 5})).await.is(201);
        assert_eq!(made.at("/data/id"), id, "the id of the caller, on {}", app.engine());
        let changed = ann.patch(&format!("/items/{id}"), json!({"title": 5, "stock": {"$add": 2}})).await.is(200);
        assert_eq!((changed.at("/data/stock"), changed.at("/data/title")), (json!(3), json!("completed")));
        // What is given twice, or was not read, is refused whatever a function sets.
        let twice = "\"title\":\"a\",".repeat(101);
        let request = ann.request(http::Method::POST, "/items").header("content-type", "application/json");
        let refused = ann.send(request.body(format!("{{{twice}\"nothing\":1}}").into()).unwrap()).await;
        assert_eq!(refused.status(), 422, "{}", refused.text());
    }
}

#[tokio::test]
async fn what_a_caller_names_in_a_list_that_a_function_extends_is_still_checked() {
    let toml = r#"
        [[entity]]
        name = "labels"
        owner_field = "user_id"
        [[entity.field]]
        name = "name"
        type = "string"
        [[entity]]
        name = "tasks"
        owner_field = "user_id"
        [[entity.field]]
        name = "labels"
        type = "relation"
        to = "labels"
        many = true
        [[entity.field]]
        name = "main"
        type = "relation"
        to = "labels"
    "#;
    let file = r#"
        import { before } from "gatewright";
        export const extend = before("tasks", "create", async ({ values, db }) => {
          const all = await db.system.list("labels", { filter: "name = 'default'" });
          values.labels = [...(values.labels ?? []), all.data[0].id];
          values.main = all.data[0].id;
        });
    "#;
    let (apps, _folder) = with_functions(toml, &[("tasks.ts", file)]).await;
    for app in apps {
        let (ann, bob) = (app.signed_in("ann@example.com").await, app.signed_in("bob@example.com").await);
        let chosen = bob.post("/labels", json!({"name": "default"})).await.is(201).at("/data/id");
        let foreign = bob.post("/labels", json!({"name": "of Bob"})).await.is(201).at("/data/id");
        let own = ann.post("/labels", json!({"name": "own"})).await.is(201).at("/data/id");
        let made = ann.post("/tasks", json!({"labels": [own]})).await.is(201);
        assert_eq!(made.at("/data/labels"), json!([own, chosen]), "the function names any record");
        ann.post("/tasks", json!({"labels": [foreign]})).await.is(422);
    }
}

#[tokio::test]
async fn routes_that_meet_have_the_same_rule_for_tokens() {
    let file = r#"
        import { route } from "gatewright";
        export const open = route("POST", "/hooks/{id}", async () => new Response("a"), { csrf: false });
        export const approve = route("POST", "/hooks/approve", async () => new Response("b"));
        export const other = route("GET", "/hooks/approve", async () => new Response("c"));
    "#;
    let folder = folder(&[("routes.ts", file)]);
    let toml = format!("[functions]\nfolder = \"{}\"\n{TICKETS}", folder.path().display());
    let loader = gatewright::config::Loader::text("test.toml", &toml).dev_mode().database("sqlite::memory:");
    let faults = gatewright::check_functions(&loader.load().unwrap()).unwrap_err();
    assert_eq!(
        faults,
        "routes.ts:4:22: approve: POST /hooks/approve is also one of /hooks/{id}, which has `csrf: false`: give both the same"
    );
}
