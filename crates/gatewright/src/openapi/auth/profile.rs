use gatewright_entities::Profile;
use serde_json::{Map, Value, json as value};
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Type};

use super::example_user;
use crate::openapi::names::Page;
use crate::openapi::words::{json, named, object, patch_body, typed};
use crate::openapi::{Draft, schema};

/// The schema of `user.profile`.
pub(super) fn shown(profile: &Profile) -> ObjectBuilder {
    let about = |public| if public { " Signed-in callers see it in records that refer to the account." } else { "" };
    let fields = profile.fields().map(|(field, public)| (field.key(), schema::of_profile(field, about(public))));
    fields.fold(typed(Type::Object), |object, (key, schema)| object.property(key, schema).required(key))
}

pub(super) fn example(profile: &Profile) -> Value {
    let fields = profile.fields().map(|(field, _)| (field.key().to_owned(), schema::example(field)));
    fields.collect::<Map<_, _>>().into()
}

/// The profile of a new account.
pub(super) fn new(profile: &Profile) -> ObjectBuilder {
    let body = typed(Type::Object).additional_properties(Some(AdditionalProperties::FreeForm(false)));
    profile.fields().fold(body, |body, (field, _)| {
        let body = body.property(field.key(), schema::write(field));
        if field.is_required() && !field.has_default() { body.required(field.key()) } else { body }
    })
}

/// The profile of the caller.
pub(super) fn describe(draft: &mut Draft, base: &str, profile: &Profile) {
    let change = typed(Type::Object).additional_properties(Some(AdditionalProperties::FreeForm(false)));
    let change = profile.fields().fold(change, |change, (field, _)| change.property(field.key(), schema::write(field)));
    let body =
        object([("profile".to_owned(), change)]).additional_properties(Some(AdditionalProperties::FreeForm(false)));
    let mut user = example_user();
    user["profile"] = example(profile);
    let update = draft
        .auth(HttpMethod::Patch, base, "/me", "updateMe", "Change the profile")
        .about("Omitted fields stay unchanged; null clears a field. Nothing else of the account is changed.")
        .body(patch_body(body, Some(value!({ "profile": example(profile) }))))
        .for_sessions(Page::Never)
        .answers(
            200,
            json(
                "The caller with the complete profile.",
                object([("user".to_owned(), named("User"))]),
                Some(value!({ "user": user })),
            ),
        )
        .fails(&[400, 409, 413, 415, 422, 503], Page::Never);
    draft.add(update);
}
