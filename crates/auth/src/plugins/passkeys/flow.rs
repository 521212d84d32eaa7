use std::sync::Arc;

use gatewright_base::UserId;
use gatewright_db::{Db, Error, Share, Tx};
use http::{HeaderMap, HeaderValue};
use passki::{AuthenticationCredential, Passki, PasskiError, RegistrationCredential};
use serde_json::Value;

use super::challenge::{Challenge, Challenges, Purpose};
use super::relying_party::RelyingParty;
use super::{Added, Passkey, PasskeyStore, PasskeyStoreError, PasskeysWithin};
use crate::audit::{AuditEvent, AuditKind};
use crate::core::Core;
use crate::devices::Browser;
use crate::fresh::{Fresh, FreshError, Given};
use crate::label::Label;
use crate::mail::Notice;
use crate::open_session::{OpenSession, is_open};
use crate::plugins::sign_in::{self, SignedIn};
use crate::session::{AnySession, Client, MintError, Proof, Session};
use crate::sign_in_methods::{Ways, in_one_database};
use crate::step_up::{self, StepUpError};
use crate::users::{UserStoreError, UsersWithin};

/// The most passkeys of an account.
const MOST: u32 = 20;

/// Adding passkeys, signing in with one, and managing them.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    store: Arc<dyn PasskeyStore>,
    party: Option<Arc<RelyingParty>>,
    challenges: Arc<Challenges>,
    fresh: Fresh,
}

/// State that the plugins of one service share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Arc<dyn PasskeyStore>,
    pub(super) party: Option<Arc<RelyingParty>>,
    pub(super) challenges: Arc<Challenges>,
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
        let Parts { store, party, challenges } = parts;
        Self { fresh: Fresh::new(core.clone()), core, store, party, challenges }
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
        let event = self.event(AuditKind::PasskeyAdded, session, client, &passkey);
        let event = self.core.audit.begin(event).await.map_err(UserStoreError::from)?;
        let added = match self.within() {
            Some((users, passkeys)) => self.add_within(users.database(), passkeys, session, &passkey).await?,
            None => self.add_outside(session, &passkey).await?,
        };
        let refused = match added {
            Some(Added::Done) => None,
            Some(Added::Taken) => Some(PasskeyError::Taken),
            Some(Added::TooMany) => Some(PasskeyError::TooMany),
            None => Some(PasskeyError::Users(UserStoreError::NotFound)),
        };
        if let Some(refused) = refused {
            event.withdraw().await;
            return Err(refused);
        }
        event.done().await;
        self.core.notify(session.user(), Notice::PasskeyAdded).await;
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
    pub(crate) async fn remove(
        &self,
        session: &Session,
        id: &str,
        given: &Given,
        client: &Client,
    ) -> Result<(), PasskeyError> {
        self.fresh.require_unless_young(session, given, client, "removing a passkey").await?;
        let user = &session.user().id;
        let removed = match self.within() {
            Some((users, passkeys)) => self.remove_within(users, passkeys, user, id).await?,
            None => self.remove_outside(user, id).await?,
        };
        match removed {
            Removed::Done(passkey) => {
                let event = self.event(AuditKind::PasskeyRemoved, session, client, &passkey);
                self.core.audit.record(event).await;
            }
            Removed::Missing => return Err(PasskeyError::Missing),
            Removed::WasLast => return Err(PasskeyError::LastCredential),
        }
        Ok(())
    }

    /// The stores of accounts and passkeys, if both are in one database.
    fn within(&self) -> Option<(Arc<dyn UsersWithin>, Arc<dyn PasskeysWithin>)> {
        in_one_database(&self.core).zip(self.store.clone().within())
    }

    /// Adds a passkey unless the session has ended, in one transaction: a concurrent claim of the account ends its sessions
    /// first and removes its passkeys afterwards, so it removes this one or comes before. `None` if the session has ended.
    async fn add_within(
        &self,
        db: &Db,
        passkeys: Arc<dyn PasskeysWithin>,
        session: &Session,
        passkey: &Passkey,
    ) -> Result<Option<Added>, PasskeyError> {
        let share = Share::of_user(&passkey.user);
        let (passkey, open) = (passkey.clone(), OpenSession::of(&self.core, session, db));
        let add = async move |tx: &Tx| -> Result<Option<Added>, Error> {
            if !open.holds(tx).await? {
                return Ok(None);
            }
            passkeys.add(tx, &passkey, MOST).await.map(Some)
        };
        Ok(db.writing_for(share).write(add).await.map_err(PasskeyStoreError::from)?)
    }

    /// The same with stores of the program's own, which share no transaction: a passkey that a concurrent claim has not seen
    /// is removed again.
    async fn add_outside(&self, session: &Session, passkey: &Passkey) -> Result<Option<Added>, PasskeyError> {
        let added = self.store.add(passkey, MOST).await?;
        if added == Added::Done && !is_open(&self.core, session).await.unwrap_or(false) {
            self.store.remove(&passkey.user, &passkey.id).await?;
            return Ok(None);
        }
        Ok(Some(added))
    }

    /// Decides and removes in one transaction, under the lock of the account.
    async fn remove_within(
        &self,
        users: Arc<dyn UsersWithin>,
        passkeys: Arc<dyn PasskeysWithin>,
        user: &UserId,
        id: &str,
    ) -> Result<Removed, PasskeyError> {
        let (core, db) = (self.core.clone(), users.database().clone());
        let (user, id) = (user.clone(), id.to_owned());
        let remove = async move |tx: &Tx| -> Result<Removed, Error> {
            let Some(ways) = Ways::within(&core, &*users, tx, &user).await? else { return Ok(Removed::Missing) };
            let Some(passkey) = passkeys.find(tx, &user, &id).await? else { return Ok(Removed::Missing) };
            if !ways.remain_without_a_credential() {
                return Ok(Removed::WasLast);
            }
            passkeys.remove(tx, &user, &id).await?;
            Ok(Removed::Done(passkey))
        };
        Ok(db.write(remove).await.map_err(PasskeyStoreError::from)?)
    }

    /// The same with stores of the program's own.
    async fn remove_outside(&self, user: &UserId, id: &str) -> Result<Removed, PasskeyError> {
        let _one = self.core.removals.lock().await;
        if !self.store.list(user).await?.iter().any(|passkey| passkey.id == id) {
            return Ok(Removed::Missing);
        }
        if !Ways::of(&self.core, user).await?.remain_without_a_credential() {
            return Ok(Removed::WasLast);
        }
        Ok(self.store.remove(user, id).await?.map_or(Removed::Missing, Removed::Done))
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

    fn event(&self, kind: AuditKind, session: &Session, client: &Client, passkey: &Passkey) -> AuditEvent {
        let event = self.core.audit.event(kind).user(&session.user().id).remote(client.address());
        event.with("passkey_id", passkey.id.as_str()).with("name", passkey.name.as_str())
    }
}

/// The result of a request to remove a passkey.
enum Removed {
    Done(Passkey),
    Missing,
    /// It would have been the last way to sign in.
    WasLast,
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
