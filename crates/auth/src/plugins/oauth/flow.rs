use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Secret, UserId};
use gatewright_http::Next;
use jiff::Timestamp;
use tokio::time::timeout;
use url::Url;

use super::binding::Binding;
use super::decision::{Decision, Facts, Intent, Refusal, decide};
use super::error::{BeginError, CallbackError};
use super::profile::Profile;
use super::providers::{Providers, Registered};
use super::state::{State, States};
use crate::audit::{AuditEvent, AuditKind};
use crate::core::Core;
use crate::devices::Browser;
use crate::email::EmailAddress;
use crate::fresh::Fresh;
use crate::guests::{self, UpgradeError};
use crate::mail::Notice;
use crate::mailbox::{self, Holder, Method};
use crate::plugins::passwordless;
use crate::plugins::registration;
use crate::plugins::sign_in::{SignedIn, admit, refused_disabled};
use crate::providers::{Authorization, Callback, Identified, Proofs, ProviderError};
use crate::session::{AnySession, Client, Proof, Session};
use crate::users::{GuestUpgrade, Linked, OAuthLinks, User, UserStoreError};

/// Redirects browsers to providers, and handles their callbacks.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    pub(super) providers: Providers,
    pub(super) states: States,
    pub(super) fresh: Fresh,
}

/// A flow in progress.
pub(super) struct Begun {
    pub(super) url: Url,
    pub(super) state: Secret,
    /// The binding of the flow to the browser.
    pub(super) binding: Binding,
    /// Whether the provider's page posts the answer.
    pub(super) posted: bool,
}

/// A callback in the browser that began the flow.
pub(super) struct Returned<'a> {
    pub(super) state: &'a State,
    /// The proofs of this browser's redirect to the provider.
    pub(super) proofs: &'a Proofs,
    pub(super) code: &'a Secret,
    /// The issuer that the callback names.
    pub(super) issuer: Option<&'a str>,
    /// What the callback says about the user.
    pub(super) user: Option<&'a str>,
}

/// The browser that came back.
pub(super) struct Visit {
    pub(super) client: Client,
    pub(super) session: Option<AnySession>,
    /// The session that a sign-in replaces.
    pub(super) browser: Browser,
}

/// How a flow ended well.
pub(super) enum Finished {
    SignedIn(Box<SignedIn>),
    /// The identity is linked to the caller's account.
    Linked,
}

/// How often a decision is made again because the facts changed while it was carried out.
const ATTEMPTS: usize = 4;
/// How long a provider may take for all calls of one sign-in. This is shorter than a server's own deadline for
/// requests, so that the answer is still one of this flow, which clears the state.
const TIMEOUT: Duration = Duration::from_secs(20);
const SLOW: ProviderError = ProviderError::Unavailable("its answers took longer than 20 seconds");

impl Flow {
    /// The provider's URL, and the cookies for the callback.
    pub(super) async fn begin(
        &self,
        provider: &str,
        link_to: Option<UserId>,
        next: Option<Next>,
    ) -> Result<Begun, BeginError> {
        let Registered { provider, redirect } = self.providers.find(provider).ok_or(BeginError::UnknownProvider)?;
        self.links().ok_or(BeginError::NoLinker)?;
        let binding = Binding::generate(&self.core.ambient);
        let bound_to = binding.digest();
        let state = self.states.sign(&State { provider: provider.name().to_owned(), link_to, next, bound_to });
        let proofs = binding.proofs(&state);
        let url = provider.authorize_url(&Authorization::new(state.expose(), redirect, &proofs)).await?;
        if provider.sends_pkce() && !proofs.challenge_is_in(&url) {
            return Err(BeginError::NoChallenge);
        }
        Ok(Begun { url, state, binding, posted: provider.posts_its_answer() })
    }

    /// Exchanges the code, gathers the facts, decides, and carries out the decision.
    pub(super) async fn finish(
        &self,
        registered: &Registered,
        returned: Returned<'_>,
        visit: Visit,
    ) -> Result<Finished, CallbackError> {
        let links = self.links().ok_or(CallbackError::NoLinker)?;
        let Registered { provider, redirect } = registered;
        let Returned { state, proofs, code, issuer, user } = returned;
        let callback = Callback::new(code, redirect, proofs).issuer(issuer).user(user);
        let identified = timeout(TIMEOUT, provider.identify(&callback)).await.unwrap_or(Err(SLOW))?;
        let profile = Profile::of(provider.name(), identified.identity.clone()).ok_or(CallbackError::NoIdentity)?;
        let intent = state.link_to.clone().map_or(Intent::SignIn, Intent::Link);
        for _ in 0..ATTEMPTS {
            if let Some(done) = self.settle(&**links, &intent, &profile, &visit).await? {
                self.keep_tokens(&**links, done.user(), provider.name(), &identified).await;
                return self.conclude(done, &profile, visit).await;
            }
        }
        Err(CallbackError::Unsettled)
    }

    /// Gathers the facts, decides, and carries out the decision; `None` if the facts changed in between.
    async fn settle(
        &self,
        links: &dyn OAuthLinks,
        intent: &Intent,
        profile: &Profile,
        visit: &Visit,
    ) -> Result<Option<Done>, CallbackError> {
        // This time is from before all lookups: if sessions are ended after it, the new session is refused too.
        let at = self.core.ambient.now();
        // The account first: one that came with its link between two looks is seen with it.
        let holder = match (intent, &profile.email) {
            (Intent::SignIn, Some(email)) => self.holder(email).await?,
            _ => None,
        };
        let owner = links.find_linked(&profile.link.provider, &profile.link.provider_id).await?;
        let facts = Facts {
            linked_to: owner.as_ref(),
            email: profile.email_fact(),
            account: holder.as_ref(),
            caller: visit.session.as_ref(),
        };
        match decide(intent, &facts) {
            Decision::Refuse(refusal) => Err(CallbackError::Refused(refusal)),
            Decision::SignIn(user) => {
                self.refresh_profile(links, profile).await;
                Ok(Some(Done::Proven(Proof::new(user.clone(), at))))
            }
            Decision::Bind(user) => {
                let proof = self.prove(user.clone(), at, visit).await?;
                let linked = links.link(proof.user(), &profile.link).await;
                if matches!(linked, Ok(Linked::Created)) {
                    self.core.notify(proof.user(), Notice::ProviderLinked).await;
                }
                self.linked(linked, proof, profile, visit).await
            }
            Decision::Create { email, proven } => self.create(links, profile, email, proven, at, visit).await,
            Decision::Link(session) => self.link(links, session, profile, visit).await,
            Decision::AlreadyLinked(session) => {
                self.refresh_profile(links, profile).await;
                Ok(Some(Done::Linked(session.user().id.clone())))
            }
        }
    }

    /// Links the identity to the account of the session, whose second factor is not pending.
    async fn link(
        &self,
        links: &dyn OAuthLinks,
        session: &Session,
        profile: &Profile,
        visit: &Visit,
    ) -> Result<Option<Done>, CallbackError> {
        let user = session.user();
        let event = self.core.audit.begin(self.link_event(user, profile, visit)).await.map_err(UserStoreError::from)?;
        match links.link(user, &profile.link).await? {
            Linked::Created => {
                event.done().await;
                self.core.notify(user, Notice::ProviderLinked).await;
            }
            Linked::AlreadyTheirs => event.withdraw().await,
            Linked::BoundToAnother => {
                event.withdraw().await;
                return Ok(None);
            }
            Linked::Stale => {
                event.withdraw().await;
                return Err(CallbackError::Refused(Refusal::NoSession));
            }
        }
        Ok(Some(Done::Linked(user.id.clone())))
    }

    /// Finishes a sign-in or a link.
    async fn conclude(&self, done: Done, profile: &Profile, visit: Visit) -> Result<Finished, CallbackError> {
        let proof = match done {
            Done::Proven(proof) => proof,
            Done::Linked(user) => {
                self.fill_profile(&user, profile, &visit.client).await;
                return Ok(Finished::Linked);
            }
        };
        let event = self.event(AuditKind::OAuthLogin, profile, &visit.client).user(&proof.user().id);
        let client = visit.client.clone();
        let signed_in = admit(&self.core, proof, visit.client, &visit.browser, "oauth").await?;
        self.core.audit.record(event).await;
        if !signed_in.is_pending() {
            self.fill_profile(&signed_in.proof.user().id, profile, &client).await;
        }
        Ok(Finished::SignedIn(Box::new(signed_in)))
    }

    async fn holder(&self, email: &EmailAddress) -> Result<Option<User>, UserStoreError> {
        match self.core.users.store.find_by_email(email).await {
            Ok(found) => Ok(Some(found.user)),
            Err(UserStoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The provider has proven the mailbox of an existing account.
    async fn prove(&self, user: User, at: Timestamp, visit: &Visit) -> Result<Proof, CallbackError> {
        if user.disabled {
            refused_disabled(&self.core, &user.id, visit.client.address(), "oauth").await;
        }
        let proven = mailbox::prove(&self.core, user, at, Holder::Mailbox, Method::Provider).await?;
        proven.audit_effect(&self.core, &visit.client, Method::Provider).await;
        Ok(Proof::new(proven.user, proven.at))
    }

    async fn create(
        &self,
        links: &dyn OAuthLinks,
        profile: &Profile,
        email: &EmailAddress,
        proven: bool,
        at: Timestamp,
        visit: &Visit,
    ) -> Result<Option<Done>, CallbackError> {
        registration::admit_passwordless(&self.core, email, proven).await?;
        if registration::is_reserved(&self.core, email).await? {
            return Err(CallbackError::Refused(Refusal::PasswordAccount));
        }
        if let Some(guest) = guests::of_session(visit.session.as_ref()) {
            let new = GuestUpgrade { email, password_hash: None, profile: None };
            match guests::upgrade(&self.core, guest, &new, proven).await {
                Ok((user, at)) => {
                    let linked = links.link(&user, &profile.link).await;
                    let event = self.event(AuditKind::RegisterSucceeded, profile, &visit.client).user(&user.id);
                    let event = event.with("email", user.email.as_str()).with("method", "oauth");
                    self.core.audit.record(event.with("guest", user.id.as_str())).await;
                    return self.linked(linked, Proof::new(user, at), profile, visit).await;
                }
                Err(UpgradeError::Users(UserStoreError::EmailTaken)) => return Ok(None),
                // Another address was faster. This identity gets an account of its own.
                Err(UpgradeError::NoGuest) => {}
                Err(UpgradeError::Users(error)) => return Err(error.into()),
                Err(error) => return Err(UserStoreError::transport(error).into()),
            }
        }
        let new = passwordless::new_user(&self.core, email, proven);
        let (user, linked) = match &self.core.users.oauth_creator {
            Some(creator) => match creator.create_linked(new, &profile.link).await {
                Ok(Some(user)) => (user, Linked::Created),
                Ok(None) | Err(UserStoreError::EmailTaken) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
            None => match passwordless::create(&self.core, new).await {
                Ok(user) => {
                    let linked = links.link(&user, &profile.link).await?;
                    (user, linked)
                }
                Err(passwordless::CreateError::Users(UserStoreError::EmailTaken)) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        let event = self.event(AuditKind::RegisterSucceeded, profile, &visit.client).user(&user.id);
        let event = event.with("email", user.email.as_str()).with("method", "oauth");
        self.core.audit.record(event).await;
        self.linked(Ok(linked), Proof::new(user, at), profile, visit).await
    }

    /// The result of a link that was created at a sign-in.
    async fn linked(
        &self,
        linked: Result<Linked, UserStoreError>,
        proof: Proof,
        profile: &Profile,
        visit: &Visit,
    ) -> Result<Option<Done>, CallbackError> {
        match linked {
            Ok(Linked::Created) => self.core.audit.record(self.link_event(proof.user(), profile, visit)).await,
            Ok(Linked::AlreadyTheirs) => {}
            Ok(Linked::BoundToAnother | Linked::Stale) | Err(UserStoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        Ok(Some(Done::Proven(proof)))
    }

    /// Best effort: if storing fails, the sign-in still succeeds, and a later use of the tokens fails with an error.
    ///
    /// Unlinking removes the link first and its tokens afterwards. So if the link still exists after the tokens are
    /// stored, unlinking will remove them. If the link is gone, the tokens were stored too late and are removed: this
    /// account would use another user's tokens at the provider.
    async fn keep_tokens(&self, links: &dyn OAuthLinks, user: &UserId, provider: &str, identified: &Identified) {
        let Some(tokens) = &self.core.oauth_tokens else { return };
        if let Err(error) = tokens.save(user, provider, identified).await {
            tracing::error!(%error, provider, "the provider tokens of a sign-in could not be stored");
            return;
        }
        let provider_id = &identified.identity.provider_id;
        let linked = links.find_linked(provider, provider_id).await;
        if !linked.is_ok_and(|owner| owner.is_some_and(|owner| owner.id == *user))
            && let Err(error) = tokens.remove_of(user, provider, provider_id).await
        {
            tracing::error!(%error, provider, "the provider tokens of an unlinked identity could not be removed");
        }
    }

    /// Best effort: if it fails, the sign-in still succeeds with the old profile.
    async fn refresh_profile(&self, links: &dyn OAuthLinks, profile: &Profile) {
        if let Err(error) = links.refresh_profile(&profile.link).await {
            tracing::warn!(%error, provider = profile.link.provider, "a linked profile could not be refreshed");
        }
    }

    /// Best effort: the provider's name and picture fill the empty fields `display_name` and `avatar_url` of the profile.
    async fn fill_profile(&self, user: &UserId, profile: &Profile, client: &Client) {
        let Some(profiles) = &self.core.profiles else { return };
        let known = [("display_name", &profile.link.name), ("avatar_url", &profile.link.avatar_url)];
        for (field, value) in known.into_iter().filter_map(|(field, value)| Some((field, value.as_deref()?))) {
            if let Err(error) = profiles.fill(&self.core.audit, user, field, value, client).await {
                tracing::debug!(%error, field, provider = profile.link.provider, "a profile field was not filled");
            }
        }
    }

    fn link_event(&self, user: &User, profile: &Profile, visit: &Visit) -> AuditEvent {
        let event = self.event(AuditKind::OAuthLinked, profile, &visit.client).user(&user.id);
        event.with("provider_id", profile.link.provider_id.as_str())
    }

    fn event(&self, kind: AuditKind, profile: &Profile, client: &Client) -> AuditEvent {
        let event = self.core.audit.event(kind).remote(client.address());
        event.with("provider", profile.link.provider.as_str())
    }

    fn links(&self) -> Option<&Arc<dyn OAuthLinks>> {
        self.core.users.oauth_links.as_ref()
    }
}

/// The result of a decision.
enum Done {
    /// A user is proven, and linked.
    Proven(Proof),
    /// The identity is linked to this caller.
    Linked(UserId),
}

impl Done {
    fn user(&self) -> &UserId {
        match self {
            Self::Proven(proof) => &proof.user().id,
            Self::Linked(user) => user,
        }
    }
}
