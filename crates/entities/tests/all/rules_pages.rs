//! Pages of lists under rules that lead to few records, to many, to those at the end and to none: each by every order.

use std::cmp::Ordering;

use gatewright_base::Ambient;
use gatewright_db::Engine;
use gatewright_entities::{Action, Entities, Entity, Field};
use serde_json::json;

use super::support::{World, user_with, worlds};

const PROJECTS: usize = 60;
/// More than a list's window of its order holds.
const TASKS: usize = 1_500;
/// From here on, tasks belong to the later projects.
const LATE: usize = 1_200;

fn entities(cursor: &[&str]) -> [Entity; 3] {
    [
        Entity::new("projects").field(Field::string("boss").index()),
        Entity::new("members").field(Field::relation("project", "projects")).field(Field::string("account").index()),
        Entity::new("tasks")
            .soft_delete()
            .max_list_limit(200)
            .cursor_fields(cursor.iter().copied())
            .field(Field::string("title").index())
            .field(Field::int("n"))
            .field(Field::relation("project", "projects"))
            .field(Field::string("assignee").index())
            .rule(
                Action::Read,
                "@roles has 'chief' || project.members(project).account = @me || assignee = @me \
                 || project.boss = @me && n != 3",
            ),
    ]
}

struct Task {
    id: String,
    project: usize,
    title: Option<String>,
    n: usize,
    deleted: bool,
    assignee: Option<&'static str>,
}

fn tasks() -> Vec<Task> {
    let task = |i: usize| Task {
        id: format!("t{i:05}"),
        project: if i < LATE { i % 5 } else { 5 + i % (PROJECTS - 5) },
        title: (!i.is_multiple_of(7)).then(|| format!("title {}", i * 31 % 13)),
        n: i * 17 % 10,
        deleted: i.is_multiple_of(11),
        assignee: i.is_multiple_of(97).then_some("ann"),
    };
    (0..TASKS).map(task).collect()
}

/// Who is a member of a project.
fn members(project: usize) -> Vec<&'static str> {
    let few = [0, 7].contains(&project).then_some("few");
    few.into_iter().chain(["all"]).collect()
}

fn boss(project: usize) -> &'static str {
    if project < 5 { "early" } else { "late" }
}

fn sees(caller: &str, task: &Task) -> bool {
    caller == "chief"
        || members(task.project).contains(&caller)
        || task.assignee == Some(caller)
        || (boss(task.project) == caller && task.n != 3)
}

async fn fill(world: &World, tasks: &[Task]) {
    let now = "'2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'";
    let text = |text: Option<&str>| text.map_or("NULL".to_owned(), |text| format!("'{text}'"));
    let projects: Vec<String> = (0..PROJECTS).map(|p| format!("('p{p}', '{}', {now})", boss(p))).collect();
    let each = (0..PROJECTS).flat_map(|p| members(p).into_iter().map(move |member| (p, member)));
    let members: Vec<String> = each.map(|(p, member)| format!("('m{p}{member}', 'p{p}', '{member}', {now})")).collect();
    let task = |task: &Task| {
        let deleted = text(task.deleted.then_some("2026-01-01T00:00:00.000000Z"));
        let (title, assignee) = (text(task.title.as_deref()), text(task.assignee));
        format!("('{}', {title}, {}, 'p{}', {assignee}, {now}, {deleted})", task.id, task.n, task.project)
    };
    let tasks: Vec<String> = tasks.iter().map(task).collect();
    for (columns, rows) in [
        ("projects (id, boss, created_at, updated_at)", projects),
        ("members (id, project, account, created_at, updated_at)", members),
        ("tasks (id, title, n, project, assignee, created_at, updated_at, deleted_at)", tasks),
    ] {
        world.db().execute(format!("INSERT INTO {columns} VALUES {}", rows.join(", ")), vec![]).await.unwrap();
    }
}

/// Absent titles are the greatest.
fn by_title(left: &Task, right: &Task) -> Ordering {
    (left.title.is_none(), &left.title).cmp(&(right.title.is_none(), &right.title))
}

fn ids(answer: &serde_json::Value) -> Vec<String> {
    answer["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Large pages for those who see much; small ones where many values are merged.
fn page_size(caller: &str) -> usize {
    if ["all", "chief", "early"].contains(&caller) { 190 } else { 70 }
}

/// All pages by cursor, in forward order.
async fn pages(world: &World, caller: &str, query: &str, direction: &str) -> Vec<String> {
    let limit = page_size(caller);
    let caller = user_with(caller, &[caller]);
    let (mut pages, mut from) = (Vec::new(), String::new());
    loop {
        let path = format!("/tasks?limit={limit}&direction={direction}&cursor={from}{query}");
        let page = world.get(&caller, &path).await.json();
        pages.push(ids(&page));
        let Some(cursor) = page["cursor"].as_str() else { break };
        cursor.clone_into(&mut from);
    }
    if direction == "backward" {
        pages.reverse();
    }
    pages.concat()
}

#[tokio::test]
async fn every_page_agrees_with_the_rule() {
    for cursor in [&[][..], &["n"]] {
        for world in worlds(entities(cursor)).await {
            let tasks = tasks();
            fill(&world, &tasks).await;
            for caller in ["few", "all", "early", "late", "ann", "chief", "nobody"] {
                for sort in ["", "title", "-title", "n"] {
                    if !sort.is_empty() && !cursor.is_empty() {
                        continue;
                    }
                    let mut wanted: Vec<&Task> =
                        tasks.iter().filter(|task| !task.deleted && sees(caller, task)).collect();
                    match sort {
                        "title" => wanted.sort_by(|left, right| by_title(left, right)),
                        "-title" => wanted.sort_by(|left, right| by_title(right, left)),
                        "n" => wanted.sort_by_key(|task| task.n),
                        _ => {}
                    }
                    let by_number: Vec<&str> = wanted.iter().map(|task| &*task.id).collect();
                    if sort.is_empty() && !cursor.is_empty() {
                        wanted.sort_by_key(|task| task.n);
                    }
                    let by_cursor: Vec<&str> = wanted.iter().map(|task| &*task.id).collect();
                    let context = format!("{} {caller} sort={sort} cursor_fields={cursor:?}", world.name());
                    let query = if sort.is_empty() { String::new() } else { format!("&sort={sort}") };
                    for direction in ["forward", "backward"] {
                        let found = pages(&world, caller, &query, direction).await;
                        assert_eq!(found, by_cursor, "{context} {direction}");
                    }
                    let (who, limit) = (user_with(caller, &[caller]), page_size(caller));
                    for page in [1, 2, by_number.len() / limit + 1] {
                        let shown = world.get(&who, &format!("/tasks?limit={limit}&page={page}{query}")).await.json();
                        let expected: Vec<&str> =
                            by_number.iter().copied().skip((page - 1) * limit).take(limit).collect();
                        assert_eq!(ids(&shown), expected, "{context} page {page}");
                        assert_eq!(shown["total"], by_number.len(), "{context} page {page}");
                        let path = format!("/tasks?limit={limit}&page={page}&total=estimate{query}");
                        let total = world.get(&who, &path).await.json()["total"].as_u64().unwrap();
                        let all = by_number.len();
                        assert!(total == all as u64 || (total >= 1_000 && all > 1_000), "{context}: {total}");
                    }
                }
                // Filters beside the rule, and the trash.
                for (query, keeps) in [
                    ("&n_gte=8", (|task| !task.deleted && task.n >= 8) as fn(&Task) -> bool),
                    ("&filter=project.boss%3D'late'", |task| !task.deleted && task.project >= 5),
                    ("&trashed=only", |task| task.deleted),
                    ("&trashed=with", |_| true),
                ] {
                    let mut wanted: Vec<&Task> =
                        tasks.iter().filter(|task| keeps(task) && sees(caller, task)).collect();
                    if !cursor.is_empty() {
                        wanted.sort_by_key(|task| task.n);
                    }
                    let wanted: Vec<&str> = wanted.iter().map(|task| &*task.id).collect();
                    let found = pages(&world, caller, query, "forward").await;
                    assert_eq!(found, wanted, "{} {caller} {query} {cursor:?}", world.name());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_membership_counts_from_its_first_list_to_its_last() {
    for world in worlds(entities(&[])).await {
        fill(&world, &tasks()).await;
        let (eve, chief) = (user_with("eve", &[]), user_with("chief", &["chief"]));
        let seen = async || ids(&world.get(&eve, "/tasks?limit=200&cursor=").await.json()).len();
        assert_eq!(seen().await, 0);
        let member = world.post(&chief, "/members", json!({"project": "p9", "account": "eve"})).await.id();
        let expected = tasks().iter().filter(|task| task.project == 9 && !task.deleted).count();
        assert_eq!(seen().await, expected);
        world.delete(&chief, &format!("/members/{member}")).await;
        assert_eq!(seen().await, 0, "{}", world.name());
    }
}

async fn indexes(world: &World) -> Vec<String> {
    let sql = match world.db().engine() {
        Engine::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'tasks' ORDER BY name",
        Engine::Postgres => "SELECT indexname AS name FROM pg_indexes WHERE tablename = 'tasks' ORDER BY indexname",
    };
    let rows = world.db().query(sql, vec![]).await.unwrap();
    let names = rows.iter().map(|row| row.get::<String>("name").unwrap());
    names.filter(|name| name.contains("project") || name.contains("assignee")).collect()
}

#[tokio::test]
async fn a_rule_that_comes_later_brings_the_order_of_lists_into_its_indexes() {
    let ruled = entities(&[]);
    let plain = || {
        let [projects, members, _] = entities(&[]);
        let tasks = Entity::new("tasks")
            .soft_delete()
            .field(Field::string("title").index())
            .field(Field::int("n"))
            .field(Field::relation("project", "projects"))
            .field(Field::string("assignee").index());
        [projects, members, tasks]
    };
    for world in worlds(plain()).await {
        fill(&world, &tasks()).await;
        let before = indexes(&world).await;
        assert_eq!(before, ["tasks.assignee.index", "tasks.project.index"], "{}", world.name());
        let start = async |entities: [Entity; 3]| {
            let builder = Entities::builder(world.db().clone(), Ambient::system()).declare_all(entities);
            builder.build().await.unwrap()
        };
        let count = async || {
            let rows = world.db().query("SELECT COUNT(*) AS count FROM tasks", vec![]).await.unwrap();
            rows[0].get::<i64>("count").unwrap()
        };
        for _again in 0..2 {
            start(ruled.clone()).await;
            assert_eq!(indexes(&world).await, ["tasks.assignee.leading", "tasks.project.leading"], "{}", world.name());
            assert_eq!(count().await, 1_500);
        }
        start(plain()).await;
        assert_eq!(indexes(&world).await, before, "{}", world.name());
        assert_eq!(count().await, 1_500);
    }
}

/// A column that a rule compares becomes the owner's, and back: an index that replaces another stays.
#[tokio::test]
async fn a_column_keeps_an_index_while_a_rule_becomes_an_owner_and_back() {
    let tasks = || Entity::new("tasks").field(Field::string("assignee").index());
    let ruled = || [tasks().rule(Action::Read, "assignee = @me")];
    let owned = || [Entity::new("tasks").owner("assignee")];
    for (before, after) in [(ruled(), owned()), (owned(), ruled())] {
        for world in worlds(before.clone()).await {
            for entities in [after.clone(), before.clone()] {
                let builder = Entities::builder(world.db().clone(), Ambient::system()).declare_all(entities);
                builder.build().await.unwrap();
                assert_eq!(indexes(&world).await.len(), 1, "{}", world.name());
            }
        }
    }
}
