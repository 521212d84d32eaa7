//! All rows of a query, read slowly, while others write.

use std::time::Duration;

use gatewright_db::testing::{TestDb, engines, engines_with};
use gatewright_db::{Error, Export, Options, RowRef, params};

const HOUR: Duration = Duration::from_hours(1);
/// Rows without end, each with a kilobyte of text.
const ENDLESS: &str = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000000000)
                       SELECT 'a row of an export that never ends' AS text, x FROM n";

/// A table with `rows` rows of a kilobyte.
async fn filled(engine: &TestDb, rows: i64) {
    engine.db.execute("CREATE TABLE kept (n BIGINT PRIMARY KEY, text TEXT)", vec![]).await.unwrap();
    let sql = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?1)
               INSERT INTO kept (n, text) SELECT x, ?2 FROM n";
    let sql = if engine.name == "postgres" { sql.replace("x < ?1", "x < CAST(?1 AS BIGINT)") } else { sql.to_owned() };
    let sql = if engine.name == "postgres" { sql.replace("SELECT x, ?2", "SELECT x, CAST(?2 AS TEXT)") } else { sql };
    engine.db.execute(sql, params![rows, "x".repeat(1_000)]).await.unwrap();
}

fn line(row: &RowRef<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let (number, text): (i64, String) = (row.get(0)?, row.get(1)?);
    out.extend_from_slice(format!("{number} {text}\n").as_bytes());
    Ok(())
}

fn export(engine: &TestDb) -> Export {
    engine.db.export("SELECT n, text FROM kept ORDER BY n", vec![], HOUR, line)
}

async fn rest(mut export: Export) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    while let Some(piece) = export.next().await? {
        assert_eq!(piece.last(), Some(&b'\n'), "a piece ends after a row");
        all.extend_from_slice(&piece);
    }
    assert!(export.next().await?.is_none(), "the end stays the end");
    Ok(all)
}

fn log_of(engine: &TestDb) -> u64 {
    let path = format!("{}-wal", engine.url.strip_prefix("sqlite://").unwrap());
    std::fs::metadata(path).unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_every_row_of_one_moment_also_if_it_is_read_slowly() {
    for engine in engines().await {
        filled(&engine, 12_000).await;
        let mut slow = export(&engine);
        let first = slow.next().await.unwrap().unwrap();
        engine.db.execute("UPDATE kept SET text = 'changed'", vec![]).await.unwrap();
        engine.db.execute("DELETE FROM kept WHERE n % 2 = 0", vec![]).await.unwrap();
        let all = [first, rest(slow).await.unwrap()].concat();
        let lines: Vec<&str> = std::str::from_utf8(&all).unwrap().lines().collect();
        assert_eq!(lines.len(), 12_000, "{}", engine.name);
        for (index, line) in lines.into_iter().enumerate() {
            assert_eq!(line, format!("{} {}", index + 1, "x".repeat(1_000)), "{}", engine.name);
        }
        let now = rest(export(&engine)).await.unwrap();
        assert_eq!(std::str::from_utf8(&now).unwrap().lines().last(), Some("11999 changed"), "{}", engine.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_does_not_grow_with_what_is_written_beside_a_slow_reader() {
    for engine in engines().await.into_iter().filter(|engine| engine.name == "sqlite") {
        filled(&engine, 24_000).await;
        let mut slow = export(&engine);
        slow.next().await.unwrap().unwrap();
        engine.db.execute("CREATE TABLE other (id INTEGER PRIMARY KEY, text TEXT)", vec![]).await.unwrap();
        for round in 0..256 {
            // The same text would change no page.
            let text = if round % 2 == 0 { "y" } else { "z" }.repeat(1 << 20);
            engine
                .db
                .execute(
                    "INSERT INTO other (id, text) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET text = ?1",
                    params![text],
                )
                .await
                .unwrap();
        }
        let log = log_of(&engine);
        assert!(log < 128 << 20, "{log} bytes for 256 MiB that were written");
        let folder = std::path::Path::new(engine.url.strip_prefix("sqlite://").unwrap()).parent().unwrap();
        let names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().contains("export")), "{names:?}");
        assert!(rest(slow).await.unwrap().len() > 20_000_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_whose_reader_has_stopped_ends_before_the_log_grows_without_bound() {
    let options = Options { export_bytes: 4 << 20, ..Options::default() };
    for engine in engines_with(options).await.into_iter().filter(|engine| engine.name == "sqlite") {
        filled(&engine, 24_000).await;
        let mut stopped = export(&engine);
        stopped.next().await.unwrap().unwrap();
        engine.db.execute("CREATE TABLE other (id INTEGER PRIMARY KEY, text TEXT)", vec![]).await.unwrap();
        for round in 0..256 {
            // The same text would change no page.
            let text = if round % 2 == 0 { "y" } else { "z" }.repeat(1 << 20);
            engine
                .db
                .execute(
                    "INSERT INTO other (id, text) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET text = ?1",
                    params![text],
                )
                .await
                .unwrap();
        }
        let log = log_of(&engine);
        assert!(log < 128 << 20, "{log} bytes for 256 MiB that were written");
        let ended = rest(stopped).await.map(|all| all.len());
        assert!(matches!(ended, Err(Error::ExportTooSlow)), "{log} {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_ends_with_its_error_its_time_or_its_reader() {
    for engine in engines().await {
        let endless = |row: &RowRef<'_>, out: &mut Vec<u8>| {
            out.extend_from_slice(row.get::<String>(0)?.as_bytes());
            Ok(())
        };
        let wrong = engine.db.export("SELECT no_column FROM nothing", vec![], HOUR, endless);
        assert!(rest(wrong).await.is_err(), "{}", engine.name);
        let mut left = 10_000;
        let failing = engine.db.export(ENDLESS, vec![], HOUR, move |_, out| {
            left -= 1;
            out.extend_from_slice(b"row\n");
            if left == 0 { Err(Error::Check("a row that cannot be read".to_owned())) } else { Ok(()) }
        });
        assert!(matches!(rest(failing).await, Err(Error::Check(_))), "{}", engine.name);
        let panicking = engine.db.export(ENDLESS, vec![], HOUR, |_, _| panic!("on purpose"));
        assert!(rest(panicking).await.is_err(), "{}", engine.name);
        let late = engine.db.export(ENDLESS, vec![], Duration::from_millis(200), |_, _| Ok(()));
        assert!(matches!(rest(late).await, Err(Error::Deadline)), "{}", engine.name);

        // Nobody reads it any more: the statement stops, also one that is between two rows.
        let mut dropped = engine.db.export(ENDLESS, vec![], HOUR, endless);
        dropped.next().await.unwrap().unwrap();
        let silent = engine.db.export(ENDLESS, vec![], HOUR, |_, _| Ok(()));
        drop((dropped, silent));
        if engine.name == "postgres" {
            let running = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() \
                           AND state = 'active' AND query LIKE '%a row of an export%' AND pid <> pg_backend_pid()";
            let ended = async {
                while engine.db.query(running, vec![]).await.unwrap()[0].get::<i64>("n").unwrap() > 0 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(Duration::from_mins(2), ended).await.expect("the statements are stopped");
        }

        // Closing ends those that run.
        let mut running = engine.db.export(ENDLESS, vec![], HOUR, |_, _| Ok(()));
        if engine.name == "sqlite" {
            tokio::time::timeout(Duration::from_secs(4), engine.db.close())
                .await
                .expect("no export holds the database");
            assert!(matches!(running.next().await, Err(Error::Closed)));
            assert!(matches!(engine.db.export(ENDLESS, vec![], HOUR, |_, _| Ok(())).next().await, Err(Error::Closed)));
        }
    }
}
