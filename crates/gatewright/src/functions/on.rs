//! Functions after events: durable consumers of the outbox, beside webhooks.

use std::time::Duration;

use gatewright_entities::{Entities, Plan};
use gatewright_events::EventKind;
use gatewright_events::outbox::{Consumer, ConsumerError, Event, Failure, Hopeless};
use gatewright_functions::{Data, Function, Trigger};
use serde_json::Value;

use super::background::{self, Background};
use super::{Functions, emit, records};
use crate::Config;
use crate::app::account_events;

/// Before the names of functions among the names of consumers.
const PREFIX: &str = "fn:";
/// How many events follow from each other, each by a function.
const CHAIN: u8 = 16;
/// How long a call may wait for the database and for other servers, in addition to the time of its code.
const WAITING: Duration = Duration::from_mins(1);

/// What a function listens to.
pub(super) enum Heard<'a> {
    Entity(&'a str, EventKind),
    /// Events that functions emit, and those of accounts.
    Type(&'a str),
}

/// The name of a function as a consumer.
fn consumer(function: &Function) -> String {
    format!("{PREFIX}{}", function.name)
}

/// What the function listens to; `None` if it is another kind of function.
///
/// Fails with a message for its author.
pub(super) fn heard<'a>(config: &Config, function: &'a Function) -> Option<Result<Heard<'a>, String>> {
    let Trigger::On { entity, event } = &function.trigger else { return None };
    let (entity, event) = (entity.as_deref(), event.as_str());
    let named = |name: &str| config.entities.iter().find(|known| known.name() == name);
    let of_record = match entity {
        Some(entity) => Some((entity, event)),
        None => event.rsplit_once('.').filter(|(entity, _)| named(entity).is_some()),
    };
    if let Some((entity, action)) = of_record {
        return Some(match (named(entity), EventKind::parse(&format!("entity.{action}"))) {
            (None, _) => Err(format!("there is no entity \"{entity}\"")),
            (Some(view), _) if view.is_read_only() => Err(format!("nothing writes to the view \"{entity}\"")),
            (Some(_), Some(kind)) => Ok(Heard::Entity(entity, kind)),
            (Some(_), None) => Err(format!("on(\"{entity}\", …) is for created, updated, deleted, not \"{action}\"")),
        });
    }
    let is_known = !emit::is_reserved(event) || account_events::types().any(|known| known == event);
    Some(if is_known { Ok(Heard::Type(event)) } else { Err(format!("there is no event \"{event}\"")) })
}

/// What is wrong with a function that listens.
pub(super) fn fault(config: &Config, function: &Function) -> Option<String> {
    let event = match heard(config, function)? {
        Ok(Heard::Entity(..)) => "entity.created",
        Ok(Heard::Type(event)) => event,
        Err(message) => return Some(message),
    };
    let name = consumer(function);
    if config.outbox.consumers.iter().any(|other| other.name == name) {
        return Some(format!("an `[[outbox.consumer]]` has the name {name}"));
    }
    let declared = Consumer::new(&name, event, async |_| Ok::<_, std::io::Error>(()));
    declared.err().map(|error: ConsumerError| error.to_string())
}

/// The consumers of all functions that listen.
pub(super) fn consumers(
    functions: &Functions,
    config: &Config,
    background: &Background,
    entities: &Entities,
) -> Result<Vec<Consumer>, ConsumerError> {
    let mut consumers = Vec::new();
    for function in functions.all() {
        let Some(Ok(heard)) = heard(config, function) else { continue };
        let (name, time) = (consumer(function), functions.0.timeout);
        let (background, entities, function) = (background.clone(), entities.clone(), function.clone());
        let (event_type, entity) = match heard {
            Heard::Entity(entity, kind) => (kind.as_str(), Some(entity.to_owned())),
            Heard::Type(event) => (event, None),
        };
        let of_entity = entity.clone();
        let consumer = Consumer::new(&name, event_type, move |event: Event| {
            let (background, entities, function) = (background.clone(), entities.clone(), function.clone());
            let entity = of_entity.clone();
            async move {
                if event.chain() >= CHAIN {
                    let message =
                        format!("{CHAIN} events follow from each other already: functions end the chain here");
                    return Err(Failure::from(Hopeless(message)));
                }
                let Some(argument) = argument(&entities, entity.as_deref(), &event)? else { return Ok(()) };
                let chain = event.chain().saturating_add(1);
                let times = (time, time + WAITING);
                background.call(&function, argument, times, chain).await.map_err(Failure::from)
            }
        })?;
        let consumer = consumer.ordered().concurrency(background::CALLS);
        consumers.push(match &entity {
            Some(entity) => consumer.entity(entity),
            None => consumer,
        });
    }
    Ok(consumers)
}

/// The entities whose updates functions hear.
pub(super) fn of_updates(functions: &Functions, config: &Config) -> Vec<String> {
    let updates = functions.all().iter().filter_map(|function| match heard(config, function) {
        Some(Ok(Heard::Entity(entity, EventKind::Updated))) => Some(entity.to_owned()),
        _ => None,
    });
    updates.collect()
}

/// What a function gets of an event. `None` if the event is of another entity.
fn argument(entities: &Entities, entity: Option<&str>, event: &Event) -> Result<Option<Vec<(String, Data)>>, Failure> {
    let payload: Value = serde_json::from_str(event.json())?;
    let mut argument = vec![("event".to_owned(), about(event))];
    match entity {
        Some(entity) if payload.get("entity").and_then(Value::as_str) != Some(entity) => return Ok(None),
        Some(entity) => {
            let plan = entities.plan(entity).ok_or("the entity is not declared any more")?;
            let part = |key: &str| payload.get(key).cloned().map(Data::from);
            let tenant = entities.json_case().spell("tenant_id");
            argument.push(("record".to_owned(), records::widened(plan, part("record").unwrap_or(Data::Null))));
            argument.extend(part("actor").map(|actor| ("actor".to_owned(), actor)));
            argument.extend(part(&tenant).map(|tenant| ("tenant".to_owned(), tenant)));
            if event.event_type() == EventKind::Updated.as_str() {
                argument.push(("previous".to_owned(), previous(plan, event)));
            }
        }
        None => {
            if let Some(user) = payload.get("user").filter(|_| event.event_type().starts_with("user.")) {
                argument.push(("user".to_owned(), Data::from(user.clone())));
            }
            argument.push(("data".to_owned(), Data::from(payload)));
        }
    }
    Ok(Some(argument))
}

fn about(event: &Event) -> Data {
    Data::Object(vec![
        ("id".to_owned(), Data::from(event.id())),
        ("type".to_owned(), Data::from(event.event_type())),
        ("timestamp".to_owned(), Data::from(gatewright_base::time::format(event.created_at()))),
    ])
}

/// The earlier values of the fields that changed. An update from before functions listened has none.
fn previous(plan: &Plan, event: &Event) -> Data {
    let earlier: Value = event.previous().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    match Data::from(earlier) {
        earlier @ Data::Object(_) => records::widened(plan, earlier),
        _ => Data::Object(Vec::new()),
    }
}
