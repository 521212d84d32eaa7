//! Which statements a list under a rule runs, and how the engines execute them.

use std::collections::BTreeSet;

use gatewright_base::Ambient;
use gatewright_db::testing::engines;
use gatewright_db::{Db, Engine, Lane, Share};

use super::*;
use crate::access::Action;
use crate::condition::plans::{call, entities, fill, fill_with, plan_of};
use crate::context::admission::reach;
use crate::operations::list::{PagePlace, ready};
use crate::{Entities, ListQuery};

const WANTED: i64 = 26;

#[derive(serde::Deserialize)]
struct Id {
    id: String,
}

async fn reading(entities: &Entities, user: &str, pairs: &[(&str, &str)]) -> Box<Reading> {
    let table = entities.table("tasks").unwrap();
    let query: ListQuery = pairs.iter().copied().collect();
    let reach = reach(table, &call(user), Action::Read).await.unwrap();
    ready(table, &call(user), &query, reach).await.unwrap().0
}

/// The first statement, the statements that its result leads to, and the ids of the page.
struct Asked {
    first: (Sql, Vec<Value>),
    then: Vec<(Sql, Vec<Value>)>,
    /// One for each value, if they run separately.
    each: Vec<(Sql, Vec<Value>)>,
}

async fn asked(db: &Db, reading: Box<Reading>) -> Asked {
    let read = db.read(async move |tx: &Tx| -> Result<_, DatabaseError> {
        let order = Keyset::by_id();
        let part = Part { range: &|_| order.whole(), wanted: WANTED, offset: 0 };
        let rule = &reading.reach.conditions()[0];
        let leads = rule.rule.resolved.condition.leads(&|column| reading.plan.is_indexed(column)).unwrap();
        let first = rule.values_of(&leads, FEW + 1).unwrap();
        let (mut then, mut each) = (Vec::new(), Vec::new());
        if let RecordLocation::Led(at, branches) = reading.find(tx).await? {
            if all_known(&branches) {
                then.push(reading.merged("\"id\"", at, &branches, &part));
            }
            if reading.is_asked_singly(&branches) {
                let led = (&reading.reach.conditions()[at], &*branches);
                let statements = reading.plan.sql.of_each_value(&reading.without(at, Form::Single), led, &part);
                each.extend(statements.iter().flat_map(|(one, values)| values.iter().map(|value| one.of(value))));
            }
            then.extend(reading.window("\"id\"", &order, at, &branches, &part));
            if let RecordLocation::Led(at, branches) = reading.follow(tx, at, leads, MANY).await? {
                then.push(reading.merged("\"id\"", at, &branches, &part));
            }
        }
        Ok(Asked { first: (first.0.into(), first.1), then, each })
    });
    read.await.unwrap()
}

/// How many rows of `table` Postgres read, according to its plan.
fn rows_read(plan: &str, table: &str) -> usize {
    let number = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.trim_start().split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    let (mut sum, mut loops, mut inside) = (0, 1, false);
    for line in plan.lines() {
        if line.contains("(actual") {
            inside = line.contains(&format!(" on {table}")) && !line.contains("Subquery Scan");
            loops = number(line, "loops=").unwrap_or(1);
            sum += if inside { number(line, "rows=").unwrap_or(0) * loops } else { 0 };
        } else if inside && line.contains("Rows Removed") {
            sum += number(line, ":").unwrap_or(0) * loops;
        }
    }
    sum
}

async fn built(db: &Db) -> Entities {
    let builder = Entities::builder(db.clone(), Ambient::system()).declare_all(entities());
    let entities = builder.build().await.expect("entities");
    fill(db).await;
    entities
}

/// Otherwise a list could show a record that was added to a project after the reader was removed from it.
#[tokio::test]
async fn leads_and_their_records_are_read_in_one_snapshot() {
    for engine in engines().await.into_iter().filter(|engine| engine.db.engine() == Engine::Postgres) {
        let builder = Entities::builder(engine.db.clone(), Ambient::system()).declare_all(entities());
        let reading = reading(&builder.build().await.expect("entities"), "u7", &[]).await;
        let lists = engine.db.clone().lane(Lane::Lists(Share(1)));
        let level = lists.read(async move |tx: &Tx| -> Result<Option<String>, DatabaseError> {
            reading.find(tx).await?;
            let sql = "SELECT current_setting('transaction_isolation') AS level";
            tx.query_opt(sql, vec![]).await?.map(|row| row.get("level")).transpose()
        });
        assert_eq!(level.await.unwrap().as_deref(), Some("repeatable read"));
    }
}

#[tokio::test]
async fn a_member_and_a_stranger_read_no_more_of_the_table_than_a_page_needs() {
    for engine in engines().await {
        let db = &engine.db;
        let entities = built(db).await;
        // A member of twenty projects with four tasks each, and a user who is named nowhere.
        for (user, most) in [("u7", 400), ("nobody", 0)] {
            let asked = asked(db, reading(&entities, user, &[]).await).await;
            let lines = plan_of(db, &asked.first.0, asked.first.1).await;
            for whole in ["Seq Scan", "SCAN r", "SCAN _r", "SCAN members", "SCAN projects", "tasks"] {
                assert!(!lines.contains(whole), "{}: {user}: {lines}", engine.name);
            }
            assert_eq!(asked.then.len(), 3, "{}: {user}", engine.name);
            for (sql, params) in asked.then {
                let lines = plan_of(db, &sql, params).await;
                assert!(!lines.contains("Seq Scan on"), "{}: {}\n{lines}", engine.name, sql.as_str());
                // The window reads rows in list order, the branches read the rows of their values.
                let is_window = sql.as_str().contains("LIMIT 1000");
                let most = if is_window { 1_000 } else { most };
                let read = rows_read(&lines, "tasks");
                assert!(read <= most, "{}: {user}: {read} rows\n{lines}", engine.name);
                if !is_window {
                    assert!(!lines.contains("SCAN tasks"), "{}: {}\n{lines}", engine.name, sql.as_str());
                    assert!(!lines.contains("USE TEMP B-TREE FOR LAST"), "{}: {lines}", engine.name);
                }
            }
        }
        // The public way finds the same as the whole condition.
        let none = entities.table("tasks").unwrap().list(&call("nobody"), &ListQuery::new()).await.unwrap();
        assert_eq!((none.json.as_slice(), none.has_more), (&b"[]"[..], false));
    }
}

#[tokio::test]
async fn all_ways_find_the_same_records() {
    for engine in engines().await {
        let db = &engine.db;
        let entities = built(db).await;
        join(db, "guest", &["p1", "p2", "p3", "p4", "p5"], 2).await;
        let many: Vec<String> = (1..36).map(|n| format!("p{n}")).collect();
        join(db, "many", &many.iter().map(String::as_str).collect::<Vec<_>>(), 1).await;
        for (user, pairs) in [
            ("guest", &[][..]),
            ("many", &[]),
            ("u7", &[]),
            ("u7", &[("filter", "project.name = 'x' && assignee != null")]),
            ("u499", &[("assignee", "u499")]),
            ("u4999", &[]),
        ] {
            let collected = reading(&entities, user, pairs).await;
            let order = Keyset::by_id();
            let part = Part { range: &|_| order.whole(), wanted: WANTED, offset: 0 };
            let (sql, params) = collected.collected("\"id\"", &collected.scope, &part);
            let wanted = db.query(sql, params).await.unwrap();
            let wanted: Vec<String> = wanted.iter().map(|row| row.get("id").unwrap()).collect();
            assert!(!wanted.is_empty(), "{user}");
            // As callers get it: the second page, forward and backward.
            let tasks = entities.table("tasks").unwrap();
            let query = || pairs.iter().copied().collect::<ListQuery>().limit(7);
            let mut list = tasks.list(&call(user), &query().after("")).await.unwrap();
            let mut pages = vec![list.records::<Id>().unwrap()];
            for is_backward in [false, true].into_iter().filter(|_| wanted.len() > 14) {
                let PagePlace::Cursor(Some(cursor)) = &list.place else { panic!("{user}: {list:?}") };
                let query = if is_backward { query().before(cursor) } else { query().after(cursor) };
                list = tasks.list(&call(user), &query).await.unwrap();
                pages.push(list.records().unwrap());
            }
            let pages: Vec<Vec<String>> =
                pages.into_iter().map(|page| page.into_iter().map(|id| id.id).collect()).collect();
            let mut expected = vec![&wanted[..wanted.len().min(7)]];
            expected.extend(wanted.get(7..14).filter(|_| wanted.len() > 14).into_iter().flat_map(|page| [page, page]));
            assert_eq!(pages, expected, "{}: {user}", engine.name);
            for (sql, params) in asked(db, reading(&entities, user, pairs).await).await.then {
                let rows = db.query(sql.clone(), params).await.unwrap();
                let found: Vec<String> = rows.iter().map(|row| row.get("id").unwrap()).collect();
                // A window may find less, and nothing else.
                let is_window = sql.as_str().contains("LIMIT 1000");
                let expected = if is_window { &wanted[..found.len()] } else { &wanted[..] };
                assert_eq!(found, expected, "{}: {user}: {}", engine.name, sql.as_str());
            }
        }
    }
}

/// Makes a user a member of this many projects each.
async fn join(db: &Db, user: &str, projects: &[&str], times: usize) {
    let now = if db.engine() == Engine::Postgres { "now()" } else { "'2026-01-01T00:00:00.000000Z'" };
    for project in projects {
        for again in 0..times {
            let sql = format!(
                "INSERT INTO members (id, project, account, created_at, updated_at) \
                 VALUES ('{user}{project}x{again}', '{project}', '{user}', {now}, {now})"
            );
            db.execute(sql, vec![]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn pages_of_any_size_and_number_share_a_few_statements() {
    for engine in engines().await {
        let builder = Entities::builder(engine.db.clone(), Ambient::system()).declare_all(entities());
        let reading = reading(&builder.build().await.expect("entities"), "u7", &[]).await;
        let order = Keyset::by_id();
        let mut statements = BTreeSet::new();
        for wanted in 1..=100 {
            for page in 0..20 {
                let part = Part { range: &|_| order.whole(), wanted, offset: page * (wanted - 1) };
                let (sql, _) = reading.window("\"id\"", &order, 0, &[], &part).expect("ids have an index");
                statements.insert(sql.as_str().to_owned());
            }
        }
        assert!(statements.len() <= 7, "{}: {}", engine.name, statements.len());
    }
}

/// The steps of SQLite's machine that a statement takes.
fn steps(url: &str, sql: &str, params: &[Value]) -> i32 {
    let file = url.strip_prefix("sqlite://").unwrap();
    let connection = rusqlite::Connection::open(file).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    for (index, param) in params.iter().enumerate() {
        match param {
            Value::Text(text) => statement.raw_bind_parameter(index + 1, text).unwrap(),
            Value::Int(number) => statement.raw_bind_parameter(index + 1, number).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    let mut rows = statement.raw_query();
    while rows.next().unwrap().is_some() {}
    drop(rows);
    statement.get_status(rusqlite::StatementStatus::VmStep)
}

#[tokio::test]
async fn a_list_under_a_rule_reads_no_more_rows_in_a_larger_table() {
    let mut taken = Vec::new();
    for tasks in [10_000, 40_000] {
        let engine = engines().await.swap_remove(0);
        let db = &engine.db;
        let builder = Entities::builder(db.clone(), Ambient::system()).declare_all(entities());
        let entities = builder.build().await.expect("entities");
        fill_with(db, tasks).await;
        join(db, "guest", &["p1", "p2", "p3", "p4", "p5"], 1).await;
        let mut all = Vec::new();
        for user in ["guest", "nobody"] {
            let asked = asked(db, reading(&entities, user, &[]).await).await;
            all.push(steps(&engine.url, asked.first.0.as_str(), &asked.first.1));
            // The projects, and the caller's own id.
            assert_eq!(asked.each.len(), if user == "guest" { 6 } else { 1 });
            all.extend(
                asked.then.iter().chain(&asked.each).map(|(sql, params)| steps(&engine.url, sql.as_str(), params)),
            );
        }
        taken.push((all, steps(&engine.url, "SELECT MAX(project || assignee) FROM tasks", &[])));
    }
    let [(few, whole_of_few), (many, whole_of_many)] = &taken[..] else { unreachable!() };
    assert!(*whole_of_many > 3 * whole_of_few, "a statement that reads the table shows: {taken:?}");
    assert_eq!(few.len(), many.len());
    for (few, many) in few.iter().zip(many) {
        assert!(*many <= few + few / 10 + 50, "{taken:?}");
    }
}
