use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use gatewright_auth::session::StoredSession;
use gatewright_auth::tokens::StoredToken;
use gatewright_auth::users::{AccountDates, FoundUser, SearchUsers};
use gatewright_auth::{AccountName, DeletionProgress, EmailAddress, Unverified};
use gatewright_base::{JsonCase, Roles, SessionId, Subject, TokenId, UserId, time};
use gatewright_http::{JsonBody, Problem, Query, Segment, Segments};
use http::StatusCode;
use serde_json::{Value, json};

use super::AdminState;
use super::answer::{account, data, limit, moment, noted, object, page, unavailable};
use super::gate::{Fresh, Operator};
use crate::config::Plugin;

/// Accounts, their sessions and API tokens.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/users", get(list))
        .route("/users/{id}", get(one).delete(remove))
        .route("/users/{id}/roles", put(set_roles))
        .route("/users/{id}/two-factor", delete(reset_second_factor))
        .route("/users/{id}/unlock", post(unlock))
        .route("/users/{id}/disable", post(disable))
        .route("/users/{id}/enable", post(enable))
        .route("/users/{id}/sessions", get(sessions).delete(end_sessions))
        .route("/users/{id}/sessions/{session}", delete(end_session))
        .route("/users/{id}/tokens", get(tokens))
        .route("/users/{id}/tokens/{token}", delete(end_token))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    q: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
    role: Option<String>,
    verified: Option<bool>,
    #[serde(alias = "second_factor", rename = "secondFactor")]
    second_factor: Option<bool>,
    #[serde(alias = "signed_in_before", rename = "signedInBefore")]
    signed_in_before: Option<String>,
}

impl Search {
    fn has_filter(&self) -> bool {
        self.role.is_some()
            || self.verified.is_some()
            || self.second_factor.is_some()
            || self.signed_in_before.is_some()
    }

    /// `None` if nobody can match.
    fn query(self, state: &AdminState, prefix: String, limit: u32) -> Result<Option<SearchUsers>, Problem> {
        let wrong = || Problem::bad_request("signedInBefore must be a time, such as 2026-01-31T00:00:00Z");
        let signed_in_before = self.signed_in_before.map(|text| text.parse().map_err(|_| wrong())).transpose()?;
        // Without the plugin nobody has a second factor, and there may be no table.
        let has_plugin = state.config.plugins().contains(&Plugin::TwoFactor);
        if self.second_factor == Some(true) && !has_plugin {
            return Ok(None);
        }
        let second_factor = self.second_factor.filter(|_| has_plugin);
        let after = self.cursor.filter(|cursor| !cursor.is_empty());
        let (role, verified) = (self.role, self.verified);
        Ok(Some(SearchUsers { prefix, after, limit, role, verified, second_factor, signed_in_before }))
    }
}

async fn list(State(state): State<AdminState>, Query(search): Query<Search>) -> Result<Json<Value>, Problem> {
    let limit = limit(search.limit);
    let text = search.q.as_deref().unwrap_or_default().trim().to_lowercase();
    // A text that is an id, not the beginning of an address, names one account.
    if !search.has_filter()
        && !text.contains('@')
        && search.cursor.as_deref().unwrap_or_default().is_empty()
        && let Ok(id) = UserId::parse(&text)
        && let Ok(found) = state.auth.accounts().look_up(&id).await
    {
        return Ok(page(users(&state, &[found]).await?, None));
    }
    let Some(query) = search.query(&state, text, limit)? else { return Ok(page(Vec::new(), None)) };
    if query.after.as_deref().is_some_and(|cursor| EmailAddress::stored(cursor).is_err()) {
        return Err(Problem::bad_request("invalid cursor for this list"));
    }
    let found = state.auth.accounts().search(&query).await.map_err(account)?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == limit);
    let cursor = found.last().filter(|_| is_full).map(|last| last.user.email.as_str().to_owned());
    Ok(page(users(&state, &found).await?, cursor))
}

async fn users(state: &AdminState, found: &[FoundUser]) -> Result<Vec<Value>, Problem> {
    let ids: Vec<UserId> = found.iter().map(|found| found.user.id.clone()).collect();
    let leaving = state.auth.accounts().being_deleted(&ids).await.map_err(account)?;
    let dates = state.auth.accounts().dates(&ids).await.map_err(account)?;
    let case = state.config.server.json_case;
    let shown = |found: &FoundUser| user(found, dates.get(&found.user.id), leaving.contains(&found.user.id), case);
    Ok(found.iter().map(shown).collect())
}

async fn one(State(state): State<AdminState>, Segment(id): Segment) -> Result<Json<Value>, Problem> {
    let (id, accounts) = (named(&id)?, state.auth.accounts());
    let found = accounts.look_up(&id).await.map_err(account)?;
    let has_second_factor = accounts.has_second_factor(&id).await.map_err(account)?;
    let case = state.config.server.json_case;
    let is_leaving = !accounts.being_deleted(std::slice::from_ref(&id)).await.map_err(account)?.is_empty();
    let dates = accounts.dates(std::slice::from_ref(&id)).await.map_err(account)?;
    let mut object = user(&found, dates.get(&id), is_leaving, case);
    object[case.spell("two_factor_enabled")] = has_second_factor.into();
    if let Some(profile) = accounts.profile(&id).await.map_err(account)? {
        object["profile"] = profile.into();
    }
    Ok(data(object))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRoles {
    roles: Vec<String>,
    /// Whether the account may be one whose mailbox nobody has proven.
    #[serde(default)]
    unverified: bool,
}

/// The most roles of one account.
const MAX_ROLES: usize = 32;

async fn set_roles(
    State(state): State<AdminState>,
    operator: Operator,
    _: Fresh,
    Segment(id): Segment,
    JsonBody(body): JsonBody<NewRoles>,
) -> Result<Response, Problem> {
    let (id, accounts) = (named(&id)?, state.auth.accounts());
    let roles = roles(&body.roles)?;
    let is_self = matches!(&operator.subject, Subject::User(own) if *own == id);
    if is_self && !roles.contains(&state.config.admin.role) {
        return Err(Problem::conflict("you cannot take the admin role from yourself").with_code("own_role"));
    }
    let held = accounts.find_by_id(&id).await.map_err(account)?.roles;
    // Roles are taken from any account. They are given only to one whose mailbox somebody has proven, or to the caller's
    // own.
    let gives = roles.iter().any(|role| !held.contains(role));
    let unverified = Unverified::from(body.unverified || is_self || !gives);
    let before = accounts.resolve(AccountName::Id(&id), unverified).await.map_err(account)?.roles;
    accounts.set_roles(&id, &roles).await.map_err(account)?;
    let details = [("before", json!(before)), ("roles", json!(roles)), ("unverified", body.unverified.into())];
    Ok(noted(StatusCode::NO_CONTENT, details))
}

/// The roles of a body.
pub(super) fn roles(named: &[String]) -> Result<Roles, Problem> {
    let roles: Roles = named.iter().map(|role| role.trim()).collect();
    let is_name = |role: &str| !role.is_empty() && role.len() <= 64 && !role.chars().any(char::is_control);
    if roles.iter().len() > MAX_ROLES || !roles.iter().all(is_name) {
        let wrong = "at most 32 roles of 1 to 64 characters each, without control characters";
        return Err(Problem::invalid_field("roles", "invalid", wrong));
    }
    Ok(roles)
}

async fn reset_second_factor(
    State(state): State<AdminState>,
    _: Fresh,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    let (id, accounts) = (named(&id)?, state.auth.accounts());
    accounts.find_by_id(&id).await.map_err(account)?;
    if !accounts.disable_two_factor(&id).await.map_err(account)? {
        return Err(Problem::conflict("this account has no second factor").with_code("not_enabled"));
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn unlock(State(state): State<AdminState>, Segment(id): Segment) -> Result<StatusCode, Problem> {
    state.auth.accounts().unlock(&named(&id)?).await.map_err(account)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn disable(
    State(state): State<AdminState>,
    operator: Operator,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    let id = named(&id)?;
    if matches!(&operator.subject, Subject::User(own) if *own == id) {
        return Err(Problem::conflict("you cannot disable your own account").with_code("own_account"));
    }
    state.auth.accounts().disable(&id).await.map_err(account)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn enable(State(state): State<AdminState>, Segment(id): Segment) -> Result<StatusCode, Problem> {
    state.auth.accounts().enable(&named(&id)?).await.map_err(account)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(
    State(state): State<AdminState>,
    operator: Operator,
    _: Fresh,
    Segment(id): Segment,
) -> Result<StatusCode, Problem> {
    let id = named(&id)?;
    if matches!(&operator.subject, Subject::User(own) if *own == id) {
        return Err(Problem::conflict("you cannot delete your own account here").with_code("own_account"));
    }
    Ok(match state.auth.accounts().request_deletion(&id).await.map_err(account)? {
        DeletionProgress::Done => StatusCode::NO_CONTENT,
        DeletionProgress::UnderWay => StatusCode::ACCEPTED,
    })
}

async fn sessions(State(state): State<AdminState>, Segment(id): Segment) -> Result<Json<Value>, Problem> {
    let sessions = state.auth.accounts().sessions(&named(&id)?).await.map_err(account)?;
    let case = state.config.server.json_case;
    Ok(data(sessions.iter().map(|stored| session(stored, case)).collect::<Vec<_>>()))
}

async fn end_sessions(State(state): State<AdminState>, Segment(id): Segment) -> Result<Response, Problem> {
    let (id, accounts) = (named(&id)?, state.auth.accounts());
    accounts.find_by_id(&id).await.map_err(account)?;
    let ended = accounts.sign_out_everywhere(&id).await.map_err(account)?;
    Ok(noted(StatusCode::NO_CONTENT, [("sessions", ended.into())]))
}

async fn end_session(
    State(state): State<AdminState>,
    Segments([id, session]): Segments<2>,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("no such session");
    let (id, session) = (named(&id)?, SessionId::parse(&session).map_err(|_| missing())?);
    if !state.auth.accounts().end_session(&id, &session).await.map_err(account)? {
        return Err(missing());
    }
    Ok(noted(StatusCode::NO_CONTENT, [("ended", session.as_str().into())]))
}

async fn tokens(State(state): State<AdminState>, Segment(id): Segment) -> Result<Json<Value>, Problem> {
    let (id, case) = (named(&id)?, state.config.server.json_case);
    state.auth.accounts().find_by_id(&id).await.map_err(account)?;
    let Some(tokens) = state.auth.api_tokens() else { return Ok(data(Vec::<Value>::new())) };
    let tokens = tokens.list(Some(&Subject::User(id))).await.map_err(|error| unavailable(&error))?;
    Ok(data(tokens.iter().map(|stored| token(stored, case)).collect::<Vec<_>>()))
}

async fn end_token(State(state): State<AdminState>, Segments([id, token]): Segments<2>) -> Result<Response, Problem> {
    let missing = || Problem::not_found("no such token");
    let (id, token) = (named(&id)?, TokenId::parse(&token).map_err(|_| missing())?);
    let tokens = state.auth.api_tokens().ok_or_else(missing)?;
    let theirs = tokens.list(Some(&Subject::User(id))).await.map_err(|error| unavailable(&error))?;
    let is_theirs = theirs.iter().any(|stored| stored.id == token);
    if !is_theirs || !tokens.revoke(&token).await.map_err(|error| unavailable(&error))? {
        return Err(missing());
    }
    Ok(noted(StatusCode::NO_CONTENT, [("revoked", token.as_str().into())]))
}

pub(super) fn named(id: &str) -> Result<UserId, Problem> {
    UserId::parse(id).map_err(|_| Problem::not_found("no such user"))
}

fn user(found: &FoundUser, dates: Option<&AccountDates>, is_leaving: bool, case: JsonCase) -> Value {
    let user = &found.user;
    object(
        case,
        [
            ("id", user.id.as_str().into()),
            ("email", json!(user.email)),
            ("roles", json!(user.roles)),
            ("email_verified", user.email_verified.into()),
            ("password_set", user.password_set.into()),
            ("disabled", user.disabled.into()),
            ("deleting", is_leaving.into()),
            ("created_at", time::format(found.created_at).into()),
            ("last_sign_in_at", moment(dates.and_then(|dates| dates.last_sign_in_at))),
        ],
    )
}

fn session(stored: &StoredSession, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", stored.id.as_str().into()),
            ("created_at", time::format(stored.started_at).into()),
            ("last_seen_at", time::format(stored.last_seen_at).into()),
            ("expires_at", time::format(stored.expires_at).into()),
            ("address", stored.client.address().map(|address| address.to_string()).into()),
            ("user_agent", stored.client.user_agent().into()),
            ("two_factor_verified", stored.two_factor_verified.into()),
            ("pending", stored.pending_two_factor.into()),
        ],
    )
}

fn token(stored: &StoredToken, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", stored.id.as_str().into()),
            ("name", stored.name.as_str().into()),
            ("prefix", stored.prefix.as_str().into()),
            ("scopes", json!(stored.scopes)),
            ("created_at", time::format(stored.created_at).into()),
            ("expires_at", moment(stored.expires_at)),
            ("last_used_at", moment(stored.last_used_at)),
        ],
    )
}
