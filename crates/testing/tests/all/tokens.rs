//! Streams whose callers lose their credential or role: one per credential, on both engines.

use std::time::Duration;

use gatewright::auth::tokens::TokenDraft;
use gatewright::base::Subject;
use gatewright_db::params;
use gatewright_testing::{Actor, TestApp};
use http::Method;
use serde_json::json;

const NEWSROOM: &str = r#"
[roles]
reader = ["articles:read"]
[events]
heartbeat_seconds = 1

[[entity]]
name = "articles"
access = { read = "articles:read", create = "articles:write", update = "articles:write", delete = "articles:write" }
[[entity.field]]
name = "title"
type = "string"
"#;

const ADA: &str = "ada@example.com";

/// Ada as a reader: by session, by JWT, by a token of hers.
async fn ada(app: &TestApp) -> [Actor; 3] {
    let cookie = app.signed_in(ADA).await;
    app.grant(ADA, &["reader"]).await;
    let token = issue(&cookie).await;
    let jwt = app.anonymous().sign_in(ADA).await.is(200).json()["token"].as_str().expect("a token").to_owned();
    [cookie, app.anonymous().bearing(&jwt), app.anonymous().bearing(&token)]
}

async fn issue(cookie: &Actor) -> String {
    let body = json!({ "name": "CI", "scopes": ["articles:read"] });
    cookie.post("/auth/tokens", body).await.is(200).json()["token"].as_str().expect("a token").to_owned()
}

/// Opens a stream for each, lets `change` happen, and waits for their ends.
async fn all_end(actors: &[Actor], change: impl Future<Output = ()>) {
    let mut streams = Vec::new();
    for actor in actors {
        streams.push(actor.watch("articles").await);
    }
    change.await;
    for mut stream in streams {
        let end = tokio::time::timeout(Duration::from_mins(1), stream.next()).await;
        assert!(end.expect("the stream ends within a heartbeat").is_none());
    }
}

#[tokio::test]
async fn streams_end_with_the_role() {
    for app in TestApp::on_every_engine(NEWSROOM).await {
        all_end(&ada(&app).await, app.grant(ADA, &["user"])).await;
    }
}

#[tokio::test]
async fn streams_end_with_the_account() {
    for app in TestApp::on_every_engine(NEWSROOM).await {
        let actors = ada(&app).await;
        let deleted = async {
            app.app().db().execute("DELETE FROM users WHERE email = ?1", params![ADA]).await.unwrap();
        };
        all_end(&actors, deleted).await;
        for actor in &actors {
            actor.get("/articles").await.is(401);
        }
    }
}

#[tokio::test]
async fn streams_end_with_the_token() {
    for app in TestApp::on_every_engine(NEWSROOM).await {
        let [cookie, _, own] = ada(&app).await;
        let auth = app.app().auth().unwrap();
        let (tokens, services) = (auth.api_tokens().unwrap(), auth.service_accounts().unwrap());
        let robot = services.create("robot", ["reader"].into_iter().collect()).await.unwrap();
        let draft = TokenDraft::parse("robot", &["articles:*"], 0).unwrap();
        let issued = tokens.issue(Subject::Service(robot.id.clone()), draft).await.unwrap();
        let robots = app.anonymous().bearing(issued.plaintext.expose());
        let id = cookie.get("/auth/tokens").await.is(200).at("/tokens/0/id").as_str().unwrap().to_owned();
        all_end(&[own.clone(), robots.clone()], async {
            cookie.delete(&format!("/auth/tokens/{id}")).await.is(204);
            services.disable(&robot.id).await.unwrap();
        })
        .await;
        for actor in [own, robots] {
            actor.get("/articles").await.is(401);
        }
    }
}

#[tokio::test]
async fn tokens_are_limited_by_scopes_and_roles_on_every_entity_route() {
    for app in TestApp::on_every_engine(NEWSROOM).await {
        let [cookie, jwt, own] = ada(&app).await;
        for actor in [&cookie, &jwt, &own] {
            actor.get("/articles").await.is(200);
            actor.post("/articles", json!({ "title": "x" })).await.is(403);
        }
        let without = cookie.post("/auth/tokens", json!({ "name": "nothing" })).await.is(200).json();
        let without = app.anonymous().bearing(without["token"].as_str().unwrap());
        for path in ["/articles", "/articles/1", "/articles/_events", "/articles?limit=1"] {
            without.get(path).await.is(403);
        }
        for method in [Method::POST, Method::PATCH, Method::DELETE] {
            let path = if method == Method::POST { "/articles" } else { "/articles/1" };
            let request = own.request(method.clone(), path).header("content-type", "application/json");
            own.send(request.body("{}".into()).unwrap()).await.is(403);
        }
        // A token never opens routes that are only for people.
        for path in ["/auth/me", "/auth/sessions", "/auth/tokens"] {
            own.get(path).await.is(401);
        }
        for path in ["/auth/2fa/enroll", "/auth/send-verification"] {
            own.post(path, json!({ "code": "123456" })).await.is(401);
        }
    }
}
