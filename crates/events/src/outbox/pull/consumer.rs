use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::outbox::ConsumerError;
use crate::outbox::consumer::Declared;
use crate::outbox::consumer::check_name;
use crate::outbox::event::entity_of;
use crate::outbox::stage::is_event_type;

/// A durable consumer that pulls its events. It has a stable name and an event type, like a
/// [`Consumer`](crate::outbox::Consumer). Clones are the same consumer.
#[derive(Clone)]
pub struct PullConsumer {
    name: Arc<str>,
    event_type: Arc<str>,
    entities: Option<Arc<[String]>>,
    previous: bool,
    /// There may be something for a caller who waits.
    pub(in crate::outbox) wake: Arc<Notify>,
}

impl PullConsumer {
    /// A consumer of every event of a type.
    pub fn new(name: &str, event_type: &str) -> Result<Self, ConsumerError> {
        check_name(name)?;
        if !is_event_type(event_type) {
            return Err(ConsumerError::EventType(name.to_owned()));
        }
        Ok(Self {
            name: name.into(),
            event_type: event_type.into(),
            entities: None,
            previous: false,
            wake: Arc::default(),
        })
    }

    /// Receives only events of these entities.
    pub fn entities(self, entities: Vec<String>) -> Self {
        Self { entities: Some(entities.into()), ..self }
    }

    /// Whether its events have the earlier values of changed fields, if the outbox stores them.
    pub fn previous(self, wanted: bool) -> Self {
        Self { previous: wanted, ..self }
    }

    /// Whether its events have the earlier values of changed fields.
    pub fn has_previous(&self) -> bool {
        self.previous
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The event type that it receives.
    pub fn event_type(&self) -> &str {
        &self.event_type
    }

    pub(super) fn takes_all(&self) -> bool {
        self.entities.is_none()
    }

    /// Whether it takes the event with this payload.
    pub(super) fn takes(&self, payload: &str) -> bool {
        let Some(entities) = &self.entities else { return true };
        entity_of(payload).ok().flatten().is_some_and(|entity| entities.iter().any(|name| *name == entity))
    }

    pub(in crate::outbox) fn declared(&self) -> Declared {
        Declared { name: self.name.clone(), event_type: self.event_type.clone(), entity: None, ordered: false }
    }

    pub(in crate::outbox) fn shared_type(&self) -> &Arc<str> {
        &self.event_type
    }
}

impl fmt::Debug for PullConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullConsumer")
            .field("name", &self.name)
            .field("event_type", &self.event_type)
            .field("entities", &self.entities)
            .finish_non_exhaustive()
    }
}
