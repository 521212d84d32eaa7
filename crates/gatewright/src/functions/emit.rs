//! `emit` of functions: events of their own in the outbox.

use std::time::Duration;

use gatewright_entities::operations::Error;
use gatewright_entities::{Call, Entities, share};
use gatewright_events::outbox::{Appending, StageError};
use gatewright_functions::{Data, HostError};
use gatewright_http::Problem;
use serde_json::{Map, Value};

use super::host::{Place, wrong};
use super::records;

/// The most bytes of an event's data.
const DATA: usize = 1 << 20;
/// In seconds.
const LONGEST_DELAY: f64 = 30.0 * 24.0 * 3600.0;
/// The beginnings of types that the server keeps for its own events.
const RESERVED: [&str; 4] = ["entity", "user", "tenant", "member"];
/// What happens to records, as the end of a type.
const ACTIONS: [&str; 3] = ["created", "updated", "deleted"];

/// Whether only the server emits events of this type.
pub(super) fn is_reserved(event_type: &str) -> bool {
    event_type.split_once('.').is_some_and(|(space, _)| RESERVED.contains(&space))
}

/// What an event is.
struct Emitted {
    event_type: String,
    data: Map<String, Value>,
    delay: Duration,
}

/// Stages an event, in the transaction if there is one. Returns its id. The outer error ends the function.
pub(super) async fn perform(
    place: &Place<'_>,
    call: &Call,
    arguments: &[Data],
) -> Result<Result<Data, HostError>, Error> {
    let entities = place.entities();
    let Some(outbox) = entities.outbox() else {
        return Ok(Err(wrong("emit: there is no outbox; set `outbox.enabled`, or declare a function with `on`")));
    };
    let Emitted { event_type, data, delay } = match Emitted::read(entities, arguments) {
        Ok(emitted) => emitted,
        Err(error) => return Ok(Err(error)),
    };
    let appending = Appending { share: share(call), chain: call.chain(), delay };
    let staged = match place {
        Place::Within(transaction) => outbox.append_with(transaction.sql(), &event_type, &data, appending).await,
        Place::Alone(_) => outbox.emit(event_type, data, appending).await,
    };
    match staged {
        Ok(id) => Ok(Ok(Data::from(id))),
        Err(StageError::Database(error)) if matches!(place, Place::Within(_)) => Err(Error::Database(error)),
        Err(StageError::Database(error)) => Ok(Err(records::error(&Problem::from(Error::Database(error))))),
        Err(StageError::Full(full)) => Ok(Err(records::error(&Problem::from(Error::OutboxFull(full))))),
        Err(error) => Ok(Err(wrong(&format!("emit: {error}")))),
    }
}

impl Emitted {
    fn read(entities: &Entities, arguments: &[Data]) -> Result<Self, HostError> {
        let [Data::Text(event_type), data, options] = arguments else {
            return Err(wrong("emit: the type of an event is a text"));
        };
        let of_record = event_type
            .rsplit_once('.')
            .is_some_and(|(entity, action)| ACTIONS.contains(&action) && entities.plan(entity).is_some());
        if is_reserved(event_type) || of_record {
            return Err(wrong(&format!("emit: only the server emits events of the type {event_type}")));
        }
        let data = match data {
            Data::Null => Map::new(),
            Data::Object(_) => match data.clone().into_json() {
                Value::Object(data) => data,
                _ => Map::new(),
            },
            _ => return Err(wrong("emit: the data of an event is an object")),
        };
        if serde_json::to_string(&data).map_or(0, |text| text.len()) > DATA {
            return Err(wrong("emit: the data of an event has at most 1 MiB"));
        }
        let delay = match options.get("delaySeconds") {
            None | Some(Data::Null) => 0.0,
            Some(Data::Number(seconds)) => seconds.as_f64().unwrap_or(-1.0),
            Some(_) => -1.0,
        };
        if !(0.0..=LONGEST_DELAY).contains(&delay) {
            return Err(wrong("emit: delaySeconds is a number from 0 to 2592000"));
        }
        Ok(Self { event_type: event_type.clone(), data, delay: Duration::from_secs_f64(delay) })
    }
}
