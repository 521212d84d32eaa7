//! Tools that write: operators, ids of clients, and several entities at once.

use gatewright_testing::TestApp;
use serde_json::json;

use super::mcp::{failed, rpc, scoped, worked};

const ENTITIES: &str = r#"
[auth]
enabled = false

[[entity]]
name = "projects"
public = true
client_ids = true
[[entity.field]]
name = "name"
type = "string"
unique = true
[[entity.field]]
name = "votes"
type = "int"
[[entity.field]]
name = "price"
type = "decimal"
[[entity.field]]
name = "tags"
type = "list"
of = "string"
max_items = 2
unique_items = true
[[entity.field]]
name = "sums"
type = "list"
of = "decimal"

[[entity]]
name = "tasks"
public = true
[[entity.field]]
name = "project"
type = "relation"
to = "projects"

[[entity]]
name = "inner"
public = true
mcp = false
[[entity.field]]
name = "title"
type = "string"
"#;

const ID: &str = "0190d2b3-0000-7000-8000-00000000000a";

#[tokio::test]
async fn tools_take_ids_and_operators() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let caller = app.anonymous();
        let made = worked(&caller, "projects_create", json!({ "id": ID.to_ascii_uppercase(), "name": "Moon" })).await;
        assert_eq!(made["data"]["id"], ID, "{}", app.engine());
        let taken = failed(&caller, "projects_create", json!({ "id": ID, "name": "Sun" })).await;
        assert_eq!((&taken["status"], &taken["code"]), (&json!(409), &json!("id_taken")));
        let change = json!({ "id": ID, "votes": { "$add": 2 }, "price": { "$add": "0.10" } });
        for votes in [2, 4] {
            assert_eq!(worked(&caller, "projects_update", change.clone()).await["data"]["votes"], votes);
        }
        let inexact = failed(&caller, "projects_update", json!({ "id": ID, "price": { "$add": 0.1 } })).await;
        assert_eq!(inexact["status"], 400, "{inexact}");
    }
}

#[tokio::test]
async fn tools_append_to_lists_and_remove_from_them() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let caller = app.anonymous();
        let made = worked(&caller, "projects_create", json!({ "name": "Moon", "tags": ["a"] })).await;
        assert_eq!((&made["data"]["tags"], &made["data"]["sums"]), (&json!(["a"]), &json!([])), "{}", app.engine());
        let id = &made["data"]["id"];
        for (change, tags) in [
            (json!({ "$append": ["b"] }), json!(["a", "b"])),
            (json!({ "$remove": ["a"] }), json!(["b"])),
            (json!(["c"]), json!(["c"])),
        ] {
            let changed = worked(&caller, "projects_update", json!({ "id": id, "tags": change })).await;
            assert_eq!(changed["data"]["tags"], tags, "{}", app.engine());
        }
        let full = failed(&caller, "projects_update", json!({ "id": id, "tags": { "$append": ["d", "e"] } })).await;
        assert_eq!((&full["status"], &full["errors"][0]["code"]), (&json!(422), &json!("max")), "{full}");
        let found = worked(&caller, "projects_list", json!({ "filter": "tags has 'c' && length(tags) = 1" })).await;
        assert_eq!(found["data"].as_array().map(Vec::len), Some(1), "{found}");
        for inexact in [json!([0.1]), json!({ "$append": [0.1] })] {
            let refused = failed(&caller, "projects_update", json!({ "id": id, "sums": inexact })).await;
            assert_eq!(refused["status"], 400, "{refused}");
        }
        let tools = rpc(&caller, "tools/list", json!({})).await.json();
        let tools = tools["result"]["tools"].as_array().unwrap().clone();
        let update = tools.iter().find(|tool| tool["name"] == "projects_update").unwrap();
        let tags = &update["inputSchema"]["properties"]["tags"]["anyOf"];
        assert_eq!(tags[0]["items"]["type"], "string", "{update}");
        assert_eq!((&tags[0]["maxItems"], &tags[0]["uniqueItems"]), (&json!(2), &json!(true)), "{update}");
        assert_eq!(tags[1]["properties"]["$append"]["type"], "array", "{update}");
        assert_eq!(tags[2]["properties"]["$remove"]["items"]["type"], "string", "{update}");
    }
}

#[tokio::test]
async fn a_tool_writes_to_several_entities_in_one_transaction() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let caller = app.anonymous();
        let moon = json!({ "op": "create", "entity": "projects", "data": { "name": "Moon" }, "as": "p" });
        let task = json!({ "op": "create", "entity": "tasks", "data": { "project": { "$ref": "p" } } });
        let done = worked(&caller, "batch", json!({ "operations": [moon, task] })).await;
        assert_eq!(done["committed"], true, "{} {done}", app.engine());
        let project = &done["results"][0]["data"]["id"];
        assert_eq!((&done["results"][1]["data"]["project"], &done["results"][1]["entity"]), (project, &json!("tasks")));
        let tag = worked(&caller, "projects_get", json!({ "id": project })).await["_etag"].clone();
        let change = json!({ "op": "update", "entity": "projects", "id": project, "data": { "votes": { "$add": 1 } }, "ifMatch": tag });
        assert_eq!(worked(&caller, "batch", json!({ "operations": [change] })).await["results"][0]["data"]["votes"], 1);
        let stale = failed(&caller, "batch", json!({ "operations": [task, change] })).await;
        assert_eq!(stale["results"][0]["error"]["status"], 422, "{stale}");
        let stale = failed(&caller, "batch", json!({ "operations": [moon, change] })).await;
        assert_eq!(stale["results"][0]["error"]["status"], 409, "{stale}");
        // Only entities with tools, exact decimals, and a body that is a batch.
        let inner = json!({ "op": "create", "entity": "inner", "data": { "title": "x" } });
        let inner = failed(&caller, "batch", json!({ "operations": [inner] })).await;
        assert_eq!(inner["results"][0]["error"]["status"], 422, "{inner}");
        let price = json!({ "op": "create", "entity": "projects", "data": { "name": "x", "price": 0.1 } });
        assert_eq!(failed(&caller, "batch", json!({ "operations": [price] })).await["status"], 400);
        assert_eq!(failed(&caller, "batch", json!({ "operations": 7 })).await["status"], 422);
        assert_eq!(failed(&caller, "batch", json!({ "more": 1 })).await["status"], 422);
        // A token needs the scope of each entity, and the tool is there if it can write to any.
        let writer = app.anonymous().with_identity(scoped(&["tasks:write", "tasks:read"]));
        let listed = rpc(&writer, "tools/list", json!({})).await.is(200).json();
        assert!(listed["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "batch"), "{listed}");
        let refused = failed(&writer, "batch", json!({ "operations": [moon, task] })).await;
        assert_eq!(refused["results"][0]["error"]["status"], 403, "{refused}");
        let link = json!({ "op": "create", "entity": "tasks", "data": {} });
        assert_eq!(worked(&writer, "batch", json!({ "operations": [link] })).await["committed"], true);
    }
}

#[tokio::test]
async fn tools_write_once_under_a_key() {
    let signed_in = ENTITIES.replace("[auth]\nenabled = false\n", "").replace("public = true\n", "");
    for app in TestApp::on_every_engine(&signed_in).await {
        let ada = app.signed_in("ada@example.com").await;
        let create = json!({ "id": ID, "name": "Moon", "idempotency_key": "create" });
        let first = worked(&ada, "projects_create", create.clone()).await;
        assert_eq!(worked(&ada, "projects_create", create).await, first, "{}", app.engine());
        let other = json!({ "id": ID, "name": "Sun", "idempotency_key": "create" });
        assert_eq!(failed(&ada, "projects_create", other).await["code"], "idempotency_key_reused");
        let taken = json!({ "name": "Moon", "idempotency_key": "taken" });
        let refused = failed(&ada, "projects_create", taken.clone()).await;
        assert_eq!((&refused["status"], &failed(&ada, "projects_create", taken).await), (&json!(409), &refused));
        let change = json!({ "id": ID, "votes": { "$add": 2 }, "idempotency_key": "change" });
        for _ in 0..2 {
            assert_eq!(worked(&ada, "projects_update", change.clone()).await["data"]["votes"], 2);
        }
        let add = json!({ "op": "update", "entity": "projects", "id": ID, "data": { "votes": { "$add": 1 } } });
        let batch = json!({ "operations": [add], "idempotency_key": "batch" });
        for _ in 0..2 {
            assert_eq!(worked(&ada, "batch", batch.clone()).await["results"][0]["data"]["votes"], 3);
        }
        for key in [json!(7), json!(""), json!("a b")] {
            let invalid = json!({ "name": "x", "idempotency_key": key });
            assert_eq!(failed(&ada, "projects_create", invalid).await["status"], 400, "{key}");
        }
        let delete = json!({ "id": ID, "idempotency_key": "delete" });
        for _ in 0..2 {
            assert_eq!(worked(&ada, "projects_delete", delete.clone()).await["deleted"], true, "{}", app.engine());
        }
    }
}
