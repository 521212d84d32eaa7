//! The layers for browsers: CSRF tokens, and the browser backend for pages on another origin.

use axum::routing::get;
use axum::{Extension, Router};
use gatewright_auth::Auth;
use gatewright_base::Ambient;
use gatewright_entities::TENANT_HEADER;
use gatewright_http::browser::BrowserGuard;
use gatewright_http::csrf::csrf_token;
use gatewright_http::layers::AnswerBudgetLayer;
use gatewright_http::{AllowedOrigins, BrowserBackend, Csrf, Origin};
use http::Method;
use tower::ServiceBuilder;

use super::BuildError;
use crate::Config;
use crate::config::{Fault, Faults};
use crate::functions::{self, Functions};

/// The layers that `[csrf]` and `[browser_backend]` ask for.
pub(super) struct Browsers {
    csrf: Option<Csrf>,
    /// The routes that go with it.
    routes: Router,
    backend: Option<BrowserBackend>,
    allowed: Option<AllowedOrigins>,
}

impl Browsers {
    pub(super) fn new(config: &Config, ambient: &Ambient, functions: Option<&Functions>) -> Result<Self, BuildError> {
        let base = &*config.auth.base_path;
        let allowed = config.browser_backend.is_some().then(|| allowed(config)).transpose()?;
        let backend = allowed.clone().map(|allowed| backend(config, base, allowed)).transpose()?;
        if !config.csrf.enabled && backend.is_none() {
            return Ok(Self { csrf: None, routes: Router::new(), backend, allowed });
        }
        let csrf = csrf(config, ambient)?;
        // Programs post there, and their cookies have no meaning.
        // The handler of `end_session` compares the form's seal.
        let programs = ["token", "revoke", "introspect", "register", "device_authorization", "userinfo", "end_session"];
        let programs = programs.iter().filter(|_| config.authorization_server.enabled);
        let csrf = programs.fold(csrf, |csrf, path| csrf.exempt(Method::POST, format!("{base}/oauth2/{path}")));
        let csrf = posted(config).fold(csrf, |csrf, path| csrf.exempt(Method::POST, path));
        let csrf = csrf.sessions_only(&format!("{}/", functions::PREFIX));
        let open = functions.into_iter().flat_map(Functions::open_routes);
        let open = open.filter_map(|(method, path)| Some((method.parse::<Method>().ok()?, path)));
        let csrf = open.fold(csrf, |csrf, (method, path)| csrf.exempt(method, path));
        let csrf = match &backend {
            Some(backend) => backend.csrf(csrf),
            // Signing out must work without the token; the handler itself refuses other sites' forms.
            None => csrf.exempt(Method::POST, format!("{base}/logout")),
        };
        let routes = Router::new().route(&format!("{base}/csrf"), get(csrf_token));
        Ok(Self { csrf: Some(csrf), routes: routes.layer(Extension(config.server.json_case)), backend, allowed })
    }

    /// The origins that may call with cookies, to change them; `None` without `[browser_backend]`.
    pub(super) fn allowed(&self) -> Option<&AllowedOrigins> {
        self.allowed.as_ref()
    }

    /// Adds the session layer around the CSRF layer, around the budget of answers, around the routes. They are one layer,
    /// because each layer of a router costs a request a box and a clone of all inner services.
    pub(super) fn around(&self, routes: Router, auth: Option<&Auth>, budget: AnswerBudgetLayer) -> Router {
        let layers = ServiceBuilder::new().option_layer(auth.map(Auth::middleware)).option_layer(self.csrf.clone());
        routes.merge(self.routes.clone()).layer(layers.layer(budget))
    }

    /// The guard, which is outermost: an origin that is not allowed cannot even find out which paths exist.
    pub(super) fn guard(&self) -> Option<BrowserGuard> {
        self.backend.as_ref().map(BrowserBackend::guard)
    }
}

/// The callbacks to which pages of providers post: their handler compares the flow's own cookies.
#[cfg(feature = "oauth")]
fn posted(config: &Config) -> impl Iterator<Item = String> {
    let base = &config.auth.base_path;
    super::providers::posted_callbacks(&config.auth.oauth).map(move |path| format!("{base}{path}"))
}

#[cfg(not(feature = "oauth"))]
fn posted(_: &Config) -> impl Iterator<Item = String> {
    std::iter::empty()
}

fn csrf(config: &Config, ambient: &Ambient) -> Result<Csrf, BuildError> {
    let secret = &config.csrf.secret;
    let csrf = if config.server.dev_mode {
        if secret.is_empty() {
            tracing::warn!("csrf.secret is empty: forms that are open now must be loaded again after a restart");
        }
        Csrf::dev_mode(secret, ambient.clone())
    } else {
        Csrf::new(secret, ambient.clone()).map_err(|error| refused("csrf.secret", &error))?
    };
    Ok(csrf.previous_secrets(&config.csrf.previous_secrets))
}

fn allowed(config: &Config) -> Result<AllowedOrigins, BuildError> {
    let origins = config.browser_backend.as_ref().map_or(&[][..], |backend| &backend.allowed_origins);
    AllowedOrigins::parse(origins).map_err(|error| refused("browser_backend.allowed_origins", &error))
}

fn backend(config: &Config, base: &str, allowed: AllowedOrigins) -> Result<BrowserBackend, BuildError> {
    let public = Origin::of(&config.public_url())
        .ok_or_else(|| refused("server.public_url", &"must be an http:// or https:// URL with a host"))?;
    let backend = BrowserBackend::new(public, allowed).map_err(|error| refused("server.public_url", &error))?;
    let backend = backend.api_prefix(config.api_prefix()).auth_base(base).also(functions::PREFIX);
    let backend = posted(config).fold(backend, BrowserBackend::cross_site_post);
    let tenant = config.tenancy.header();
    Ok(if tenant == TENANT_HEADER { backend } else { backend.allow_header(&tenant) })
}

/// The check of the configuration refuses these already. This is a second check, so that a change of one cannot miss
/// the other.
fn refused(key: &str, error: &dyn std::fmt::Display) -> BuildError {
    BuildError::Config(Faults(vec![Fault { key: key.to_owned(), message: error.to_string(), at: None }]))
}
