use gatewright_testing::TestApp;
use http::Method;
use serde_json::json;

use super::{ALL, ORDERS, Program};

#[tokio::test]
async fn whom_the_service_refuses_is_refused_before_the_hook_is_asked() {
    let program = Program::start().await;
    let ruled = r#"
[[entity]]
name = "papers"
[entity.access]
create = "papers:create"
update = "papers:update"
delete = "papers:delete"
[entity.rules]
read = "open = true || author = @me"
create = "@roles has 'writer'"
update = "author = @me"
delete = "author = @me"
[[entity.field]]
name = "author"
type = "relation"
to = "users"
[[entity.field]]
name = "open"
type = "bool"
default = false
[[entity.field]]
name = "text"
type = "string"
max = 10
[roles]
user = ["papers:*", "orders:*"]
writer = ["papers:*", "orders:*"]
reader = ["papers:read"]
"#;
    let toml = format!("{ORDERS}{ruled}{}{}", program.hook("orders", ALL, ""), program.hook("papers", ALL, ""));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        app.grant("ann@example.com", &["user", "writer"]).await;
        let mut ann_again = ann.clone();
        ann_again.sign_in("ann@example.com").await.is(200);
        let bob = app.with_jwt("bob@example.com").await;
        let me = app.user_id("ann@example.com").await;
        let ann = ann_again;
        let paper = ann.post("/papers", json!({"author": me.as_str(), "open": true, "text": "a"})).await.is(201);
        let hidden = ann.post("/papers", json!({"author": me.as_str(), "text": "b"})).await.is(201);
        let order = ann.post("/orders", json!({"item": "tea", "price": 5})).await.is(201);
        let (paper, hidden) = (paper.at("/data/id"), hidden.at("/data/id"));
        let path = |table: &str, id: &serde_json::Value| format!("/{table}/{}", id.as_str().unwrap());
        let (paper, hidden, order) =
            (path("papers", &paper), path("papers", &hidden), path("orders", &order.at("/data/id")));
        program.asked();
        let anonymous = app.anonymous();
        anonymous.post("/orders", json!({"item": "tea", "price": 5})).await.is(401);
        anonymous.patch(&paper, json!({"text": "c"})).await.is(401);
        bob.post("/papers", json!({"text": "c"})).await.is(403);
        bob.patch(&paper, json!({"text": "c"})).await.is(403);
        bob.patch(&hidden, json!({"text": "c"})).await.is(404);
        bob.delete(&paper).await.is(403);
        bob.delete(&hidden).await.is(404);
        bob.patch(&order, json!({"item": "c"})).await.is(404);
        let request =
            ann.request(Method::PATCH, &paper).header("if-match", "\"old\"").header("content-type", "application/json");
        ann.send(request.body(r#"{"text":"c"}"#.into()).unwrap()).await.is(412);
        let request = ann.request(Method::POST, "/orders").header("content-type", "application/json");
        ann.send(request.body("{\"item\":".into()).unwrap()).await.is(400);
        let batch = json!({"operations": [{"op": "create", "entity": "papers", "data": {"text": "c"}}]});
        bob.post("/_batch", batch).await.is(403);
        assert!(program.asked().is_empty(), "nobody was asked");
        // What the hook cannot make right is refused after it.
        ann.patch(&paper, json!({"text": "much too long for it"})).await.is(422);
        ann.post("/orders", json!({"item": "tea"})).await.is(422);
        assert_eq!(program.asked().len(), 2);
        // And a value that only some may set, after validation.
        let refused = ann.post("/orders", json!({"item": "tea", "price": 5, "state": "paid"})).await.is(403);
        assert_eq!(refused.at("/code"), "field_forbidden");
        assert_eq!(program.asked().len(), 1);
    }
}
