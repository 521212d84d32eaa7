use std::time::{Duration, Instant};

use anyhow::Context;
use gatewright_base::{Ambient, Identity};
use gatewright_db::{Db, Engine, Options, params};
use gatewright_entities::operations::PagePlace;
use gatewright_entities::{Call, Entities, Entity, Field, ListQuery, Plan};

use crate::engines::on_both;
use crate::median::median;

/// Records in the table, unless the command line sets another number.
const RECORDS: u32 = 1_000_000;
/// Records on a page.
const LIMIT: u32 = 25;
/// The page that is compared with the first.
const DEEP: u32 = 10_000;
/// The number of reads of each page.
const READS: usize = 400;

/// Compares reading the first page by cursor with the ten thousandth, sorted by id and by a field with many equal
/// values. Prints the ratios. The target is at most 1.3.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let records = arguments.first().map_or(Ok(RECORDS), |text| text.parse())?;
    anyhow::ensure!(records > DEEP * LIMIT, "page {DEEP} needs more than {} records", DEEP * LIMIT);
    on_both(async |url, engine| measure(url, engine, records).await).await
}

async fn measure(url: &str, engine: &str, records: u32) -> anyhow::Result<Vec<String>> {
    let db = Db::open(url, Options { statement_timeout: Duration::from_mins(10), ..Options::default() }).await?;
    let mut report = Vec::new();
    let entity = |name: &str| {
        let entity = Entity::new(name).public().field(Field::string("title")).field(Field::text("body"));
        entity.field(Field::int("views").required())
    };
    let entities = Entities::builder(db.clone(), Ambient::system())
        .declare(entity("posts"))
        .declare(entity("ranked").cursor_fields(["views"]))
        .build()
        .await?;
    for (name, order) in [("posts", "by id"), ("ranked", "by a field of 1,000 values")] {
        fill(&db, name, records).await?;
        let plan = entities.plan(name).context("the entity is declared")?.clone();
        let deep = walk(&entities, &plan).await?;
        let (mut first, mut last) = (Vec::new(), Vec::new());
        // In turns, so that other load on the machine affects both.
        for _ in 0..READS {
            first.push(read(&entities, &plan, "").await?.0);
            last.push(read(&entities, &plan, &deep).await?.0);
        }
        let (first, last) = (median(&mut first), median(&mut last));
        report.push(format!(
            "{engine}, {records} records, {order}: page {DEEP} takes {:.2} of page 1 (medians {last:?} and {first:?})",
            last.as_secs_f64() / first.as_secs_f64()
        ));
    }
    Ok(report)
}

/// Inserts records as the operations would create them, but much faster.
async fn fill(db: &Db, table: &str, records: u32) -> anyhow::Result<()> {
    let rows = match db.engine() {
        Engine::Sqlite => "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)",
        Engine::Postgres => "WITH n AS (SELECT i FROM generate_series(1, ?1::bigint) AS g(i))",
    };
    let id = match db.engine() {
        Engine::Sqlite => "printf('018f0000-0000-7000-8000-%012d', i)",
        Engine::Postgres => "'018f0000-0000-7000-8000-' || lpad(i::text, 12, '0')",
    };
    let time = match db.engine() {
        Engine::Sqlite => "'2026-01-02T03:04:05.000006Z'",
        Engine::Postgres => "'2026-01-02T03:04:05.000006Z'::timestamptz",
    };
    let sql = format!(
        "INSERT INTO {table} (id, title, body, views, created_at, updated_at)
         {rows} SELECT {id}, 'Post', 'A text of some length, as a note or a comment would have it.', (i * 7919) % 1000,
         {time}, {time} FROM n"
    );
    db.execute(sql, params![i64::from(records)]).await?;
    db.execute("ANALYZE", vec![]).await?;
    Ok(())
}

/// The cursor at the start of the deep page.
async fn walk(entities: &Entities, plan: &Plan) -> anyhow::Result<String> {
    let mut from = String::new();
    for _ in 1..DEEP {
        from = read(entities, plan, &from).await?.1.context("the table has enough pages")?;
    }
    Ok(from)
}

async fn read(entities: &Entities, plan: &Plan, from: &str) -> anyhow::Result<(Duration, Option<String>)> {
    let query = ListQuery::new().limit(LIMIT).after(from);
    let start = Instant::now();
    let list = entities.table(plan.name())?.list(&Call::from(Identity::Anonymous), &query).await?;
    let took = start.elapsed();
    match list.place {
        PagePlace::Cursor(next) => Ok((took, next)),
        PagePlace::Number { .. } | PagePlace::Groups => anyhow::bail!("a page by cursor was asked for"),
    }
}
