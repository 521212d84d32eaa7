//! Databases of an earlier program, whose booleans are integers.

use std::sync::Arc;

use gatewright_auth::plugins::password::PasswordPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::users::MemoryUserStore;
use gatewright_auth::{Auth, AuthBuilder, AuthConfig};
use gatewright_base::Ambient;
use gatewright_db::testing::TestDb;
use gatewright_db::{Engine, schema};
use serde_json::json;

use crate::support::{ANN, Answer, Call, Site, config, databases, set_proven};

/// Every boolean column of authentication's tables.
const BOOLEANS: [(&str, &str); 7] = [
    ("users", "password_set"),
    ("users", "email_verified"),
    ("sessions", "pending_two_factor"),
    ("sessions", "two_factor_verified"),
    ("single_use_tokens", "spent"),
    ("two_factor", "enabled"),
    ("service_accounts", "disabled"),
];

fn plugins(builder: AuthBuilder) -> AuthBuilder {
    builder.plugin(TwoFactorPlugin::new("Blog")).plugin(TokensPlugin::new())
}

async fn site(db: &TestDb) -> Site {
    Site::with(config(), |builder| plugins(builder).database(db.db.clone())).await
}

async fn run(db: &TestDb, sql: String) {
    for statement in sql.split(';') {
        db.db.execute(statement.to_owned(), vec![]).await.unwrap();
    }
}

/// Makes a column as in an earlier program: an integer that a check limits to 0 and 1.
async fn make_integer(db: &TestDb, table: &str, column: &str) {
    run(
        db,
        match db.db.engine() {
            Engine::Sqlite => format!(
                "ALTER TABLE {table} ADD COLUMN old INTEGER DEFAULT 1;
                 UPDATE {table} SET old = {column}; ALTER TABLE {table} DROP COLUMN {column};
                 ALTER TABLE {table} RENAME COLUMN old TO {column}"
            ),
            Engine::Postgres => format!(
                "ALTER TABLE {table} ALTER COLUMN {column} TYPE INTEGER USING {column}::int;
                 ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL, ALTER COLUMN {column} SET DEFAULT 1;
                 ALTER TABLE {table} ADD CHECK ({column} IN (0, 1))"
            ),
        },
    )
    .await;
}

/// No earlier program remembers steps, and none has this table.
async fn forget_steps(db: &TestDb) {
    run(db, "DROP TABLE gatewright_migrations; DROP TABLE account_invitations".to_owned()).await;
}

async fn type_of(db: &TestDb, table: &str, column: &str) -> String {
    let shape = schema::describe(&db.db, table).await.unwrap().unwrap();
    shape.column(column).unwrap_or_else(|| panic!("{table} has {column}")).type_name.clone()
}

/// A database with a user whose mailbox is proven and who is signed in, as an earlier program left it.
async fn legacy(db: &TestDb) -> Answer {
    let site = site(db).await;
    site.register_ann().await;
    site.register("bob@example.com").await;
    set_proven(&db.db, ANN, true).await;
    let robot = site.auth.service_accounts().unwrap().create("robot", ["r"].into_iter().collect()).await.unwrap();
    site.auth.service_accounts().unwrap().disable(&robot.id).await.unwrap();
    let session = site.login_ann().await.expect(200);
    for (table, column) in BOOLEANS {
        make_integer(db, table, column).await;
        assert_eq!(type_of(db, table, column).await, "INTEGER");
    }
    session
}

#[tokio::test]
async fn integers_become_native_booleans_at_the_first_start() {
    for recorded in [true, false] {
        for db in databases().await {
            let session = legacy(&db).await;
            if !recorded {
                forget_steps(&db).await;
            }
            for _ in 0..2 {
                let site = site(&db).await;
                for (table, column) in BOOLEANS {
                    assert_eq!(type_of(&db, table, column).await, "BOOLEAN", "{} {table}.{column}", db.name);
                }
                let me = site.me(&session).await.expect(200).json();
                assert_eq!(me["emailVerified"], true, "{}: values are kept", db.name);
                let bob = site.auth.accounts().find("bob@example.com").await.unwrap();
                assert!(!bob.email_verified && bob.password_set);
                assert!(site.auth.service_accounts().unwrap().find("robot").await.unwrap().disabled);
                site.login_ann().await.expect(200);
            }
        }
    }
}

#[tokio::test]
async fn a_missing_value_is_false() {
    for db in databases().await {
        legacy(&db).await;
        run(&db, "UPDATE users SET email_verified = NULL".to_owned()).await;
        let site = site(&db).await;
        assert!(!site.auth.accounts().find(ANN).await.unwrap().email_verified, "{}", db.name);
    }
}

#[tokio::test]
async fn without_create_tables_a_start_is_refused_until_the_tables_are_migrated() {
    for recorded in [true, false] {
        for db in databases().await {
            legacy(&db).await;
            if !recorded {
                forget_steps(&db).await;
            }
            let config = AuthConfig { create_tables: false, ..config() };
            let build =
                || plugins(Auth::builder(config.clone()).plugin(PasswordPlugin)).database(db.db.clone()).build();
            let refused = build().await.unwrap_err().to_string();
            for word in ["users", "sessions", "single_use", "two_factor", "tokens", "gatewright migrate"] {
                assert!(refused.contains(word), "{}: {refused}", db.name);
            }
            assert_eq!(type_of(&db, "users", "password_set").await, "INTEGER", "nothing was changed");
            site(&db).await;
            build().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_foreign_table_is_not_taken_over() {
    for db in databases().await {
        run(&db, "CREATE TABLE users (id TEXT PRIMARY KEY, email TEXT, password_set INTEGER)".to_owned()).await;
        let error = Auth::builder(config()).plugin(PasswordPlugin).database(db.db.clone()).build().await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("users") && error.contains("password_hash"), "{}: {error}", db.name);
        assert_eq!(type_of(&db, "users", "password_set").await, "INTEGER");
    }
}

#[tokio::test]
async fn a_users_table_of_the_application_is_not_changed() {
    for db in databases().await {
        run(&db, "CREATE TABLE users (id TEXT PRIMARY KEY, password_set INTEGER, email_verified INTEGER)".to_owned())
            .await;
        let users = Arc::new(MemoryUserStore::new(Ambient::system()));
        let site = Site::with(config(), |builder| plugins(builder).users(users).database(db.db.clone())).await;
        site.register_ann().await;
        assert_eq!(type_of(&db, "users", "password_set").await, "INTEGER", "{}", db.name);
        let token = Call::post("/auth/tokens").json(&json!({ "name": "CI" })).cookie_of(&site.login_ann().await);
        token.send(&site).await.expect(200);
    }
}
