use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::get;
use gatewright_base::Identity;
use gatewright_http::{Caller, Next, Problem, layers};
use http::header::WWW_AUTHENTICATE;
use serde::Serialize;

use super::{page, with_problem};
use crate::Core;
use crate::plugins::WayIn;
use crate::plugins::web::{Visitor, go_on, see_other};

/// `/login` and `/register`.
pub(crate) fn routes(core: Arc<Core>) -> Router {
    Router::new()
        .route("/login", get(login))
        .route("/register", get(register))
        .with_state(core)
        .layer(from_fn(layers::no_store))
}

/// The two forms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Login,
    Register,
}

#[derive(serde::Deserialize)]
struct Wish {
    next: Option<String>,
}

#[derive(Serialize)]
struct Context<'a> {
    action: String,
    email: &'a str,
    next: Option<&'a str>,
    other: String,
    ways_in: Vec<WayIn>,
    /// Where the form for a link by mail posts to.
    link_by_mail: Option<String>,
    problem: Option<&'a str>,
    csrf: Option<&'a str>,
}

async fn login(State(core): State<Arc<Core>>, caller: Caller, visitor: Visitor, Query(wish): Query<Wish>) -> Response {
    show(&core, Form::Login, &caller, &visitor, &wish)
}

async fn register(
    State(core): State<Arc<Core>>,
    caller: Caller,
    visitor: Visitor,
    Query(wish): Query<Wish>,
) -> Response {
    show(&core, Form::Register, &caller, &visitor, &wish)
}

fn show(core: &Core, form: Form, caller: &Caller, visitor: &Visitor, wish: &Wish) -> Response {
    let next = wish.next.as_deref().and_then(Next::parse);
    let second_factor = core.screens.get().and_then(|screens| screens.second_factor);
    match (&caller.0, second_factor) {
        (Identity::Known(_), _) => go_on(core, next.as_ref(), "/"),
        (Identity::Pending(_), Some(screen)) => see_other(&with_next(screen, next.as_ref())),
        _ => render(core, form, visitor, "", next.as_ref(), None),
    }
}

/// A form's failure: the form once more where the screens are mounted, a small page where they are not.
pub(crate) fn failed(
    core: &Core,
    form: Form,
    problem: Problem,
    visitor: &Visitor,
    email: &str,
    next: Option<&Next>,
) -> Response {
    if core.screens.get().is_none() || problem.status().is_server_error() {
        return problem.into_page();
    }
    // What was typed comes back to who typed it, cut to what an address can be.
    let email: String = email.chars().take(254).collect();
    let mut response = with_problem(&problem, render(core, form, visitor, &email, next, Some(&problem)));
    // It would make some browsers ask for a password of their own.
    response.headers_mut().remove(WWW_AUTHENTICATE);
    response
}

/// `path` with the place to go on to afterwards.
pub(crate) fn with_next(path: &str, next: Option<&Next>) -> String {
    match next {
        Some(next) => {
            let query =
                url::form_urlencoded::Serializer::new(String::new()).append_pair("next", next.as_str()).finish();
            format!("{path}?{query}")
        }
        None => path.to_owned(),
    }
}

fn render(
    core: &Core,
    form: Form,
    visitor: &Visitor,
    email: &str,
    next: Option<&Next>,
    problem: Option<&Problem>,
) -> Response {
    let base = &core.config.base_path;
    let (title, template, action, other) = match form {
        Form::Login => ("Sign in", "login.html", format!("{base}/login"), with_next("/register", next)),
        Form::Register => ("Create an account", "register.html", format!("{base}/register"), with_next("/login", next)),
    };
    let ways_in = core.screens.get().map(|screens| screens.ways_in.clone()).unwrap_or_default();
    let ways_in = ways_in.into_iter().map(|way| WayIn { href: with_next(&way.href, next), ..way }).collect();
    let offers_link = core.screens.get().is_some_and(|screens| screens.link_by_mail);
    let link_by_mail = offers_link.then(|| format!("{base}/magic-link/send"));
    let csrf = visitor.csrf_field();
    let context = Context {
        action,
        email,
        next: next.map(Next::as_str),
        other,
        ways_in,
        link_by_mail,
        problem: problem.map(Problem::detail),
        csrf: csrf.as_deref(),
    };
    page(title, template, &context)
}
