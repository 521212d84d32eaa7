//! What functions set in motion: mails and events of their own; and who made a write.

use std::time::Duration;

use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Roles, Subject};
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::admin::operator;
use super::{folder, with_functions};

const OUTBOX: &str = "[outbox]\nmax_attempts = 3\nlease_seconds = 1000000\npoll_interval_ms = 50\n";
const ENTITIES: &str = concat!(entity!(public "notes" "title"), entity!(public "heard" "text"));

async fn eventually<T>(app: &TestApp, found: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..1500 {
        if let Some(found) = found().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never on {}", app.engine());
}

async fn heard(app: &TestApp, count: usize) -> Vec<String> {
    let anyone = app.anonymous();
    let all = async || {
        let all = anyone.get("/heard?limit=200&sort=createdAt").await.is(200).json();
        let all = all["data"].as_array().unwrap().iter();
        let texts: Vec<String> = all.map(|one| one["text"].as_str().unwrap().to_owned()).collect();
        (texts.len() >= count).then_some(texts)
    };
    eventually(app, all).await
}

async fn mails(app: &TestApp) -> Vec<Value> {
    let mails = app.anonymous().get("/dev/mail.json").await.is(200).json();
    let mails = mails.as_array().or_else(|| mails["mails"].as_array()).or_else(|| mails["data"].as_array());
    mails.cloned().unwrap_or_default()
}

#[tokio::test]
async fn functions_send_mails_within_budgets_and_not_in_a_transaction() {
    let file = r#"
        import { before, on, route } from "gatewright";
        export const notify = on("notes", "created", async ({ record, mail, db }) => {
          await mail.send({ to: "ann@example.com", subject: `A note: ${record.title}`, text: "Look.", html: "<p>Look.</p>" });
          await db.system.create("heard", { text: "sent" });
        });
        export const early = before("heard", "create", async ({ values, mail }) => {
          if (values.text !== "early") return;
          try { await mail.send({ to: "ann@example.com", subject: "x", text: "x" }); } catch (error: any) { values.text = error.message; }
        });
        export const send = route("POST", "/send", async (request, { mail }) => {
          const results = [];
          for (const message of await request.json()) {
            try { await mail.send(message); results.push("sent"); } catch (error: any) { results.push(`${error.code}: ${error.message}`); }
          }
          return Response.json(results);
        });
    "#;
    let (apps, _folder) = with_functions(&format!("{OUTBOX}{ENTITIES}"), &[("all.ts", file)]).await;
    for app in apps {
        let anyone = app.anonymous();
        anyone.post("/notes", json!({ "title": "first" })).await.is(201);
        heard(&app, 1).await;
        let mails = eventually(&app, async || Some(mails(&app).await).filter(|mails| !mails.is_empty())).await;
        let mail = mails[0].to_string();
        assert!(mail.contains("A note: first") && mail.contains("ann@example.com") && mail.contains("Look."), "{mail}");

        let early = anyone.post("/heard", json!({ "text": "early" })).await.is(201);
        assert!(early.at("/data/text").as_str().unwrap().contains("inside of a transaction"), "{}", early.text());

        let to = |address: &str| json!({ "to": address, "subject": "s", "text": "t" });
        let many: Vec<Value> = (0..25).map(|_| to("Bob@example.com")).collect();
        let sent = anyone.post("/fn/send", Value::Array(many)).await.is(200).json();
        let count = sent.as_array().unwrap().iter().filter(|sent| *sent == "sent").count();
        assert_eq!(count, 20, "{sent}");
        assert!(sent[24].as_str().unwrap().starts_with("rate_limited"), "{sent}");
        let again = anyone.post("/fn/send", json!([to("bob@EXAMPLE.com"), to("eve@example.com")])).await.is(200).json();
        assert!(again[0].as_str().unwrap().starts_with("rate_limited") && again[1] == "sent", "{again}");
        app.wait(SignedDuration::from_hours(2));
        assert_eq!(anyone.post("/fn/send", json!([to("bob@example.com")])).await.is(200).json()[0], "sent");

        let wrong = json!([
            { "to": "nobody", "subject": "s", "text": "t" },
            { "to": "ann@example.com\r\nBcc: eve@example.com", "subject": "s", "text": "t" },
            { "to": "ann@example.com", "subject": "s\r\nBcc: eve@example.com", "text": "t" },
            { "to": ["ann@example.com"], "subject": "s", "text": "t" },
            { "to": "ann@example.com", "subject": "s" },
            { "to": "ann@example.com", "subject": "s", "text": "x".repeat(600_000) },
        ]);
        let refused = anyone.post("/fn/send", wrong).await.is(200).json();
        assert!(refused.as_array().unwrap().iter().all(|refused| refused != "sent"), "{refused}");
    }
}

#[tokio::test]
async fn emitted_events_reach_functions_and_consumers_with_their_transaction() {
    let file = r#"
        import { before, on, route } from "gatewright";
        export const stage = before("notes", "create", async ({ values, emit }) => {
          await emit("note.coming", { title: values.title });
          if (values.title === "refused") throw new Error("no");
        });
        export const coming = on("note.coming", async ({ data, event, db }) => {
          await db.system.create("heard", { text: `${event.type} ${data.title}` });
        });
        export const send = route("POST", "/emit", async (request, { emit }) => {
          const { type, data, delaySeconds } = await request.json();
          try { return Response.json({ id: await emit(type, data, { delaySeconds }) }); }
          catch (error: any) { return Response.json({ error: error.message }, { status: 422 }); }
        });
    "#;
    let consumer = "[[outbox.consumer]]\nname = \"all\"\nevent = \"note.coming\"\npull = true\n";
    let toml = format!("[roles]\n{OUTBOX}enabled = true\n{consumer}{ENTITIES}");
    let (apps, _folder) = with_functions(&toml, &[("all.ts", file)]).await;
    for app in apps {
        let anyone = app.anonymous();
        anyone.post("/notes", json!({ "title": "refused" })).await.is(500);
        anyone.post("/notes", json!({ "title": "kept" })).await.is(201);
        assert_eq!(heard(&app, 1).await, ["note.coming kept"], "the other one was rolled back");
        let emitted = json!({ "type": "note.coming", "data": { "title": "by a route" } });
        let id = anyone.post("/fn/emit", emitted).await.is(200).at("/id");
        assert_eq!(heard(&app, 2).await[1], "note.coming by a route");

        let program = program(&app, "worker", &["consumers:all"]).await;
        let pulled = program.get("/consumers/all/events?wait=25").await.is(200).json();
        let mut events: Vec<(&Value, &Value)> =
            pulled["events"].as_array().unwrap().iter().map(|event| (&event["data"]["title"], &event["id"])).collect();
        events.sort_by_key(|(title, _)| title.to_string());
        assert_eq!(
            (events.len(), events[0], events[1].0),
            (2, (&json!("by a route"), &id), &json!("kept")),
            "{pulled}"
        );

        let late = json!({ "type": "note.coming", "data": { "title": "late" }, "delaySeconds": 3600 });
        anyone.post("/fn/emit", late).await.is(200);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(heard(&app, 2).await.len(), 2, "not yet");
        app.wait(SignedDuration::from_secs(3601));
        assert_eq!(heard(&app, 3).await[2], "note.coming late", "{}", app.engine());

        for (event_type, data, delay) in [
            ("entity.created", json!({}), json!(0)),
            ("user.created", json!({}), json!(0)),
            ("notes.created", json!({}), json!(0)),
            ("a b", json!({}), json!(0)),
            ("", json!({}), json!(0)),
            ("note.coming", json!([1]), json!(0)),
            ("note.coming", json!({}), json!(-1)),
            ("note.coming", json!({}), json!(2_592_001)),
            ("note.coming", json!({ "title": "x".repeat(1_048_576 - 10) }), json!(0)),
        ] {
            let body = json!({ "type": event_type, "data": data, "delaySeconds": delay });
            let refused = anyone.post("/fn/emit", body).await;
            assert!(matches!(refused.status(), 413 | 422), "{event_type}: {} {}", refused.status(), refused.text());
        }
    }
}

/// A program of a service account whose token has these scopes.
async fn program(app: &TestApp, name: &str, scopes: &[&str]) -> Actor {
    let auth = app.app().auth().unwrap();
    let service = auth.service_accounts().unwrap().create(name, Roles::default()).await.unwrap();
    let draft = TokenDraft::parse(name, scopes, 0).unwrap();
    let issued = auth.api_tokens().unwrap().issue(Subject::Service(service.id), draft).await.unwrap();
    app.anonymous().bearing(issued.plaintext.expose())
}

#[tokio::test]
async fn events_name_who_made_the_write_and_what_it_changed() {
    let file = r#"
        import { before, on } from "gatewright";
        export const copied = on("notes", "deleted", async ({ record, actor, db }) => {
          await db.system.create("heard", { text: JSON.stringify([actor, record.title]) });
        });
        export const within = before("notes", "create", async ({ values, db }) => {
          if (values.title === "by a function") await db.system.create("heard", { text: "within" });
        });
    "#;
    let folder = folder(&[("all.ts", file)]);
    let consumers = "
[[outbox.consumer]]
name = \"created\"
event = \"entity.created\"
pull = true
[[outbox.consumer]]
name = \"updated\"
event = \"entity.updated\"
entities = [\"notes\"]
pull = true
previous = true
[[outbox.consumer]]
name = \"plain\"
event = \"entity.updated\"
pull = true
";
    let toml = format!(
        "[functions]\nfolder = \"{}\"\n[audit]\nentities = true\n{OUTBOX}enabled = true\n{consumers}{ENTITIES}\
         [[entity.field]]\nname = \"hidden\"\ntype = \"string\"\nhidden = true\n",
        folder.path().display()
    );
    for app in TestApp::on_every_engine(&toml).await {
        let (anyone, operator) = (app.anonymous(), operator(&app).await);
        let op = app.user_id("op@example.com").await;
        let ann = app.with_jwt("ann@example.com").await;
        let ann_id = app.user_id("ann@example.com").await;
        let worker = program(&app, "worker", &["consumers:*", "notes:*"]).await;
        let record = json!({ "title": "by a program" });
        app.app()
            .entities()
            .table("notes")
            .unwrap()
            .create(&gatewright::entities::Call::default(), record.to_string().as_bytes())
            .await
            .unwrap();
        ann.post("/notes", json!({ "title": "by a user" })).await.is(201);
        worker.post("/notes", json!({ "title": "by a service" })).await.is(201);
        anyone.post("/notes", json!({ "title": "by a function" })).await.is(201);
        let mut made: Vec<Value> = Vec::new();
        while made.len() < 5 {
            let pulled = worker.get("/consumers/created/events?wait=25&limit=50").await.is(200).json();
            made.extend(pulled["events"].as_array().unwrap().iter().cloned());
        }
        let actor = |title: &str| {
            let found = made.iter().find(|event| {
                let record = &event["data"]["record"];
                record["title"] == title || record["text"] == title
            });
            found.unwrap_or_else(|| panic!("{title} in {made:?}"))["data"]["actor"].clone()
        };
        assert_eq!(actor("by a program"), json!({ "kind": "system" }), "{}", app.engine());
        assert_eq!(actor("by a user"), json!({ "kind": "user", "id": ann_id.as_str() }));
        assert_eq!(actor("by a service")["kind"], "service");
        assert_eq!(actor("by a function"), Value::Null, "an anonymous caller made it");
        assert_eq!(actor("within"), json!({ "kind": "function", "id": "within" }));

        let note = ann.post("/notes", json!({ "title": "one" })).await.is(201).at("/data/id");
        let note = format!("/notes/{}", note.as_str().unwrap());
        ann.patch(&note, json!({ "title": "two" })).await.is(200);
        for (consumer, previous) in [("updated", json!({ "title": "one" })), ("plain", Value::Null)] {
            let pulled = worker.get(&format!("/consumers/{consumer}/events?wait=25")).await.is(200).json();
            assert_eq!(pulled["events"][0]["data"]["previous"], previous, "{pulled}");
            assert_eq!(pulled["events"][0]["data"]["actor"]["kind"], "user");
            let acked = json!({ "ids": [pulled["events"][0]["id"]] });
            worker.post(&format!("/consumers/{consumer}/ack"), acked).await.is(204);
        }
        let by_operator = json!({ "title": "three" });
        operator.patch(&format!("/admin/api/records{note}"), by_operator).await.is(200);
        let pulled = worker.get("/consumers/plain/events?wait=25").await.is(200).json();
        let actor = &pulled["events"][0]["data"]["actor"];
        assert_eq!(actor, &json!({ "kind": "operator", "id": op.as_str() }), "{pulled}");
        ann.delete(&note).await.is(204);
        let all = heard(&app, 2).await;
        let expected = json!([{ "kind": "user", "id": ann_id.as_str() }, "three"]).to_string();
        assert!(all.contains(&expected), "{all:?}");
    }
}
