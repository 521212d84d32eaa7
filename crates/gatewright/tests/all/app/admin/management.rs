//! Service accounts, tenants and backups.

use axum::body::Body;
use gatewright_db::{Db, Options};
use gatewright_testing::{Actor, TestApp};
use http::Method;
use jiff::SignedDuration;
use serde_json::json;
use tower::ServiceExt;

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
        // An operator who signed in long ago cannot create a service account.
        app.wait(SignedDuration::from_mins(11));
        let refused = operator.post("/admin/api/service-accounts", json!({ "name": "late" })).await.is(403);
        assert_eq!(refused.at("/code"), "fresh_sign_in_required");
        let audit = operator.get("/admin/api/audit?kind=admin.acted").await.is(200);
        assert!(audit.text().contains("POST /admin/api/service-accounts/{id}/disable"), "{}", audit.text());
    }
}

#[tokio::test]
async fn an_operators_act_is_refused_while_the_audit_log_cannot_be_written() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let rename = async |from: &str, to: &str| {
            app.app().db().execute(format!("ALTER TABLE {from} RENAME TO {to}"), vec![]).await.unwrap();
        };
        rename("audit_log", "audit_away").await;
        let refused = operator.post("/admin/api/service-accounts", json!({ "name": "robot" })).await.is(503);
        assert!(refused.text().contains("nothing was done"), "{}", refused.text());
        assert_eq!(operator.get("/admin/api/service-accounts").await.is(200).at("/data"), json!([]));
        rename("audit_away", "audit_log").await;
        operator.post("/admin/api/service-accounts", json!({ "name": "robot" })).await.is(201);
        operator.post("/admin/api/service-accounts", json!({ "name": "robot" })).await.is(409);
        let audit = operator.get("/admin/api/audit?kind=admin.acted").await.is(200);
        let acts: Vec<_> = audit.json()["data"].as_array().unwrap().iter().map(|act| act["meta"].clone()).collect();
        // Both are of one moment.
        let mut statuses: Vec<_> = acts.iter().filter_map(|meta| meta["status"].as_u64()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "{acts:?}");
        assert!(acts.iter().all(|meta| meta.get("pending").is_none()), "{acts:?}");
    }
}

#[tokio::test]
async fn an_operator_sees_tenants_and_changes_their_members() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        app.prove_mailbox("ann@example.com").await;
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
        let acme = operator.get("/admin/api/tenants/acme").await.is(200);
        assert_eq!((acme.at("/data/id"), acme.at("/data/members")), (json!("acme"), json!(2)));
        let unknown = operator.get("/admin/api/tenants/nobody").await.is(200);
        assert_eq!((unknown.at("/data/name"), unknown.at("/data/members")), (json!(null), json!(0)));
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

/// The identifier of a tenant is its name until its owner chooses one.
#[tokio::test]
async fn an_operator_gives_no_tenant_a_name_that_a_reader_cannot_see() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        app.signed_in("ann@example.com").await;
        app.prove_mailbox("ann@example.com").await;
        for tenant in ["ac\u{200b}me", "\u{202e}emca", "acme\u{fe0f}", "\u{2800}", "ac\u{ad}me"] {
            let encoded = tenant.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
            let body = json!({ "member": "ann@example.com" });
            operator.json(Method::PUT, &format!("/admin/api/tenants/{encoded}/members"), &body).await.is(404);
            let body = json!({ "email": "bob@example.com", "tenant": tenant });
            operator.post("/admin/api/invitations", body).await.is(422);
            // The command line takes names of tenants by this function, too.
            assert!(gatewright::tenant_id(tenant).is_err(), "{tenant:?}");
        }
        assert_eq!(operator.get("/admin/api/tenants").await.is(200).at("/data"), json!([]));
    }
}

#[tokio::test]
async fn removing_or_demoting_a_member_drops_their_invitations() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let (owner, ann) = (app.signed_in("owner@example.com").await, app.signed_in("ann@example.com").await);
        app.prove_mailbox("ann@example.com").await;
        let ann_id = id_of(&app, "ann@example.com").await;
        let made = owner.post("/auth/tenants", json!({ "name": "Acme" })).await.is(201);
        let tenant = made.at("/id").as_str().unwrap().to_owned();
        let (members, own) =
            (format!("/admin/api/tenants/{tenant}/members"), format!("/auth/tenants/{tenant}/members"));
        let put = async |roles: &[&str]| {
            let body = json!({ "member": "ann@example.com", "roles": roles });
            operator.json(Method::PUT, &members, &body).await.is(204)
        };
        let invite = async |actor: &Actor, email: &str| {
            let body = json!({ "email": email, "roles": ["member"] });
            actor.post(&own, body).await.status()
        };
        let left = async || -> Vec<String> {
            let listed = owner.get(&own).await.is(200).json();
            let invitations = listed["invitations"].as_array().unwrap();
            invitations.iter().map(|sent| sent["email"].as_str().unwrap().to_owned()).collect()
        };
        assert!(invite(&owner, "kept@example.com").await < 300);
        // Operators see them in their own list.
        let all = operator.get("/admin/api/invitations").await.is(200);
        assert_eq!((all.at("/data/0/tenant"), all.at("/data/0/tenantRoles")), (json!(tenant), json!(["member"])));
        for ends in ["demoted", "removed"] {
            put(&["admin"]).await;
            assert!(invite(&ann, "back@example.com").await < 300, "{}", app.engine());
            // With the right to invite, earlier invitations stay.
            put(&["admin", "member"]).await;
            assert_eq!(left().await, ["back@example.com", "kept@example.com"], "{}", app.engine());
            match ends {
                "demoted" => _ = put(&["member"]).await,
                _ => _ = operator.delete(&format!("{members}/user/{ann_id}")).await.is(204),
            }
            assert_eq!(left().await, ["kept@example.com"], "{} {ends}", app.engine());
            assert_eq!(invite(&ann, "again@example.com").await, if ends == "demoted" { 403 } else { 404 });
        }
    }
}

#[tokio::test]
async fn a_backup_is_downloaded_by_an_operator_with_a_recent_sign_in() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let items: Vec<_> = (0..100).map(|number| json!({ "title": format!("note {number}") })).collect();
        for _ in 0..3 {
            operator.post("/notes/_batch", json!({ "items": items })).await.is(200);
        }
        let answer = operator.get("/admin/api/backup").await;
        if app.engine() == "postgres" {
            assert_eq!(answer.is(409).at("/code"), "unsupported");
        } else {
            let answer = answer.is(200);
            let named = answer.header("content-disposition").unwrap();
            assert!(named.starts_with("attachment; filename=\"gatewright-"), "{named}");
            // The file is a complete database with the data.
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("copy.db");
            std::fs::write(&file, answer.bytes()).unwrap();
            assert_eq!(answer.header("content-length"), Some(&*answer.bytes().len().to_string()));
            let copy = Db::open(&format!("sqlite://{}", file.display()), Options::default()).await.unwrap();
            for sql in
                ["SELECT id, title, user_id FROM notes ORDER BY id", "SELECT id, email, password_hash FROM users"]
            {
                let rows = async |db: &Db| format!("{:?}", db.query(sql, vec![]).await.unwrap());
                assert_eq!(rows(&copy).await, rows(app.app().db()).await, "{sql}");
            }
            assert_eq!(copy.query("SELECT 1 FROM notes", vec![]).await.unwrap().len(), 300);
            copy.close().await;
            // One at a time, until its answer has been read or dropped.
            let request = || operator.request(Method::GET, "/admin/api/backup").body(Body::empty()).unwrap();
            let first = app.app().router().oneshot(request()).await.unwrap();
            assert_eq!(first.status(), 200);
            assert_eq!(operator.get("/admin/api/backup").await.is(409).at("/code"), "backup_running");
            drop(first);
            operator.get("/admin/api/backup").await.is(200);
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            let audit = operator.get("/admin/api/audit?kind=admin.acted").await.is(200);
            assert!(audit.text().contains("GET /admin/api/backup"), "{}", audit.text());
        }
        app.anonymous().get("/admin/api/backup").await.is(401);
        app.signed_in("ann@example.com").await.get("/admin/api/backup").await.is(403);
        // The scope to read does not include a backup with every hash.
        let issue = json!({ "name": "watch", "scopes": ["admin:read"] });
        let token = operator.post("/auth/tokens", issue).await.is(200);
        let watch = app.anonymous().bearing(token.at("/token").as_str().unwrap());
        watch.get("/admin/api/health").await.is(200);
        assert_eq!(watch.get("/admin/api/backup").await.is(403).at("/code"), "insufficient_scope");
        app.wait(SignedDuration::from_mins(11));
        assert_eq!(operator.get("/admin/api/backup").await.is(403).at("/code"), "fresh_sign_in_required");
    }
}
