//! The consumers of the outbox that pull.

use serde_json::json as value;
use utoipa::openapi::path::{HttpMethod, Parameter};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};

use super::Draft;
use super::names::{API_TOKEN, Page};
use super::schema;
use super::words::{
    Described, Part, empty, in_path, instant, integer, json, json_body, list_of, named, object, query, string, typed,
};
use crate::Config;

const TAG: &str = "consumers";

pub(super) fn describe(draft: &mut Draft, config: &Config) {
    draft.tag(TAG, "Durable consumers that pull their events.");
    let event: [(&str, Part); 5] = [
        ("id", string().description(Some("The same for every attempt and every consumer.")).into()),
        ("type", string().into()),
        ("timestamp", instant().into()),
        ("data", typed(Type::Object).into()),
        ("attempt", integer().minimum(Some(1)).into()),
    ];
    let event = object(event.map(|(name, schema)| (name.to_owned(), schema)));
    draft.components.schemas.insert("OutboxEvent".to_owned(), event.into());
    let limited = |described: Described| {
        let statuses: &[u16] = if config.rate_limit.api.is_some() { &[429] } else { &[] };
        described.open_to(&[API_TOKEN], false).fails(&[401, 403, 404], Page::Never).fails(statuses, Page::Never)
    };
    let lease = draft.case.spell("lease_seconds");
    let pulled = object([("events".to_owned(), Part::from(list_of(named("OutboxEvent"))))])
        .property(lease.as_str(), integer().minimum(Some(1)))
        .required(lease.as_str());
    let example = value!({ "events": [{
        "id": schema::ID, "type": "entity.created", "timestamp": "2026-02-01T12:00:00.000000Z",
        "data": { "entity": "posts", "table": "posts", "record": { "id": schema::ID } }, "attempt": 1,
    }], (lease): 60 });
    let pull = draft
        .operation(HttpMethod::Get, "/consumers/{name}/events", "pullEvents".to_owned(), TAG, "Pull events")
        .about(
            "The events belong to the token for the time of the lease. A lease that ends counts as a failed attempt.",
        )
        .parameter(name())
        .parameter(query(
            "limit",
            "At most this many.",
            integer().minimum(Some(1)).maximum(Some(1000)).default(Some(100.into())),
        ))
        .parameter(query(
            "wait",
            "Waits so many seconds for the first event.",
            integer().minimum(Some(0)).maximum(Some(25)).default(Some(0.into())),
        ))
        .answers(200, json("Events, the oldest first; none if there is none.", pulled, Some(example)))
        .fails(&[429], Page::Never);
    let ids = || {
        let attempt = object([("id".to_owned(), Part::from(string())), ("attempt".to_owned(), integer().into())]);
        let id = OneOfBuilder::new().item(string()).item(attempt);
        list_of(id).min_items(Some(1)).max_items(Some(1000))
    };
    let body = || object([("ids".to_owned(), ids())]);
    let delay = draft.case.spell("delay_seconds");
    let delayed = body().property(
        delay.as_str(),
        integer()
            .minimum(Some(0))
            .maximum(Some(86400))
            .description(Some("They are delivered again after so many seconds; without it, after a growing pause.")),
    );
    let settle = |path: &str, id: &str, summary: &str, body: ObjectBuilder, example: serde_json::Value| {
        let refused = object([("refused".to_owned(), list_of(string()))]);
        draft
            .operation(HttpMethod::Post, &format!("/consumers/{{name}}/{path}"), id.to_owned(), TAG, summary)
            .parameter(name())
            .body(json_body(body, Some(example)))
            .answers(204, empty("All of them."))
            .answers(409, json("The token does not hold these; the others are settled.", refused, None))
            .fails(&[413, 415, 422], Page::Never)
    };
    let acknowledge = settle("ack", "acknowledgeEvents", "Acknowledge events", body(), value!({ "ids": [schema::ID] }));
    let example = value!({ "ids": [{ "id": schema::ID, "attempt": 1 }], (delay): 30 });
    let refuse = settle("nack", "refuseEvents", "Give events back as failed", delayed, example);
    for described in [pull, acknowledge, refuse] {
        let described = limited(described);
        draft.add(described);
    }
}

fn name() -> Parameter {
    in_path("name", "The consumer.", string()).build()
}
