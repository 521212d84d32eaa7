//! The TypeScript client in several tabs of one browser: five tables each, over the six connections that a browser opens to a server.

use serde_json::{Value, json};

use crate::client::built;
use crate::harness::{Browser, Database, Launch, PASSWORD, Pages, Scripts, Server, Site};
use crate::outbox::until;

const TABLES: [&str; 5] = ["agents", "tickets", "comments", "files", "watchers"];
const ADA: &str = "ada@example.com";

/// Signs in, reads each list and follows it from there. `window.seen` has what each stream told.
const FOLLOW: &str = r#"
const [url, email, password, tables, options, done] = arguments;
(async () => {
  const { createClient } = await import("/client/index.js");
  const client = (window.client = createClient({ url, prefix: "/api", ...options }));
  if (!options.token && !(await client.auth.me())) {
    await client.auth.register({ email, password });
    await client.auth.signIn({ email, password });
  }
  window.seen = {};
  for (const table of tables) {
    const { eventCursor } = await client.records(table).list().all();
    const seen = (seen_of(table));
    (async () => {
      const { filter } = options;
      for await (const event of client.records(table).events({ since: eventCursor, stalled: 2000, ...(filter && { filter }) })) {
        if (event.type.startsWith("entity.")) seen.titles.push(event.record.title);
        else seen.states.push(event.type);
      }
    })().catch((error) => seen.states.push(`error: ${error}`));
  }
  function seen_of(table) {
    return (window.seen[table] = { titles: [], states: [] });
  }
  done("followed");
})().catch((error) => done(`${error} ${JSON.stringify(error.failure ?? {})}`));
"#;

/// Creates a record of each table, by ordinary requests of the page.
const WRITE: &str = r#"
const [tables, title, done] = arguments;
Promise.all(tables.map((table) => client.records(table).create({ title }))).then(() => done("written"), (error) => done(String(error)));
"#;

/// Creates 60 tickets one after the other, in the background.
const WRITE_ON: &str = r#"
window.written = 0;
(async () => {
  for (; window.written < 60; window.written++) await client.records("tickets").create({ title: `ticket ${window.written}` });
})();
arguments[0]("writing");
"#;

/// An API token of the account that is signed in.
const ISSUE: &str = r#"
const [url, done] = arguments;
(async () => {
  const { csrfToken } = await (await fetch(`${url}/auth/csrf`, { credentials: "include" })).json();
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": csrfToken };
  const body = JSON.stringify({ name: "other", scopes: ["tickets:read"] });
  done((await (await fetch(`${url}/auth/tokens`, { method: "POST", credentials: "include", headers, body })).json()).token);
})();
"#;

/// Follows one more table, from a position or from now on.
const FOLLOW_ONE: &str = r#"
const [table, since, done] = arguments;
const seen = (window.seen[table] = { titles: [], states: [] });
(async () => {
  for await (const event of client.records(table).events({ since })) {
    if (event.type.startsWith("entity.")) seen.titles.push(event.record.title);
    else seen.states.push(event.type);
  }
})().catch((error) => seen.states.push(`error: ${error.failure?.status ?? error}`));
done("following");
"#;

/// The names of the locks that tabs hold: one for each stream that is shared, one for the place of each connection.
const HELD: &str = "navigator.locks.query().then(({ held }) => arguments[0](held.map(({ name }) => name).sort()))";

/// A server, and a browser with pages that have the client.
struct Place {
    server: Server,
    browser: Browser,
    pages: Pages,
}

impl Place {
    async fn open() -> Option<Self> {
        let folder = built().await?;
        let browser = Browser::start(Scripts::On).await?;
        let pages =
            Site::default().folder("/client/", folder).text("", "<!doctype html><title>app</title>").serve().await;
        let entity = |name: &&str| {
            format!("[[entity]]\nname = \"{name}\"\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n")
        };
        let entities = ["extra"].iter().chain(&TABLES).map(entity).collect::<Vec<_>>().concat();
        let origin = pages.origin("127.0.0.1");
        let configuration = format!("[browser_backend]\nallowed_origins = [\"{origin}\"]\n{entities}");
        let server = Launch::configured(&configuration).start(&Database::Sqlite).await;
        Some(Self { server, browser, pages })
    }

    /// Follows the tables in the current tab.
    async fn follow(&self, tables: &[&str], options: Value) {
        self.browser.open(&self.pages.origin("127.0.0.1")).await;
        let url = self.url();
        let done = self.browser.run(FOLLOW, json!([url, ADA, PASSWORD, tables, options])).await;
        assert_eq!(done, "followed");
    }

    /// What the streams of the current tab told.
    async fn seen(&self) -> Value {
        self.browser.run("arguments[0](window.seen)", json!([])).await
    }

    async fn sees(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        until(what, async || is_so(&self.seen().await)).await;
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    async fn has_written(&self, number: i64) {
        until("so many tickets are written", async || {
            self.browser.run("arguments[0](window.written)", json!([])).await.as_i64() >= Some(number)
        })
        .await;
    }
}

fn is_open(seen: &Value) -> bool {
    TABLES.iter().all(|table| seen[table]["states"].as_array().is_some_and(|states| states.contains(&json!("open"))))
}

fn titles(seen: &Value, table: &str) -> Vec<String> {
    let titles = seen[table]["titles"].as_array().into_iter().flatten();
    titles.filter_map(|title| title.as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tabs_share_their_streams_and_none_misses_or_repeats_an_event_when_the_leader_closes() {
    let Some(place) = Place::open().await else { return };
    let first = place.browser.tab().await;
    place.follow(&TABLES, json!({})).await;
    place.sees("the streams of the first tab are open", is_open).await;

    let second = place.browser.open_tab().await;
    place.follow(&TABLES, json!({})).await;
    place.sees("the streams of the second tab are open", is_open).await;
    // Ordinary requests are answered beside ten streams.
    assert_eq!(place.browser.run(WRITE, json!([TABLES, "by the second tab"])).await, "written");
    let all_told = |seen: &Value| TABLES.iter().all(|table| titles(seen, table) == ["by the second tab"]);
    for tab in [&second, &first] {
        place.browser.switch_to(tab).await;
        place.sees("every table is live", all_told).await;
    }

    // The first tab leads every stream. It closes while records are written.
    let wanted: Vec<String> = (0..60).map(|number| format!("ticket {number}")).collect();
    place.browser.switch_to(&second).await;
    assert_eq!(place.browser.run(WRITE_ON, json!([])).await, "writing");
    place.has_written(10).await;
    place.browser.switch_to(&first).await;
    place.browser.close_tab().await;
    place.browser.switch_to(&second).await;
    place.has_written(25).await;
    place.browser.open_tab().await;
    place.follow(&TABLES, json!({})).await;
    place.sees("the streams of the third tab are open", is_open).await;
    place.browser.switch_to(&second).await;
    place.sees("the last ticket", |seen| titles(seen, "tickets").last() == wanted.last()).await;
    let seen = place.seen().await;
    let expected: Vec<&str> = std::iter::once("by the second tab").chain(wanted.iter().map(String::as_str)).collect();
    assert_eq!(titles(&seen, "tickets"), expected, "{seen}");
    for table in TABLES {
        let states = seen[table]["states"].as_array().unwrap();
        assert!(states.iter().all(|state| state == "open" || state == "ready"), "{table}: {states:?}");
    }
    assert_eq!(place.browser.run(WRITE, json!([TABLES, "after"])).await, "written");
    place
        .sees("every table is live", |seen| {
            TABLES.iter().all(|table| titles(seen, table).last().is_some_and(|title| title == "after"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_place_says_so_and_requests_are_answered() {
    let Some(place) = Place::open().await else { return };
    // With a filter, each table has a connection of its own.
    place.follow(&TABLES, json!({ "filter": "title != 'no'" })).await;
    place.sees("the streams are open", is_open).await;
    let all = place.browser.tab().await;
    place.browser.open_tab().await;
    place.follow(&["extra"], json!({})).await;
    place.sees("the sixth stream is stalled", |seen| seen["extra"]["states"] == json!(["stalled"])).await;
    assert_eq!(place.browser.run(WRITE, json!([["extra"], "meanwhile"])).await, "written");
    // A place becomes free, and nothing was missed.
    let waiting = place.browser.tab().await;
    place.browser.switch_to(&all).await;
    place.browser.close_tab().await;
    place.browser.switch_to(&waiting).await;
    place.sees("the sixth stream is live", |seen| titles(seen, "extra") == ["meanwhile"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tabs_of_different_credentials_and_of_other_filters_share_nothing() {
    let Some(place) = Place::open().await else { return };
    place.follow(&["tickets"], json!({})).await;
    let open =
        |seen: &Value| seen["tickets"]["states"].as_array().is_some_and(|states| states.contains(&json!("open")));
    place.sees("open", open).await;
    let held = async || place.browser.run(HELD, json!([])).await.as_array().unwrap().clone();
    assert_eq!(held().await.len(), 2, "{:?}", held().await);
    let token = place.browser.run(ISSUE, json!([place.url()])).await;
    place.browser.open_tab().await;
    place.follow(&["tickets"], json!({})).await;
    place.sees("open", open).await;
    assert_eq!(held().await.len(), 2, "the same credential: {:?}", held().await);
    place.browser.open_tab().await;
    place.follow(&["tickets"], json!({ "token": token })).await;
    place.sees("open", open).await;
    let after = held().await;
    assert_eq!(after.len(), 4, "a stream and a place of its own: {after:?}");
    assert!(!json!(after).to_string().contains(token.as_str().unwrap()), "no name shows the credential");
    // Not shared if the program says so.
    place.browser.open_tab().await;
    place.follow(&["tickets"], json!({ "shared": false })).await;
    place.sees("open", open).await;
    assert_eq!(held().await.len(), 5, "only a place: {:?}", held().await);
}

/// Eight tabs, each with five tables, over HTTP/1.1.
#[tokio::test(flavor = "multi_thread")]
async fn eight_tabs_with_five_entities_each_take_one_connection() {
    let Some(place) = Place::open().await else { return };
    let mut tabs = Vec::new();
    for number in 0..8 {
        if number > 0 {
            place.browser.open_tab().await;
        }
        place.follow(&TABLES, json!({})).await;
        place.sees("the streams are open", is_open).await;
        tabs.push(place.browser.tab().await);
    }
    let held = place.browser.run(HELD, json!([])).await;
    assert_eq!(held.as_array().unwrap().len(), 2, "a stream and its place: {held}");
    assert_eq!(place.browser.run(WRITE, json!([TABLES, "to all"])).await, "written");
    for tab in &tabs {
        place.browser.switch_to(tab).await;
        place.sees("every table is live", |seen| TABLES.iter().all(|table| titles(seen, table) == ["to all"])).await;
    }
    // A table that only one of them follows, from a position before: nothing is missed, and others hear nothing of it.
    let before = place
        .browser
        .run("client.records('extra').list().all().then(({ eventCursor }) => arguments[0](eventCursor))", json!([]));
    let before = before.await;
    assert_eq!(place.browser.run(WRITE, json!([["extra", "tickets"], "late"])).await, "written");
    assert_eq!(place.browser.run(FOLLOW_ONE, json!(["extra", before])).await, "following");
    place.sees("what was before", |seen| titles(seen, "extra") == ["late"]).await;
    assert_eq!(place.browser.run(WRITE, json!([["extra", "tickets"], "later"])).await, "written");
    for tab in tabs.iter().rev() {
        place.browser.switch_to(tab).await;
        place.sees("each once", |seen| titles(seen, "tickets") == ["to all", "late", "later"]).await;
    }
    place.browser.switch_to(&tabs[7]).await;
    place.sees("the table of its own", |seen| titles(seen, "extra") == ["late", "later"]).await;
    let held = place.browser.run(HELD, json!([])).await;
    assert_eq!(held.as_array().unwrap().len(), 2, "still one connection: {held}");
}

/// Two positions of one log, an event apart: whichever is asked for first, both tables and the later tab miss nothing.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_begin_at_different_positions_miss_nothing_in_either_order() {
    let Some(place) = Place::open().await else { return };
    place.follow(&TABLES[..1], json!({})).await;
    let cursor = "client.records('extra').list().all().then(({ eventCursor }) => arguments[0](eventCursor))";
    let early = place.browser.run(cursor, json!([])).await;
    assert_eq!(place.browser.run(WRITE, json!([["extra", "tickets"], "one"])).await, "written");
    let late = place.browser.run(cursor, json!([])).await;
    assert_eq!(place.browser.run(WRITE, json!([["extra", "tickets"], "two"])).await, "written");
    let positions = [("extra", &early, "one"), ("tickets", &late, "two")];
    for is_reversed in [false, true] {
        let mut asked = positions;
        if is_reversed {
            asked.reverse();
            // Another tab, which is let in by the first.
            place.browser.open_tab().await;
            place.follow(&TABLES[..1], json!({})).await;
        }
        for (table, since, _) in asked {
            assert_eq!(place.browser.run(FOLLOW_ONE, json!([table, since])).await, "following");
        }
        for (table, _, first) in asked {
            let is_so = |seen: &Value| {
                let titles = titles(seen, table);
                titles.iter().any(|title| title == first) && titles.last().is_some_and(|title| title == "two")
            };
            place.sees("what was before", is_so).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_refused_takes_no_other_with_it() {
    let Some(place) = Place::open().await else { return };
    place.follow(&TABLES[..2], json!({})).await;
    let is_open = |seen: &Value| {
        TABLES[..2]
            .iter()
            .all(|table| seen[table]["states"].as_array().is_some_and(|states| states.contains(&json!("open"))))
    };
    place.sees("the streams are open", is_open).await;
    let first = place.browser.tab().await;
    place.browser.open_tab().await;
    place.follow(&TABLES[..1], json!({})).await;
    assert_eq!(place.browser.run(FOLLOW_ONE, json!(["nothing", null])).await, "following");
    place.sees("it is refused", |seen| seen["nothing"]["states"] == json!(["error: 404"])).await;
    for (number, tab) in [place.browser.tab().await, first].iter().enumerate() {
        place.browser.switch_to(tab).await;
        let title = format!("after {number}");
        assert_eq!(place.browser.run(WRITE, json!([TABLES[..1], title])).await, "written");
        place.sees("the others go on", |seen| titles(seen, TABLES[0]).last() == Some(&title)).await;
    }
    place.sees("without a repeat", |seen| titles(seen, TABLES[0]) == ["after 0", "after 1"]).await;
}
