//! Servers with the configurations before and after a change, side by side on one Postgres. The tests follow the steps
//! of `docs/upgrades.md` while clients write to both. No request fails, no value is lost, and each server's stream
//! shows the writes of both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatewright_servers::Folder;
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::harness::{Answer, Client, Database, Finished, Launch, Server, Stream, gatewright};
use crate::outbox::until;

/// Clients that write at the same time, each to all servers in turn.
const WRITERS: usize = 4;
/// Records that are created in each phase of a step.
const RECORDS: usize = 16;

/// The page with the operator's steps. The tests run its SQL.
const PAGE: &str = include_str!("../docs/upgrades.md");

/// A configuration, and how its clients write and read.
#[derive(Debug)]
struct Release {
    /// The fields of `posts`: their names, and the rest of their declarations.
    fields: &'static [(&'static str, &'static str)],
    /// The field that holds a record's text.
    text: &'static str,
    /// Another field that its clients send.
    note: Option<&'static str>,
}

const TITLE: (&str, &str) = ("title", "");
const HEADLINE: (&str, &str) = ("headline", "");
const NOTE: (&str, &str) = ("note", "");
const REQUIRED: &str = "required = true";
const STATE: (&str, &str) = ("state", "default = 'new'");

/// The configurations, in the order in which they replace each other.
static ORIGINAL: Release = Release { fields: &[("title", REQUIRED)], text: "title", note: None };
static ADDED: Release = Release { fields: &[("title", REQUIRED), NOTE, STATE], text: "title", note: Some("n") };
static BOTH_NAMES: Release = Release { fields: &[TITLE, HEADLINE, NOTE, STATE], text: "headline", note: Some("n") };
static RENAMED: Release = Release { fields: &[("headline", REQUIRED), NOTE, STATE], text: "headline", note: None };
static NOTE_REQUIRED: Release =
    Release { fields: &[("headline", REQUIRED), ("note", REQUIRED), STATE], text: "headline", note: Some("n") };
static NOTE_OPTIONAL: Release = Release { fields: RENAMED.fields, text: "headline", note: Some("n") };
static DROPPED: Release = Release { fields: &[("headline", REQUIRED), STATE], text: "headline", note: None };

impl Release {
    fn configuration(&self) -> String {
        let fields = self
            .fields
            .iter()
            .map(|(name, more)| format!("[[entity.field]]\nname = \"{name}\"\ntype = \"string\"\n{more}\n"));
        let fields: String = fields.collect();
        format!("[events]\nfanout = \"postgres\"\n[[entity]]\nname = \"posts\"\npublic = true\n{fields}")
    }

    async fn start(&'static self, database: &Database) -> Arc<Running> {
        let server = Launch::production(&self.configuration()).start(database).await;
        let client = server.client();
        until("the server is ready", async || client.get("/readyz").await.status == 200).await;
        let heard = Arc::new(Mutex::new(BTreeSet::new()));
        let listening = tokio::spawn(listen(client.listen("posts").await, heard.clone()));
        Arc::new(Running { release: self, client, heard, listening, _server: server })
    }
}

/// Runs `gatewright migrate` with a configuration.
fn migrate(configuration: &str, database: &Database, words: &[&str]) -> Finished {
    let folder = Folder::create("blackbox").unwrap();
    std::fs::write(folder.path().join("gatewright.toml"), configuration).unwrap();
    let url = database.url();
    let words = [&["migrate", "--database", &url], words].concat();
    tokio::task::block_in_place(|| gatewright(folder.path(), &words, ""))
}

/// A server, and the records whose creation its stream has shown.
struct Running {
    release: &'static Release,
    client: Client,
    heard: Arc<Mutex<BTreeSet<String>>>,
    listening: JoinHandle<()>,
    _server: Server,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(mut stream: Stream, heard: Arc<Mutex<BTreeSet<String>>>) {
    while let Some(event) = stream.any().await {
        if event.kind == "entity.created" {
            heard.lock().unwrap().insert(event.data["data"]["record"]["id"].as_str().unwrap().to_owned());
        }
    }
}

impl Running {
    async fn create(&self, text: &str) -> String {
        let mut body = json!({ self.release.text: text });
        if let Some(note) = self.release.note {
            body["note"] = json!(note);
        }
        let record = self.client.post("/posts", &body).await.is(201).json()["data"].clone();
        assert_eq!(record[self.release.text], text, "{record}");
        record["id"].as_str().unwrap().to_owned()
    }

    async fn change(&self, id: &str, text: &str) {
        let request = self.client.request(Method::PATCH, &format!("/posts/{id}"));
        let record = Answer::read(request.json(&json!({ self.release.text: text }))).await.is(200).json();
        assert_eq!(record["data"][self.release.text], text, "{record}");
    }

    async fn shows(&self, id: &str, text: &str) {
        let record = self.client.get(&format!("/posts/{id}")).await.is(200).json();
        assert_eq!(record["data"][self.release.text], text, "{record}");
    }

    /// Finds the record by a filter.
    async fn finds(&self, id: &str, text: &str) {
        let request = self.client.request(Method::GET, "/posts").query(&[(self.release.text, text)]);
        let list = Answer::read(request).await.is(200).json();
        assert_eq!(list["data"][0]["id"], id, "{list}");
    }

    /// The texts of all records.
    async fn all(&self) -> BTreeMap<String, String> {
        let (mut texts, mut cursor) = (BTreeMap::new(), String::new());
        loop {
            let page = self.client.get(&format!("/posts?limit=100&cursor={cursor}")).await.is(200).json();
            for record in page["data"].as_array().unwrap() {
                let text = record[self.release.text].as_str().unwrap_or_default();
                texts.insert(record["id"].as_str().unwrap().to_owned(), text.to_owned());
            }
            match page["cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => return texts,
            }
        }
    }
}

/// Clients that write to the running servers, and the values that must be stored.
#[derive(Default)]
struct Traffic {
    servers: Mutex<Vec<Arc<Running>>>,
    /// The latest text of each record.
    texts: Mutex<BTreeMap<String, String>>,
    made: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Traffic {
    fn servers(&self) -> Vec<Arc<Running>> {
        self.servers.lock().unwrap().clone()
    }

    fn made(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    async fn work(self: Arc<Self>, writer: usize) {
        let mut turn = writer;
        while !self.stop.load(Ordering::Relaxed) {
            self.one(turn).await;
            turn += 1;
        }
    }

    /// Creates a record on one server, changes it on the next one, and reads it on both.
    async fn one(&self, turn: usize) {
        let servers = self.servers();
        let (first, second) = (&servers[turn % servers.len()], &servers[(turn + 1) % servers.len()]);
        let text = format!("text {}", self.made());
        let id = first.create(&text).await;
        self.made.lock().unwrap().push(id.clone());
        second.shows(&id, &text).await;
        let text = format!("{text} of {id}");
        second.change(&id, &text).await;
        for server in [first, second] {
            server.shows(&id, &text).await;
            server.finds(&id, &text).await;
        }
        if turn.is_multiple_of(5) {
            let path = format!("/posts/{id}");
            Answer::read(first.client.request(Method::DELETE, &path)).await.is(204);
            second.client.get(&path).await.is(404);
        } else {
            self.texts.lock().unwrap().insert(id, text);
        }
    }

    /// Waits until this many more records are created.
    async fn continues(&self) {
        let enough = self.made() + RECORDS;
        until("enough was written", async || self.made() >= enough || self.stop.load(Ordering::Relaxed)).await;
    }

    /// Starts a server with the next configuration beside the old one, lets clients use both, compares, and stops the
    /// old one.
    async fn release(&self, next: &'static Release, database: &Database) {
        self.continues().await;
        let new = next.start(database).await;
        let before = self.made();
        self.servers.lock().unwrap().push(new);
        self.continues().await;
        let made = self.made.lock().unwrap()[before..].to_vec();
        for server in self.servers() {
            self.is_complete(&server).await;
            until("the stream shows the writes of both servers", async || {
                let heard = server.heard.lock().unwrap();
                made.iter().all(|id| heard.contains(id))
            })
            .await;
        }
        let old = self.servers.lock().unwrap().remove(0);
        until("no client uses the old server", async || Arc::strong_count(&old) == 1).await;
    }

    /// Every record, of this step or an earlier one, has the text that was written last.
    async fn is_complete(&self, server: &Running) {
        let texts = self.texts.lock().unwrap().clone();
        let stored = server.all().await;
        for (id, text) in &texts {
            assert_eq!(stored.get(id), Some(text), "{id}, by {:?}", server.release);
        }
    }
}

/// The block of SQL on the page that begins with this text.
fn sql(words: &str) -> &'static str {
    let mut blocks = PAGE.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.trim_start().starts_with(words));
    block.unwrap_or_else(|| panic!("docs/upgrades.md has no such SQL: {words}")).trim().trim_end_matches(';')
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_and_nothing_is_lost_while_fields_are_added_renamed_required_and_dropped() {
    let Some(database) = Database::postgres().await else { return };
    let run = async |sql: &str| database.execute(Path::new(""), sql).await;
    let traffic = Arc::new(Traffic::default());
    let original = ORIGINAL.start(&database).await;
    traffic.servers.lock().unwrap().push(original);
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(traffic.clone().work(writer))).collect();

    // Add: the new server creates the columns.
    traffic.release(&ADDED, &database).await;

    // Rename: first both names, kept equal by the database; then only the new name.
    let refused = migrate(&BOTH_NAMES.configuration(), &database, &[]);
    let printed = sql("ALTER TABLE \"posts\" ALTER COLUMN \"title\" DROP NOT NULL");
    assert!(refused.status == 1 && refused.err.contains(printed), "{refused:?}");
    run(printed).await;
    let migrated = migrate(&BOTH_NAMES.configuration(), &database, &[]);
    assert_eq!(migrated.status, 0, "{migrated:?}");
    run(sql("CREATE FUNCTION")).await;
    run(sql("UPDATE \"posts\" SET \"headline\"")).await;
    traffic.release(&BOTH_NAMES, &database).await;
    traffic.release(&RENAMED, &database).await;
    traffic.continues().await;
    run(sql("DROP TRIGGER")).await;
    traffic.continues().await;

    // Require: after the old server has stopped, records without the field are found and corrected.
    run("UPDATE posts SET note = 'mended' WHERE note IS NULL").await;
    traffic.release(&NOTE_REQUIRED, &database).await;
    let planned = migrate(&NOTE_REQUIRED.configuration(), &database, &["--plan"]);
    assert!(planned.status == 0 && planned.out.contains("violate `required`"), "{planned:?}");
    run("UPDATE posts SET note = 'mended' WHERE note IS NULL").await;
    let planned = migrate(&NOTE_REQUIRED.configuration(), &database, &["--plan"]);
    assert!(planned.status == 0 && !planned.out.contains("`required`"), "{planned:?}");

    // Drop: first optional, then absent. The column is dropped when no server declares it.
    traffic.release(&NOTE_OPTIONAL, &database).await;
    traffic.release(&DROPPED, &database).await;
    run("ALTER TABLE posts DROP COLUMN note").await;
    traffic.continues().await;

    traffic.stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let last = traffic.servers().remove(0);
    traffic.is_complete(&last).await;
    let record = last.client.get("/posts?limit=1&cursor=").await.is(200).json()["data"][0].clone();
    let keys: Vec<&String> = record.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "headline", "state", "createdAt", "updatedAt"]);
    assert_eq!(record["state"], "new", "records from before the field have its default");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_from_before_a_rename_answers_503_for_that_entity_alone_and_writes_nowhere() {
    const NOTES: &str =
        "[[entity]]\nname = \"notes\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"text\"\n";
    let Some(database) = Database::postgres().await else { return };
    let field = "[[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"headline\"\n\
                 renamed_from = \"title\"\ntype = \"text\"\n";
    let entity = "[[entity]]\nname = \"articles\"\nrenamed_from = \"posts\"\npublic = true\n\
                  [[entity.field]]\nname = \"headline\"\ntype = \"text\"\n";
    let posts = NOTES.replace("notes", "posts");
    let mut old = Launch::production(&format!("{NOTES}{posts}")).start(&database).await;
    let client = old.client();
    let record = client.post("/posts", &json!({ "title": "kept" })).await.is(201).json()["data"].clone();
    let path = format!("/posts/{}", record["id"].as_str().unwrap());
    for (renamed, place) in [(field, "/posts"), (entity, "/articles")] {
        let new = Launch::production(&format!("{NOTES}{renamed}")).start(&database).await;
        let requests = [
            client.request(Method::GET, "/posts"),
            client.request(Method::GET, "/posts?title=kept&sort=title&cursor="),
            client.request(Method::POST, "/posts").json(&json!({ "title": "nowhere" })),
            client.request(Method::POST, "/posts/_batch").json(&json!({ "items": [{ "title": "nowhere" }] })),
            client.request(Method::GET, &path),
            client.request(Method::PATCH, &path).json(&json!({ "title": "lost" })),
            client.request(Method::DELETE, &path),
        ];
        for request in requests {
            let answer = Answer::read(request).await.is(503);
            assert_eq!(answer.json()["code"], "schema_changed");
            assert!(!answer.header("retry-after").is_empty());
            assert!(!answer.text.contains("column") && !answer.text.contains("relation"), "{}", answer.text);
        }
        assert!(old.log().contains("restart this server with that configuration"), "{}", old.log());
        client.post("/notes", &json!({ "title": "as before" })).await.is(201);
        client.get("/readyz").await.is(200);
        let list = new.client().get(place).await.is(200).json();
        assert_eq!((&list["total"], &list["data"][0]["headline"]), (&json!(1), &json!("kept")), "{list}");
    }
    // It does not start again, and names the configuration to use.
    assert_eq!(old.stop().await, Some(0));
    let planned = migrate(&format!("{NOTES}{posts}"), &database, &["--plan"]);
    assert!(planned.status == 1 && planned.err.contains("a newer configuration renamed this table"), "{planned:?}");
}

/// What an old server writes gets its number and its folded text.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_an_old_server_writes_beside_a_new_one_are_numbered_and_compared() {
    const POSTS: &str = "[events]\nfanout = \"postgres\"\n[[entity]]\nname = \"posts\"\npublic = true\n";
    const SLUG: &str = "[[entity.field]]\nname = \"slug\"\ntype = \"string\"\n";
    const NUMBER: &str = "[[entity.field]]\nname = \"number\"\ntype = \"int\"\nsequence = []\n";
    const UNIQUE: &str = "unique = [{ fields = [\"slug\"], ignore_case = true }]\n";
    let Some(database) = Database::postgres().await else { return };
    let before = Launch::production(&format!("{POSTS}{SLUG}")).start(&database).await;
    let old = before.client();
    let create = async |client: &Client, slug: &str| client.post("/posts", &json!({ "slug": slug })).await;
    let first = create(&old, "first").await.is(201).json()["data"].clone();
    let server = Launch::production(&format!("{POSTS}{UNIQUE}{SLUG}{NUMBER}")).start(&database).await;
    let new = server.client();
    let mut stream = new.listen("posts").await;
    let second = create(&old, "Second").await.is(201).json()["data"].clone();
    let path = |record: &serde_json::Value| format!("/posts/{}", record["id"].as_str().unwrap());
    assert_eq!(new.get(&path(&first)).await.is(200).json()["data"]["number"], 1);
    until("the record is numbered", async || new.get(&path(&second)).await.json()["data"]["number"] == 2).await;
    for kind in ["ready", "entity.created", "entity.updated"] {
        assert_eq!(stream.any().await.unwrap().kind, kind);
    }
    // The folded text comes in a transaction of its own, behind the number, and is not visible.
    tokio::time::sleep(Duration::from_secs(2)).await;
    create(&new, "SECOND").await.is(409);
    Answer::read(old.request(Method::PATCH, &path(&second)).json(&json!({ "slug": "Changed" }))).await.is(200);
    until("the old text is free", async || create(&new, "SECOND").await.status == 201).await;
    create(&new, "CHANGED").await.is(409);
}
