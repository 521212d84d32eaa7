//! Tables that follow the declarations.

use gatewright_base::Ambient;
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Options, column_types, params};
use gatewright_entities::schema::{self, Changes, Rules, SchemaError, Users};
use gatewright_entities::{Declarations, Entities, Entity, Field, OnDelete, Tables};
use serde_json::json;

use super::support::make_users;

fn posts() -> Entity {
    Entity::new("posts").public().field(Field::string("title").required())
}

fn declared(entities: &[Entity]) -> Declarations {
    Declarations::check(entities).unwrap()
}

pub(super) async fn plan(db: &Db, entities: &[Entity]) -> Result<Changes, SchemaError> {
    schema::plan(db, &declared(entities), &Users::default()).await
}

pub(super) async fn apply(db: &Db, entities: &[Entity]) -> Result<Changes, SchemaError> {
    schema::apply(db, &declared(entities), &Users::default()).await
}

/// Creates a post with the given fields of the first declaration.
pub(super) async fn write(db: &Db, entity: Entity, body: serde_json::Value) {
    let entities = Entities::builder(db.clone(), Ambient::system()).declare(entity).build().await.unwrap();
    let call = gatewright_base::Identity::Anonymous.into();
    entities.tables().next().unwrap().create(&call, body.to_string().as_bytes()).await.unwrap();
}

/// The obstacles, one line each.
async fn refusals(db: &Db, entities: &[Entity]) -> Vec<String> {
    match apply(db, entities).await {
        Err(SchemaError::Refused(refusals)) => refusals.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tables_are_created_once_as_planned() {
    let entities = [
        posts()
            .owner("user_id")
            .field(Field::string("slug").unique())
            .field(Field::int("views").index())
            .field(Field::relation("parent", "posts").on_delete(OnDelete::Cascade)),
        Entity::new("everything")
            .field(Field::text("a").default("it's"))
            .field(Field::int("b").default(i64::MIN))
            .field(Field::float("c").default(-1.5e-7))
            .field(Field::decimal("d").default("1.50"))
            .field(Field::boolean("e").default(true))
            .field(Field::choice("f", ["x"]).default("x"))
            .field(Field::date("g").default("2024-02-29"))
            .field(Field::timestamp("h").default("2024-02-29T00:00:00Z"))
            .field(Field::uuid("i").default("0191d2b3-0000-7000-8000-00000000000a"))
            .field(Field::json("j").default(json!({"a": ["?1", "'"]}))),
    ];
    // Public and owned exclude each other.
    let entities =
        entities.map(|entity| if format!("{entity:?}").contains("user_id") { unpublic(entity) } else { entity });
    for TestDb { db, name, .. } in &engines().await {
        let planned = plan(db, &entities).await.unwrap();
        assert_eq!(
            planned.statements.iter().filter(|sql| sql.starts_with("CREATE TABLE")).count(),
            2,
            "{name}: {planned}"
        );
        assert!(
            planned.to_string().contains("CREATE UNIQUE INDEX \"posts.slug.unique\" ON \"posts\" (\"slug\");"),
            "{planned}"
        );
        assert!(
            planned.to_string().contains("CREATE INDEX \"posts.user_id.index\" ON \"posts\" (\"user_id\", \"id\");"),
            "{planned}"
        );
        assert!(planned.to_string().contains("REFERENCES \"posts\" (\"id\") ON DELETE CASCADE"), "{planned}");
        assert!(gatewright_db::schema::describe(db, "posts").await.unwrap().is_none(), "a plan changes nothing");
        assert_eq!(apply(db, &entities).await.unwrap(), planned);
        assert_eq!(apply(db, &entities).await.unwrap(), Changes::default(), "{name}");
        // The defaults of the columns are the defaults of the fields.
        let time = "2026-01-01T00:00:00.000000Z";
        db.execute(
            format!("INSERT INTO everything (id, created_at, updated_at) VALUES ('1', '{time}', '{time}')"),
            vec![],
        )
        .await
        .unwrap();

        let built = Entities::builder(db.clone(), Ambient::system())
            .declare_all([entities[1].clone().public()])
            .build()
            .await
            .unwrap();
        let call = gatewright_base::Identity::Anonymous.into();
        let table = built.tables().next().unwrap();
        let by_column = table.get(&call, "1").await.unwrap();
        let by_field = table.create(&call, b"{}").await.unwrap();
        let strip = |json: &[u8]| {
            let mut record: serde_json::Value = serde_json::from_slice(json).unwrap();
            for key in ["id", "createdAt", "updatedAt"] {
                record.as_object_mut().unwrap().remove(key);
            }
            record
        };
        assert_eq!(strip(by_column.json()), strip(by_field.json()), "{name}");
    }
}

fn unpublic(_: Entity) -> Entity {
    Entity::new("posts")
        .owner("user_id")
        .field(Field::string("title").required())
        .field(Field::string("slug").unique())
        .field(Field::int("views").index())
        .field(Field::relation("parent", "posts").on_delete(OnDelete::Cascade))
}

#[tokio::test]
async fn additions_are_made_to_tables_with_rows() {
    for TestDb { db, name, .. } in &engines().await {
        write(db, posts(), json!({"title": "old"})).await;
        let more = posts()
            .field(Field::string("subtitle"))
            .field(Field::string("state").required().default("draft"))
            .field(Field::int("views").index())
            .field(Field::string("slug").unique())
            .field(Field::relation("parent", "posts"));
        let changes = apply(db, std::slice::from_ref(&more)).await.unwrap();
        assert_eq!(changes.statements.len(), 8, "{name}: {changes}");
        write(db, more.clone(), json!({"title": "new", "slug": "x"})).await;
        let rows = db.query("SELECT title, state FROM posts ORDER BY title", vec![]).await.unwrap();
        let states: Vec<String> = rows.iter().map(|row| row.get("state").unwrap()).collect();
        assert_eq!(states, ["draft", "draft"], "{name}");
        assert_eq!(apply(db, &[more]).await.unwrap(), Changes::default());
        // An index alone, too.
        let indexed = apply(db, &[posts().field(Field::string("subtitle").index())]).await.unwrap();
        assert_eq!(indexed.statements, ["CREATE INDEX \"posts.subtitle.index\" ON \"posts\" (\"subtitle\")"]);
    }
}

#[tokio::test]
async fn an_entity_and_a_relation_to_it_are_added_and_a_removed_entity_keeps_its_rows() {
    let topics = || Entity::new("topics").public().field(Field::string("name"));
    let related = || posts().field(Field::relation("topic", "topics").on_delete(OnDelete::Cascade));
    for TestDb { db, name, .. } in &engines().await {
        write(db, posts(), json!({"title": "old"})).await;
        let both = [related(), topics()];
        let planned = plan(db, &both).await.unwrap();
        assert_eq!(apply(db, &both).await.unwrap(), planned, "{name}");
        assert_eq!(apply(db, &both).await.unwrap(), Changes::default(), "{name}");
        write(db, topics(), json!({"name": "rust"})).await;
        let orphan = "UPDATE posts SET topic = 'nosuch'";
        assert!(db.execute(orphan, vec![]).await.is_err(), "{name}: the relation holds for the rows that are there");
        db.execute("UPDATE posts SET topic = (SELECT id FROM topics)", vec![]).await.unwrap();

        // Neither entity is declared now, and nothing of them is removed.
        let left = apply(db, &[Entity::new("others")]).await.unwrap();
        assert!(left.statements.iter().all(|sql| sql.starts_with("CREATE TABLE \"others\"")), "{name}: {left}");
        apply(db, &both).await.unwrap();
        let row =
            db.query_opt("SELECT name FROM topics JOIN posts ON topic = topics.id", vec![]).await.unwrap().unwrap();
        assert_eq!(row.get::<String>("name").unwrap(), "rust", "{name}");
    }
}

#[tokio::test]
async fn a_required_field_is_added_to_an_empty_table_and_not_to_one_with_rows() {
    let with_body = || posts().field(Field::text("body").required());
    for TestDb { db, name, .. } in &engines().await {
        apply(db, &[posts()]).await.unwrap();
        apply(db, &[with_body()]).await.unwrap();
        write(db, with_body(), json!({"title": "a", "body": "b"})).await;
        let with_note = || with_body().field(Field::text("note").required());
        let lines = refusals(db, &[with_note()]).await;
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].starts_with("table \"posts\", column \"note\": the new field is required"),
            "{name}: {}",
            lines[0]
        );
        assert!(lines[0].contains("ALTER TABLE \"posts\" ADD COLUMN \"note\" TEXT"), "{}", lines[0]);
    }
}

#[tokio::test]
async fn a_removed_field_keeps_its_column_if_rows_can_be_written_without_it() {
    for TestDb { db, name, .. } in &engines().await {
        write(
            db,
            posts().field(Field::string("a")).field(Field::int("b").required().default(1)),
            json!({"title": "x", "a": "kept"}),
        )
        .await;
        let changes = apply(db, &[posts()]).await.unwrap();
        assert!(changes.statements.is_empty());
        assert_eq!(
            changes.notes,
            [
                "table \"posts\" keeps its column \"a\", which no field declares now",
                "table \"posts\" keeps its column \"b\", which no field declares now",
            ]
        );
        write(db, posts(), json!({"title": "y"})).await;
        let row = db.query_opt("SELECT a FROM posts WHERE title = 'x'", vec![]).await.unwrap().unwrap();
        assert_eq!(row.get::<String>("a").unwrap(), "kept");

        let lines = refusals(db, &[Entity::new("posts").field(Field::string("a").index())]).await;
        assert_eq!(
            lines,
            ["table \"posts\", column \"title\": no field declares it now, and no row can be written without a value \
             for it; to do it, run: ALTER TABLE \"posts\" DROP COLUMN \"title\";",],
            "{name}"
        );
        db.execute("ALTER TABLE \"posts\" DROP COLUMN \"title\"", vec![]).await.unwrap();
        apply(db, &[Entity::new("posts").field(Field::string("a").index())]).await.unwrap();
    }
}

/// Runs the operator's SQL.
async fn run_as_operator(db: &Db, error: SchemaError) {
    let SchemaError::Refused(refusals) = error else { panic!("{error}") };
    for refusal in refusals {
        for sql in refusal.sql {
            db.execute(sql.clone(), vec![]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
}

#[tokio::test]
async fn destructive_changes_are_refused_with_their_sql() {
    let before = || {
        posts()
            .field(Field::string("slug").unique())
            .field(Field::string("code"))
            .field(Field::relation("parent", "posts"))
    };
    let base = |slug: Field, code: Field, parent: Field| posts().field(slug).field(code).field(parent);
    let (slug, code, parent) =
        (Field::string("slug").unique(), Field::string("code"), Field::relation("parent", "posts"));
    let cases = [
        (base(slug.clone(), Field::int("code"), parent.clone()), "column \"code\": the declaration makes it"),
        (base(Field::string("slug"), code.clone(), parent.clone()), "column \"slug\": the field is no longer unique"),
        (
            base(slug.clone(), code.clone(), parent.clone().on_delete(OnDelete::Cascade)),
            "column \"parent\": the declaration makes it refer to posts ON DELETE CASCADE, and it refers to posts ON DELETE RESTRICT",
        ),
        (
            base(slug.clone(), code.clone(), Field::string("parent")),
            "column \"parent\": the field is not a relation now",
        ),
        (
            base(slug.clone(), Field::relation("code", "posts"), parent.clone()),
            "column \"code\": the declaration makes it refer to posts ON DELETE RESTRICT, and it refers to nothing",
        ),
        (
            Entity::new("posts").public().field(Field::string("title")).field(slug).field(code).field(parent),
            "column \"title\": the field is optional now",
        ),
    ];
    for (after, expected) in cases {
        for TestDb { db, name, url, .. } in &engines().await {
            write(db, before(), json!({"title": "7", "slug": "8", "code": null})).await;
            let error = apply(db, std::slice::from_ref(&after)).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{name}: {error}");
            assert!(plan(db, std::slice::from_ref(&after)).await.is_err());
            run_as_operator(db, error).await;
            // On SQLite a required column stays next to its successor until it is dropped.
            if let Err(error) = apply(db, std::slice::from_ref(&after)).await {
                assert!(error.to_string().contains("_before\": no field declares it now"), "{name}: {error}");
                run_as_operator(db, error).await;
            }
            apply(db, std::slice::from_ref(&after)).await.unwrap_or_else(|error| panic!("{name} {expected}: {error}"));
            assert_eq!(db.query("SELECT id FROM posts WHERE title = '7'", vec![]).await.unwrap().len(), 1, "{name}");
            let body = json!({"title": "9", "slug": "10"});
            // As after a restart: statements that were prepared before the change are gone.
            let restarted = Db::open(url, Options::default()).await.unwrap();
            write(&restarted, after.clone(), body).await;
        }
    }
}

#[tokio::test]
async fn the_operators_sql_keeps_columns_that_no_field_declares() {
    for TestDb { db, name, .. } in &engines().await {
        write(
            db,
            posts().field(Field::string("old")).field(Field::string("code")),
            json!({"title": "a", "old": "kept"}),
        )
        .await;
        let after = posts().field(Field::int("code"));
        run_as_operator(db, apply(db, std::slice::from_ref(&after)).await.unwrap_err()).await;
        apply(db, &[after]).await.unwrap();
        let row = db.query_opt("SELECT old FROM posts", vec![]).await.unwrap().unwrap();
        assert_eq!(row.get::<String>("old").unwrap(), "kept", "{name}");
    }
}

#[tokio::test]
async fn a_field_becomes_unique_once_it_has_no_duplicates() {
    let before = || Entity::new("posts").public().field(Field::string("title"));
    let unique = || Entity::new("posts").public().field(Field::string("title").unique());
    for TestDb { db, name, .. } in &engines().await {
        for title in [json!("a"), json!("a"), json!("b"), json!(null), json!(null)] {
            write(db, before(), json!({"title": title})).await;
        }
        let lines = refusals(db, &[unique()]).await;
        for words in [
            "column \"title\": the field is unique now, and some rows share a value (1 such value); the query lists them",
            "UPDATE \"posts\" SET \"title\" = 'VALUE' WHERE \"id\" = 'ID'",
        ] {
            assert!(lines[0].contains(words), "{name}: {lines:?}");
        }
        let Err(SchemaError::Refused(refused)) = apply(db, &[unique()]).await else { panic!("{name}: applied") };
        let listed = db.query(refused[0].sql[0].clone(), vec![]).await.unwrap();
        assert_eq!(listed.len(), 1, "{name}: rows without a value share none");
        assert_eq!(listed[0].get::<String>("title").unwrap(), "a");
        db.execute("UPDATE posts SET title = id WHERE title = 'a'", vec![]).await.unwrap();
        apply(db, &[unique()]).await.unwrap();
    }
}

#[tokio::test]
async fn a_table_of_another_program_is_not_taken_over() {
    for TestDb { db, name, .. } in &engines().await {
        for table in [
            "CREATE TABLE posts (id {text}, title {text}, created_at {time} NOT NULL, updated_at {time} NOT NULL)",
            "CREATE TABLE posts (id {int} PRIMARY KEY, title {text}, created_at {time} NOT NULL, updated_at {time} NOT NULL)",
            "CREATE TABLE posts (id {text} PRIMARY KEY, title {text}, updated_at {time} NOT NULL)",
        ] {
            db.execute(column_types(table, db.engine()), vec![]).await.unwrap();
            let lines = refusals(db, &[posts()]).await;
            assert_eq!(lines.len(), 1, "{name}: {lines:?}");
            db.execute("DROP TABLE posts", vec![]).await.unwrap();
        }
        let fitting = "CREATE TABLE posts (id {text} PRIMARY KEY, title {text}, created_at {time} NOT NULL, updated_at {time} NOT NULL)";
        db.execute(column_types(fitting, db.engine()), vec![]).await.unwrap();
        write(db, posts(), json!({"title": "x"})).await;
    }
}

#[tokio::test]
async fn relations_to_users_need_their_table() {
    let entities = [posts().field(Field::relation("author", "users").on_delete(OnDelete::SetNull))];
    for TestDb { db, name, .. } in &engines().await {
        let lines = refusals(db, &entities).await;
        assert_eq!(
            lines,
            ["table \"users\", column \"id\": relations to users need it, and it is not there"],
            "{name}"
        );
        db.execute(column_types("CREATE TABLE users (id {int} PRIMARY KEY)", db.engine()), vec![]).await.unwrap();
        assert!(refusals(db, &entities).await[0].contains("need its id to be text"));
        db.execute("DROP TABLE users", vec![]).await.unwrap();
        make_users(db).await;
        write(db, entities[0].clone(), json!({"title": "x", "author": "ann"})).await;
        db.execute("DELETE FROM users WHERE id = ?1", params!["ann"]).await.unwrap();
        let row = db.query_opt("SELECT author FROM posts", vec![]).await.unwrap().unwrap();
        assert_eq!(row.get::<Option<String>>("author").unwrap(), None);
    }
}

#[tokio::test]
async fn with_tables_left_to_the_operator_a_build_names_what_to_run() {
    for TestDb { db, .. } in &engines().await {
        let build = || Entities::builder(db.clone(), Ambient::system()).tables(Tables::Check).declare(posts()).build();
        let message = build().await.unwrap_err().to_string();
        assert!(message.contains("gatewright migrate"), "{message}");
        assert!(gatewright_db::schema::describe(db, "posts").await.unwrap().is_none());
        apply(db, &[posts()]).await.unwrap();
        build().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_make_the_tables_once() {
    let entities =
        [posts().field(Field::relation("parent", "posts")), Entity::new("tags").field(Field::string("name").unique())];
    for TestDb { db, url, name, .. } in &engines().await {
        let mut replicas = vec![db.clone()];
        for _ in 0..3 {
            replicas.push(Db::open(url, Options::default()).await.unwrap());
        }
        let applied = futures_util::future::join_all(replicas.iter().map(|replica| apply(replica, &entities))).await;
        let counts: Vec<usize> = applied.into_iter().map(|changes| changes.unwrap().statements.len()).collect();
        assert_eq!(counts.iter().filter(|count| **count == 0).count(), 3, "{name}: {counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), 4, "{name}: {counts:?}");
    }
}

#[tokio::test]
async fn rows_that_violate_a_new_rule_are_counted_with_the_sql_to_find_and_fix_them() {
    let with = |a: Field, n: Field, state: Field| Entity::new("posts").public().field(a).field(n).field(state);
    let state = |words: &[&str]| Field::choice("state", words.to_vec());
    let before = with(Field::string("a"), Field::int("n"), state(&["draft", "it's \"live\""]));
    for (after, rule, rows, value) in [
        (
            with(Field::string("a").required(), Field::int("n"), state(&["draft", "it's \"live\""])),
            "`required`",
            1,
            "'now'",
        ),
        (
            with(Field::string("a").pattern("^x"), Field::int("n"), state(&["draft", "it's \"live\""])),
            "`pattern`",
            2,
            "'x'",
        ),
        (with(Field::string("a").min(5), Field::int("n"), state(&["draft", "it's \"live\""])), "`min`", 1, "'12345'"),
        (with(Field::string("a"), Field::int("n").max(1), state(&["draft", "it's \"live\""])), "`max`", 2, "1"),
        (with(Field::string("a"), Field::int("n"), state(&["draft"])), "`enum`", 3, "'draft'"),
    ] {
        let words = format!("{rows} row");
        for TestDb { db, name, .. } in &engines().await {
            for (a, n) in [(json!(null), 1), (json!("long enough"), 2), (json!("it"), 3)] {
                write(db, before.clone(), json!({"a": a, "n": n, "state": "it's \"live\""})).await;
            }
            let kept = schema::broken_rules(db, &declared(std::slice::from_ref(&before)), Rules::All).await.unwrap();
            assert_eq!(kept, Vec::<String>::new(), "{name}");
            let after = [after.clone()];
            assert!(plan(db, &after).await.unwrap().statements.is_empty(), "{name}: nothing is pending");
            let remarks = schema::broken_rules(db, &declared(&after), Rules::All).await.unwrap();
            assert_eq!(remarks.len(), 1, "{name}: {remarks:?}");
            assert!(remarks[0].contains(rule) && remarks[0].contains(&words), "{name}: {}", remarks[0]);
            let between = |from: &str, to: &str| {
                remarks[0].split_once(from).and_then(|(_, rest)| rest.split_once(to)).unwrap().0.to_owned()
            };
            assert_eq!(db.query(between("run: ", "; to fix"), vec![]).await.unwrap().len(), rows, "{name}");
            // Every start checks the new rule, until the rows are fixed.
            for _ in 0..2 {
                let remarks = schema::remember_kept_rules(db, &declared(&after), Rules::Unknown).await.unwrap();
                assert_eq!(remarks.len(), 1, "{name}");
            }
            let fix = between("set the right value: ", ";").replace("'VALUE'", value).replace("NUMBER", value);
            db.execute(fix, vec![]).await.unwrap();
            let remarks = schema::remember_kept_rules(db, &declared(&after), Rules::Unknown).await.unwrap();
            assert_eq!(remarks, Vec::<String>::new(), "{name}");
        }
    }
}
