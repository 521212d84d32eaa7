//! Collects every answer that each caller can get, and the data that the service sends elsewhere.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::post;
use gatewright::events::{EntityEvent, EventKind};
use gatewright_testing::{Actor, Answer, Stream};
use http::Method;
use serde_json::{Value, json};

use super::log::{self, MARK};
use super::on_each;
use super::world::{Caller, HIDDEN, Planted, TENANTS, World};

#[tokio::test(flavor = "multi_thread")]
async fn no_surface_reveals_what_its_caller_may_not_see() {
    let _listening = log::listen();
    let (url, delivered) = receiver().await;
    let worlds = World::on_every_engine(4711, &with_everything(&url)).await;
    on_each(worlds, |world| crawl(world, delivered.clone())).await;
    tracing::trace!("{MARK}");
    let caught = log::caught();
    assert!(caught.iter().any(|line| line.contains(MARK)), "the log is searched");
    let told: Vec<&String> = caught.iter().filter(|line| !line.contains(MARK)).collect();
    assert!(told.is_empty(), "the log tells: {:#?}", &told[..told.len().min(5)]);
}

/// Looks at one engine.
async fn crawl(world: World, delivered: Arc<Mutex<Vec<String>>>) {
    let engine = world.app.engine();
    let mut wrong = BTreeSet::new();
    for caller in world.callers().await {
        for named in tenants_to_name(&caller) {
            let said = everything_said(&world, &caller, *named).await;
            assert!(said.len() > 100_000, "{} is answered: {}", caller.name, said.len());
            for (planted, canary) in leaked(&world, &caller, *named, &said) {
                let shape = &world.shapes[planted.shape];
                wrong.insert(format!("{engine}, {} names {named:?}: {canary} of {shape:?}", caller.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} leaks:\n{}", wrong.len(), wrong.into_iter().collect::<Vec<_>>().join("\n"));
    // Callers see what they may see; otherwise the checks above would be empty.
    assert_ne!(seen_by(&world, "ben").await, 0);
    stored_and_delivered(&world, &delivered).await;
}

/// Every caller tries the tenants that they belong to; Ada also the other one, and Ben none.
fn tenants_to_name(caller: &Caller) -> &'static [Option<&'static str>] {
    match caller.name {
        "nobody" => &[None],
        "ada" => &[Some(TENANTS[0]), Some(TENANTS[1])],
        "ben" => &[None, Some(TENANTS[0]), Some(TENANTS[1])],
        _ => &[Some(TENANTS[0])],
    }
}

fn with_everything(url: &str) -> String {
    format!(
        "[auth.limits.register]\nmax_attempts = 1000\n[audit]\nentities = true\n\
         [outbox]\nenabled = true\npoll_interval_ms = 20\n\
         [[outbox.consumer]]\nname = \"crm\"\nevent = \"entity.updated\"\nurl = \"{url}\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n"
    )
}

/// A receiver of webhooks, and the requests that it got.
async fn receiver() -> (String, Arc<Mutex<Vec<String>>>) {
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let sink = delivered.clone();
    let hook = post(move |body: String| async move { sink.lock().unwrap().push(body) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/hook", hook)).await });
    (url, delivered)
}

/// The canaries in `said` that this caller may not see.
fn leaked<'a>(world: &'a World, caller: &Caller, named: Option<&str>, said: &str) -> Vec<(&'a Planted, &'a String)> {
    let mut found = Vec::new();
    let canaries = canaries_in(world, said);
    for planted in &world.planted {
        let shown: &[String] = if world.may_see(caller, named, planted) { &[] } else { &planted.shown };
        let forbidden = planted.hidden.iter().chain(shown);
        found.extend(forbidden.filter(|canary| canaries.contains(&canary[..])).map(|canary| (planted, canary)));
    }
    found
}

/// Words with the length and prefix of a canary. The text is read once, instead of once for each canary.
fn canaries_in<'a>(world: &World, text: &'a str) -> HashSet<&'a str> {
    let planted = world.planted.iter().flat_map(|planted| planted.shown.iter().chain(&planted.hidden));
    let lengths: BTreeSet<usize> = planted.map(String::len).collect();
    let beginnings = text.match_indices("cnry-").map(|(at, _)| &text[at..]);
    beginnings.flat_map(|rest| lengths.iter().filter_map(|length| rest.get(..*length))).collect()
}

/// How many canaries a caller is expected to find in the first tenant.
async fn seen_by(world: &World, name: &str) -> usize {
    let callers = world.callers().await;
    let caller = callers.iter().find(|caller| caller.name == name).unwrap();
    let said = everything_said(world, caller, Some(TENANTS[0])).await;
    let canaries = canaries_in(world, &said);
    let visible = world.planted.iter().filter(|planted| world.may_see(caller, Some(TENANTS[0]), planted));
    let mut seen = 0;
    for planted in visible {
        for canary in &planted.shown {
            assert!(canaries.contains(&canary[..]), "{name} sees {canary} of {:?}", world.shapes[planted.shape]);
            seen += 1;
        }
    }
    seen
}

/// The audit log, the event log, the outbox and the webhooks contain no hidden fields; the answers to operators no records.
async fn stored_and_delivered(world: &World, delivered: &Mutex<Vec<String>>) {
    let mut told = String::new();
    for sql in [
        "SELECT meta AS told FROM audit_log",
        "SELECT payload AS told FROM event_outbox",
        // The record is in the outbox, if there is one.
        "SELECT COALESCE(record, entity) AS told FROM event_log",
    ] {
        let rows = world.app.app().db().query(sql, vec![]).await.unwrap();
        assert!(!rows.is_empty(), "{sql}");
        told.extend(rows.iter().map(|row| row.get::<String>("told").unwrap()));
    }
    let arrived = async {
        while delivered.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), arrived).await.expect("something is delivered");
    told.push_str(&delivered.lock().unwrap().join("\n"));
    let hidden = world.planted.iter().flat_map(|planted| &planted.hidden);
    let leaks: Vec<_> = hidden.filter(|canary| told.contains(&canary[..])).collect();
    assert!(leaks.is_empty() && !told.contains(HIDDEN[0]), "{leaks:?}");

    let anonymous = world.app.anonymous();
    for path in ["/metrics", "/openapi.json", "/api/docs", "/healthz", "/readyz", "/"] {
        let answer = anonymous.get(path).await;
        assert!(answer.status() < 400, "{path}");
        assert!(!answer.text().contains("cnry-"), "{path}");
        for hidden in HIDDEN {
            let camel = gatewright::base::to_camel(hidden);
            assert!(!answer.text().contains(hidden) && !answer.text().contains(&camel), "{path} names {hidden}");
        }
    }
}

/// Every answer to one caller, as one text.
async fn everything_said(world: &World, caller: &Caller, named: Option<&str>) -> String {
    let actor = named.iter().fold(caller.actor.clone(), |actor, tenant| actor.sending("x-tenant-id", tenant));
    let mut said = Said(String::new());
    let streams = open_all(world, &actor, &mut said).await;
    for shape in 0..world.shapes.len() {
        lists(world, &actor, shape, &mut said).await;
        for planted in world.planted.iter().filter(|planted| planted.shape == shape) {
            one(world, &actor, planted, &mut said).await;
        }
        bodies(world, &actor, shape, &mut said).await;
    }
    said.hear(&actor.rpc("tools/list", json!({})).await);
    touch_all(world).await;
    for (table, mut stream) in streams {
        end_of(world, &table, named);
        while let Some(message) = stream.next_message().await {
            said.0.push_str(&message);
            if message.contains("the-end-of-the-stream") {
                break;
            }
        }
    }
    said.0
}

struct Said(String);

impl Said {
    fn hear(&mut self, answer: &Answer) {
        let _infallible = writeln!(self.0, "{} {:?}\n{}", answer.status(), answer.headers(), answer.text());
    }
}

async fn lists(world: &World, actor: &Actor, shape: usize, said: &mut Said) {
    let table = &world.shapes[shape].name;
    let mut queries: Vec<String> = [
        "",
        "limit=100",
        "limit=1&page=2",
        "cursor=&limit=1",
        "cursor=&limit=100&direction=backward",
        "include=link",
        "include=link,zz_link",
        "trashed=with",
        "trashed=only&include=link",
        "q=cnry",
        "q=secret",
        "q=cnry&prefix=true&highlight=true",
        "q=x+or+cnry&prefix=true&sort=-_rank&cursor=&limit=1",
        "q=x+-cnry&highlight=true&fields=id,zz_secret",
        "filter=id!='x'",
        "filter=text~'cnry'||code!='x'||!(rank=2)",
        "filter=zz_secret~'cnry'",
        "filter=zz_secret!=null",
        "zz_secret_like=cnry",
        "zz_secret_null=false",
        "zz_link_null=false",
        "user_id_null=false",
        "tenant_id=acme",
        "filter=user_id!=null",
        "nonsense=1",
        "page=x",
        "cursor=AAAA",
    ]
    .map(str::to_owned)
    .into();
    let by_tool = queries.len();
    for field in ["id", "text", "meta", "seen", "rank", "link", "zz_secret", "zzLink", "user_id", "tenant_id"] {
        queries.extend(["sort=-{}", "fields={}", "{}_ne=x"].map(|query| query.replace("{}", field)));
    }
    let mut cursors = Vec::new();
    for (index, query) in queries.iter().enumerate() {
        let query = query.replace('|', "%7C").replace('\'', "%27");
        let answer = actor.get(&format!("/{table}?{query}")).await;
        cursors.extend(answer.json_if_any().and_then(|json| Some(json.get("cursor")?.as_str()?.to_owned())));
        said.hear(&answer);
        if index < by_tool {
            said.hear(&actor.get(&format!("/seen_{table}?{query}")).await);
            let pairs = url::form_urlencoded::parse(query.as_bytes());
            let arguments: Value = pairs.map(|(name, value)| (name.into_owned(), Value::from(value))).collect();
            said.hear(&actor.call_tool(&format!("{table}_list"), arguments).await);
        }
    }
    // A cursor is text that a caller stores, complete or in parts.
    for cursor in cursors {
        use base64::Engine as _;
        let inside = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(&cursor).unwrap();
        said.0.push_str(&String::from_utf8_lossy(&inside));
        said.hear(&actor.get(&format!("/{table}?cursor={cursor}")).await);
    }
}

/// Uses one record in every way that changes nothing.
async fn one(world: &World, actor: &Actor, planted: &Planted, said: &mut Said) {
    let (table, id) = (&world.shapes[planted.shape].name, &planted.id);
    let path = format!("/{table}/{id}");
    for query in
        ["", "?fields=text", "?include=link", "?include=zz_link", "?fields=zz_secret", "?fields=id&include=link"]
    {
        said.hear(&actor.get(&format!("{path}{query}")).await);
    }
    said.hear(&actor.get(&format!("/seen_{table}/{id}?include=link")).await);
    for body in [json!({}), json!({ "text": 1, "zzSecret": "x", "link": "nowhere" })] {
        said.hear(&actor.json(Method::PUT, &path, &body).await);
        let mut item = body;
        item["id"] = json!(id);
        said.hear(&actor.call_tool(&format!("{table}_update"), item.clone()).await);
        said.hear(&actor.patch(&format!("/{table}/_batch"), json!({ "items": [item] })).await);
    }
    for (method, body) in [(Method::DELETE, Value::Null), (Method::PATCH, json!({ "text": "x" }))] {
        let request =
            actor.request(method, &path).header("if-match", "\"none\"").header("content-type", "application/json");
        said.hear(&actor.send(request.body(body.to_string().into()).unwrap()).await);
    }
    let batch = format!("/{table}/_batch");
    said.hear(&actor.patch(&batch, json!({ "items": [{ "id": id, "rank": 2 }, { "id": "nowhere" }] })).await);
    said.hear(&actor.json(Method::DELETE, &batch, &json!({ "ids": [id, "nowhere"] })).await);
    for arguments in
        [json!({ "id": id }), json!({ "id": id, "include": "link" }), json!({ "id": id, "fields": "zz_secret" })]
    {
        said.hear(&actor.call_tool(&format!("{table}_get"), arguments).await);
    }
    // Restoring is kept for the records that are not in the trash: it changes nothing there.
    if !planted.in_trash {
        said.hear(&actor.post(&format!("{path}/_restore"), json!({})).await);
    }
}

/// Creates valid and invalid records, and records that refer to others'.
async fn bodies(world: &World, actor: &Actor, shape: usize, said: &mut Said) {
    let table = &world.shapes[shape].name;
    let mut bodies = vec![
        json!({}),
        json!({ "text": "new", "userId": world.ada, "tenantId": TENANTS[1] }),
        json!({ "zzSecret": "x", "zz_link": "x", "seen": "x", "meta": { "a": [1] } }),
        json!({ "text": { "a": 1 }, "rank": "x", "link": 1 }),
        json!([]),
    ];
    let targets = world.planted.iter().filter(|planted| planted.shape == world.shapes[shape].leads_to);
    bodies.extend(targets.map(|planted| json!({ "link": planted.id })));
    for body in bodies {
        said.hear(&actor.post(&format!("/{table}"), body.clone()).await);
        said.hear(&actor.post(&format!("/{table}/_batch"), json!({ "items": [body.clone(), { "text": 1 }] })).await);
        if body.is_object() {
            said.hear(&actor.call_tool(&format!("{table}_create"), body).await);
        }
    }
}

async fn open_all(world: &World, actor: &Actor, said: &mut Said) -> Vec<(String, Stream)> {
    let mut streams = Vec::new();
    for shape in &world.shapes {
        match actor.open(&format!("/{}/_events", shape.name)).await {
            Ok(stream) => streams.push((shape.name.clone(), stream)),
            Err(refusal) => said.hear(&refusal),
        }
    }
    streams
}

/// Each record's owner changes it, so that streams, outbox and audit log have data.
async fn touch_all(world: &World) {
    for planted in world.planted.iter().filter(|planted| !planted.in_trash) {
        let (table, call) = (world.table(planted.shape), world.call_of(planted));
        let body = json!({ "text": planted.shown[0] }).to_string();
        table.update(&call, &planted.id, body.as_bytes(), None).await.unwrap();
    }
}

/// An event on every stream of the table: one for each owner and tenant.
fn end_of(world: &World, table: &str, named: Option<&str>) {
    for owner in [Some(&world.ada), Some(&world.ben), Some(&world.cyd), None] {
        let event = EntityEvent::new(EventKind::Updated, "end", table, "{\"id\":\"the-end-of-the-stream\"}");
        let event = owner.iter().fold(event, |event, owner| event.with_owner(owner.as_str()));
        let event = named.iter().fold(event, |event, tenant| event.with_tenant(*tenant));
        drop(world.app.app().bus().publish(event));
    }
}
