use std::sync::{Arc, OnceLock};

use gatewright_base::Secret;
use gatewright_http::Origin;
use gatewright_tenancy::TenantStore;
use tokio::sync::{Mutex, Semaphore};

use crate::audit::AuditKind;
use crate::credentials::Credentials;
use crate::devices::{DeviceCookie, Devices};
use crate::email_changes::Changes;
use crate::foundation::Foundation;
use crate::guests::LastSweep;
use crate::impersonation;
use crate::invitations::Invitations;
use crate::mail::Notices;
use crate::operators::OperatorAccounts;
use crate::password::{NewPassword, PasswordHash, PasswordOwner, Requester, WeakPassword};
use crate::password_marker::PasswordMarker;
use crate::profiles::Profiles;
#[cfg(feature = "oauth")]
use crate::providers::tokens::OAuthTokens;
use crate::removal::records::AccountRecords;
use crate::removal::rows::Deletions;
use crate::session::impersonations::Impersonations;
use crate::session::{Client, Mint, SessionCookie, SessionSecret, SessionStoreError};
use crate::sign_in_methods::{KnownProvider, SignInCredential, SignInLink};
use crate::single_use::links::Links;
use crate::stream_tickets::tickets::Tickets;
use crate::tokens::Tokens;
use crate::users::{User, UserStoreError};

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
    /// Accounts on which only operators have put credentials, if there is a database.
    pub(crate) operator_accounts: Option<OperatorAccounts>,
    /// Sessions of operators who act as users, if there can be any.
    pub(crate) impersonations: Option<Impersonations>,
    /// When idle guests were last looked for.
    pub(crate) guest_sweep: LastSweep,
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
    /// Limits notices; [`notify`](Self::notify) sends them.
    pub(crate) notices: Notices,
    /// The tenants that accounts manage, if there are any.
    pub(crate) tenants: Option<Arc<dyn TenantStore>>,
    /// The profiles of accounts, if fields are declared.
    pub(crate) profiles: Option<Profiles>,
    /// API tokens, if there are any.
    pub(crate) tokens: Option<Tokens>,
    /// Ways to sign in that belong to accounts themselves, besides passwords and providers.
    pub(crate) sign_in_credentials: Vec<Arc<dyn SignInCredential>>,
    /// Held while a way to sign in is removed, if stores of the program's own take part.
    pub(crate) removals: Mutex<()>,
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
    /// Whether the sign-in screen offers a code by mail.
    pub(crate) code_by_mail: bool,
    /// Whether the screens offer passkeys.
    pub(crate) passkeys: bool,
    /// The path of the screen for the second factor, if a plugin has one.
    pub(crate) second_factor: Option<&'static str>,
}

impl Core {
    /// Checks a new password of an existing account.
    pub(crate) async fn accept_password(
        &self,
        user: &User,
        text: Secret,
    ) -> Result<Result<NewPassword, WeakPassword>, UserStoreError> {
        let name = match &self.profiles {
            Some(profiles) => profiles.display_name(&user.id).await?,
            None => None,
        };
        Ok(self.passwords.accept(text, PasswordOwner { email: Some(&user.email), display_name: name.as_deref() }))
    }

    /// Ends the session with this secret, also one in which an operator acts as a user.
    pub(crate) async fn sign_out(&self, secret: &SessionSecret, client: &Client) -> Result<(), SessionStoreError> {
        if let Some(ended) = self.sessions.take(&secret.key()).await? {
            let event = self.audit.event(AuditKind::SessionRevoked).user(&ended.user_id).remote(client.address());
            let event = event.with("session", ended.id.as_str()).with("reason", "logout");
            self.audit.record(event).await;
        } else if let Some(impersonations) = &self.impersonations
            && let Some(ended) = impersonations.take(&secret.key()).await?
        {
            impersonation::note_end(self, &ended, client).await;
        }
        Ok(())
    }

    /// Replaces the outdated hash of a password that was right by one with the current algorithm and cost, of its normalised
    /// form. Best effort: the next sign-in retries it.
    pub(crate) async fn renew_hash(&self, requester: Requester, user: &User, password: &Secret, old: &PasswordHash) {
        let Some(setter) = &self.users.password_setter else { return };
        let renewed = match self.passwords.rehash(requester, password).await {
            Ok(new) => setter.rehash(&user.id, old, &new).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match renewed {
            Ok(()) => tracing::info!(user = %user.id, "a password hash was renewed"),
            Err(error) => tracing::warn!(user = %user.id, error, "a password hash was not renewed"),
        }
    }

    /// Tells operators whose password no one can give. Returns the reason for the audit log.
    pub(crate) fn unreadable_hash(user: &User) -> &'static str {
        tracing::error!(
            user = %user.id,
            "the stored password hash of this account cannot be read; set a new password with `gatewright user set-password`"
        );
        "unknown_hash"
    }
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
