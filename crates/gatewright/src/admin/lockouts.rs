use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_base::{JsonCase, time};
use gatewright_http::{JsonBody, Problem, Query};
use http::StatusCode;
use serde_json::Value;

use super::AdminState;
use super::answer::{limit, noted, object, unavailable};

/// Accounts and addresses that are locked out at present, with the reason. A lockout can be removed.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/lockouts", get(list)).route("/lockouts/unlock", post(unlock))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<u32>,
}

async fn list(State(state): State<AdminState>, Query(listing): Query<Listing>) -> Result<Json<Value>, Problem> {
    let found = state.auth.lockouts().list(limit(listing.limit)).await.map_err(|error| unavailable(&error))?;
    let case = state.config.server.json_case;
    let now = state.ambient.now();
    let rows = found.iter().flatten().map(|blocked| {
        let (scope, subject) = blocked.key.split_once(':').unwrap_or((&blocked.key, ""));
        let until = now.checked_add(blocked.remaining).unwrap_or(jiff::Timestamp::MAX);
        object(
            case,
            [
                ("key", blocked.key.as_str().into()),
                ("limit", scope.into()),
                // A key that is too long or has other characters is stored as a hash.
                ("subject", Some(subject).filter(|subject| !subject.starts_with('~')).into()),
                ("reason", reason(scope).into()),
                ("until", time::format(until).into()),
            ],
        )
    });
    let data: Vec<Value> = rows.collect();
    Ok(Json(answer(case, data, found.is_some())))
}

/// `listed` is false where the store of limits cannot list: accounts are unlocked one by one then.
fn answer(case: JsonCase, data: Vec<Value>, listed: bool) -> Value {
    object(case, [("data", data.into()), ("listed", listed.into())])
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unlock {
    key: String,
}

async fn unlock(State(state): State<AdminState>, JsonBody(body): JsonBody<Unlock>) -> Result<Response, Problem> {
    let is_key = state.auth.lockouts().unlock_key(&body.key).await.map_err(|error| unavailable(&error))?;
    if !is_key {
        return Err(Problem::invalid_field("key", "invalid", "is not the key of a lockout"));
    }
    // An address is noted where the deletion of its account finds it.
    let (scope, subject) = body.key.split_once(':').unwrap_or((&body.key, ""));
    let email = Some(subject).filter(|subject| subject.contains('@'));
    Ok(noted(StatusCode::NO_CONTENT, [("limit", scope.into()), ("email", email.into())]))
}

/// The kind of attempt that was repeated too often, in words.
fn reason(scope: &str) -> &'static str {
    match scope {
        "login_account" => "too many failed sign-ins to this account",
        "login_device" => "too many wrong passwords from a known device of this account",
        "twofa_device" => "too many wrong second factors from a known device of this account",
        "login_ip" => "too many failed sign-ins from this address",
        "twofa_account" => "too many wrong second factors for this account",
        "twofa" => "too many second factors from this address",
        "twofa_disable_account" => "too many wrong codes while disabling the second factor of this account",
        "twofa_disable_session" => "too many wrong codes while disabling the second factor in this session",
        "twofa_disable" => "too many codes for disabling a second factor from this address",
        "password_change" => "too many wrong passwords while changing the password of this account",
        "password_change_session" => "too many wrong passwords while changing the password in this session",
        "fresh_proof" => "too many wrong proofs for sensitive actions of this account",
        "fresh_proof_session" => "too many wrong proofs for sensitive actions in this session",
        "register" | "oauth2_register" => "too many registrations from this address",
        "password_reset" => "too many password resets from this address",
        "magic_link" => "too many sign-in links from this address",
        "device" => "too many wrong codes of devices from this address",
        "device_account" => "too many wrong codes of devices by this account",
        "device_authorization" => "too many devices that begin from this address",
        "anonymous" => "too many guests from this address",
        "email_code" => "too many codes by mail requested from this address",
        "email_code_verify" => "too many wrong codes by mail from this address",
        "email_code_account" => "too many wrong codes by mail for this mailbox",
        "email_code_device" => "too many wrong codes by mail from a known device of this account",
        "email_verification" => "too many verification mails from this address",
        "oauth" => "too many sign-ins with a provider from this address",
        "mail_pair" | "mail_first" | "mail_recipient" | "mail_recipient_first" | "mail_recipient_trickle" => {
            "too many mails to this address"
        }
        "mail_network" => "too many mails requested by this network",
        _ => "too many attempts",
    }
}
