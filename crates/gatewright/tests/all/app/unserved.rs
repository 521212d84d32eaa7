//! An entity that is not served on a surface (`crud = false`, `mcp = false`) is not included by related records there.

use gatewright_testing::TestApp;
use serde_json::{Value, json};

const CONFIG: &str = r#"
[[entity]]
name = "internals"
public = true
crud = false
mcp = false
[[entity.field]]
name = "text"
type = "string"
default = "canary-of-internals"
[[entity]]
name = "for_tools"
public = true
crud = false
[[entity.field]]
name = "text"
type = "string"
[[entity]]
name = "for_people"
public = true
mcp = false
[[entity.field]]
name = "text"
type = "string"
[[entity]]
name = "doors"
public = true
[[entity.field]]
name = "internal"
type = "relation"
to = "internals"
[[entity.field]]
name = "tool"
type = "relation"
to = "for_tools"
[[entity.field]]
name = "person"
type = "relation"
to = "for_people"
"#;

#[tokio::test]
async fn related_records_are_included_only_where_they_are_served() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let (entities, anonymous) = (app.app().entities(), app.anonymous());
        let mut door = json!({});
        for (field, table) in [("internal", "internals"), ("tool", "for_tools"), ("person", "for_people")] {
            let table = entities.table(table).unwrap();
            let call = gatewright::entities::Call::default();
            door[field] = json!(table.create(&call, b"{}").await.unwrap().id());
        }
        let door = anonymous.post("/doors", door).await.is(201).at("/data/id");
        let path = format!("/doors/{}", door.as_str().unwrap());
        for (relation, by_rest, by_tool) in
            [("internal", 403, 403), ("tool", 403, 200), ("person", 200, 403), ("person,internal", 403, 403)]
        {
            for path in [format!("{path}?include={relation}"), format!("/doors?include={relation}")] {
                let answer = anonymous.get(&path).await.is(by_rest);
                assert!(!answer.text().contains("canary"), "{}", answer.text());
            }
            for (tool, arguments) in [
                ("doors_get", json!({ "id": door, "include": relation })),
                ("doors_list", json!({ "include": relation })),
            ] {
                let answer = anonymous.call_tool(tool, arguments).await.is(200);
                assert!(!answer.text().contains("canary"), "{}", answer.text());
                let refused = answer.at("/result/structuredContent/status");
                assert_eq!(refused, if by_tool == 200 { Value::Null } else { json!(by_tool) }, "{tool} {relation}");
            }
        }
        // Neither is offered.
        let document = anonymous.get("/openapi.json").await.is(200).json();
        let offered = document["paths"]["/doors"]["get"]["parameters"].as_array().unwrap();
        let include = offered.iter().find(|parameter| parameter["name"] == "include").unwrap()["description"].clone();
        assert!(include.as_str().unwrap().contains("by commas: person. A dot"), "{include}");
        assert!(!document.to_string().contains("internals"), "an entity that is not served has no name");
        let tools = anonymous.rpc("tools/list", json!({})).await.is(200).at("/result/tools");
        let list = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "doors_list").unwrap().clone();
        let include = &list["inputSchema"]["properties"]["include"]["description"];
        assert!(include.as_str().unwrap().contains("by commas: tool. A dot"), "{include}");
    }
}
