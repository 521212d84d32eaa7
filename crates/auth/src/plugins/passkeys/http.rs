use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use gatewright_base::{JsonCase, time};
use gatewright_http::{JsonBody, Kind, Problem, RawJson, Segment, Submission};
use http::StatusCode;
use http::header::SET_COOKIE;
use serde_json::{Map, Value, json};

use super::challenge::Purpose;
use super::flow::{Flow, Options, PasskeyError};
use super::{Challenges, Passkey};
use crate::devices::Browser;
use crate::fresh::{FreshError, OnlyGiven};
use crate::label::Label;
use crate::plugins::sign_in;
use crate::problem;
use crate::session::{AnySession, Session};
use crate::web::{Case, NoFields, Visitor, guarded, guarded_proof};

/// The default name of a passkey.
const UNNAMED: &str = "Passkey";

#[derive(Clone)]
struct RouteState {
    flow: Arc<Flow>,
    challenges: Arc<Challenges>,
}

pub(super) fn routes(flow: Arc<Flow>, challenges: Arc<Challenges>) -> Router {
    let core = flow.core.clone();
    let by_address = core.limiter("passkey", &core.config.limits.login).dev_mode(core.config.dev_mode);
    Router::new()
        .route("/passkeys", get(list))
        .route("/passkeys/{id}", patch(rename).delete(remove))
        .route("/passkeys/register/options", guarded(&core, None, post(begin)))
        .route("/passkeys/register", guarded(&core, None, post(finish)))
        .route("/passkeys/login/options", guarded(&core, None, post(ask)))
        .route("/passkeys/login", guarded_proof(&core, &by_address, post(answer)))
        .with_state(RouteState { flow, challenges })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
}

/// The fields of a registration's body besides the credential.
#[derive(serde::Deserialize)]
struct Named {
    name: Option<String>,
}

async fn begin(
    State(state): State<RouteState>,
    visitor: Visitor,
    session: Session,
    JsonBody(proof): JsonBody<OnlyGiven>,
) -> Result<Response, Response> {
    state.flow.begin(&session, &proof.into(), &visitor.client).await.map(options).map_err(refuse)
}

async fn finish(
    State(state): State<RouteState>,
    visitor: Visitor,
    Case(case): Case,
    session: Session,
    RawJson(body): RawJson,
) -> Result<Response, Response> {
    let named: Named = serde_json::from_slice(&body).map_err(|error| refuse(PasskeyError::Malformed(error)))?;
    let name = label(named.name.as_deref().unwrap_or(UNNAMED)).map_err(IntoResponse::into_response)?;
    let passkey = state.flow.finish(&session, &body, name, &visitor.headers, &visitor.client).await.map_err(refuse)?;
    let mut answer = (StatusCode::CREATED, Json(object(&passkey, case))).into_response();
    let purpose = Purpose::Register(session.id());
    answer.headers_mut().append(SET_COOKIE, state.challenges.remove_cookie(purpose));
    Ok(answer)
}

async fn ask(
    State(state): State<RouteState>,
    session: Result<AnySession, Problem>,
    _: Submission<NoFields>,
) -> Result<Response, Response> {
    state.flow.ask(session.ok().as_ref()).await.map(options).map_err(refuse)
}

async fn answer(
    State(state): State<RouteState>,
    visitor: Visitor,
    session: Result<AnySession, Problem>,
    RawJson(body): RawJson,
) -> Result<Response, Response> {
    let core = &state.flow.core;
    let browser = Browser::of(core, &visitor.headers);
    let (session, client) = (session.ok(), visitor.client.clone());
    let answered = state.flow.answer(session.as_ref(), &body, &visitor.headers, &browser, client).await;
    let signed_in = answered.map_err(refuse)?;
    let mut answer = sign_in::answer(core, &visitor, Kind::Json, &signed_in, None).await;
    answer.headers_mut().append(SET_COOKIE, state.challenges.remove_cookie(Purpose::Login));
    Ok(answer)
}

async fn list(State(state): State<RouteState>, Case(case): Case, session: Session) -> Result<Json<Value>, Problem> {
    let passkeys: Vec<_> = state.flow.list(&session).await?.iter().map(|passkey| object(passkey, case)).collect();
    Ok(Json(json!({ "passkeys": passkeys })))
}

async fn rename(
    State(state): State<RouteState>,
    session: Session,
    Segment(id): Segment,
    JsonBody(body): JsonBody<Name>,
) -> Result<Json<Value>, Problem> {
    let name = label(&body.name)?;
    state.flow.rename(&session, &id, &name).await?;
    Ok(Json(json!({ "id": id, "name": name })))
}

async fn remove(
    State(state): State<RouteState>,
    visitor: Visitor,
    session: Session,
    Segment(id): Segment,
    given: Submission<OnlyGiven>,
) -> Result<StatusCode, Problem> {
    state.flow.remove(&session, &id, &given.value.into(), &visitor.client).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn options(options: Options) -> Response {
    let mut answer = Json(options.json).into_response();
    answer.headers_mut().append(SET_COOKIE, options.cookie);
    answer
}

/// The name of a passkey.
fn label(text: &str) -> Result<Label, Problem> {
    Label::parse(text).map_err(|error| Problem::invalid_field("name", "invalid", error.to_string()))
}

fn object(passkey: &Passkey, case: JsonCase) -> Map<String, Value> {
    let fields: [(&str, Value); 5] = [
        ("id", passkey.id.as_str().into()),
        ("name", passkey.name.as_str().into()),
        ("backed_up", passkey.backed_up.into()),
        ("created_at", time::format(passkey.created_at).into()),
        ("last_used_at", passkey.last_used_at.map(time::format).into()),
    ];
    fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect()
}

fn refuse(error: PasskeyError) -> Response {
    match error {
        PasskeyError::Fresh(FreshError::Denied(denied)) => denied.into_response(),
        error => Problem::from(error).into_response(),
    }
}

impl From<PasskeyError> for Problem {
    fn from(error: PasskeyError) -> Self {
        let detail = error.to_string();
        match error {
            PasskeyError::Unavailable => Self::conflict(detail).with_code("passkeys_unavailable"),
            PasskeyError::Malformed(_) => Self::bad_request(detail),
            PasskeyError::Refused(_) => Self::unprocessable(detail).with_code("passkey_refused"),
            PasskeyError::Invalid => Self::unauthorized(detail).with_code("invalid_passkey"),
            PasskeyError::Taken => Self::conflict(detail).with_code("passkey_registered"),
            PasskeyError::TooMany => Self::conflict(detail).with_code("too_many_passkeys"),
            PasskeyError::Missing => Self::not_found(detail),
            PasskeyError::LastCredential => Self::conflict(detail).with_code("last_credential"),
            PasskeyError::Ceremony(error) => Self::internal(&error),
            PasskeyError::Fresh(error) => error.into(),
            PasskeyError::StepUp(error) => error.into(),
            PasskeyError::Store(error) => problem::store_failed(&error),
            PasskeyError::Users(error) => error.into(),
            PasskeyError::Mint(error) => error.into(),
        }
    }
}
