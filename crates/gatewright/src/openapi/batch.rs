//! Many writes as one: `/{table}/_batch`.

use gatewright_entities::{Action, MAX_ITEMS};
use serde_json::json;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{AdditionalProperties, AllOfBuilder, ArrayBuilder, ObjectBuilder, Type};

use super::Draft;
use super::names::Page;
use super::subject::Subject;
use super::words::{
    Described, Part, boolean, content, integer, json, json_body, list_of, named, object, string, typed,
};

/// The statuses of the first write that fails, which are also those of an invalid body.
const FAILURES: [(u16, &str); 6] = [
    (400, "A write or the body is malformed."),
    (403, "The caller has no permission."),
    (404, "A record does not exist, or the caller may not access it."),
    (409, "A write conflicts with existing data."),
    (413, "The body or the response is too large."),
    (422, "A write fails validation, or the body is not a batch."),
];

/// The three operations, with the schema of the answer to a batch that failed.
pub(super) fn describe(draft: &mut Draft, subject: &Subject<'_>) -> [Described; 3] {
    draft.components.schemas.insert("BatchFailed".to_owned(), failed(draft).into());
    let item = |suffix: &str| named(&format!("{}{suffix}", subject.name()));
    let with_id = typed(Type::Object).property("id", string()).required("id");
    let changed = AllOfBuilder::new().item(item("Update")).item(with_id);
    let record = || subject.record_schema();
    let deleted = object([("id".to_owned(), string())]);
    [
        operation(draft, subject, HttpMethod::Post, "createMany", Action::Create, ("items", item("Create")), record()),
        operation(
            draft,
            subject,
            HttpMethod::Patch,
            "updateMany",
            Action::Update,
            ("items", changed.into()),
            named(&subject.view()),
        ),
        operation(
            draft,
            subject,
            HttpMethod::Delete,
            "deleteMany",
            Action::Delete,
            ("ids", string().into()),
            deleted.into(),
        ),
    ]
}

fn operation(
    draft: &Draft,
    subject: &Subject<'_>,
    method: HttpMethod,
    verb: &str,
    action: Action,
    (key, item): (&str, Part),
    answered: Part,
) -> Described {
    let list = ArrayBuilder::new().items(item).max_items(Some(MAX_ITEMS));
    let body = object([(key.to_owned(), list)]).additional_properties(Some(AdditionalProperties::FreeForm(false)));
    let result = object([("index".to_owned(), Part::from(index())), ("data".to_owned(), answered)]);
    let done = object([
        ("committed".to_owned(), Part::from(boolean().enum_values(Some([true])))),
        ("results".to_owned(), list_of(result).into()),
    ]);
    let described = subject
        .operation(draft, method, &subject.batch_path(), verb, action)
        .about("Runs all writes in order in one transaction. The first failure rolls all of them back.")
        .body(json_body(body, None))
        .answers(200, json("All writes are committed.", done, None))
        .fails(&[415], Page::Never);
    FAILURES.iter().fold(described, |described, (status, meaning)| described.answers(*status, refusal(meaning)))
}

/// The answer of a write that failed, or the problem of a request that is not a batch or not the caller's.
fn refusal(meaning: &str) -> ResponseBuilder {
    json(meaning, named("BatchFailed"), None).content("application/problem+json", content(named("Problem"), None))
}

fn failed(draft: &Draft) -> ObjectBuilder {
    let undone = draft.case.spell("rolled_back");
    let result = object([("index".to_owned(), index())])
        .property(undone.as_str(), boolean().description(Some("The write was rolled back.")))
        .property("error", named("Problem"))
        .property("skipped", boolean().description(Some("The write was not attempted.")));
    let example = json!({ "committed": false, "results": [
        { "index": 0, (undone): true },
        { "index": 1, "error": {
            "type": "about:blank", "title": "Not Found", "status": 404, "detail": "there is no such record", "code": "not_found",
        } },
        { "index": 2, "skipped": true },
    ] });
    object([
        ("committed".to_owned(), Part::from(boolean().enum_values(Some([false])))),
        ("results".to_owned(), list_of(result).into()),
    ])
    .description(Some("A batch that failed. Nothing was written."))
    .examples([example])
}

/// The place of a write in its batch.
fn index() -> ObjectBuilder {
    integer().minimum(Some(0))
}
