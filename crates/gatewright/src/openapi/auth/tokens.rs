use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};

use super::account_deletion::with_proof;
use crate::openapi::names::Page;
use crate::openapi::words::{Part, empty, in_path, integer, json, json_body, list_of, named, object, or_null, string};
use crate::openapi::{Draft, schema};

/// API tokens of one's own.
pub(super) fn describe(draft: &mut Draft, base: &str) {
    let case = draft.case;
    let common: [(&str, Part); 5] = [
        ("id", string().into()),
        ("name", string().into()),
        ("prefix", string().description(Some("The first 12 characters.")).into()),
        ("scopes", scopes().into()),
        ("expires_at", instant_or_null().into()),
    ];
    let listed: [(&str, Part); 2] =
        [("created_at", instant_or_null().into()), ("last_used_at", instant_or_null().into())];
    let spelled =
        |members: Vec<(&'static str, Part)>| members.into_iter().map(move |(name, schema)| (case.spell(name), schema));
    let token = object(spelled(common.iter().cloned().chain(listed).collect()));
    draft.components.schemas.insert("ApiToken".to_owned(), token.into());
    let plaintext: (&str, Part) = ("token", string().description(Some("Shown only once.")).into());
    let issued = object(spelled([plaintext].into_iter().chain(common).collect()));
    draft.components.schemas.insert("IssuedApiToken".to_owned(), issued.into());

    let body = object([("name".to_owned(), string())]).property("scopes", scopes()).property(
        "ttl_seconds",
        integer()
            .minimum(Some(0))
            .description(Some("The lifetime in seconds. 0 or absent: the token does not expire.")),
    );
    let body = with_proof(body);
    let example = value!({ "name": "deploy", "scopes": ["posts:read"], "ttl_seconds": 86400 });
    let answer = value!({
        "token": format!("svc_{}", "0123456789".repeat(4)), "id": schema::ID, "name": "deploy", "prefix": "svc_01234567",
        "scopes": ["posts:read"], (case.spell("expires_at")): "2026-02-01T12:00:00.000000Z",
    });
    let create = draft
        .auth(HttpMethod::Post, base, "/tokens", "createToken", "Issue an API token")
        .about(
            "A session that began before the user enabled a second factor must sign in again first: 403. Needs a session \
             younger than five minutes or, in the body, a fresh proof: otherwise 403 `session_too_old`. The account's owner \
             gets a mail.",
        )
        .body(json_body(body, Some(example)))
        .for_sessions(Page::Never)
        .answers(200, json("The token. It is shown only once.", named("IssuedApiToken"), Some(answer)))
        .fails(&[409, 413, 415, 422, 429], Page::Never);
    let tokens = object([("tokens".to_owned(), list_of(named("ApiToken")))]);
    let list = draft
        .auth(HttpMethod::Get, base, "/tokens", "listTokens", "List the caller's API tokens")
        .for_sessions(Page::Never)
        .answers(200, json("The tokens. Only their prefixes are shown.", tokens, None));
    let revoke = draft
        .auth(HttpMethod::Delete, base, "/tokens/{id}", "revokeToken", "Revoke an API token")
        .parameter(in_path("id", "The token's id.", string().min_length(Some(1))))
        .for_sessions(Page::Never)
        .answers(204, empty("The token is invalid."))
        .fails(&[404], Page::Never);
    for described in [create, list, revoke] {
        draft.add(described);
    }
}

fn scopes() -> utoipa::openapi::schema::ArrayBuilder {
    let scope = string().pattern(Some(r"^(\*|[a-z0-9_-]+):[a-z0-9_*-]+$"));
    list_of(scope).max_items(Some(32)).description(Some("`posts:read`, `posts:*`, `*:read`, `*:*`."))
}

fn instant_or_null() -> ObjectBuilder {
    or_null(Type::String).format(Some(SchemaFormat::Custom("date-time".to_owned())))
}
