use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Identity;
use gatewright_events::sse::{Client, MAX_SUBSCRIBER_ID, Refused};
use gatewright_events::{StreamOptions, Streams};
use gatewright_http::ClientAddr;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::support::{Reader, everything, frame, named, publish, service, settle, streams, user};

/// Requests of so many tasks that begin together.
async fn at_once<F>(count: usize, streams: &Streams, request: impl Fn(Streams) -> F) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let start = Arc::new(Barrier::new(count));
    let mut tries = JoinSet::new();
    for _ in 0..count {
        let (start, request) = (start.clone(), request(streams.clone()));
        tries.spawn(async move {
            start.wait().await;
            request.await
        });
    }
    tries.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_as_many_of_200_parallel_requests_are_seated_as_there_are_seats() {
    let (bus, streams) = streams(StreamOptions { max_subscribers: 50, ..StreamOptions::default() });
    let open = |streams: Streams| async move { Reader::open(&streams, everything(Identity::Anonymous)).await };
    let (seated, refused): (Vec<_>, Vec<_>) = at_once(200, &streams, open).await.into_iter().partition(Result::is_ok);
    assert_eq!((seated.len(), refused.len()), (50, 150));
    let stats = streams.stats();
    assert_eq!((stats.subscribers, stats.refused), (50, 150));
    for refusal in refused {
        assert_eq!(refusal.unwrap_err(), Refused::TooMany { retry_after: Duration::from_secs(15) });
    }

    // No stream was evicted: each still gets the next write.
    publish(&bus, 1..2);
    let mut readers: Vec<_> = seated.into_iter().map(Result::unwrap).collect();
    for reader in &mut readers {
        assert_eq!(reader.chunk().await, Some(frame(1)));
    }

    drop(readers.pop());
    readers.push(Reader::everything(&streams).await);
    assert!(streams.subscribe(everything(Identity::Anonymous)).is_err());
    drop(readers);
    assert_eq!(streams.stats().subscribers, 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_id_replaces_the_same_callers_stream_even_when_all_seats_are_taken() {
    let (bus, streams) = streams(StreamOptions { max_subscribers: 2, ..StreamOptions::default() });
    let mut old = Reader::open(&streams, named("posts", user("ada"), "tab")).await.unwrap();
    let mut bystander = Reader::everything(&streams).await;
    let mut new = Reader::open(&streams, named("posts", user("ada"), "tab")).await.unwrap();
    publish(&bus, 1..2);
    assert_eq!(old.rest().await, "");
    assert_eq!(new.chunk().await, Some(frame(1)));
    assert_eq!(bystander.chunk().await, Some(frame(1)));
    assert_eq!(streams.stats().subscribers, 2);

    // The end of the old connection must not free the seat that it handed over.
    drop(old);
    assert_eq!(streams.stats().subscribers, 2);
    assert!(streams.subscribe(everything(Identity::Anonymous)).is_err());
    drop(new);
    assert_eq!(streams.stats().subscribers, 1);
    let _again = Reader::open(&streams, named("posts", user("ada"), "tab")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_another_caller_is_not_replaced() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut victim = Reader::open(&streams, named("posts", user("ada"), "tab")).await.unwrap();
    let mut anonymous = Reader::open(&streams, named("posts", Identity::Anonymous, "tab")).await.unwrap();
    let pending = Identity::Pending(gatewright_base::UserId::parse("ada").unwrap());
    let mut others = Vec::new();
    for (table, caller, subscriber_id) in [
        ("posts", user("bob"), "tab"),
        ("posts", service("ada"), "tab"),
        ("posts", Identity::Anonymous, "tab"),
        ("posts", pending, "tab"),
        ("notes", user("ada"), "tab"),
        ("posts", user("ada"), "tab2"),
    ] {
        others.push(Reader::open(&streams, named(table, caller, subscriber_id)).await.unwrap());
    }
    assert_eq!(streams.stats().subscribers, 8);
    publish(&bus, 1..2);
    assert_eq!(victim.chunk().await, Some(frame(1)));
    assert_eq!(anonymous.chunk().await, Some(frame(1)));
}

#[tokio::test(start_paused = true)]
async fn without_a_principal_function_nothing_is_replaced() {
    let (bus, streams) = streams(StreamOptions { principal: None, max_subscribers: 2, ..StreamOptions::default() });
    let mut first = Reader::open(&streams, named("posts", user("ada"), "tab")).await.unwrap();
    let mut second = Reader::open(&streams, named("posts", user("ada"), "tab")).await.unwrap();
    assert!(streams.subscribe(named("posts", user("ada"), "tab")).is_err());
    publish(&bus, 1..2);
    assert_eq!(first.chunk().await, Some(frame(1)));
    assert_eq!(second.chunk().await, Some(frame(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_20_parallel_requests_with_one_name_keeps_the_seat() {
    let (_bus, streams) = streams(StreamOptions { max_subscribers: 1, ..StreamOptions::default() });
    let open =
        |streams: Streams| async move { Reader::open(&streams, named("posts", user("ada"), "tab")).await.unwrap() };
    let readers = at_once(20, &streams, open).await;
    assert_eq!(streams.stats().subscribers, 1);
    streams.shutdown();
    drop(readers);
    assert_eq!(streams.stats().subscribers, 0);
}

#[tokio::test(start_paused = true)]
async fn an_endless_subscriber_id_is_refused() {
    let (_bus, streams) = streams(StreamOptions::default());
    let longest = "x".repeat(MAX_SUBSCRIBER_ID);
    let _seated = Reader::open(&streams, named("posts", user("ada"), &longest)).await.unwrap();
    let refusal = streams.subscribe(named("posts", user("ada"), &(longest + "x"))).unwrap_err();
    assert_eq!(refusal, Refused::SubscriberId);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_keeps_its_seat_until_its_body_is_dropped() {
    let (_bus, streams) = streams(StreamOptions { max_subscribers: 1, ..StreamOptions::default() });
    let dead = streams.subscribe(everything(Identity::Anonymous)).unwrap();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(streams.subscribe(everything(Identity::Anonymous)).is_err());
    drop(dead);
    settle().await;
    assert!(streams.subscribe(everything(Identity::Anonymous)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn seats_are_limited_per_account_and_per_address() {
    let options =
        StreamOptions { max_subscribers_per_caller: 3, max_subscribers_per_address: 5, ..StreamOptions::default() };
    let (_bus, streams) = streams(options);
    let open = async |caller: Identity, address: &'static str| {
        Reader::open(&streams, everything(caller).from_client(Client::from(address_of(address)))).await
    };
    let refused = Err(Refused::TooMany { retry_after: Duration::from_secs(15) });
    let mut readers = Vec::new();
    // Anonymous clients of one address count as one caller.
    for _ in 0..3 {
        readers.push(open(Identity::Anonymous, "192.0.2.1").await.unwrap());
    }
    assert_eq!(open(Identity::Anonymous, "192.0.2.1").await.map(drop), refused);
    readers.push(open(Identity::Anonymous, "192.0.2.2").await.unwrap());
    // An account is refused at the limit of the address, and accepted at another address up to its own limit.
    for _ in 0..2 {
        readers.push(open(user("ada"), "192.0.2.1").await.unwrap());
    }
    assert_eq!(open(user("ada"), "192.0.2.1").await.map(drop), refused);
    assert_eq!(open(user("bob"), "192.0.2.1").await.map(drop), refused);
    readers.push(open(user("ada"), "192.0.2.3").await.unwrap());
    assert_eq!(open(user("ada"), "192.0.2.3").await.map(drop), refused);
    readers.push(open(service("ada"), "192.0.2.3").await.unwrap());
    assert_eq!(streams.stats().refused, 4);
    // Seats that are given back can be taken again.
    readers.clear();
    for _ in 0..3 {
        readers.push(open(Identity::Anonymous, "192.0.2.1").await.unwrap());
    }
}

fn address_of(text: &str) -> ClientAddr {
    ClientAddr::new(Some(text.parse().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_48_cannot_take_the_seats_of_others_from_its_many_64s() {
    let options =
        StreamOptions { max_subscribers_per_caller: 3, max_subscribers_per_address: 5, ..StreamOptions::default() };
    for (caller, expected) in [(None, 24), (Some(()), 40)] {
        let (_bus, streams) = streams(options.clone());
        let open = async |number: usize, address: String| {
            let caller = if caller.is_some() { user(&format!("u{number}")) } else { Identity::Anonymous };
            Reader::open(&streams, everything(caller).from_client(address_of(&address).into())).await
        };
        let mut readers = Vec::new();
        for number in 0..100 {
            readers.extend(open(number, format!("2001:db8:1:{number:x}::1")).await.ok());
        }
        assert_eq!(readers.len(), expected, "of one /48");
        for (number, address) in ["2001:db8:2::1", "192.0.2.1", "192.0.2.2"].into_iter().enumerate() {
            readers.push(open(200 + number, address.to_owned()).await.unwrap());
        }
        drop(readers);
        assert!(open(300, "2001:db8:1::1".to_owned()).await.is_ok(), "seats that are given back can be taken again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_id_replaces_a_stream_of_a_caller_who_has_all_their_seats() {
    let options = StreamOptions { max_subscribers_per_caller: 1, ..StreamOptions::default() };
    let (_bus, streams) = streams(options);
    let mut last = None;
    for _ in 0..3 {
        let named = named("posts", user("ada"), "tab").from_client(Client::from(address_of("192.0.2.1")));
        last = Some(Reader::open(&streams, named).await.unwrap());
    }
    assert!(streams.subscribe(everything(user("ada"))).is_err());
    drop(last);
    assert!(streams.subscribe(everything(user("ada"))).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_the_share_of_one_caller_of_20_parallel_requests_is_seated() {
    let (_bus, streams) = streams(StreamOptions { max_subscribers_per_caller: 7, ..StreamOptions::default() });
    let subscribe = |streams: Streams| async move { streams.subscribe(everything(user("ada"))) };
    let seated = at_once(20, &streams, subscribe).await.into_iter().filter_map(Result::ok).collect::<Vec<_>>();
    assert_eq!((seated.len(), streams.stats().refused), (7, 13));
}

#[tokio::test(start_paused = true)]
async fn clients_on_this_computer_are_limited_only_by_the_total_of_seats() {
    let options = StreamOptions {
        max_subscribers: 6,
        max_subscribers_per_caller: 2,
        max_subscribers_per_address: 2,
        ..StreamOptions::default()
    };
    let (_bus, streams) = streams(options);
    let mut readers = Vec::new();
    for caller in [user("ada"), Identity::Anonymous] {
        for _ in 0..3 {
            let request = everything(caller.clone()).from_client(Client::Local);
            readers.push(Reader::open(&streams, request).await.unwrap());
        }
    }
    assert!(streams.subscribe(everything(user("ada")).from_client(Client::Local)).is_err());
}
