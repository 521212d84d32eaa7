//! Every order in which two relays, crashes, slow and failing handlers, an operator and a clock can interleave for one
//! delivery, tried one by one on the transitions alone.
//!
//! The database makes each transition atomic, so only their order can be wrong. The state is small: all reachable
//! states are visited, and every violation of an invariant is found.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::transition::{Backoff, Delivery, DeliveryStatus, Lease, Outcome, Policy, later};

const POLICY: Policy = Policy {
    max_attempts: 2,
    lease: Duration::from_secs(2),
    grace: Duration::from_secs(100),
    backoff: Backoff { first: Duration::from_secs(1), cap: Duration::from_secs(1) },
};
/// Seconds until the model's clock stops.
const END: i64 = 7;
const CRASHES: u8 = 2;

/// What a relay believes about the delivery. It may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Relay {
    Idle,
    Running(Lease),
    Ended(Lease, Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    now: i64,
    delivery: Delivery,
    relays: [Relay; 2],
    crashes: u8,
    /// A handler returned without an error at some time since the last replay.
    handled: bool,
    replayed: bool,
}

fn time(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

impl World {
    fn start() -> Self {
        let delivery = Delivery::new(time(0), time(0));
        Self { now: 0, delivery, relays: [Relay::Idle; 2], crashes: 0, handled: false, replayed: false }
    }

    /// All possible next steps. Checks on the way that no relay settles a delivery that another owns.
    fn next(self) -> Vec<Self> {
        let now = time(self.now);
        let mut next = Vec::new();
        if self.now < END {
            next.push(Self { now: self.now + 1, ..self });
        }
        if !self.replayed
            && let Some(delivery) = self.delivery.replay(now)
        {
            next.push(Self { delivery, replayed: true, handled: false, ..self });
        }
        for index in 0..2 {
            let with = |relay: Relay, world: Self| {
                let mut relays = world.relays;
                relays[index] = relay;
                Self { relays, ..world }
            };
            match self.relays[index] {
                Relay::Idle => {
                    if let Some(delivery) = self.delivery.claim(now, &POLICY) {
                        let lease = delivery.claimed_until.unwrap();
                        self.assert_new(lease);
                        next.push(with(Relay::Running(lease), Self { delivery, ..self }));
                    }
                }
                Relay::Running(lease) => {
                    for outcome in [Outcome::Succeeded, Outcome::Failed] {
                        let handled = self.handled || outcome == Outcome::Succeeded;
                        next.push(with(Relay::Ended(lease, outcome), Self { handled, ..self }));
                    }
                    // If a renewal is refused, the handler continues but cannot settle.
                    // A second renewal at the same time would make the model infinite.
                    if lease < later(now, POLICY.lease)
                        && let Some(delivery) = self.delivery.renew(lease, now, &POLICY)
                    {
                        self.assert_owner(index, lease);
                        next.push(with(Relay::Running(delivery.claimed_until.unwrap()), Self { delivery, ..self }));
                    }
                    if let Some(delivery) = self.delivery.release(lease) {
                        self.assert_owner(index, lease);
                        next.push(with(Relay::Idle, Self { delivery, ..self }));
                    }
                }
                Relay::Ended(lease, outcome) => {
                    let settled = self.delivery.settle(lease, outcome, now, &POLICY, 0);
                    if settled.is_some() {
                        self.assert_owner(index, lease);
                    }
                    next.push(with(Relay::Idle, Self { delivery: settled.unwrap_or(self.delivery), ..self }));
                }
            }
            if self.relays[index] != Relay::Idle && self.crashes < CRASHES {
                next.push(with(Relay::Idle, Self { crashes: self.crashes + 1, ..self }));
            }
        }
        next
    }

    /// A relay that changes the delivery by a lease has the newest lease.
    fn assert_owner(&self, index: usize, lease: Lease) {
        let other = match self.relays[1 - index] {
            Relay::Idle => return,
            Relay::Running(other) | Relay::Ended(other, _) => other,
        };
        assert!(other < lease, "a stale owner was let in: {self:?}");
    }

    fn assert_new(&self, lease: Lease) {
        for relay in self.relays {
            match relay {
                Relay::Running(old) | Relay::Ended(old, _) => assert!(old < lease, "a lease came again: {self:?}"),
                Relay::Idle => {}
            }
        }
    }

    fn check(&self) {
        let Delivery { status, attempts, claimed_until, .. } = self.delivery;
        match status {
            DeliveryStatus::Dispatched => assert!(self.handled, "dispatched and never handled: {self:?}"),
            DeliveryStatus::Dead => assert_eq!(attempts, POLICY.max_attempts, "dead too early: {self:?}"),
            DeliveryStatus::Pending => assert!(attempts < POLICY.max_attempts, "tried too often: {self:?}"),
            DeliveryStatus::Abandoned => panic!("abandoned by nobody: {self:?}"),
        }
        assert!(status == DeliveryStatus::Pending || claimed_until.is_none(), "held after its end: {self:?}");
    }
}

#[test]
fn no_order_of_events_loses_a_delivery_or_lets_a_stale_owner_settle() {
    let mut seen = HashSet::from([World::start()]);
    let mut queue = VecDeque::from([World::start()]);
    let mut before: HashMap<World, Vec<World>> = HashMap::new();
    while let Some(world) = queue.pop_front() {
        world.check();
        for next in world.next() {
            before.entry(next).or_default().push(world);
            if seen.insert(next) {
                queue.push_back(next);
            }
        }
    }
    // Time is unlimited, the model's time is not. A delivery that is still pending at the end can be claimed a little
    // later.
    let over = |world: &World| {
        let end = time(END + 60);
        world.delivery.status != DeliveryStatus::Pending || world.delivery.claim(end, &POLICY).is_some()
    };
    assert!(seen.iter().filter(|world| world.now == END).all(over));
    // Every state has a path to an end: no deadlock.
    let mut reaching: HashSet<World> =
        seen.iter().filter(|world| world.delivery.status != DeliveryStatus::Pending).copied().collect();
    let mut queue: VecDeque<World> = reaching.iter().copied().collect();
    while let Some(world) = queue.pop_front() {
        for earlier in before.get(&world).into_iter().flatten() {
            if reaching.insert(*earlier) {
                queue.push_back(*earlier);
            }
        }
    }
    let stuck = seen.iter().find(|world| world.now <= END - 3 && !reaching.contains(world));
    assert_eq!(stuck, None);
    // The interesting orders were among them.
    let takeover = |world: &World| matches!(world.relays, [Relay::Running(a), Relay::Running(b)] if a != b);
    assert!(seen.iter().any(takeover));
    assert!(seen.iter().any(|world| world.crashes == CRASHES && world.delivery.status == DeliveryStatus::Dispatched));
    assert!(seen.iter().any(|world| world.replayed && world.delivery.status == DeliveryStatus::Dispatched));
    assert!(seen.len() > 1_000, "{}", seen.len());
}
