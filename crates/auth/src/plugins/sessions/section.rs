use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_base::SessionId;
use gatewright_http::{Problem, Segment, Submission};
use serde::Serialize;

use super::Flow;
use crate::devices::device_name;
use crate::plugins::web::{Visitor, guarded, see_other, without_session};
use crate::screens::account::{Account, Desk, Moment, Owner, PATH, Place, Section, Visit};
use crate::screens::fragment;
use crate::session::{Session, StoredSession};

/// The browsers that are signed in.
pub(crate) struct SessionsSection {
    flow: Arc<Flow>,
}

#[derive(Serialize)]
struct Context<'a> {
    sessions: Vec<Row>,
    others: bool,
    end_others: String,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Row {
    device: String,
    address: Option<String>,
    begun: Moment,
    last_seen: Moment,
    current: bool,
    end: String,
}

impl SessionsSection {
    pub(crate) fn new(flow: Arc<Flow>) -> Self {
        Self { flow }
    }
}

#[async_trait]
impl Section for SessionsSection {
    fn place(&self) -> Place {
        Place::Sessions
    }

    fn anchor(&self) -> &'static str {
        "sessions"
    }

    fn heading(&self) -> &'static str {
        "account.sessions.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("session-ended", "account.sessions.ended"),
            ("session-gone", "account.sessions.gone"),
            ("others-ended", "account.sessions.others_ended"),
        ]
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let sessions = self.flow.list(visit.session).await?;
        let rows: Vec<_> = sessions.iter().map(|session| row(session, visit.session)).collect();
        let context = Context {
            others: rows.iter().any(|row| !row.current),
            sessions: rows,
            end_others: format!("{PATH}/sessions/end-others"),
            csrf: visit.csrf,
            next: None,
        };
        fragment("account/sessions.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let core = &account.core;
        Router::new()
            .route("/account/sessions/end-others", guarded(core, None, post(end_others)))
            .route("/account/sessions/{id}/end", guarded(core, None, post(end)))
            .with_state(Desk::new(self, account))
    }
}

async fn end(
    State(desk): State<Desk<SessionsSection>>,
    visitor: Visitor,
    owner: Owner,
    Segment(id): Segment,
    _: Submission<()>,
) -> Response {
    let Ok(id) = SessionId::parse(&id) else { return desk.done("session-gone") };
    match desk.section.flow.end(&owner.0, &id, &visitor.client).await {
        Ok(true) if id == *owner.0.id() => without_session(see_other("/login"), &desk.account.core),
        Ok(true) => desk.done("session-ended"),
        Ok(false) => desk.done("session-gone"),
        Err(error) => desk.failed(&visitor, &owner, error).await,
    }
}

async fn end_others(
    State(desk): State<Desk<SessionsSection>>,
    visitor: Visitor,
    owner: Owner,
    _: Submission<()>,
) -> Response {
    match desk.section.flow.end_others(&owner.0, &visitor.client).await {
        Ok(()) => desk.done("others-ended"),
        Err(error) => desk.failed(&visitor, &owner, error).await,
    }
}

fn row(session: &StoredSession, caller: &Session) -> Row {
    Row {
        device: device_name(session.client.user_agent()),
        address: session.client.address().map(|address| address.to_string()),
        begun: Moment::new(session.started_at),
        last_seen: Moment::new(session.last_seen_at),
        current: session.id == *caller.id(),
        end: format!("{PATH}/sessions/{}/end", session.id),
    }
}
