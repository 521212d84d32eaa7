//! Rows of the service's own tables that another program has damaged: each list goes on without them.

use std::collections::BTreeSet;

use gatewright::auth::tokens::TokenDraft;
use gatewright::auth::users::ListUsers;
use gatewright::base::{Roles, Subject};
use gatewright_testing::{Actor, TestApp};
use serde_json::{Value, json};

use super::admin::operator;

const CONFIG: &str = concat!(
    "[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"crm\"\nevent = \"entity.created\"\npull = true\n",
    entity!(public "posts" "title"),
    entity!(multi_tenant "projects" "title"),
);

async fn run(app: &TestApp, sql: &str) {
    let changed = app.app().db().execute(sql.to_owned(), vec![]).await.unwrap();
    assert_eq!(changed, 1, "{}: {sql}", app.engine());
}

/// A time that cannot be sent.
fn no_time(app: &TestApp) -> &'static str {
    if app.engine() == "sqlite" { "'yesterday'" } else { "'infinity'" }
}

fn ids(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

/// The ids on all pages of two, by their cursors.
async fn walked(actor: &Actor, path: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    for _ in 0..20 {
        let page = actor.get(&format!("{path}?limit=2{cursor}")).await.is(200);
        let items = ids(&page.at("/data"), "id");
        assert!(items.len() == 2 || page.at("/cursor").is_null(), "{}", page.text());
        found.extend(items);
        let next = page.at("/cursor");
        let Some(next) = next.as_str() else { return found };
        cursor = format!("&cursor={}", next.replace('+', "%2B"));
    }
    panic!("the list has no end");
}

#[tokio::test]
async fn accounts_are_listed_past_unreadable_ones_and_each_of_those_is_a_clear_problem() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let admin = operator(&app).await;
        let mut users = Vec::new();
        for name in ["a", "b", "c", "d", "e"] {
            users.push(app.registered(&format!("{name}@example.com")).await);
        }
        let id = |index: usize| users[index]["user"]["id"].as_str().unwrap().to_owned();
        let all: BTreeSet<String> = walked(&admin, "/admin/api/users").await.into_iter().collect();
        assert!(users.iter().all(|user| all.contains(user["user"]["id"].as_str().unwrap())), "{all:?}");
        // What SQLite's own functions write is read.
        if app.engine() == "sqlite" {
            run(&app, &format!("UPDATE users SET created_at = '2026-01-02 03:04:05' WHERE id = '{}'", id(4))).await;
            let shown = admin.get(&format!("/admin/api/users/{}", id(4))).await.is(200);
            assert_eq!(shown.at("/data/createdAt"), "2026-01-02T03:04:05.000000Z");
        }
        run(&app, &format!("UPDATE users SET roles = 'admin,editor' WHERE id = '{}'", id(0))).await;
        run(&app, &format!("UPDATE users SET created_at = {} WHERE id = '{}'", no_time(&app), id(1))).await;
        run(&app, &format!("UPDATE users SET disabled_at = {} WHERE id = '{}'", no_time(&app), id(2))).await;
        let damaged: BTreeSet<String> = (0..3).map(id).collect();
        let found = walked(&admin, "/admin/api/users").await;
        let expected: BTreeSet<String> = all.difference(&damaged).cloned().collect();
        assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), expected, "{}", app.engine());
        assert_eq!(found.len(), expected.len());
        for id in &damaged {
            let one = admin.get(&format!("/admin/api/users/{id}")).await.is(500);
            assert_eq!(one.at("/code"), "record_unreadable", "{}", app.engine());
        }
        // `gatewright user list`, which does not show when an account was made.
        let accounts = app.app().auth().unwrap().accounts();
        let page = accounts.list(ListUsers::default()).await.unwrap();
        assert_eq!(page.items.len(), all.len() - 2, "{}", app.engine());
        assert_eq!(page.total, all.len() as u64);
    }
}

#[tokio::test]
async fn lists_of_every_other_table_leave_out_what_is_unreadable() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let (admin, ada) = (operator(&app).await, app.signed_in("ada@example.com").await);
        let bad = no_time(&app);
        let engine = app.engine();

        // Audit entries.
        let before = walked(&admin, "/admin/api/audit").await;
        run(&app, &format!("UPDATE audit_log SET created_at = {bad} WHERE id = '{}'", before[1])).await;
        let after = walked(&admin, "/admin/api/audit").await;
        assert!(
            !after.contains(&before[1]) && before.iter().all(|id| *id == before[1] || after.contains(id)),
            "{engine}"
        );

        // Sessions.
        app.anonymous().sign_in("ada@example.com").await.is(200);
        let sessions = ada.get("/auth/sessions").await.is(200).at("/sessions");
        assert_eq!(sessions.as_array().unwrap().len(), 2);
        let past = sessions.as_array().unwrap().iter().find(|session| session["current"] != true).unwrap();
        run(&app, &format!("UPDATE sessions SET started_at = {bad} WHERE id = '{}'", past["id"].as_str().unwrap()))
            .await;
        assert_eq!(ada.get("/auth/sessions").await.is(200).at("/sessions").as_array().unwrap().len(), 1, "{engine}");

        // Tokens.
        for name in ["one", "two"] {
            ada.post("/auth/tokens", json!({ "name": name, "scopes": ["posts:read"] })).await.is(200);
        }
        run(&app, "UPDATE api_tokens SET scopes = '\"posts:read\"' WHERE name = 'one'").await;
        let tokens = ada.get("/auth/tokens").await.is(200).at("/tokens");
        assert_eq!(ids(&tokens, "name"), ["two"], "{engine}");

        // Service accounts.
        let auth = app.app().auth().unwrap();
        let mut worker = None;
        for name in ["first", "second"] {
            worker = Some(auth.service_accounts().unwrap().create(name, Roles::default()).await.unwrap());
        }
        run(&app, "UPDATE service_accounts SET roles = 'admin' WHERE name = 'first'").await;
        let services = admin.get("/admin/api/service-accounts").await.is(200).at("/data");
        assert_eq!(ids(&services, "name"), ["second"], "{engine}");

        // Tenants and members.
        app.registered("ben@example.com").await;
        for tenant in ["acme", "beta"] {
            app.join("ada@example.com", tenant).await;
            app.join("ben@example.com", tenant).await;
        }
        let id = app.user_id("ada@example.com").await;
        let sql = format!("UPDATE tenant_members SET roles = 'x' WHERE tenant_id = 'acme' AND member_id = '{id}'");
        run(&app, &sql).await;
        let members = admin.get("/admin/api/tenants/acme/members").await.is(200).at("/data");
        assert!(!ids(&members, "id").contains(&id.to_string()), "{engine}: {members}");
        assert_eq!(members.as_array().unwrap().len(), 1, "{engine}");
        let tenants = ada.get("/auth/tenants").await.is(200).at("/tenants");
        assert_eq!(ids(&tenants, "id"), ["beta"], "{engine}");

        // Invitations.
        for name in ["x", "y"] {
            admin.post("/admin/api/invitations", json!({ "email": format!("{name}@example.com") })).await;
        }
        run(&app, "UPDATE account_invitations SET email = 'nobody' WHERE email = 'x@example.com'").await;
        let invitations = admin.get("/admin/api/invitations").await.is(200).at("/data");
        assert_eq!(ids(&invitations, "email"), ["y@example.com"], "{engine}");

        // Deliveries.
        let draft = TokenDraft::parse("worker", &["consumers:crm"], 0).unwrap();
        let issued = auth.api_tokens().unwrap().issue(Subject::Service(worker.unwrap().id), draft).await.unwrap();
        let program = app.anonymous().bearing(issued.plaintext.expose());
        ada.post("/posts", json!({ "title": "an event" })).await.is(201);
        let event = program.get("/consumers/crm/events?wait=20").await.is(200).at("/events/0/id");
        run(&app, &format!("UPDATE event_outbox_delivery SET created_at = {bad}")).await;
        let path = format!("/admin/api/outbox/events/{}", event.as_str().unwrap());
        assert!(admin.get(&path).await.is(200).text().contains("[]"), "{engine}");
    }
}
