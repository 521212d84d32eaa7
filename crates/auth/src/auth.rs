use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use gatewright_base::{JsonCase, UserId};
use gatewright_http::{OpenPath, Problem};

use crate::accounts::Accounts;
use crate::audit::Audit;
use crate::config::Limits;
use crate::core::Core;
use crate::core::Screens;
use crate::jwt::{self, SigningKeys};
use crate::middleware::AuthenticateLayer;
use crate::password::HashingLoad;
#[cfg(feature = "authorization-server")]
use crate::plugins::authorization_server::{ChallengeLayer, OAuth2Clients};
use crate::plugins::{Mounted, account_export};
#[cfg(feature = "oauth")]
use crate::providers::tokens::OAuthTokens;
use crate::removal::AccountRecords;
use crate::service_accounts::ServiceAccounts;
use crate::session::SessionCookie;
use crate::step_up::StepUpLayer;
use crate::tokens::ApiTokens;
#[cfg(feature = "authorization-server")]
use crate::tokens::Resources;

/// Authentication, ready to be mounted. Cheap to clone.
///
/// ```no_run
/// use axum::Router;
/// use gatewright_auth::plugins::password::PasswordPlugin;
/// use gatewright_auth::{Auth, AuthConfig};
/// use gatewright_base::Secret;
/// use gatewright_db::{Db, Options};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let db = Db::open("sqlite://app.db", Options::default()).await?;
/// let mut config = AuthConfig::default();
/// config.jwt.secret = Secret::new(std::env::var("JWT_SECRET")?);
/// let auth = Auth::builder(config).database(db).plugin(PasswordPlugin).build().await?;
///
/// let app: Router = Router::new()
///     // … the host's own routes, whose handlers ask `gatewright_http::Caller` or `gatewright_auth::session::Session` …
///     .merge(auth.router())
///     .merge(auth.screens())
///     .layer(auth.middleware());
/// # let _ = app; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Auth(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    layer: AuthenticateLayer,
    router: Router,
    screen_routes: Router,
    screens: Screens,
    authorization_server: Option<Mounted>,
    operator_exports: account_export::Running,
}

impl Auth {
    pub(crate) fn new(
        core: Arc<Core>,
        layer: AuthenticateLayer,
        router: Router,
        screen_routes: Router,
        screens: Screens,
        authorization_server: Option<Mounted>,
    ) -> Self {
        let operator_exports = account_export::Running::default();
        Self(Arc::new(Inner { core, layer, router, screen_routes, screens, authorization_server, operator_exports }))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    /// The routes of all plugins under the base path. They authenticate requests themselves and answer with
    /// `Cache-Control: no-store`.
    pub fn router(&self) -> Router {
        Router::new().nest(&self.0.core.config.base_path, self.0.router.clone())
    }

    /// The screens, at the root: `/login`, `/register` and those of plugins. Once they are mounted, forms that fail
    /// answer with the screen they came from.
    pub fn screens(&self) -> Router {
        // The second call finds them set already.
        let _ = self.0.core.screens.set(self.0.screens.clone());
        self.0.screen_routes.clone()
    }

    /// The data of an account as a JSON file, for trusted server code that has checked the caller: what its owner can export, and
    /// the records of others that name it.
    pub async fn export(&self, id: &UserId, case: JsonCase) -> Result<Response, Problem> {
        let flow = account_export::Flow::new(self.0.core.clone(), self.0.operator_exports.clone());
        let export = flow.begin_for_operator(id.clone()).await?;
        Ok(account_export::answer(&flow, export, case))
    }

    /// Replaces the limits while the server runs. Attempts that were counted before stay counted. `trust_forwarded_for` stays
    /// as it was.
    pub fn set_limits(&self, limits: &Limits) {
        self.0.core.live_limits.set(limits);
    }

    /// The public keys of JWTs, and the metadata of the authorization server and of the resources that it protects, at the
    /// root below `/.well-known/`.
    pub fn well_known(&self) -> Router {
        let of_server =
            self.0.authorization_server.as_ref().map_or_else(Router::new, |server| server.well_known.clone());
        of_server.merge(jwt::routes(self.0.core.jwts.clone()))
    }

    /// The keys that sign JWTs, for trusted server code.
    pub fn signing_keys(&self) -> SigningKeys {
        SigningKeys::new(self.0.core.jwts.clone())
    }

    /// The paths that programs find by the discovery of the authorization server, for
    /// [`AnyOrigin`](gatewright_http::AnyOrigin). Empty without the authorization server.
    pub fn open_paths(&self) -> &[OpenPath] {
        self.0.authorization_server.as_ref().map_or(&[], |server| &server.open_paths)
    }

    /// A layer that adds `WWW-Authenticate` to a 401, so that programs find where to get a token with `scope`. `None`
    /// without the authorization server.
    #[cfg(feature = "authorization-server")]
    pub fn oauth2_challenge(&self, scope: &str) -> Option<ChallengeLayer> {
        self.0.authorization_server.as_ref()?;
        let config = &self.0.core.config;
        let resources = Resources::new(config.public_url.as_ref()?, config.tools_path.as_deref());
        Some(ChallengeLayer::new(resources, scope))
    }

    /// Management of the authorization server's clients for trusted server code; `None` without the authorization server.
    #[cfg(feature = "authorization-server")]
    pub fn oauth2_clients(&self) -> Option<OAuth2Clients> {
        self.0.authorization_server.as_ref().map(|server| server.clients.clone())
    }

    /// The middleware that puts an [`Identity`](gatewright_base::Identity) into every request's extensions.
    pub fn middleware(&self) -> AuthenticateLayer {
        self.0.layer.clone()
    }

    /// A guard for routes that require the second factor from users who have one. Put it inside
    /// [`middleware`](Self::middleware).
    pub fn step_up(&self) -> StepUpLayer {
        StepUpLayer(self.0.core.clone())
    }

    /// Management of accounts for trusted server code.
    pub fn accounts(&self) -> Accounts {
        Accounts::new(self.0.core.clone())
    }

    /// Registers the program's records, which are released or deleted with their account. Call it once, before requests
    /// are served.
    pub fn account_records(&self, records: Arc<dyn AccountRecords>) {
        let _ = self.0.core.records.set(records);
    }

    /// The table of the database that has accounts and their profiles in its columns `id` and `profile`; `None` if no fields
    /// of profiles are declared, or if the user store keeps them elsewhere.
    pub fn profile_table(&self) -> Option<&str> {
        self.0.core.profiles.as_ref()?.table()
    }

    /// Management of API tokens for trusted server code; `None` without the tokens plugin.
    pub fn api_tokens(&self) -> Option<ApiTokens> {
        ApiTokens::new(self.0.core.clone())
    }

    /// Management of service accounts for trusted server code; `None` without the tokens plugin.
    pub fn service_accounts(&self) -> Option<ServiceAccounts> {
        ServiceAccounts::new(self.0.core.clone())
    }

    /// Returns once requested mails have been handed to the mailer and the latest uses of API tokens are stored, or
    /// after `at_most`. For the end of a program, and for tests.
    pub async fn settle(&self, at_most: Duration) {
        self.0.core.background.settle(at_most).await;
        if let Some(tokens) = &self.0.core.tokens {
            tokens.uses.write_down().await;
        }
    }

    /// The load of password hashing, for metrics. It is the most expensive operation that anonymous callers can
    /// trigger.
    pub fn hashing_load(&self) -> HashingLoad {
        self.0.core.passwords.load()
    }

    /// Records audit events of trusted server code, such as an admin tool.
    pub fn audit(&self) -> &Audit {
        &self.0.core.audit
    }

    /// The stored tokens of providers, for calls on behalf of the user of the current session. `None` unless
    /// [`OAuthPlugin::tokens`](crate::plugins::oauth::OAuthPlugin::tokens) enables storing them.
    #[cfg(feature = "oauth")]
    pub fn oauth_tokens(&self) -> Option<&OAuthTokens> {
        self.0.core.oauth_tokens.as_ref()
    }

    /// The session cookie: its name and attributes in dev mode or production.
    pub fn session_cookie(&self) -> SessionCookie {
        self.0.core.cookie
    }

    /// The path under which the routes are mounted.
    pub fn base_path(&self) -> &str {
        &self.0.core.config.base_path
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("core", &self.0.core).finish_non_exhaustive()
    }
}
