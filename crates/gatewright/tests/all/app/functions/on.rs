//! Functions after events: delivery, order, retries, dead letters, chains and replicas.

use std::time::Duration;

use gatewright::App;
use gatewright::events::outbox::{DeliveryRecord, DeliveryStatus, ListRows};
use gatewright_testing::{Actor, TestApp};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::admin::operator;
use super::{folder, with_functions};

/// Leases outlast the jumps of the clock that bring retries forward.
const OUTBOX: &str = "[outbox]\nmax_attempts = 3\nlease_seconds = 1000000\npoll_interval_ms = 50\n";

/// What functions heard is written into `heard`. `gates` has what they wait for.
fn toml(more: &str) -> String {
    let entities = concat!(
        entity!(public "notes" "title"),
        entity!(public "heard" "text"),
        entity!(public "gates" "name"),
        "[[entity.field]]\nname = \"n\"\ntype = \"int\"\n"
    );
    format!("{OUTBOX}{more}{entities}")
}

/// Waits until `found` returns something. The application's clock goes on meanwhile, by `step` for each look.
async fn until<T>(app: &TestApp, step: i64, found: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..1500 {
        if let Some(found) = found().await {
            return found;
        }
        app.wait(SignedDuration::from_secs(step));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never on {}", app.engine());
}

async fn heard(actor: &Actor) -> Vec<String> {
    let all = actor.get("/heard?limit=200&sort=createdAt").await.is(200).json();
    all["data"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap().to_owned()).collect()
}

async fn heard_all(app: &TestApp, count: usize) -> Vec<String> {
    let anyone = app.anonymous();
    until(app, 0, async || Some(heard(&anyone).await).filter(|heard| heard.len() >= count)).await
}

async fn note(app: &TestApp, title: &str) -> String {
    let made = app.anonymous().post("/notes", json!({ "title": title })).await.is(201);
    made.at("/data/id").as_str().unwrap().to_owned()
}

/// The deliveries to a function, newest first.
async fn deliveries(app: &TestApp, function: &str) -> Vec<DeliveryRecord> {
    let outbox = app.app().outbox().unwrap();
    let mut all = Vec::new();
    for row in outbox.list(ListRows { limit: 200, ..ListRows::default() }).await.unwrap() {
        let of_row = outbox.list_deliveries(&row.id).await.unwrap().unwrap_or_default();
        all.extend(of_row.into_iter().filter(|delivery| delivery.consumer == format!("fn:{function}")));
    }
    all
}

async fn dead(app: &TestApp, function: &str, step: i64) -> DeliveryRecord {
    let is_dead = |delivery: &DeliveryRecord| delivery.status == DeliveryStatus::Dead;
    until(app, step, async || deliveries(app, function).await.into_iter().find(is_dead)).await
}

#[tokio::test]
async fn functions_hear_every_write_and_turn_the_outbox_on() {
    let file = r#"
        import { on } from "gatewright";
        const tell = async (db: any, what: unknown) => { await db.system.create("heard", { text: JSON.stringify(what) }); };
        export const made = on("notes", "created", async ({ record, event, db, ...rest }) => {
          await tell(db, ["made", record.title, event.type, typeof event.id, typeof event.timestamp, "previous" in rest]);
          try { await db.list("notes"); } catch (error: any) { await tell(db, ["refused", error.message]); }
        });
        export const changed = on("notes", "updated", async ({ record, previous, db }) => tell(db, ["changed", record.title, previous]));
        export const gone = on("notes", "deleted", async ({ record, db }) => tell(db, ["gone", record.title]));
    "#;
    let (apps, _folder) = with_functions(&toml(""), &[("on.ts", file)]).await;
    for app in apps {
        let (anyone, id) = (app.anonymous(), note(&app, "one").await);
        heard_all(&app, 2).await;
        anyone.patch(&format!("/notes/{id}"), json!({ "title": "two" })).await.is(200);
        heard_all(&app, 3).await;
        anyone.delete(&format!("/notes/{id}")).await.is(204);
        let mut heard = heard_all(&app, 4).await;
        heard.sort();
        let expected = [
            r#"["changed","two",{"title":"one"}]"#,
            r#"["gone","two"]"#,
            r#"["made","one","entity.created","string","string",false]"#,
            r#"["refused","db: nobody calls this function; use db.system"]"#,
        ];
        assert_eq!(heard, expected, "{}", app.engine());
        let items: Vec<_> = (0..20).map(|n| json!({ "title": format!("of a batch {n}") })).collect();
        anyone.post("/notes/_batch", json!({ "items": items })).await.is(200);
        let heard = heard_all(&app, 4 + 40).await;
        let of_batch = heard.iter().filter(|heard| heard.contains("of a batch")).count();
        assert_eq!(of_batch, 20, "each once, on {}", app.engine());
    }
}

#[tokio::test]
async fn a_failing_event_is_retried_in_its_order_and_other_records_go_on() {
    let file = r#"
        import { on } from "gatewright";
        export const changed = on("notes", "updated", async ({ record, db }) => {
          const gates = await db.system.list("gates", {});
          if (record.title === "shut 1" && gates.data.length === 0) throw new Error("the gate is shut");
          await db.system.create("heard", { text: record.title });
        });
    "#;
    let (apps, _folder) = with_functions(&toml("").replace("= 3", "= 10"), &[("on.ts", file)]).await;
    for app in apps {
        let anyone = app.anonymous();
        let (shut, open) = (note(&app, "shut").await, note(&app, "open").await);
        for n in 0..4 {
            for (id, title) in [(&shut, "shut"), (&open, "open")] {
                anyone.patch(&format!("/notes/{id}"), json!({ "title": format!("{title} {n}") })).await.is(200);
            }
        }
        let failed = |delivery: &DeliveryRecord| delivery.attempts >= 2;
        until(&app, 1, async || deliveries(&app, "changed").await.into_iter().find(failed)).await;
        let now = heard_all(&app, 5).await;
        let of = |all: &[String], title: &str| -> Vec<String> {
            all.iter().filter(|text| text.starts_with(title)).cloned().collect()
        };
        assert_eq!(of(&now, "shut"), ["shut 0"], "{}", app.engine());
        assert_eq!(of(&now, "open"), ["open 0", "open 1", "open 2", "open 3"], "{}", app.engine());
        anyone.post("/gates", json!({ "name": "open" })).await.is(201);
        let all = until(&app, 1, async || Some(heard(&anyone).await).filter(|heard| heard.len() == 8)).await;
        assert_eq!(of(&all, "shut"), ["shut 0", "shut 1", "shut 2", "shut 3"], "{}", app.engine());
    }
}

#[tokio::test]
async fn a_poisoned_function_ends_as_a_dead_letter_without_secrets_and_harms_no_other() {
    let file = r#"
        import { on } from "gatewright";
        export const loops = on("notes", "created", async ({ record }) => { if (record.title === "poison") for (;;) {} });
        export const leaks = on("notes", "created", async ({ record, secrets, db }) => {
          const gates = await db.system.list("gates", {});
          if (record.title === "poison" && gates.data.length === 0) throw new Error(`failed with ${secrets.PATH}`);
          await db.system.create("heard", { text: `replayed ${record.title}` });
        });
        export const healthy = on("notes", "created", async ({ record, db }) => {
          await db.system.create("heard", { text: `healthy ${record.title}` });
        });
    "#;
    let folder = folder(&[("on.ts", file)]);
    let functions = "[functions]\ntimeout_ms = 100\nsecrets = [\"PATH\"]\nfolder = ";
    let toml = format!("{functions}\"{}\"\n[audit]\nentities = true\n{}", folder.path().display(), toml(""));
    let secret = std::env::var("PATH").unwrap();
    for app in TestApp::on_every_engine(&toml).await {
        let operator = operator(&app).await;
        for title in ["poison", "fine"] {
            note(&app, title).await;
        }
        let now = heard_all(&app, 3).await;
        for expected in ["healthy poison", "healthy fine", "replayed fine"] {
            assert!(now.iter().any(|text| text == expected), "{expected} in {now:?} on {}", app.engine());
        }
        let looped = dead(&app, "loops", 1).await;
        assert_eq!((looped.attempts, looped.last_error.as_deref()), (3, Some("its time is used up")));
        let leaked = dead(&app, "leaks", 1).await;
        let error = leaked.last_error.clone().unwrap();
        assert!(error.contains("failed with ***") && error.contains("on.ts:6"), "{error}");
        let listed = operator.get("/admin/api/outbox/deliveries?status=dead").await.is(200);
        assert!(listed.text().contains("fn:leaks") && !listed.text().contains(&secret), "{}", listed.text());

        // As an operator replays the dead letters of webhooks.
        app.anonymous().post("/gates", json!({ "name": "open" })).await.is(201);
        let replay = format!("/admin/api/outbox/events/{}/replay", leaked.row_id);
        let replayed = operator.post(&replay, json!({ "consumer": "fn:leaks" })).await;
        assert!(replayed.status() < 300, "{}", replayed.text());
        let is_there = |heard: &Vec<String>| heard.iter().any(|text| text == "replayed poison");
        let anyone = app.anonymous();
        until(&app, 1, async || Some(heard(&anyone).await).filter(is_there)).await;
    }
}

#[tokio::test]
async fn a_chain_of_events_ends_at_sixteen_as_a_dead_letter() {
    let file = r#"
        import { before, on } from "gatewright";
        export const again = on("gates", "created", async ({ record, db }) => {
          await db.system.create("gates", { name: "again", n: record.n + 1n });
        });
        // A write of a function in a transaction is part of the chain too.
        export const between = before("gates", "create", async ({ values, db }) => {
          if (values.n === 5n) await db.system.create("heard", { text: "five" });
        });
    "#;
    let (apps, _folder) = with_functions(&toml(""), &[("on.ts", file)]).await;
    for app in apps {
        let anyone = app.anonymous();
        anyone.post("/gates", json!({ "name": "first", "n": 0 })).await.is(201);
        let end = dead(&app, "again", 0).await;
        assert_eq!(end.attempts, 1, "it can never succeed");
        assert!(end.last_error.unwrap().contains("16 events"));
        assert_eq!(anyone.get("/gates?limit=1").await.at("/total"), 17, "{}", app.engine());
        assert_eq!(heard(&anyone).await, ["five"]);
    }
}

#[tokio::test]
async fn an_outbox_that_functions_turned_on_keeps_delivered_events_for_seven_days() {
    let file = r#"
        import { on } from "gatewright";
        export const made = on("notes", "created", async () => {});
    "#;
    let more = "handler_grace_seconds = 1\n";
    for (outbox, days) in [("", Some(7)), ("enabled = true\n", None)] {
        let (apps, _folder) = with_functions(&toml(&format!("{more}{outbox}")), &[("on.ts", file)]).await;
        for app in apps {
            note(&app, "one").await;
            let rows = async || app.app().outbox().unwrap().list(ListRows::default()).await.unwrap();
            until(&app, 1, async || rows().await.first().and_then(|row| row.dispatched_at)).await;
            app.wait(SignedDuration::from_hours(24 * 7 - 1));
            tokio::time::sleep(Duration::from_millis(600)).await;
            assert_eq!(rows().await.len(), 1, "{}", app.engine());
            app.wait(SignedDuration::from_hours(2));
            if days.is_some() {
                until(&app, 0, async || rows().await.is_empty().then_some(())).await;
            } else {
                tokio::time::sleep(Duration::from_millis(600)).await;
                assert_eq!(rows().await.len(), 1, "its own retention has no end, on {}", app.engine());
            }
        }
    }
}

/// Each write is heard once by one of two servers; what a server that is gone had begun, the other one takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_call_a_function_once_for_each_event_and_take_over_from_each_other() {
    let file = r#"
        import { on } from "gatewright";
        export const made = on("notes", "created", async ({ record, db }) => {
          if (record.title.startsWith("slow")) {
            await db.system.create("gates", { name: record.title });
            while ((await db.system.list("gates", { filter: "name = 'open'" })).data.length === 0) {
              await new Promise((resolve) => setTimeout(resolve, 50));
            }
          }
          await db.system.create("heard", { text: record.title });
        });
    "#;
    let (apps, _folder) = with_functions(&toml(""), &[("on.ts", file)]).await;
    for app in apps.into_iter().filter(|app| app.engine() == "postgres") {
        let other = App::builder(app.config().clone()).build().await.unwrap();
        for n in 0..20 {
            note(&app, &format!("note {n}")).await;
        }
        let mut all = heard_all(&app, 20).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(heard(&app.anonymous()).await.len(), 20, "each once");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 20);

        for n in 0..12 {
            note(&app, &format!("slow {n}")).await;
        }
        let anyone = app.anonymous();
        let begun = async || anyone.get("/gates?limit=1").await.at("/total").as_u64().filter(|begun| *begun >= 8);
        until(&app, 0, begun).await;
        drop(other);
        anyone.post("/gates", json!({ "name": "open" })).await.is(201);
        let opened = std::time::Instant::now();
        let all = heard_all(&app, 32).await;
        assert!(opened.elapsed() < Duration::from_secs(25), "{:?}", opened.elapsed());
        assert_eq!(all.iter().filter(|text| text.starts_with("slow")).count(), 12);
    }
}

#[tokio::test]
async fn check_names_the_place_of_what_a_function_cannot_listen_to() {
    let cases = [
        (r#"on("tickets", "created", f)"#, "there is no entity \"tickets\""),
        (r#"on("user.vanished", f)"#, "there is no event \"user.vanished\""),
        (r#"on("entity.created", f)"#, "there is no event \"entity.created\""),
        (r#"on("notes", "read", f)"#, "is for created, updated, deleted, not \"read\""),
        (r#"on("no spaces", f)"#, "1 to 200 visible characters"),
    ];
    for (declaration, message) in cases {
        let file = format!(
            "import {{ on }} from \"gatewright\";\nconst f = async () => {{}};\nexport const heard = {declaration};\n"
        );
        let folder = folder(&[("on.ts", &file)]);
        let toml = format!("[functions]\nfolder = \"{}\"\n{}", folder.path().display(), toml(""));
        let config = gatewright::config::Loader::text("test.toml", &toml).dev_mode().load().unwrap();
        let faults = gatewright::check_functions(&config).unwrap_err();
        assert!(faults.contains("on.ts:3:14: heard") && faults.contains(message), "{declaration}: {faults}");
    }
    let fine = r#"
        import { on } from "gatewright";
        export const one = on("notes.created", async () => {});
        export const two = on("order.paid", async () => {});
    "#;
    let folder = folder(&[("on.ts", fine)]);
    let toml = format!("[functions]\nfolder = \"{}\"\n{}", folder.path().display(), toml(""));
    let config = gatewright::config::Loader::text("test.toml", &toml).dev_mode().load().unwrap();
    assert_eq!(gatewright::check_functions(&config), Ok(2));
}

/// The operator's commands and the schema know the outbox of functions.
#[tokio::test]
async fn commands_find_the_outbox_of_functions() {
    let file = r#"
        import { on } from "gatewright";
        export const made = on("notes", "created", async () => {});
    "#;
    let (apps, _folder) = with_functions(&toml(""), &[("on.ts", file)]).await;
    for app in apps {
        note(&app, "one").await;
        let outbox = gatewright::outbox(app.config()).await.unwrap();
        assert_eq!(outbox.list(ListRows::default()).await.unwrap().len(), 1, "{}", app.engine());
        assert!(gatewright::schema::plan(app.config()).await.unwrap().statements.is_empty());
    }
}

/// Each earlier value is the value of the event before, so that none is missing and none overtakes another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writes_of_a_record_are_heard_in_their_order() {
    let file = r#"
        import { on } from "gatewright";
        export const changed = on("notes", "updated", async ({ record, previous, db }) => {
          await db.system.create("heard", { text: JSON.stringify([previous.title, record.title]) });
        });
    "#;
    let (apps, _folder) = with_functions(&toml(""), &[("on.ts", file)]).await;
    for app in apps {
        let id = note(&app, "start").await;
        let writers = (0..20).map(|n| {
            let (anyone, path) = (app.anonymous(), format!("/notes/{id}"));
            async move { anyone.patch(&path, json!({ "title": format!("by {n}") })).await.is(200) }
        });
        futures_util::future::join_all(writers).await;
        let last = app.anonymous().get(&format!("/notes/{id}")).await.at("/data/title");
        let heard = heard_all(&app, 20).await;
        let mut steps: Vec<(Value, Value)> = heard.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let mut now = json!("start");
        while let Some(at) = steps.iter().position(|(before, _)| *before == now) {
            now = steps.remove(at).1;
        }
        assert!(steps.is_empty() && now == last, "{now} {last} {steps:?} on {}", app.engine());
        let order: Vec<Value> =
            heard.iter().map(|text| serde_json::from_str::<Value>(text).unwrap()[1].clone()).collect();
        assert_eq!(order.last(), Some(&last), "{heard:?} on {}", app.engine());
    }
}

#[tokio::test]
async fn an_update_that_changes_nothing_of_a_record_is_heard_without_earlier_values() {
    let file = r#"
        import { on } from "gatewright";
        export const changed = on("notes", "updated", async ({ previous, db }) => {
          await db.system.create("heard", { text: JSON.stringify(previous) });
        });
    "#;
    let (apps, _folder) = with_functions(&toml(""), &[("on.ts", file)]).await;
    for app in apps {
        let id = note(&app, "same").await;
        let path = format!("/notes/{id}");
        app.anonymous().json(Method::PATCH, &path, &json!({ "title": "same" })).await.is(200);
        let heard = heard_all(&app, 1).await;
        assert_eq!(heard, ["{}"], "{}", app.engine());
        let other: Value = app.anonymous().json(Method::PATCH, &path, &json!({ "title": null })).await.is(200).json();
        assert_eq!(other["data"]["title"], Value::Null);
        assert_eq!(heard_all(&app, 2).await[1], r#"{"title":"same"}"#, "{}", app.engine());
    }
}
