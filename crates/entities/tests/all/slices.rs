//! Searches that look at a bounded number of records for each page.

use gatewright_base::Identity;
use gatewright_db::{Db, params};
use gatewright_entities::operations::{Call, Error, PagePlace};
use gatewright_entities::{Action, Entity, Field, ListQuery, Table};
use serde_json::{Value, json};

use super::support::{anonymous, worlds};

const RECORDS: i64 = 300;
const MOST: u32 = 40;

fn posts() -> Entity {
    Entity::new("posts")
        .access(Action::Read, "public")
        .max_list_limit(10)
        .soft_delete()
        .search_fields(["title"])
        .cursor_fields(["rank"])
        .field(Field::string("title"))
        .field(Field::int("rank"))
        .field(Field::int("plain"))
        .field(Field::string("slug").index())
        .field(Field::string("kind").index())
}

/// Those whose number ends with 99 have one word; from 200 on, all have another word. Some have no rank, some are deleted.
async fn fill(db: &Db) {
    for n in 0..RECORDS {
        let mut title = format!("title {n}");
        if n % 100 == 99 {
            title.push_str(" Seldom");
        }
        if n >= 200 {
            title.push_str(" late");
        }
        let rank = (n % 7 != 0).then_some(n * 31 % 50);
        let sql = "INSERT INTO posts (id, title, rank, plain, slug, kind, created_at, updated_at, deleted_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)";
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let deleted = (n % 13 == 0).then_some(now);
        let (id, slug, kind) = (format!("p{n:04}"), format!("s{n}"), format!("k{}", n % 2));
        db.execute(sql, params![id, title, rank, n, slug, kind, now, deleted]).await.unwrap();
    }
}

/// The ids of all pages, and how many records each page has read.
async fn walk(table: Table<'_>, query: &dyn Fn() -> ListQuery, is_backward: bool) -> (Vec<String>, Vec<Option<u32>>) {
    let call = Call::from(Identity::Anonymous);
    let (mut ids, mut searched, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let query = if is_backward { query().before(&cursor) } else { query().after(&cursor) };
        let page = table.list(&call, &query).await.unwrap();
        let records: Vec<Value> = page.records().unwrap();
        let found = records.iter().map(|record| record["id"].as_str().unwrap().to_owned());
        // Pages that are read backward are in the order of those read forward.
        if is_backward {
            ids.extend(found.rev());
        } else {
            ids.extend(found);
        }
        assert!(searched.len() < 100, "it does not end");
        searched.push(page.searched);
        match page.place {
            PagePlace::Cursor(Some(next)) => cursor = next,
            PagePlace::Cursor(None) => return (ids, searched),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_search_in_slices_finds_the_same_as_a_whole_one() {
    for world in worlds([posts()]).await {
        fill(world.db()).await;
        let table = world.entities.table("posts").unwrap();
        for (text, filter) in [
            ("seldom", ""),
            ("late", ""),
            ("title", ""),
            ("no such word", ""),
            ("", "plain >= 290"),
            ("late", "plain < 250"),
            ("late", "kind = 'k1'"),
            ("", "kind = 'k0' && plain >= 290"),
            ("", "(kind = 'k0' || kind = 'k1') && plain >= 290"),
        ] {
            for sort in ["", "-slug", "-rank"] {
                for is_backward in [false, true] {
                    let whole = || ListQuery::new().search(text).filter(filter).sort(sort);
                    let (expected, unbounded) = walk(table, &whole, is_backward).await;
                    let context = format!("{} {text} {filter} {sort} {is_backward}", world.name());
                    assert!(unbounded.iter().all(Option::is_none), "{context}");
                    for most in [11, MOST, 1_000] {
                        let (found, _) = walk(table, &|| whole().looking_at(most), is_backward).await;
                        assert_eq!(found, expected, "{context} {most}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_search_without_results_stops_at_its_limit_and_reports_the_count() {
    for world in worlds([posts()]).await {
        fill(world.db()).await;
        let table = world.entities.table("posts").unwrap();
        let live = (0..RECORDS).filter(|n| n % 13 != 0).count();
        for sort in ["", "id"] {
            let (found, searched) =
                walk(table, &|| ListQuery::new().search("no such word").sort(sort).looking_at(MOST), false).await;
            assert!(found.is_empty());
            // Every page except the last has read that many, so none has read more.
            let (last, others) = searched.split_last().unwrap();
            assert_eq!(*last, None, "{}", world.name());
            assert!(others.iter().all(|searched| *searched == Some(MOST)), "{}: {others:?}", world.name());
            assert_eq!(others.len(), live / MOST as usize, "{}", world.name());
        }
        let call = Call::from(Identity::Anonymous);
        let page =
            table.list(&call, &ListQuery::new().search("no such word").after("").looking_at(MOST)).await.unwrap();
        let answer: Value = serde_json::from_slice(&page.to_json(gatewright_base::JsonCase::Camel)).unwrap();
        assert_eq!(
            (&answer["data"], &answer["hasMore"], &answer["searched"]),
            (&json!([]), &json!(true), &json!(MOST))
        );
        // An index that leaves too many records is treated like none.
        let of_half = ListQuery::new().filter("kind = 'k1' && plain > 1000").after("");
        assert_eq!(
            table.list(&call, &of_half.looking_at(MOST)).await.unwrap().searched,
            Some(MOST),
            "{}",
            world.name()
        );
        // Records that an index finds, or has in order, are read completely.
        for query in [
            ListQuery::new().condition("slug", "s250").after(""),
            ListQuery::new().filter("slug = 's250' && plain > 3").after(""),
            ListQuery::new().filter("slug = 's250' && plain > 3").sort("plain").after(""),
            ListQuery::new().filter("slug = 's250' && plain > 3"),
            ListQuery::new().filter("slug > 's97' && kind = 'k1'").sort("-plain"),
            ListQuery::new().after(""),
            ListQuery::new(),
            ListQuery::new().filter("slug = 's250'").group_by(["kind"]),
        ] {
            let page = table.list(&call, &query.clone().looking_at(MOST)).await.unwrap();
            assert_eq!(page.searched, None, "{}: {query:?}", world.name());
        }
    }
}

#[tokio::test]
async fn sorting_or_counting_more_than_the_limit_is_refused() {
    for world in worlds([posts()]).await {
        fill(world.db()).await;
        let (table, call) = (world.entities.table("posts").unwrap(), Call::from(Identity::Anonymous));
        for (query, says) in [
            (ListQuery::new().sort("plain").after(""), "no index on \"plain\""),
            (ListQuery::new().sort("-plain").before(""), "no index on \"plain\""),
            (ListQuery::new().search("late").sort("plain,id").after(""), "no index on \"plain\""),
            (ListQuery::new().filter("kind = 'k1'").sort("plain").after(""), "no index on \"plain\""),
            (ListQuery::new().sort("plain"), "cursor="),
            (ListQuery::new().search("no such word"), "cursor="),
            (ListQuery::new().filter("plain > 1000"), "cursor="),
            (ListQuery::new().filter("kind = 'k1'").page(2), "cursor="),
            (ListQuery::new().group_by(["kind"]), "grouped"),
            (ListQuery::new().filter("plain > 1000").group_by(["kind"]), "grouped"),
        ] {
            let refused = table.list(&call, &query.clone().looking_at(MOST)).await;
            let Err(Error::Query(reason)) = refused else { panic!("{}: {query:?}: {refused:?}", world.name()) };
            assert!(reason.contains(says), "{reason}");
            table.list(&call, &query.looking_at(1_000)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn lists_over_http_are_not_sliced() {
    for world in worlds([posts()]).await {
        fill(world.db()).await;
        let answer = world.get(&anonymous(), "/posts?q=no+such+word&cursor=").await.json();
        assert_eq!(answer, json!({ "data": [], "cursor": null, "hasMore": false }), "{}", world.name());
        assert_eq!(world.get(&anonymous(), "/posts?looksAt=3").await.status, 400);
        assert_eq!(world.get(&anonymous(), "/posts?looks_at=3").await.status, 400);
    }
}
