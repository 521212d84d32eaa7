//! Rows of every type from SQLite into Postgres.

use gatewright_db::promote::{CopyError, promote};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Step, Value, migrate, params};

const STEPS: &[Step] = &[Step {
    version: 1,
    name: "one of each",
    sql: "CREATE TABLE parents (id {text} PRIMARY KEY, child {text});
          CREATE TABLE everything (
              id {text} PRIMARY KEY, n {int}, f {float}, b {bool}, t {time}, d {date}, bytes {bytes}, j {json},
              amount {decimal}, u {uuid}, parent {text} REFERENCES parents (id), itself {text} REFERENCES everything (id));
          CREATE TABLE log (position {serial}, what {text})",
}];

async fn pair() -> Option<(TestDb, TestDb)> {
    let mut both = engines().await.into_iter();
    let (sqlite, postgres) = (both.next()?, both.next()?);
    migrate(&sqlite.db, "all", STEPS).await.unwrap();
    migrate(&postgres.db, "all", STEPS).await.unwrap();
    Some((sqlite, postgres))
}

async fn fill(db: &Db) {
    for number in 0..250_i64 {
        db.execute("INSERT INTO parents (id) VALUES (?1)", params![format!("p{number}")]).await.unwrap();
        // Each refers to one that comes later.
        let sql = "INSERT INTO everything VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL)";
        let values = vec![
            Value::from(format!("é{number}")),
            (i64::MAX - number).into(),
            (0.1 + f64::from(i32::try_from(number).unwrap())).into(),
            (number % 2 == 0).into(),
            format!("2024-02-29T12:00:00.{number:06}Z").into(),
            "0001-01-01".into(),
            vec![0_u8, 255, 7].into(),
            format!(r#"{{"b":{number},"a":[1.50,1e2,"x",null]}}"#).into(),
            format!("{number}.5").into(),
            "0191d2b3-aaaa-7000-8000-00000000000a".into(),
            format!("p{number}").into(),
        ];
        let values = if number % 7 == 0 {
            let mut absent = vec![Value::Null; 11];
            absent[0] = values[0].clone();
            absent
        } else {
            values
        };
        db.execute(sql, values).await.unwrap();
    }
    db.execute("UPDATE everything SET itself = 'é249' WHERE id = 'é1'", vec![]).await.unwrap();
    for number in 0..5_i64 {
        db.execute("INSERT INTO log (what) VALUES (?1)", params![number.to_string()]).await.unwrap();
    }
    db.execute("DELETE FROM log WHERE position > 3", vec![]).await.unwrap();
}

async fn count(db: &Db, table: &str) -> i64 {
    let row = db.query_opt(format!("SELECT count(*) AS n FROM {table}"), vec![]).await.unwrap().unwrap();
    row.get("n").unwrap()
}

#[tokio::test]
async fn rows_of_every_type_are_copied_and_sequences_continue() {
    let Some((sqlite, postgres)) = pair().await else { return };
    fill(&sqlite.db).await;
    let copied = promote(&sqlite.db, &postgres.db, &[]).await.unwrap();
    let rows: Vec<(&str, u64)> = copied.iter().map(|copied| (&*copied.table, copied.rows)).collect();
    assert_eq!(rows, [("everything", 250), ("log", 3), ("parents", 250)]);
    assert!(copied.iter().all(|copied| copied.checksum.len() == 32));
    for (table, rows) in rows {
        assert_eq!(count(&postgres.db, table).await, i64::try_from(rows).unwrap(), "{table}");
    }
    let row = postgres.db.query_opt("SELECT * FROM everything WHERE id = 'é1'", vec![]).await.unwrap().unwrap();
    assert_eq!(row.get::<i64>("n").unwrap(), i64::MAX - 1);
    assert_eq!(row.get::<String>("itself").unwrap(), "é249");
    assert_eq!(row.get::<String>("amount").unwrap(), "1.5");
    assert!(!row.get::<bool>("b").unwrap());
    // Numbers that were given before, also those of rows that are gone, are not given again.
    let next = "INSERT INTO log (what) VALUES ('next') RETURNING position";
    let row = postgres.db.write_rows(next, vec![]).await.unwrap().remove(0);
    assert_eq!(row.get::<i64>("position").unwrap(), 6);
    // Foreign keys hold as before.
    let orphan = postgres.db.execute("INSERT INTO everything (id, parent) VALUES ('x', 'nobody')", vec![]).await;
    assert!(matches!(orphan, Err(gatewright_db::Error::ForeignKey { .. })), "{orphan:?}");
}

#[tokio::test]
async fn a_target_with_rows_is_refused_and_stays_as_it_is() {
    let Some((sqlite, postgres)) = pair().await else { return };
    fill(&sqlite.db).await;
    postgres.db.execute("CREATE TABLE strangers (a int)", vec![]).await.unwrap();
    postgres.db.execute("INSERT INTO strangers VALUES (1)", vec![]).await.unwrap();
    let refused = promote(&sqlite.db, &postgres.db, &[]).await.unwrap_err();
    assert!(matches!(&refused, CopyError::NotEmpty(tables) if tables == &["strangers"]), "{refused}");
    assert_eq!(count(&postgres.db, "parents").await, 0);
    assert!(matches!(promote(&postgres.db, &sqlite.db, &[]).await, Err(CopyError::Engines)));
}

#[tokio::test]
async fn data_is_left_behind_only_if_it_is_named() {
    let Some((sqlite, postgres)) = pair().await else { return };
    fill(&sqlite.db).await;
    sqlite.db.execute("ALTER TABLE parents ADD COLUMN old TEXT", vec![]).await.unwrap();
    sqlite.db.execute("ALTER TABLE parents ADD COLUMN empty TEXT", vec![]).await.unwrap();
    sqlite.db.execute("UPDATE parents SET old = 'kept' WHERE id = 'p1'", vec![]).await.unwrap();
    for table in ["former", "hollow"] {
        sqlite.db.execute(format!("CREATE TABLE {table} (a TEXT)"), vec![]).await.unwrap();
    }
    sqlite.db.execute("INSERT INTO former VALUES ('x')", vec![]).await.unwrap();
    let refused = promote(&sqlite.db, &postgres.db, &[]).await.unwrap_err().to_string();
    for word in ["the table former (1 rows)", "the column parents.old (1 values)", "--leave"] {
        assert!(refused.contains(word), "{refused}");
    }
    assert!(!refused.contains("hollow") && !refused.contains("empty"), "{refused}");
    assert_eq!(count(&postgres.db, "parents").await, 0);
    let leave = ["former".to_owned(), "parents.old".to_owned()];
    let copied = promote(&sqlite.db, &postgres.db, &leave).await.unwrap();
    assert_eq!(copied.len(), 3);
}

#[tokio::test]
async fn one_row_that_cannot_be_stored_rolls_back_everything() {
    let Some((sqlite, postgres)) = pair().await else { return };
    fill(&sqlite.db).await;
    // SQLite takes what it is given where a table is not strict.
    sqlite.db.execute("UPDATE everything SET u = 'no uuid' WHERE id = 'é200'", vec![]).await.unwrap();
    let refused = promote(&sqlite.db, &postgres.db, &[]).await.unwrap_err();
    assert!(matches!(&refused, CopyError::Row { table, .. } if table == "everything"), "{refused}");
    assert!(
        refused.to_string().starts_with("the column u of the row with id \"é200\" of the table everything"),
        "{refused}"
    );
    for table in ["everything", "parents", "log"] {
        assert_eq!(count(&postgres.db, table).await, 0, "{table}");
    }
    // Another try is possible, and foreign keys are there as before.
    sqlite.db.execute("UPDATE everything SET u = NULL WHERE id = 'é200'", vec![]).await.unwrap();
    promote(&sqlite.db, &postgres.db, &[]).await.unwrap();
}

#[tokio::test]
async fn numbers_of_older_forms_are_copied() {
    let Some((sqlite, postgres)) = pair().await else { return };
    let stored = [
        "-0",
        "-0.0",
        "0e5",
        "1.0",
        "1.50",
        "1E5",
        "1e-400",
        "-1e-400",
        "18446744073709551617",
        "1e400",
        "[-0,{\"a\":-0.0}]",
        "{\"a\":1,\"a\":-0}",
        "123456789012345678901234567890.10",
    ];
    for (number, json) in stored.into_iter().enumerate() {
        let sql = "INSERT INTO everything (id, j, f, amount) VALUES (?1, ?2, -0.0, '-0')";
        sqlite.db.execute(sql, params![format!("j{number}"), json]).await.unwrap();
    }
    let copied = promote(&sqlite.db, &postgres.db, &[]).await.unwrap();
    assert_eq!(copied.iter().find(|copied| copied.table == "everything").map(|copied| copied.rows), Some(13));
}

#[tokio::test]
async fn a_value_that_differs_after_copying_is_named() {
    let Some((sqlite, postgres)) = pair().await else { return };
    fill(&sqlite.db).await;
    let body = "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.id = 'é123' THEN NEW.amount := 7; END IF; RETURN NEW; END $$";
    postgres.db.execute(body, vec![]).await.unwrap();
    let trigger = "CREATE TRIGGER spoil BEFORE INSERT ON everything FOR EACH ROW EXECUTE FUNCTION spoil()";
    postgres.db.execute(trigger, vec![]).await.unwrap();
    let refused = promote(&sqlite.db, &postgres.db, &[]).await.unwrap_err().to_string();
    for word in ["the table everything differs", "the column amount of the row with id \"é123\""] {
        assert!(refused.contains(word), "{refused}");
    }
    assert_eq!(count(&postgres.db, "everything").await, 0);
}

#[tokio::test]
async fn times_that_sqlite_wrote_are_copied_as_utc_and_other_forms_are_named() {
    let Some((sqlite, postgres)) = pair().await else { return };
    for (number, time) in [
        "CURRENT_TIMESTAMP",
        "'2026-01-02 03:04:05'",
        "'2026-01-02 03:04:05.6'",
        "'2026-01-02T03:04:05Z'",
        "'2026-01-02T05:04:05+02:00'",
        "'2026-01-02'",
    ]
    .into_iter()
    .enumerate()
    {
        let sql = format!("INSERT INTO everything (id, t) VALUES ('t{number}', {time})");
        sqlite.db.execute(sql, vec![]).await.unwrap();
    }
    for (column, value) in [
        ("t", "'yesterday'"),
        ("t", "'@5'"),
        ("t", "'infinity'"),
        ("t", "'9999-12-31T23:59:59.000000Z'"),
        ("d", "'2026-02-30'"),
        ("d", "'@5'"),
        ("d", "'20260102'"),
        ("amount", "'NaN'"),
        ("b", "7"),
        ("j", "'{'"),
    ] {
        let sql = format!("INSERT INTO everything (id, {column}) VALUES ('bad', {value})");
        sqlite.db.execute(sql, vec![]).await.unwrap();
        let refused = promote(&sqlite.db, &postgres.db, &[]).await.unwrap_err().to_string();
        let named = format!("the column {column} of the row with id \"bad\"");
        assert!(refused.contains(&named), "{column} {value}: {refused}");
        assert_eq!(count(&postgres.db, "everything").await, 0, "{column} {value}");
        sqlite.db.execute("DELETE FROM everything WHERE id = 'bad'", vec![]).await.unwrap();
    }
    promote(&sqlite.db, &postgres.db, &[]).await.unwrap();
    for db in [&sqlite.db, &postgres.db] {
        let rows = db.query("SELECT t FROM everything WHERE id > 't0' ORDER BY id", vec![]).await.unwrap();
        let times: Vec<jiff::Timestamp> = rows.iter().map(|row| row.get("t").unwrap()).collect();
        let expected = ["03:04:05", "03:04:05.6", "03:04:05", "03:04:05", "00:00:00"];
        let expected = expected.map(|time| format!("2026-01-02T{time}Z").parse::<jiff::Timestamp>().unwrap());
        assert_eq!(times, expected);
    }
}
