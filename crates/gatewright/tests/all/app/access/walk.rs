//! Walks one identity through every entity, operation and surface.

use std::fmt::Write;

use gatewright::events::{EntityEvent, EventKind};
use gatewright_testing::{Answer, TestApp};
use http::Method;
use serde_json::{Value, json};

use super::people::{ELSEWHERE, Person, TENANT};
use super::table::{ENTITIES, Kind};

/// The owner of a record: the caller; another user; the caller, in a tenant that they do not name.
const WHOSE: [&str; 3] = ["mine", "other", "far"];

/// The purpose of each record, so that no operation disturbs another.
const USES: [&str; 12] = [
    "read",
    "trashed",
    "restored",
    "patched",
    "put",
    "deleted",
    "batch_patched",
    "batch_deleted",
    "tool_patched",
    "tool_deleted",
    "batch_spoiled",
    "events",
];
/// Those that a write changes, where it is allowed.
const PATCHED: [&str; 4] = ["patched", "put", "batch_patched", "tool_patched"];
const DELETED: [&str; 3] = ["deleted", "batch_deleted", "tool_deleted"];

pub(super) struct Walk<'a> {
    app: &'a TestApp,
    person: &'a Person,
    cells: &'a [&'a str],
    wrong: Vec<String>,
}

/// The expectation for one operation.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    Everything,
    Own,
    Refused(u16),
}

impl Promise {
    fn read(cell: &str, at: usize) -> Self {
        match cell.as_bytes()[at] {
            b'+' => Self::Everything,
            b'o' => Self::Own,
            b'0' => Self::Refused(400),
            b'1' => Self::Refused(401),
            b'3' => Self::Refused(403),
            other => panic!("{other} is no promise"),
        }
    }

    /// Whether a record of that kind is accessible.
    fn reaches(self, whose: &str) -> bool {
        match self {
            Self::Everything => whose != "far",
            Self::Own => whose == "mine",
            Self::Refused(_) => false,
        }
    }

    /// The status of an operation on one record.
    fn on(self, whose: &str, success: u16) -> u16 {
        match self {
            Self::Refused(status) => status,
            _ if self.reaches(whose) => success,
            _ => 404,
        }
    }

    /// The status of an operation on no record in particular.
    fn status(self, success: u16) -> u16 {
        if let Self::Refused(status) = self { status } else { success }
    }
}

/// The expectations of one cell.
struct Cell {
    read: Promise,
    create: Promise,
    update: Promise,
    delete: Promise,
}

impl Cell {
    /// The status of a change to one record: a caller who may read it learns that it exists.
    fn change(&self, promise: Promise, whose: &str, success: u16) -> u16 {
        match promise.on(whose, success) {
            404 if self.read.reaches(whose) => 403,
            status => status,
        }
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(app: &'a TestApp, person: &'a Person, cells: &'a [&'a str]) -> Self {
        Self { app, person, cells, wrong: Vec::new() }
    }

    /// Tries everything, and returns the differences from the expectations.
    pub(super) async fn run(mut self) -> Vec<String> {
        for kind in &ENTITIES {
            self.plant(kind).await;
        }
        self.plant_doors().await;
        let tools = self.visible_tools().await;
        for (kind, cell) in ENTITIES.iter().zip(self.cells) {
            let [read, create, update, delete] = [0, 1, 2, 3].map(|at| Promise::read(cell, at));
            let cell = Cell { read, create, update, delete };
            self.reads(kind, &cell).await;
            self.includes(kind, &cell).await;
            self.stream(kind, &cell).await;
            self.writes(kind, &cell).await;
            self.batches(kind, &cell).await;
            self.tools(kind, &cell, tools.as_ref()).await;
            self.found_afterwards(kind, &cell).await;
        }
        self.wrong
    }

    #[expect(clippy::needless_pass_by_value, reason = "what was found and promised is made where it is held together")]
    fn check<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, kind: &Kind, found: T, promised: T) {
        if found != promised {
            self.wrong.push(format!("{}, {}, {what}: {found:?} and not {promised:?}", self.person.name, kind.name));
        }
    }

    fn id(&self, kind: &Kind, whose: &str, purpose: &str) -> String {
        format!("{}-{}-{whose}-{purpose}", self.person.name.replace([' ', '\''], "_"), kind.name)
    }

    /// The existing kinds of records.
    fn whose(kind: &Kind) -> &'static [&'static str] {
        if kind.multi_tenant { &WHOSE } else { &WHOSE[..2] }
    }

    /// Inserts the records without the rules.
    async fn plant(&self, kind: &Kind) {
        let owned = kind.declared.contains("owner_field");
        let mut columns = "id, mark, text, created_at, updated_at".to_owned();
        for (there, column) in [(owned, "user_id"), (kind.multi_tenant, "tenant_id"), (kind.soft_delete, "deleted_at")]
        {
            if there {
                let _infallible = write!(columns, ", {column}");
            }
        }
        let mut rows = Vec::new();
        for whose in Self::whose(kind) {
            for purpose in USES {
                let id = self.id(kind, whose, purpose);
                let time = "'2026-01-01T00:00:00.000000Z'";
                let mut row = format!("'{id}', '{}', '{purpose}', {time}, {time}", quoted(self.person.name));
                if owned {
                    let id = if *whose == "other" { "somebody" } else { &self.person.id };
                    let _infallible = write!(row, ", '{id}'");
                }
                if kind.multi_tenant {
                    let _infallible = write!(row, ", '{}'", if *whose == "far" { ELSEWHERE } else { TENANT });
                }
                if kind.soft_delete {
                    let gone = matches!(purpose, "trashed" | "restored");
                    let _infallible = write!(row, ", {}", if gone { time } else { "NULL" });
                }
                rows.push(format!("({row})"));
            }
        }
        let sql = format!("INSERT INTO {} ({columns}) VALUES {}", kind.name, rows.join(", "));
        self.app.app().db().execute(sql, vec![]).await.unwrap();
    }

    /// A door to each record for reads.
    async fn plant_doors(&self) {
        let columns: Vec<String> = ENTITIES.iter().map(|kind| format!("to_{}", kind.name)).collect();
        let mut rows = Vec::new();
        for whose in WHOSE {
            let targets = ENTITIES.iter().map(|kind| {
                let is_there = Self::whose(kind).contains(&whose);
                if is_there { format!("'{}'", self.id(kind, whose, "read")) } else { "NULL".to_owned() }
            });
            let (mark, targets) = (quoted(self.person.name), targets.collect::<Vec<_>>().join(", "));
            let time = "'2026-01-01T00:00:00.000000Z'";
            rows.push(format!("('{}', '{mark}', {time}, {time}, {targets})", self.door(whose)));
        }
        let columns = columns.join(", ");
        let sql = format!("INSERT INTO doors (id, mark, created_at, updated_at, {columns}) VALUES {}", rows.join(", "));
        self.app.app().db().execute(sql, vec![]).await.unwrap();
    }

    fn door(&self, whose: &str) -> String {
        format!("{}-{whose}", self.person.name.replace([' ', '\''], "_"))
    }

    /// The list's parameters for the records of this walk that serve one purpose.
    fn query(&self, purpose: &str) -> String {
        url::form_urlencoded::Serializer::new(String::new())
            .append_pair("mark", self.person.name)
            .append_pair("text", purpose)
            .finish()
    }

    /// The expected list of the accessible records, in the order of their ids.
    fn promised(&self, kind: &Kind, promise: Promise, purpose: &str) -> Vec<String> {
        let within = Self::whose(kind).iter().filter(|whose| promise.reaches(whose));
        let mut ids: Vec<String> = within.map(|whose| self.id(kind, whose, purpose)).collect();
        ids.sort();
        ids
    }

    async fn reads(&mut self, kind: &Kind, cell: &Cell) {
        let actor = &self.person.actor;
        for (what, query) in [("list", ""), ("list by cursor", "&cursor="), ("list sorted", "&sort=-text,id")] {
            let list = actor.get(&format!("/{}?{}{query}", kind.name, self.query("read"))).await;
            self.check(what, kind, list.status(), cell.read.status(200));
            if list.status() == 200 {
                self.check(what, kind, ids(&list, "/data"), self.promised(kind, cell.read, "read"));
            }
            if list.status() == 200 && query.is_empty() {
                let total = self.promised(kind, cell.read, "read").len();
                self.check("total", kind, list.at("/total"), json!(total));
            }
        }
        for whose in Self::whose(kind) {
            let path = format!("/{}/{}", kind.name, self.id(kind, whose, "read"));
            self.check(&format!("get {whose}"), kind, actor.get(&path).await.status(), cell.read.on(whose, 200));
            let head = actor.send(actor.request(Method::HEAD, &path).body("".into()).unwrap()).await;
            self.check(&format!("head {whose}"), kind, head.status(), cell.read.on(whose, 200));
        }
        if kind.soft_delete {
            let trashed = actor.get(&format!("/{}?trashed=only&{}", kind.name, self.query("trashed"))).await;
            let status = if cell.read.status(200) == 200 { cell.update.status(200) } else { cell.read.status(200) };
            self.check("trash", kind, trashed.status(), status);
            if trashed.status() == 200 {
                self.check("trash", kind, ids(&trashed, "/data"), self.promised(kind, cell.update, "trashed"));
            }
            for whose in Self::whose(kind) {
                let path = format!("/{}/{}", kind.name, self.id(kind, whose, "trashed"));
                let found = actor.get(&path).await.status();
                self.check("get out of the trash", kind, found, cell.read.status(404));
            }
        }
    }

    async fn includes(&mut self, kind: &Kind, cell: &Cell) {
        let actor = &self.person.actor;
        let relation = format!("to_{}", kind.name);
        let pointer = format!("/_included/{}", gatewright::base::to_camel(&relation));
        let mut shown = Vec::new();
        for whose in WHOSE {
            let is_there = Self::whose(kind).contains(&whose) && cell.read.reaches(whose);
            let promised = is_there.then(|| self.id(kind, whose, "read")).map_or(Value::Null, Value::from);
            let door = self.door(whose);
            let one = actor.get(&format!("/doors/{door}?include={relation}")).await;
            self.check("included", kind, one.status(), cell.read.status(200));
            if one.status() == 200 {
                self.check(&format!("included {whose}"), kind, one.at(&format!("/data{pointer}/id")), promised.clone());
            }
            if !self.person.barred_from_tools {
                let tool = actor.call_tool("doors_get", json!({ "id": door, "include": relation })).await;
                self.check("included by tool", kind, tool_status(&tool), cell.read.status(200));
                let found = tool.at(&format!("/result/structuredContent/data{pointer}/id"));
                let expected = if cell.read.status(200) == 200 { promised.clone() } else { Value::Null };
                self.check(&format!("included by tool {whose}"), kind, found, expected);
            }
            shown.push((door, promised));
        }
        shown.sort_by(|a, b| a.0.cmp(&b.0));
        let mark = url::form_urlencoded::Serializer::new(String::new()).append_pair("mark", self.person.name).finish();
        let list = actor.get(&format!("/doors?include={relation}&sort=id&{mark}")).await;
        self.check("included in a list", kind, list.status(), cell.read.status(200));
        if list.status() == 200 {
            let found: Vec<Value> = (0..3).map(|at| list.at(&format!("/data/{at}{pointer}/id"))).collect();
            self.check("included in a list", kind, found, shown.into_iter().map(|(_, id)| id).collect());
        }
    }

    /// Opens the stream, changes a record of each kind, and reads the events. The caller's own record is
    /// the last; every caller who may read at all sees it.
    async fn stream(&mut self, kind: &Kind, cell: &Cell) {
        let mut stream = match self.person.actor.open(&format!("/{}/_events", kind.name)).await {
            Ok(stream) => stream,
            Err(refusal) => return self.check("stream", kind, refusal.status(), cell.read.status(200)),
        };
        self.check("stream", kind, 200, cell.read.status(200));
        let order = ["far", "other", "mine"].into_iter().filter(|whose| Self::whose(kind).contains(whose));
        let mut promised = Vec::new();
        for whose in order {
            let id = self.id(kind, whose, "events");
            let record = json!({ "id": id }).to_string();
            let event = EntityEvent::new(EventKind::Updated, kind.name, kind.name, record);
            let event = if kind.declared.contains("owner_field") {
                let owner = if whose == "other" { "somebody" } else { &*self.person.id };
                event.with_owner(owner)
            } else {
                event
            };
            let event = if kind.multi_tenant {
                event.with_tenant(if whose == "far" { ELSEWHERE } else { TENANT })
            } else {
                event
            };
            drop(self.app.app().bus().publish(event));
            if cell.read.reaches(whose) {
                promised.push(id);
            }
        }
        let mut found = Vec::new();
        let last = self.id(kind, "mine", "events");
        while found.last() != Some(&last) && cell.read.reaches("mine") {
            let (_, data) = stream.next().await.expect("the stream goes on");
            found.push(data["data"]["record"]["id"].as_str().unwrap().to_owned());
        }
        self.check("stream", kind, found, promised);
    }

    async fn writes(&mut self, kind: &Kind, cell: &Cell) {
        let actor = &self.person.actor;
        let table = format!("/{}", kind.name);
        let made = actor.post(&table, json!({ "mark": self.person.name, "text": "made" })).await;
        self.check("create", kind, made.status(), cell.create.status(201));
        for whose in Self::whose(kind) {
            for (method, purpose) in [(Method::PATCH, "patched"), (Method::PUT, "put")] {
                let path = format!("{table}/{}", self.id(kind, whose, purpose));
                let answer = actor.json(method, &path, &json!({ "text": "changed" })).await;
                self.check(&format!("{purpose} {whose}"), kind, answer.status(), cell.change(cell.update, whose, 200));
                if answer.status() == 200 {
                    self.shows_no_more(kind, cell, &answer, "/data");
                }
            }
            let path = format!("{table}/{}", self.id(kind, whose, "deleted"));
            let gone = actor.delete(&path).await.status();
            self.check(&format!("delete {whose}"), kind, gone, cell.change(cell.delete, whose, 204));
            if kind.soft_delete {
                let path = format!("{table}/{}/_restore", self.id(kind, whose, "restored"));
                let answer = actor.post(&path, json!({})).await;
                self.check(&format!("restore {whose}"), kind, answer.status(), cell.update.on(whose, 200));
                if answer.status() == 200 {
                    self.shows_no_more(kind, cell, &answer, "/data");
                }
            }
        }
    }

    /// A caller who may not read sees no field that they did not send.
    fn shows_no_more(&mut self, kind: &Kind, cell: &Cell, answer: &Answer, pointer: &str) {
        let shows = !answer.at(&format!("{pointer}/mark")).is_null();
        self.check("what a change shows", kind, shows, cell.read.status(200) == 200);
        if !shows {
            self.check("the entity tag", kind, answer.header("etag"), None);
        }
    }

    async fn batches(&mut self, kind: &Kind, cell: &Cell) {
        let actor = &self.person.actor;
        let path = format!("/{}/_batch", kind.name);
        let items = json!({ "items": [{ "mark": self.person.name, "text": "made in a batch" }] });
        let made = actor.post(&path, items).await;
        self.check("batch create", kind, made.status(), cell.create.status(200));
        for whose in Self::whose(kind) {
            let id = self.id(kind, whose, "batch_patched");
            let patched = actor.patch(&path, json!({ "items": [{ "id": id, "text": "changed" }] })).await;
            self.check(&format!("batch patch {whose}"), kind, patched.status(), cell.change(cell.update, whose, 200));
            if patched.status() == 200 {
                self.shows_no_more(kind, cell, &patched, "/results/0/data");
            }
            // In a batch, one inaccessible record rolls back the others.
            let both = json!({ "items": [
                { "id": self.id(kind, "mine", "batch_spoiled"), "text": "batch_spoiled" },
                { "id": self.id(kind, whose, "batch_spoiled"), "text": "batch_spoiled" },
            ] });
            let both = actor.patch(&path, both).await;
            self.check(&format!("batch with {whose}"), kind, both.status(), cell.change(cell.update, whose, 200));
            let id = self.id(kind, whose, "batch_deleted");
            let gone = actor.json(Method::DELETE, &path, &json!({ "ids": [id] })).await;
            self.check(&format!("batch delete {whose}"), kind, gone.status(), cell.change(cell.delete, whose, 200));
        }
    }

    async fn visible_tools(&self) -> Option<Vec<String>> {
        let listed = self.person.actor.rpc("tools/list", json!({})).await;
        if self.person.barred_from_tools {
            assert_eq!(listed.status(), 403, "{}", self.person.name);
            return None;
        }
        let tools = listed.is(200).at("/result/tools");
        Some(tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect())
    }

    async fn tools(&mut self, kind: &Kind, cell: &Cell, visible: Option<&Vec<String>>) {
        let actor = &self.person.actor;
        let (name, mark) = (kind.name, self.person.name);
        let Some(visible) = visible else {
            let answer = actor.call_tool(&format!("{name}_list"), json!({})).await;
            return self.check("tool", kind, answer.status(), 403);
        };
        for (verb, promise) in [
            ("list", cell.read),
            ("get", cell.read),
            ("create", cell.create),
            ("update", cell.update),
            ("delete", cell.delete),
        ] {
            let is_visible = visible.contains(&format!("{name}_{verb}"));
            self.check(&format!("{verb} among the tools"), kind, is_visible, promise.status(200) == 200);
        }
        let list = actor.call_tool(&format!("{name}_list"), json!({ "mark": mark, "text": "read" })).await;
        self.check("tool list", kind, tool_status(&list), cell.read.status(200));
        if tool_status(&list) == 200 {
            let found = ids(&list, "/result/structuredContent/data");
            self.check("tool list", kind, found, self.promised(kind, cell.read, "read"));
        }
        let made = actor.call_tool(&format!("{name}_create"), json!({ "mark": mark, "text": "made by a tool" })).await;
        self.check("tool create", kind, tool_status(&made), cell.create.status(200));
        for whose in Self::whose(kind) {
            let got = actor.call_tool(&format!("{name}_get"), json!({ "id": self.id(kind, whose, "read") })).await;
            self.check(&format!("tool get {whose}"), kind, tool_status(&got), cell.read.on(whose, 200));
            let arguments = json!({ "id": self.id(kind, whose, "tool_patched"), "text": "changed" });
            let patched = actor.call_tool(&format!("{name}_update"), arguments).await;
            self.check(
                &format!("tool update {whose}"),
                kind,
                tool_status(&patched),
                cell.change(cell.update, whose, 200),
            );
            if tool_status(&patched) == 200 {
                self.shows_no_more(kind, cell, &patched, "/result/structuredContent/data");
            }
            let arguments = json!({ "id": self.id(kind, whose, "tool_deleted") });
            let gone = actor.call_tool(&format!("{name}_delete"), arguments).await;
            self.check(&format!("tool delete {whose}"), kind, tool_status(&gone), cell.change(cell.delete, whose, 200));
        }
    }

    /// Whatever the answers were: the database contains exactly the allowed changes.
    async fn found_afterwards(&mut self, kind: &Kind, cell: &Cell) {
        let deleted = if kind.soft_delete { "deleted_at" } else { "NULL" };
        let sql = format!("SELECT id, text FROM {} WHERE mark = ?1 AND {deleted} IS NULL ORDER BY id", kind.name);
        let rows = self.app.app().db().query(sql, gatewright_db::params![self.person.name]).await.unwrap();
        let found: Vec<(String, String)> =
            rows.iter().map(|row| (row.get("id").unwrap(), row.get("text").unwrap())).collect();
        let (made, planted): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, text)| text.starts_with("made"));
        let creates = if cell.create.status(200) != 200 {
            0
        } else if self.person.barred_from_tools {
            2
        } else {
            3
        };
        self.check("records that were made", kind, made.len(), creates);
        let mut promised = Vec::new();
        for whose in Self::whose(kind) {
            for purpose in USES {
                let by_tool = purpose.starts_with("tool") && self.person.barred_from_tools;
                let deleted = DELETED.contains(&purpose) && cell.delete.reaches(whose) && !by_tool;
                let restored = purpose == "restored" && cell.update.reaches(whose);
                let in_trash = kind.soft_delete && matches!(purpose, "trashed" | "restored") && !restored;
                if deleted || in_trash {
                    continue;
                }
                let changed = PATCHED.contains(&purpose) && cell.update.reaches(whose) && !by_tool;
                let text = if changed { "changed" } else { purpose };
                promised.push((self.id(kind, whose, purpose), text.to_owned()));
            }
        }
        promised.sort();
        self.check("what is there afterwards", kind, planted, promised);
    }
}

/// The status of a tool's answer.
fn tool_status(answer: &Answer) -> u16 {
    if answer.status() != 200 || answer.at("/result/isError") != json!(true) {
        return answer.status();
    }
    let status = answer.at("/result/structuredContent/status");
    status.as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(0)
}

/// The ids of a list, sorted.
fn ids(answer: &Answer, pointer: &str) -> Vec<String> {
    let records = answer.at(pointer);
    let mut ids: Vec<String> =
        records.as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

/// Text within quotes of SQL.
fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}
