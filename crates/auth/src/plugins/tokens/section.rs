use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_base::{Secret, TokenId};
use gatewright_http::{Problem, Segment, Submission};
use serde::Serialize;

use crate::core::Core;
use crate::fresh::{Asked, Fresh, Given, asked_unless_young};
use crate::screens::account::{Account, AccountPage, Moment, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::fragment;
use crate::screens::page;
use crate::tokens::{StoredToken, TokenDraft, Tokens};
use crate::web::{Visitor, guarded};

/// The API tokens of one's own programs.
pub(crate) struct TokensSection {
    tokens: Tokens,
    fresh: Fresh,
}

#[derive(Serialize)]
struct Context<'a> {
    tokens: Vec<Row>,
    stepped_up: bool,
    fresh: Asked,
    issue: String,
    csrf: Option<&'a str>,
    /// Whether its form was refused, and is shown again.
    trouble: bool,
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
struct Created<'a> {
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
    /// The proof that a session older than five minutes needs.
    password: Option<Secret>,
    code: Option<Secret>,
}

impl TokensSection {
    pub(crate) fn new(core: Arc<Core>, tokens: Tokens) -> Self {
        Self { tokens, fresh: Fresh::new(core) }
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
        "account.tokens.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("token-revoked", "account.tokens.revoked"), ("token-gone", "account.tokens.gone")]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let tokens = self.tokens.list(visit.session).await?;
        let context = Context {
            tokens: tokens.iter().map(row).collect(),
            stepped_up: visit.stepped_up,
            fresh: asked_unless_young(self.fresh.core(), visit.session).await?,
            issue: format!("{PATH}/tokens#{}", self.anchor()),
            csrf: visit.csrf,
            trouble: visit.problem.is_some(),
            next: None,
        };
        fragment("account/tokens.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let core = &account.core;
        Router::new()
            .route("/account/tokens", guarded(core, None, post(issue)))
            .route("/account/tokens/{id}/revoke", guarded(core, None, post(revoke)))
            .with_state(SectionState::new(self, account))
    }
}

/// Shows the plaintext, for the only time.
async fn issue(
    State(state): State<SectionState<TokensSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<Body>,
) -> Response {
    let issued = match draft(&submission.value) {
        Ok(draft) => {
            let Body { password, code, .. } = submission.value;
            let (tokens, fresh) = (&state.section.tokens, &state.section.fresh);
            tokens.issue(fresh, &owner.0, draft, &Given { password, code }, &visitor.client).await
        }
        Err(problem) => return state.failed(&visitor, &owner, problem).await,
    };
    let issued = match issued {
        Ok(issued) => issued,
        Err(error) => return state.failed(&visitor, &owner, error).await,
    };
    let onward = AccountPage::Tokens.path();
    let created = Created { name: issued.token.name.as_str(), plaintext: issued.plaintext.expose(), onward };
    page("account.tokens.fresh_title", "account/new_token.html", &created)
}

fn draft(body: &Body) -> Result<TokenDraft, Problem> {
    let scopes: Vec<_> = body.scopes.iter().flat_map(|scopes| scopes.split([' ', ','])).collect();
    let scopes: Vec<_> = scopes.into_iter().filter(|scope| !scope.is_empty()).collect();
    TokenDraft::parse(&body.name, &scopes, body.ttl_seconds.unwrap_or_default()).map_err(|wrong| {
        let messages: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        Problem::invalid_field("token", "invalid", messages.join("; "))
    })
}

async fn revoke(
    State(state): State<SectionState<TokensSection>>,
    visitor: Visitor,
    owner: Owner,
    Segment(id): Segment,
    _: Submission<()>,
) -> Response {
    let Ok(id) = TokenId::parse(&id) else { return state.done("token-gone") };
    match state.section.tokens.revoke(&state.account.core, &owner.0, &id, &visitor.client).await {
        Ok(true) => state.done("token-revoked"),
        Ok(false) => state.done("token-gone"),
        Err(error) => state.failed(&visitor, &owner, error).await,
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
