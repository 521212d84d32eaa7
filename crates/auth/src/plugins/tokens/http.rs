use std::sync::Arc;

use axum::extract::State;
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_base::{JsonCase, Secret, TokenId, time};
use gatewright_http::{JsonBody, Problem, Segment};
use http::StatusCode;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::core::Core;
use crate::fresh::{Fresh, Given};
use crate::problem;
use crate::session::Session;
use crate::tokens::{InvalidTokenDraft, IssueError, Issued, StoredToken, TokenDraft, TokenError, Tokens};
use crate::web::{Case, Visitor};

/// `GET` and `POST /tokens`, `DELETE /tokens/{id}`: only for sessions.
pub(super) fn routes(core: Arc<Core>) -> Router {
    let Some(tokens) = core.tokens.clone() else { return Router::new() };
    Router::new()
        .route("/tokens", get(list).post(issue))
        .route("/tokens/{id}", delete(revoke))
        .with_state(Arc::new(App { fresh: Fresh::new(core.clone()), core, tokens }))
}

struct App {
    core: Arc<Core>,
    tokens: Tokens,
    fresh: Fresh,
}

/// The requested token. The owner is the caller: `owner_kind` and `owner_id` are ignored. Any other field is 422, so that
/// a misspelled `ttl_seconds` does not create a token that never expires.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: String,
    scopes: Option<Vec<String>>,
    ttl_seconds: Option<i64>,
    /// The proof that a session older than five minutes needs.
    password: Option<Secret>,
    code: Option<Secret>,
    #[serde(default, rename = "owner_kind")]
    _owner_kind: IgnoredAny,
    #[serde(default, rename = "owner_id")]
    _owner_id: IgnoredAny,
}

async fn list(State(app): State<Arc<App>>, Case(case): Case, caller: Session) -> Result<Json<Value>, Problem> {
    let tokens = app.tokens.list(&caller).await?;
    let tokens: Vec<_> = tokens.iter().map(|token| listed(token, case)).collect();
    Ok(Json(json!({ "tokens": tokens })))
}

async fn issue(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Case(case): Case,
    caller: Session,
    JsonBody(body): JsonBody<Body>,
) -> Result<Json<Map<String, Value>>, Problem> {
    let scopes = body.scopes.unwrap_or_default();
    let draft = TokenDraft::parse(&body.name, &scopes, body.ttl_seconds.unwrap_or_default())
        .map_err(|wrong| invalid(&wrong, case))?;
    let given = Given { password: body.password, code: body.code };
    let issued = app.tokens.issue(&app.fresh, &caller, draft, &given, &visitor.client).await?;
    Ok(Json(created(&issued, case)))
}

async fn revoke(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    caller: Session,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    let missing = || Problem::not_found("no such token");
    let id = TokenId::parse(&id).map_err(|_| missing())?;
    if !app.tokens.revoke(&app.core, &caller, &id, &visitor.client).await? {
        return Err(missing());
    }
    Ok(StatusCode::NO_CONTENT)
}

fn created(issued: &Issued, case: JsonCase) -> Map<String, Value> {
    let token = &issued.token;
    let fields = [
        ("token", issued.plaintext.expose().into()),
        ("id", json!(token.id)),
        ("name", token.name.as_str().into()),
        ("prefix", token.prefix.as_str().into()),
        ("scopes", json!(token.scopes)),
        ("expires_at", token.expires_at.map(time::format).into()),
    ];
    fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect()
}

fn listed(token: &StoredToken, case: JsonCase) -> Map<String, Value> {
    let fields = [
        ("id", json!(token.id)),
        ("name", token.name.as_str().into()),
        ("prefix", token.prefix.as_str().into()),
        ("scopes", json!(token.scopes)),
        ("created_at", time::format(token.created_at).into()),
        ("expires_at", token.expires_at.map(time::format).into()),
        ("last_used_at", token.last_used_at.map(time::format).into()),
    ];
    fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect()
}

fn invalid(wrong: &[InvalidTokenDraft], case: JsonCase) -> Problem {
    let mut problem = Problem::of(StatusCode::UNPROCESSABLE_ENTITY);
    for error in wrong {
        problem = problem.with_field(case.spell(error.field()), error.code(), error.to_string());
    }
    problem
}

impl From<IssueError> for Problem {
    fn from(error: IssueError) -> Self {
        match error {
            IssueError::StepUp(error) => error.into(),
            IssueError::Fresh(error) => error.into(),
            IssueError::SessionEnded => problem::no_session(),
            IssueError::Token(error) => error.into(),
        }
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::TooMany => Self::conflict(error.to_string()).with_code("too_many_tokens"),
            // A session's user exists, unless the account was deleted in between.
            TokenError::OwnerMissing => problem::no_session(),
            TokenError::Tokens(error) => problem::store_failed(&error),
            TokenError::Users(error) => error.into(),
            TokenError::Services(error) => problem::store_failed(&error),
        }
    }
}
