use std::sync::{Arc, OnceLock};

use gatewright_http::Origin;
use gatewright_tenancy::TenantStore;
use tokio::sync::Semaphore;

use crate::credentials::Credentials;
use crate::devices::{DeviceCookie, Devices, Notices};
use crate::email_changes::Changes;
use crate::foundation::Foundation;
use crate::invitations::Invitations;
use crate::password_marker::PasswordMarker;
use crate::profiles::Profiles;
#[cfg(feature = "oauth")]
use crate::providers::tokens::OAuthTokens;
use crate::removal::records::AccountRecords;
use crate::removal::rows::Deletions;
use crate::session::{Mint, SessionCookie};
use crate::sign_in_methods::{KnownProvider, SignInCredential, SignInLink};
use crate::single_use::links::Links;
use crate::stream_tickets::tickets::Tickets;
use crate::tokens::Tokens;

/// The state of plugins' routes: the [`Foundation`] and the [`Mint`], which creates sessions.
#[non_exhaustive]
pub struct Core {
    /// Configuration, stores and tools. The core dereferences to it.
    pub foundation: Foundation,
    /// Creates sessions.
    pub mint: Mint,
    /// The session cookie: its name and attributes in dev mode or production.
    pub cookie: SessionCookie,
    /// The origin of the configured public address.
    pub origin: Option<Origin>,
    /// The stored tokens of providers, if storing them is enabled.
    #[cfg(feature = "oauth")]
    pub oauth_tokens: Option<OAuthTokens>,
    /// The providers that people can sign in with.
    pub(crate) oauth_providers: Vec<KnownProvider>,
    /// The credentials of plugins to remove when an account is claimed.
    pub(crate) credentials: Vec<Arc<dyn Credentials>>,
    /// Tickets for event streams, if there is a database.
    pub(crate) stream_tickets: Option<Tickets>,
    /// Invitations, if there are any.
    pub(crate) invitations: Option<Invitations>,
    /// Mails links that prove a mailbox, if there are any.
    pub(crate) verification: Option<Arc<Links>>,
    /// Changes of addresses that can be undone, if there are any.
    pub(crate) email_changes: Option<Changes>,
    /// The accounts that are being deleted, if there is a database.
    pub(crate) deletions: Option<Deletions>,
    /// Limits how many accounts are removed at the same time.
    pub(crate) deletion_turns: Arc<Semaphore>,
    /// The program's records, if it has set them.
    pub(crate) records: OnceLock<Arc<dyn AccountRecords>>,
    /// Recognises browsers in which an account's password was given.
    pub(crate) password_marker: PasswordMarker,
    /// Known devices, if there is a database.
    pub(crate) devices: Option<Devices>,
    /// The cookie that makes a browser a known device.
    pub(crate) device_cookie: DeviceCookie,
    /// Mails notices of new devices.
    pub(crate) device_notices: Notices,
    /// The tenants that accounts manage, if there are any.
    pub(crate) tenants: Option<Arc<dyn TenantStore>>,
    /// The profiles of accounts, if fields are declared.
    pub(crate) profiles: Option<Profiles>,
    /// API tokens, if there are any.
    pub(crate) tokens: Option<Tokens>,
    /// Ways to sign in that belong to accounts themselves, besides passwords and providers.
    pub(crate) sign_in_credentials: Vec<Arc<dyn SignInCredential>>,
    /// Set when the program mounts the screens: failures and successes of forms then show these screens.
    pub(crate) screens: OnceLock<Screens>,
}

/// Which screens there are.
#[derive(Debug, Clone)]
pub(crate) struct Screens {
    /// Ways to sign in other than a password, for the sign-in screen.
    pub(crate) sign_in_links: Vec<SignInLink>,
    /// Whether the sign-in screen offers a link by mail.
    pub(crate) link_by_mail: bool,
    /// Whether the screens offer passkeys.
    pub(crate) passkeys: bool,
    /// The path of the screen for the second factor, if a plugin has one.
    pub(crate) second_factor: Option<&'static str>,
}

impl std::ops::Deref for Core {
    type Target = Foundation;
    fn deref(&self) -> &Foundation {
        &self.foundation
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("foundation", &self.foundation).finish_non_exhaustive()
    }
}
