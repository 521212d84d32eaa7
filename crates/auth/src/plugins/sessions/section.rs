use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_base::SessionId;
use gatewright_http::{Problem, Segment, Submission};

use super::Flow;
use crate::screens::account::{Account, Browser, Browsers, Owner, PATH, Place, Section, SectionState, Visit, Words};
use crate::session::{Session, StoredSession};
use crate::web::{Visitor, guarded, see_other, without_session};

/// The browsers that are signed in.
pub(crate) struct SessionsSection {
    flow: Arc<Flow>,
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
        let words = Words {
            about: None,
            since: "account.sessions.since",
            end: "account.sessions.end",
            end_one: "account.sessions.end_one",
            end_others: "account.sessions.end_others",
        };
        let rows = sessions.iter().map(|session| row(session, visit.session)).collect();
        Browsers { words, rows, end_others: format!("{PATH}/sessions/end-others") }.show(visit).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let core = &account.core;
        Router::new()
            .route("/account/sessions/end-others", guarded(core, None, post(end_others)))
            .route("/account/sessions/{id}/end", guarded(core, None, post(end)))
            .with_state(SectionState::new(self, account))
    }
}

async fn end(
    State(state): State<SectionState<SessionsSection>>,
    visitor: Visitor,
    owner: Owner,
    Segment(id): Segment,
    _: Submission<()>,
) -> Response {
    let Ok(id) = SessionId::parse(&id) else { return state.done("session-gone") };
    match state.section.flow.end(&owner.0, &id, &visitor.client).await {
        Ok(true) if id == *owner.0.id() => without_session(see_other("/login"), &state.account.core),
        Ok(true) => state.done("session-ended"),
        Ok(false) => state.done("session-gone"),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}

async fn end_others(
    State(state): State<SectionState<SessionsSection>>,
    visitor: Visitor,
    owner: Owner,
    _: Submission<()>,
) -> Response {
    match state.section.flow.end_others(&owner.0, &visitor.client).await {
        Ok(()) => state.done("others-ended"),
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}

fn row(session: &StoredSession, caller: &Session) -> Browser {
    let end = format!("{PATH}/sessions/{}/end", session.id);
    Browser::new(&session.client, session.started_at, session.last_seen_at, session.id == *caller.id(), end)
}
