//! `/account`, where users see and change their account: a page for each [`AccountPage`], with a menu.
//!
//! A page is composed of [`Section`]s of plugins (`Prepared::account_section`). Each is the file `section.rs` of its
//! plugin, with the handlers of its forms, and is independent of the others. [`Account`] orders them by their
//! [`Place`], which also names their page. A form's handler has a [`SectionState`], which answers: [`SectionState::done`]
//! after a change, [`SectionState::failed`] with the page again and the message in its section.
//!
//! A page without sections, and one that the operator has turned off, does not exist, and nor do the forms on it.
//!
//! The pages need a session. An anonymous caller is redirected to `/login` and back, a pending session to the screen of
//! the second factor. `/account` leads to the first page. For guests and for operators who act as users it is a page of its
//! own, without sections: they could use none.

mod browsers;
mod moment;
mod pages;
mod section_state;

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use gatewright_base::Identity;
use gatewright_http::html::Width;
use gatewright_http::{Caller, Next, Problem, Query, layers};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::passkeys::page_of as page_with_passkeys;
use super::paths::with_next;
use super::{page_of, with_problem};
use crate::core::Core;
use crate::email::EmailAddress;
use crate::session::Session;
use crate::step_up;
use crate::web::{Visitor, see_other};

pub(crate) use browsers::{Browser, Browsers, Words};
pub(crate) use moment::Moment;
pub use pages::AccountPage;
use pages::MenuItem;
pub(crate) use section_state::{Owner, SectionState};

/// The path of the account, which leads to its first page. The forms of sections post to paths below it, or to the routes
/// that scripts use.
pub(crate) const PATH: &str = "/account";

/// The position of a section, from top to bottom.
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
    Organisations,
    Tokens,
    #[cfg(feature = "authorization-server")]
    Programs,
    Sessions,
    Devices,
    Export,
    Deletion,
}

/// One part of a page.
#[async_trait]
pub(crate) trait Section: Send + Sync + 'static {
    /// Its position.
    fn place(&self) -> Place;

    /// Its fragment in addresses: `sessions` of `/account/devices#sessions`.
    fn anchor(&self) -> &'static str;

    /// The key of its heading.
    fn heading(&self) -> &'static str;

    /// The messages of [`SectionState::done`], by name, as keys of texts: `("session-ended",
    /// "account.sessions.ended")`.
    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether its markup has the messages of a refused form at their fields. Otherwise the page has them above it.
    fn shows_problems(&self) -> bool {
        false
    }

    /// Its markup, below the heading: a [`fragment`] of a template. `None` if there is nothing to show.
    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem>;

    /// The handlers of its forms, below [`PATH`].
    fn routes(self: Arc<Self>, _: &Arc<Account>) -> Router {
        Router::new()
    }

    /// Its screens that are no part of a page, and are there even if its page is turned off.
    fn screens(self: Arc<Self>, _: &Arc<Account>) -> Router {
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
    /// Why a form of this section was refused, if it is shown again.
    pub(crate) problem: Option<&'a Problem>,
}

/// The pages and their sections.
pub(crate) struct Account {
    pub(crate) core: Arc<Core>,
    sections: Vec<Arc<dyn Section>>,
}

#[derive(Serialize)]
struct Context<'a> {
    title: &'static str,
    /// Absent of a guest, whose page has no section either.
    email: Option<&'a str>,
    logout: String,
    csrf: Option<&'a str>,
    stepped_up: bool,
    /// Whether an operator acts as the user. The page then has no section, because none of them could be used.
    impersonated: bool,
    menu: Vec<MenuItem>,
    sections: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    anchor: &'static str,
    heading: &'static str,
    /// Whether it continues the section above.
    joined: bool,
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
    let is_on = |section: &Arc<dyn Section>| core.config.account_pages.contains(&section.place().page());
    let (shown, hidden): (Vec<_>, Vec<_>) = sections.into_iter().partition(is_on);
    let account = Arc::new(Account { core, sections: shown });
    let mut own = Router::new().route(PATH, get(enter)).with_state(account.clone());
    for page in account.pages() {
        let state = PageState { account: account.clone(), page };
        own = own.route(page.path(), get(show).with_state(state));
    }
    let parts = account.sections.iter().map(|section| section.clone().routes(&account));
    let screens = account.sections.iter().chain(&hidden).map(|section| section.clone().screens(&account));
    parts.chain(screens).fold(own, Router::merge).layer(layers::NoStoreLayer)
}

#[derive(Clone)]
struct PageState {
    account: Arc<Account>,
    page: AccountPage,
}

#[derive(serde::Deserialize)]
struct PageQuery {
    done: Option<String>,
}

/// Leads to the first page.
async fn enter(
    State(account): State<Arc<Account>>,
    Caller(identity): Caller,
    session: Result<Session, Problem>,
    visitor: Visitor,
) -> Response {
    match (session, identity) {
        (Ok(session), _) => match account.pages().first().filter(|_| can_use_sections(&session)) {
            Some(page) => see_other(page.path()),
            None => account.page(None, &visitor, &session, None, None).await,
        },
        // A program that shows a token sees no login screen, which would send it back here.
        (Err(problem), Identity::Known(_)) => problem.into_page(),
        (Err(problem), _) => account.send_to_sign_in(problem, PATH),
    }
}

async fn show(
    State(PageState { account, page }): State<PageState>,
    Caller(identity): Caller,
    session: Result<Session, Problem>,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    match (session, identity) {
        (Ok(session), _) => account.page(Some(page), &visitor, &session, None, query.done.as_deref()).await,
        (Err(problem), Identity::Known(_)) => problem.into_page(),
        (Err(problem), _) => account.send_to_sign_in(problem, page.path()),
    }
}

/// Not a guest, nor an operator who acts as a user.
fn can_use_sections(session: &Session) -> bool {
    session.impersonated_by().is_none() && !session.user().is_guest()
}

impl Account {
    /// The pages that exist, in the order of the menu.
    fn pages(&self) -> Vec<AccountPage> {
        let exists = |page: &AccountPage| self.sections.iter().any(|section| section.place().page() == *page);
        AccountPage::ALL.into_iter().filter(exists).collect()
    }

    /// After a failure: the page again, with the status and, in the section, the message.
    async fn failed(&self, section: &dyn Section, visitor: &Visitor, session: &Session, problem: Problem) -> Response {
        if problem.status().is_server_error() {
            return problem.into_page();
        }
        let (page, trouble) = (section.place().page(), (section.anchor(), &problem));
        let page = self.page(Some(page), visitor, session, Some(trouble), None).await;
        if page.status() != StatusCode::OK {
            return page;
        }
        with_problem(&problem, page)
    }

    /// A form without a session: redirects to the sign-in screen, and back.
    fn send_to_sign_in(&self, problem: Problem, path: &str) -> Response {
        let next = Next::parse(path);
        let second_factor = self.core.screens.get().and_then(|screens| screens.second_factor);
        match (problem.status(), second_factor) {
            (StatusCode::UNAUTHORIZED, _) => see_other(&with_next("/login", next.as_ref())),
            (StatusCode::FORBIDDEN, Some(screen)) => see_other(&with_next(screen, next.as_ref())),
            _ => problem.into_page(),
        }
    }

    /// A page, or `/account` itself for a session that can use none.
    async fn page(
        &self,
        page: Option<AccountPage>,
        visitor: &Visitor,
        session: &Session,
        trouble: Option<(&'static str, &Problem)>,
        done: Option<&str>,
    ) -> Response {
        match self.render(page, visitor, session, trouble, done).await {
            Ok(page) => page,
            Err(problem) => problem.into_page(),
        }
    }

    async fn render(
        &self,
        page: Option<AccountPage>,
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
        let page = page.filter(|_| can_use_sections(session));
        let mut parts: Vec<Part> = Vec::new();
        for section in self.sections.iter().filter(|section| page == Some(section.place().page())) {
            let (anchor, heading) = (section.anchor(), section.heading());
            let trouble = trouble.filter(|(at, _)| *at == anchor).map(|(_, problem)| problem);
            let visit =
                Visit { session, headers: &visitor.headers, csrf: csrf.as_deref(), stepped_up, problem: trouble };
            // Only the section's own text is ever shown: the name comes from the URL.
            let said = section.notices().iter().find(|(name, _)| done == Some(*name));
            // A notice is shown even if the section has nothing else to show.
            let markup = match section.show(&visit).await? {
                Some(markup) => markup,
                None if said.is_some() => String::new(),
                None => continue,
            };
            let joined = section.place() == Place::Email && !parts.is_empty();
            let problem = trouble.filter(|_| !section.shows_problems()).map(Problem::localized);
            let notice = said.map(|(_, text)| *text);
            parts.push(Part { anchor, heading, joined, problem, notice, markup });
        }
        let menu = page.map_or_else(Vec::new, |_| self.pages());
        let title = page.map_or("account.title", AccountPage::title);
        let context = Context {
            title,
            email: session.user().address().map(EmailAddress::as_str),
            logout: format!("{}/logout", self.core.config.base_path),
            csrf: csrf.as_deref(),
            stepped_up,
            impersonated: session.impersonated_by().is_some(),
            menu: menu.into_iter().map(|item| MenuItem::new(item, page)).collect(),
            sections: parts,
        };
        let template = "account/page.html";
        Ok(match page {
            None => page_of(Width::Card, title, template, &context),
            Some(AccountPage::SignIn) => page_with_passkeys(&self.core, Width::Wide, title, template, &context),
            Some(_) => page_of(Width::Wide, title, template, &context),
        })
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("sections", &self.sections.len()).finish_non_exhaustive()
    }
}
