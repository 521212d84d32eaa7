use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use gatewright_base::{Credential, Identity, Secret};
use gatewright_http::locale::Locale;
use gatewright_http::{Caller, Next, Problem, ProblemLink, Query, Submission, layers};
use serde::Serialize;
use serde_json::Map;

use crate::config::Registration;
use crate::core::Core;
use crate::plugins::invitations::{self, Opened};
use crate::plugins::profile::inputs::{Input, changes, shown};
use crate::problem::registration_closed;
use crate::screens::mailed::FORGOT_PATH;
use crate::screens::marks::mark;
use crate::screens::passkeys::{self, Offer};
use crate::screens::paths::{AS_OTHER, with_next};
use crate::screens::{Messages, PasswordRule, page, with_problem};
use crate::sign_in_methods::SignInLink;
use crate::web::{Visitor, redirect_next, see_other};

/// `/login` and `/register`.
pub(crate) fn routes(core: Arc<Core>) -> Router {
    Router::new()
        .route("/login", get(login))
        .route("/register", get(register))
        .with_state(core)
        .layer(layers::NoStoreLayer)
}

/// The two forms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Login,
    Register,
}

#[derive(serde::Deserialize)]
struct PageQuery {
    next: Option<String>,
    /// The token of an invitation.
    invite: Option<Secret>,
    /// `other`: sign in as another account.
    r#as: Option<String>,
    /// The address that a program expects.
    login_hint: Option<String>,
}

impl PageQuery {
    fn is_as_other(&self) -> bool {
        self.r#as.as_deref() == Some(AS_OTHER.1)
    }
}

#[derive(Serialize)]
struct Context<'a> {
    action: String,
    email: &'a str,
    invite: Option<&'a str>,
    /// The name of the invitation's tenant.
    tenant: Option<&'a str>,
    /// Whether people may register by themselves.
    open: bool,
    next: Option<&'a str>,
    other: String,
    /// The buttons of providers.
    providers: Vec<Shown>,
    /// Further links.
    others: Vec<Shown>,
    /// The way to a new password.
    forgot: Option<String>,
    /// Where the form for a link by mail posts to.
    link_by_mail: Option<String>,
    /// Where the form for a code by mail posts to.
    code_by_mail: Option<String>,
    passkeys: Option<Offer>,
    conditional: bool,
    password_rule: PasswordRule,
    #[serde(flatten)]
    messages: Messages,
    /// The required fields of the profile.
    inputs: Vec<Input<'a>>,
    /// The account that is signed in, if the user shall sign in as another one.
    signed_in: Option<&'a str>,
    csrf: Option<&'a str>,
}

async fn login(
    State(core): State<Arc<Core>>,
    caller: Caller,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    show(&core, Form::Login, &caller, &visitor, &query)
}

async fn register(
    State(core): State<Arc<Core>>,
    caller: Caller,
    visitor: Visitor,
    Query(query): Query<PageQuery>,
) -> Response {
    if let (Some(token), Some(flow)) = (&query.invite, invitations::Flow::new(&core)) {
        let next = query.next.as_deref().and_then(|text| core.redirects.next(text));
        return match invitations::open(&flow, &caller, &visitor, token, next.as_ref(), query.is_as_other()).await {
            Opened::Page(page) => page,
            Opened::Registration { invitation, tenant } => {
                let email = invitation.email.as_str();
                let typed = Typed { email, invite: Some(token), tenant: tenant.as_deref(), ..Typed::default() };
                render(&core, Form::Register, &visitor, typed, next.as_ref(), None)
            }
        };
    }
    if core.config.registration != Registration::Open {
        return registration_closed().with_link(ProblemLink::new("way_on.sign_in", "/login")).into_page();
    }
    show(&core, Form::Register, &caller, &visitor, &query)
}

fn show(core: &Core, form: Form, caller: &Caller, visitor: &Visitor, query: &PageQuery) -> Response {
    let next = query.next.as_deref().and_then(|text| core.redirects.next(text));
    let second_factor = core.screens.get().and_then(|screens| screens.second_factor);
    let as_other = query.is_as_other();
    match (&caller.0, second_factor) {
        // Only a session is redirected onward: a page that requires a session would send all others back here, in an
        // endless loop.
        (Identity::Known(principal), _) if matches!(principal.credential, Credential::Session { .. }) && !as_other => {
            redirect_next(core, next.as_ref(), "/")
        }
        (Identity::Pending(_), Some(screen)) => see_other(&with_next(screen, next.as_ref())),
        (identity, _) => {
            let signed_in = identity.principal().and_then(|principal| principal.email.as_deref()).filter(|_| as_other);
            let email = query.login_hint.as_deref().unwrap_or_default();
            render(core, form, visitor, Typed { email, signed_in, ..Typed::default() }, next.as_ref(), None)
        }
    }
}

/// A link of the screen, in words of its reader.
#[derive(Serialize)]
struct Shown {
    label: String,
    href: String,
    /// The mark of a provider.
    mark: Option<&'static str>,
}

impl SignInLink {
    fn for_reader(&self, next: Option<&Next>) -> Shown {
        let name = self.provider.as_ref().map_or("", |provider| &provider.label);
        let label = Locale::current().find(&self.label, &[("name", name)]).unwrap_or_else(|| self.label.clone());
        let mark = self.provider.as_ref().and_then(|provider| mark(&provider.name));
        Shown { label, href: with_next(&self.href, next), mark }
    }
}

/// The known values of the form.
#[derive(Clone, Copy, Default)]
pub(crate) struct Typed<'a> {
    pub(crate) email: &'a str,
    pub(crate) invite: Option<&'a Secret>,
    /// The name of the invitation's tenant.
    pub(crate) tenant: Option<&'a str>,
    pub(crate) signed_in: Option<&'a str>,
    /// The fields of the profile.
    pub(crate) inputs: Option<&'a BTreeMap<String, String>>,
}

/// A form's failure: the form again if the screens are mounted, otherwise a small page.
pub(crate) fn failed(
    core: &Core,
    form: Form,
    problem: Problem,
    visitor: &Visitor,
    typed: Typed<'_>,
    next: Option<&Next>,
) -> Response {
    if core.screens.get().is_none() || problem.status().is_server_error() {
        return problem.into_page();
    }
    // The typed text is shown again only to the user who typed it, cut to the length of an address.
    let email: String = typed.email.chars().take(254).collect();
    let typed = Typed { email: &email, ..typed };
    with_problem(&problem, render(core, form, visitor, typed, next, Some(&problem)))
}

/// The sign-in form again, with a message at the address for which no mail can be sent. In the caller's format.
pub(crate) fn refuse_address<T>(
    core: &Core,
    visitor: &Visitor,
    email: &str,
    problem: Problem,
    submission: &Submission<T>,
) -> Response {
    if !submission.kind.is_form() {
        return submission.kind.refuse(problem);
    }
    failed(core, Form::Login, problem, visitor, Typed { email, ..Typed::default() }, submission.next.as_ref())
}

fn render(
    core: &Core,
    form: Form,
    visitor: &Visitor,
    typed: Typed<'_>,
    next: Option<&Next>,
    problem: Option<&Problem>,
) -> Response {
    let base = &core.config.base_path;
    let (title, template, action, other) = match form {
        Form::Login => ("sign_in.title", "login.html", format!("{base}/login"), with_next("/register", next)),
        Form::Register => ("register.title", "register.html", format!("{base}/register"), with_next("/login", next)),
    };
    let screens = core.screens.get();
    let links = screens.map(|screens| &screens.sign_in_links[..]).unwrap_or_default();
    let (providers, links): (Vec<_>, Vec<_>) = links.iter().partition(|link| link.provider.is_some());
    let (forgot, others): (Vec<_>, Vec<_>) = links.into_iter().partition(|link| link.href == FORGOT_PATH);
    let offers = |route: &str, is_offered: bool| is_offered.then(|| format!("{base}/{route}/send"));
    let required = match (form, &core.profiles) {
        (Form::Register, Some(profiles)) => profiles.required_inputs(),
        _ => Vec::new(),
    };
    let stored = changes(&required, &Map::new(), typed.inputs.unwrap_or(&BTreeMap::new()));
    let inputs: Vec<_> = required.iter().map(|input| shown(input, stored.get(&input.key))).collect();
    let fields = ["email", "password"].into_iter().chain(inputs.iter().map(Input::name));
    let messages = Messages::of(problem, fields);
    let csrf = visitor.csrf_field();
    let context = Context {
        action,
        email: typed.email,
        invite: typed.invite.map(Secret::expose),
        tenant: typed.tenant,
        open: core.config.registration == Registration::Open,
        signed_in: typed.signed_in,
        next: next.map(Next::as_str),
        other,
        // An invitation is accepted by the form, not by a provider.
        providers: providers.iter().filter(|_| typed.invite.is_none()).map(|link| link.for_reader(next)).collect(),
        others: others.iter().map(|link| link.for_reader(next)).collect(),
        forgot: forgot.first().map(|link| with_next(&link.href, next)),
        link_by_mail: screens.and_then(|screens| offers("magic-link", screens.link_by_mail)),
        code_by_mail: screens.and_then(|screens| offers("email-code", screens.code_by_mail)),
        passkeys: matches!(form, Form::Login).then(|| Offer::new(core, next)).flatten(),
        conditional: true,
        password_rule: PasswordRule::of(&core.passwords),
        inputs,
        messages,
        csrf: csrf.as_deref(),
    };
    match form {
        Form::Login => passkeys::page(core, title, template, &context),
        Form::Register => page(title, template, &context),
    }
}
