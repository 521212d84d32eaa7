use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use crate::openapi::names::Page;
use crate::openapi::words::{Part, boolean, empty, in_path, instant, json, list_of, named, object, or_null, string};
use crate::openapi::{Draft, schema};

/// One's own known devices.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let case = draft.case;
    let members: [(&str, Part); 6] = [
        ("id", string().into()),
        ("first_used_at", instant().into()),
        ("last_used_at", instant().description(Some("The last sign-in from it.")).into()),
        ("address", or_null(Type::String).into()),
        ("user_agent", or_null(Type::String).into()),
        ("current", boolean().description(Some("Whether it is the one of this request.")).into()),
    ];
    let device = object(members.map(|(name, schema)| (case.spell(name), schema)));
    draft.components.schemas.insert("KnownDevice".to_owned(), device.into());
    let now = "2026-01-31T12:00:00.000000Z";
    let example = value!({ "devices": [{
        "id": schema::ID, (case.spell("first_used_at")): now, (case.spell("last_used_at")): now,
        "address": "203.0.113.7", (case.spell("user_agent")): "curl/8.5", "current": true,
    }] });
    let devices = object([("devices".to_owned(), list_of(named("KnownDevice")))]);
    let list = draft
        .auth(HttpMethod::Get, base, "/devices", "listDevices", "List one's known devices")
        .for_sessions(Page::Never)
        .answers(200, json("The caller's known devices, the latest used first.", devices, Some(example)));
    let others = draft
        .auth(HttpMethod::Delete, base, "/devices", "forgetOtherDevices", "Forget all other known devices")
        .for_sessions(Page::Never)
        .answers(204, empty("They are forgotten. Their sessions stay."));
    let forget = draft
        .auth(HttpMethod::Delete, base, "/devices/{id}", "forgetDevice", "Forget a known device")
        .parameter(in_path("id", "The device's id.", string().min_length(Some(1))))
        .for_sessions(Page::Never)
        .answers(204, empty("It is forgotten. Its sessions stay."))
        .fails(&[404], Page::Never);
    for described in [list, others, forget] {
        draft.add(described);
    }
}
