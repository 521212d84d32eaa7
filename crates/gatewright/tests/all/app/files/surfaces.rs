//! Files where records are shown: streams, the outbox, the audit log, tools, documents, generated types.

use serde_json::json;

use super::{ENTITIES, PNG, WithFiles, named, uploaded};

#[tokio::test]
async fn events_tools_and_the_audit_log_carry_what_describes_a_file() {
    let toml = format!("[audit]\nentities = true\n{ENTITIES}");
    for with in WithFiles::on_every_engine("", &toml).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let mut stream = ann.watch("tickets").await;
        let id = uploaded(&ann, "a.png", PNG).await;
        let ticket = ann.post("/tickets", json!({ "cover": named(&id) })).await.is(201).at("/data");
        let event = loop {
            let (kind, data) = stream.next().await.expect("the stream goes on");
            if kind == "entity.created" {
                break data;
            }
        };
        assert_eq!(event["data"]["record"]["cover"], ticket["cover"]);
        let got = ann.call_tool("tickets_get", json!({ "id": ticket["id"] })).await.is(200);
        assert!(got.text().contains("a.png") && got.text().contains(&id), "{}", got.text());
        let db = with.app.app().db();
        let sql = "SELECT CAST(meta AS TEXT) AS meta FROM audit_log WHERE kind = 'entity.created'";
        let rows = db.query(sql, Vec::new()).await.unwrap();
        let meta: String = rows[0].get("meta").unwrap();
        assert!(meta.contains(&id), "{meta}");
    }
}

#[tokio::test]
async fn documents_and_types_describe_files() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let document = with.app.anonymous().get("/openapi.json").await.is(200).json();
        let paths = &document["paths"];
        assert!(paths["/_files"]["post"].is_object());
        assert!(paths["/tickets/{id}/_files/{field}/{file}/{name}"]["get"].is_object());
        assert!(paths["/tickets/{id}/_files/{field}/{file}/{name}/_sign"]["post"].is_object());
        assert!(paths["/tickets"]["post"]["requestBody"]["content"]["multipart/form-data"].is_object());
        let cover = &document["components"]["schemas"]["Tickets"]["properties"]["cover"];
        assert_eq!(cover["properties"]["url"]["type"], "string");
        let sent = &document["components"]["schemas"]["TicketsCreate"]["properties"]["attachments"];
        assert_eq!(sent["items"]["required"], json!(["id"]));
        assert_eq!(sent["maxItems"], 3);
    }
}
