//! Fields that only some callers may read, in tools, documents, the admin API and the generated types.

use gatewright::config::Loader;
use gatewright_testing::TestApp;
use serde_json::{Value, json};

use super::admin::operator;
use super::mcp::{failed, worked};

const ENTITIES: &str = r#"
[roles]
agent = ["tickets:work"]

[[entity]]
name = "tickets"
access = { read = "public" }

[[entity.field]]
name = "subject"
type = "string"

[[entity.field]]
name = "canary_score"
type = "int"
required = true
default = 7
read = "@roles has 'agent'"
write = "@roles has 'agent'"
"#;

#[tokio::test]
async fn tools_know_a_field_only_for_those_who_may_read_it() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ann = app.signed_in("ann@example.com").await;
        let agent = app.signed_in("agent@example.com").await;
        app.grant("agent@example.com", &["user", "agent"]).await;
        let made = worked(&agent, "tickets_create", json!({ "subject": "a", "canaryScore": 8 })).await;
        let id = made["data"]["id"].as_str().unwrap().to_owned();
        assert_eq!(made["data"]["canaryScore"], 8);
        let mut said = vec![ann.rpc("tools/list", json!({})).await.is(200).json()];
        said.push(worked(&ann, "tickets_create", json!({ "subject": "b" })).await);
        said.push(worked(&ann, "tickets_get", json!({ "id": id })).await);
        said.push(worked(&ann, "tickets_update", json!({ "id": id, "subject": "c" })).await);
        said.push(worked(&ann, "tickets_list", json!({ "sort": "-createdAt" })).await);
        said.push(worked(&ann, "tickets_group", json!({ "group": "subject" })).await);
        let update = json!({ "op": "update", "entity": "tickets", "id": id, "data": { "subject": "d" } });
        said.push(worked(&ann, "batch", json!({ "operations": [update] })).await);
        for answer in said {
            assert!(!answer.to_string().contains("canary"), "{} {answer}", app.engine());
        }
        for (tool, arguments) in [
            ("tickets_list", json!({ "canaryScore": 8 })),
            ("tickets_list", json!({ "sort": "canaryScore" })),
            ("tickets_list", json!({ "filter": "canaryScore > 1" })),
            ("tickets_group", json!({ "group": "canaryScore" })),
            ("tickets_group", json!({ "count_distinct": "canaryScore" })),
            ("tickets_group", json!({ "sum": "canaryScore" })),
            ("tickets_get", json!({ "id": id, "fields": "canaryScore" })),
            ("tickets_update", json!({ "id": id, "canaryScore": 8 })),
            ("tickets_update", json!({ "id": id, "canaryScore": { "$add": 1 } })),
            ("tickets_create", json!({ "canaryScore": 7 })),
        ] {
            let refused = failed(&ann, tool, arguments.clone()).await;
            // Exactly what a name without a field gets.
            let other = arguments.to_string().replace("canaryScore", "canaryOther");
            let unknown = failed(&ann, tool, serde_json::from_str(&other).unwrap()).await;
            assert_eq!(refused.to_string().replace("canaryScore", "canaryOther"), unknown.to_string(), "{arguments}");
        }
        let tools = agent.rpc("tools/list", json!({})).await.is(200).text().to_owned();
        assert!(tools.contains("canaryScore"), "{tools}");
        assert_eq!(worked(&agent, "tickets_list", json!({ "canaryScore_gte": 8 })).await["total"], 1);
    }
}

#[tokio::test]
async fn administrators_see_the_field_and_documents_show_no_example_of_it() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ann = app.signed_in("ann@example.com").await;
        let id = ann.post("/tickets", json!({ "subject": "a" })).await.is(201).at("/data/id");
        let operator = operator(&app).await;
        let path = format!("/admin/api/records/tickets/{}", id.as_str().unwrap());
        assert_eq!(operator.get(&path).await.is(200).at("/data/canaryScore"), json!(7));
        operator.patch(&path, json!({ "canaryScore": 9 })).await.is(200);
        assert_eq!(operator.get("/admin/api/records/tickets?canaryScore=9").await.is(200).at("/total"), json!(1));
        assert!(!ann.get("/tickets").await.is(200).text().contains("canary"));
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let schemas = &document["components"]["schemas"];
        for name in ["Tickets", "TicketsView", "TicketsCreate", "TicketsUpdate"] {
            assert!(schemas[name]["properties"]["canaryScore"].is_object(), "{name}: {}", schemas[name]);
            assert!(!schemas[name]["examples"].to_string().contains("canary"), "{name}");
            let required = schemas[name]["required"].as_array().cloned().unwrap_or_default();
            assert!(!required.contains(&json!("canaryScore")), "{name}: {required:?}");
        }
        assert_eq!(examples(&document).into_iter().find(|example| example.contains("canary")), None);
    }
}

#[tokio::test]
async fn streams_by_ticket_exports_and_types_leave_the_field_out() {
    let owned = ENTITIES.replace("access = { read = \"public\" }", "owner_field = \"owner\"").replace(
        "read = \"@roles has 'agent'\"\nwrite",
        "read = \"@roles has 'agent'\"\n[[entity.field]]\nname = \"canary_own\"\ntype = \"string\"\nread = \"@me = 'nobody'\"\n\
         [[entity.field]]\nname = \"mine\"\ntype = \"string\"\nread = \"@me != 'nobody'\"\nwrite",
    );
    for app in TestApp::on_every_engine(&owned).await {
        let ann = app.signed_in("ann@example.com").await;
        let ticket = ann.post("/auth/stream-ticket", json!({})).await.is(200).at("/ticket");
        let path = format!("/tickets/_events?ticket={}", ticket.as_str().unwrap());
        let mut stream = app.anonymous().open(&path).await.unwrap_or_else(|answer| panic!("{}", answer.text()));
        ann.post("/tickets", json!({ "subject": "a" })).await.is(201);
        let event = format!("{:?}", stream.next().await);
        assert!(event.contains("subject") && event.contains("mine") && !event.contains("canary"), "{event}");
        let exported = ann.post("/auth/export", json!({ "password": "correct horse battery" })).await.is(200).json();
        let record = &exported["records"]["tickets"][0];
        assert!(record["subject"] == "a" && record.as_object().unwrap().contains_key("mine"), "{exported}");
        assert!(!exported.to_string().contains("canary"), "{exported}");
    }
    let types = gatewright::types::typescript(&Loader::text("test.toml", &owned).dev_mode().load().unwrap()).unwrap();
    for line in ["  canaryScore?: number;", "  mine?: string | null;", "  subject: string | null;"] {
        assert!(types.contains(line), "{line}: {types}");
    }
}

/// Every example of a document, as text.
fn examples(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let of = |(key, value): (&String, &Value)| match &**key {
                "example" | "examples" => vec![value.to_string()],
                _ => examples(value),
            };
            members.iter().flat_map(of).collect()
        }
        Value::Array(entries) => entries.iter().flat_map(examples).collect(),
        _ => Vec::new(),
    }
}
