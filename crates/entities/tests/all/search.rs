//! Search by words, as callers see it.

use gatewright_db::{Engine, Value as Stored, params};
use gatewright_entities::{Declarations, Entity, Field, Language, schema};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::support::{World, anonymous, encoded, user, user_with, worlds};

fn language(name: &str) -> Language {
    name.parse().unwrap()
}

fn tickets() -> Entity {
    Entity::new("tickets")
        .public()
        .field(Field::string("title"))
        .field(Field::text("body"))
        .field(Field::choice("state", ["open", "done"]))
        .field(Field::boolean("highlight_me"))
        .search(language("english"), [("title", 4), ("body", 1)])
        .soft_delete()
}

async fn create(world: &World, title: &str, body: &str) -> String {
    world.post(&anonymous(), "/tickets", json!({ "title": title, "body": body, "state": "open" })).await.id()
}

/// The titles of what a query of a list finds, in order.
async fn titles(world: &World, query: &str) -> Vec<String> {
    let found = world.get(&anonymous(), &format!("/tickets?{query}")).await.data();
    found.as_array().unwrap().iter().map(|record| record["title"].as_str().unwrap().to_owned()).collect()
}

async fn refused(world: &World, query: &str) -> String {
    let answer = world.get(&anonymous(), &format!("/tickets?{query}")).await;
    assert_eq!(answer.status, 400, "{query}: {}", answer.text);
    answer.json()["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_best_match_comes_first_and_pages_follow() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        create(&world, "Tea", "printers and a PRINTER").await;
        create(&world, "Printer on fire", "It burns").await;
        create(&world, "Other", "nothing").await;
        let gone = create(&world, "Printed", "printer printer printer printer").await;
        create(&world, "Paper", "the printer's paper").await;
        world.delete(&anonymous(), &format!("/tickets/{gone}")).await;
        assert_eq!(titles(&world, "q=printer").await, ["Printer on fire", "Tea", "Paper"], "{name}");
        assert_eq!(titles(&world, "q=printer&sort=_rank").await, ["Paper", "Tea", "Printer on fire"], "{name}");
        assert_eq!(titles(&world, "q=printer&sort=title").await, ["Paper", "Printer on fire", "Tea"], "{name}");
        assert_eq!(titles(&world, "q=printer+-fire&filter=state%3D'open'").await, ["Tea", "Paper"], "{name}");
        assert_eq!(titles(&world, "q=pri&prefix=true&limit=1&page=2").await, ["Tea"], "{name}");
        assert_eq!(titles(&world, "q=pri&prefix=false").await, Vec::<String>::new(), "{name}");
        assert_eq!(titles(&world, "q=&sort=title&prefix=true&highlight=true").await.len(), 4, "{name}");
        // By cursor, forward and back.
        let (mut cursor, mut seen) = (String::new(), Vec::new());
        loop {
            let page = world
                .get(&anonymous(), &format!("/tickets?q=printer&limit=1&highlight=true&cursor={cursor}"))
                .await
                .json();
            seen.push(page["data"][0]["title"].clone());
            match page["cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!(seen, ["Printer on fire", "Tea", "Paper"], "{name}");
        let back = titles(&world, &format!("q=printer&limit=5&direction=backward&cursor={cursor}")).await;
        assert_eq!(back, ["Printer on fire", "Tea"], "{name}: what is before the last page");
        // Counts, groups and files are those of the found records.
        let page = world.get(&anonymous(), "/tickets?q=printer&limit=1").await.json();
        assert_eq!((&page["total"], &page["hasMore"]), (&json!(3), &json!(true)), "{name}");
        let groups = world.get(&anonymous(), "/tickets?q=printer&group=state").await.data();
        assert_eq!(groups, json!([{ "state": "open", "count": 3 }]), "{name}");
        let file = world.get(&anonymous(), "/tickets?q=printer&format=csv&fields=title").await;
        assert_eq!(file.text, "title\r\nPrinter on fire\r\nTea\r\nPaper\r\n", "{name}");
        let trash = world.get(&anonymous(), "/tickets?q=printer&trashed=only").await.data();
        assert_eq!(trash[0]["title"], "Printed", "{name}");
    }
}

#[tokio::test]
async fn changes_are_found_at_once_and_deleted_records_never() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        let id = create(&world, "Alpha", "one").await;
        let path = format!("/tickets/{id}");
        world.patch(&anonymous(), &path, json!({ "title": "Beta" })).await;
        assert_eq!((titles(&world, "q=alpha").await.len(), titles(&world, "q=beta+one").await.len()), (0, 1), "{name}");
        world.patch(&anonymous(), &path, json!({ "state": "done" })).await;
        assert_eq!(titles(&world, "q=beta").await.len(), 1, "{name}");
        world.patch(&anonymous(), &path, json!({ "body": null })).await;
        assert_eq!((titles(&world, "q=one").await.len(), titles(&world, "q=beta").await.len()), (0, 1), "{name}");
        let batch = json!({ "items": [{ "title": "Gamma" }, { "title": "Gamma rays" }] });
        assert_eq!(world.post(&anonymous(), "/tickets/_batch", batch).await.status, 200, "{name}");
        assert_eq!(titles(&world, "q=gamma").await.len(), 2, "{name}");
        // A batch that fails leaves nothing in the index.
        let batch = json!({ "items": [{ "title": "Delta" }, { "state": "unknown" }] });
        assert_eq!(world.post(&anonymous(), "/tickets/_batch", batch).await.status, 422, "{name}");
        assert_eq!(titles(&world, "q=delta").await.len(), 0, "{name}");
        world.delete(&anonymous(), &path).await;
        assert_eq!(titles(&world, "q=beta").await.len(), 0, "{name}");
        world.post(&anonymous(), &format!("{path}/_restore"), json!({})).await;
        assert_eq!(titles(&world, "q=beta").await.len(), 1, "{name}");
        let removed = world.db().execute("DELETE FROM tickets WHERE id = ?1", params![id]).await.unwrap();
        assert_eq!((removed, titles(&world, "q=beta").await.len()), (1, 0), "{name}");
        assert_eq!(findings(&world).await, Vec::<String>::new(), "{name}");
    }
}

async fn findings(world: &World) -> Vec<String> {
    let declared = Declarations::check(&[tickets()]).unwrap();
    let mut found = Vec::new();
    schema::verify(world.db(), &declared, |finding| found.push(finding.to_string())).await.unwrap();
    found
}

#[tokio::test]
async fn highlights_are_places_in_code_points() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        create(&world, "😀 Running late", "a runner, the RUN").await;
        create(&world, "None", "run").await;
        let found = world.get(&anonymous(), "/tickets?q=run&highlight=true&include=&etag=true").await.data();
        assert_eq!(found[0]["_highlights"], json!({ "title": [[2, 9]], "body": [[14, 17]] }), "{name}");
        assert_eq!(found[1]["_highlights"], json!({ "body": [[0, 3]] }), "{name}");
        assert!(found[0]["_etag"].is_string(), "{name}");
        let found = world.get(&anonymous(), "/tickets?q=run+late&highlight=true&fields=title").await.data();
        assert_eq!(
            found,
            json!([{ "title": "😀 Running late", "_highlights": { "title": [[2, 9], [10, 14]] } }]),
            "{name}"
        );
        let plain = world.get(&anonymous(), "/tickets?q=run&highlight=false").await.data();
        assert!(plain[0].get("_highlights").is_none(), "{name}");
    }
}

/// A page makes words of about one megabyte of texts, and then ends.
#[tokio::test]
async fn a_page_with_highlights_ends_after_a_bound_of_texts() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        for number in 0..6 {
            create(&world, &format!("run {number}"), &"run ".repeat(60_000)).await;
        }
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/tickets?q=run&highlight=true&sort=title&fields=title,body&cursor={cursor}");
            let page = world.get(&anonymous(), &path).await;
            let records = page.data();
            let titles = records.as_array().unwrap().iter().map(|one| one["title"].as_str().unwrap().to_owned());
            let before = seen.len();
            seen.extend(titles);
            assert!((1..=4).contains(&(seen.len() - before)), "{name}");
            assert_eq!(records[0]["_highlights"]["body"].as_array().unwrap().len(), 256, "{name}");
            match page.json()["cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!(seen, ["run 0", "run 1", "run 2", "run 3", "run 4", "run 5"], "{name}");
        let all = world.get(&anonymous(), "/tickets?q=run&sort=title&fields=title,body").await;
        assert_eq!(all.data().as_array().unwrap().len(), 6, "{name}: without highlights, one page");
    }
}

#[tokio::test]
async fn what_a_search_does_not_take_is_refused_with_a_sentence() {
    for world in
        worlds([tickets(), Entity::new("others").public().field(Field::string("title")).search_fields(["title"])]).await
    {
        for (query, detail) in [
            ("q=-a", "q needs a word to find; beside each \"or\" too"),
            ("q=%2B%2B", "q needs a word to find; beside each \"or\" too"),
            (&format!("q={}", "a+".repeat(17)), "q takes at most 16 words"),
            (&format!("q={}", "a".repeat(201)), "q takes at most 200 characters, and not U+0000"),
            ("q=a%00", "q takes at most 200 characters, and not U+0000"),
            ("q=a&prefix=yes", "prefix is true or false"),
            ("q=a&highlight=1", "highlight is true or false"),
            ("sort=-_rank", "sort: _rank goes with q"),
            ("q=a&highlight=true&format=csv", "highlight does not go with an export"),
            ("q=a&q=b", "the parameter \"q\" is given more than once"),
            ("q=a&prefix=true&prefix=true", "the parameter \"prefix\" is given more than once"),
        ] {
            assert_eq!(refused(&world, query).await, detail, "{query}");
        }
        for query in ["q=a&prefix=true", "q=a&highlight=true", "q=a&sort=-_rank"] {
            assert_eq!(world.get(&anonymous(), &format!("/others?{query}")).await.status, 400, "{query}");
        }
        // Without an index, a part of a text is found as before.
        world.post(&anonymous(), "/others", json!({ "title": "Running" })).await;
        assert_eq!(world.get(&anonymous(), "/others?q=UNN").await.data()[0]["title"], "Running");
    }
}

/// The syntaxes of FTS5 and of `tsquery` are text, whatever a caller sends.
#[tokio::test]
async fn no_syntax_of_an_engine_reaches_it() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        create(&world, "secret title", "plain body").await;
        for attack in [
            "title : secret",
            "c0:secret",
            "{c0} : secret",
            "NEAR(secret title, 9)",
            "secret AND NOT body",
            "sec*",
            "^secret",
            "\"secret\" + \"title\"",
            "a\"\" OR \"secret",
            "secret:* | x",
            "secret & !x",
            "'secret' <-> 'body'",
            "secret:A",
            "!!secret",
            "\\' OR 1=1 --",
            "'; DROP TABLE tickets; --",
            "secret) OR (1=1",
            "\u{f8ff}",
            "\u{e027}",
            "'",
            "\\",
            "&|!<->()",
            "rank MATCH 'x'",
            "delete",
            "\"\u{0}\"".trim_matches('\u{0}'),
        ] {
            for more in ["", "&prefix=true", "&highlight=true&sort=-_rank,title"] {
                let answer = world.get(&anonymous(), &format!("/tickets?q={}{more}", encoded(attack))).await;
                assert!(
                    [200, 400].contains(&answer.status.as_u16()),
                    "{name}: {attack}: {} {}",
                    answer.status,
                    answer.text
                );
            }
        }
        // Operators of an engine are words that no record has.
        for attack in
            ["NEAR(secret title, 9)", "secret AND NOT body", "c0:secret", "secret:A", "\"secret\" \"body\" NOT x"]
        {
            assert_eq!(titles(&world, &format!("q={}", encoded(attack))).await.len(), 0, "{name}: {attack}");
        }
        assert_eq!(titles(&world, "q=secret").await, ["secret title"], "{name}");
    }
}

/// Neither the records, nor their order, nor the highlights depend on a field that the caller may not read, or on records of others.
#[tokio::test]
async fn what_a_caller_cannot_read_neither_matches_nor_ranks() {
    let notes = Entity::new("notes")
        .owner("user_id")
        .cross_owner_read("posts:read")
        .field(Field::string("title"))
        .field(Field::text("secret").read("@roles has 'editor'"))
        .search(Language::SIMPLE, [("title", 1), ("secret", 100)]);
    for world in worlds([notes]).await {
        let name = world.name();
        let (ann, ben, editor) = (user("ann"), user("ben"), user_with("ann", &["editor"]));
        for (title, secret) in
            [("one apple", "pear"), ("two apple apple", "none"), ("three", "apple apple apple apple apple")]
        {
            let made = world.post(&editor, "/notes", json!({ "title": title, "secret": secret })).await;
            assert_eq!(made.status, 201, "{name}: {}", made.text);
        }
        let found = async |caller: &_, query: &str| -> Vec<Value> {
            let found = world.get(caller, &format!("/notes?q={query}&highlight=true")).await.data();
            found.as_array().unwrap().iter().map(|record| record["title"].clone()).collect()
        };
        assert_eq!(found(&editor, "apple").await, ["three", "two apple apple", "one apple"], "{name}");
        assert_eq!(found(&ann, "apple").await, ["two apple apple", "one apple"], "{name}");
        assert_eq!(found(&ann, "pear").await, Vec::<Value>::new(), "{name}");
        assert_eq!(
            found(&ann, "apple+-pear").await,
            ["two apple apple", "one apple"],
            "{name}: an exclusion reveals nothing"
        );
        assert_eq!(found(&ben, "apple").await, Vec::<Value>::new(), "{name}");
        let shown = world.get(&ann, "/notes?q=apple&highlight=true").await.text;
        assert!(!shown.contains("secret"), "{name}: {shown}");
        // Records of others do not change an order.
        let before = world.get(&ann, "/notes?q=apple").await.text;
        for _ in 0..20 {
            world.post(&ben, "/notes", json!({ "title": "apple" })).await;
        }
        assert_eq!(world.get(&ann, "/notes?q=apple").await.text, before, "{name}");
    }
    let hidden = Entity::new("notes").public().field(Field::string("secret").read("@roles has 'editor'"));
    for world in worlds([hidden.search(Language::SIMPLE, [("secret", 1)])]).await {
        world.get(&anonymous(), "/notes?q=a").await.is_refused(400, "q: none of the fields here can be searched");
    }
}

/// An old server beside this one writes texts without words.
#[tokio::test]
async fn records_of_an_older_server_are_found_after_they_are_completed() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        let own = create(&world, "Alpha", "one").await;
        let id = "01890000-0000-7000-8000-000000000001";
        let sql = "INSERT INTO tickets (id, title, body, created_at, updated_at) VALUES (?1, 'Beta', NULL, ?2, ?2)";
        world.db().execute(sql, params![id, Stored::Time(Timestamp::UNIX_EPOCH)]).await.unwrap();
        world.db().execute("UPDATE tickets SET title = 'Gamma' WHERE id = ?1", params![&own]).await.unwrap();
        assert_eq!(titles(&world, "q=beta").await.len() + titles(&world, "q=gamma").await.len(), 0, "{name}");
        assert_eq!((findings(&world).await.len(), world.rows("gatewright_marks").await), (0, 2), "{name}: they wait");
        assert_eq!(world.entities.complete_marked().await.unwrap(), 2, "{name}");
        assert_eq!((titles(&world, "q=beta").await.len(), titles(&world, "q=gamma+one").await.len()), (1, 1), "{name}");
        assert_eq!((titles(&world, "q=alpha").await.len(), world.rows("gatewright_marks").await), (0, 0), "{name}");
        assert_eq!(findings(&world).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn verify_names_records_that_an_index_has_otherwise() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        let id = create(&world, "Alpha", "one").await;
        create(&world, "Beta", "two").await;
        let words = if world.db().engine() == Engine::Sqlite { "'x y'" } else { "CAST('x:1 y:2' AS tsvector)" };
        let sql = format!("UPDATE tickets SET \"title.english\" = {words} WHERE id = ?1");
        world.db().execute(sql, params![&id]).await.unwrap();
        let found = findings(&world).await;
        assert!(
            found.len() == 1 && found[0].contains(&format!("tickets.title of {id:?}: has other words")),
            "{name}: {found:?}"
        );
        world.patch(&anonymous(), &format!("/tickets/{id}"), json!({ "title": "Alpha" })).await;
        assert_eq!(findings(&world).await, Vec::<String>::new(), "{name}");
        if world.db().engine() == Engine::Sqlite {
            let row = world.db().query_opt("SELECT definition FROM gatewright_search", vec![]).await.unwrap().unwrap();
            let index: String = row.get("definition").unwrap();
            let lost = format!("DELETE FROM \"gatewright_search.{index}_data\" WHERE id > 10");
            world.db().execute(lost, vec![]).await.unwrap();
            let found = findings(&world).await;
            assert!(found.len() == 1 && found[0].contains("the search index"), "{name}: {found:?}");
            world.db().execute(format!("DELETE FROM \"gatewright_search.{index}.ids\""), vec![]).await.unwrap();
            let found = findings(&world).await;
            assert!(found[0].contains("(2 differ)"), "{name}: {found:?}");
        }
    }
}
