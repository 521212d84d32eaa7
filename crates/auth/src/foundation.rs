use std::sync::Arc;

use gatewright_base::Ambient;
use gatewright_db::Db;
use gatewright_http::{RedirectUrls, TrustedProxies};
use gatewright_limits::{Limiter, Store};

use crate::audit::Audit;
use crate::background::Background;
use crate::config::{AuthConfig, Limit};
use crate::jwt::Jwts;
use crate::live_limits::LiveLimits;
use crate::mail::Post;
use crate::password::Passwords;
use crate::session::SessionStore;
use crate::single_use::SingleUseStore;
use crate::users::{
    AccountLister, AccountUnlinker, EmailChanger, EmailVerifier, GuestUsers, HashSettings, OAuthLinks,
    OAuthUserCreator, PasswordChecker, PasswordSetter, PasswordlessUsers, SignOutEverywhere, UserDeleter, UserDisabler,
    UserLister, UserProfiles, UserStore, UsersWithin,
};

/// Configuration, stores and tools for plugins, complete before the first plugin is prepared.
///
/// Cheap to clone. It cannot create sessions: only [`Core`](crate::Core) can.
#[derive(Clone)]
pub struct Foundation(pub(crate) Arc<Tools>);

/// The contents of a [`Foundation`].
#[non_exhaustive]
pub struct Tools {
    /// The configuration, checked.
    pub config: AuthConfig,
    /// Time and randomness.
    pub ambient: Ambient,
    /// The database, if there is one.
    pub db: Option<Db>,
    /// Accounts.
    pub users: Users,
    /// Sessions. Only the mint creates them.
    pub sessions: Arc<dyn SessionStore>,
    /// The hashing pool.
    pub passwords: Passwords,
    /// Signs and verifies JWTs.
    pub jwts: Arc<Jwts>,
    /// Takes audit events.
    pub audit: Audit,
    /// Sends mails, if a mailer is configured.
    pub(crate) post: Post,
    /// The tokens in mailed links.
    pub single_use: Arc<dyn SingleUseStore>,
    /// Parses `next`: the target of a redirect.
    pub(crate) redirects: RedirectUrls,
    pub(crate) background: Background,
    pub(crate) limit_store: Arc<dyn Store>,
    pub(crate) live_limits: LiveLimits,
    pub(crate) proxies: Option<TrustedProxies>,
}

/// The user store and its optional capabilities, which are queried once.
#[non_exhaustive]
pub struct Users {
    /// The four operations.
    pub store: Arc<dyn UserStore>,
    /// Lists users.
    pub lister: Option<Arc<dyn UserLister>>,
    /// Deletes users.
    pub deleter: Option<Arc<dyn UserDeleter>>,
    /// Disables users.
    pub disabler: Option<Arc<dyn UserDisabler>>,
    /// Changes addresses.
    pub email_changer: Option<Arc<dyn EmailChanger>>,
    /// Stores profiles.
    pub profiles: Option<Arc<dyn UserProfiles>>,
    /// Sets passwords.
    pub password_setter: Option<Arc<dyn PasswordSetter>>,
    /// Returns how stored passwords are hashed.
    pub hash_settings: Option<Arc<dyn HashSettings>>,
    /// Returns whether an account has a password.
    pub password_checker: Option<Arc<dyn PasswordChecker>>,
    /// Records proven mailboxes.
    pub email_verifier: Option<Arc<dyn EmailVerifier>>,
    /// Creates users without a password.
    pub passwordless: Option<Arc<dyn PasswordlessUsers>>,
    /// Stores guests.
    pub guests: Option<Arc<dyn GuestUsers>>,
    /// Refuses everything that was issued so far.
    pub sign_out: Option<Arc<dyn SignOutEverywhere>>,
    /// Links identities at providers.
    pub oauth_links: Option<Arc<dyn OAuthLinks>>,
    /// Creates users together with their first link.
    pub oauth_creator: Option<Arc<dyn OAuthUserCreator>>,
    /// Lists links.
    pub account_lister: Option<Arc<dyn AccountLister>>,
    /// Removes links.
    pub account_unlinker: Option<Arc<dyn AccountUnlinker>>,
    /// Changes accounts in transactions of a database.
    pub within: Option<Arc<dyn UsersWithin>>,
}

impl Users {
    pub(crate) fn new(store: Arc<dyn UserStore>) -> Self {
        Self {
            lister: store.clone().user_lister(),
            deleter: store.clone().user_deleter(),
            disabler: store.clone().user_disabler(),
            email_changer: store.clone().email_changer(),
            profiles: store.clone().user_profiles(),
            password_setter: store.clone().password_setter(),
            hash_settings: store.clone().hash_settings(),
            password_checker: store.clone().password_checker(),
            email_verifier: store.clone().email_verifier(),
            passwordless: store.clone().passwordless_users(),
            guests: store.clone().guest_users(),
            sign_out: store.clone().sign_out_everywhere(),
            oauth_links: store.clone().oauth_links(),
            oauth_creator: store.clone().oauth_user_creator(),
            account_lister: store.clone().account_lister(),
            account_unlinker: store.clone().account_unlinker(),
            within: store.clone().users_within(),
            store,
        }
    }
}

impl Foundation {
    /// A limiter with the keys of `scope` in the shared store. The dev mode of limiters is only for the limits by address of
    /// sign-in and registration; see [`Limiter::dev_mode`].
    pub fn limiter(&self, scope: &'static str, limit: &Limit) -> Limiter {
        let limiter = Limiter::new(scope, limit.policy, self.0.limit_store.clone())
            .trust_forwarded_for(limit.trust_forwarded_for);
        let limiter = match &self.0.proxies {
            Some(proxies) => limiter.trusted_proxies(proxies.clone()),
            None => limiter,
        };
        self.0.live_limits.add(scope, &limiter);
        limiter
    }
}

impl std::ops::Deref for Foundation {
    type Target = Tools;
    fn deref(&self) -> &Tools {
        &self.0
    }
}

impl std::fmt::Debug for Foundation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foundation").field("dev_mode", &self.0.config.dev_mode).finish_non_exhaustive()
    }
}
impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tools").field("users", &self.users).finish_non_exhaustive()
    }
}
impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users")
            .field("lister", &self.lister.is_some())
            .field("password_setter", &self.password_setter.is_some())
            .field("password_checker", &self.password_checker.is_some())
            .field("email_verifier", &self.email_verifier.is_some())
            .field("passwordless", &self.passwordless.is_some())
            .field("sign_out", &self.sign_out.is_some())
            .field("oauth_links", &self.oauth_links.is_some())
            .finish_non_exhaustive()
    }
}
