//! One stream's buffer: events that are not yet written to its connection.
//!
//! It holds 32 events. By default the oldest is dropped for the next. With blocking delivery, further events wait
//! behind the 32, and their writers wait with them, until there is room or the block timeout has passed.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::frame::HEARTBEAT;
use crate::bus::receipt::Hold;

/// Events that a stream's buffer holds.
pub const CAPACITY: usize = 32;

/// Bytes past which a stream's buffer counts as full, and as half full, if events that do not fit are in the log.
const MAX_BYTES: usize = 256 << 10;

/// Events that may wait behind the buffer of a blocking stream.
const MAX_WAITING: usize = 1024;

/// Frames are joined up to this many bytes, so that a busy stream costs a system call per burst, not per event.
const JOINED: usize = 16 * 1024;

pub(crate) struct Ring {
    state: Mutex<State>,
    /// Half of the buffer is free, or the stream has ended.
    drained: Notify,
}

struct State {
    frames: VecDeque<Frame>,
    /// Bytes that are written before everything else.
    opening: Bytes,
    heartbeat: bool,
    ended: bool,
    delivery: Delivery,
    waker: Option<Waker>,
}

/// What happens to an event for which there is no room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// The oldest event is dropped.
    DropOldest,
    /// It waits, and so does its writer.
    Block,
    /// A writer reached its timeout for this stream: the oldest event is dropped, until the stream has caught up.
    Behind,
}

struct Frame {
    bytes: Bytes,
    /// Only for frames beyond the capacity.
    hold: Option<Hold>,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// After the queued frames were written.
    Flushed,
    /// At once: the caller may not see the queued frames.
    Cut,
}

/// The content of the connection's next write.
pub(crate) struct Chunk {
    pub(crate) bytes: Bytes,
    /// Events in it.
    pub(crate) events: u64,
}

impl Ring {
    pub(crate) fn new(blocks: bool, opening: Bytes) -> Self {
        let state = Mutex::new(State {
            frames: VecDeque::new(),
            opening,
            heartbeat: false,
            ended: false,
            delivery: if blocks { Delivery::Block } else { Delivery::DropOldest },
            waker: None,
        });
        Self { state, drained: Notify::new() }
    }

    /// Queues frames and returns how many older ones were dropped for them.
    pub(crate) fn push(&self, frames: impl IntoIterator<Item = (Bytes, Option<Hold>)>) -> u64 {
        let mut state = self.state.lock();
        if state.ended {
            return 0;
        }
        let mut dropped = state.give_up_on_abandoned();
        for (bytes, hold) in frames {
            dropped += state.push(bytes, hold);
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        dropped
    }

    /// Queues a frame if there is room for it, or if it may wait with its writer. Nothing is dropped for it.
    pub(crate) fn try_push(&self, bytes: Bytes, hold: Option<Hold>) -> bool {
        let mut state = self.state.lock();
        if state.ended {
            return true;
        }
        if !state.try_push(bytes, hold) {
            return false;
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Queues the first of these frames, as many as there is room for.
    pub(crate) fn append(&self, frames: &mut VecDeque<Bytes>) {
        let mut state = self.state.lock();
        if state.ended {
            frames.clear();
            return;
        }
        while state.has_room()
            && let Some(bytes) = frames.pop_front()
        {
            state.frames.push_back(Frame { bytes, hold: None });
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until half of the buffer is free. `false` when the stream has ended.
    pub(crate) async fn room(&self) -> bool {
        loop {
            let drained = self.drained.notified();
            {
                let state = self.state.lock();
                if state.ended {
                    return false;
                }
                if state.is_half_free() {
                    return true;
                }
            }
            drained.await;
        }
    }

    /// Waits until the stream has ended.
    pub(crate) async fn ended(&self) {
        loop {
            let drained = self.drained.notified();
            if self.is_ended() {
                return;
            }
            drained.await;
        }
    }

    /// Has a heartbeat written.
    pub(crate) fn beat(&self) {
        let mut state = self.state.lock();
        state.heartbeat = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the stream. Writers that wait for it are released.
    pub(crate) fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.ended = true;
        let discarded = match end {
            End::Cut => {
                state.heartbeat = false;
                std::mem::take(&mut state.frames)
            }
            End::Flushed => {
                for frame in state.frames.iter_mut().skip(CAPACITY) {
                    frame.hold = None;
                }
                VecDeque::new()
            }
        };
        let waker = state.waker.take();
        drop(state);
        self.drained.notify_one();
        drop(discarded);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// The next write, if there is one; `None` when the stream has ended and nothing is left.
    pub(crate) fn poll_chunk(&self, context: &Context<'_>) -> Poll<Option<Chunk>> {
        let mut state = self.state.lock();
        if let Some(chunk) = state.next_chunk() {
            if state.is_half_free() {
                self.drained.notify_one();
            }
            return Poll::Ready(Some(chunk));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            state.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

impl State {
    fn bytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.bytes.len()).sum()
    }

    /// Whether another frame has room, of any size.
    fn has_room(&self) -> bool {
        self.frames.len() < CAPACITY && self.bytes() < MAX_BYTES
    }

    fn is_half_free(&self) -> bool {
        self.frames.len() <= CAPACITY / 2 && self.bytes() <= MAX_BYTES / 2
    }

    fn push(&mut self, bytes: Bytes, hold: Option<Hold>) -> u64 {
        if self.frames.len() < CAPACITY {
            self.frames.push_back(Frame { bytes, hold: None });
            return 0;
        }
        let awaited = hold.as_ref().is_some_and(|hold| !hold.is_abandoned());
        if awaited && self.delivery == Delivery::Block && self.frames.len() < CAPACITY + MAX_WAITING {
            self.frames.push_back(Frame { bytes, hold });
            return 0;
        }
        self.frames.push_back(Frame { bytes, hold: None });
        self.pop();
        1
    }

    fn try_push(&mut self, bytes: Bytes, hold: Option<Hold>) -> bool {
        let abandoned = |frame: &Frame| frame.hold.as_ref().is_some_and(Hold::is_abandoned);
        if self.frames.iter().skip(CAPACITY).any(abandoned) {
            // A writer waited until the timeout: the stream blocks no writer before it has caught up.
            self.delivery = Delivery::Behind;
            self.frames.iter_mut().for_each(|frame| frame.hold = None);
        }
        let waits = hold.as_ref().is_some_and(|hold| !hold.is_abandoned())
            && self.delivery == Delivery::Block
            && self.frames.len() < CAPACITY + MAX_WAITING;
        // The writers of a blocking stream count its events.
        let fits = self.frames.len() < CAPACITY && (self.delivery != Delivery::DropOldest || self.has_room());
        if fits || waits {
            self.frames.push_back(Frame { bytes, hold: hold.filter(|_| !fits) });
        }
        fits || waits
    }

    /// If a writer stopped waiting, its event and all other waiting ones replace the oldest events: the stream drops
    /// events until it has caught up.
    fn give_up_on_abandoned(&mut self) -> u64 {
        let abandoned = |frame: &Frame| frame.hold.as_ref().is_some_and(Hold::is_abandoned);
        if !self.frames.iter().skip(CAPACITY).any(abandoned) {
            return 0;
        }
        self.delivery = Delivery::Behind;
        let mut dropped = 0;
        while self.frames.len() > CAPACITY {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    /// Takes the oldest frame; the first of those that wait moves into the buffer, and its writer need not wait.
    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        if let Some(admitted) = self.frames.get_mut(CAPACITY - 1) {
            admitted.hold = None;
        }
        if self.frames.is_empty() && self.delivery == Delivery::Behind {
            self.delivery = Delivery::Block;
        }
        Some(frame)
    }

    fn next_chunk(&mut self) -> Option<Chunk> {
        if !self.opening.is_empty() {
            return Some(Chunk { bytes: std::mem::take(&mut self.opening), events: 0 });
        }
        let Some(first) = self.pop() else {
            return std::mem::take(&mut self.heartbeat)
                .then(|| Chunk { bytes: Bytes::from_static(HEARTBEAT), events: 0 });
        };
        let fits =
            |state: &Self, bytes: usize| state.frames.front().is_some_and(|next| bytes + next.bytes.len() <= JOINED);
        let mut bytes = first.bytes;
        let mut events = 1;
        if fits(self, bytes.len()) {
            let mut joined = BytesMut::with_capacity(self.joined_len(bytes.len()));
            joined.extend_from_slice(&bytes);
            while fits(self, joined.len()) {
                let Some(next) = self.pop() else { break };
                joined.extend_from_slice(&next.bytes);
                events += 1;
            }
            bytes = joined.freeze();
        }
        Some(Chunk { bytes, events })
    }

    fn joined_len(&self, first: usize) -> usize {
        let mut total = first;
        for frame in &self.frames {
            if total + frame.bytes.len() > JOINED {
                break;
            }
            total += frame.bytes.len();
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::frame::OPENING;
    use super::*;
    use crate::Receipt;

    fn frames(range: std::ops::Range<usize>) -> impl Iterator<Item = (Bytes, Option<Hold>)> {
        range.map(|n| (Bytes::from(format!("{n};")), None))
    }

    fn ring(blocks: bool) -> Ring {
        let ring = Ring::new(blocks, Bytes::from_static(OPENING));
        assert_eq!(read(&ring), Some((String::from_utf8(OPENING.to_vec()).unwrap(), 0)));
        ring
    }

    /// The next chunk as text, with its events; `None` if nothing is ready.
    fn read(ring: &Ring) -> Option<(String, u64)> {
        match ring.poll_chunk(&Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(chunk)) => Some((String::from_utf8(chunk.bytes.to_vec()).unwrap(), chunk.events)),
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    fn held(ring: &Ring, name: &'static str) -> (Hold, Receipt) {
        let (hold, receipt) = Hold::new(Duration::from_secs(5));
        assert_eq!(ring.push([(Bytes::from_static(name.as_bytes()), Some(hold.clone()))]), 0);
        (hold, receipt)
    }

    #[test]
    fn exactly_the_oldest_are_dropped() {
        let ring = ring(false);
        assert_eq!(ring.push(frames(0..CAPACITY)), 0);
        assert_eq!(ring.push(frames(32..37)), 5);
        let expected: Vec<String> = (5..37).map(|n| format!("{n};")).collect();
        assert_eq!(read(&ring), Some((expected.concat(), 32)));
        assert_eq!(read(&ring), None);
    }

    #[test]
    fn frames_are_joined_up_to_the_limit_and_a_huge_one_is_sent_separately_and_uncopied() {
        let ring = ring(false);
        let small = Bytes::from(vec![b's'; JOINED / 2]);
        let huge = Bytes::from(vec![b'h'; 1 << 20]);
        for bytes in [&small, &small, &small, &huge, &small] {
            ring.push([(bytes.clone(), None)]);
        }
        let lengths: Vec<_> = std::iter::from_fn(|| read(&ring)).map(|(text, events)| (text.len(), events)).collect();
        assert_eq!(lengths, [(JOINED, 2), (JOINED / 2, 1), (1 << 20, 1), (JOINED / 2, 1)]);

        ring.push([(huge.clone(), None)]);
        let Poll::Ready(Some(chunk)) = ring.poll_chunk(&Context::from_waker(Waker::noop())) else {
            panic!("the frame is ready");
        };
        assert_eq!(chunk.bytes.as_ptr(), huge.as_ptr());
    }

    #[test]
    fn a_heartbeat_comes_after_what_is_queued_and_only_once() {
        let ring = ring(false);
        ring.beat();
        ring.beat();
        ring.push(frames(0..1));
        assert_eq!(read(&ring), Some(("0;".into(), 1)));
        assert_eq!(read(&ring), Some((": heartbeat\n\n".into(), 0)));
        assert_eq!(read(&ring), None);
    }

    #[test]
    fn an_ended_stream_is_flushed_or_cut() {
        for (end, left) in [(End::Flushed, Some(("0;1;".to_owned(), 2))), (End::Cut, None)] {
            let ring = ring(false);
            ring.push(frames(0..2));
            ring.end(end);
            ring.push(frames(2..3));
            assert_eq!(read(&ring), left);
            assert!(matches!(ring.poll_chunk(&Context::from_waker(Waker::noop())), Poll::Ready(None)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_behind_a_full_buffer_keeps_its_writer_waiting_until_there_is_room() {
        let ring = ring(true);
        ring.push(frames(0..CAPACITY));
        let (hold, receipt) = held(&ring, "last;");
        drop(hold);
        let waiting = tokio::spawn(receipt.wait());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let (text, events) = read(&ring).unwrap();
        assert_eq!(events, 33);
        assert!(text.ends_with("31;last;"));
        assert!(waiting.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_timed_out_a_writer_delays_none_before_it_has_caught_up() {
        let ring = ring(true);
        ring.push(frames(0..CAPACITY));
        let (hold, receipt) = held(&ring, "late;");
        drop(hold);
        assert!(!receipt.wait().await);

        let (hold, receipt) = Hold::new(Duration::from_secs(5));
        assert_eq!(ring.push([("next;".into(), Some(hold))]), 2);
        assert!(receipt.wait().await);

        let (text, events) = read(&ring).unwrap();
        assert_eq!(events, 32);
        assert!(text.starts_with("2;") && text.ends_with("late;next;"));

        ring.push(frames(0..CAPACITY));
        let (hold, receipt) = held(&ring, "again;");
        drop(hold);
        let started = tokio::time::Instant::now();
        assert!(!receipt.wait().await);
        assert_eq!(started.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn ending_a_blocking_stream_releases_its_writers() {
        for end in [End::Flushed, End::Cut] {
            let ring = ring(true);
            ring.push(frames(0..CAPACITY));
            let (hold, receipt) = held(&ring, "last;");
            drop(hold);
            ring.end(end);
            assert!(receipt.wait().await);
        }
    }

    #[test]
    fn without_a_waiting_writer_a_blocking_stream_drops_its_oldest() {
        let ring = ring(true);
        ring.push(frames(0..CAPACITY));
        assert_eq!(ring.push(frames(32..34)), 2);
        assert!(read(&ring).unwrap().0.starts_with("2;"));
    }
}
