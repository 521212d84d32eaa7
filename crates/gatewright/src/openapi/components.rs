//! The shared components: the problem, the error responses, the security schemes.

use http::StatusCode;
use serde_json::{Value, json};
use utoipa::openapi::schema::{Components, ComponentsBuilder};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Response, ResponseBuilder};

use super::names::{API_TOKEN, JWT, Page, SESSION, failure_name};
use super::words::{content, header, integer, list_of, named, object, string};
use crate::Config;

/// The statuses of failures, the meaning of each, and the code in its example.
const FAILURES: [(u16, &str, &str); 17] = [
    (400, "The request is malformed, or names something that does not exist.", "bad_request"),
    (401, "The credentials are missing or invalid.", "unauthorized"),
    (403, "The caller has no permission, or the second factor is missing.", "forbidden"),
    (404, "It does not exist, or the caller may not see it.", "not_found"),
    (405, "The path does not take this method.", "method_not_allowed"),
    (406, "The client accepts none of the available content types.", "not_acceptable"),
    (409, "The request conflicts with existing data.", "conflict"),
    (410, "The answer under the idempotency key contained a record that was deleted.", "idempotency_answer_deleted"),
    (412, "The record has changed since it was read.", "precondition_failed"),
    (413, "The body is too large.", "too_large"),
    (415, "The content type of the body is not supported.", "unsupported_media_type"),
    (416, "The range is beyond the end of the file.", "range_not_satisfiable"),
    (
        422,
        "The body is well-formed but fails validation; `errors` names the fields and the reasons.",
        "validation_failed",
    ),
    (429, "Too many attempts.", ""),
    (500, "An internal error. The log has an entry with the request's id.", "internal"),
    (502, "The response of the provider is unusable.", "provider_failed"),
    (503, "The service is temporarily unavailable.", "unavailable"),
];

/// The components that every document has.
pub(super) fn shared(config: &Config) -> Components {
    let mut components = ComponentsBuilder::new().schema("FieldError", field_error()).schema("Problem", problem());
    let pages: &[Page] = if config.auth.enabled { &[Page::Never, Page::ForForms] } else { &[Page::Never] };
    for (status, meaning, code) in FAILURES {
        for page in pages.iter().filter(|page| status != 429 || **page == Page::Never) {
            components = components.response(failure_name(status, *page), failure(status, meaning, code, *page));
        }
    }
    if config.auth.enabled {
        for (name, scheme) in schemes(config) {
            components = components.security_scheme(name, scheme);
        }
    }
    components.build()
}

fn failure(status: u16, meaning: &str, code: &str, page: Page) -> Response {
    let mut response = ResponseBuilder::new().description(meaning);
    if status == 429 {
        let text = content(string(), Some("rate limit exceeded".into()));
        return response.content("text/plain", text).header("Retry-After", retry_after()).build();
    }
    response = response.content("application/problem+json", content(named("Problem"), Some(example(status, code))));
    if page == Page::ForForms {
        response = response.content("text/html", content(string(), None));
    }
    match status {
        401 => response.header("WWW-Authenticate", header("How to authenticate.", string())),
        503 => response.header("Retry-After", retry_after()),
        _ => response,
    }
    .build()
}

fn retry_after() -> utoipa::openapi::Header {
    header("Seconds until the next attempt.", integer().minimum(Some(1)))
}

fn example(status: u16, code: &str) -> Value {
    let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let detail = "a sentence that describes the error";
    let mut problem =
        json!({ "type": "about:blank", "title": title, "status": status, "detail": detail, "code": code });
    if status == 422 {
        problem["errors"] = json!([{ "field": "title", "code": "required", "message": "is required" }]);
    }
    problem
}

fn problem() -> utoipa::openapi::schema::ObjectBuilder {
    let members = [
        ("type", string().description(Some("Always `about:blank`."))),
        ("title", string().description(Some("The standard phrase of the status."))),
        ("status", integer().minimum(Some(400)).maximum(Some(599))),
        ("detail", string().description(Some("A sentence for people."))),
        ("code", string().description(Some("A stable code for programs."))),
    ];
    object(members.map(|(name, schema)| (name.to_owned(), schema)))
        .property("errors", list_of(named("FieldError")).description(Some("The errors of single fields.")))
        .description(Some("An error (RFC 9457)."))
}

fn field_error() -> utoipa::openapi::schema::ObjectBuilder {
    let about = "Absent if the error is about no field that the caller knows.";
    object(["code", "message"].map(|name| (name.to_owned(), string())))
        .property("field", string().description(Some(about)))
}

fn schemes(config: &Config) -> [(&'static str, SecurityScheme); 3] {
    let secure = !config.server.dev_mode || config.browser_backend.is_some();
    let cookie = if secure { "__Host-session" } else { "session_id" };
    let bearer = |format: &str, about: &str| {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format(format).description(Some(about));
        SecurityScheme::Http(scheme.build())
    };
    let about = "The session of the signed-in account.";
    [
        (SESSION, SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(cookie, about)))),
        (JWT, bearer("JWT", "The `token` that the sign-in returns.")),
        (API_TOKEN, bearer("svc_", "An API token, which acts for its owner within its scopes.")),
    ]
}
