use std::sync::Arc;
use std::time::Duration;

use gatewright::base::{Ambient, Clock as _, ManualClock, OsRng, SystemClock};
use gatewright::config::Loader;
use gatewright::db::testing::{TestDb, engines};
use gatewright::{App, BuildError, Config};
use jiff::SignedDuration;

use super::url::{endpoint, secret};

/// A server on a database that it may share, whose clock begins at the same time as that of the others.
struct Replica {
    app: App,
    clock: Arc<ManualClock>,
}

impl Replica {
    async fn start(config: &Config, clock: &Arc<ManualClock>) -> Self {
        let ambient = Ambient::new(clock.clone(), Arc::new(OsRng));
        for _ in 0..100 {
            let built = App::builder(config.clone()).ambient(ambient.clone()).build().await;
            match built {
                Ok(app) => return Self { app, clock: clock.clone() },
                // What was dropped holds a SQLite file for a moment.
                Err(BuildError::Open(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the database stays in use");
    }
}

fn config(database: &TestDb, toml: &str) -> Config {
    Loader::text("test.toml", toml).dev_mode().database(&database.url).load().unwrap()
}

async fn outcomes(database: &TestDb) -> Vec<(i64, String)> {
    let sql = "SELECT attempt, outcome FROM gatewright_job_runs ORDER BY attempt, id";
    let rows = database.db.query(sql, Vec::new()).await.unwrap();
    rows.iter().map(|row| (row.get("attempt").unwrap(), row.get("outcome").unwrap())).collect()
}

async fn until(database: &TestDb, expected: &[(i64, &str)]) {
    for _ in 0..1_200 {
        let found = outcomes(database).await;
        if found.iter().map(|(attempt, outcome)| (*attempt, outcome.as_str())).eq(expected.iter().copied()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{}: {:?} instead of {expected:?}", database.name, outcomes(database).await);
}

fn job(port: u16, path: &str) -> String {
    let (secret, _) = secret();
    format!(
        "[[job]]\nname = \"a\"\nschedule = \"*/5 * * * *\"\nurl = \"http://127.0.0.1:{port}/{path}\"\nsecret = \"{secret}\"\n"
    )
}

#[tokio::test]
async fn of_two_servers_at_the_same_second_one_runs_the_job() {
    let (port, received) = endpoint().await;
    for database in engines().await.into_iter().filter(|database| database.name == "postgres") {
        let config = config(&database, &job(port, "good"));
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let (one, two) = tokio::join!(Replica::start(&config, &clock), Replica::start(&config, &clock));
        for count in 1..=5 {
            until(&database, &vec![(1, "succeeded"); count - 1]).await;
            tokio::time::sleep(Duration::from_millis(600)).await;
            one.clock.advance(SignedDuration::from_mins(5));
            until(&database, &vec![(1, "succeeded"); count]).await;
        }
        assert_eq!(received.lock().len(), 5);
        drop((one.app, two.app));
    }
}

#[tokio::test]
async fn a_killed_run_is_made_again_and_a_stopped_server_gives_its_run_back() {
    let (port, received) = endpoint().await;
    for database in engines().await {
        received.lock().clear();
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let slow = config(&database, &format!("[functions]\njob_timeout_ms = 60000\n{}", job(port, "slow")));
        let first = Replica::start(&slow, &clock).await;
        // The first time is due after a look at the clock.
        tokio::time::sleep(Duration::from_millis(600)).await;
        clock.advance(SignedDuration::from_mins(5));
        until(&database, &[(1, "running")]).await;
        // Without a farewell, as a kill.
        drop(first);
        let good = config(&database, &job(port, "good"));
        let second = Replica::start(&good, &clock).await;
        until(&database, &[(1, "interrupted"), (2, "succeeded")]).await;
        assert_eq!(received.lock().len(), 1, "{}", database.name);
        drop(second);
    }
}
