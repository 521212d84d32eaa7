use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::future::join_all;
use gatewright_base::{Ambient, Credential, Identity, Principal, Subject, UserId};
use gatewright_db::{Db, Engine, Options, params};
use gatewright_entities::{Action, Call, Entities, Entity, Field, Language, ListQuery};

use crate::engines::on_both;
use crate::median::median;

/// Records that are searched, unless the command line sets another number.
const RECORDS: u32 = 1_000_000;
/// The number of searches of each kind.
const SEARCHES: u32 = 1_000;
/// The number of creates of each kind.
const CREATES: u32 = 2_000;
/// Searches that another caller has in progress all the time.
const OTHERS: usize = 8;
/// Records on a page.
const LIMIT: u32 = 25;
const RULE: &str = "open = true || owner = @me";
/// The text of a record with the number `i`: one word of five and one of a hundred from each of three groups.
const TEXT: &str = "'A text of some length, as a note has it, w' || (i % 50000) || ' c0x' || (i % 5) || ' c1x' || (i / 5 % 5) \
    || ' c2x' || (i / 25 % 5) || ' r0x' || (i % 100) || ' r1x' || (i / 100 % 100) || ' r2x' || (i / 10000 % 100)";

/// Searches a million records with three words under a rule, beside the engine's own search by hand; creates with and without an
/// index; and reads of one caller beside the searches of another.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let records = arguments.first().map_or(Ok(RECORDS), |text| text.parse())?;
    anyhow::ensure!(records >= 10_000, "a search needs at least 10,000 records");
    on_both(async |url, engine| measure(url, engine, records).await).await
}

async fn measure(url: &str, engine: &str, records: u32) -> anyhow::Result<Vec<String>> {
    let options = Options {
        statement_timeout: Duration::from_mins(10),
        list_timeout: Duration::from_mins(1),
        ..Options::default()
    };
    let db = Db::open(url, options).await?;
    let note = |name: &str| {
        let note = Entity::new(name).field(Field::string("owner")).field(Field::boolean("open"));
        note.field(Field::string("title")).field(Field::text("body")).rule(Action::Read, RULE)
    };
    let declare = |indexed: Entity| {
        let indexed = indexed.search(Language::SIMPLE, [("title", 4), ("body", 1)]);
        Entities::builder(db.clone(), Ambient::system())
            .users(gatewright_entities::Users::Elsewhere)
            .declare_all([note("plain"), indexed])
    };
    // The records are there before the index.
    Entities::builder(db.clone(), Ambient::system())
        .users(gatewright_entities::Users::Elsewhere)
        .declare(note("notes"))
        .build()
        .await?;
    fill(&db, records).await?;
    let entities = declare(note("notes")).build().await?;
    let start = Instant::now();
    entities.build_search().await?;
    db.execute("ANALYZE", vec![]).await?;
    let mut report = vec![format!("{engine}: an index of {records} records is built in {:?}", start.elapsed())];
    let caller = call("ann")?;
    for (what, prefix, count) in [("1%", "r", 100_u32), ("20%", "c", 5)] {
        let (mut own, mut hand, mut found) = (Vec::new(), Vec::new(), 0);
        for number in 0..SEARCHES {
            let words = (0..3).map(|place| format!("{prefix}{place}x{}", number / count.pow(place) % count));
            let words: Vec<String> = words.collect();
            let (took, seen) = search(&entities, &caller, &words.join(" ")).await?;
            own.push(took);
            found += seen;
            hand.push(by_hand(&db, &words).await?);
        }
        own.sort_unstable();
        hand.sort_unstable();
        let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
        report.push(format!(
            "{engine}, three words, each in {what} of {records} records ({found} records in {SEARCHES} searches): p99 {:?}, median {:?}; \
             by hand without a rule p99 {:?}, median {:?}",
            p99(&own),
            own[own.len() / 2],
            p99(&hand),
            hand[hand.len() / 2]
        ));
    }
    report.push(creates(&entities, engine, &caller).await?);
    report.push(beside(&entities, engine).await?);
    Ok(report)
}

async fn fill(db: &Db, records: u32) -> anyhow::Result<()> {
    let (rows, id, time, hand) = match db.engine() {
        Engine::Sqlite => (
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)",
            "printf('018f0000-0000-7000-8000-%012d', i)",
            "'2026-01-02T03:04:05.000006Z'",
            vec![
                "CREATE VIRTUAL TABLE hand USING fts5(title, body, content='')",
                "INSERT INTO hand (rowid, title, body) SELECT rowid, title, body FROM notes",
            ],
        ),
        Engine::Postgres => (
            "WITH n AS (SELECT i FROM generate_series(0, ?1::bigint - 1) AS g(i))",
            "'018f0000-0000-7000-8000-' || lpad(i::text, 12, '0')",
            "'2026-01-02T03:04:05.000006Z'::timestamptz",
            vec![
                "CREATE TABLE hand AS SELECT id, setweight(to_tsvector('simple', title), 'A') || to_tsvector('simple', body) AS words FROM notes",
                "CREATE INDEX hand_words ON hand USING gin (words)",
            ],
        ),
    };
    let sql = format!(
        "INSERT INTO notes (id, owner, open, title, body, created_at, updated_at)
         {rows} SELECT {id}, 'o' || (i % 1000), i % 10 <> 7, 'Note ' || i, {TEXT}, {time}, {time} FROM n"
    );
    db.execute(sql, params![i64::from(records)]).await?;
    for sql in hand {
        db.execute(sql, vec![]).await?;
    }
    Ok(())
}

fn call(id: &str) -> anyhow::Result<Call> {
    let subject = Subject::User(UserId::parse(id).context("an id")?);
    let roles = std::iter::empty::<&str>().collect();
    let credential = Credential::Jwt { expires_at: jiff::Timestamp::MAX };
    Ok(Call::from(Identity::Known(Arc::new(Principal { subject, email: None, roles, credential }))))
}

/// One page by cursor, which counts nothing.
async fn search(entities: &Entities, call: &Call, text: &str) -> anyhow::Result<(Duration, usize)> {
    let query = ListQuery::new().search(text).limit(LIMIT).after("");
    let start = Instant::now();
    let list = entities.table("notes")?.list(call, &query).await?;
    let took = start.elapsed();
    Ok((took, serde_json::from_slice::<Vec<serde_json::Value>>(&list.json)?.len()))
}

/// What a program would write that uses the engine's search and its rank.
async fn by_hand(db: &Db, words: &[String]) -> anyhow::Result<Duration> {
    let (sql, text) = match db.engine() {
        Engine::Sqlite => ("SELECT rowid FROM hand WHERE hand MATCH ?1 ORDER BY rank LIMIT 25", words.join(" ")),
        Engine::Postgres => (
            "SELECT id FROM hand WHERE words @@ to_tsquery('simple', ?1) ORDER BY ts_rank(words, to_tsquery('simple', ?1)) DESC LIMIT 25",
            words.join(" & "),
        ),
    };
    let start = Instant::now();
    db.query(sql, params![text]).await?;
    Ok(start.elapsed())
}

/// Creates with an index and without, in turns.
async fn creates(entities: &Entities, engine: &str, call: &Call) -> anyhow::Result<String> {
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..CREATES {
        let text = "A note of usual length, with words that other notes have too, and some of its own";
        let body = format!(r#"{{"title":"Note {number}","body":"{text} w{number}","open":true}}"#);
        for (table, times) in ["plain", "notes"].into_iter().zip(&mut times) {
            let start = Instant::now();
            entities.table(table)?.create(call, body.as_bytes()).await?;
            times.push(start.elapsed());
        }
    }
    let [plain, indexed] = times.map(|mut times| median(&mut times));
    let ratio = indexed.as_secs_f64() / plain.as_secs_f64();
    Ok(format!(
        "{engine}: a create with an index takes {ratio:.2} times one without (medians {indexed:?} and {plain:?})"
    ))
}

/// Reads of a caller, alone and while another one searches without a pause.
async fn beside(entities: &Entities, engine: &str) -> anyhow::Result<String> {
    let (own, other) = (call("ann")?, call("ben")?);
    let list = ListQuery::new().limit(LIMIT).after("");
    let reads = async || -> anyhow::Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..SEARCHES {
            let start = Instant::now();
            entities.table("notes")?.list(&own, &list).await?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        Ok(times[times.len() * 99 / 100])
    };
    let alone = reads().await?;
    let searching = join_all((0..OTHERS).map(|_| async {
        loop {
            // More than a caller's share at once is refused.
            let _refused = search(entities, &other, "c0x1 or c1x1 or c2x1").await;
        }
    }));
    let beside = tokio::select! {
        beside = reads() => beside?,
        _ = searching => anyhow::bail!("searches ended"),
    };
    Ok(format!(
        "{engine}: lists beside {OTHERS} searches of another caller: p99 {:.2} times that without ({beside:?}, {alone:?})",
        beside.as_secs_f64() / alone.as_secs_f64()
    ))
}
