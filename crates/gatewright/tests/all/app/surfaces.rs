use gatewright::config::Loader;
use gatewright::{App, BuildError, schema};
use gatewright_testing::TestApp;
use serde_json::json;

const NOTES: &str = "[[entity]]\nname = \"notes\"\npublic = true\n[[entity.field]]\nname = \"text\"\ntype = \"text\"\n";
const OWNED: &str =
    "[[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\n[[entity.field]]\nname = \"text\"\ntype = \"text\"\n";

#[tokio::test]
async fn without_events_writes_work_and_streams_are_503() {
    for app in TestApp::on_every_engine(&format!("[events]\nenabled = false\n{NOTES}")).await {
        let anybody = app.anonymous();
        anybody.post("/notes", json!({ "text": "x" })).await.is(201);
        anybody.get("/notes/_events").await.is(503);
    }
}

#[tokio::test]
async fn without_accounts_public_entities_are_open_and_owned_ones_closed() {
    for app in TestApp::on_every_engine(&format!("[auth]\nenabled = false\n{NOTES}")).await {
        app.anonymous().post("/notes", json!({ "text": "x" })).await.is(201);
        for path in ["/auth/me", "/login"] {
            app.anonymous().get(path).await.is(404);
        }
    }
    for app in TestApp::on_every_engine(&format!("[auth]\nenabled = false\n{OWNED}")).await {
        app.anonymous().get("/notes").await.is(401);
        app.anonymous().post("/notes", json!({ "text": "x" })).await.is(401);
    }
}

#[tokio::test]
async fn entities_are_served_only_under_their_prefix() {
    for app in TestApp::on_every_engine(&format!("[server]\napi_prefix = \"/api/v1\"\n{OWNED}")).await {
        let ada = app.signed_in("ada@example.com").await;
        let made = ada.post("/api/v1/notes", json!({ "text": "x" })).await.is(201);
        let location = made.header("location").unwrap();
        assert!(location.starts_with("/api/v1/notes/"), "{location}");
        ada.get(location).await.is(200);
        ada.get("/notes").await.is(404);
    }
}

#[tokio::test]
async fn another_base_path_moves_sign_in() {
    for app in TestApp::on_every_engine("[auth]\nbase_path = \"/identity\"").await {
        let body = json!({ "email": "ada@example.com", "password": "correct horse battery" });
        app.anonymous().post("/identity/register", body.clone()).await.is(200);
        app.anonymous().post("/auth/register", body).await.is(404);
    }
}

#[tokio::test]
async fn without_create_tables_missing_tables_are_reported_and_none_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/test.db", folder.path().display());
    let config = |create: bool| {
        let text = format!("[database]\ncreate_tables = {create}\n{OWNED}");
        Loader::text("f.toml", text).dev_mode().database(&*url).load().unwrap()
    };
    let pending = schema::plan(&config(false)).await.unwrap().statements.len();
    assert!(pending > 3, "{pending}");
    let refused = App::builder(config(false)).build().await.unwrap_err();
    assert!(matches!(refused, BuildError::Auth(_)) && refused.to_string().contains("gatewright migrate"), "{refused}");
    assert_eq!(schema::plan(&config(false)).await.unwrap().statements.len(), pending);

    assert_eq!(schema::migrate(&config(false)).await.unwrap().statements.len(), pending);
    assert_eq!(schema::plan(&config(false)).await.unwrap().statements, Vec::<String>::new());
    App::builder(config(false)).build().await.unwrap();
}

/// The plan must not fail because of the users' table, which the same migration creates.
#[tokio::test]
async fn a_relation_to_users_can_be_planned_on_an_empty_database() {
    for database in gatewright::db::testing::engines().await {
        let relation = "[[entity.field]]\nname = \"reader\"\ntype = \"relation\"\nto = \"users\"\n";
        let text = format!("{NOTES}{relation}");
        let config = Loader::text("f.toml", text).dev_mode().database(&database.url).load().unwrap();
        let plan = schema::plan(&config).await.unwrap();
        let place = |table: &str| plan.statements.iter().position(|sql| sql.contains(table)).unwrap();
        assert!(place("CREATE TABLE users") < place("notes"), "{plan}");
        schema::migrate(&config).await.unwrap();
        assert_eq!(schema::plan(&config).await.unwrap().statements, Vec::<String>::new());
    }
}
