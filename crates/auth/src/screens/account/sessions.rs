use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use gatewright_base::SessionId;
use gatewright_http::{Problem, Submission};
use serde::Serialize;

use super::device::device;
use super::moment::Moment;
use super::{Account, PATH, Place, Section, Visit, done, fragment};
use crate::plugins::sessions::Flow;
use crate::plugins::web::{Visitor, guarded, see_other, without_session};
use crate::session::{Session, StoredSession};

/// The browsers that are signed in.
pub(crate) struct SessionsSection {
    flow: Arc<Flow>,
}

#[derive(Clone)]
struct Desk {
    section: Arc<SessionsSection>,
    account: Arc<Account>,
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
        "Where you are signed in"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("session-ended", "The session was ended."),
            ("session-gone", "That session had ended already."),
            ("others-ended", "Everywhere else you were signed out."),
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
        let desk = Desk { section: self, account: account.clone() };
        Router::new()
            .route("/account/sessions/end-others", guarded(core, None, post(end_others)))
            .route("/account/sessions/{id}/end", guarded(core, None, post(end)))
            .with_state(desk)
    }
}

async fn end(
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
    let Ok(id) = SessionId::parse(&id) else { return done(&*section, "session-gone") };
    match section.flow.end(&session, &id, &visitor.client).await {
        Ok(true) if id == *session.id() => without_session(see_other("/login"), &account.core),
        Ok(true) => done(&*section, "session-ended"),
        Ok(false) => done(&*section, "session-gone"),
        Err(error) => Problem::from(error).into_page(),
    }
}

async fn end_others(
    State(Desk { section, account }): State<Desk>,
    visitor: Visitor,
    caller: Result<Session, Problem>,
    _: Submission<()>,
) -> Response {
    let session = match caller {
        Ok(session) => session,
        Err(problem) => return account.turned_away(problem),
    };
    match section.flow.end_others(&session, &visitor.client).await {
        Ok(()) => done(&*section, "others-ended"),
        Err(error) => Problem::from(error).into_page(),
    }
}

fn row(session: &StoredSession, caller: &Session) -> Row {
    Row {
        device: device(session.client.user_agent()),
        address: session.client.address().map(|address| address.to_string()),
        begun: Moment::new(session.started_at),
        last_seen: Moment::new(session.last_seen_at),
        current: session.id == *caller.id(),
        end: format!("{PATH}/sessions/{}/end", session.id),
    }
}
