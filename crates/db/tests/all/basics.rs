use std::collections::HashSet;

use gatewright_base::time;
use gatewright_db::testing::engines;
use gatewright_db::{Db, Error, OpenError, Options, Tx, Value, column_types, params};

async fn table(db: &Db, columns: &str) {
    let sql = column_types(&format!("CREATE TABLE t ({columns})"), db.engine());
    db.execute(sql, vec![]).await.unwrap();
}

#[tokio::test]
async fn every_type_of_value_is_read_back_unchanged() {
    for engine in engines().await {
        let db = &engine.db;
        table(
            db,
            "a {text}, b {int}, c {float}, d {bool}, e {time}, f {bytes}, g {json}, h {decimal}, i {uuid}, j {date}",
        )
        .await;
        let now = time::parse("2026-01-02T03:04:05.123456Z").unwrap();
        let insert = "INSERT INTO t VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let uuid = "0190163d-8694-739b-aea5-966c26f8ad90";
        db.execute(
            insert,
            params![
                "x'\"\u{1f600}",
                i64::MIN,
                -0.5,
                true,
                now,
                &b"\0\xff"[..],
                "{\"k\": [1, null]}",
                "-12345678901234567890.000123",
                uuid,
                "2024-02-29"
            ],
        )
        .await
        .unwrap();
        db.execute(
            insert,
            params![
                None::<String>,
                None::<i64>,
                None::<f64>,
                None::<bool>,
                None::<Vec<u8>>,
                None::<Vec<u8>>,
                None::<String>,
                None::<String>,
                None::<String>,
                None::<String>
            ],
        )
        .await
        .unwrap();
        let rows = db.query("SELECT a, b, c, d, e, f, g, h, i, j FROM t ORDER BY a IS NULL", vec![]).await.unwrap();
        let row = &rows[0];
        assert_eq!(row.get::<String>("a").unwrap(), "x'\"\u{1f600}", "{}", engine.name);
        assert_eq!(row.get::<i64>("b").unwrap(), i64::MIN);
        assert!((row.get::<f64>("c").unwrap() + 0.5).abs() < f64::EPSILON);
        assert!(row.get::<bool>("d").unwrap());
        assert_eq!(row.get::<jiff::Timestamp>("e").unwrap(), now);
        assert_eq!(row.get::<Vec<u8>>("f").unwrap(), b"\0\xff");
        assert_eq!(row.get::<String>("g").unwrap(), "{\"k\": [1, null]}");
        assert_eq!(row.get::<String>("h").unwrap(), "-12345678901234567890.000123");
        assert_eq!(row.get::<String>("i").unwrap(), uuid);
        assert_eq!(row.get::<String>("j").unwrap(), "2024-02-29");
        assert!(rows[1].values().iter().all(|value| *value == Value::Null));
    }
}

#[tokio::test]
async fn a_value_of_an_unexpected_type_is_reported_as_corrupt_with_its_column() {
    for engine in engines().await {
        let row = engine.db.query_opt("SELECT 'secret' AS word", vec![]).await.unwrap().unwrap();
        let error = row.get::<i64>("word").unwrap_err();
        assert!(matches!(&error, Error::Corrupt { column, .. } if column == "word"));
        assert!(!error.to_string().contains("secret \""), "the value stays out of the message");
        assert!(row.get::<i64>("other").is_err());
    }
}

#[tokio::test]
async fn constraint_violations_are_classified_with_their_columns() {
    for engine in engines().await {
        let db = &engine.db;
        let sql = column_types(
            "CREATE TABLE t (id {text} PRIMARY KEY, a {text} NOT NULL, b {int}, UNIQUE (a, b))",
            db.engine(),
        );
        db.execute(sql, vec![]).await.unwrap();
        let child =
            column_types("CREATE TABLE child (t_id {text} NOT NULL REFERENCES t (id) ON DELETE RESTRICT)", db.engine());
        db.execute(child, vec![]).await.unwrap();
        let insert = "INSERT INTO t (id, a, b) VALUES (?1, ?2, ?3)";
        db.execute(insert, params!["1", "x", 1_i64]).await.unwrap();
        let again = db.execute(insert, params!["1", "y", 1_i64]).await.unwrap_err();
        assert!(again.is_unique_on("t", &["id"]), "{}: {again:?}", engine.name);
        let pair = db.execute(insert, params!["2", "x", 1_i64]).await.unwrap_err();
        assert!(pair.is_unique_on("t", &["a", "b"]), "{}: {pair:?}", engine.name);
        let null = db.execute(insert, params!["3", None::<String>, 1_i64]).await.unwrap_err();
        assert!(matches!(&null, Error::NotNull { column } if column == "a"), "{}: {null:?}", engine.name);
        let orphan = db.execute("INSERT INTO child VALUES (?1)", params!["none"]).await.unwrap_err();
        assert!(matches!(orphan, Error::ForeignKey { .. }), "{}: {orphan:?}", engine.name);
        db.execute("INSERT INTO child VALUES (?1)", params!["1"]).await.unwrap();
        let parent = db.execute("DELETE FROM t WHERE id = ?1", params!["1"]).await.unwrap_err();
        assert!(matches!(parent, Error::ForeignKey { .. }), "{}: {parent:?}", engine.name);
    }
}

#[tokio::test]
async fn a_wrong_number_of_values_is_refused() {
    for engine in engines().await {
        table(&engine.db, "a {int}, b {int}").await;
        for given in [params![1_i64], params![1_i64, 2_i64, 3_i64]] {
            assert!(engine.db.execute("INSERT INTO t VALUES (?1, ?2)", given).await.is_err(), "{}", engine.name);
        }
    }
}

#[tokio::test]
async fn reads_cannot_write_and_closures_cannot_end_their_transaction() {
    for engine in engines().await {
        table(&engine.db, "a {int}").await;
        let wrote = engine.db.read(async |tx: &Tx| tx.execute("INSERT INTO t VALUES (1)", vec![]).await).await;
        assert!(wrote.is_err(), "{}", engine.name);
        for sql in ["COMMIT", "ROLLBACK", "PRAGMA synchronous = OFF", "-- hidden\nCOMMIT"] {
            let ended = engine.db.write(async move |tx: &Tx| tx.execute(sql, vec![]).await).await;
            assert!(ended.is_err(), "{}: {sql}", engine.name);
        }
        assert_eq!(engine.db.query("SELECT a FROM t", vec![]).await.unwrap().len(), 0);
    }
}

#[tokio::test]
async fn a_cached_statement_survives_a_change_of_its_table() {
    for engine in engines().await {
        table(&engine.db, "a {int}").await;
        for added in 0..3 {
            for _ in 0..3 {
                let rows = engine.db.query("SELECT * FROM t", vec![]).await.unwrap();
                assert!(rows.is_empty());
            }
            engine.db.execute(format!("ALTER TABLE t ADD COLUMN c{added} INTEGER"), vec![]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn unusable_urls_are_refused_with_a_hint() {
    for (url, word) in [
        ("", "sqlite://"),
        ("mysql://x/y", "postgres://"),
        ("sqlite://", "name one"),
        ("sqlite::memory:", "name one"),
        ("sqlite:///nowhere/at/all/x.db", "does not exist"),
        ("postgres://u:canary-pw@127.0.0.1:1/x", "127.0.0.1:1"),
        ("postgres://u@127.0.0.1/x?sslmode=perhaps", "sslmode"),
        ("postgres://u:7/canary-pw@127.0.0.1/x", "percent-encode"),
    ] {
        let error = Db::open(url, Options::default()).await.map(|_| ()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(word), "{url}: {text}");
        assert!(!text.contains("canary-pw"), "{text}");
        assert!(matches!(error, OpenError::Url(_) | OpenError::Unreachable { .. }));
    }
}

#[tokio::test]
async fn a_missing_file_is_created_only_if_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("typo.db");
    let url = format!("sqlite://{}", file.display());
    let looking = Options { create_file: false, ..Options::default() };
    let error = Db::open(&url, looking.clone()).await.unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }) && error.to_string().contains("typo.db"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    Db::open(&url, Options::default()).await.unwrap().close().await;
    assert!(Db::open(&url, looking).await.is_ok());
}

#[tokio::test]
async fn a_read_sees_every_write_that_was_acknowledged_before_it() {
    for engine in engines().await {
        table(&engine.db, "a {int}").await;
        let mut seen = HashSet::new();
        for number in 0..200_i64 {
            engine.db.execute("INSERT INTO t VALUES (?1)", params![number]).await.unwrap();
            let row = engine.db.query_opt("SELECT max(a) AS a FROM t", vec![]).await.unwrap().unwrap();
            assert_eq!(row.get::<i64>("a").unwrap(), number, "{}", engine.name);
            assert!(seen.insert(number));
        }
    }
}

#[tokio::test]
async fn text_search_ignores_case_on_both_engines() {
    for engine in engines().await {
        engine.db.write(async |tx: &Tx| gatewright_db::dialect::create_functions(tx).await).await.unwrap();
        for (text, needle, found) in [
            ("Hello World", "o w", true),
            ("Hello World", "O W", true),
            ("ÄÖÜ ß Straße", "äöü", true),
            ("ΑΒΓ", "αβγ", true),
            ("ПРИВЕТ", "привет", true),
            ("İstanbul", "istanbul", false),
            ("100%_done", "%_D", true),
            ("abc", "a%c", false),
            ("anything", "", true),
        ] {
            let needle = gatewright_db::dialect::fold_case(needle);
            let condition = gatewright_db::dialect::contains_folded(engine.db.engine(), "?1", "?2");
            let sql = format!("SELECT {condition} AS found");
            let row = engine.db.query_opt(sql, params![text, needle.clone()]).await.unwrap().unwrap();
            assert_eq!(row.get::<bool>("found").unwrap(), found, "{}: {text} {needle}", engine.name);
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_database_file_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;

    for engine in engines().await.into_iter().filter(|engine| engine.name == "sqlite") {
        let file = engine.url.strip_prefix("sqlite://").unwrap();
        engine.db.execute("CREATE TABLE t (a INTEGER)", vec![]).await.unwrap();
        for suffix in ["", "-wal"] {
            let mode = std::fs::metadata(format!("{file}{suffix}")).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{suffix}");
        }
    }
}

#[tokio::test]
async fn a_statement_on_an_unknown_table_or_column_has_its_own_error() {
    for engine in engines().await {
        let db = &engine.db;
        table(db, "a {text}").await;
        for sql in ["SELECT b FROM t", "SELECT a FROM gone", "SELECT a FROM t WHERE b = 'x'"] {
            let error = db.query(sql, vec![]).await.unwrap_err();
            assert!(matches!(error, Error::Outdated(_)), "{}: {sql}: {error}", engine.name);
        }
        for sql in ["INSERT INTO t (a, b) VALUES ('x', 'y')", "UPDATE t SET b = 'x'", "DELETE FROM gone"] {
            let error = db.execute(sql, vec![]).await.unwrap_err();
            assert!(matches!(error, Error::Outdated(_)), "{}: {sql}: {error}", engine.name);
        }
        let other = db.query("SELECT a FROM t WHERE", vec![]).await.unwrap_err();
        assert!(matches!(other, Error::Other { .. }), "{}: {other}", engine.name);
    }
}
