use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Event;
use super::stage::is_event_type;

/// Why a delivery failed, as a text for operators. It must not contain secrets.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

type Handling = BoxFuture<'static, Result<(), (Failure, Advice)>>;

/// What a failed delivery says about later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing.
    None,
    /// The receiver has too much to do.
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "only webhooks have such receivers"))]
    Busy,
    /// The receiver wants nothing before this time has passed.
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "only webhooks have such receivers"))]
    After(Duration),
    /// The receiver wants nothing any more.
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "only webhooks have such receivers"))]
    Never,
    /// This delivery can never succeed.
    Hopeless,
}

/// A failure after which the delivery is dead: it can never succeed. Return it as the error of a handler.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Hopeless(pub String);

/// A failed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) words: String,
    pub(super) advice: Advice,
}

/// Default number of concurrent handlers of one consumer.
const CONCURRENCY: usize = 8;
/// The longest name, in bytes.
const LONGEST_NAME: usize = 100;

/// A durable consumer: a stable name, an event type, and a handler.
///
/// The database stores deliveries by this name. A renamed consumer starts as a new one. The deliveries of a removed
/// consumer are abandoned after the grace period.
#[derive(Clone)]
pub struct Consumer {
    pub(super) name: Arc<str>,
    pub(super) event_type: Arc<str>,
    pub(super) concurrency: usize,
    /// Only events of this entity.
    pub(super) entity: Option<Arc<str>>,
    /// The events of a record come one after the other.
    pub(super) ordered: bool,
    handler: Arc<dyn Fn(Event) -> Handling + Send + Sync>,
}

/// Why a consumer could not be declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The name is empty, too long or has invisible characters.
    #[error("a consumer's name is 1 to {LONGEST_NAME} visible characters")]
    Name,
    /// The event type is empty, too long or has invisible characters.
    #[error("the consumer {0}: an event type is 1 to 200 visible characters")]
    EventType(String),
    /// The same name is declared twice for the same type.
    #[error("the consumer {name} is declared twice for {event_type}")]
    Twice {
        /// The name.
        name: String,
        /// The type.
        event_type: String,
    },
}

/// A consumer's name and its event type: deliveries are created from these.
pub(super) struct Declared {
    pub(super) name: Arc<str>,
    pub(super) event_type: Arc<str>,
    /// Absent: of all entities, and those of none.
    pub(super) entity: Option<Arc<str>>,
    pub(super) ordered: bool,
}

impl Declared {
    pub(super) fn of(consumer: &Consumer) -> Self {
        Self {
            name: consumer.name.clone(),
            event_type: consumer.event_type.clone(),
            entity: consumer.entity.clone(),
            ordered: consumer.ordered,
        }
    }
}

impl Consumer {
    /// A consumer that runs `handler` for every event of a type.
    ///
    /// A handler that returns an error or panics is run again later. It may be run again even after a success (if the
    /// process ends before the success is stored), so it must be idempotent: use [`Event::id`] to detect repeats.
    pub fn new<F, Fut, E>(name: &str, event_type: &str, handler: F) -> Result<Self, ConsumerError>
    where
        F: Fn(Event) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        Self::advised(name, event_type, move |event| {
            let handling = handler(event);
            async move {
                handling.await.map_err(|failure| {
                    let failure: Failure = failure.into();
                    let advice = if failure.is::<Hopeless>() { Advice::Hopeless } else { Advice::None };
                    (failure, advice)
                })
            }
        })
    }

    /// The same with a handler whose failures say something about later deliveries.
    pub(super) fn advised<F, Fut>(name: &str, event_type: &str, handler: F) -> Result<Self, ConsumerError>
    where
        F: Fn(Event) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), (Failure, Advice)>> + Send + 'static,
    {
        check_name(name)?;
        if !is_event_type(event_type) {
            return Err(ConsumerError::EventType(name.to_owned()));
        }
        Ok(Self {
            name: name.into(),
            event_type: event_type.into(),
            concurrency: CONCURRENCY,
            entity: None,
            ordered: false,
            handler: Arc::new(move |event| Box::pin(handler(event))),
        })
    }

    /// The most handlers at a time in this process. Default: 8. Deliveries begin in the order of their rows, except for
    /// retries and other replicas; with 1 they also end in that order.
    pub fn concurrency(self, handlers: usize) -> Self {
        Self { concurrency: handlers.max(1), ..self }
    }

    /// Receives only events of this entity. Rows of servers before this could be asked for come whatever their entity.
    pub fn entity(self, name: &str) -> Self {
        Self { entity: Some(name.into()), ..self }
    }

    /// Receives the events of one record one after the other, on all replicas: the next begins when the one before was delivered or
    /// is dead. Events of different records run at the same time.
    pub fn ordered(self) -> Self {
        Self { ordered: true, ..self }
    }

    /// Runs the handler. Returns its failure in words; a panic is a failure like others.
    pub(super) async fn handle(&self, event: Event) -> Result<(), Failed> {
        // The call itself may panic as well as the future that it makes, and so may an error that is put into words.
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| (self.handler)(event)));
        let ended = match called {
            Ok(handling) => {
                let in_words =
                    async { handling.await.map_err(|(failure, advice)| Failed { words: failure.to_string(), advice }) };
                AssertUnwindSafe(in_words).catch_unwind().await
            }
            Err(panic) => Err(panic),
        };
        ended.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            Err(Failed { words: format!("the handler panicked: {said}"), advice: Advice::None })
        })
    }
}

pub(super) fn check_name(name: &str) -> Result<(), ConsumerError> {
    let visible = |c: char| !c.is_control() && !c.is_whitespace();
    let fits = (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(visible);
    if fits { Ok(()) } else { Err(ConsumerError::Name) }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("name", &self.name)
            .field("event_type", &self.event_type)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fmt;

    use jiff::Timestamp;

    use super::*;

    /// An error that panics when it is put into words.
    #[derive(Debug)]
    struct FailingDisplay;

    impl fmt::Display for FailingDisplay {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no words")
        }
    }

    impl Error for FailingDisplay {}

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        type Handled = std::future::Ready<Result<(), FailingDisplay>>;
        let event = || Event {
            id: "1".into(),
            kind: "a".into(),
            payload: "{}".into(),
            created_at: Timestamp::UNIX_EPOCH,
            attempt: 1,
            previous: None,
            chain: 0,
            _lease: None,
        };
        let at_once = Consumer::new("c", "a", |_| -> Handled { panic!("at once") }).unwrap();
        let later = Consumer::new("c", "a", async |_| -> Result<(), String> { panic!("{}", "later") }).unwrap();
        let in_words = Consumer::new("c", "a", async |_| Err::<(), _>(FailingDisplay)).unwrap();
        for (consumer, said) in [(at_once, "at once"), (later, "later"), (in_words, "no words")] {
            let failed = consumer.handle(event()).await.unwrap_err();
            assert_eq!((failed.words, failed.advice), (format!("the handler panicked: {said}"), Advice::None));
        }
    }
}
