//! Methods of sign-in and related features. Each is opt-in, and a folder of these files:
//!
//! - `mod.rs`: what it is and why, its configuration, its tables, and its [`Plugin`];
//! - `flow.rs`: the use cases, which know no HTTP;
//! - `http.rs`: bodies and thin handlers;
//! - `rows.rs`: its SQL, private, if it has tables;
//! - `screen.rs` and `section.rs`: its pages, and its part of `/account`, if it has those.
//!
//! A plugin is called twice. First, in the order of registration, [`Plugin::prepare`] gets the [`Foundation`]. It
//! checks that the stores have the required capabilities (an error stops the start), and registers its schemes and
//! second factors. The mint and the middleware are built from these. After that, the routes of the plugin get the
//! [`Core`]. So a plugin can influence the decision about a session, but cannot create one without the mint.

pub mod account_deletion;
pub mod account_export;
pub mod accounts;
#[cfg(feature = "authorization-server")]
pub mod authorization_server;
pub(crate) mod devices;
pub mod email_change;
pub mod email_code;
pub mod email_verification;
pub mod guests;
pub mod invitations;
pub mod magic_link;
pub(crate) mod mailed_sign_in;
#[cfg(feature = "oauth")]
pub mod oauth;
#[cfg(feature = "passkeys")]
pub mod passkeys;
pub mod password;
pub mod password_reset;
pub(crate) mod passwordless;
pub mod profile;
pub(crate) mod registration;
pub(crate) mod sessions;
pub(crate) mod sign_in;
pub mod tenants;
pub mod tokens;
#[cfg(feature = "two-factor")]
pub mod two_factor;

use std::sync::Arc;

use axum::Router;
use gatewright_db::Step;
use gatewright_http::OpenPath;
use gatewright_tenancy::TenantStore;

use crate::core::Core;
use crate::credentials::Credentials;
use crate::email_changes::Changes;
use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::invitations::Invitations;
use crate::profiles::Profiles;
#[cfg(feature = "oauth")]
use crate::providers::tokens::OAuthTokens;
use crate::schemes::Scheme;
use crate::screens::account::Section;
use crate::session::SecondFactor;
use crate::sign_in_methods::{KnownProvider, SignInCredential, SignInLink};
use crate::single_use::links::Links;
use crate::tokens::Tokens;

/// A method of sign-in or a related feature.
pub trait Plugin: Send + 'static {
    /// Its name in configurations: `magic_link`.
    fn name(&self) -> &'static str;

    /// The migration steps of its tables, which are recorded under its name.
    fn migrations(&self) -> &'static [Step] {
        &[]
    }

    /// Whether it signs tokens about users for other programs, for which the server then has keys.
    fn signs_id_tokens(&self) -> bool {
        false
    }

    /// Checks its requirements and returns its parts.
    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError>;
}

/// The parts of a plugin.
#[derive(Default)]
pub struct Prepared {
    pub(crate) schemes: Vec<Arc<dyn Scheme>>,
    pub(crate) second_factors: Vec<Arc<dyn SecondFactor>>,
    pub(crate) sign_in_links: Vec<SignInLink>,
    pub(crate) credentials: Vec<Arc<dyn Credentials>>,
    #[cfg(feature = "oauth")]
    pub(crate) oauth_tokens: Option<OAuthTokens>,
    pub(crate) oauth_providers: Vec<KnownProvider>,
    pub(crate) link_by_mail: bool,
    pub(crate) code_by_mail: bool,
    pub(crate) sign_in_credentials: Vec<Arc<dyn SignInCredential>>,
    pub(crate) passkeys: bool,
    pub(crate) second_factor_screen: Option<&'static str>,
    pub(crate) invitations: Option<Invitations>,
    pub(crate) verification: Option<Arc<Links>>,
    pub(crate) email_changes: Option<Changes>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) authorization_server: Option<MakeAuthorizationServer>,
    pub(crate) tenants: Option<Arc<dyn TenantStore>>,
    pub(crate) profiles: Option<Profiles>,
    pub(crate) routes: Option<MakeRoutes>,
    pub(crate) screens: Option<MakeRoutes>,
    pub(crate) account_sections: Vec<MakeSection>,
}

/// Makes routes once the core is there.
pub(crate) type MakeRoutes = Box<dyn FnOnce(&Arc<Core>) -> Router + Send>;

/// Creates the authorization server after the core. `None`: there are no API tokens, or their store does not support
/// delegated ones.
pub(crate) type MakeAuthorizationServer = Box<dyn FnOnce(&Arc<Core>) -> Option<(Mounted, Option<Task>)> + Send>;

/// The parts of the authorization server that the builder mounts.
pub(crate) struct Mounted {
    pub(crate) routes: Router,
    pub(crate) well_known: Router,
    /// The page for devices, at the root.
    pub(crate) screens: Router,
    /// The paths that pages of every origin may call.
    pub(crate) open_paths: Vec<OpenPath>,
    pub(crate) section: Arc<dyn Section>,
    #[cfg(feature = "authorization-server")]
    pub(crate) clients: authorization_server::OAuth2Clients,
}

/// Work beside the routes, until the core is gone.
pub(crate) type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes a section of the account page once the core is there.
pub(crate) type MakeSection = Box<dyn FnOnce(&Arc<Core>) -> Arc<dyn Section> + Send>;

impl Prepared {
    /// Takes over everything of another plugin, except its routes and sections.
    pub(crate) fn absorb(&mut self, more: Self) {
        self.schemes.extend(more.schemes);
        self.second_factors.extend(more.second_factors);
        self.sign_in_links.extend(more.sign_in_links);
        self.credentials.extend(more.credentials);
        self.oauth_providers.extend(more.oauth_providers);
        self.sign_in_credentials.extend(more.sign_in_credentials);
        self.link_by_mail |= more.link_by_mail;
        self.code_by_mail |= more.code_by_mail;
        self.passkeys |= more.passkeys;
        #[cfg(feature = "oauth")]
        {
            self.oauth_tokens = self.oauth_tokens.take().or(more.oauth_tokens);
        }
        self.invitations = self.invitations.take().or(more.invitations);
        self.email_changes = self.email_changes.take().or(more.email_changes);
        self.verification = self.verification.take().or(more.verification);
        self.tokens = self.tokens.take().or(more.tokens);
        self.tenants = self.tenants.take().or(more.tenants);
        self.profiles = self.profiles.take().or(more.profiles);
        self.authorization_server = self.authorization_server.take().or(more.authorization_server);
        self.second_factor_screen = self.second_factor_screen.or(more.second_factor_screen);
    }

    /// No parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a credential scheme, called after the session cookie and the JWT.
    pub fn scheme(mut self, scheme: Arc<dyn Scheme>) -> Self {
        self.schemes.push(scheme);
        self
    }

    /// Adds a kind of second factor, which the mint checks at each sign-in.
    pub fn second_factor(mut self, factor: Arc<dyn SecondFactor>) -> Self {
        self.second_factors.push(factor);
        self
    }

    /// Registers a kind of credential that a claim of the account removes.
    pub fn credentials(mut self, kind: Arc<dyn Credentials>) -> Self {
        self.credentials.push(kind);
        self
    }

    /// Names a provider, for screens that list them.
    #[cfg(feature = "oauth")]
    pub(crate) fn oauth_provider(mut self, name: &str, label: &str) -> Self {
        self.oauth_providers.push(KnownProvider { name: name.to_owned(), label: label.to_owned() });
        self
    }

    /// Registers the store of providers' tokens.
    #[cfg(feature = "oauth")]
    pub(crate) fn oauth_tokens(mut self, tokens: Option<OAuthTokens>) -> Self {
        self.oauth_tokens = tokens;
        self
    }

    /// Has the sign-in screen offer a link by mail.
    pub(crate) fn link_by_mail(mut self) -> Self {
        self.link_by_mail = true;
        self
    }

    /// Has the sign-in screen offer a code by mail.
    pub(crate) fn code_by_mail(mut self) -> Self {
        self.code_by_mail = true;
        self
    }

    /// Registers a way to sign in that belongs to accounts themselves.
    #[cfg(feature = "passkeys")]
    pub(crate) fn sign_in_credential(mut self, way: Arc<dyn SignInCredential>) -> Self {
        self.sign_in_credentials.push(way);
        self
    }

    /// Has the screens offer passkeys, if there can be any.
    #[cfg(feature = "passkeys")]
    pub(crate) fn passkeys(mut self, available: bool) -> Self {
        self.passkeys = available;
        self
    }

    /// Sets the screen to which a form's sign-in redirects while the second factor is pending.
    pub fn second_factor_screen(mut self, path: &'static str) -> Self {
        self.second_factor_screen = Some(path);
        self
    }

    /// Adds a link to the sign-in screen: "Forgot your password?" to `/forgot-password`. `next` is appended to it.
    /// `label` is its text, or the key of a text in the catalogues of languages.
    pub fn sign_in_link(mut self, label: impl Into<String>, href: impl Into<String>) -> Self {
        self.sign_in_links.push(SignInLink { label: label.into(), provider: None, href: href.into() });
        self
    }

    /// Adds a button to the sign-in screen that reads "Continue with " and the label of the provider.
    #[cfg(feature = "oauth")]
    pub(crate) fn provider_link(mut self, name: &str, label: &str, href: impl Into<String>) -> Self {
        let provider = KnownProvider { name: name.to_owned(), label: label.to_owned() };
        let label = "sign_in.by_provider".to_owned();
        self.sign_in_links.push(SignInLink { label, provider: Some(provider), href: href.into() });
        self
    }

    /// Registers the invitations.
    pub(crate) fn invitations(mut self, invitations: Invitations) -> Self {
        self.invitations = Some(invitations);
        self
    }

    /// Registers the mailed links that prove a mailbox.
    pub(crate) fn verification(mut self, links: Arc<Links>) -> Self {
        self.verification = Some(links);
        self
    }

    /// Registers the changes of addresses that can be undone.
    pub(crate) fn email_changes(mut self, changes: Changes) -> Self {
        self.email_changes = Some(changes);
        self
    }

    /// Registers the API tokens.
    pub(crate) fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Registers the tenants. Memberships are removed with their accounts.
    pub(crate) fn tenants(mut self, store: Arc<dyn TenantStore>) -> Self {
        self.tenants = Some(store);
        self
    }

    /// Registers the profiles of accounts.
    pub(crate) fn profiles(mut self, profiles: Profiles) -> Self {
        self.profiles = Some(profiles);
        self
    }

    /// Registers the authorization server.
    #[cfg(feature = "authorization-server")]
    pub(crate) fn authorization_server(mut self, make: MakeAuthorizationServer) -> Self {
        self.authorization_server = Some(make);
        self
    }

    /// Sets the routes, relative to the base path. They get the authentication middleware and `no-store`.
    pub fn routes(mut self, make: impl FnOnce(&Arc<Core>) -> Router + Send + 'static) -> Self {
        self.routes = Some(Box::new(make));
        self
    }

    /// Adds a section to the page `/account`.
    pub(crate) fn account_section(
        mut self,
        make: impl FnOnce(&Arc<Core>) -> Arc<dyn Section> + Send + 'static,
    ) -> Self {
        self.account_sections.push(Box::new(make));
        self
    }

    /// Sets the screens, at the root. They are mounted only if the host uses [`Auth::screens`](crate::Auth::screens).
    pub fn screens(mut self, make: impl FnOnce(&Arc<Core>) -> Router + Send + 'static) -> Self {
        self.screens = Some(Box::new(make));
        self
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("schemes", &self.schemes.len())
            .field("second_factors", &self.second_factors.len())
            .field("routes", &self.routes.is_some())
            .field("screens", &self.screens.is_some())
            .finish_non_exhaustive()
    }
}
