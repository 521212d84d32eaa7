//! Turns of several servers on one database.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use gatewright_base::{Ambient, ManualClock, OsRng};
use gatewright_db::testing::engines;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::decide::MAX_ATTEMPTS;
use super::store::{Held, KEPT, Outcome, Requested, Store, Turn};
use super::{Listed, Schedule, schema};

const NOON: &str = "2026-01-01T12:00:00Z";

struct World {
    store: Store,
    clock: Arc<ManualClock>,
    job: Listed,
    _database: gatewright_db::testing::TestDb,
}

async fn worlds() -> Vec<World> {
    let mut worlds = Vec::new();
    for database in engines().await {
        schema::prepare(&database.db, true).await.unwrap();
        let clock = Arc::new(ManualClock::new(NOON.parse().unwrap()));
        let store = Store { db: database.db.clone(), ambient: Ambient::new(clock.clone(), Arc::new(OsRng)) };
        let schedule = Schedule::parse("0 3 * * *", TimeZone::UTC).unwrap();
        let job = Listed { name: "nightly".to_owned(), schedule, kind: "url" };
        store.declare(std::slice::from_ref(&job)).await.unwrap();
        worlds.push(World { store, clock, job, _database: database });
    }
    worlds
}

impl World {
    async fn turn(&self) -> Turn {
        self.store.turn(&self.job, None).await.unwrap()
    }

    fn at(&self, time: &str) {
        self.clock.set(time.parse().unwrap());
    }

    async fn begin(&self) -> Held {
        match self.turn().await {
            Turn::Begun { held, .. } => held,
            turn => panic!("no run begins: {turn:?}"),
        }
    }
}

fn begun(turns: &[Turn]) -> usize {
    turns.iter().filter(|turn| matches!(turn, Turn::Begun { .. })).count()
}

#[tokio::test]
async fn of_twenty_servers_at_the_same_second_one_runs_the_job() {
    for world in worlds().await {
        assert_eq!(world.turn().await, Turn::Nothing);
        world.at("2026-01-02T03:00:00Z");
        let turns = join_all((0..20).map(|_| world.turn())).await;
        assert_eq!(begun(&turns), 1);
        let skipped = turns.iter().filter(|turn| **turn == Turn::Skipped).count();
        assert_eq!(skipped, 0, "what another server has begun is not skipped");
    }
}

#[tokio::test]
async fn missed_times_run_once_and_what_is_due_meanwhile_is_skipped() {
    for world in worlds().await {
        world.at("2026-01-09T12:00:00Z");
        let held = world.begin().await;
        assert_eq!(held.run.due_at, "2026-01-02T03:00:00Z".parse::<Timestamp>().unwrap());
        assert_eq!(world.turn().await, Turn::Nothing, "a week was missed, and runs once");
        world.at("2026-01-10T03:00:00Z");
        let turns = join_all((0..5).map(|_| world.turn())).await;
        assert_eq!(turns.iter().filter(|turn| **turn == Turn::Skipped).count(), 1);
        assert_eq!(begun(&turns), 0);
        assert!(world.store.end(&held, Outcome::Succeeded, None).await.unwrap());
        assert_eq!(world.turn().await, Turn::Nothing);
        let history = world.store.history("nightly", 10).await.unwrap();
        assert_eq!((history.len(), history[0].skipped, &*history[0].outcome), (1, 1, "succeeded"));
        world.at("2026-01-11T03:00:00Z");
        world.begin().await;
    }
}

#[tokio::test]
async fn a_run_whose_server_died_is_made_again_and_its_server_learns_of_it() {
    for world in worlds().await {
        world.at("2026-01-02T03:00:00Z");
        let first = world.begin().await;
        assert!(world.store.beat(&first).await.unwrap());
        let sign = |rows: BTreeMap<String, super::store::Watched>| rows["nightly"].run.clone();
        let old = sign(world.store.watch().await.unwrap());
        assert!(world.store.beat(&first).await.unwrap());
        let turn = world.store.turn(&world.job, old).await.unwrap();
        assert_eq!(turn, Turn::Nothing, "it has given another sign of life");
        let last = sign(world.store.watch().await.unwrap());
        let turns = join_all((0..5).map(|_| world.store.turn(&world.job, last.clone()))).await;
        let turns: Vec<Turn> = turns.into_iter().map(Result::unwrap).collect();
        assert_eq!(begun(&turns), 1);
        let second = turns.into_iter().find_map(|turn| match turn {
            Turn::Begun { held, after_dead: true } => Some(held),
            _ => None,
        });
        let second = second.unwrap();
        assert_eq!((second.run.attempt, second.run.due_at), (2, first.run.due_at));
        assert!(!world.store.beat(&first).await.unwrap(), "the first server has lost it");
        assert!(!world.store.end(&first, Outcome::Succeeded, None).await.unwrap());
        // A server that stops gives its run back at once.
        assert!(world.store.end(&second, Outcome::Interrupted, None).await.unwrap());
        assert!(!world.store.beat(&second).await.unwrap(), "a late sign of life changes nothing");
        world.store.bury_all().await.unwrap();
        let third = world.begin().await;
        assert_eq!(third.run.attempt, 2, "that is no death of a server");
        world.store.bury_all().await.unwrap();
        let fourth = world.begin().await;
        assert_eq!(fourth.run.attempt, MAX_ATTEMPTS);
        world.store.bury_all().await.unwrap();
        assert_eq!(world.turn().await, Turn::GivenUp);
        let history = world.store.history("nightly", 10).await.unwrap();
        let outcomes: Vec<(i64, &str)> = history.iter().map(|run| (run.attempt, &*run.outcome)).collect();
        assert_eq!(outcomes, [(3, "interrupted"), (2, "interrupted"), (2, "interrupted"), (1, "interrupted")]);
        world.at("2026-01-03T03:00:00Z");
        assert_eq!(world.begin().await.run.attempt, 1, "the next due time begins anew");
    }
}

#[tokio::test]
async fn twenty_requests_of_operators_are_one_run() {
    for world in worlds().await {
        let requests = join_all((0..20).map(|_| world.store.request("nightly"))).await;
        assert!(requests.into_iter().all(|request| request.unwrap() == Some(Requested::Waiting)));
        let turns = join_all((0..20).map(|_| world.turn())).await;
        assert_eq!(begun(&turns), 1);
        assert_eq!(world.store.request("nightly").await.unwrap(), Some(Requested::Running));
        assert_eq!(world.store.request("unknown").await.unwrap(), None);
        let history = world.store.history("nightly", 10).await.unwrap();
        assert_eq!((history.len(), &*history[0].cause), (1, "operator"));
    }
}

#[tokio::test]
async fn a_history_has_bounds_in_number_and_in_bytes() {
    for world in worlds().await {
        for _ in 0..KEPT + 20 {
            world.store.request("nightly").await.unwrap();
            world.clock.advance(SignedDuration::from_secs(1));
            let held = world.begin().await;
            assert!(world.store.end(&held, Outcome::Failed, Some("ä".repeat(100_000))).await.unwrap());
        }
        let history = world.store.history("nightly", 1_000).await.unwrap();
        assert_eq!(history.len(), usize::try_from(KEPT).unwrap());
        assert!(history.iter().all(|run| run.error.as_ref().unwrap().chars().count() == 1_000));
        let rows = world.store.db.query("SELECT id FROM gatewright_job_runs", Vec::new()).await.unwrap();
        assert_eq!(rows.len(), usize::try_from(KEPT).unwrap());
    }
}

#[tokio::test]
async fn another_schedule_begins_from_now_and_a_server_with_the_old_one_leaves_the_job_alone() {
    for world in worlds().await {
        let hourly = Schedule::parse("0 * * * *", TimeZone::UTC).unwrap();
        let hourly = Listed { schedule: hourly, ..world.job.clone() };
        world.store.declare(std::slice::from_ref(&hourly)).await.unwrap();
        world.at("2026-01-01T13:00:00Z");
        assert_eq!(world.turn().await, Turn::Nothing);
        assert!(matches!(world.store.turn(&hourly, None).await.unwrap(), Turn::Begun { .. }));
        // The same schedule again changes nothing.
        world.at("2026-01-01T14:00:00Z");
        world.store.declare(std::slice::from_ref(&hourly)).await.unwrap();
        assert_eq!(world.store.turn(&hourly, None).await.unwrap(), Turn::Skipped);
    }
}
