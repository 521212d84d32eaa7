use std::sync::Arc;

use axum::body::Bytes;
use gatewright_base::JsonCase;
use gatewright_entities::{Call, Entities, Operations};
use gatewright_http::Problem;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::arguments;
use super::catalogue::{Catalogue, Entry, Verb};

const INSTRUCTIONS: &str = "Each entity has five tools: NAME_list, NAME_get, NAME_create, NAME_update and NAME_delete. \
    You see those that the caller may use. A tool that fails answers a problem: `detail` says what, `errors` which \
    arguments.";

/// The tools of all entities. Cheap to clone; one clone serves one message.
#[derive(Debug, Clone)]
pub(super) struct ToolServer {
    operations: Operations,
    catalogue: Arc<Catalogue>,
    case: JsonCase,
}

impl ToolServer {
    pub(super) fn new(entities: &Entities) -> Self {
        let catalogue = Arc::new(Catalogue::new(entities));
        Self { operations: entities.operations(), catalogue, case: entities.json_case() }
    }

    /// The tools that this caller may call.
    async fn visible(&self, call: &Call) -> Result<Vec<Tool>, ErrorData> {
        let mut tools = Vec::new();
        for Entry { tool, plan, verb } in self.catalogue.entries() {
            match self.operations.reach(plan, call, verb.action()).await {
                Ok(_) => tools.push(tool.clone()),
                Err(error) => {
                    let problem = Problem::from(error);
                    // Not knowing is no reason to say that there is nothing.
                    if problem.status().is_server_error() {
                        return Err(ErrorData::internal_error(problem.detail().to_owned(), None));
                    }
                }
            }
        }
        Ok(tools)
    }

    async fn run(&self, entry: &Entry, call: &Call, mut arguments: JsonObject) -> Result<Answer, Problem> {
        let Entry { plan, verb, .. } = entry;
        let operations = &self.operations;
        // The caller's right goes before what is wrong with the arguments, as everywhere.
        operations.reach(plan, call, verb.action()).await?;
        Ok(match verb {
            Verb::List => {
                let query = arguments::query(arguments).map_err(refused)?;
                Answer::Json(operations.list(plan, call, &query).await?.to_json(self.case))
            }
            Verb::Get => {
                let id = arguments::id(&mut arguments).map_err(refused)?;
                let query = arguments::query(arguments).map_err(refused)?;
                Answer::Record(operations.view(plan, call, &id, &query).await?.json)
            }
            Verb::Create => {
                let body = arguments::body(plan, &arguments).map_err(refused)?;
                Answer::Record(operations.create(plan, call, &body).await?.json().clone())
            }
            Verb::Update => {
                let id = arguments::id(&mut arguments).map_err(refused)?;
                let body = arguments::body(plan, &arguments).map_err(refused)?;
                Answer::Record(operations.update(plan, call, &id, &body, None).await?.json().clone())
            }
            Verb::Delete => {
                let id = arguments::id(&mut arguments).map_err(refused)?;
                arguments::nothing_else(&arguments).map_err(refused)?;
                operations.delete(plan, call, &id, None).await?;
                Answer::Value(json!({ "deleted": true, "id": id }))
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
        Ok(answer.map_or_else(|problem| failed(&problem), Answer::into_result).into())
    }
}

/// Who asks: what this very message's request was found to be. Without it nobody is served.
fn caller(context: &RequestContext<RoleServer>) -> Result<&Call, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts
        .and_then(|parts| parts.extensions.get::<Call>())
        .ok_or_else(|| ErrorData::internal_error("the caller is not known", None))
}

/// What a tool answers when it worked.
enum Answer {
    /// `{"data":{…}}`
    Record(Bytes),
    /// JSON that is written already.
    Json(Vec<u8>),
    Value(Value),
}

impl Answer {
    /// The JSON as text, as it is, and as structured content.
    fn into_result(self) -> CallToolResult {
        let text = match self {
            Self::Record(record) => format!("{{\"data\":{}}}", String::from_utf8_lossy(&record)),
            Self::Json(json) => String::from_utf8_lossy(&json).into_owned(),
            Self::Value(value) => value.to_string(),
        };
        let structured = serde_json::from_str(&text).ok();
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = structured;
        result
    }
}

/// A failure as the caller may know it, for the one who called the tool to read and mend.
fn failed(problem: &Problem) -> CallToolResult {
    let value = serde_json::to_value(problem).unwrap_or_default();
    let mut result = CallToolResult::error(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result
}

fn refused(reason: String) -> Problem {
    Problem::bad_request(reason)
}
