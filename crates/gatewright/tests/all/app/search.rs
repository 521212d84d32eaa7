//! A search at every door of the server, declared by a file.

use gatewright_testing::TestApp;
use serde_json::{Value, json};

const CONFIG: &str = r#"
[mcp]
anonymous = true
[[entity]]
name = "articles"
public = true
[entity.search]
fields = { title = 4, body = 1 }
language = "german"
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "body"
type = "text"
[[entity]]
name = "parts"
public = true
search = { fields = { name = 1 } }
[[entity.field]]
name = "name"
type = "string"
[[entity.field]]
name = "prefix"
type = "string"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_with_its_search_at_every_door() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let visitor = app.anonymous();
        for title in ["Neue Häuser", "Ein Haus am See", "Boote"] {
            visitor.post("/articles", json!({ "title": title, "body": "Text" })).await.is(201);
        }
        let expected = json!([
            { "title": "Ein Haus am See", "_highlights": { "title": [[4, 8]] } },
            { "title": "Neue Häuser", "_highlights": { "title": [[5, 11]] } },
        ]);
        let sorted = |mut records: Vec<Value>| {
            records.sort_by_key(|record| record["title"].to_string());
            Value::from(records)
        };
        let query = "q=haus&highlight=true&fields=title";
        let listed = visitor.get(&format!("/articles?{query}")).await.is(200).json();
        assert_eq!(sorted(listed["data"].as_array().unwrap().clone()), expected, "{}", app.engine());
        let arguments = json!({ "q": "haus", "highlight": true, "fields": "title" });
        let tool = visitor.call_tool("articles_list", arguments).await.is(200).json();
        let told: Value = tool["result"]["structuredContent"]["data"].clone();
        assert_eq!(sorted(told.as_array().unwrap_or_else(|| panic!("{tool}")).clone()), expected);
        let arguments = json!({ "q": "bo", "prefix": true, "group": "title" });
        let tool = visitor.call_tool("articles_group", arguments).await.is(200).text().to_owned();
        assert!(tool.contains("Boote") && !tool.contains("Haus"), "{tool}");

        // Each description has the parameters. A field of such a name is a condition instead.
        let document = visitor.get("/openapi.json").await.is(200).json();
        let names = |table: &str| -> Vec<String> {
            let parameters = document["paths"][format!("/{table}")]["get"]["parameters"].as_array().unwrap();
            parameters.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        let has = |table: &str, name: &str| names(table).iter().filter(|found| *found == name).count();
        for name in ["q", "prefix", "highlight"] {
            assert_eq!((has("articles", name), has("parts", name)), (1, 1), "{name}");
        }
        assert!(document["components"]["schemas"].to_string().contains("_highlights"));
        visitor.post("/parts", json!({ "name": "wheel", "prefix": "true" })).await.is(201);
        visitor.post("/parts", json!({ "name": "whee", "prefix": "false" })).await.is(201);
        let found = visitor.get("/parts?q=whee+or+wheel&prefix=true").await.is(200).json();
        assert_eq!((found["total"].clone(), found["data"][0]["name"].clone()), (json!(1), json!("wheel")));
        let tools = visitor.rpc("tools/list", json!({})).await.is(200).json();
        let tool = tools["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "articles_list");
        let properties = &tool.unwrap()["inputSchema"]["properties"];
        assert!(["q", "prefix", "highlight"].iter().all(|name| properties[*name].is_object()), "{properties}");
    }
}
