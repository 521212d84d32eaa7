use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Query, Submission, locale};
use serde::Serialize;
use serde_json::json;

use super::flow::{ChangeError, Confirmation, Flow};
use crate::email::EmailAddress;
use crate::fresh::{FreshError, Given};
use crate::problem;
use crate::screens::{Messages, mailed, page, with_problem};
use crate::session::{AnySession, Session};
use crate::single_use::Purpose;
use crate::single_use::codes::{CodeError, Returned};
use crate::web::{self, By, Visitor, guarded, own_site_only, with_cookie};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let confirm = guarded(&core, None, own_site_only(&core, post(confirm)).get(ask));
    let undo = guarded(&core, None, own_site_only(&core, post(undo)).get(show_undo));
    Router::new()
        .route("/change-email", guarded(&core, None, post(request)))
        .route("/change-email/confirm", confirm)
        .route("/change-email/undo", undo)
        .with_state(flow)
}

#[derive(serde::Deserialize)]
struct Body {
    email: String,
    #[serde(flatten)]
    given: Given,
}

#[derive(serde::Deserialize)]
struct Link {
    token: Option<Secret>,
}

impl Link {
    fn token(&self) -> Secret {
        self.token.clone().unwrap_or_else(|| Secret::new(""))
    }
}

#[derive(Serialize)]
struct Ask<'a> {
    title: &'a str,
    text: String,
    action: String,
    token: &'a str,
    button: &'a str,
    note: &'a str,
    /// Whether the form asks for the code on the page that requested the change.
    code: bool,
    #[serde(flatten)]
    messages: Messages,
    csrf: Option<&'a str>,
}

/// Only for a session with a fresh proof.
async fn request(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    By(session): By<Session>,
    submission: Submission<Body>,
) -> Response {
    let kind = submission.kind;
    if !flow.can_be_sent() {
        return kind.refuse(problem::not_configured("email delivery not configured"));
    }
    let Ok(email) = EmailAddress::parse(&submission.value.email) else {
        return kind.refuse(Problem::invalid_field("email", "invalid", "not a valid email address"));
    };
    let drawn = flow.links.draw(kind.is_form());
    let answer = match flow.request(&drawn, &session, &email, &submission.value.given, &visitor.client).await {
        Ok(()) if kind.is_form() => mailed::check_mail_showing(&flow.core, &visitor, &flow.links.shown_code(&drawn)),
        Ok(()) => Json(json!({ "sent": true })).into_response(),
        Err(ChangeError::Fresh(FreshError::Denied(denied))) => return denied.into_response(),
        Err(error) => return kind.refuse(error.into()),
    };
    with_cookie(answer, flow.links.cookie(&drawn))
}

/// The confirmation page. Opening it changes nothing.
async fn ask(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    session: Result<AnySession, Problem>,
    Query(link): Query<Link>,
) -> Response {
    ask_for(&flow, &visitor, session.ok().as_ref(), &link.token(), None).await
}

async fn ask_for(
    flow: &Flow,
    visitor: &Visitor,
    session: Option<&AnySession>,
    token: &Secret,
    problem: Option<&Problem>,
) -> Response {
    match flow.look(token, session).await {
        Ok(asked) => asking(
            visitor,
            problem,
            &Ask {
                title: "email_change.title",
                text: locale::text(
                    "email_change.text",
                    &[("email", asked.to.as_str()), ("account", asked.account.as_str())],
                ),
                action: format!("{}/change-email/confirm", flow.core.config.base_path),
                token: token.expose(),
                button: "email_change.button",
                note: "email_change.note",
                code: !asked.is_signed_in,
                messages: Messages::default(),
                csrf: None,
            },
        ),
        Err(error) => refusal(flow, error).answer_link(&visitor.headers),
    }
}

/// A refusal of the link to a new address, with the way to another one.
fn refusal(flow: &Flow, error: ChangeError) -> Problem {
    match error {
        ChangeError::InvalidToken => web::spent_link(&flow.core, "way_on.new_link_by_account", "/account"),
        error => error.into(),
    }
}

async fn confirm(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    session: Result<AnySession, Problem>,
    submission: Submission<Returned>,
) -> Response {
    let (kind, given, session) = (submission.kind, &submission.value, session.ok());
    let returned = match (flow.links.codes.of_account(given, &visitor.headers).await, &given.token) {
        (Ok(returned), _) => returned,
        // The page of a link, in a browser that is not signed in to the account.
        (Err(error @ CodeError::Invalid), Some(token)) if kind.is_form() => {
            return ask_for(&flow, &visitor, session.as_ref(), token, Some(&error.into())).await;
        }
        (Err(error), _) => {
            return mailed::code_refused(&flow.core, &visitor, kind, Purpose::EmailChange, None, error);
        }
    };
    let token = returned.token.clone();
    let admitted = match flow.admit(&Confirmation { returned, session: session.as_ref() }).await {
        Ok(admitted) => admitted,
        Err(error @ ChangeError::Unconfirmed { .. }) if kind.is_form() => {
            return ask_for(&flow, &visitor, session.as_ref(), &token, Some(&error.into())).await;
        }
        Err(error) => return kind.refuse(refusal(&flow, error)),
    };
    let answer = match flow.confirm(admitted, &visitor.client).await {
        Ok(()) if kind.is_form() => {
            let text = locale::text("email_change.done", &[]);
            mailed::note("email_change.done_title", &text, Some(("/", "form.continue")))
        }
        Ok(()) => Json(json!({ "changed": true })).into_response(),
        Err(error) => return kind.refuse(refusal(&flow, error)),
    };
    with_cookie(answer, flow.links.codes.remove_cookie())
}

/// The page that asks whether to undo a change.
async fn show_undo(State(flow): State<Arc<Flow>>, visitor: Visitor, Query(link): Query<Link>) -> Response {
    let token = link.token();
    match flow.look_back(&token).await {
        Ok(email) => asking(
            &visitor,
            None,
            &Ask {
                title: "email_change.undo_title",
                text: locale::text("email_change.undo_text", &[("email", email.as_str())]),
                action: format!("{}/change-email/undo", flow.core.config.base_path),
                token: token.expose(),
                button: "email_change.undo_button",
                note: "email_change.undo_note",
                code: false,
                messages: Messages::default(),
                csrf: None,
            },
        ),
        Err(error) => Problem::from(error).answer_link(&visitor.headers),
    }
}

async fn undo(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Link>) -> Response {
    let kind = submission.kind;
    match flow.undo(&submission.value.token(), &visitor.client).await {
        Ok(()) if kind.is_form() => {
            let onward = flow.core.screens.get().map(|_| (mailed::FORGOT_PATH, "reset.title"));
            mailed::note("email_change.undone_title", &locale::text("email_change.undone", &[]), onward)
        }
        Ok(()) => Json(json!({ "undone": true })).into_response(),
        Err(error) => kind.refuse(error.into()),
    }
}

fn asking(visitor: &Visitor, problem: Option<&Problem>, ask: &Ask<'_>) -> Response {
    let csrf = visitor.csrf_field();
    let Ask { title, text, action, token, button, note, code, .. } = ask;
    let (text, action, code) = (text.clone(), action.clone(), *code);
    let messages = Messages::of(problem, code.then_some("code"));
    let [heading, button, note] = [title, button, note].map(|key| locale::text(key, &[]));
    let (button, note, csrf) = (&*button, &*note, csrf.as_deref());
    let ask = Ask { title: &heading, text, action, token, button, note, code, messages, csrf };
    let page = page(title, "ask.html", &ask);
    match problem {
        Some(problem) => with_problem(problem, page),
        None => page,
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::SameAddress => Self::invalid_field("email", "unchanged", error.to_string()),
            ChangeError::InvalidToken => problem::invalid_token(),
            ChangeError::Unconfirmed { .. } => Self::forbidden(error.to_string()).with_code("confirmation_required"),
            ChangeError::AddressInUse => Self::conflict(error.to_string()).with_code("former_address_taken"),
            ChangeError::TooOften => Self::conflict(error.to_string()).with_code("too_many_changes"),
            ChangeError::Fresh(error) => error.into(),
            ChangeError::Users(error) => error.into(),
            ChangeError::Tokens(error) => problem::store_failed(&error),
            ChangeError::Prove(error) => error.into(),
            ChangeError::Store(error) => problem::store_failed(&error),
            ChangeError::Credentials(error) => problem::store_failed(&*error),
        }
    }
}
