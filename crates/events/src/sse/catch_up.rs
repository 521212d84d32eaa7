//! A stream that resumes, or whose client reads too slowly, gets its events from the log until it has caught up.
//!
//! While a stream is behind, live events are not sent to it, but recorded as missed. A round reads from the stream's
//! position to the log's end; if no event was missed since the round began, the stream is live again. Duplicates are
//! ignored: see [`Progress`](super::subscriber::Progress).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use super::frame::{self, Gap};
use super::ring::End;
use super::subscribe::{Admitted, Visibility};
use super::subscriber::{Outgoing, Progress, Subscriber};
use crate::EventLog;
use crate::log::page::Unread;
use crate::log::witness::Witness;

/// How long events are tested before others have a turn.
const SLICE: Duration = Duration::from_micros(200);
/// How long to wait after the database did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// The position from which a stream reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resume {
    /// It does not resume: it starts with the next event.
    Now,
    /// From its current position.
    Progress,
    /// From the position that its client has sent, if the log has this event.
    Client(Option<Witness>),
    /// The position does not belong to this log.
    Unknown,
}

impl Broker {
    /// Has a stream get its events from the log until it has caught up.
    pub(super) fn catch_up(self: &Arc<Self>, subscriber: &Arc<Subscriber>, gap: Gap) {
        tokio::spawn(run(self.clone(), subscriber.clone(), gap, Resume::Progress));
    }

    /// Events were dropped before the stream got them.
    pub(super) fn fall_behind(self: &Arc<Self>, subscriber: &Arc<Subscriber>) {
        let Some(progress) = &subscriber.progress else { return };
        let was_behind = {
            let mut progress = progress.lock();
            progress.missed = true;
            std::mem::replace(&mut progress.behind, true)
        };
        if !was_behind {
            self.catch_up(subscriber, Gap::Overflow);
        }
    }

    pub(super) fn all_fall_behind(self: &Arc<Self>) {
        self.members().iter().for_each(|subscriber| self.fall_behind(subscriber));
    }
}

/// Has every stream get `gap` when the log has a new name, until the broker stops.
pub(super) async fn watch(broker: Weak<Broker>, log: EventLog, stop: CancellationToken) {
    let mut renewals = log.renewals();
    drop(log);
    while let Some(Ok(())) = stop.run_until_cancelled(renewals.changed()).await {
        let Some(broker) = broker.upgrade() else { return };
        broker.all_fall_behind();
    }
}

/// Runs until the stream is live or has ended. `gap` is what it receives if events may be missing.
pub(super) async fn run(broker: Arc<Broker>, subscriber: Arc<Subscriber>, gap: Gap, from: Resume) {
    let Some(log) = &broker.options.log else { return };
    let mut lost = match from {
        Resume::Now | Resume::Progress => false,
        Resume::Client(witness) => match is_unknown(&broker, log, &subscriber, witness).await {
            Some(is_unknown) => is_unknown,
            None => return,
        },
        Resume::Unknown => true,
    };
    let (mut gap, mut next) = (gap, gap);
    loop {
        if std::mem::take(&mut lost) && !send_gap(log, &subscriber, gap).await {
            return;
        }
        match round(&broker, log, &subscriber).await {
            Round::Live | Round::Ended => return,
            Round::Again => next = Gap::Overflow,
            Round::Lost => {
                lost = true;
                gap = std::mem::replace(&mut next, Gap::Overflow);
            }
            Round::Renewed => (lost, gap, next) = (true, Gap::Expired, Gap::Overflow),
            Round::Unavailable => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Whether the log lacks the event by which a client proves its position. `None` when the stream has ended.
async fn is_unknown(
    broker: &Broker,
    log: &EventLog,
    subscriber: &Subscriber,
    witness: Option<Witness>,
) -> Option<bool> {
    let Some(witness) = witness else { return Some(false) };
    while !subscriber.ring.is_ended() {
        let answer = {
            let _turn = broker.catch_up_turn(subscriber).await?;
            log.has(witness).await
        };
        match answer {
            Ok(has) => return Some(!has),
            Err(_unavailable) => tokio::time::sleep(PAUSE).await,
        }
    }
    None
}

enum Round {
    Live,
    /// Further events were missed in between.
    Again,
    /// The position is older than the log.
    Lost,
    /// The log has a new name, and the position belongs to the old one.
    Renewed,
    /// The database, or a store that authentication needs, is not available.
    Unavailable,
    Ended,
}

async fn round(broker: &Arc<Broker>, log: &EventLog, subscriber: &Arc<Subscriber>) -> Round {
    let Some(progress) = &subscriber.progress else { return Round::Ended };
    let (mut from, generation) = {
        let mut progress = progress.lock();
        progress.missed = false;
        (progress.passed, progress.generation)
    };
    // Before the first page: a position that is settled later may be missing in a page that was read without it.
    let (now, current) = log.now();
    let settled = now.position;
    if current.number != generation {
        return Round::Renewed;
    }
    let mut reading = broker.pages.begin();
    loop {
        if !subscriber.ring.room().await {
            return Round::Ended;
        }
        let (page, admitted) = {
            let Some(turn) = broker.catch_up_turn(subscriber).await else { return Round::Ended };
            let of = (&subscriber.tables, &*subscriber.seat.lane);
            let page = match broker.pages.get((log, broker.options.json_case), of, from, reading).await {
                Ok(page) => page,
                Err(Unread::Database(_)) => return Round::Unavailable,
                Err(Unread::NoRoom(bytes)) => {
                    broker.pages.clear();
                    drop(turn);
                    let room = log.budget().room(Some(&subscriber.seat.lane), bytes);
                    tokio::select! {
                        biased;
                        () = subscriber.ring.ended() => return Round::Ended,
                        () = room => continue,
                    }
                }
            };
            if !page.is_of(generation) {
                return Round::Renewed;
            }
            if page.is_lost(progress.lock().passed) {
                return Round::Lost;
            }
            let events = page.events();
            let admitted = match &subscriber.admit {
                Some(admit) if !events.is_empty() => {
                    admit(events.iter().map(|outgoing| outgoing.event.clone()).collect()).await
                }
                _ => Ok(Some(vec![Visibility::Shown; events.len()].into())),
            };
            (page, admitted)
        };
        let admitted = match admitted {
            Ok(Some(Admitted::Now(visibilities))) => Ok(Some(visibilities)),
            Ok(Some(Admitted::Later(answer))) => tokio::select! {
                biased;
                () = subscriber.ring.ended() => return Round::Ended,
                answer = answer => answer,
            },
            Ok(None) => Ok(None),
            Err(unavailable) => Err(unavailable),
        };
        let admitted = match admitted {
            Ok(Some(visibilities)) => visibilities,
            Ok(None) => {
                broker.end(subscriber, End::Cut);
                return Round::Ended;
            }
            Err(_unavailable) => return Round::Unavailable,
        };
        from = page.next;
        reading.note(&page);
        let asked_for = {
            let Some(_turn) = broker.catch_up_turn(subscriber).await else { return Round::Ended };
            asked_for(broker, subscriber, progress, page.events().iter().zip(admitted)).await
        };
        let Some((frames, noted)) = asked_for else { return Round::Ended };
        if !push(subscriber, frames).await {
            return Round::Ended;
        }
        {
            let mut progress = progress.lock();
            for (position, passed) in noted {
                progress.note(position, passed);
            }
        }
        if !page.more {
            // A live stream has room for the next events.
            if !subscriber.ring.room().await {
                return Round::Ended;
            }
            return go_live(subscriber, &mut progress.lock(), settled);
        }
    }
}

/// The stream has everything up to a position, and continues with live events unless it missed some meanwhile.
fn go_live(subscriber: &Subscriber, progress: &mut Progress, settled: i64) -> Round {
    progress.pass(settled);
    if progress.missed {
        return Round::Again;
    }
    while let Some(frame) = progress.unlogged.pop_front() {
        if !subscriber.ring.try_push(frame.clone(), None) {
            progress.unlogged.push_front(frame);
            return Round::Again;
        }
    }
    progress.behind = false;
    Round::Live
}

/// The frames of a page that its stream gets, and the positions of all its events with the progress of the stream after each.
/// `None` when the stream has ended. The caller chose the conditions, so other streams have a turn after each [`SLICE`].
async fn asked_for(
    broker: &Arc<Broker>,
    subscriber: &Subscriber,
    progress: &Mutex<Progress>,
    events: impl Iterator<Item = (&Outgoing, Visibility)>,
) -> Option<(VecDeque<Bytes>, Vec<(i64, i64)>)> {
    let (mut frames, mut noted) = (VecDeque::new(), Vec::new());
    let mut began = Instant::now();
    for (outgoing, visibility) in events {
        if began.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            if subscriber.ring.is_ended() {
                return None;
            }
            began = Instant::now();
        }
        let Some(position) = outgoing.event.position().filter(|position| !progress.lock().has(*position)) else {
            continue;
        };
        match subscriber.admitted(visibility, outgoing) {
            Ok(frame) => frames.extend(frame),
            Err(_bad_filter) => {
                tracing::error!(table = &*subscriber.table, "a stream's filter panicked; the stream is ended");
                broker.end(subscriber, End::Cut);
                return None;
            }
        }
        noted.push((position, outgoing.event.passed()));
    }
    // A page may have cost a slice, and the next page may be cached already.
    tokio::task::yield_now().await;
    Some((frames, noted))
}

async fn send_gap(log: &EventLog, subscriber: &Subscriber, gap: Gap) -> bool {
    let (now, generation) = log.now();
    if let Some(progress) = &subscriber.progress {
        let mut progress = progress.lock();
        let unlogged = std::mem::take(&mut progress.unlogged);
        *progress = Progress {
            generation: generation.number,
            passed: now.position,
            behind: true,
            unlogged,
            ..Progress::default()
        };
    }
    push(subscriber, [frame::gap(gap, &now)].into()).await
}

async fn push(subscriber: &Subscriber, frames: VecDeque<Bytes>) -> bool {
    let mut frames = frames;
    while !frames.is_empty() {
        if !subscriber.ring.room().await {
            return false;
        }
        subscriber.ring.append(&mut frames);
    }
    true
}
