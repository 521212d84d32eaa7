//! How the engines run a list under a rule over two relations: by index, independent of the size of the tables.

use gatewright_base::{Ambient, Credential, Identity, Principal, Subject, UserId};
use gatewright_db::testing::engines;
use gatewright_db::{Db, Engine, Sql, Value};

use crate::filter::Predicate;
use crate::operations::Call;
use crate::plan::{Keyset, Trashed};
use crate::{Action, Entities, Entity, Field};

/// Rows of the largest table.
const TASKS: i64 = 40_000;

pub(crate) fn entities() -> [Entity; 3] {
    [
        Entity::new("projects").field(Field::string("name")).field(Field::string("boss").index()),
        Entity::new("members").field(Field::relation("project", "projects")).field(Field::string("account").index()),
        Entity::new("tasks")
            .field(Field::relation("project", "projects"))
            .field(Field::string("assignee").index())
            .rule(Action::Read, "project.members(project).account = @me || assignee = @me")
            .rule(Action::Update, "project.boss = @me"),
    ]
}

fn caller() -> Call {
    call("u7")
}

pub(crate) fn call(user: &str) -> Call {
    let credential = Credential::Jwt { expires_at: jiff::Timestamp::MAX };
    let subject = Subject::User(UserId::parse(user).expect("an id"));
    let roles = std::iter::empty::<&str>().collect();
    Call::from(Identity::Known(std::sync::Arc::new(Principal { subject, email: None, roles, credential })))
}

/// Ten thousand projects of four tasks and two members each.
pub(crate) async fn fill(db: &Db) {
    fill_with(db, TASKS).await;
}

/// The same with this many tasks.
pub(crate) async fn fill_with(db: &Db, tasks: i64) {
    let series = |count: i64| match db.engine() {
        Engine::Sqlite => {
            format!(
                "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s) AS s"
            )
        }
        Engine::Postgres => format!("generate_series(1, {count}) AS s(n)"),
    };
    let projects = tasks / 4;
    let now = "'2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'";
    for sql in [
        format!(
            "INSERT INTO projects (id, name, boss, created_at, updated_at) SELECT 'p' || n, 'x', 'b' || n, {now} FROM {}",
            series(projects)
        ),
        format!(
            "INSERT INTO members (id, project, account, created_at, updated_at) SELECT 'm' || n, 'p' || (n % {projects} + 1), 'u' || (n % 500), {now} FROM {}",
            series(projects * 2)
        ),
        format!(
            "INSERT INTO tasks (id, project, assignee, created_at, updated_at) SELECT 't' || n, 'p' || (n % {projects} + 1), 'u' || (n % 5000), {now} FROM {}",
            series(tasks)
        ),
        "ANALYZE".to_owned(),
    ] {
        let sql = if db.engine() == Engine::Postgres { sql.replace(now, "now(), now()") } else { sql };
        db.execute(sql, vec![]).await.expect("rows");
    }
}

pub(crate) async fn plan_of(db: &Db, sql: &Sql, params: Vec<Value>) -> String {
    // With actual row counts, if the engine reports them.
    let (explain, column) = match db.engine() {
        Engine::Sqlite => ("EXPLAIN QUERY PLAN", "detail"),
        Engine::Postgres => ("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)", "QUERY PLAN"),
    };
    let rows = db.query(format!("{explain} {}", sql.as_str()), params).await.expect("a plan");
    rows.iter().map(|row| row.get::<String>(column).expect("a line") + "\n").collect()
}

#[tokio::test]
async fn lists_and_totals_under_a_rule_over_two_relations_are_driven_by_indexes() {
    for engine in engines().await {
        let db = &engine.db;
        let builder = Entities::builder(db.clone(), Ambient::system()).declare_all(entities());
        let entities = builder.build().await.expect("entities");
        fill(db).await;
        let plan = entities.plan("tasks").expect("declared").clone();
        let reach = entities.table("tasks").expect("declared").reach(&caller(), Action::Read).await.expect("allowed");
        let everything = Predicate::All(Vec::new());
        let scope = plan.sql.scope(&reach, Trashed::Without, &everything, &plan.columns, plan.engine);
        let mut params = scope.params.clone();
        params.extend([Value::Int(25), Value::Int(0)]);
        let one = plan.sql.get.within("t9", &reach);
        let chosen = plan.order.parse("-assignee", &crate::readable::FieldRights::ALL).expect("an order");
        for (sql, params) in [
            (plan.sql.count(&scope), scope.params.clone()),
            (plan.sql.step("\"id\"", &scope, &Keyset::by_id().whole()), params.clone()),
            (plan.sql.step("\"id\"", &scope, &chosen.whole()), params),
            (one.sql, one.params),
        ] {
            let lines = plan_of(db, &sql, params).await;
            // A list may walk the tasks in the order of their ids; related tables are never read as a whole.
            for whole in ["Seq Scan on members", "Seq Scan on projects", "SCAN _r", "SCAN members", "SCAN projects"] {
                assert!(!lines.contains(whole), "{}: {}\n{lines}", engine.name, sql.as_str());
            }
        }
        let count = plan_of(db, &plan.sql.count(&scope), scope.params.clone()).await;
        for whole in ["Seq Scan on tasks", "SCAN tasks"] {
            assert!(!count.contains(whole), "{}: {}\n{count}", engine.name, plan.sql.count(&scope).as_str());
        }
    }
}
