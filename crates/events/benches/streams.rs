//! What publishing and fan-out cost: the publisher's own share, a delivery to each of many streams, and the memory of
//! streams that wait. Sockets are left out; `bench/` measures whole servers.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::task::{Context, Poll, Waker};

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use gatewright_base::{Ambient, Identity};
use gatewright_events::sse::{EventBody, Params, Subscribe};
use gatewright_events::{Bus, EntityEvent, EventKind, StreamOptions, Streams};
use http_body_util::BodyExt;
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const SUBSCRIBERS: [usize; 3] = [1, 1_000, 5_000];

/// A record that makes an event of about a hundred bytes.
fn event() -> EntityEvent {
    let record: &'static [u8] = br#"{"id":"01890a5d-ac96-774b-bcce-b302099a8057","title":"Hello"}"#;
    EntityEvent::new(EventKind::Created, "posts", "posts", record)
}

fn bus() -> Bus {
    Bus::new(&Ambient::system())
}

fn subscribe(streams: &Streams, count: usize) -> Vec<EventBody> {
    let request = || Subscribe::new("posts", Identity::Anonymous, Params::default(), |_| true);
    (0..count).map(|_| streams.subscribe(request()).unwrap()).collect()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The cost of a write on the writer's thread, for any number of listeners: the rest happens on the broker's task.
#[divan::bench(args = [0, 1, 5_000])]
fn publish(bencher: Bencher<'_, '_>, subscribers: usize) {
    let runtime = runtime();
    let _inside = runtime.enter();
    let bus = bus();
    let streams = Streams::start(&bus, StreamOptions::default());
    let _bodies = subscribe(&streams, subscribers);
    bencher.with_inputs(event).bench_local_values(|event| drop(bus.publish(event)));
}

/// From the publisher to every stream's next write, one event at a time.
#[divan::bench(args = SUBSCRIBERS)]
fn deliver(bencher: Bencher<'_, '_>, subscribers: usize) {
    deliver_bursts(bencher, subscribers, 1);
}

/// The same in bursts of sixteen, which are joined into one write for each stream.
#[divan::bench(args = SUBSCRIBERS)]
fn deliver_joined(bencher: Bencher<'_, '_>, subscribers: usize) {
    deliver_bursts(bencher, subscribers, 16);
}

fn deliver_bursts(bencher: Bencher<'_, '_>, subscribers: usize, burst: usize) {
    let runtime = runtime();
    let inside = runtime.enter();
    let bus = bus();
    let streams = Streams::start(&bus, StreamOptions::default());
    let mut bodies = subscribe(&streams, subscribers);
    drop(inside);
    let expected = u64::try_from(subscribers * burst).unwrap();
    bencher.counter(ItemsCount::new(subscribers * burst)).bench_local(|| {
        let before = streams.stats().delivered;
        drop(bus.publish_all((0..burst).map(|_| event()).collect()));
        runtime.block_on(async {
            while streams.stats().delivered < before + expected {
                tokio::task::yield_now().await;
                drain(&mut bodies);
            }
        });
    });
}

fn drain(bodies: &mut [EventBody]) {
    let mut context = Context::from_waker(Waker::noop());
    for body in bodies {
        while let Poll::Ready(Some(frame)) = std::pin::pin!(body.frame()).as_mut().poll(&mut context) {
            divan::black_box(frame.unwrap());
        }
    }
}

/// Seats taken and given back; the allocation columns are the broker's memory for so many idle streams.
#[divan::bench(args = SUBSCRIBERS)]
fn subscribe_all(bencher: Bencher<'_, '_>, subscribers: usize) {
    let runtime = runtime();
    let _inside = runtime.enter();
    let bus = bus();
    let streams = Streams::start(&bus, StreamOptions::default());
    bencher.counter(ItemsCount::new(subscribers)).bench_local(|| drop(subscribe(&streams, subscribers)));
}
