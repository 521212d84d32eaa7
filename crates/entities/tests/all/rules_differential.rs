//! Generated rules and filters over generated data: the database must decide as an evaluator that shares no code with it.
//!
//! `GATEWRIGHT_TEST_RULES=100` generates a hundred times as many of both, from another seed.

mod evaluator;
mod sorts;
mod streams;

use std::collections::BTreeMap;

use gatewright_base::Identity;
use gatewright_entities::{Action, Call, Entities, Entity, Field, Kind};
use http::Method;
use serde_json::{Map, Value, json};

use self::evaluator::World2;
use super::support::{Answer, World, encoded, user_with, worlds};

type Row = Map<String, Value>;

/// The evaluator's own data: records by table.
type Data = BTreeMap<&'static str, Vec<Row>>;

/// The multiple of the usual number of cases, and the seed.
fn scale() -> (usize, u64) {
    let times = std::env::var("GATEWRIGHT_TEST_RULES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    (times, if times == 1 { 0 } else { times as u64 })
}

const TABLES: [&str; 3] = ["projects", "members", "tasks"];

fn entities() -> [Entity; 4] {
    [
        Entity::new("projects")
            .public()
            .soft_delete()
            .field(Field::string("name"))
            .field(Field::relation("owner", "users"))
            .field(Field::relation("parent", "projects"))
            .field(Field::boolean("closed")),
        Entity::new("members")
            .public()
            .field(Field::relation("project", "projects"))
            .field(Field::relation("user", "users"))
            .field(Field::choice("role", ["viewer", "editor"])),
        tasks(),
        notes(),
    ]
}

/// The relations that lead to tasks from other entities.
fn notes() -> Entity {
    Entity::new("notes").public().max_list_limit(1000).field(Field::relation("task", "tasks"))
}

fn tasks() -> Entity {
    Entity::new("tasks")
        .public()
        .max_list_limit(1000)
        .field(Field::string("title"))
        .field(Field::int("n"))
        .field(Field::relation("project", "projects"))
        .field(Field::relation("assignee", "users"))
        .field(Field::relation("approver", "users"))
        .field(Field::json("meta"))
        .field(Field::json("tags"))
        .field(Field::relation("watchers", "users").many())
        .field(Field::relation("others", "projects").many())
        .field(Field::list("labels", Kind::String))
}

/// The relations to many records.
const MANY: [&str; 2] = ["watchers", "others"];

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Forward(&'static str),
    Back(&'static str, &'static str),
}

#[derive(Clone, Debug)]
struct Path {
    steps: Vec<Step>,
    field: &'static str,
    keys: Vec<&'static str>,
}

#[derive(Clone, Debug)]
enum Rule {
    Any(Vec<Rule>),
    All(Vec<Rule>),
    Not(Box<Rule>),
    /// A path, an operator and a literal; `@me` and `@tenant` are literals in text.
    Compare(Path, &'static str, Value),
    Me(Path, bool),
    Paths(Path, &'static str, Path),
    Has(Path, Value),
    /// The number of ids or items, an operator and a number.
    Length(Path, &'static str, usize),
    Role(&'static str),
    Each(bool, Vec<Step>, Box<Rule>),
}

/// The relations of a table, and their targets.
fn ways(table: &str) -> Vec<(Step, &'static str)> {
    match table {
        "projects" => vec![
            (Step::Forward("parent"), "projects"),
            (Step::Back("members", "project"), "members"),
            (Step::Back("tasks", "project"), "tasks"),
            (Step::Back("projects", "parent"), "projects"),
            (Step::Back("tasks", "others"), "tasks"),
        ],
        "tasks" => vec![(Step::Forward("project"), "projects"), (Step::Forward("others"), "projects")],
        _ => vec![(Step::Forward("project"), "projects")],
    }
}

fn walk(dice: &mut Dice, table: &'static str, most: usize) -> (Vec<Step>, &'static str) {
    let (mut steps, mut table) = (Vec::new(), table);
    for _ in 0..dice.roll(most + 1) {
        let (step, next) = dice.pick(&ways(table));
        steps.push(step);
        table = next;
    }
    (steps, table)
}

fn path(dice: &mut Dice, table: &'static str, most: usize, kind: &str) -> Path {
    loop {
        let (steps, end) = walk(dice, table, most);
        let fields: &[&'static str] = match (end, kind) {
            ("projects", "text") => &["name"],
            ("projects", "user") => &["owner"],
            ("projects", "bool") => &["closed"],
            ("members", "text") => &["role"],
            ("members", "user") => &["user"],
            ("tasks", "text") => &["title"],
            ("tasks", "user") => &["assignee", "approver", "watchers"],
            ("tasks", "int") => &["n"],
            ("tasks", "json") => &["meta"],
            ("tasks", "list") => &["tags", "labels"],
            ("tasks", "counted") => &["watchers", "others", "labels"],
            _ => continue,
        };
        let keys = if kind == "json" { dice.pick(&[vec!["size"], vec!["a", "b"]]) } else { Vec::new() };
        return Path { steps, field: dice.pick(fields), keys };
    }
}

fn comparison(dice: &mut Dice, table: &'static str, most: usize) -> Rule {
    let order = ["=", "!=", ">", ">=", "<", "<="];
    // From members, four relations lead to a task at least.
    let most = most.max(2);
    match dice.roll(10) {
        0 => {
            let words = ["viewer", "editor"];
            let path = path(dice, table, most, "text");
            let value = if path.field == "role" { dice.pick(&words) } else { dice.pick(&["a", "b", "B"]) };
            Rule::Compare(path, dice.pick(&["=", "!=", "~"]), json!(value))
        }
        1 => Rule::Compare(path(dice, table, most, "int"), dice.pick(&order), json!(dice.roll(4))),
        2 => Rule::Compare(path(dice, table, most, "bool"), dice.pick(&["=", "!="]), json!(dice.roll(2) == 0)),
        3 => Rule::Compare(path(dice, table, most, "user"), dice.pick(&["=", "!="]), Value::Null),
        4 | 5 => Rule::Me(path(dice, table, most, "user"), dice.roll(3) > 0),
        6 => Rule::Paths(path(dice, table, most, "user"), dice.pick(&["=", "!="]), path(dice, table, 1, "user")),
        7 => match dice.roll(3) {
            0 => Rule::Compare(path(dice, table, most, "json"), dice.pick(&order), json!(dice.roll(4))),
            1 => Rule::Compare(path(dice, table, most, "json"), dice.pick(&["=", "!="]), json!("x")),
            _ => {
                let path = path(dice, table, most, "list");
                let any = [json!("red"), json!(1), json!(true)];
                let item = if path.field == "labels" { json!("red") } else { dice.pick(&any) };
                Rule::Has(path, item)
            }
        },
        8 => Rule::Length(path(dice, table, most, "counted"), dice.pick(&order), dice.roll(3)),
        _ => Rule::Role(dice.pick(&["boss", "clerk"])),
    }
}

fn rule(dice: &mut Dice, table: &'static str, depth: usize, most: usize) -> Rule {
    if depth == 0 {
        return comparison(dice, table, most);
    }
    match dice.roll(6) {
        0 => Rule::Any((0..2).map(|_| rule(dice, table, depth - 1, most)).collect()),
        1 => Rule::All((0..2).map(|_| rule(dice, table, depth - 1, most)).collect()),
        2 => Rule::Not(Box::new(rule(dice, table, depth - 1, most))),
        3 if most > 2 => {
            let (mut steps, mut end) = walk(dice, table, 2);
            if steps.is_empty() {
                let (step, next) = dice.pick(&ways(table));
                (steps, end) = (vec![step], next);
            }
            Rule::Each(dice.roll(2) == 0, steps, Box::new(rule(dice, end, depth - 1, 2)))
        }
        _ => comparison(dice, table, most),
    }
}

fn steps_text(steps: &[Step]) -> Vec<String> {
    let text = |step: &Step| match step {
        Step::Forward(field) => (*field).to_owned(),
        Step::Back(entity, field) => format!("{entity}({field})"),
    };
    steps.iter().map(text).collect()
}

fn path_text(path: &Path) -> String {
    let mut parts = steps_text(&path.steps);
    parts.push(path.field.to_owned());
    parts.extend(path.keys.iter().map(|key| (*key).to_owned()));
    parts.join(".")
}

fn text(rule: &Rule) -> String {
    let join = |parts: &[Rule], word: &str| parts.iter().map(text).collect::<Vec<_>>().join(word);
    match rule {
        Rule::Any(parts) => format!("({})", join(parts, " || ")),
        Rule::All(parts) => format!("({})", join(parts, " && ")),
        Rule::Not(inner) => format!("!({})", text(inner)),
        Rule::Compare(path, operator, value) => format!("{} {operator} {value}", path_text(path)),
        Rule::Me(path, true) => format!("{} = @me", path_text(path)),
        Rule::Me(path, false) => format!("@me != {}", path_text(path)),
        Rule::Paths(left, operator, right) => format!("{} {operator} {}", path_text(left), path_text(right)),
        Rule::Has(path, value) => format!("{} has {value}", path_text(path)),
        Rule::Length(path, "=", 0) => format!("{} = []", path_text(path)),
        Rule::Length(path, operator, number) => format!("length({}) {operator} {number}", path_text(path)),
        Rule::Role(name) => format!("@roles has '{name}'"),
        Rule::Each(any, steps, inner) => {
            let word = if *any { "any" } else { "all" };
            format!("{word}({}, {})", steps_text(steps).join("."), text(inner))
        }
    }
}

const USERS: [&str; 2] = ["ann", "ben"];

/// At most two projects.
fn others(dice: &mut Dice, projects: &[Value]) -> Value {
    let first = dice.roll(projects.len());
    let chosen = projects.iter().skip(first).take(dice.roll(3));
    chosen.filter(|project| !project.is_null()).cloned().collect()
}

async fn fill(world: &World, dice: &mut Dice) {
    let ann = user_with("ann", &[]);
    let user = |dice: &mut Dice| dice.pick(&[json!("ann"), json!("ben"), Value::Null]);
    let mut projects = vec![Value::Null];
    for _ in 0..7 {
        let body = json!({"name": dice.pick(&[json!("a"), json!("b"), Value::Null]), "owner": user(dice),
            "parent": dice.pick(&projects), "closed": dice.pick(&[json!(true), json!(false), Value::Null])});
        projects.push(json!(world.post(&ann, "/projects", body).await.id()));
    }
    for _ in 0..10 {
        let body = json!({"project": dice.pick(&projects), "user": user(dice),
            "role": dice.pick(&[json!("viewer"), json!("editor"), Value::Null])});
        world.post(&ann, "/members", body).await.id();
    }
    for _ in 0..24 {
        let meta =
            dice.pick(&[json!({"size": 2}), json!({"size": "x"}), json!({"a": {"b": 1}}), json!([1]), Value::Null]);
        let tags =
            dice.pick(&[json!(["red", 1]), json!([true]), json!("red"), json!({"red": 1}), json!([]), Value::Null]);
        let body = json!({"title": dice.pick(&[json!("a"), json!("B"), Value::Null]), "n": dice.roll(4),
            "project": dice.pick(&projects), "assignee": user(dice), "approver": user(dice), "meta": meta, "tags": tags,
            "watchers": dice.pick(&[json!([]), json!(["ann"]), json!(["ben", "ann"])]),
            "others": others(dice, &projects), "labels": dice.pick(&[json!([]), json!(["red"]), json!(["b", "red", "b"])])});
        let task = world.post(&ann, "/tasks", body).await.id();
        world.post(&ann, "/notes", json!({"task": task})).await.id();
    }
    // Two in the trash.
    for project in &projects[1..3] {
        world.delete(&ann, &format!("/projects/{}", project.as_str().unwrap())).await;
    }
}

async fn read(world: &World) -> Data {
    let ann = user_with("ann", &[]);
    let mut data = Data::new();
    for table in TABLES {
        let trashed = if table == "projects" { "&trashed=with" } else { "" };
        let list = world.get(&ann, &format!("/{table}?limit=100{trashed}")).await.data();
        data.insert(table, serde_json::from_value(list).unwrap());
    }
    data
}

fn ids(answer: &Answer) -> Vec<String> {
    answer.data().as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn generated_filters_decide_as_the_evaluator_does() {
    for world in worlds(entities()).await {
        let (times, seed) = scale();
        let mut dice = Dice(7 + seed);
        fill(&world, &mut dice).await;
        let data = read(&world).await;
        let (mut found, mut all) = (0, 0);
        for round in 0..500 * times {
            let table = dice.pick(&TABLES);
            let rule = rule(&mut dice, table, round % 4, 4);
            let me = dice.pick(&USERS);
            let roles = dice.pick(&[&["boss"][..], &[]]);
            let caller = user_with(me, roles);
            let evaluator = World2 { data: &data, me: Some(me), roles };
            let wanted: Vec<String> = evaluator
                .live(table)
                .filter(|row| evaluator.holds(row, &rule))
                .map(|row| row["id"].as_str().unwrap().to_owned())
                .collect();
            let text = text(&rule);
            let answer = world.get(&caller, &format!("/{table}?limit=100&filter={}", encoded(&text))).await;
            assert!(answer.status.is_success(), "{}: {table}: {text}: {}", world.name(), answer.text);
            assert_eq!(ids(&answer), wanted, "{}: {table} as {me}: {text}", world.name());
            assert_eq!(answer.json()["total"], wanted.len(), "{text}");
            found += wanted.len();
            all += evaluator.live(table).count();
        }
        assert!(
            found > all / 10 && found < all * 9 / 10,
            "rules that hold always or never prove nothing: {found} of {all}"
        );
    }
}

/// The groups of tasks by title, in the order of an answer.
fn grouped(tasks: &[&Row]) -> Value {
    let mut groups: BTreeMap<(bool, String), Vec<i64>> = BTreeMap::new();
    for task in tasks {
        let title = task["title"].as_str();
        let key = (title.is_none(), title.unwrap_or_default().to_owned());
        groups.entry(key).or_default().push(task["n"].as_i64().unwrap());
    }
    let group = |((absent, title), numbers): ((bool, String), Vec<i64>)| {
        json!({
            "title": if absent { Value::Null } else { json!(title) },
            "count": numbers.len(),
            "sum": {"n": numbers.iter().sum::<i64>()},
            "max": {"n": numbers.iter().max()},
        })
    };
    groups.into_iter().map(group).collect()
}

/// The same world with these rules on tasks.
async fn ruled(world: &World, rules: &[(Action, &str)]) -> Entities {
    let [projects, members, _, notes] = entities();
    let tasks = rules.iter().fold(tasks(), |tasks, (action, text)| tasks.rule(*action, *text));
    Entities::builder(world.db().clone(), gatewright_base::Ambient::system())
        .declare_all([projects, members, tasks, notes])
        .build()
        .await
        .unwrap()
}

#[tokio::test]
async fn generated_rules_decide_alike_on_every_surface() {
    for mut world in worlds(entities()).await {
        let (times, seed) = scale();
        let mut dice = Dice(11 + seed);
        fill(&world, &mut dice).await;
        for round in 0..40 * times {
            let data = read(&world).await;
            let read_rule = rule(&mut dice, "tasks", round % 3, 4);
            let write_rule = rule(&mut dice, "tasks", round % 2, 2);
            let (read_text, write_text) = (text(&read_rule), text(&write_rule));
            let declared =
                [(Action::Read, &*read_text), (Action::Update, &*write_text), (Action::Delete, &*write_text)];
            let entities = ruled(&world, &declared).await;
            let open = std::mem::replace(&mut world.router, entities.router());
            let me = dice.pick(&[Some("ann"), Some("ben"), None]);
            let roles = if me.is_some() { dice.pick(&[&["boss"][..], &[]]) } else { &[] };
            let caller = me.map_or(Identity::Anonymous, |me| user_with(me, roles));
            let evaluator = World2 { data: &data, me, roles };
            let wanted: Vec<String> = evaluator
                .live("tasks")
                .filter(|row| evaluator.holds(row, &read_rule))
                .map(|row| row["id"].as_str().unwrap().to_owned())
                .collect();
            let context = format!("{}: {me:?}: read {read_text}; write {write_text}", world.name());
            let list = world.get(&caller, "/tasks?limit=100").await;
            assert_eq!(ids(&list), wanted, "{context}");
            assert_eq!(list.json()["total"], wanted.len(), "{context}");
            let pages = world.get(&caller, "/tasks?cursor=&limit=100").await;
            assert_eq!(ids(&pages), wanted, "{context}");
            let tasks: Vec<&Row> =
                data["tasks"].iter().filter(|row| wanted.iter().any(|id| row["id"] == json!(id))).collect();
            let groups = world.get(&caller, "/tasks?group=title&sum=n&max=n").await.data();
            assert_eq!(groups, grouped(&tasks), "{context}");
            let included = world.get(&caller, "/notes?include=task&limit=100").await.data();
            for note in included.as_array().unwrap() {
                let shown = wanted.iter().any(|id| note["task"] == json!(id));
                assert_eq!(note["_included"]["task"].is_object(), shown, "{context}: {note}");
            }
            let tasks = entities.table("tasks").unwrap();
            let asked = dice.pick(&data["tasks"]);
            let asked = asked["id"].as_str().unwrap();
            let explained = tasks.explain(&Call::from(&caller), Action::Read, Some(asked)).await;
            let explained = explained.unwrap();
            assert_eq!(explained.allowed, wanted.iter().any(|id| id == asked), "{context}: {explained:?}");
            let anywhere = dice.roll(24);
            for row in data["tasks"].iter().skip(anywhere).take(3) {
                let id = row["id"].as_str().unwrap();
                let path = format!("/tasks/{id}");
                let readable = wanted.iter().any(|wanted| wanted == id);
                assert_eq!(
                    world.get(&caller, &path).await.status.as_u16(),
                    if readable { 200 } else { 404 },
                    "{context}"
                );
                let mut others = data.clone();
                others.entry("tasks").or_default().retain(|other| other["id"] != row["id"]);
                // A record that is checked does not count in its own back relations.
                let alone = World2 { data: &others, me, roles };
                let allowed = alone.holds(row, &write_rule);
                let mut after = row.clone();
                after.insert("n".to_owned(), json!(3));
                let refused = if me.is_some() { 403 } else { 401 };
                let update = if !readable {
                    404
                } else if allowed && alone.holds(&after, &write_rule) {
                    200
                } else {
                    refused
                };
                let status = world.patch(&caller, &path, json!({"n": 3})).await.status.as_u16();
                assert_eq!(status, update, "{context}: {row:?}");
                if status == 200 {
                    // As it was.
                    let sql = "UPDATE tasks SET n = ?1 WHERE id = ?2";
                    let n = row["n"].as_i64().unwrap();
                    world.db().execute(sql, gatewright_db::params![n, id]).await.unwrap();
                }
                if !(readable && allowed) {
                    let delete = if readable { refused } else { 404 };
                    let status = world.ask(&caller, Method::DELETE, &path).send().await.status.as_u16();
                    assert_eq!(status, delete, "{context}: {row:?}");
                }
            }
            world.router = open;
        }
    }
}
