use gatewright_base::{Ambient, Budget};
use gatewright_db::testing::{TestDb, engines};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::outbox::consumer::Declared;
use crate::outbox::deliveries::Deliveries;
use crate::outbox::outage::Outage;
use crate::outbox::{Outbox, OutboxOptions};

/// The databases are there as long as they are held.
async fn worker() -> (Worker, Vec<TestDb>) {
    let databases = engines().await;
    let [engine, ..] = &databases[..] else { panic!("SQLite is always there") };
    let options = OutboxOptions::default();
    let outbox = Outbox::open(engine.db.clone(), Ambient::system(), options.clone()).await.unwrap();
    let consumer = Consumer::new("c", "a", |_| std::future::pending::<Result<(), String>>()).unwrap();
    let context = Context {
        deliveries: Deliveries::new(engine.db.clone(), "r".to_owned(), &[Declared::of(&consumer)], Budget::unlimited()),
        policy: options.policy(),
        outage: Outage::default(),
        stop: CancellationToken::new(),
        outbox,
    };
    (Worker::new(Arc::new(context), consumer, Arc::default()), databases)
}

fn claimed(attempts: u32, second: i64) -> Done {
    let event = Event {
        id: "1".into(),
        kind: "a".into(),
        payload: "{}".into(),
        created_at: Timestamp::UNIX_EPOCH,
        attempt: attempts + 1,
        previous: None,
        chain: 0,
        _lease: None,
    };
    let lease = Timestamp::from_second(second).unwrap();
    let claimed = vec![Claimed { event, attempts, lease }];
    Done::Claimed { result: Ok(Batch { claimed, left: 0 }), full: 8 }
}

/// Of the delivery that is held: its claim and its lease in seconds.
fn held(worker: &Worker) -> Option<(u64, i64)> {
    worker.held.get("1").map(|held| (held.claim, held.lease.as_second()))
}

#[tokio::test]
async fn a_delivery_claimed_again_before_its_failure_is_known_is_still_held() {
    let gone = || Gone { id: "1".into(), claim: 1, how: How::Failed };
    let lease = Timestamp::from_second(99).unwrap();
    for late in [
        Done::Settled { gone: vec![gone()], again: Vec::new(), result: Ok(()) },
        Done::Renewed { kept: Vec::new(), lost: vec![gone()], result: Ok(()) },
        Done::Renewed { kept: vec![(1, "1".into(), lease)], lost: Vec::new(), result: Ok(()) },
    ] {
        let (mut worker, _databases) = worker().await;
        worker.finish(claimed(0, 10));
        worker.finish(claimed(1, 20));
        worker.finish(late);
        assert_eq!(held(&worker), Some((2, 20)));
        assert!(worker.queue.iter().any(|(claim, _)| *claim == 2));
        // The end of the first claim does not affect the second.
        worker.ended.push(Ended { id: "1".into(), claim: 1, error: None });
        worker.ended.push(Ended { id: "1".into(), claim: 2, error: None });
        worker.settle();
        let Some(Done::Settled { gone, .. }) = worker.jobs.next().await else { panic!("it settles") };
        assert_eq!(gone.iter().map(|gone| gone.claim).collect::<Vec<_>>(), [2]);
    }
}

#[tokio::test]
async fn settled_released_and_lost_deliveries_are_no_longer_held() {
    let gone = || vec![Gone { id: "1".into(), claim: 1, how: How::TakenOver }];
    let (mut worker, _databases) = worker().await;
    worker.finish(claimed(0, 10));
    worker.finish(Done::Settled { gone: gone(), again: Vec::new(), result: Ok(()) });
    assert_eq!(held(&worker), None);
    worker.queue.clear();
    worker.finish(claimed(0, 20));
    worker.release();
    assert_eq!((held(&worker), worker.queue.len()), (None, 0));
    worker.finish(claimed(0, 30));
    let lost = vec![Gone { id: "1".into(), claim: 3, how: How::TakenOver }];
    worker.finish(Done::Renewed { kept: Vec::new(), lost, result: Ok(()) });
    assert_eq!((held(&worker), worker.queue.len()), (None, 0));
}
