//! Many writes as one: `/{table}/_batch`, and `/_batch` for several entities.

use gatewright_entities::{Action, MAX_ITEMS};
use serde_json::json;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{AdditionalProperties, AllOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};

use super::Draft;
use super::names::{API_TOKEN, JWT, Page, SESSION};
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
    let with_id =
        typed(Type::Object).property("id", string()).required("id").property(draft.case.spell("if_match"), if_match());
    let changed = AllOfBuilder::new().item(item("Update")).item(with_id);
    let record = || subject.record_schema();
    let deleted = object([("id".to_owned(), string())]);
    let create = body("items", item("Create")).into();
    let create = operation(draft, subject, (HttpMethod::Post, "createMany", Action::Create), create, record());
    let create = if subject.plan.takes_upserts() { create.parameters(super::entity::upsert()) } else { create };
    let update = body("items", changed.into()).into();
    let by_id = object([("id".to_owned(), string())]).property(draft.case.spell("if_match"), if_match());
    let delete = OneOfBuilder::new().item(body("ids", string().into())).item(body("items", by_id.into()));
    [
        create,
        operation(draft, subject, (HttpMethod::Patch, "updateMany", Action::Update), update, named(&subject.view())),
        operation(draft, subject, (HttpMethod::Delete, "deleteMany", Action::Delete), delete.into(), deleted.into()),
    ]
}

/// `POST /_batch`: writes to several entities.
pub(super) fn mixed(draft: &mut Draft, path: &str, limited: bool) {
    draft.components.schemas.insert("BatchFailed".to_owned(), failed(draft).into());
    let entity = || string().description(Some("The name of the entity, or its table."));
    let id = || {
        // Readers of documents take a property of the name `$ref` for a reference.
        let link = typed(Type::Object).additional_properties(Some(AdditionalProperties::RefOr(string().into())));
        let about = "`{\"$ref\":\"…\"}` with the `as` of an earlier operation.";
        OneOfBuilder::new().item(string()).item(link.description(Some(about)))
    };
    let data = || {
        let about = "The fields. In the place of the id in a relation, `{\"$ref\":\"…\"}` names the record of an earlier operation.";
        typed(Type::Object).description(Some(about))
    };
    let name = || string().max_length(Some(64)).description(Some("A name for the record, for later operations."));
    let operation = |op: &'static str| {
        let word = string().enum_values(Some([op]));
        let members = [("op".to_owned(), Part::from(word)), ("entity".to_owned(), entity().into())];
        object(members).additional_properties(Some(AdditionalProperties::FreeForm(false)))
    };
    let operations = OneOfBuilder::new()
        .item(operation("create").property("data", data()).required("data").property("as", name()))
        .item(
            operation("update")
                .property("id", id())
                .required("id")
                .property("data", data())
                .required("data")
                .property(draft.case.spell("if_match"), if_match()),
        )
        .item(
            operation("delete").property("id", id()).required("id").property(draft.case.spell("if_match"), if_match()),
        )
        .item(
            operation("upsert")
                .property("on", list_of(string()))
                .required("on")
                .property("data", data())
                .required("data")
                .property("resolution", string().enum_values(Some(["update", "ignore"])))
                .property("as", name()),
        );
    let about = "The record. Of a deleted record, its id. A caller who may not read the record gets a part of it.";
    let record = typed(Type::Object).description(Some(about));
    let result: [(String, Part); 3] = [
        ("index".to_owned(), index().into()),
        ("entity".to_owned(), string().into()),
        ("data".to_owned(), record.into()),
    ];
    let described = draft
        .operation(HttpMethod::Post, path, "batch".to_owned(), "batch", "Write to several entities")
        .about(
            "Runs all operations in order in one transaction, each with the rights, rules and checks that it has alone. The \
             first failure rolls all of them back.",
        )
        .body(json_body(body("operations", Part::from(operations)), None))
        .answers(200, json("All operations are committed.", committed(object(result)), None))
        .fails(&[415], Page::Never);
    let described = if limited { described.fails(&[429, 503], Page::Never) } else { described };
    let described = if draft.signs_in { described.open_to(&[SESSION, JWT, API_TOKEN], true) } else { described };
    let described = if draft.signs_in {
        described.parameter(super::subject::idempotency_key()).fails(&[410], Page::Never)
    } else {
        described
    };
    let unauthenticated = (401, "An operation needs a signed-in caller.");
    let described = FAILURES
        .iter()
        .chain([&unauthenticated])
        .fold(described, |described, (status, meaning)| described.answers(*status, refusal(meaning)));
    let described = described.answers(412, refusal("A record no longer has its entity tag."));
    draft.tag("batch", "Writes to several entities as one.");
    draft.add(described);
}

fn body(key: &str, item: Part) -> ObjectBuilder {
    let list = ArrayBuilder::new().items(item).max_items(Some(MAX_ITEMS));
    object([(key.to_owned(), list)]).additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

fn committed(result: ObjectBuilder) -> ObjectBuilder {
    object([
        ("committed".to_owned(), Part::from(boolean().enum_values(Some([true])))),
        ("results".to_owned(), list_of(result).into()),
    ])
}

fn if_match() -> ObjectBuilder {
    string().description(Some("The entity tag that the record must still have; 412 otherwise."))
}

fn operation(
    draft: &Draft,
    subject: &Subject<'_>,
    (method, verb, action): (HttpMethod, &str, Action),
    body: Part,
    answered: Part,
) -> Described {
    let result = object([("index".to_owned(), Part::from(index())), ("data".to_owned(), answered)]);
    let described = subject
        .operation(draft, method, &subject.batch_path(), verb, action)
        .about("Runs all writes in order in one transaction. The first failure rolls all of them back.")
        .body(json_body(body, None))
        .answers(200, json("All writes are committed.", committed(result), None))
        .fails(&[415], Page::Never);
    let described = if action == Action::Create {
        described
    } else {
        described.answers(412, refusal("A record no longer has its entity tag."))
    };
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
        .property("entity", string().description(Some("The entity, in a batch over several.")))
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
