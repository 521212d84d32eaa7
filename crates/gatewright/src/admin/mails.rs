use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use gatewright_base::{JsonCase, time};
use gatewright_http::{Problem, Query, Segment};
use gatewright_mail::stored::{ListMails, MailQueue, MailStatus, QueuedMail, Retry};
use http::StatusCode;
use serde_json::Value;

use super::AdminState;
use super::answer::{database, limit, moment, noted, object, page};

/// Mails that wait or could not be sent, without their links; another try, and an end.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/mails", get(list))
        .route("/mails/{id}", delete(discard))
        .route("/mails/{id}/retry", post(retry))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    status: Option<String>,
    recipient: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

async fn list(State(state): State<AdminState>, Query(listing): Query<Listing>) -> Result<Json<Value>, Problem> {
    let status = listing.status.as_deref().filter(|word| !word.is_empty()).map(|word| {
        MailStatus::parse(word).ok_or_else(|| Problem::bad_request("status is pending, sending, failed or expired"))
    });
    let list = ListMails {
        status: status.transpose()?,
        recipient: listing.recipient.map(|address| address.trim().to_lowercase()).filter(|address| !address.is_empty()),
        after: listing.cursor,
        limit: limit(listing.limit),
    };
    let found = queue(&state)?.list(&list).await.map_err(database)?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == list.limit);
    let cursor = found.last().filter(|_| is_full).map(|last| last.id.clone());
    Ok(page(found.iter().map(|mail| shown(mail, state.config.server.json_case)).collect(), cursor))
}

async fn retry(State(state): State<AdminState>, Segment(id): Segment) -> Result<Response, Problem> {
    match queue(&state)?.retry(&id).await.map_err(database)? {
        Retry::Due(mail) => Ok(done(&mail)),
        Retry::Sending => {
            Err(Problem::conflict("a server is sending this mail at the moment").with_code("mail_in_flight"))
        }
        Retry::Expired => {
            Err(Problem::conflict("the link in this mail has expired; ask for a new one").with_code("mail_expired"))
        }
        Retry::Missing => Err(missing()),
    }
}

async fn discard(State(state): State<AdminState>, Segment(id): Segment) -> Result<Response, Problem> {
    let discarded = queue(&state)?.discard(&id).await.map_err(database)?;
    discarded.as_ref().map(done).ok_or_else(missing)
}

/// An address is noted where the deletion of its account finds it.
fn done(mail: &QueuedMail) -> Response {
    noted(StatusCode::NO_CONTENT, [("kind", mail.kind.as_str().into()), ("email", mail.recipient.as_str().into())])
}

fn missing() -> Problem {
    Problem::not_found("no such mail: it was sent or discarded")
}

fn queue(state: &AdminState) -> Result<&MailQueue, Problem> {
    state.mail.stored().ok_or_else(|| Problem::not_found("there is no mail queue; configure [email]"))
}

fn shown(mail: &QueuedMail, case: JsonCase) -> Value {
    object(
        case,
        [
            ("id", mail.id.as_str().into()),
            ("kind", mail.kind.as_str().into()),
            ("recipient", mail.recipient.as_str().into()),
            ("status", mail.status.as_str().into()),
            ("attempts", mail.attempts.into()),
            ("last_error", mail.last_error.as_deref().into()),
            ("created_at", time::format(mail.created_at).into()),
            ("next_attempt_at", moment(mail.next_attempt_at)),
            ("expires_at", time::format(mail.expires_at).into()),
        ],
    )
}
