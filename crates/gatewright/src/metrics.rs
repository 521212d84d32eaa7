//! `GET /metrics`: metrics for Prometheus.
//!
//! The number of labels is limited: the route's template and never the path, the method if it is a standard one, the
//! status. The counters of each combination are looked up once and cached, so that counting a request costs a lookup in
//! two small maps.

mod budget;
mod fanout;
mod jobs;
mod limits;
#[cfg(feature = "mail")]
mod mail;
#[cfg(not(feature = "mail"))]
#[path = "metrics/no_mail.rs"]
mod mail;
mod outbox;
mod passwords;
mod process;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use gatewright_base::Identity;
use gatewright_events::{Bus, Streams};
use gatewright_http::layers::{self, Answer, CallerNote, Middleware, RouteService, Wrapped, answer};
use gatewright_http::{ClientAddr, TrustedProxies};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use tower::Layer;

use crate::admin::Series;

/// Upper bounds of the buckets for the time until an answer begins, in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];
/// How often collected times are sorted into their buckets, so that they do not pile up between two scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

const REQUESTS: &str = "gatewright_http_requests_total";
const SECONDS: &str = "gatewright_http_request_duration_seconds";

/// The process's numbers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Inner>);

struct Inner {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    routes: RwLock<HashMap<String, Combinations>>,
    in_flight: Gauge,
    streams: StreamMetrics,
    outbox: LastRead,
    jobs: LastRead,
    #[cfg(feature = "mail")]
    mail: LastRead,
    /// The latest answer. Requests that arrive while one is created wait for it.
    answer: tokio::sync::Mutex<Option<(Instant, Bytes)>>,
    /// The last hour for the console's charts, if there is a console.
    series: Option<Series>,
}

/// The maximum age of numbers that are read from the database: any client may request them.
const FRESH: Duration = Duration::from_secs(5);

/// The maximum age of an answer: creating one costs more than most requests do, and any client may request it.
const SHOWN: Duration = Duration::from_secs(1);

/// When numbers were last read from the database.
#[derive(Default)]
struct LastRead(Mutex<Option<Instant>>);

impl LastRead {
    fn is_due(&self) -> bool {
        let mut last = self.0.lock();
        let due = last.is_none_or(|last| last.elapsed() >= FRESH);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

type Combinations = HashMap<(Method, StatusCode), RequestMetrics>;

#[derive(Clone)]
struct RequestMetrics {
    count: Counter,
    seconds: Histogram,
}

struct StreamMetrics {
    subscribers: Gauge,
    delivered: Counter,
    dropped: Counter,
    refused: Counter,
    published: Counter,
}

impl Metrics {
    /// What counts. Building it blocks for several milliseconds: it measures the processor's clock.
    pub(crate) fn recorder() -> PrometheusRecorder {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(SECONDS.to_owned()), &BUCKETS)
            .expect("the list of buckets is not empty");
        builder.build_recorder()
    }

    /// Starts counting. Needs a Tokio runtime, for the upkeep that ends with the last clone.
    pub(crate) fn start(recorder: PrometheusRecorder, series: Option<Series>) -> Self {
        let inner = Arc::new(Inner {
            handle: recorder.handle(),
            routes: RwLock::default(),
            in_flight: gauge(&recorder, "gatewright_http_requests_in_flight", "Requests in progress"),
            streams: StreamMetrics {
                subscribers: gauge(&recorder, "gatewright_event_subscribers", "Event streams that are open"),
                delivered: counter(&recorder, "gatewright_events_delivered_total", "Events handed to streams"),
                dropped: counter(&recorder, "gatewright_events_dropped_total", "Events that slow streams lost"),
                refused: counter(
                    &recorder,
                    "gatewright_event_streams_refused_total",
                    "Streams refused because all seats were taken",
                ),
                published: counter(&recorder, "gatewright_events_published_total", "Events put on the bus"),
            },
            outbox: LastRead::default(),
            jobs: LastRead::default(),
            #[cfg(feature = "mail")]
            mail: LastRead::default(),
            answer: tokio::sync::Mutex::default(),
            series,
            recorder,
        });
        outbox::describe(&inner.recorder);
        inner.recorder.describe_counter(REQUESTS.into(), None, "Requests answered".into());
        let until = "Time until the answer began, in seconds";
        inner.recorder.describe_histogram(SECONDS.into(), Some(Unit::Seconds), until.into());
        tokio::spawn(maintain(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// The text of the exposition format, at most a second old. `observe` reads the values that are not counted
    /// continuously.
    pub(crate) async fn answer(&self, bus: &Bus, streams: &Streams, observe: impl Future<Output = ()>) -> Response {
        let mut latest = self.0.answer.lock().await;
        let known = latest.as_ref().filter(|(made, _)| made.elapsed() < SHOWN).map(|(_, text)| text.clone());
        let text = match known {
            Some(text) => text,
            None => {
                observe.await;
                let text = Bytes::from(self.render(bus, streams));
                *latest = Some((Instant::now(), text.clone()));
                text
            }
        };
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
    }

    fn render(&self, bus: &Bus, streams: &Streams) -> String {
        let Inner { handle, streams: metrics, .. } = &*self.0;
        let stats = streams.stats();
        #[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 streams open")]
        metrics.subscribers.set(stats.subscribers as f64);
        metrics.delivered.absolute(stats.delivered);
        metrics.dropped.absolute(stats.dropped);
        metrics.refused.absolute(stats.refused);
        metrics.published.absolute(bus.published());
        handle.render()
    }

    fn of(&self, route: &str, method: Method, status: StatusCode) -> RequestMetrics {
        let combination = (method, status);
        if let Some(known) = self.0.routes.read().get(route).and_then(|combinations| combinations.get(&combination)) {
            return known.clone();
        }
        let labels =
            vec![Label::new("method", combination.0.as_str().to_owned()), Label::new("route", route.to_owned())];
        let with_status =
            labels.iter().cloned().chain([Label::new("status", combination.1.as_str().to_owned())]).collect::<Vec<_>>();
        let metrics = RequestMetrics {
            count: self.0.recorder.register_counter(&Key::from_parts(REQUESTS, with_status), &METADATA),
            seconds: self.0.recorder.register_histogram(&Key::from_parts(SECONDS, labels), &METADATA),
        };
        let mut routes = self.0.routes.write();
        routes.entry(route.to_owned()).or_default().insert(combination, metrics.clone());
        metrics
    }
}

/// Counts requests and times their answers. Belongs around the routes, inside of which the template is known.
#[derive(Clone)]
pub(crate) struct CountLayer {
    pub(crate) metrics: Metrics,
    /// Whose `X-Forwarded-For` is trusted.
    pub(crate) proxies: TrustedProxies,
}

impl<S> Layer<S> for CountLayer {
    type Service = Wrapped<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.clone())
    }
}

impl Middleware for CountLayer {
    fn handle<S: RouteService>(&self, mut request: Request, inner: layers::Inner<'_, S>) -> Answer<S> {
        // What only the log has is not looked up without it.
        let logged = tracing::enabled!(target: "gatewright::access", tracing::Level::DEBUG).then(|| {
            let (caller, client) = (CallerNote::default(), ClientAddr::of_request(&request, &self.proxies));
            request.extensions_mut().insert(caller.clone());
            (caller, client.ip().map(network))
        });
        let route = request.extensions().get::<MatchedPath>().cloned();
        let method = standard(request.method());
        let metrics = self.metrics.clone();
        let waiting = InFlight::new(&metrics);
        let start = Instant::now();
        let called = inner.call(request);
        answer(async move {
            let response = called.await;
            drop(waiting);
            let took = start.elapsed();
            let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
            let of = metrics.of(route, method.clone(), response.status());
            of.count.increment(1);
            of.seconds.record(took.as_secs_f64());
            if let Some(series) = &metrics.0.series {
                series.count(response.status(), took);
            }
            let status = response.status().as_u16();
            if let Some((caller, client)) = logged {
                let id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok());
                let account =
                    caller.identity().and_then(Identity::principal).map(|principal| principal.subject.as_str());
                let ms = took.as_secs_f64() * 1000.0;
                tracing::debug!(
                    target: "gatewright::access",
                    %method, route, status, ms, requestId = id, account, addressClass = client, "answered"
                );
            }
            response
        })
    }
}

/// The network of a client: many people share it.
fn network(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{}/48", Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

/// A request in progress, also if its client disconnects before the answer.
struct InFlight(Gauge);

impl InFlight {
    fn new(metrics: &Metrics) -> Self {
        let gauge = metrics.0.in_flight.clone();
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

fn counter(recorder: &PrometheusRecorder, name: &'static str, about: &'static str) -> Counter {
    recorder.describe_counter(name.into(), None, about.into());
    recorder.register_counter(&Key::from_name(name), &METADATA)
}

fn gauge(recorder: &PrometheusRecorder, name: &'static str, about: &'static str) -> Gauge {
    recorder.describe_gauge(name.into(), None, about.into());
    recorder.register_gauge(&Key::from_name(name), &METADATA)
}

/// The method, or one word for all that a client may make up.
fn standard(method: &Method) -> Method {
    const STANDARD: [Method; 7] =
        [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
    let known = STANDARD.contains(method).then(|| method.clone());
    known.unwrap_or_else(|| Method::from_bytes(b"OTHER").expect("OTHER is a token"))
}

async fn maintain(metrics: Weak<Inner>) {
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tick.tick().await;
        let Some(inner) = metrics.upgrade() else { return };
        inner.handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use gatewright_base::Ambient;

    use super::*;

    #[test]
    fn a_client_is_shown_as_its_network() {
        for (address, expected) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("127.0.0.1", "127.0.0.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            ("::1", "::/48"),
        ] {
            assert_eq!(network(address.parse().unwrap()), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_rendered_at_most_once_a_second() {
        let metrics = Metrics::start(Metrics::recorder(), None);
        let (bus, streams, made) = (Bus::new(&Ambient::system()), Streams::disabled(), AtomicU32::new(0));
        let scrape = || {
            metrics.answer(&bus, &streams, async {
                tokio::task::yield_now().await;
                made.fetch_add(1, Ordering::Relaxed);
            })
        };
        for second in 1..=3 {
            let answers = join_all((0..100).map(|_| scrape())).await;
            assert!(answers.iter().all(|answer| answer.status() == StatusCode::OK));
            assert_eq!(made.load(Ordering::Relaxed), second);
            tokio::time::advance(SHOWN).await;
        }
        // A caller who disconnects while an answer is created does not delay others.
        drop(tokio::time::timeout(Duration::ZERO, scrape()).await);
        scrape().await;
        assert_eq!(made.load(Ordering::Relaxed), 4);
    }
}
