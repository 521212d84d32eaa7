//! The tool that writes to several entities at once.

use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::answers::{KeptAnswer, Render, Written};
use gatewright_entities::operations::{Batch, Error, MixedBatch};
use gatewright_entities::{Action, Call, Entities, MAX_ITEMS};
use gatewright_http::Problem;
use http::StatusCode;
use rmcp::model::{JsonObject, Tool};
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, Type};

use super::arguments::key;
use super::catalogue::{closed, hints, json, keyed, object, text};
use super::sent::Sent;

/// The name of the tool. No tool of an entity is called so: those end with an underscore and a verb.
pub(super) const NAME: &str = "batch";
const OPERATIONS: &str = "operations";

pub(super) fn tool(case: JsonCase) -> Tool {
    let about = "Writes to several entities in one transaction: either all operations happen, or none. An operation names the \
        record of an earlier one, which has the name `as`, by {\"$ref\":\"name\"} in the place of an id: in relations, and as \
        `id`. Returns {\"committed\":true,\"results\":[{\"index\",\"entity\",\"data\"}]}, or which operation failed and why.";
    let word = text("create, update, delete or upsert.").enum_values(Some(["create", "update", "delete", "upsert"]));
    let operation = closed()
        .property("op", word)
        .required("op")
        .property("entity", text("The entity."))
        .required("entity")
        .property(
            "id",
            ObjectBuilder::new().description(Some("For update and delete: the id, or {\"$ref\":\"name\"}.")),
        )
        .property("data", object().description(Some("For create, update and upsert: the fields.")))
        .property("as", text("For create and upsert: a name for the record."))
        .property(
            case.spell("if_match"),
            text("For update and delete: the _etag of a response, which the record must still have."),
        )
        .property(
            "on",
            ArrayBuilder::new().items(text("A field.")).description(Some(
                "For upsert: the fields of a declared unique. A record with the same values is changed.",
            )),
        )
        .property(
            "resolution",
            text("For upsert: ignore leaves a record that exists.").enum_values(Some(["update", "ignore"])),
        );
    let input = closed()
        .property(OPERATIONS, ArrayBuilder::new().items(operation).max_items(Some(MAX_ITEMS)))
        .required(OPERATIONS);
    let input = keyed(input);
    let flag = || ObjectBuilder::new().schema_type(Type::Boolean);
    let number = || ObjectBuilder::new().schema_type(Type::Integer);
    let result = object()
        .property("index", number())
        .property("entity", text("The entity."))
        .property("data", object())
        .property(case.spell("rolled_back"), flag())
        .property("skipped", flag())
        .property("error", object());
    let output = object()
        .property("committed", flag())
        .property("results", ArrayBuilder::new().items(result))
        .property("status", number().description(Some("On failure: the HTTP status.")))
        .property("detail", text("On failure: what went wrong."))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    Tool::new(NAME, about, Arc::new(json(input)))
        .with_title("batch")
        .with_annotations(hints(false, true, false))
        .with_raw_output_schema(Arc::new(json(output)))
}

/// Whether the caller may write to any entity.
pub(super) async fn is_allowed(entities: &Entities, call: &Call) -> Result<bool, Error> {
    let tables = entities.tables().filter(|table| table.plan().mcp());
    let writes = [Action::Create, Action::Update, Action::Delete];
    let wanted: Vec<_> = tables.flat_map(|table| writes.map(|action| (table, action))).collect();
    Ok(entities.allowed(call, &wanted).await?.contains(&true))
}

/// The decimal of an operation that was sent as a number, as a sentence for the caller.
fn inexact(entities: &Entities, arguments: &JsonObject) -> Option<String> {
    let operations = arguments.get(OPERATIONS)?.as_array()?;
    operations.iter().find_map(|operation| {
        let table = entities.table(operation.get("entity")?.as_str()?).ok()?;
        super::arguments::inexact(table.plan(), operation.get("data")?.as_object()?)
    })
}

/// The answer and its status, and the problem of the operation that failed just now.
pub(super) async fn run(
    entities: &Entities,
    call: &Call,
    mut arguments: JsonObject,
    sent: &Sent,
) -> Result<(Vec<u8>, u16, Option<Problem>), Problem> {
    let key = key(&mut arguments).map_err(Problem::bad_request)?;
    if let Some(reason) = inexact(entities, &arguments) {
        return Err(Problem::bad_request(reason));
    }
    let body = sent.body(arguments.keys());
    let body = body.ok_or_else(|| Problem::bad_request("the message is not a single call"))?;
    let case = entities.json_case();
    let mut failed = None;
    let mut perform = async |call: Call| -> Result<KeptAnswer, Problem> {
        let done = entities.batch(&call, &body).await?;
        let (body, problem) = done.batch.to_json(Some(&done.entities), case);
        let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
        failed = problem;
        Ok(KeptAnswer { status: status.as_u16(), headers: Vec::new(), body })
    };
    let answer = match key {
        None => perform(call.clone()).await?,
        Some(key) => {
            let named = MixedBatch::entities_of(&body);
            let render: Render = Arc::new(move |written: &Written<'_>| {
                let body = match written {
                    Written::Batch(records) => Batch::Committed(records.to_vec()).to_json(Some(&named), case).0,
                    Written::Record(..) | Written::Deleted(_) => Vec::new(),
                };
                KeptAnswer { status: StatusCode::OK.as_u16(), headers: Vec::new(), body }
            });
            let rights = entities.may_batch(call, &body);
            entities.once(call, &key, &[b"tool", NAME.as_bytes(), &body], rights, render, perform).await?.answer
        }
    };
    Ok((answer.body, answer.status, failed))
}
