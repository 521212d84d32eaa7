//! `/account`, where users see and change their account.
//!
//! The page is composed of [`Section`]s of plugins (`Prepared::account_section`). Each is the file `section.rs` of its
//! plugin, with the handlers of its forms, and is independent of the others. [`Account`] orders them by their
//! [`Place`]. A form's handler has a [`SectionState`], which answers: [`SectionState::done`] after a change,
//! [`SectionState::failed`] with the page again and the message in its section.
//!
//! The page needs a session. An anonymous caller is redirected to `/login` and back, a pending session to the screen of
//! the second factor.

mod browsers;
mod moment;
mod section_state;

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use gatewright_base::Identity;
use gatewright_http::{Caller, Next, Problem, Query, layers};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::passkeys::page as passkeys_page;
use super::paths::with_next;
use super::with_problem;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::session::Session;
use crate::step_up;
use crate::web::{Visitor, see_other};

pub(crate) use browsers::{Browser, Browsers, Words};
pub(crate) use moment::Moment;
pub(crate) use section_state::{Owner, SectionState};

/// The page's path. The forms of sections post to paths below it, or to the routes that scripts use.
pub(crate) const PATH: &str = "/account";

/// The position of a section on the page, from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Profile,
    Address,
    Email,
    Password,
    #[cfg(feature = "passkeys")]
    Passkeys,
    #[cfg(feature = "two-factor")]
    SecondFactor,
    Providers,
    Tokens,
    #[cfg(feature = "authorization-server")]
    Programs,
    Sessions,
    Devices,
    Export,
    Deletion,
}

/// One part of the page.
#[async_trait]
pub(crate) trait Section: Send + Sync + 'static {
    /// Its position on the page.
    fn place(&self) -> Place;

    /// Its fragment in addresses: `sessions` of `/account#sessions`.
    fn anchor(&self) -> &'static str;

    /// The key of its heading.
    fn heading(&self) -> &'static str;

    /// The messages of [`SectionState::done`], by name, as keys of texts: `("session-ended",
    /// "account.sessions.ended")`.
    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Its markup, below the heading: a [`fragment`] of a template. `None` if there is nothing to show.
    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem>;

    /// The handlers of its forms, below [`PATH`].
    fn routes(self: Arc<Self>, _: &Arc<Account>) -> Router {
        Router::new()
    }
}

/// The viewer of the page.
pub(crate) struct Visit<'a> {
    /// The session that looks.
    pub(crate) session: &'a Session,
    /// The field `_csrf` for forms.
    pub(crate) csrf: Option<&'a str>,
    /// The headers of the request that looks.
    pub(crate) headers: &'a HeaderMap,
    /// Whether this session may do actions that need the second factor, if the user has one.
    pub(crate) stepped_up: bool,
}

/// The page and its sections.
pub(crate) struct Account {
    pub(crate) core: Arc<Core>,
    sections: Vec<Arc<dyn Section>>,
}

#[derive(Serialize)]
struct Context<'a> {
    /// Absent of a guest, whose page has no section either.
    email: Option<&'a str>,
    logout: String,
    csrf: Option<&'a str>,
    stepped_up: bool,
    /// Whether an operator acts as the user. The page then has no section, because none of them could be used.
    impersonated: bool,
    sections: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    anchor: &'static str,
    heading: &'static str,
    problem: Option<String>,
    notice: Option<&'static str>,
    markup: String,
}

/// `/account` and everything below it.
pub(crate) fn routes(core: Arc<Core>, mut sections: Vec<Arc<dyn Section>>) -> Router {
    if sections.is_empty() {
        return Router::new();
    }
    sections.sort_by_key(|section| section.place());
    let account = Arc::new(Account { core, sections });
    let own = Router::new().route(PATH, get(show)).with_state(account.clone());
    let parts = account.sections.iter().map(|section| section.clone().routes(&account));
    parts.fold(own, Router::merge).layer(layers::NoStoreLayer)
}

#[derive(serde::Deserialize)]
struct PageQuery {
    done: Option<String>,
}

async fn show(
    State(account): State<Arc<Account>>,
    Caller(identity): Caller,
    session: Result<Session, Problem>,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    match (session, identity) {
        (Ok(session), _) => account.page(&visitor, &session, None, query.done.as_deref()).await,
        // A program that shows a token sees no login screen, which would send it back here.
        (Err(problem), Identity::Known(_)) => problem.into_page(),
        (Err(problem), _) => account.send_to_sign_in(problem),
    }
}

impl Account {
    /// After a failure: the page again, with the status and, in the section, the message.
    async fn failed(&self, section: &dyn Section, visitor: &Visitor, session: &Session, problem: Problem) -> Response {
        if problem.status().is_server_error() {
            return problem.into_page();
        }
        let page = self.page(visitor, session, Some((section.anchor(), &problem)), None).await;
        if page.status() != StatusCode::OK {
            return page;
        }
        with_problem(&problem, page)
    }

    /// A form without a session: redirects to the sign-in screen, and back.
    fn send_to_sign_in(&self, problem: Problem) -> Response {
        let next = Next::parse(PATH);
        let second_factor = self.core.screens.get().and_then(|screens| screens.second_factor);
        match (problem.status(), second_factor) {
            (StatusCode::UNAUTHORIZED, _) => see_other(&with_next("/login", next.as_ref())),
            (StatusCode::FORBIDDEN, Some(screen)) => see_other(&with_next(screen, next.as_ref())),
            _ => problem.into_page(),
        }
    }

    async fn page(
        &self,
        visitor: &Visitor,
        session: &Session,
        trouble: Option<(&'static str, &Problem)>,
        done: Option<&str>,
    ) -> Response {
        match self.render(visitor, session, trouble, done).await {
            Ok(page) => page,
            Err(problem) => problem.into_page(),
        }
    }

    async fn render(
        &self,
        visitor: &Visitor,
        session: &Session,
        trouble: Option<(&'static str, &Problem)>,
        done: Option<&str>,
    ) -> Result<Response, Problem> {
        let csrf = visitor.csrf_field();
        let stepped_up = match step_up::require(&self.core, session).await {
            Ok(()) => true,
            Err(step_up::StepUpError::Required) => false,
            Err(error) => return Err(error.into()),
        };
        let visit = Visit { session, headers: &visitor.headers, csrf: csrf.as_deref(), stepped_up };
        let mut parts = Vec::new();
        let impersonated = session.impersonated_by().is_some();
        let has_sections = !impersonated && !session.user().is_guest();
        for section in self.sections.iter().filter(|_| has_sections) {
            // Only the section's own text is ever shown: the name comes from the URL.
            let said = section.notices().iter().find(|(name, _)| done == Some(*name));
            // A notice is shown even if the section has nothing else to show.
            let markup = match section.show(&visit).await? {
                Some(markup) => markup,
                None if said.is_some() => String::new(),
                None => continue,
            };
            let (anchor, heading) = (section.anchor(), section.heading());
            let problem = trouble.filter(|(at, _)| *at == anchor).map(|(_, problem)| problem.localized());
            parts.push(Part { anchor, heading, problem, notice: said.map(|(_, text)| *text), markup });
        }
        let context = Context {
            email: session.user().address().map(EmailAddress::as_str),
            logout: format!("{}/logout", self.core.config.base_path),
            csrf: csrf.as_deref(),
            stepped_up,
            impersonated,
            sections: parts,
        };
        Ok(passkeys_page(&self.core, "account.title", "account/page.html", &context))
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("sections", &self.sections.len()).finish_non_exhaustive()
    }
}
