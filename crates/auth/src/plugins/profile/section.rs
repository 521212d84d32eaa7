use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use gatewright_http::{FieldError, Next, Problem, Query, Submission};
use serde::Serialize;
use serde_json::{Map, json};

use super::inputs::{Input, changes, labelled, shown};
use crate::profiles::{ChangeError, ProfileInput, Profiles};
use crate::screens::account::{Account, Owner, PATH, Place, Section, SectionState, Visit};
use crate::screens::{Messages, fragment, page, with_problem};
use crate::web::{Visitor, guarded, onward, redirect_next};

/// The page that asks for required fields after a sign-in.
pub(crate) const COMPLETE: &str = "/complete-profile";

/// The profile of the account.
pub(crate) struct ProfileSection {
    profiles: Profiles,
}

#[derive(Serialize)]
struct Context<'a> {
    inputs: Vec<Input<'a>>,
    #[serde(flatten)]
    messages: Messages,
    action: String,
    csrf: Option<&'a str>,
    next: Option<&'a str>,
}

impl ProfileSection {
    pub(crate) fn new(profiles: Profiles) -> Self {
        Self { profiles }
    }
}

#[async_trait]
impl Section for ProfileSection {
    fn place(&self) -> Place {
        Place::Profile
    }

    fn anchor(&self) -> &'static str {
        "profile"
    }

    fn heading(&self) -> &'static str {
        "account.profile.heading"
    }

    fn notices(&self) -> &'static [(&'static str, &'static str)] {
        &[("profile-changed", "account.profile.changed")]
    }

    fn shows_problems(&self) -> bool {
        true
    }

    async fn show(&self, visit: &Visit<'_>) -> Result<Option<String>, Problem> {
        let inputs = self.profiles.inputs();
        if inputs.is_empty() {
            return Ok(None);
        }
        let stored = self.profiles.of(&visit.session.user().id).await?;
        let inputs: Vec<_> = inputs.iter().map(|input| shown(input, stored.get(&input.key))).collect();
        let context = Context {
            messages: Messages::of(visit.problem, inputs.iter().map(Input::name)),
            inputs,
            action: format!("{PATH}/profile#{}", self.anchor()),
            csrf: visit.csrf,
            next: None,
        };
        fragment("account/profile.html", &context).map(Some)
    }

    fn routes(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let change = guarded(&account.core, None, post(change));
        Router::new().route("/account/profile", change).with_state(SectionState::new(self, account))
    }

    fn screens(self: Arc<Self>, account: &Arc<Account>) -> Router {
        let change = guarded(&account.core, None, post(change)).get(complete);
        Router::new().route(COMPLETE, change).with_state(SectionState::new(self, account))
    }
}

async fn change(
    State(state): State<SectionState<ProfileSection>>,
    visitor: Visitor,
    owner: Owner,
    submission: Submission<BTreeMap<String, String>>,
) -> Response {
    let (profiles, user) = (&state.section.profiles, &owner.0.user().id);
    let inputs = profiles.inputs();
    let changed = async {
        let changes = changes(&inputs, &profiles.of(user).await?, &submission.value);
        let body = json!({ "profile": changes }).to_string();
        profiles.change(&state.account.core.audit, user, (body.as_bytes(), false), &visitor.client).await
    };
    match changed.await {
        // Fields that stay empty are no change. Required ones are asked for again.
        Ok(()) if submission.next.is_some() => match profiles.missing_inputs(user).await {
            Ok(missing) if missing.is_empty() => redirect_next(&state.account.core, submission.next.as_ref(), "/"),
            Ok(missing) => {
                let required = |input: &ProfileInput| FieldError {
                    field: Some(input.key.clone().into()),
                    code: "required".into(),
                    message: "is required".into(),
                };
                let problem = Problem::unprocessable("").with_fields(missing.iter().map(required));
                again(&state, &visitor, &owner, &submission, labelled(problem, &missing)).await
            }
            Err(error) => state.failed(&visitor, &owner, error).await,
        },
        Ok(()) => state.done("profile-changed"),
        Err(ChangeError::Refused(problem)) if submission.next.is_some() => {
            again(&state, &visitor, &owner, &submission, labelled(problem, &inputs)).await
        }
        Err(ChangeError::Refused(problem)) => state.failed(&visitor, &owner, labelled(problem, &inputs)).await,
        Err(error) => state.failed(&visitor, &owner, error).await,
    }
}

/// The page that asks for required fields, with what was typed and what is wrong with it.
async fn again(
    state: &SectionState<ProfileSection>,
    visitor: &Visitor,
    owner: &Owner,
    submission: &Submission<BTreeMap<String, String>>,
    problem: Problem,
) -> Response {
    match ask(state, visitor, owner, submission.next.as_ref(), &submission.value, Some(&problem)).await {
        Ok(page) => with_problem(&problem, page),
        Err(problem) => problem.into_page(),
    }
}

/// Asks for the required fields that the account does not have, before the way continues.
async fn complete(
    State(state): State<SectionState<ProfileSection>>,
    visitor: Visitor,
    owner: Owner,
    Query(query): Query<PageQuery>,
) -> Response {
    let core = &state.account.core;
    let next = query.next.as_deref().and_then(|text| core.redirects.next(text));
    match ask(&state, &visitor, &owner, next.as_ref(), &BTreeMap::new(), None).await {
        Ok(page) => page,
        Err(problem) => problem.into_page(),
    }
}

#[derive(serde::Deserialize)]
struct PageQuery {
    next: Option<String>,
}

#[derive(Serialize)]
struct Asked<'a> {
    inputs: Vec<Input<'a>>,
    action: &'static str,
    #[serde(flatten)]
    messages: Messages,
    csrf: Option<&'a str>,
    next: &'a str,
}

async fn ask(
    state: &SectionState<ProfileSection>,
    visitor: &Visitor,
    owner: &Owner,
    next: Option<&Next>,
    typed: &BTreeMap<String, String>,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let missing = state.section.profiles.missing_inputs(&owner.0.user().id).await?;
    if missing.is_empty() {
        return Ok(redirect_next(&state.account.core, next, "/"));
    }
    let typed = changes(&missing, &Map::new(), typed);
    let csrf = visitor.csrf_field();
    let inputs: Vec<_> = missing.iter().map(|input| shown(input, typed.get(&input.key))).collect();
    let messages = Messages::of(problem, inputs.iter().map(Input::name));
    let context = Asked {
        inputs,
        action: COMPLETE,
        messages,
        csrf: csrf.as_deref(),
        next: onward(&state.account.core, next, "/"),
    };
    Ok(page("profile.title", "complete_profile.html", &context))
}
