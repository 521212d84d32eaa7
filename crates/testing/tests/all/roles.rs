use gatewright_testing::TestApp;
use serde_json::json;

const NEWSROOM: &str = r#"
[roles]
editor = ["articles:read", "articles:write"]
reader = ["articles:read"]
chief = ["*"]

[[entity]]
name = "articles"
access = { read = "articles:read", create = "articles:write", update = "articles:write", delete = "articles:write" }
[[entity.field]]
name = "title"
type = "string"
required = true
"#;

#[tokio::test]
async fn roles_grant_their_permissions_and_changes_apply_at_once() {
    for app in TestApp::on_every_engine(NEWSROOM).await {
        let cookie = app.signed_in("ada@example.com").await;
        let jwt = app.with_jwt("bob@example.com").await;
        for (email, actor) in [("ada@example.com", &cookie), ("bob@example.com", &jwt)] {
            let write = || actor.post("/articles", json!({ "title": "News" }));
            // (roles, read, write)
            for (roles, read, written) in [
                (&["user"][..], 403, 403),
                (&["reader"], 200, 403),
                (&["reader", "editor"], 200, 201),
                (&["chief"], 200, 201),
                (&["unheard-of"], 403, 403),
                (&[], 403, 403),
            ] {
                app.grant(email, roles).await;
                assert_eq!(actor.get("/articles").await.status(), read, "{} {roles:?}", app.engine());
                assert_eq!(write().await.status(), written, "{} {roles:?}", app.engine());
            }
        }
        app.anonymous().get("/articles").await.is(401);
    }
}
