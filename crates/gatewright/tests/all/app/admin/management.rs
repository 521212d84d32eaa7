//! Service accounts, tenants and backups.

use gatewright_testing::TestApp;
use http::Method;
use jiff::SignedDuration;
use serde_json::json;

use super::{ENTITIES, id_of, operator};

#[tokio::test]
async fn an_operator_creates_and_disables_service_accounts() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let made =
            operator.post("/admin/api/service-accounts", json!({ "name": "robot", "roles": ["user"] })).await.is(201);
        let id = made.at("/data/id");
        let id = id.as_str().unwrap();
        let at = format!("/admin/api/service-accounts/{id}");
        operator.post("/admin/api/service-accounts", json!({ "name": "robot" })).await.is(409);
        operator.post("/admin/api/service-accounts", json!({ "name": "" })).await.is(422);
        operator.post("/admin/api/service-accounts", json!({ "name": "x", "roles": [""] })).await.is(422);
        operator.post(&format!("{at}/disable"), json!({})).await.is(204);
        assert_eq!(operator.get("/admin/api/service-accounts").await.is(200).at("/data/0/disabled"), json!(true));
        operator.post(&format!("{at}/enable"), json!({})).await.is(204);
        operator.post("/admin/api/service-accounts/nobody/disable", json!({})).await.is(404);
        let ann = app.signed_in("ann@example.com").await;
        ann.get("/admin/api/service-accounts").await.is(403);
        app.anonymous().post("/admin/api/service-accounts", json!({ "name": "x" })).await.is(401);
        // Who signed in long ago creates nobody who could act for ever.
        app.wait(SignedDuration::from_mins(11));
        let refused = operator.post("/admin/api/service-accounts", json!({ "name": "late" })).await.is(403);
        assert_eq!(refused.at("/code"), "fresh_sign_in_required");
        let audit = operator.get("/admin/api/audit?kind=admin.acted").await.is(200);
        assert!(audit.text().contains("POST /admin/api/service-accounts/{id}/disable"), "{}", audit.text());
    }
}

#[tokio::test]
async fn an_operator_sees_tenants_and_changes_their_members() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        let (ann_id, members) = (id_of(&app, "ann@example.com").await, "/admin/api/tenants/acme/members");
        assert_eq!(operator.get("/admin/api/tenants").await.is(200).at("/data"), json!([]));
        let put = async |body: serde_json::Value| operator.json(Method::PUT, members, &body).await;
        put(json!({ "member": "ann@example.com", "roles": ["admin"] })).await.is(204);
        put(json!({ "member": "nobody@example.com" })).await.is(422);
        put(json!({ "member": "service:nobody" })).await.is(422);
        put(json!({ "member": "ann@example.com", "roles": ["nosuch"] })).await.is(422);
        operator.post("/admin/api/service-accounts", json!({ "name": "robot" })).await.is(201);
        put(json!({ "member": "service:robot" })).await.is(204);
        let tenants = operator.get("/admin/api/tenants").await.is(200);
        assert_eq!((tenants.at("/data/0/id"), tenants.at("/data/0/members")), (json!("acme"), json!(2)));
        let listed = operator.get(members).await.is(200).json()["data"].clone();
        let found =
            |kind: &str| listed.as_array().unwrap().iter().find(|member| member["kind"] == kind).unwrap().clone();
        assert_eq!((&found("user")["email"], &found("user")["roles"]), (&json!("ann@example.com"), &json!(["admin"])));
        assert_eq!((&found("service")["name"], &found("service")["roles"]), (&json!("robot"), &json!(["member"])));
        let page = operator.get(&format!("{members}?limit=1")).await.is(200);
        let next = page.at("/cursor");
        let rest = operator.get(&format!("{members}?limit=1&cursor={}", next.as_str().unwrap())).await.is(200);
        assert_ne!(page.at("/data/0/id"), rest.at("/data/0/id"));
        operator.get(&format!("{members}?cursor=x")).await.is(400);
        operator.delete(&format!("{members}/user/{ann_id}")).await.is(204);
        operator.delete(&format!("{members}/user/{ann_id}")).await.is(404);
        operator.delete(&format!("{members}/robot/{ann_id}")).await.is(404);
        ann.get("/admin/api/tenants").await.is(403);
    }
}

#[tokio::test]
async fn a_backup_is_downloaded_by_an_operator_who_signed_in_lately() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let answer = operator.get("/admin/api/backup").await;
        if app.engine() == "postgres" {
            assert_eq!(answer.is(409).at("/code"), "unsupported");
        } else {
            let answer = answer.is(200);
            let named = answer.header("content-disposition").unwrap();
            assert!(named.starts_with("attachment; filename=\"gatewright-"), "{named}");
            assert!(answer.text().starts_with("SQLite format 3"));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            let audit = operator.get("/admin/api/audit?kind=admin.acted").await.is(200);
            assert!(audit.text().contains("GET /admin/api/backup"), "{}", audit.text());
        }
        app.anonymous().get("/admin/api/backup").await.is(401);
        app.signed_in("ann@example.com").await.get("/admin/api/backup").await.is(403);
        // The right to read is not the right to every hash.
        let issue = json!({ "name": "watch", "scopes": ["admin:read"] });
        let token = operator.post("/auth/tokens", issue).await.is(200);
        let watch = app.anonymous().bearing(token.at("/token").as_str().unwrap());
        watch.get("/admin/api/health").await.is(200);
        assert_eq!(watch.get("/admin/api/backup").await.is(403).at("/code"), "insufficient_scope");
        app.wait(SignedDuration::from_mins(11));
        assert_eq!(operator.get("/admin/api/backup").await.is(403).at("/code"), "fresh_sign_in_required");
    }
}
