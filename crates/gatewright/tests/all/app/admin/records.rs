use gatewright_testing::TestApp;
use serde_json::{Value, json};

use super::{ENTITIES, operator};

#[tokio::test]
async fn an_operator_reads_records_of_every_owner_except_hidden_fields() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        let open = ann.post("/notes", json!({ "title": "open", "pinCanary": "secret-canary" })).await;
        let open =
            if open.status() == 201 { open } else { ann.post("/notes", json!({ "title": "open" })).await.is(201) };
        let id = open.at("/data/id").as_str().unwrap().to_owned();
        ann.post("/notes", json!({ "title": "private" })).await.is(201);
        assert_eq!(operator.get("/notes").await.is(200).at("/total"), json!(0), "the own list is bounded as ever");

        let listed = operator.get("/admin/api/records/notes").await.is(200);
        assert_eq!(listed.at("/total"), json!(2), "owner and access rule do not bound the operator");
        assert!(!listed.text().contains("canary"), "what is hidden stays hidden: {}", listed.text());
        let filtered = operator.get("/admin/api/records/notes?title=private").await.is(200);
        assert_eq!(filtered.at("/total"), json!(1));

        let record = format!("/admin/api/records/notes/{id}");
        let etag = operator.get(&record).await.is(200).header("etag").unwrap().to_owned();
        let changed = operator.patch(&record, json!({ "title": "changed" })).await.is(200);
        assert_eq!(changed.at("/data/title"), json!("changed"));
        let stale = operator.clone().sending("if-match", &etag);
        stale.patch(&record, json!({ "title": "lost" })).await.is(412);
        operator.patch(&record, json!({ "title": null })).await.is(422);
        operator.patch(&record, json!({ "userId": "someone" })).await.is(422);
        // A change after which the record no longer matches its rule is still shown to the operator.
        operator.patch(&record, json!({ "title": "private" })).await.is(200);
        operator.patch(&record, json!({ "title": "open" })).await.is(200);

        operator.delete(&record).await.is(204);
        ann.get(&format!("/notes/{id}")).await.is(404);
        assert_eq!(operator.get("/admin/api/records/notes?trashed=only").await.is(200).at("/total"), json!(1));
        let deleted = operator.get(&record).await.is(200);
        assert!(deleted.at("/data/deletedAt").is_string() && deleted.header("etag").is_none(), "{}", deleted.text());
        assert!(!deleted.text().contains("canary"), "{}", deleted.text());
        operator.patch(&record, json!({ "title": "changed" })).await.is(404);
        for none in ["019c0000-0000-7000-8000-000000000000", "nothing", "x'%20or%201=1"] {
            operator.get(&format!("/admin/api/records/notes/{none}")).await.is(404);
        }
        operator.post(&format!("{record}/restore"), json!({})).await.is(200);
        assert!(operator.get(&record).await.is(200).header("etag").is_some());
        ann.get(&format!("/notes/{id}")).await.is(200);

        // Who changed this record?
        let log = operator.get(&format!("/admin/api/audit?subject=notes/{id}")).await.is(200).json();
        let events: Vec<&Value> = log["data"].as_array().unwrap().iter().collect();
        let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
        assert!(kinds.contains(&"admin.acted") && kinds.contains(&"entity.created"), "{kinds:?}");
        let edited = events.iter().find(|event| event["meta"]["fields"] == json!(["title"])).unwrap();
        assert_eq!(edited["meta"]["action"], "PATCH /admin/api/records/{entity}/{id}");
        operator.get("/admin/api/records/nothing").await.is(404);
        operator.get("/admin/api/records/users").await.is(404);
    }
}

#[tokio::test]
async fn a_tenant_parameter_limits_the_operator_and_without_it_all_are_shown() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        for (tenant, email) in [("acme", "ann@example.com"), ("zenith", "bob@example.com")] {
            let member = app.signed_in(email).await;
            app.join(email, tenant).await;
            let member = member.sending("x-tenant-id", tenant);
            member.post("/invoices", json!({ "number": 1 })).await.is(201);
        }
        assert_eq!(operator.get("/admin/api/records/invoices").await.is(200).at("/total"), json!(2));
        let named = operator.clone().sending("x-tenant-id", "acme");
        assert_eq!(named.get("/admin/api/records/invoices").await.is(200).at("/total"), json!(1));
        let other = operator.clone().sending("x-tenant-id", "nobody");
        assert_eq!(other.get("/admin/api/records/invoices").await.is(200).at("/total"), json!(0));
        operator.clone().sending("x-tenant-id", "a b").get("/admin/api/records/invoices").await.is(400);
        // On the normal API they are not a member.
        named.get("/invoices").await.is(403);
    }
}

#[tokio::test]
async fn entities_are_described_with_everything_that_a_form_needs() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let described = operator(&app).await.get("/admin/api/records").await.is(200);
        assert_eq!(described.at("/data/0/name"), json!("notes"));
        assert_eq!(described.at("/data/0/softDelete"), json!(true));
        assert_eq!(described.at("/data/1/multiTenant"), json!(true));
        assert_eq!(described.at("/data/0/indexed/0"), json!("id"), "{}", described.text());
        assert!(!described.at("/data/0/indexed").to_string().contains("createdAt"), "{}", described.text());
        assert!(!described.text().contains("canary"), "{}", described.text());
    }
}

#[tokio::test]
async fn the_live_events_are_those_of_every_owner_and_end_with_the_role() {
    for app in TestApp::on_every_engine(&format!("[events]\nheartbeat_seconds = 1\n{ENTITIES}")).await {
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        ann.open("/admin/api/events/notes").await.unwrap_err().is(403);
        operator.open("/admin/api/events/nothing").await.unwrap_err().is(404);
        let mut stream = operator.open("/admin/api/events/notes").await.unwrap();
        ann.post("/notes", json!({ "title": "private" })).await.is(201);
        let (kind, event) = stream.next().await.unwrap();
        assert_eq!(kind, "entity.created");
        assert!(event.to_string().contains("private"), "{event}");
        assert!(!event.to_string().contains("anary"), "{event}");
        app.grant(super::OPERATOR, &["user"]).await;
        while let Some((kind, _)) = stream.next().await {
            assert_ne!(kind, "entity.created", "nothing more is told");
        }
    }
}

#[tokio::test]
async fn explain_shows_why_a_user_cannot_see_a_record() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        app.registered("bob@example.com").await;
        let note = ann.post("/notes", json!({ "title": "mine" })).await.is(201).at("/data/id");
        let asked = async |who: &str| {
            let body = json!({ "as": who, "operation": "read", "table": "notes", "id": note });
            operator.post("/admin/api/explain", body).await.is(200).at("/data/allowed")
        };
        assert_eq!(asked("ann@example.com").await, json!(true));
        assert_eq!(asked("bob@example.com").await, json!(false));
        assert_eq!(asked("anonymous").await, json!(false));
        for wrong in [
            json!({ "as": "nobody@example.com", "operation": "read", "table": "notes" }),
            json!({ "as": "ben", "operation": "read", "table": "notes" }),
            json!({ "as": "", "operation": "read", "table": "notes" }),
            json!({ "as": "ann@example.com", "operation": "guess", "table": "notes" }),
            json!({ "as": "ann@example.com", "operation": "read", "table": "nothing" }),
            json!({ "as": "ann@example.com", "operation": "read", "table": "notes", "tenant": "a b" }),
        ] {
            operator.post("/admin/api/explain", wrong).await.is(422);
        }
    }
}
