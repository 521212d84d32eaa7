//! Every order in which three writers, their notifications and the reader can interleave.
//!
//! A writer takes a position, then commits or fails, then its notification arrives or is lost. Two of them may write the same
//! record: the second takes its position after the first has committed or failed, because of the row's lock. The reader begins
//! a read at any moment, which returns what is committed then, and ends it at any later moment, or the read fails. Holes are
//! given up at the end, when no writer is running.

use super::*;
use crate::EventKind;

const WRITERS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Idle,
    Open(i64),
    Committed(i64),
    Told(i64),
    Failed,
}

#[derive(Clone)]
struct World {
    /// The record that each writer writes.
    records: [u8; WRITERS],
    writers: [Writer; WRITERS],
    given: i64,
    /// A read is running.
    read: bool,
    reads: u32,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Begin(usize),
    Commit(usize),
    Fail(usize),
    Tell(usize),
    Read,
    Shown,
    Unread,
}

impl World {
    fn next(&self) -> Vec<Step> {
        let mut next = Vec::new();
        for (at, writer) in self.writers.iter().enumerate() {
            match writer {
                Writer::Idle if !self.is_locked(self.records[at]) => next.push(Step::Begin(at)),
                Writer::Open(_) => next.extend([Step::Commit(at), Step::Fail(at)]),
                Writer::Committed(_) => next.push(Step::Tell(at)),
                Writer::Idle | Writer::Told(_) | Writer::Failed => {}
            }
        }
        if self.read {
            next.extend([Step::Shown, Step::Unread]);
        } else if self.reads < 1 {
            next.push(Step::Read);
        }
        next
    }

    fn is_locked(&self, record: u8) -> bool {
        self.writers.iter().zip(self.records).any(|(writer, of)| of == record && matches!(writer, Writer::Open(_)))
    }

    /// The positions that a read shows.
    fn visible(&self) -> Vec<i64> {
        let mut visible: Vec<i64> = self
            .writers
            .iter()
            .filter_map(|writer| match writer {
                Writer::Committed(position) | Writer::Told(position) => Some(*position),
                Writer::Idle | Writer::Open(_) | Writer::Failed => None,
            })
            .collect();
        visible.sort_unstable();
        visible
    }
}

/// Runs the steps on a fresh sequence and checks the released events.
struct Replay {
    sequence: Sequence,
    read: Option<Read>,
    out: Vec<i64>,
    /// The position that the last frame named.
    announced: i64,
}

fn fresh() -> Sequence {
    Sequence::new(Ledger::after(0), Witnesses::default(), Arc::new(Generation::first("log".to_owned())))
}

fn event() -> EntityEvent {
    EntityEvent::new(EventKind::Updated, "e", "e", "{}")
}

impl Replay {
    fn take(&mut self, world: &World, released: Released) {
        for (pending, passed) in released {
            assert!(!self.out.contains(&pending.position), "twice: {:?}", world.steps);
            self.out.push(pending.position);
            assert!(passed >= self.announced, "the position goes back: {:?}", world.steps);
            self.announced = passed;
            self.check_passed(world, passed);
        }
        self.check_passed(world, self.sequence.passed());
    }

    /// Nothing at or below `passed` may come out later: all of it is out, or failed.
    fn check_passed(&self, world: &World, passed: i64) {
        for writer in world.writers {
            if let Writer::Open(position) | Writer::Committed(position) | Writer::Told(position) = writer {
                assert!(
                    position > passed || self.out.contains(&position),
                    "{passed} skips {position}: {:?}",
                    world.steps
                );
            }
        }
    }
}

fn explore(world: &World, replay: &mut impl FnMut(&World)) {
    let next = world.next();
    if next.is_empty() {
        replay(world);
        return;
    }
    for step in next {
        let mut after = world.clone();
        after.steps.push(step);
        match step {
            Step::Begin(at) => {
                after.given += 1;
                after.writers[at] = Writer::Open(after.given);
            }
            Step::Fail(at) => after.writers[at] = Writer::Failed,
            Step::Commit(at) => {
                if let Writer::Open(position) = after.writers[at] {
                    after.writers[at] = Writer::Committed(position);
                }
            }
            Step::Tell(at) => {
                if let Writer::Committed(position) = after.writers[at] {
                    after.writers[at] = Writer::Told(position);
                }
            }
            Step::Read => {
                after.reads += 1;
                after.read = true;
            }
            Step::Shown | Step::Unread => after.read = false,
        }
        explore(&after, replay);
    }
}

/// Replays one order of steps, with the notifications in `lost` missing.
fn replayed(end: &World, lost: u8) {
    let mut world = World { steps: end.steps.clone(), ..start(end.records) };
    let mut replay = Replay { sequence: fresh(), read: None, out: Vec::new(), announced: 0 };
    let mut shown = Vec::new();
    for step in &end.steps {
        match *step {
            Step::Begin(at) => {
                world.given += 1;
                world.writers[at] = Writer::Open(world.given);
            }
            Step::Fail(at) => world.writers[at] = Writer::Failed,
            Step::Commit(at) => {
                if let Writer::Open(position) = world.writers[at] {
                    world.writers[at] = Writer::Committed(position);
                }
            }
            Step::Tell(at) => {
                if let Writer::Committed(position) = world.writers[at] {
                    world.writers[at] = Writer::Told(position);
                    if lost & (1 << at) == 0 {
                        let released = replay.sequence.arrive([(position, event(), None)]);
                        replay.take(&world, released);
                    }
                }
            }
            Step::Read => {
                let read = replay.sequence.begin_read();
                shown = world.visible().into_iter().filter(|p| *p >= read.from || read.holes.contains(p)).collect();
                replay.read = Some(read);
            }
            Step::Shown => end_read(&mut replay, &world, &shown),
            Step::Unread => {
                replay.read = None;
                let released = replay.sequence.fail_read();
                replay.take(&world, released);
            }
        }
    }
    // The remaining events are found by further reads, as in the follower: a mark, a read, and then the remaining holes
    // are given up.
    for _ in 0..2 {
        let read = replay.sequence.begin_read();
        shown = world.visible().into_iter().filter(|p| *p >= read.from || read.holes.contains(p)).collect();
        replay.read = Some(read);
        end_read(&mut replay, &world, &shown);
    }
    let next = replay.sequence.next();
    replay.sequence.give_up_below(next);
    let mut out = replay.out.clone();
    out.sort_unstable();
    assert_eq!(out, world.visible(), "lost: {:?}", world.steps);
    assert_eq!(replay.sequence.passed(), next - 1);
    // For one record, in the order of the positions, which is the order of the commits.
    for record in world.records {
        let of_record: Vec<i64> = replay
            .out
            .iter()
            .copied()
            .filter(|p| {
                world.writers.iter().zip(world.records).any(|(writer, of)| of == record && *writer == Writer::Told(*p))
            })
            .collect();
        assert!(of_record.is_sorted(), "{of_record:?} of one record: {:?}", world.steps);
    }
}

fn end_read(replay: &mut Replay, world: &World, shown: &[i64]) {
    if let Some(read) = replay.read.take() {
        let shown = shown.iter().map(|position| (*position, Some(event()))).collect();
        let released = replay.sequence.end_read(&read, shown, None);
        replay.take(world, released);
    }
}

fn start(records: [u8; WRITERS]) -> World {
    World { records, writers: [Writer::Idle; WRITERS], given: 0, read: false, reads: 0, steps: Vec::new() }
}

#[test]
fn nothing_is_skipped_repeated_or_out_of_order_after_late_commits() {
    let mut orders = 0_u32;
    for records in [[1, 2, 3], [1, 1, 2], [1, 1, 1]] {
        explore(&start(records), &mut |world| {
            orders += 1;
            for lost in [0, 0b001, 0b110, 0b111] {
                replayed(world, lost);
            }
        });
    }
    assert!(orders > 10_000, "{orders}");
}

/// While many write, there is nearly always a hole. What is below it does not wait for it.
#[test]
fn events_below_the_first_hole_go_out_without_a_read() {
    let mut sequence = fresh();
    let mut arrive = |positions: &[i64]| -> Vec<i64> {
        let events = positions.iter().map(|position| (*position, event(), None)).collect::<Vec<_>>();
        sequence.arrive(events).into_iter().map(|(pending, _)| pending.position).collect()
    };
    assert_eq!(arrive(&[2, 5]), [0; 0]);
    assert_eq!(arrive(&[1]), [1, 2]);
    assert_eq!(arrive(&[7]), [0; 0]);
    assert_eq!(arrive(&[3]), [3]);
    assert_eq!(arrive(&[4]), [4, 5]);
    assert_eq!(arrive(&[6]), [6, 7]);
}

/// The database's count may or may not include what arrives while it runs, so it is subtracted from the room.
#[test]
fn what_arrives_while_the_log_is_counted_takes_its_room() {
    let size = crate::log::sweep::size(event().record().len(), 0);
    let is_full = |sequence: &Sequence| {
        let full = sequence.full();
        let mut told = std::pin::pin!(full.notified());
        let woken = std::task::Context::from_waker(std::task::Waker::noop());
        told.as_mut().poll(&mut { woken }).is_ready()
    };
    let mut sequence = fresh();
    sequence.begin_count();
    sequence.arrive([(1, event(), None), (2, event(), None)]);
    assert!(!is_full(&sequence), "nobody is woken while it is counted");
    sequence.end_count(3 * size);
    assert!(!is_full(&sequence));
    sequence.arrive([(3, event(), None)]);
    assert!(is_full(&sequence));
    sequence.arrive([(4, event(), None)]);
    assert!(!is_full(&sequence), "once");

    sequence.begin_count();
    sequence.arrive([(5, event(), None)]);
    sequence.end_count(size);
    assert!(is_full(&sequence), "no room is left when the count ends");
}
