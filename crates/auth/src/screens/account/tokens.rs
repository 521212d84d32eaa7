use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use gatewright_base::TokenId;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::moment::Moment;
use super::{Account, PATH, Place, Section, Visit, done, fragment};
use crate::plugins::tokens::{StoredToken, TokenDraft, Tokens};
use crate::plugins::web::{Visitor, guarded};
use crate::screens::page;
use crate::session::Session;
use crate::step_up;

/// The API tokens of one's own programs.
pub(crate) struct TokensSection {
    tokens: Tokens,
}

#[derive(Clone)]
struct Desk {
    section: Arc<TokensSection>,
    account: Arc<Account>,
}

#[derive(Serialize)]
struct Context<'a> {
    tokens: Vec<Row>,
    stepped_up: bool,
    issue: String,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    prefix: String,
    scopes: String,
    created: Moment,
    expires: Option<Moment>,
    last_used: Option<Moment>,
    revoke: String,
}

#[derive(Serialize)]
struct Fresh<'a> {
    name: &'a str,
    plaintext: &'a str,
    onward: &'a str,
}

#[derive(serde::Deserialize)]
struct Body {
    name: String,
    #[serde(default)]
    scopes: Option<String>,
    ttl_seconds: Option<i64>,
}

impl TokensSection {
    pub(crate) fn new(tokens: Tokens) -> Self {
        Self { tokens }
    }
}

#[async_trait]
impl Section for TokensSection {
    fn place(&self) -> Place {
        Place::Tokens
    }

    fn anchor(&self) -> &'static str {
        "tokens"
    }

    fn heading(&self) -> &'static str {
        "API tokens"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("token-revoked", "The token was revoked."), ("token-gone", "That token was revoked already.")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let tokens = self.tokens.list(visit.session).await?;
        let context = Context {
            tokens: tokens.iter().map(row).collect(),
            stepped_up: visit.stepped_up,
            issue: format!("{PATH}/tokens#{}", self.anchor()),
            csrf: visit.csrf,
            next: None,
        };
        fragment("account/tokens.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let core = &account.core;
        let desk = Desk { section: self, account: account.clone() };
        Router::new()
            .route("/account/tokens", guarded(core, None, post(issue)))
            .route("/account/tokens/{id}/revoke", guarded(core, None, post(revoke)))
            .with_state(desk)
    }
}

/// Shows the plaintext, for the only time.
async fn issue(
    State(Desk { section, account }): State<Desk>,
    visitor: Visitor,
    caller: Result<Session, Problem>,
    submission: Submission<Body>,
) -> Response {
    let session = match caller {
        Ok(session) => session,
        Err(problem) => return account.turned_away(problem),
    };
    match draft_and_issue(&section.tokens, &account, &session, &visitor, &submission.value).await {
        Ok(answer) => answer,
        Err(problem) => account.failed(&*section, &visitor, &session, problem).await,
    }
}

async fn draft_and_issue(
    tokens: &Tokens,
    account: &Account,
    session: &Session,
    visitor: &Visitor,
    body: &Body,
) -> Result<Response, Problem> {
    step_up::require(&account.core, session).await?;
    let scopes: Vec<_> = body.scopes.iter().flat_map(|scopes| scopes.split([' ', ','])).collect();
    let scopes: Vec<_> = scopes.into_iter().filter(|scope| !scope.is_empty()).collect();
    let draft = TokenDraft::parse(&body.name, &scopes, body.ttl_seconds.unwrap_or_default());
    let draft = draft.map_err(|wrong| {
        let messages: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        Problem::invalid_field("token", "invalid", messages.join("; "))
    })?;
    let issued = tokens.issue(&account.core, session, draft, &visitor.client).await?;
    let onward = format!("{PATH}#tokens");
    let fresh = Fresh { name: issued.token.name.as_str(), plaintext: issued.plaintext.expose(), onward: &onward };
    Ok(page("Your new API token", "account/new_token.html", &fresh))
}

async fn revoke(
    State(Desk { section, account }): State<Desk>,
    visitor: Visitor,
    caller: Result<Session, Problem>,
    Path(id): Path<String>,
    _: Submission<()>,
) -> Response {
    let session = match caller {
        Ok(session) => session,
        Err(problem) => return account.turned_away(problem),
    };
    let Ok(id) = TokenId::parse(&id) else { return done(&*section, "token-gone") };
    match section.tokens.revoke(&account.core, &session, &id, &visitor.client).await {
        Ok(true) => done(&*section, "token-revoked"),
        Ok(false) => done(&*section, "token-gone"),
        Err(error) => Problem::from(error).into_page(),
    }
}

fn row(token: &StoredToken) -> Row {
    let scopes: Vec<_> = token.scopes.iter().map(ToString::to_string).collect();
    Row {
        name: token.name.as_str().to_owned(),
        prefix: token.prefix.as_str().to_owned(),
        scopes: scopes.join(" "),
        created: Moment::new(token.created_at),
        expires: token.expires_at.map(Moment::new),
        last_used: token.last_used_at.map(Moment::new),
        revoke: format!("{PATH}/tokens/{}/revoke", token.id),
    }
}
