//! The outbox.

use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use super::super::names::Page;
use super::super::words::{Described, Part, boolean, in_path, integer, list_of, named, object, query, string, typed};
use super::{Draft, spelled};

pub(super) fn describe(draft: &Draft) -> Vec<Described> {
    let case = draft.case;
    let consumer: [(&str, Part); 8] = [
        ("name", string().into()),
        ("declared", boolean().description(Some("Whether this process declares the consumer.")).into()),
        ("pending", integer().into()),
        ("dead", integer().into()),
        ("abandoned", integer().into()),
        ("lag_seconds", integer().into()),
        ("delivered", integer().description(Some("Counted by this process.")).into()),
        ("failed", integer().description(Some("Counted by this process.")).into()),
    ];
    let words = ["failing", "pending", "dispatched", "dead", "abandoned"];
    let id = || in_path("id", "The event's id.", string().min_length(Some(1)));
    vec![
        draft
            .admin(HttpMethod::Get, "/outbox", "adminListConsumers", "The consumers and their lag")
            .fails(&[404], Page::Never)
            .gives("Sorted by name.", list_of(spelled(case, consumer))),
        draft
            .admin(HttpMethod::Get, "/outbox/deliveries", "adminListDeliveries", "List deliveries")
            .parameter(query("status", "The status; default `failing`.", string().enum_values(Some(words))))
            .parameter(query("consumer", "Only deliveries to this consumer.", string()))
            .fails(&[404], Page::Never)
            .pages("The newest events first.", named("Delivery")),
        draft
            .admin(HttpMethod::Get, "/outbox/events/{id}", "adminGetDeliveries", "The deliveries of an event")
            .parameter(id())
            .fails(&[404], Page::Never)
            .gives("Sorted by consumer.", list_of(named("Delivery"))),
        draft
            .admin(HttpMethod::Post, "/outbox/events/{id}/replay", "adminReplay", "Replay dead deliveries")
            .parameter(id())
            .takes(typed(Type::Object).property("consumer", string()))
            .fails(&[404], Page::Never)
            .gives("The number of replayed deliveries.", object([("replayed".to_owned(), integer())])),
    ]
}
