use gatewright_testing::TestApp;
use http::Method;
use serde_json::json;

use super::{ALL, ORDERS, Program};
use crate::all::app::admin::operator;
use crate::all::app::functions::folder;

const KEYED: &str = r#"
[[entity]]
name = "stock"
unique = [["name"]]
[[entity.field]]
name = "name"
type = "string"
[[entity.field]]
name = "count"
type = "int"
[mcp]
enabled = true
"#;

#[tokio::test]
async fn hooks_are_asked_at_every_door_that_writes() {
    let program = Program::start().await;
    let file = r#"
        import { before, route } from "gatewright";
        export const late = before("stock", "create", async ({ values }) => { values.count = Number(values.count ?? 0) + 100; });
        export const add = route("POST", "/add", async (_, { db }) => { await db.create("stock", { name: "by a route" }); return new Response("ok"); });
    "#;
    let files = folder(&[("all.ts", file)]);
    let toml = format!(
        "[functions]\nfolder = \"{}\"\n{ORDERS}{KEYED}{}{}",
        files.path().display(),
        program.hook("stock", ALL, ""),
        program.hook("orders", "\"before_create\"", "")
    );
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        let kinds =
            || program.asked().iter().map(|asked| asked["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        let count = |count: i64| (200, json!({"values": {"count": count}}));
        program.asked();

        program.answers([count(1)]);
        let made = ann.post("/stock", json!({"name": "a"})).await.is(201);
        assert_eq!(made.at("/data/count"), 101, "the hook, then the function");
        assert_eq!(kinds(), ["stock.before_create"]);
        let path = format!("/stock/{}", made.at("/data/id").as_str().unwrap());
        ann.json(Method::PUT, &path, &json!({"name": "b", "count": 1})).await.is(200);
        assert_eq!(kinds(), ["stock.before_update"]);

        program.answers([count(1), count(2)]);
        ann.post("/stock/_batch", json!({"items": [{"name": "c"}, {"name": "d"}]})).await.is(200);
        assert_eq!(kinds(), ["stock.before_create"; 2]);
        // The failing item is the one whose hook refuses.
        program.refuses(Some("\"f\""));
        let refused =
            ann.post("/stock/_batch", json!({"items": [{"name": "e"}, {"name": "f"}, {"name": "g"}]})).await.is(400);
        assert!(refused.text().contains("\"index\":1"), "{}", refused.text());
        program.refuses(None);
        kinds();

        let mixed = json!({"operations": [
            {"op": "create", "entity": "orders", "data": {"item": "tea", "price": 5}},
            {"op": "upsert", "entity": "stock", "on": ["name"], "data": {"name": "b", "count": 3}},
            {"op": "upsert", "entity": "stock", "on": ["name"], "data": {"name": "h", "count": 3}},
        ]});
        ann.post("/_batch", mixed).await.is(200);
        // They are asked at the same time.
        let mut asked = kinds();
        asked.sort();
        assert_eq!(asked, ["orders.before_create", "stock.before_create", "stock.before_update"]);
        ann.post("/stock?on_conflict=name", json!({"name": "b", "count": 4})).await.is(200);
        assert_eq!(kinds(), ["stock.before_update"]);

        let called = ann.call_tool("stock_create", json!({"name": "i"})).await;
        assert!(called.text().contains("\"i"), "{}", called.text());
        assert_eq!(kinds(), ["stock.before_create"]);
        ann.post("/fn/add", json!({})).await.is(200);
        assert_eq!(kinds(), ["stock.before_create"]);
        let operator = operator(&app).await;
        operator.patch(&format!("/admin/api/records{path}"), json!({"count": 9})).await.is(200);
        assert_eq!(kinds(), ["stock.before_update"]);

        // A transaction of the program.
        let entities = app.app().entities().clone();
        let made = entities.transaction(async |transaction| {
            let call = gatewright::entities::Call::default().as_operator();
            transaction.table("stock")?.create(&call, br#"{"name":"k"}"#).await
        });
        assert!(made.await.is_ok());
        assert_eq!(kinds(), ["stock.before_create"]);
        let before = ann.get("/stock").await.at("/total");
        program.answers([(400, json!({"detail": "stays"}))]);
        ann.delete(&path).await.is(400);
        assert_eq!(ann.get("/stock").await.at("/total"), before);
        ann.delete(&path).await.is(204);
    }
}

#[tokio::test]
async fn a_repeated_request_with_a_key_asks_no_hook_again() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", ALL, ""));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        program.asked();
        let post = async || {
            let request = ann.request(Method::POST, "/orders").header("idempotency-key", "k1");
            let request = request.header("content-type", "application/json");
            ann.send(request.body(r#"{"item":"tea","price":5}"#.into()).unwrap()).await
        };
        program.texts(500, "");
        post().await.is(502);
        let made = post().await.is(201);
        let again = post().await.is(201);
        assert_eq!(made.at("/data/id"), again.at("/data/id"));
        assert_eq!(program.asked().len(), 2, "a failure is not kept, an answer is");
    }
}
