use std::sync::Arc;

use axum::body::Bytes;
use gatewright_base::JsonCase;
use gatewright_entities::operations::{Error, Viewed};
use gatewright_entities::{Call, Entities, Record, Table};
use gatewright_http::Problem;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;

use super::arguments::Asked;
use super::catalogue::{Catalogue, ETAG, Entry};
use super::missing_scope::MissingScope;

const INSTRUCTIONS: &str = "Each entity has five tools: NAME_list, NAME_get, NAME_create, NAME_update and \
    NAME_delete. Only the tools that the caller may use are listed. A tool that fails returns a problem: `detail` \
    says what went wrong, `errors` names the wrong arguments. Send the `_etag` of a response with an update or a \
    deletion to make it fail with 412 if the record has changed since.";

/// The capabilities of a server with tools.
const METHODS: [&str; 4] = ["initialize", "ping", "tools/list", "tools/call"];

/// The tools of all entities. Cheap to clone; one clone serves one message.
#[derive(Debug, Clone)]
pub(super) struct ToolServer {
    entities: Entities,
    catalogue: Arc<Catalogue>,
    case: JsonCase,
}

impl ToolServer {
    pub(super) fn new(entities: &Entities) -> Self {
        let catalogue = Arc::new(Catalogue::new(entities));
        Self { entities: entities.clone(), catalogue, case: entities.json_case() }
    }

    /// The tools that this caller may call.
    async fn visible(&self, call: &Call) -> Result<Vec<Tool>, ErrorData> {
        let entries = self.catalogue.entries();
        // An unknown result is an error, not an empty list.
        let unknown = |error: Error| ErrorData::internal_error(Problem::from(error).detail().to_owned(), None);
        let wanted = entries.iter().map(|entry| Ok((self.table(entry)?, entry.verb.action())));
        let wanted: Vec<_> = wanted.collect::<Result<_, _>>().map_err(unknown)?;
        let allowed = self.entities.allowed(call, &wanted).await.map_err(unknown)?;
        Ok(entries.iter().zip(allowed).filter(|(_, allowed)| *allowed).map(|(entry, _)| entry.tool.clone()).collect())
    }

    fn table(&self, entry: &Entry) -> Result<Table<'_>, Error> {
        Ok(self.entities.table(entry.plan.name())?)
    }

    async fn run(&self, entry: &Entry, call: &Call, arguments: JsonObject) -> Result<Answer, Problem> {
        let (table, verb) = (self.table(entry)?, entry.verb);
        let asked = match Asked::read(table.plan(), verb, arguments) {
            Ok(asked) => asked,
            Err(reason) => {
                // The caller's permission is checked before the arguments, as in the other interfaces.
                table.reach(call, verb.action()).await?;
                return Err(Problem::bad_request(reason));
            }
        };
        Ok(match asked {
            Asked::List { query } => Answer::Json(table.list(call, &query).await?.to_json(self.case)),
            Asked::Get { id, query } => {
                let Viewed { json, etag } = table.view(call, &id, &query).await?;
                Answer::Record { json, etag }
            }
            Asked::Create { body } => table.create(call, &body).await?.into(),
            Asked::Update { id, if_match, body } => table.update(call, &id, &body, if_match).await?.into(),
            Asked::Delete { id, if_match } => {
                table.delete(call, &id, if_match).await?;
                Answer::Json(json!({ "deleted": true, "id": id }).to_string().into_bytes())
            }
        })
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("gatewright", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.visible(caller(&context)?).await?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = caller(&context)?;
        let Some(entry) = self.catalogue.find(&request.name) else {
            let name: String = request.name.chars().take(128).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool \"{name}\""), None));
        };
        let answer = self.run(entry, call, request.arguments.unwrap_or_default()).await;
        let missing = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<MissingScope>());
        if let (Err(problem), Some(missing)) = (&answer, missing) {
            missing.note(problem);
        }
        Ok(answer.map_or_else(|problem| failed(&problem), Answer::into_result).into())
    }

    /// Requests that the SDK does not recognize: with another method, or with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(128).collect();
        Err(if METHODS.contains(&&*method) {
            ErrorData::invalid_params(format!("invalid parameters of {method}"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method \"{method}\""), None)
        })
    }
}

/// The caller: the identity of this message's own request. Without it, the call is refused.
fn caller(context: &RequestContext<RoleServer>) -> Result<&Call, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts
        .and_then(|parts| parts.extensions.get::<Call>())
        .ok_or_else(|| ErrorData::internal_error("the caller is unknown", None))
}

/// The result of a tool that succeeded.
enum Answer {
    /// `{"data":{…},"_etag":"…"}`, the tag without quotes and only if there is one.
    Record { json: Bytes, etag: Option<String> },
    /// JSON as bytes.
    Json(Vec<u8>),
}

impl From<Record> for Answer {
    fn from(record: Record) -> Self {
        Self::Record { json: record.json().clone(), etag: (!record.is_part()).then(|| record.etag()) }
    }
}

impl Answer {
    /// The JSON as unchanged text, and as structured content.
    fn into_result(self) -> CallToolResult {
        let text = match self {
            Self::Record { json, etag } => {
                // A tag is hexadecimal digits in quotes, which is valid JSON.
                let etag = etag.map(|etag| format!(",\"{ETAG}\":{etag}")).unwrap_or_default();
                format!("{{\"data\":{}{etag}}}", String::from_utf8_lossy(&json))
            }
            Self::Json(json) => String::from_utf8_lossy(&json).into_owned(),
        };
        let structured = serde_json::from_str(&text).ok();
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = structured;
        result
    }
}

/// A failure in the form that the caller may see, so that they can correct the call.
fn failed(problem: &Problem) -> CallToolResult {
    let value = serde_json::to_value(problem).unwrap_or_default();
    let mut result = CallToolResult::error(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result
}
