//! What a declaration says about its entities and fields, in everything that describes them.

use gatewright::config::Loader;
use gatewright_testing::TestApp;
use serde_json::{Value, json};

use super::admin::operator;
use super::mcp::rpc;

/// A text that would end a comment, and spans two lines.
const TICKETS: &str = r#"
[[entity]]
name = "tickets"
public = true
label = "subject"
description = "A customer's */ request\nfor <b>help</b>."
[[entity.field]]
name = "subject"
type = "string"
required = true
description = "One line, as the customer wrote it."
[[entity.field]]
name = "due_on"
type = "date"
description = "The last day."
[[entity.field]]
name = "secret"
type = "string"
hidden = true
description = "A canary."
"#;

#[tokio::test]
async fn what_a_declaration_says_is_in_every_document_and_hidden_fields_are_in_none() {
    for app in TestApp::on_every_engine(TICKETS).await {
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let tag = document["tags"].as_array().unwrap().iter().find(|tag| tag["name"] == "tickets").unwrap();
        assert!(tag["description"].as_str().unwrap().starts_with("A customer's */ request"), "{tag}");
        let created = document["components"]["schemas"].as_object().unwrap();
        let (_, create) = created.iter().find(|(name, _)| name.to_lowercase() == "ticketscreate").unwrap();
        let about = |field: &str| create["properties"][field]["description"].as_str().unwrap().to_owned();
        assert_eq!(about("subject"), "One line, as the customer wrote it.");
        assert_eq!(about("dueOn"), "The last day. A calendar day.");

        let tools = rpc(&app.anonymous(), "tools/list", json!({})).await.is(200).json();
        // The tool for several entities describes none of them.
        let each = tools["result"]["tools"].as_array().unwrap().iter();
        for tool in each.filter(|tool| tool["name"] != "batch") {
            assert!(tool["description"].as_str().unwrap().contains("request\nfor <b>help</b>."), "{tool}");
            let subject = &tool["inputSchema"]["properties"]["subject"]["description"];
            let takes_it = ["tickets_create", "tickets_update"].contains(&tool["name"].as_str().unwrap());
            assert_eq!(*subject == json!("One line, as the customer wrote it."), takes_it, "{tool}");
        }

        let types =
            gatewright::types::typescript(&Loader::text("test.toml", TICKETS).dev_mode().load().unwrap()).unwrap();
        assert!(types.contains("A record of tickets. A customer's *\u{200a}/ request for <b>help</b>. */"), "{types}");
        assert!(types.contains("  /** One line, as the customer wrote it. */\n  subject: string;"), "{types}");
        assert!(types.contains("  /** A day, `YYYY-MM-DD`. The last day. */\n"), "{types}");

        let described = operator(&app).await.get("/admin/api/records").await.is(200).json();
        let entity = &described["data"][0];
        assert_eq!(
            (&entity["label"], &entity["fields"][1]["description"]),
            (&json!("subject"), &json!("The last day."))
        );
        for shown in [document, tools, Value::from(types), described] {
            assert!(!shown.to_string().contains("canary"), "{shown}");
        }
    }
}
