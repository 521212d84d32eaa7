use std::sync::Arc;

use axum::body::Bytes;
use gatewright_base::JsonCase;
use gatewright_entities::answers::{KeptAnswer, Render, Written};
use gatewright_entities::operations::{Error, Viewed};
use gatewright_entities::{Action, Call, Entities, Record, Table};
use gatewright_http::Problem;
use http::StatusCode;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;

use super::arguments::{Asked, key};
use super::batch;
use super::catalogue::{self, Catalogue, ETAG, Entry, takes_key};
use super::missing_scope::MissingScope;
use super::sent::Sent;

const INSTRUCTIONS: &str = "Each entity has six tools: NAME_list, NAME_group, NAME_get, NAME_create, NAME_update \
    and NAME_delete; the tool batch writes to several of them in one transaction. Only the tools that the caller may use are listed. A tool that fails returns a problem: `detail` \
    says what went wrong, `errors` names the wrong arguments. Send the `_etag` of a response with an update or a \
    deletion to make it fail with 412 if the record has changed since.";

/// The methods that are answered.
const METHODS: [&str; 7] =
    ["initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/templates/list", "prompts/list"];

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
        let seen = self.entities.seen_fields(call).await.map_err(unknown)?;
        let tool = |entry: &Entry| {
            if seen.are_all(&entry.plan) {
                entry.tool.clone()
            } else {
                catalogue::tool(&entry.plan, self.entities.plans(), entry.verb, self.case, &seen)
            }
        };
        let allowed = entries.iter().zip(allowed).filter(|(_, allowed)| *allowed);
        let mut tools: Vec<Tool> = allowed.map(|(entry, _)| tool(entry)).collect();
        if batch::is_allowed(&self.entities, call).await.map_err(unknown)? {
            tools.push(batch::tool(self.case));
        }
        Ok(tools)
    }

    fn table(&self, entry: &Entry) -> Result<Table<'_>, Error> {
        Ok(self.entities.table(entry.plan.name())?)
    }

    async fn call_batch(
        &self,
        call: &Call,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let sent =
            extension::<Sent>(context).ok_or_else(|| ErrorData::internal_error("the message is unknown", None))?;
        let done = batch::run(&self.entities, call, arguments, sent).await;
        let problem = match &done {
            Ok((_, _, problem)) => problem.as_ref(),
            Err(problem) => Some(problem),
        };
        if let (Some(problem), Some(missing)) = (problem, extension::<MissingScope>(context)) {
            missing.note(problem);
        }
        Ok(match done {
            Ok((json, status, _)) => {
                let mut result = Answer::Json(json).into_result();
                result.is_error = Some(status >= 400);
                result
            }
            Err(problem) => failed(&problem),
        }
        .into())
    }

    async fn run(&self, entry: &Entry, call: &Call, mut arguments: JsonObject, sent: &Sent) -> Result<Answer, Problem> {
        let (table, verb) = (self.table(entry)?, entry.verb);
        let key = match verb.action() {
            Action::Read => Ok(None),
            _ if !takes_key(table.plan()) => Ok(None),
            Action::Create | Action::Update | Action::Delete => key(&mut arguments),
        };
        let key = match key {
            Ok(key) => key,
            Err(reason) => {
                table.reach(call, verb.action()).await?;
                return Err(Problem::bad_request(reason));
            }
        };
        let Some(key) = key else { return self.perform(entry, call, arguments, sent).await };
        let rights = async { table.reach(call, verb.action()).await.map(|_| ()) };
        let shown = serde_json::Value::Object(arguments.clone()).to_string();
        let exact = sent.body(arguments.keys()).unwrap_or_default();
        let request: [&[u8]; 4] = [b"tool", entry.tool.name.as_bytes(), shown.as_bytes(), &exact];
        let render: Render = Arc::new(|written: &Written<'_>| {
            let answer = match written {
                Written::Record(record, _) => Answer::from((*record).clone()),
                Written::Deleted(record) => Answer::deleted(record.id()),
                Written::Batch(_) => Answer::Json(Vec::new()),
            };
            kept(answer)
        });
        let perform = async |call: Call| -> Result<KeptAnswer, Problem> {
            self.perform(entry, &call, arguments, sent).await.map(kept)
        };
        let answer = self.entities.once(call, &key, &request, rights, render, perform).await?.answer;
        if answer.status < 400 { Ok(Answer::Json(answer.body)) } else { Ok(Answer::Refused(answer.body)) }
    }

    async fn perform(&self, entry: &Entry, call: &Call, arguments: JsonObject, sent: &Sent) -> Result<Answer, Problem> {
        let (table, verb) = (self.table(entry)?, entry.verb);
        let asked = match Asked::read(table.plan(), verb, arguments, sent) {
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
                Answer::deleted(&id)
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
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        refuse_cursor(page)?;
        Ok(ListToolsResult::with_all_items(self.visible(caller(&context)?).await?))
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        refuse_cursor(page).map(|()| ListResourcesResult::default())
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        refuse_cursor(page).map(|()| ListResourceTemplatesResult::default())
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        refuse_cursor(page).map(|()| ListPromptsResult::default())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = caller(&context)?;
        if request.name == batch::NAME && !self.catalogue.entries().is_empty() {
            return self.call_batch(call, request.arguments.unwrap_or_default(), &context).await;
        }
        let Some(entry) = self.catalogue.find(&request.name) else {
            let name: String = request.name.chars().take(128).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool \"{name}\""), None));
        };
        let sent =
            extension::<Sent>(&context).ok_or_else(|| ErrorData::internal_error("the message is unknown", None))?;
        let answer = self.run(entry, call, request.arguments.unwrap_or_default(), sent).await;
        let missing = extension::<MissingScope>(&context);
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

/// Each list is one page, so no cursor was ever given out (MCP, pagination: an invalid cursor is -32602).
fn refuse_cursor(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("invalid cursor: this list has one page", None)),
    }
}

/// The caller: the identity of this message's own request. Without it, the call is refused.
fn caller(context: &RequestContext<RoleServer>) -> Result<&Call, ErrorData> {
    extension(context).ok_or_else(|| ErrorData::internal_error("the caller is unknown", None))
}

/// What `http` added to the request of this message.
fn extension<T: Send + Sync + 'static>(context: &RequestContext<RoleServer>) -> Option<&T> {
    context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get())
}

/// The result of a tool that succeeded.
enum Answer {
    /// `{"data":{…},"_etag":"…"}`, the tag without quotes and only if there is one.
    Record { json: Bytes, etag: Option<String> },
    /// JSON as bytes.
    Json(Vec<u8>),
    /// The problem of a call that was refused before, as JSON.
    Refused(Vec<u8>),
}

/// An answer in the form that is kept.
fn kept(answer: Answer) -> KeptAnswer {
    KeptAnswer { status: StatusCode::OK.as_u16(), headers: Vec::new(), body: answer.into_text().into_bytes() }
}

impl From<Record> for Answer {
    fn from(record: Record) -> Self {
        Self::Record { json: record.json().clone(), etag: (!record.is_part()).then(|| record.etag()) }
    }
}

impl Answer {
    fn deleted(id: &str) -> Self {
        Self::Json(json!({ "deleted": true, "id": id }).to_string().into_bytes())
    }

    /// The JSON as text.
    fn into_text(self) -> String {
        match self {
            Self::Record { json, etag } => {
                // A tag is hexadecimal digits in quotes, which is valid JSON.
                let etag = etag.map(|etag| format!(",\"{ETAG}\":{etag}")).unwrap_or_default();
                format!("{{\"data\":{}{etag}}}", String::from_utf8_lossy(&json))
            }
            Self::Json(json) | Self::Refused(json) => String::from_utf8_lossy(&json).into_owned(),
        }
    }

    /// The JSON as unchanged text, and as structured content.
    fn into_result(self) -> CallToolResult {
        let is_refused = matches!(self, Self::Refused(_));
        let text = self.into_text();
        let structured = serde_json::from_str(&text).ok();
        let content = vec![ContentBlock::text(text)];
        let mut result = if is_refused { CallToolResult::error(content) } else { CallToolResult::success(content) };
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
