use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use gatewright_base::{Ambient, Credential, Identity, Principal, Subject, UserId};
use gatewright_db::{Db, Engine, Options, params};
use gatewright_entities::{Action, Call, Entities, Entity, Field, ListQuery, Plan};

use crate::engines::on_both;
use crate::median::median;

/// Tasks in each table, unless the command line sets another number.
const RECORDS: u32 = 1_000_000;
/// Tasks and members of a project.
const TASKS: u32 = 100;
const MEMBERS: u32 = 5;
/// Records on a page.
const LIMIT: u32 = 25;
/// The number of reads of each list.
const READS: usize = 400;
/// A rule over two relations, as in the example of projects and members.
const RULE: &str = "project.members(project).account = @me || project.boss = @me";

/// Compares a list of 25 under a rule over two relations with the plain list of the same number of tasks, for callers
/// who see a few tasks, a tenth of them and none. Prints the ratios. The target is at most 2.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let records = arguments.first().map_or(Ok(RECORDS), |text| text.parse())?;
    anyhow::ensure!(records >= 10_000, "a list under a rule needs at least 10,000 records");
    on_both(async |url, engine| measure(url, engine, records).await).await
}

async fn measure(url: &str, engine: &str, records: u32) -> anyhow::Result<Vec<String>> {
    let db = Db::open(url, Options { statement_timeout: Duration::from_mins(10), ..Options::default() }).await?;
    let mut report = Vec::new();
    let task = |name: &str| {
        let task = Entity::new(name).field(Field::relation("project", "projects")).field(Field::string("title"));
        task.field(Field::text("body"))
    };
    let members = Entity::new("members").field(Field::relation("project", "projects"));
    let entities = Entities::builder(db.clone(), Ambient::system())
        .declare(Entity::new("projects").field(Field::string("name")).field(Field::string("boss").index()))
        .declare(members.field(Field::string("account").index()))
        .declare(task("plain"))
        .declare(task("ruled").rule(Action::Read, RULE))
        .build()
        .await?;
    fill(&db, records).await?;
    let (plain, ruled) = (entities.plan("plain").context("declared")?, entities.plan("ruled").context("declared")?);
    let projects = records / TASKS;
    // A member of five projects, the owner of every tenth project, and a user without projects.
    let callers = [("a member of five projects", "m7"), ("the owner of a tenth", "b7"), ("a stranger", "nobody")];
    for paging in ["cursor", "page"] {
        for (who, caller) in callers {
            let caller = call(caller)?;
            let (mut without, mut under, mut seen) = (Vec::new(), Vec::new(), 0);
            // In turns, so that other load on the machine affects both.
            for _ in 0..READS {
                without.push(read(&entities, plain, &caller, paging).await?.0);
                let (took, count) = read(&entities, ruled, &caller, paging).await?;
                under.push(took);
                seen = count;
            }
            let (without, under) = (median(&mut without), median(&mut under));
            report.push(format!(
                "{engine}, {records} records of {projects} projects, by {paging}, {who} ({seen} on the page): under the rule \
                 {:.2} of the plain list (medians {under:?} and {without:?})",
                under.as_secs_f64() / without.as_secs_f64()
            ));
        }
    }
    Ok(report)
}

/// Projects of a hundred tasks and five members each; each account is a member of five of them.
async fn fill(db: &Db, records: u32) -> anyhow::Result<()> {
    let (rows, id, project) = match db.engine() {
        Engine::Sqlite => (
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)",
            "printf('018f0000-0000-7000-8000-%012d', i)",
            "printf('018f0000-0000-7000-8000-%012d', i % (?2))",
        ),
        Engine::Postgres => (
            "WITH n AS (SELECT i FROM generate_series(0, ?1::bigint - 1) AS g(i))",
            "'018f0000-0000-7000-8000-' || lpad(i::text, 12, '0')",
            "'018f0000-0000-7000-8000-' || lpad((i % ?2::bigint)::text, 12, '0')",
        ),
    };
    let time = match db.engine() {
        Engine::Sqlite => "'2026-01-02T03:04:05.000006Z'",
        Engine::Postgres => "'2026-01-02T03:04:05.000006Z'::timestamptz",
    };
    let projects = i64::from(records / TASKS);
    let sql = format!(
        "INSERT INTO projects (id, name, boss, created_at, updated_at)
         {rows} SELECT {id}, 'Project', 'b' || (i % 10), {time}, {time} FROM n"
    );
    db.execute(sql, params![projects]).await?;
    let sql = format!(
        "INSERT INTO members (id, project, account, created_at, updated_at)
         {rows} SELECT {id}, {project}, 'm' || (i / {MEMBERS}), {time}, {time} FROM n"
    );
    db.execute(sql, params![projects * i64::from(MEMBERS), projects]).await?;
    for table in ["plain", "ruled"] {
        let sql = format!(
            "INSERT INTO {table} (id, project, title, body, created_at, updated_at)
             {rows} SELECT {id}, {project}, 'Task', 'A text of some length, as a note or a comment would have it.',
             {time}, {time} FROM n"
        );
        db.execute(sql, params![i64::from(records), projects]).await?;
    }
    db.execute("ANALYZE", vec![]).await?;
    Ok(())
}

fn call(id: &str) -> anyhow::Result<Call> {
    let subject = Subject::User(UserId::parse(id).context("an id")?);
    let roles = std::iter::empty::<&str>().collect();
    let credential = Credential::Jwt { expires_at: jiff::Timestamp::MAX };
    Ok(Call::from(Identity::Known(Arc::new(Principal { subject, email: None, roles, credential }))))
}

async fn read(entities: &Entities, plan: &Plan, call: &Call, paging: &str) -> anyhow::Result<(Duration, usize)> {
    let query = ListQuery::new().limit(LIMIT);
    let query = if paging == "cursor" { query.after("") } else { query };
    let start = Instant::now();
    let list = entities.table(plan.name())?.list(call, &query).await?;
    let took = start.elapsed();
    let records: Vec<serde_json::Value> = serde_json::from_slice(&list.json)?;
    Ok((took, records.len()))
}
