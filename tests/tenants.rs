//! Tenants: the operator's commands beside a running server, for users and for service accounts.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Client, Database, Launch, gatewright};

const NOTES: &str = r#"
[[entity]]
name = "notes"
multi_tenant = true
[[entity.field]]
name = "title"
type = "string"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_works_in_the_tenants_to_which_a_command_added_it() {
    for database in Database::all().await {
        let server = Launch::configured(NOTES).start(&database).await;
        let url = database.url();
        let run = |words: &[&str]| {
            let finished = gatewright(server.folder(), &[words, &["--database", &url]].concat(), "");
            assert_eq!(finished.status, 0, "{words:?}: {finished:?}");
            finished.out
        };
        run(&["service-account", "create", "deploy-bot"]);
        let issue = ["token", "issue", "--service", "deploy-bot", "--name", "ci", "--scopes", "notes:*"];
        let token = run(&issue).trim().to_owned();
        let client = server.client();
        let ask = async |tenant: &str| list(&client, &token, tenant).await.status.as_u16();
        assert_eq!(ask("acme").await, 403);
        run(&["tenant", "add-member", "acme", "--service", "deploy-bot"]);
        assert_eq!((ask("acme").await, ask("other").await), (200, 403), "it counts at once, and there alone");
        let made = client.request(Method::POST, "/notes").bearer_auth(&token).header("X-Tenant-ID", "acme");
        Answer::read(made.json(&json!({ "title": "built" }))).await.is(201);
        assert_eq!(list(&client, &token, "acme").await.json()["total"], 1);
        assert!(run(&["tenant", "list", "acme"]).contains("deploy-bot"));
        run(&["tenant", "remove-member", "acme", "--service", "deploy-bot"]);
        assert_eq!(ask("acme").await, 403);
    }
}

async fn list(client: &Client, token: &str, tenant: &str) -> Answer {
    Answer::read(client.request(Method::GET, "/notes").bearer_auth(token).header("X-Tenant-ID", tenant)).await
}
