use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use gatewright_base::Secret;
use gatewright_http::{Problem, Query, Submission};
use serde::Serialize;
use serde_json::json;

use super::flow::{ChangeError, Flow};
use crate::fresh::{FreshError, Given};
use crate::plugins::web::{By, Visitor, guarded, own_site_only};
use crate::screens::{mailed, page};
use crate::session::Session;
use crate::{EmailAddress, problem};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    let core = flow.core.clone();
    let confirm = guarded(&core, None, own_site_only(&core, post(confirm)).get(ask));
    let undo = guarded(&core, None, own_site_only(&core, post(undo)).get(ask_back));
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
    fn token(self) -> Secret {
        self.token.unwrap_or_else(|| Secret::new(""))
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
    csrf: Option<&'a str>,
}

/// For a session alone, and a fresh proof.
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
    match flow.request(&session, &email, &submission.value.given, &visitor.client).await {
        Ok(()) if kind.is_form() => mailed::link_is_on_its_way(),
        Ok(()) => Json(json!({ "sent": true })).into_response(),
        Err(ChangeError::Fresh(FreshError::Denied(denied))) => denied.into_response(),
        Err(error) => kind.refuse(error.into()),
    }
}

/// The page that asks. It changes nothing, whoever opens it.
async fn ask(State(flow): State<Arc<Flow>>, visitor: Visitor, Query(link): Query<Link>) -> Response {
    let token = link.token();
    match flow.look(&token).await {
        Ok(email) => asking(
            &visitor,
            &Ask {
                title: "Confirm your new address",
                text: format!("{email} becomes the address of your account. You sign in with it from now on."),
                action: format!("{}/change-email/confirm", flow.core.config.base_path),
                token: token.expose(),
                button: "Use this address",
                note: "If you did not ask for this, close this page: nothing changes.",
                csrf: None,
            },
        ),
        Err(error) => Problem::from(error).answer_link(&visitor.headers),
    }
}

async fn confirm(State(flow): State<Arc<Flow>>, visitor: Visitor, submission: Submission<Link>) -> Response {
    let kind = submission.kind;
    match flow.confirm(&submission.value.token(), &visitor.client).await {
        Ok(()) if kind.is_form() => {
            mailed::note("Address changed", "Your account has its new address.", Some(("/", "Continue")))
        }
        Ok(()) => Json(json!({ "changed": true })).into_response(),
        Err(error) => kind.refuse(error.into()),
    }
}

/// The page that asks whether to undo a change.
async fn ask_back(State(flow): State<Arc<Flow>>, visitor: Visitor, Query(link): Query<Link>) -> Response {
    let token = link.token();
    match flow.look_back(&token).await {
        Ok(email) => asking(
            &visitor,
            &Ask {
                title: "Undo the change of address",
                text: format!(
                    "The account gets the address {email} back and is signed out everywhere. Its password, API tokens and linked \
                 providers are removed, and so are passkeys and a second factor that were added since."
                ),
                action: format!("{}/change-email/undo", flow.core.config.base_path),
                token: token.expose(),
                button: "Undo the change",
                note: "If you changed the address yourself, close this page: nothing changes.",
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
            let onward = flow.core.screens.get().map(|_| (mailed::FORGOT_PATH, "Choose a new password"));
            mailed::note("Change undone", "Your account has this address again. Everybody was signed out.", onward)
        }
        Ok(()) => Json(json!({ "undone": true })).into_response(),
        Err(error) => kind.refuse(error.into()),
    }
}

fn asking(visitor: &Visitor, ask: &Ask<'_>) -> Response {
    let csrf = visitor.csrf_field();
    let Ask { title, text, action, token, button, note, .. } = ask;
    let (text, action) = (text.clone(), action.clone());
    page(title, "ask.html", &Ask { title, text, action, token, button, note, csrf: csrf.as_deref() })
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::SameAddress => Self::invalid_field("email", "unchanged", error.to_string()),
            ChangeError::InvalidToken => problem::invalid_token(),
            ChangeError::TooOften => Self::conflict(error.to_string()).with_code("too_many_changes"),
            ChangeError::Fresh(error) => error.into(),
            ChangeError::Users(error) => error.into(),
            ChangeError::Tokens(error) => problem::store_failed(&error),
            ChangeError::Sessions(error) => error.into(),
            ChangeError::Store(error) => problem::store_failed(&error),
            ChangeError::Credentials(error) => problem::store_failed(&*error),
        }
    }
}
