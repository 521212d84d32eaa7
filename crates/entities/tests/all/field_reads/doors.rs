//! Every way in which a caller could learn about a field that they may not read.

use gatewright_base::Identity;
use gatewright_entities::{Entity, Field, Kind, Unique};
use http::Method;
use serde_json::{Value, json};

use super::super::support::{Answer, World, encoded, user, user_with, worlds};
use super::EDITORS;

/// Tickets in folders. Without `ruled`, the same without the fields that only editors read.
pub(super) fn entities(ruled: bool) -> Vec<Entity> {
    let only = |entity: Entity, field: Field| if ruled { entity.field(field.read(EDITORS)) } else { entity };
    let folders = Entity::new("folders").field(Field::string("title"));
    let folders = only(folders, Field::string("code").unique());
    let tickets = Entity::new("tickets")
        .soft_delete()
        .field(Field::string("subject").required().unique())
        .field(Field::relation("folder", "folders"));
    let tickets = only(tickets, Field::choice("priority", ["low", "high"]).default("low").write(EDITORS));
    let tickets = only(tickets, Field::int("score").index());
    let tickets = only(tickets, Field::string("note"));
    let tickets = only(tickets, Field::relation("reviewer", "users"));
    let tickets = only(tickets, Field::relation("moved", "folders"));
    let tickets = only(tickets, Field::string("serial").unique());
    let tickets = only(tickets, Field::json("meta"));
    let tickets = only(tickets, Field::list("tags", Kind::String));
    let tickets = only(tickets, Field::relation("watchers", "users").many());
    let tickets = only(tickets, Field::relation("places", "folders").many());
    // A number takes an id of the generator too, which both worlds must do.
    let number = Field::int("number").sequence::<String>([]);
    let tickets = if ruled { only(tickets, number) } else { tickets.field(number.hidden()) };
    let searched: &[&str] = if ruled { &["subject", "note"] } else { &["subject"] };
    let tickets = tickets.search_fields(searched.iter().copied());
    let tickets = if ruled { tickets.unique(Unique::of(["folder", "serial"])) } else { tickets };
    vec![folders, tickets]
}

/// What a caller sends: method, path, and a body.
type Door = (Method, String, Option<Value>);

/// The parameters of lists and of one record.
const QUERIES: &[&str] = &[
    "",
    "fields=subject",
    "fields=priority",
    "fields=subject,note",
    "fields=meta",
    "fields=scor",
    "etag=true",
    "etag=true&fields=subject",
    "sort=score",
    "sort=-score",
    "sort=subject,note",
    "sort=scor",
    "sort=number",
    "sort=reviewer.id",
    "sort=moved.title",
    "sort=folder.code",
    "sort=folder.cod",
    "sort=folder.title",
    "priority=high",
    "priority=low",
    "priority_ne=low",
    "tags=red",
    "watchers=ann",
    "watchers_null=true",
    "places=x",
    "sort=tags",
    "sort=watchers",
    "sort=places.title",
    "group=tags",
    "group=watchers",
    "include=watchers",
    "include=places",
    "fields=watchers",
    "score_gt=1",
    "score_null=false",
    "serial=s-1",
    "serial_in=s-1,s-2",
    "note_like=canary",
    "number=1",
    "scor=1",
    "reviewer=ann",
    "moved=x",
    "group=priority",
    "group=reviewer",
    "sum=score",
    "group=folder&max=score",
    "avg=number",
    "group=not",
    "q=canary",
    "q=subject",
    "include=reviewer",
    "include=moved",
    "include=folder",
    "include=move",
    "include=folder&etag=true",
    "include=folder.tickets(folder)",
    "include=folder.tickets(moved)",
    "include=folder.tickets(places)",
    "include=folder.tickets(folder).reviewer",
    "include=folder.tickets(folder).watchers&etag=true",
    "include=places.tickets(folder)",
    "include=folder&fields=subject",
    "cursor=",
    "cursor=&sort=score&limit=1",
    "cursor=&sort=subject&limit=1",
    "trashed=with",
    "trashed=with&score=7",
    "page=1&limit=1&total=exact",
    "format=csv&sort=subject",
    "format=csv&sort=score",
    "format=csv&fields=score",
    "format=csv&score=7",
    "format=csv&q=canary",
    "format=csv&trashed=with",
    "format=ndjson",
    "format=ndjson&etag=true",
    "format=ndjson&fields=subject,note",
    "format=ndjson&filter=score%3E1",
    "format=ndjson&filter=folder.code%3D%27c-1%27",
];

/// Filters of lists and of streams.
const FILTERS: &[&str] = &[
    "priority = 'high'",
    "priority != 'low'",
    "score > 1",
    "score = null",
    "score != null",
    "note ~ 'canary'",
    "length(note) > 3",
    "subject = note",
    "reviewer = @me",
    "reviewer.id = 'ann'",
    "reviewer = 'ann'",
    "moved.title = 'one'",
    "moved != null",
    "folder.code = 'c-1'",
    "folder.code != null",
    "folder.title = 'one'",
    "meta.a = 1",
    "meta has 1",
    "meta = null",
    "number = 1",
    "serial in ['s-1']",
    "scor > 1",
    "!(score > 1)",
    "tags has 'red'",
    "tags = []",
    "length(tags) > 0",
    "watchers = @me",
    "watchers = 'ann'",
    "watchers has 'ann'",
    "watchers != null",
    "watchers = []",
    "length(watchers) = 1",
    "changed(watchers)",
    "@old.watchers = @me",
    "places.title = 'one'",
    "places.code = 'c-1'",
    "any(places, title = 'one')",
    "all(places, title = 'two')",
    "folder.tickets(places).subject = 'first'",
    "length(folder.tickets(folder).tags) > 0",
    "any(folder, code = 'c-1')",
    "folder.tickets(folder).score > 1",
    "folder.tickets(moved).subject = 'a'",
    "any(folder.tickets(folder), score > 1)",
    "score = score",
    "changed(score)",
    "@old.score = 1",
    "true",
];

/// Every way in which a caller could learn about the fields of a record, with values that the record has and has not.
fn doors(folder: &str, ticket: &str) -> Vec<Door> {
    let mut doors: Vec<Door> = Vec::new();
    let mut get = |path: String| doors.push((Method::GET, path, None));
    for query in QUERIES {
        get(format!("/tickets?{query}"));
        get(format!("/tickets/{ticket}?{query}"));
    }
    for filter in FILTERS {
        get(format!("/tickets?filter={}", encoded(filter)));
        get(format!("/tickets/_events?filter={}&slow=x&nosuch=1", encoded(filter)));
    }
    for filter in [
        "tickets(moved).subject = 'a'",
        "tickets(folder).score > 1",
        "any(tickets(folder), note ~ 'c')",
        "tickets(places).subject = 'first'",
        "any(tickets(places), subject = 'first')",
        "tickets(folder).watchers = 'ann'",
        "length(tickets(folder).places) > 0",
    ] {
        get(format!("/folders?filter={}", encoded(filter)));
    }
    for query in [
        "",
        "?code=c-1",
        "?sort=code",
        "?fields=code",
        "?group=code",
        "?q=c",
        "?etag=true",
        "?include=tickets(folder)",
        "?include=tickets(moved)",
        "?include=tickets(places)",
        "?include=tickets(folder).score",
    ] {
        get(format!("/folders{query}"));
        get(format!("/folders/{folder}{query}"));
    }
    doors.extend(writes(folder, ticket));
    doors
}

/// The same by writing.
fn writes(folder: &str, ticket: &str) -> Vec<Door> {
    let mut doors: Vec<Door> = Vec::new();
    for (key, value) in [
        ("priority", json!("low")),
        ("priority", json!("high")),
        ("priority", json!("wrong")),
        ("priority", json!(null)),
        ("score", json!(7)),
        ("score", json!({ "$add": 1 })),
        ("score", json!("x")),
        ("note", json!("canary")),
        ("reviewer", json!("ann")),
        ("reviewer", json!("nobody")),
        ("moved", json!(folder)),
        ("moved", json!("x")),
        ("serial", json!("s-1")),
        ("serial", json!("s-9")),
        ("meta", json!({ "a": 1 })),
        ("tags", json!(["red"])),
        ("tags", json!({ "$append": ["red"] })),
        ("tags", json!(null)),
        ("watchers", json!(["ann"])),
        ("watchers", json!({ "$remove": ["ann"] })),
        ("watchers", json!(["nobody"])),
        ("places", json!([folder])),
        ("places", json!(["x"])),
        ("number", json!(1)),
        ("scor", json!(1)),
        ("subject", json!("first")),
        ("code", json!("c-1")),
        ("subject", json!(null)),
    ] {
        let body = json!({ key: value });
        doors.push((Method::PATCH, format!("/tickets/{ticket}"), Some(body.clone())));
        doors.push((Method::PUT, format!("/tickets/{ticket}"), Some(body.clone())));
        let mut new = json!({ "subject": format!("of {key}") });
        new[key] = value.clone();
        for query in ["", "?on_conflict=subject", "?on_conflict=serial", "?on_conflict=folder,serial", "?on_conflict=x"]
        {
            doors.push((Method::POST, format!("/tickets{query}"), Some(new.clone())));
        }
        let with_id = json!({ "id": ticket, key: value });
        doors.push((Method::PATCH, "/tickets/_batch".to_owned(), Some(json!({ "items": [with_id] }))));
        doors.push((Method::POST, "/tickets/_batch".to_owned(), Some(json!({ "items": [new] }))));
        let operations = json!({ "operations": [
            { "op": "create", "entity": "folders", "data": { "title": "new" }, "as": "f" },
            { "op": "update", "entity": "tickets", "id": ticket, "data": body },
            { "op": "create", "entity": "tickets", "data": { "subject": "of ref", key: { "$ref": "g" } } },
        ] });
        doors.push((Method::POST, "/_batch".to_owned(), Some(operations)));
    }
    doors.push((Method::PATCH, format!("/tickets/{ticket}"), Some(json!({}))));
    doors.push((Method::DELETE, format!("/tickets/{ticket}"), None));
    doors.push((Method::GET, "/tickets?trashed=only".to_owned(), None));
    doors.push((Method::POST, format!("/tickets/{ticket}/_restore"), None));
    doors.push((
        Method::POST,
        "/tickets/_batch".to_owned(),
        Some(json!({ "items": [{ "subject": "a" }, { "subject": "first" }] })),
    ));
    doors
}

/// What an editor stores, in a world where the fields exist or not.
pub(super) async fn store(world: &World, ruled: bool) -> (String, String) {
    let editor = user_with("eve", &["editor"]);
    let with = |body: Value, more: Value| {
        let mut body = body;
        if ruled {
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        body
    };
    let folder = world.post(&editor, "/folders", with(json!({ "title": "one" }), json!({ "code": "c-1" }))).await.id();
    let more = json!({ "priority": "high", "score": 7, "note": "canary", "reviewer": "ann", "moved": folder, "serial": "s-1",
        "meta": { "a": 1 }, "tags": ["red"], "watchers": ["ann"], "places": [folder] });
    let made = world.post(&editor, "/tickets", with(json!({ "subject": "first", "folder": folder }), more)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    world.post(&editor, "/tickets", with(json!({ "subject": "second" }), json!({ "serial": "s-2" }))).await;
    (folder, made.id())
}

async fn knock(world: &World, caller: &Identity, (method, path, body): &Door) -> Answer {
    let ask = world.ask(caller, method.clone(), path);
    let ask = match body {
        Some(body) => ask.json(body),
        None => ask,
    };
    ask.send().await
}

#[tokio::test]
async fn for_callers_without_the_right_a_field_does_not_exist_at_any_door() {
    for caller in [user("ben"), user_with("ben", &["reader"])] {
        let plain = worlds(entities(false)).await;
        for (world, plain) in worlds(entities(true)).await.into_iter().zip(plain) {
            assert_eq!(world.name(), plain.name());
            let ids = store(&world, true).await;
            assert_eq!(ids, store(&plain, false).await, "both worlds give the same ids");
            for door in doors(&ids.0, &ids.1) {
                let [found, expected] = [knock(&world, &caller, &door).await, knock(&plain, &caller, &door).await];
                let headers = |answer: &Answer| {
                    ["etag", "location"]
                        .map(|name| answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
                };
                assert_eq!(
                    (found.status, &found.text, headers(&found)),
                    (expected.status, &expected.text, headers(&expected)),
                    "{}: {door:?}",
                    world.name()
                );
            }
        }
    }
}
