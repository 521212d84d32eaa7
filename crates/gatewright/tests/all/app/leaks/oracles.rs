//! Pairs of answers that must be indistinguishable.

use gatewright_testing::{Actor, Answer};
use http::Method;
use serde_json::{Value, json};

use super::on_each;
use super::world::{Planted, TENANTS, World};

/// A hidden field's name beside one, as long, that no field has; in both spellings.
const NAMES: [(&str, &str); 4] =
    [("zz_secret", "zz_absent"), ("zzSecret", "zzAbsent"), ("zz_link", "zz_none"), ("zzLink", "zzNone")];

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_field_is_refused_like_one_that_does_not_exist() {
    on_each(World::on_every_engine(7, "").await, |world| async move {
        let ben = ben(&world).await;
        for shape in 0..world.shapes.len() {
            let own = world.planted.iter().find(|one| one.shape == shape && is_reached(&world, one)).unwrap();
            for (hidden, absent) in NAMES {
                let told = asked_by_name(&world, &ben, own, hidden).await;
                let expected = asked_by_name(&world, &ben, own, absent).await;
                for ((what, status, told), (_, expected_status, expected)) in told.into_iter().zip(expected) {
                    let place = format!("{}, {:?}, {what}", world.app.engine(), world.shapes[shape]);
                    assert!(status >= 400 || what.starts_with("tool"), "{place}: {status} {told}");
                    assert_eq!((status, told), (expected_status, expected), "{place}");
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_record_is_answered_like_one_that_does_not_exist() {
    on_each(World::on_every_engine(8, "").await, |world| async move {
        let ben = ben(&world).await;
        let mut compared = 0;
        for planted in &world.planted {
            // Records that Ben may read are not secret; a record in the trash is a 404 by its id for everybody.
            if is_reached(&world, planted) {
                continue;
            }
            let absent = format!("id-{:016x}", 7);
            assert_eq!(absent.len(), planted.id.len());
            let told = asked_by_id(&world, &ben, planted, &planted.id).await;
            let expected = asked_by_id(&world, &ben, planted, &absent).await;
            for ((what, status, told), (_, expected_status, expected)) in told.into_iter().zip(expected) {
                let place = format!("{}, {:?}, {what}", world.app.engine(), world.shapes[planted.shape]);
                assert_eq!((status, told), (expected_status, expected), "{place}");
                compared += 1;
            }
        }
        assert!(compared > 500, "{compared}");
    })
    .await;
}

/// Ben, in the first tenant.
async fn ben(world: &World) -> Actor {
    let callers = world.callers().await;
    let ben = callers.into_iter().find(|caller| caller.name == "ben").unwrap();
    ben.actor.sending("x-tenant-id", TENANTS[0])
}

/// Whether Ben, who names the first tenant, reaches the record.
fn is_reached(world: &World, planted: &Planted) -> bool {
    let shape = &world.shapes[planted.shape];
    (!shape.owned || planted.owner == "ben") && (!shape.tenants || planted.tenant == TENANTS[0])
}

/// The request, the status and the whole answer, without the requested name.
type Told = (String, u16, String);

fn told(what: String, answer: &Answer, named: &str) -> Told {
    let headers = answer.headers().iter().filter(|(name, _)| *name != "x-request-id" && *name != "date");
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    let text = format!("{}\n{}", headers.join("\n"), answer.text()).replace(named, "‹it›");
    (what, answer.status(), text)
}

/// Every way to name a field.
async fn asked_by_name(world: &World, actor: &Actor, own: &Planted, name: &str) -> Vec<Told> {
    let table = &world.shapes[own.shape].name;
    let mut all = Vec::new();
    for query in [
        "sort={}",
        "sort=-{}",
        "sort=text,{}",
        "fields={}",
        "fields=id,{}",
        "include={}",
        "include=link,{}",
        "{}=x",
        "{}_gt=x",
        "{}_gte=x",
        "{}_lt=x",
        "{}_lte=x",
        "{}_ne=x",
        "{}_like=x",
        "{}_in=x,y",
        "{}_null=true",
        "filter={}='x'",
        "filter=!({}=null)",
        "filter=text='x'%7C%7C{}~'x'",
        "filter={} in ['x']",
        "cursor=&{}=x",
    ] {
        let query = query.replace("{}", name).replace('\'', "%27").replace(' ', "%20");
        for path in [format!("/{table}?{query}"), format!("/{table}/{}?{query}", own.id)] {
            all.push(told(path.clone(), &actor.get(&path).await, name));
        }
        if query.starts_with("filter") {
            let path = format!("/{table}/_events?{query}");
            all.push(told(path.clone(), &actor.get(&path).await, name));
        }
        let arguments: Value = url::form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), Value::from(value)))
            .collect();
        let answer = actor.call_tool(&format!("{table}_list"), arguments.clone()).await;
        all.push(told(format!("tool list {query}"), &answer, name));
        let mut arguments = arguments;
        arguments["id"] = json!(own.id);
        all.push(told(format!("tool get {query}"), &actor.call_tool(&format!("{table}_get"), arguments).await, name));
    }
    let path = format!("/{table}/{}", own.id);
    for value in [json!("x"), json!(null), json!(1), json!({})] {
        let body = json!({ name: value });
        all.push(told(format!("create {body}"), &actor.post(&format!("/{table}"), body.clone()).await, name));
        all.push(told(format!("patch {body}"), &actor.patch(&path, body.clone()).await, name));
        all.push(told(format!("put {body}"), &actor.json(Method::PUT, &path, &body).await, name));
        let batch = json!({ "items": [body] });
        all.push(told(format!("batch {body}"), &actor.post(&format!("/{table}/_batch"), batch).await, name));
        let mut item = body.clone();
        item["id"] = json!(own.id);
        let batch = json!({ "items": [item] });
        all.push(told(format!("batch patch {body}"), &actor.patch(&format!("/{table}/_batch"), batch).await, name));
        all.push(told(format!("tool create {body}"), &actor.call_tool(&format!("{table}_create"), body).await, name));
        all.push(told(format!("tool update {item}"), &actor.call_tool(&format!("{table}_update"), item).await, name));
    }
    all
}

/// Every way to name a record.
async fn asked_by_id(world: &World, actor: &Actor, planted: &Planted, id: &str) -> Vec<Told> {
    let table = &world.shapes[planted.shape].name;
    let path = format!("/{table}/{id}");
    let mut all = Vec::new();
    for query in ["", "?fields=text", "?include=link", "?nonsense=1"] {
        all.push(told(format!("get {query}"), &actor.get(&format!("{path}{query}")).await, id));
    }
    for query in ["id={}", "id_in={},x", "filter=id=%27{}%27", "cursor=&id={}"] {
        let query = query.replace("{}", id);
        all.push(told(query.clone(), &actor.get(&format!("/{table}?{query}")).await, id));
    }
    // A change that is invalid, or has a taken unique value, reveals nothing more either.
    let taken = world.planted.iter().find(|one| one.shape == planted.shape && is_reached(world, one)).unwrap();
    for body in [
        json!({}),
        json!({ "text": "x" }),
        json!({ "text": 1 }),
        json!({ "code": taken.shown[1] }),
        json!({ "link": "nowhere" }),
        json!({ "nonsense": 1 }),
    ] {
        for method in [Method::PATCH, Method::PUT] {
            let what = format!("{method} {body}");
            all.push(told(what, &actor.json(method, &path, &body).await, id));
        }
        for tag in ["*", "\"guessed\"", &etag(world, planted).await] {
            let request = actor.request(Method::PATCH, &path).header("if-match", tag);
            let request = request.header("content-type", "application/json").body(body.to_string().into());
            all.push(told(format!("PATCH {body} if {tag}"), &actor.send(request.unwrap()).await, id));
        }
        let mut item = body.clone();
        item["id"] = json!(id);
        let batch = json!({ "items": [item] });
        all.push(told(format!("batch {body}"), &actor.patch(&format!("/{table}/_batch"), batch).await, id));
        all.push(told(format!("tool {body}"), &actor.call_tool(&format!("{table}_update"), item).await, id));
    }
    for (method, header) in [(Method::DELETE, "if-match"), (Method::GET, "if-none-match")] {
        for tag in ["*", "\"guessed\"", &etag(world, planted).await] {
            let request = actor.request(method.clone(), &path).header(header, tag).body("".into());
            all.push(told(format!("{method} {header} {tag}"), &actor.send(request.unwrap()).await, id));
        }
    }
    all.push(told("delete".to_owned(), &actor.delete(&path).await, id));
    all.push(told("restore".to_owned(), &actor.post(&format!("{path}/_restore"), json!({})).await, id));
    let gone = json!({ "ids": [id] });
    all.push(told(
        "batch delete".to_owned(),
        &actor.json(Method::DELETE, &format!("/{table}/_batch"), &gone).await,
        id,
    ));
    for verb in ["get", "delete"] {
        all.push(told(
            format!("tool {verb}"),
            &actor.call_tool(&format!("{table}_{verb}"), json!({ "id": id })).await,
            id,
        ));
    }
    all.append(&mut asked_by_relation(world, actor, planted, id).await);
    all
}

/// Records that would refer to it.
async fn asked_by_relation(world: &World, actor: &Actor, planted: &Planted, id: &str) -> Vec<Told> {
    let mut all = Vec::new();
    for (index, shape) in world.shapes.iter().enumerate().filter(|(_, shape)| shape.leads_to == planted.shape) {
        let own =
            world.planted.iter().find(|one| one.shape == index && !one.in_trash && is_reached(world, one)).unwrap();
        let body = json!({ "link": id });
        let table = &shape.name;
        all.push(told(format!("{table} leads there"), &actor.post(&format!("/{table}"), body.clone()).await, id));
        let path = format!("/{table}/{}", own.id);
        all.push(told(format!("{table} is led there"), &actor.patch(&path, body.clone()).await, id));
        let batch = json!({ "items": [body] });
        all.push(told(
            format!("{table} leads there in a batch"),
            &actor.post(&format!("/{table}/_batch"), batch).await,
            id,
        ));
        let tool = actor.call_tool(&format!("{table}_create"), body).await;
        all.push(told(format!("{table} leads there by a tool"), &tool, id));
        let mut answered = all.iter().filter(|(what, ..)| !what.ends_with("by a tool"));
        assert!(answered.all(|(_, status, _)| *status == 422), "{all:?}");
    }
    all
}

/// The record's true entity tag, as if it had been guessed.
async fn etag(world: &World, planted: &Planted) -> String {
    let (table, call) = (world.table(planted.shape), world.call_of(planted));
    let record = table.get(&call, &planted.id).await;
    record.map_or_else(|_| "\"gone\"".to_owned(), |record| record.etag())
}
