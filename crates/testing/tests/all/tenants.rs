//! Tenants from the account to the record, by configuration alone.
#![expect(clippy::unwrap_used, reason = "a step that fails fails its test, in helpers as in tests")]

use axum::body::Body;
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[tenancy]
header = "X-Workspace"
[[entity]]
name = "notes"
multi_tenant = true
[[entity.field]]
name = "text"
type = "string"
unique = true
"#;

async fn ask(actor: &Actor, workspace: &str, method: Method, path: &str, body: Option<Value>) -> Answer {
    let request = actor.request(method, path).header("X-Workspace", workspace);
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    actor.send(request.body(body).unwrap()).await
}

#[tokio::test]
async fn accounts_work_in_the_tenants_that_they_belong_to() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let ada = app.signed_in("ada@example.com").await;
        let bob = app.with_jwt("bob@example.com").await;
        ask(&ada, "acme", Method::GET, "/notes", None).await.is(403);
        app.join("ada@example.com", "acme").await;
        app.join("bob@example.com", "other").await;
        // A header with another name is ignored.
        ada.get("/notes").await.is(400);
        let plain = ada.request(Method::GET, "/notes").header("X-Tenant-ID", "acme").body(Body::empty()).unwrap();
        ada.send(plain).await.is(400);

        let note = Some(json!({ "text": "x" }));
        let made = ask(&ada, "acme", Method::POST, "/notes", note.clone()).await.is(201).json();
        ask(&ada, "acme", Method::POST, "/notes", note.clone()).await.is(409);
        ask(&bob, "other", Method::POST, "/notes", note).await.is(201);
        let path = format!("/notes/{}", made["data"]["id"].as_str().unwrap());
        ask(&ada, "acme", Method::GET, &path, None).await.is(200);
        ask(&bob, "other", Method::GET, &path, None).await.is(404);
        ask(&bob, "acme", Method::GET, &path, None).await.is(403);
        app.anonymous().get("/notes").await.is(401);
        ask(&app.anonymous(), "acme", Method::GET, &path, None).await.is(401);
    }
}
