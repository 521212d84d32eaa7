//! Streams: `/{table}/_events`, and `/_events` for several entities.

use std::sync::Arc;

use gatewright_entities::Plan;
use utoipa::openapi::path::{HttpMethod, ParameterBuilder};

use super::names::{API_TOKEN, JWT, Page, SESSION};
use super::words::{Described, in_header, query, string, textual};
use super::{Draft, list};

/// What every stream says and takes.
pub(super) fn stream(described: Described) -> Described {
    described
        .parameter(list::etag())
        .parameter(query("slow", "`block`: writers wait for this client, if the server allows it.", string()))
        .parameter(query("subscriber_id", "Replaces the caller's earlier stream with this name.", string()))
        .parameter(query("since", "Resumes after this position: the `id` of a frame, or an `Event-Cursor`.", string()))
        .parameter(query("tenant", "The tenant, for clients that cannot send its header.", string()))
        .parameter(query("ticket", "A ticket of `POST /auth/stream-ticket`, instead of credentials.", string()))
        .parameter(in_header("Last-Event-ID", "The same as `since`; overrides it.", string()))
        .parameter(in_header("X-SSE-Slow", "The same as `slow`.", string()))
        .answers(200, textual("The stream.", "text/event-stream"))
}

/// `GET /_events`.
pub(super) fn several(draft: &mut Draft, path: &str, plans: &[Arc<Plan>], limited: bool) {
    let followed: Vec<_> = plans.iter().filter(|plan| plan.crud() && !plan.is_read_only()).collect();
    if followed.is_empty() {
        return;
    }
    let entities =
        query("entities", "The names of the entities, separated by commas: at most 50, each once.", string());
    let filter = |plan: &&Arc<Plan>| -> ParameterBuilder {
        let about = format!("A `filter` of the records of {}, if `entities` names it.", plan.name());
        query(&format!("filter.{}", plan.name()), &about, string())
    };
    let described = draft
        .operation(HttpMethod::Get, path, "events".to_owned(), "events", "Events of several entities")
        .about(
            "The server-sent events of several entities on one connection, in one order, each with the rights that its caller has in \
             it. Losing one of them ends the stream. Positions are those of the streams of one entity.",
        )
        .parameter(entities.required(utoipa::openapi::Required::True));
    let described = stream(followed.iter().map(filter).fold(described, Described::parameter));
    let described = described.fails(&[401, 403, 404, 429], Page::Never);
    let described = if limited { described.fails(&[503], Page::Never) } else { described };
    let described = if draft.signs_in { described.open_to(&[SESSION, JWT, API_TOKEN], true) } else { described };
    draft.tag("events", "Events of several entities.");
    draft.add(described);
}
