//! What documents and tools say of related records.

use gatewright_testing::TestApp;
use serde_json::{Value, json};

use super::mcp::{failed, worked};

const ENTITIES: &str = r#"
[[entity]]
name = "tickets"
access = { read = "public" }
[[entity.field]]
name = "subject"
type = "string"
[[entity.field]]
name = "labels"
type = "relation"
to = "labels"
many = true
[[entity.field]]
name = "canary_parent"
type = "relation"
to = "tickets"
read = "@me = 'nobody'"

[[entity]]
name = "labels"
access = { read = "public" }

[[entity]]
name = "comments"
access = { read = "public" }
[[entity.field]]
name = "ticket_id"
type = "relation"
to = "tickets"
[[entity.field]]
name = "author"
type = "relation"
to = "users"

[[entity]]
name = "internal"
access = { read = "public" }
mcp = false
[[entity.field]]
name = "ticket"
type = "relation"
to = "tickets"
"#;

#[tokio::test]
async fn what_can_be_included_is_described() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let parameters = document["paths"]["/tickets"]["get"]["parameters"].as_array().unwrap().clone();
        let include = parameters.iter().find(|parameter| parameter["name"] == "include").unwrap();
        let about = include["description"].as_str().unwrap();
        for name in ["labels", "comments(ticketId)", "internal(ticket)"] {
            assert!(about.contains(name), "{name}: {about}");
        }
        // Tools name only what has tools, and what their caller may read.
        let listed = ada.rpc("tools/list", json!({})).await.is(200).json();
        let tools = listed["result"]["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == "tickets_list").unwrap();
        let about = tool["inputSchema"]["properties"]["include"]["description"].as_str().unwrap();
        assert!(about.contains("labels, comments(ticketId)"), "{about}");
        assert!(!about.contains("internal") && !listed.to_string().contains("canary"), "{about}");

        let ticket = worked(&ada, "tickets_create", json!({ "subject": "one" })).await["data"]["id"].clone();
        worked(&ada, "comments_create", json!({ "ticketId": ticket })).await;
        let found =
            worked(&ada, "tickets_get", json!({ "id": ticket, "include": "comments(ticketId):5.author,labels" })).await;
        let included = &found["data"]["_included"];
        assert_eq!((&included["labels"], &included["comments(ticketId)"]["hasMore"]), (&json!([]), &json!(false)));
        assert_eq!(included["comments(ticketId)"]["data"][0]["_included"]["author"], Value::Null, "{}", app.engine());
        for (include, status) in
            [("internal(ticket)", 403), ("tickets(canaryParent)", 400), ("tickets(absentParent)", 400)]
        {
            let refused = failed(&ada, "tickets_list", json!({ "include": include })).await;
            assert_eq!(refused["status"], status, "{include}: {refused}");
        }
    }
}
