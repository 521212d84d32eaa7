//! Every two changes of a declaration in one edit: the rows are the same before and after, and records can be written.

use gatewright_base::{Ambient, Identity};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Engine, Options, params};
use gatewright_entities::schema::{self, SchemaError, Users};
use gatewright_entities::{Declarations, Entities, Entity, Field};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    RenameTable,
    AddField,
    Rename,
    ToInt,
    ToRelation,
    ToEnum,
    Pattern,
    Required,
    Optional,
    Unique,
    Index,
    Default,
    Drop,
}

use Change::{
    AddField, Default, Drop, Index, Optional, Pattern, Rename, RenameTable, Required, ToEnum, ToInt, ToRelation, Unique,
};

const OF_A_FIELD: [Change; 11] =
    [Rename, ToInt, ToRelation, ToEnum, Pattern, Required, Optional, Unique, Index, Default, Drop];
const TYPES: [Change; 4] = [ToInt, ToRelation, ToEnum, Pattern];
/// The values of the fields `code`, which is optional before, and `other`, which is required.
const VALUES: [(&str, [&str; 3]); 2] = [("code", ["1", "2", "3"]), ("other", ["10", "20", "30"])];

/// One edit: what changes about the table, about `code` and about `other`.
#[derive(Debug, Clone)]
struct Edit {
    table: Vec<Change>,
    fields: [Vec<Change>; 2],
}

fn edits() -> Vec<Edit> {
    let mut edits = Vec::new();
    for (at, one) in OF_A_FIELD.into_iter().enumerate() {
        for two in OF_A_FIELD {
            edits.push(Edit { table: vec![], fields: [vec![one], vec![two]] });
        }
        for two in OF_A_FIELD.into_iter().skip(at + 1) {
            let contradictory = TYPES.contains(&one) && TYPES.contains(&two)
                || two == Drop
                || [one, two] == [Required, Optional]
                || [one, two] == [ToRelation, Default]
                || [one, two] == [Unique, Default];
            if !contradictory {
                edits.push(Edit { table: vec![], fields: [vec![one, two], vec![]] });
                edits.push(Edit { table: vec![], fields: [vec![], vec![one, two]] });
            }
        }
        for table in [RenameTable, AddField] {
            edits.push(Edit { table: vec![table], fields: [vec![one], vec![]] });
            edits.push(Edit { table: vec![table], fields: [vec![], vec![one]] });
        }
    }
    edits.push(Edit { table: vec![RenameTable, AddField], fields: [vec![], vec![]] });
    edits
}

fn field(place: usize, changes: &[Change]) -> Option<Field> {
    let (name, values) = VALUES[place];
    let has = |change| changes.contains(&change);
    let now = if has(Rename) { format!("{name}_now") } else { name.to_owned() };
    let mut field = if has(ToInt) {
        Field::int(now)
    } else if has(ToRelation) {
        Field::relation(now, "targets")
    } else if has(ToEnum) {
        Field::choice(now, values)
    } else {
        Field::string(now)
    };
    if has(Pattern) {
        field = field.pattern("^[0-9]+$");
    }
    if has(Rename) {
        field = field.renamed_from(name);
    }
    if has(Required) || (place == 1 && !has(Optional)) {
        field = field.required();
    }
    if has(Unique) {
        field = field.unique();
    }
    if has(Index) {
        field = field.index();
    }
    if has(Default) {
        field = if has(ToInt) { field.default(1) } else { field.default(values[0]) };
    }
    (!has(Drop)).then_some(field)
}

fn entities(edit: &Edit) -> [Entity; 2] {
    let rename = edit.table.contains(&RenameTable);
    let mut notes = Entity::new(if rename { "papers" } else { "notes" }).public();
    if rename {
        notes = notes.renamed_from("notes");
    }
    for (place, changes) in edit.fields.iter().enumerate() {
        notes = field(place, changes).into_iter().fold(notes, Entity::field);
    }
    if edit.table.contains(&AddField) {
        notes = notes.field(Field::int("added").default(7));
    }
    [notes.field(Field::string("kept")), Entity::new("targets").public()]
}

/// Runs what is printed as the sqlite3 shell does: on a connection of its own that reads unknown quoted names as texts,
/// enforces no foreign keys and continues after an error.
async fn run_as_operator(test: &TestDb, sql: &[String]) -> Vec<String> {
    let mut errors = Vec::new();
    if test.db.engine() == Engine::Sqlite {
        let shell = rusqlite::Connection::open(test.url.trim_start_matches("sqlite://")).unwrap();
        shell.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DQS_DML, true).unwrap();
        shell.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DQS_DDL, true).unwrap();
        shell.pragma_update(None, "foreign_keys", false).unwrap();
        for statement in sql {
            errors.extend(shell.execute_batch(statement).err().map(|error| format!("{statement}: {error}")));
        }
    } else {
        for statement in sql {
            let result = test.db.execute(statement.clone(), vec![]).await;
            errors.extend(result.err().map(|error| format!("{statement}: {error}")));
        }
    }
    errors
}

async fn apply(db: &Db, entities: &[Entity]) -> Result<(), SchemaError> {
    schema::apply(db, &Declarations::check(entities).unwrap(), &Users::default()).await.map(|_| ())
}

/// The table as it is before each edit, with three rows.
async fn make(db: &Db) {
    for table in ["notes", "papers", "targets", "gatewright_renames"] {
        db.execute(format!("DROP TABLE IF EXISTS {table}"), vec![]).await.unwrap();
    }
    apply(db, &entities(&Edit { table: vec![], fields: [vec![], vec![]] })).await.unwrap();
    let now = gatewright_base::Ambient::system().now();
    for target in VALUES.iter().flat_map(|(_, values)| values) {
        let sql = "INSERT INTO targets (id, created_at, updated_at) VALUES (?1, ?2, ?2)";
        db.execute(sql, params![*target, now]).await.unwrap();
    }
    for row in 0..3 {
        let sql = "INSERT INTO notes (id, code, other, kept, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
        let values = params![format!("row {row}"), VALUES[0].1[row], VALUES[1].1[row], "kept", now];
        db.execute(sql, values).await.unwrap();
    }
}

async fn column(db: &Db, table: &str, column: &str) -> Vec<Option<String>> {
    let sql = format!("SELECT CAST(\"{table}\".\"{column}\" AS TEXT) AS value FROM \"{table}\" ORDER BY id");
    let rows = db.query(sql, vec![]).await.unwrap_or_else(|error| panic!("{column}: {error}"));
    rows.iter().map(|row| row.get("value").unwrap()).collect()
}

#[tokio::test]
async fn every_pair_of_changes_keeps_the_rows_on_sqlite() {
    every_pair_of_changes_keeps_the_rows(Engine::Sqlite).await;
}

#[tokio::test]
async fn every_pair_of_changes_keeps_the_rows_on_postgres() {
    every_pair_of_changes_keeps_the_rows(Engine::Postgres).await;
}

async fn every_pair_of_changes_keeps_the_rows(engine: Engine) {
    for test in engines().await.iter().filter(|test| test.db.engine() == engine) {
        for edit in edits() {
            let told = format!("{} {edit:?}", test.name);
            make(&test.db).await;
            let after = entities(&edit);
            let mut rounds = 0;
            while let Err(error) = apply(&test.db, &after).await {
                rounds += 1;
                assert!(rounds < 6, "{told}: still refused: {error}");
                let SchemaError::Refused(refusals) = error else { panic!("{told}: {error}") };
                let sql: Vec<String> = refusals.iter().flat_map(|refusal| refusal.sql.clone()).collect();
                assert!(!sql.is_empty(), "{told}: nothing to run: {refusals:?}");
                assert_eq!(run_as_operator(test, &sql).await, Vec::<String>::new(), "{told}");
            }
            let table = if edit.table.contains(&RenameTable) { "papers" } else { "notes" };
            for (place, (name, values)) in VALUES.iter().enumerate() {
                let changes = &edit.fields[place];
                let renamed = format!("{name}_now");
                let now = if changes.contains(&Rename) { &renamed } else { *name };
                // The operator dropped a required column by the printed SQL.
                if place == 1 && changes.contains(&Drop) {
                    continue;
                }
                let values = values.map(|value| Some(value.to_owned()));
                assert_eq!(column(&test.db, table, now).await, values, "{told}: {name}");
            }
            assert_eq!(column(&test.db, table, "kept").await, vec![Some("kept".to_owned()); 3], "{told}");
            if test.db.engine() == Engine::Sqlite {
                write_and_read(&test.db, &after, &edit, &told).await;
            } else {
                // As after a restart: Postgres keeps statements that were prepared before the change.
                let small = Options { max_connections: 2.try_into().unwrap(), ..Options::default() };
                let restarted = Db::open(&test.url, small).await.unwrap();
                write_and_read(&restarted, &after, &edit, &told).await;
            }
        }
    }
}

/// A record can be made, and the new rules hold in the database.
async fn write_and_read(db: &Db, after: &[Entity], edit: &Edit, told: &str) {
    let build = Entities::builder(db.clone(), Ambient::system()).declare_all(after.to_vec()).build();
    let entities = build.await.unwrap_or_else(|error| panic!("{told}: {error}"));
    let mut body = serde_json::Map::new();
    for (place, (name, values)) in VALUES.iter().enumerate() {
        let changes = &edit.fields[place];
        if changes.contains(&Drop) || changes.contains(&Unique) && !(changes.contains(&Required) || place == 1) {
            continue;
        }
        let now = if changes.contains(&Rename) { format!("{name}_now") } else { (*name).to_owned() };
        let fresh = if changes.contains(&Unique) && !changes.contains(&ToEnum) && !changes.contains(&ToRelation) {
            "77"
        } else {
            values[0]
        };
        let value = if changes.contains(&ToInt) { fresh.parse::<i64>().unwrap().into() } else { fresh.into() };
        body.insert(now, value);
    }
    let body = serde_json::Value::Object(body).to_string();
    let created = entities.tables().next().unwrap().create(&Identity::Anonymous.into(), body.as_bytes()).await;
    let taken = edit
        .fields
        .iter()
        .any(|changes| changes.contains(&Unique) && (changes.contains(&ToEnum) || changes.contains(&ToRelation)));
    if taken {
        return;
    }
    created.unwrap_or_else(|error| panic!("{told}: {body}: {error}"));
}

#[tokio::test]
async fn while_a_rename_is_pending_only_the_rename_is_printed() {
    for test in &engines().await {
        make(&test.db).await;
        let after = entities(&Edit { table: vec![], fields: [vec![Rename, ToInt], vec![ToInt]] });
        let SchemaError::Refused(refusals) = apply(&test.db, &after).await.unwrap_err() else { panic!() };
        let printed: Vec<&String> = refusals.iter().flat_map(|refusal| &refusal.sql).collect();
        assert_eq!(printed, ["ALTER TABLE \"notes\" RENAME COLUMN \"code\" TO \"code_now\""], "{}", test.name);
        assert!(refusals[1].reason.contains("after the pending renames"), "{}", refusals[1]);
    }
}

#[tokio::test]
async fn a_script_with_a_missing_column_changes_no_value() {
    for test in &engines().await {
        make(&test.db).await;
        let after = entities(&Edit { table: vec![], fields: [vec![ToInt], vec![]] });
        let SchemaError::Refused(refusals) = apply(&test.db, &after).await.unwrap_err() else { panic!() };
        test.db.execute("ALTER TABLE notes RENAME COLUMN code TO moved", vec![]).await.unwrap();
        let errors = run_as_operator(test, &refusals[0].sql).await;
        assert!(errors.iter().any(|error| error.contains("code")), "{}: {errors:?}", test.name);
        let values = VALUES[0].1.map(|value| Some(value.to_owned()));
        assert_eq!(column(&test.db, "notes", "moved").await, values, "{}", test.name);
    }
}

#[tokio::test]
async fn values_that_do_not_convert_are_counted_and_listed_before_a_script_is_printed() {
    for test in engines().await.iter().filter(|test| test.db.engine() == Engine::Sqlite) {
        for (change, value, words) in [
            (ToInt, "7 apples", "1 row holds a value that does not convert"),
            (ToRelation, "99", "1 row holds a value that is no record's id"),
        ] {
            make(&test.db).await;
            test.db.execute("UPDATE notes SET code = ?1 WHERE id = 'row 1'", params![value]).await.unwrap();
            let after = entities(&Edit { table: vec![], fields: [vec![change], vec![]] });
            let SchemaError::Refused(refusals) = apply(&test.db, &after).await.unwrap_err() else { panic!() };
            assert!(refusals[0].reason.contains(words), "{}", refusals[0]);
            let listed = test.db.query(refusals[0].sql[0].clone(), vec![]).await.unwrap();
            assert_eq!(listed.len(), 1);
            assert_eq!(listed[0].get::<String>("id").unwrap(), "row 1");
        }
    }
}
