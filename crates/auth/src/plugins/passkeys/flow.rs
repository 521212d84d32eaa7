use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Secret, UserId, time};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use passki::{AuthenticationCredential, Passki, PasskiError, RegistrationCredential};
use serde_json::{Value, json};

use super::challenge::{Challenge, Challenges, Purpose};
use super::relying_party::RelyingParty;
use super::{Added, Passkey, PasskeyStore, PasskeyStoreError};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::credentials::Credentials;
use crate::devices::Browser;
use crate::fresh::{Fresh, FreshError, Given, check_young};
use crate::label::Label;
use crate::mail::{Mail, MailKind};
use crate::plugins::account_export::moment;
use crate::plugins::sign_in::{self, SignedIn};
use crate::session::{AnySession, Client, MintError, Proof, Session};
use crate::sign_in_methods::SignInCredential;
use crate::step_up::{self, StepUpError};
use crate::users::{BoxError, UserStoreError};

/// The most passkeys of an account.
const MOST: u32 = 20;
/// How long the notice of a new passkey may wait for a mail server.
const NOTICE_LIFETIME: std::time::Duration = std::time::Duration::from_hours(24);

/// Adding passkeys, signing in with one, and managing them.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    store: Arc<dyn PasskeyStore>,
    party: Option<Arc<RelyingParty>>,
    challenges: Arc<Challenges>,
    fresh: Fresh,
    /// The page on which a passkey is managed.
    account: Secret,
}

/// State that the plugins of one service share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Arc<dyn PasskeyStore>,
    pub(super) party: Option<Arc<RelyingParty>>,
    pub(super) challenges: Arc<Challenges>,
    pub(super) account: Secret,
}

/// Options for a browser, and the cookie that binds their challenge to it.
pub(super) struct Options {
    pub(super) json: Value,
    pub(super) cookie: HeaderValue,
}

/// Why something about passkeys was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasskeyError {
    #[error("set `server.public_url` to a host name: browsers create no passkeys for IP addresses")]
    Unavailable,
    /// The body is not a valid `WebAuthn` response.
    #[error("the body is not a credential: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The new passkey failed a check.
    #[error("the passkey was not accepted: {0}")]
    Refused(&'static str),
    /// A sign-in failed; every failure gets the same answer.
    #[error("invalid passkey")]
    Invalid,
    #[error("this passkey is registered already")]
    Taken,
    #[error("the limit of {MOST} passkeys is reached: remove one first")]
    TooMany,
    #[error("no such passkey")]
    Missing,
    /// No way to sign in would remain.
    #[error("this is the last way to sign in to the account: set a password or add another passkey first")]
    LastCredential,
    #[error("the passkey could not be checked: {0}")]
    Ceremony(#[source] PasskiError),
    #[error(transparent)]
    Fresh(#[from] FreshError),
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    #[error(transparent)]
    Store(#[from] PasskeyStoreError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Mint(#[from] MintError),
}

impl Flow {
    pub(super) fn new(core: Arc<Core>, parts: Parts) -> Self {
        let Parts { store, party, challenges, account } = parts;
        Self { fresh: Fresh::new(core.clone()), core, store, party, challenges, account }
    }

    /// Whether browsers can create passkeys for this service.
    pub(crate) fn is_available(&self) -> bool {
        self.party.is_some()
    }

    /// Begins to add a passkey, for a caller with a fresh proof.
    pub(super) async fn begin(
        &self,
        session: &Session,
        given: &Given,
        client: &Client,
    ) -> Result<Options, PasskeyError> {
        let party = self.party()?;
        step_up::require(&self.core, session).await?;
        self.fresh.require(session, given, client, "a new passkey").await?;
        let existing = self.store.list(&session.user().id).await?;
        if existing.len() >= MOST as usize {
            return Err(PasskeyError::TooMany);
        }
        let (challenge, cookie) = self.challenges.issue(Purpose::Register(session.id()));
        let json = party.creation_options(session.user(), &existing, &challenge).map_err(PasskeyError::Ceremony)?;
        Ok(Options { json, cookie })
    }

    /// Adds a passkey in answer to [`begin`](Self::begin) in the same session and browser.
    pub(super) async fn finish(
        &self,
        session: &Session,
        body: &[u8],
        name: Label,
        headers: &HeaderMap,
        client: &Client,
    ) -> Result<Passkey, PasskeyError> {
        let party = self.party()?;
        step_up::require(&self.core, session).await?;
        let credential: RegistrationCredential = serde_json::from_slice(body).map_err(PasskeyError::Malformed)?;
        let held = self.challenges.held(headers, Purpose::Register(session.id()));
        let challenge = answered(held, &credential.response.client_data_json);
        let challenge = challenge.ok_or(PasskeyError::Refused("it expired, or another browser started it"))?;
        let made = party.created(session.user(), &credential, &challenge).map_err(|error| {
            tracing::info!(%error, user = %session.user().id, "a new passkey was refused");
            PasskeyError::Refused("the answer of the authenticator does not verify")
        })?;
        let now = self.core.ambient.now();
        if !self.store.spend(&challenge.hash(), challenge.expires_at, now).await? {
            return Err(PasskeyError::Refused("it expired, or another browser started it"));
        }
        let passkey = Passkey {
            id: self.core.ambient.uuid().to_string(),
            user: session.user().id.clone(),
            name,
            credential_id: made.credential_id,
            public_key: made.public_key,
            algorithm: made.algorithm,
            counter: made.counter,
            transports: made.transports,
            backed_up: made.backed_up,
            created_at: now,
            last_used_at: None,
        };
        match self.store.add(&passkey, MOST).await? {
            Added::Done => {}
            Added::Taken => return Err(PasskeyError::Taken),
            Added::TooMany => return Err(PasskeyError::TooMany),
        }
        // A concurrent claim of the account ends the sessions first and removes the passkeys last. So a passkey of an
        // earlier session must not be added after that.
        let user = self.core.users.store.find_by_id(&passkey.user).await;
        if !user.is_ok_and(|user| user.accepts_session_from(session.started_at())) {
            self.store.remove(&passkey.user, &passkey.id).await?;
            return Err(PasskeyError::Users(UserStoreError::NotFound));
        }
        self.audit(AuditKind::PasskeyAdded, session, client, &passkey).await;
        self.notify(session);
        Ok(passkey)
    }

    /// Begins a sign-in: with any passkey or, for a session whose second factor is pending, with one of its user's.
    pub(super) async fn ask(&self, session: Option<&AnySession>) -> Result<Options, PasskeyError> {
        let party = self.party()?;
        let allowed = match session {
            Some(AnySession::Pending(pending)) => self.store.list(&pending.user().id).await?,
            Some(AnySession::Full(_)) | None => Vec::new(),
        };
        // Without a passkey, the options are those of a sign-in with any passkey, so that a person with only the
        // password learns nothing about passkeys.
        let purpose = match session {
            Some(AnySession::Pending(pending)) if !allowed.is_empty() => Purpose::SecondFactor(&pending.user().id),
            Some(_) | None => Purpose::Login,
        };
        let (challenge, cookie) = self.challenges.issue(purpose);
        let json = party.request_options(&allowed, &challenge).map_err(PasskeyError::Ceremony)?;
        Ok(Options { json, cookie })
    }

    /// Signs in the owner of the passkey. The authenticator's verification of the user counts as the second factor.
    pub(super) async fn answer(
        &self,
        session: Option<&AnySession>,
        body: &[u8],
        headers: &HeaderMap,
        browser: &Browser,
        client: Client,
    ) -> Result<SignedIn, PasskeyError> {
        let party = self.party()?;
        let credential: AuthenticationCredential = serde_json::from_slice(body).map_err(PasskeyError::Malformed)?;
        let data = &credential.response.client_data_json;
        let pending_user = match session {
            Some(AnySession::Pending(pending)) => Some(pending.user().id.clone()),
            Some(AnySession::Full(_)) | None => None,
        };
        let of_factor = pending_user.as_ref().map(|user| self.challenges.held(headers, Purpose::SecondFactor(user)));
        let of_factor = answered(of_factor.unwrap_or_default(), data);
        let bound_to = pending_user.filter(|_| of_factor.is_some());
        let challenge = of_factor.or_else(|| answered(self.challenges.held(headers, Purpose::Login), data));
        let found = self.check(party, &credential, challenge, bound_to.as_ref()).await;
        let (passkey, challenge, asserted) = match found {
            Ok(found) => found,
            Err(InvalidAssertion::Store(error)) => return Err(error.into()),
            Err(InvalidAssertion::Wrong { passkey, reason }) => {
                return Err(self.refuse(passkey, reason, &client).await);
            }
        };
        let now = self.core.ambient.now();
        if !self.store.spend(&challenge.hash(), challenge.expires_at, now).await? {
            return Err(self.refuse(Some(passkey), "replayed challenge", &client).await);
        }
        let (counter, backed_up) = (asserted.counter, asserted.backed_up);
        if !self.store.used(&passkey.id, counter, backed_up, now).await? {
            return Err(self.refuse(Some(passkey), "signature counter", &client).await);
        }
        let user = match self.core.users.store.find_by_id(&passkey.user).await {
            Ok(user) => user,
            Err(UserStoreError::NotFound) => return Err(self.refuse(None, "no such account", &client).await),
            Err(error) => return Err(error.into()),
        };
        Ok(sign_in::admit_verified(&self.core, Proof::new(user, now), client, browser, "passkey").await?)
    }

    async fn check(
        &self,
        party: &RelyingParty,
        credential: &AuthenticationCredential,
        challenge: Option<Challenge>,
        bound_to: Option<&UserId>,
    ) -> Result<(Passkey, Challenge, super::relying_party::Asserted), InvalidAssertion> {
        let wrong = |passkey, reason| InvalidAssertion::Wrong { passkey, reason };
        let challenge = challenge.ok_or(wrong(None, "no challenge of this browser"))?;
        let id = Passki::base64_decode(&credential.raw_id).map_err(|_| wrong(None, "unreadable credential id"))?;
        let passkey =
            self.store.find(&id).await.map_err(InvalidAssertion::Store)?.ok_or(wrong(None, "unknown passkey"))?;
        if bound_to.is_some_and(|user| *user != passkey.user) {
            return Err(wrong(Some(passkey), "another account's passkey"));
        }
        if bound_to.is_none() && credential.response.user_handle.is_none() {
            return Err(wrong(Some(passkey), "no user handle"));
        }
        match party.asserted(&passkey, credential, &challenge) {
            Ok(asserted) => Ok((passkey, challenge, asserted)),
            Err(PasskiError::CounterRegression) => Err(wrong(Some(passkey), "signature counter")),
            Err(error) => {
                tracing::info!(%error, "a passkey was refused");
                Err(wrong(Some(passkey), "assertion"))
            }
        }
    }

    /// The session's passkeys.
    pub(crate) async fn list(&self, session: &Session) -> Result<Vec<Passkey>, PasskeyError> {
        Ok(self.store.list(&session.user().id).await?)
    }

    /// Gives a passkey another name.
    pub(crate) async fn rename(&self, session: &Session, id: &str, name: &Label) -> Result<(), PasskeyError> {
        if self.store.rename(&session.user().id, id, name).await? { Ok(()) } else { Err(PasskeyError::Missing) }
    }

    /// Removes a passkey, unless nothing to sign in with would remain. In an open browser, another person could
    /// otherwise leave the owner with fewer ways to sign in.
    pub(crate) async fn remove(&self, session: &Session, id: &str, client: &Client) -> Result<(), PasskeyError> {
        check_young(&self.core, session).await?;
        let user = &session.user().id;
        let removed = self.store.remove(user, id).await?.ok_or(PasskeyError::Missing)?;
        // Looked at afterwards: of two requests that each remove one of two ways in, at least one finds no other and puts
        // its own back.
        let others = match self.has_other_method(user).await {
            Ok(others) => others,
            Err(error) => {
                self.store.add(&removed, u32::MAX).await?;
                return Err(error);
            }
        };
        if !others {
            self.store.add(&removed, u32::MAX).await?;
            return Err(PasskeyError::LastCredential);
        }
        self.audit(AuditKind::PasskeyRemoved, session, client, &removed).await;
        Ok(())
    }

    /// Whether a user can sign in by a password, a provider or a passkey. A magic link does not count.
    async fn has_other_method(&self, user: &UserId) -> Result<bool, PasskeyError> {
        if !self.store.list(user).await?.is_empty() {
            return Ok(true);
        }
        let has_password = match &self.core.users.password_checker {
            Some(checker) => checker.has_password(user).await?,
            None => false,
        };
        if has_password {
            return Ok(true);
        }
        let Some(lister) = &self.core.users.account_lister else { return Ok(false) };
        let usable = |provider: &str| self.core.oauth_providers.iter().any(|known| known.name == provider);
        Ok(lister.linked_accounts(user).await?.iter().any(|linked| usable(&linked.link.provider)))
    }

    fn party(&self) -> Result<&RelyingParty, PasskeyError> {
        self.party.as_deref().ok_or(PasskeyError::Unavailable)
    }

    async fn refuse(&self, passkey: Option<Passkey>, reason: &'static str, client: &Client) -> PasskeyError {
        let event = self.core.audit.event(AuditKind::LoginFailed).remote(client.address());
        let event = passkey
            .iter()
            .fold(event, |event, passkey| event.user(&passkey.user).with("passkey_id", passkey.id.as_str()));
        self.core.audit.record(event.with("method", "passkey").with("reason", reason)).await;
        PasskeyError::Invalid
    }

    async fn audit(&self, kind: AuditKind, session: &Session, client: &Client, passkey: &Passkey) {
        let event = self.core.audit.event(kind).user(&session.user().id).remote(client.address());
        let event = event.with("passkey_id", passkey.id.as_str()).with("name", passkey.name.as_str());
        self.core.audit.record(event).await;
    }

    /// Mails a notice to the account's owner, because another person may have added the passkey.
    fn notify(&self, session: &Session) {
        if self.core.mailer.is_none() {
            return;
        }
        let (to, link) = (session.user().email.clone(), self.account.clone());
        self.core.mail(Mail::new(MailKind::PasskeyAdded, to, link, NOTICE_LIFETIME));
    }
}

/// An assertion that signs no user in.
enum InvalidAssertion {
    Wrong { passkey: Option<Passkey>, reason: &'static str },
    Store(PasskeyStoreError),
}

/// The challenge that a browser answers, one of those in its cookies.
fn answered(held: Vec<Challenge>, client_data: &str) -> Option<Challenge> {
    let data = passki::ClientData::from_base64(client_data).ok()?;
    let bytes = Passki::base64_decode(&data.challenge).ok()?;
    held.into_iter().find(|challenge| challenge.bytes[..] == bytes[..])
}

/// The passkeys in the form that other parts use: credentials that are removed when an account is claimed or deleted,
/// and a way to sign in.
pub(super) struct OfUsers(pub(super) Arc<dyn PasskeyStore>);

#[async_trait]
impl Credentials for OfUsers {
    fn name(&self) -> &'static str {
        "passkeys"
    }

    async fn drop_since(&self, user: &UserId, since: Timestamp) -> Result<u64, BoxError> {
        Ok(self.0.remove_all(user, Some(since)).await?)
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        Ok(self.0.remove_all(user, None).await?)
    }

    async fn describe(&self, user: &UserId) -> Result<Vec<Value>, BoxError> {
        let passkey = |passkey: &Passkey| {
            json!({
                "id": passkey.id,
                "name": passkey.name.to_string(),
                "backed_up": passkey.backed_up,
                "created_at": time::format(passkey.created_at),
                "last_used_at": moment(passkey.last_used_at),
            })
        };
        Ok(self.0.list(user).await?.iter().map(passkey).collect())
    }
}

#[async_trait]
impl SignInCredential for OfUsers {
    async fn is_usable(&self, user: &UserId) -> Result<bool, BoxError> {
        Ok(!self.0.list(user).await?.is_empty())
    }
}
