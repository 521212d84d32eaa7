//! Guests with records: what an application sees of them, and when they are deleted.

use gatewright_db::params;
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};

const NOTES: &str = "
[auth]
guests = true
on_account_delete = \"keep\"
[[entity]]
name = \"notes\"
owner_field = \"owner\"
[[entity.field]]
name = \"title\"
type = \"string\"
";

async fn guest(app: &TestApp) -> (Actor, String) {
    let mut guest = app.anonymous();
    let answer = guest.post("/auth/anonymous", json!({})).await.is(200);
    guest.keep_cookies(&answer);
    (guest, answer.at("/user/id").as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_guests_records_are_those_of_the_account_that_it_becomes() {
    for app in TestApp::on_every_engine(NOTES).await {
        let (mut guest, id) = guest(&app).await;
        let note = guest.post("/notes", json!({ "title": "before" })).await.is(201).at("/data/id");
        app.wait(SignedDuration::from_secs(1));
        let body = json!({ "email": "ann@example.com", "password": "correct horse battery" });
        let full = guest.post("/auth/register", body).await.is(200);
        assert_eq!(full.at("/user/id"), json!(id));
        guest.keep_cookies(&full);
        assert_eq!(guest.get("/notes").await.is(200).at("/data/0/id"), note);
        let user = app.app().auth().unwrap().accounts().find("ann@example.com").await.unwrap();
        assert_eq!((user.id.as_str(), user.email_verified), (id.as_str(), false));
    }
}

#[tokio::test]
async fn idle_guests_are_deleted_with_their_records_and_used_ones_stay() {
    for app in TestApp::on_every_engine(NOTES).await {
        let (idle, idle_id) = guest(&app).await;
        let (used, used_id) = guest(&app).await;
        for guest in [&idle, &used] {
            guest.post("/notes", json!({ "title": "mine" })).await.is(201);
        }
        let auth = app.app().auth().unwrap();
        let count = async |sql: &str, id: &str| app.app().db().query(sql.to_owned(), params![id]).await.unwrap().len();
        let users = "SELECT id FROM users WHERE id = ?1";
        let notes = "SELECT id FROM notes WHERE owner = ?1";
        app.wait(SignedDuration::from_hours(29 * 24));
        auth.sweep().await;
        used.get("/notes").await.is(200);
        app.wait(SignedDuration::from_hours(2 * 24));
        for _ in 0..400 {
            auth.sweep().await;
            if count(users, &idle_id).await == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!((count(users, &idle_id).await, count(notes, &idle_id).await), (0, 0), "{}", app.engine());
        assert_eq!((count(users, &used_id).await, count(notes, &used_id).await), (1, 1));
        let left = app.app().db().query("SELECT id FROM notes", params![]).await.unwrap();
        assert_eq!(left.len(), 1, "the records are deleted, whatever happens to those of accounts");
        used.get("/auth/me").await.is(200);
        idle.get("/auth/me").await.is(401);
    }
}

#[tokio::test]
async fn operators_see_guests_without_an_address_and_give_them_roles_only_if_they_insist() {
    for app in TestApp::on_every_engine(&format!("{NOTES}\n[admin]\nrequire_two_factor = false\n")).await {
        let operator = app.signed_in("op@example.com").await;
        app.grant("op@example.com", &["user", "admin"]).await;
        let (_, id) = guest(&app).await;
        let listed = operator.get("/admin/api/users").await.is(200);
        assert!(!listed.text().contains("guest.invalid"), "{}", listed.text());
        let one = operator.get(&format!("/admin/api/users/{id}")).await.is(200);
        assert_eq!(one.at("/data/email"), Value::Null);
        let path = format!("/admin/api/users/{id}/roles");
        let refused = operator.json(http::Method::PUT, &path, &json!({ "roles": ["user", "editor"] })).await.is(409);
        assert!(!refused.text().contains("guest.invalid"), "{}", refused.text());
        let first = operator.get("/admin/api/users?limit=1").await.is(200);
        let cursor = first.at("/cursor").as_str().unwrap().to_owned();
        operator.get(&format!("/admin/api/users?limit=1&cursor={cursor}")).await.is(200);
    }
}

#[tokio::test]
async fn without_the_setting_there_are_no_guests() {
    for app in TestApp::on_every_engine("").await {
        app.anonymous().post("/auth/anonymous", json!({})).await.is(404);
    }
}
