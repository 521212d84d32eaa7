use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use crate::openapi::names::Page;
use crate::openapi::words::{Part, boolean, empty, in_path, instant, json, list_of, named, object, or_null, string};
use crate::openapi::{Draft, schema};

/// One's own sessions.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let case = draft.case;
    let members: [(&str, Part); 7] = [
        ("id", string().into()),
        ("created_at", instant().into()),
        ("last_seen_at", instant().into()),
        ("expires_at", instant().into()),
        ("address", or_null(Type::String).into()),
        ("user_agent", or_null(Type::String).into()),
        ("current", boolean().description(Some("Whether it is the one of this request.")).into()),
    ];
    let session = object(members.map(|(name, schema)| (case.spell(name), schema)));
    draft.components.schemas.insert("Session".to_owned(), session.into());
    let now = "2026-01-31T12:00:00.000000Z";
    let example = value!({ "sessions": [{
        "id": schema::ID, (case.spell("created_at")): now, (case.spell("last_seen_at")): now,
        (case.spell("expires_at")): "2026-02-07T12:00:00.000000Z", "address": "203.0.113.7",
        (case.spell("user_agent")): "curl/8.5", "current": true,
    }] });
    let sessions = object([("sessions".to_owned(), list_of(named("Session")))]);
    let list = draft
        .auth(HttpMethod::Get, base, "/sessions", "listSessions", "List one's sessions")
        .for_sessions(Page::Never)
        .answers(200, json("The caller's sessions.", sessions, Some(example)));
    let others = draft
        .auth(HttpMethod::Delete, base, "/sessions", "endOtherSessions", "End all other sessions")
        .for_sessions(Page::Never)
        .answers(204, empty("They have ended."));
    let end = draft
        .auth(HttpMethod::Delete, base, "/sessions/{id}", "endSession", "End a session")
        .parameter(in_path("id", "The session's id.", string().min_length(Some(1))))
        .for_sessions(Page::Never)
        .answers(204, empty("It has ended."))
        .fails(&[404], Page::Never);
    for described in [list, others, end] {
        draft.add(described);
    }
}
