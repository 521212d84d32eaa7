use std::sync::Arc;

use gatewright_base::{Scopes, Secret, Subject, TenantId, TokenId, UserId};
use gatewright_http::ClientAddr;
use jiff::{SignedDuration, Timestamp};

use super::client::{Client, ClientKind, document_url};
use super::clients::Clients;
use super::consents::{Connected, Consented, Consents};
use super::devices::Devices;
use super::documents::{DocumentError, Documents};
use super::error::{Failure, OAuthError};
use super::openid::answers::{Answers, Drawn};
use super::openid::id_token::Login;
use super::openid::logouts::Tell;
use super::openid::words;
use super::options::Options;
use super::request::AuthorizationRequest;
use super::rows::{Grant, Grants};
use super::scopes::{SupportedScopes, joined};
use super::secret::{Hash, Kind};
use crate::audit::{AuditEvent, AuditKind, PendingEvent};
use crate::core::Core;
use crate::open_session::OpenSession;
use crate::session::{Client as Browser, Session};
use crate::tokens::{DelegatedTokens, Delegation, Plaintext, Resource, Resources, StoredToken, Tokens};
use crate::users::UserStoreError;

/// The state that the endpoints of the authorization server share.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) core: Arc<Core>,
    pub(super) options: Arc<Options>,
    pub(super) resources: Resources,
    pub(super) clients: Clients,
    pub(super) consents: Consents,
    pub(super) grants: Grants,
    pub(super) devices: Devices,
    pub(super) documents: Documents,
    pub(super) tokens: Tokens,
    pub(super) delegated: Arc<dyn DelegatedTokens>,
    pub(super) answers: Answers,
}

/// Tokens that were just issued, with their plaintexts: here and nowhere else.
pub(super) struct Issued {
    pub(super) access: Secret,
    pub(super) expires_in: SignedDuration,
    pub(super) refresh: Option<Secret>,
    pub(super) id_token: Option<Secret>,
    pub(super) scopes: Scopes,
    pub(super) tenant: Option<TenantId>,
}

/// Limit of valid access tokens of one grant. Several can be valid, so that a client that refreshes early does not
/// break its own requests; the limit keeps the table small.
const ACCESS_TOKENS_OF_A_GRANT: u32 = 5;
/// The same for a service's client, of which many processes may run.
const ACCESS_TOKENS_OF_A_SERVICE: u32 = 100;

impl Server {
    pub(super) fn now(&self) -> Timestamp {
        self.core.ambient.now()
    }

    /// A path of the service below the base path, as a URL.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.resources.base(), self.core.config.base_path)
    }

    /// The client of an authorization request. A metadata document is fetched for `user`, who is signed in.
    pub(super) async fn client_for(&self, id: &str, user: &UserId) -> Result<Option<Client>, DocumentError> {
        match document_url(id) {
            Some(url) => self.documents.client(url, user).await.map(Some),
            None => self.clients.find(id).await.map_err(DocumentError::Store),
        }
    }

    /// To whom a user is asked to allow something, in a tenant or in none.
    pub(super) fn consented(
        &self,
        user: &UserId,
        client: &Client,
        resource: Resource,
        tenant: Option<TenantId>,
    ) -> Consented {
        let resource = self.resources.url(resource).to_owned();
        Consented { user: user.clone(), client: client.id.clone(), resource, tenant }
    }

    /// Issues an authorization code for a user's consent, and names its grant. `None`: the user's session has ended.
    pub(super) async fn code(
        &self,
        session: &Session,
        open: &OpenSession,
        allowed: Consented,
        request: &AuthorizationRequest,
    ) -> Result<Option<(String, Secret)>, Failure> {
        let ambient = &self.core.ambient;
        let code = Kind::Code.generate(ambient);
        let (client, scopes) = (&request.client, &request.scopes);
        let wants_login = words::IDENTITY.is_in(scopes);
        let nonce = request.login.nonce.as_deref();
        let login = wants_login.then(|| Login::of(session, true, nonce, client.identity.algorithm));
        let tell = login.as_ref().and_then(|_| Tell::of(session, client, ambient));
        let grant = Grant {
            id: ambient.uuid().to_string(),
            user: allowed.user,
            client: allowed.client,
            resource: allowed.resource,
            tenant: allowed.tenant,
            scopes: request.scopes.clone(),
            redirect_uri: request.redirect_named.then(|| request.redirect.as_str().to_owned()),
            challenge: request.challenge.clone(),
            login,
            created_at: self.now(),
        };
        let expires = self.later(self.options.code_ttl);
        let has_begun = self.grants.begin(open, &grant, &Hash::of(code.expose()), expires, tell).await?;
        Ok(has_begun.then_some((grant.id, code)))
    }

    /// Issues tokens for a grant whose code was just used.
    pub(super) async fn tokens_for(&self, client: &Client, grant: &Grant) -> Result<Issued, Failure> {
        self.still_allowed(grant, true).await?;
        let drawn = self.draw(grant, grant.scopes.clone(), true).await?;
        self.issue(client, grant, drawn).await
    }

    /// Whether a grant may still have tokens. Otherwise it ends: its user has left its tenant, or the session that it is bound to
    /// has ended.
    pub(super) async fn still_allowed(&self, grant: &Grant, is_code: bool) -> Result<(), Failure> {
        if !self.is_in_its_tenant(grant).await? {
            self.end(&grant.id).await?;
            self.consents.forget_in(&grant.user, &grant.client, grant.tenant.as_ref()).await?;
            return Err(OAuthError::invalid_grant("the user is no longer a member of the tenant").into());
        }
        if self.has_ended_with_session(grant, is_code).await? {
            self.end(&grant.id).await?;
            return Err(OAuthError::invalid_grant("the user's session has ended").into());
        }
        Ok(())
    }

    /// Draws the next tokens of a grant. `first`: in answer to the authorization request.
    pub(super) async fn draw(&self, grant: &Grant, scopes: Scopes, first: bool) -> Result<Drawn, Failure> {
        let ambient = &self.core.ambient;
        let (access, refresh) = (Plaintext::generate(ambient), Kind::Refresh.generate(ambient));
        let id_token = self.id_token(grant, &scopes, &Secret::new(access.expose()), first).await?;
        Ok(Drawn { access, id: TokenId::generate(ambient), refresh, id_token, scopes, at: self.now() })
    }

    /// Stores the tokens that were drawn for a grant whose code or refresh token was just used. It can be repeated.
    ///
    /// If the grant ends at the same time (its user ended it or disconnected the program, or the used code was presented again), the
    /// returned tokens are already invalid.
    pub(super) async fn issue(&self, client: &Client, grant: &Grant, drawn: Drawn) -> Result<Issued, Failure> {
        let until = self.later(self.options.refresh_ttl);
        self.grants.add_refresh(&grant.id, &Hash::of(drawn.refresh.expose()), self.now(), until).await?;
        let of = Consented {
            user: grant.user.clone(),
            client: grant.client.clone(),
            resource: grant.resource.clone(),
            tenant: grant.tenant.clone(),
        };
        let delegation = Delegation {
            client: of.client.clone(),
            grant: grant.id.clone(),
            audience: of.resource.clone(),
            tenant: of.tenant.clone(),
        };
        let owner = Subject::User(grant.user.clone());
        self.store_access(&client.name, owner, &drawn, delegation, ACCESS_TOKENS_OF_A_GRANT).await?;
        if !self.grants.is_live(&grant.id).await? {
            self.delegated.revoke_of_grant(&grant.id, 0, self.now()).await.map_err(Failure::store)?;
        }
        if !self.consents.used(&of, self.now()).await? {
            self.end(&grant.id).await?;
        }
        let Drawn { access, refresh, id_token, scopes, .. } = drawn;
        let (access, expires_in) = (Secret::new(access.expose()), self.options.access_ttl);
        Ok(Issued { access, expires_in, refresh: Some(refresh), id_token, scopes, tenant: of.tenant })
    }

    /// A token for a service account's own client.
    pub(super) async fn tokens_for_service(
        &self,
        client: &Client,
        resource: Resource,
        scopes: Scopes,
    ) -> Result<Option<Issued>, Failure> {
        let ClientKind::Service { account, .. } = &client.kind else { return Ok(None) };
        let found = self.tokens.services.find(account).await.map_err(Failure::store)?;
        if found.is_none_or(|account| account.disabled) {
            return Ok(None);
        }
        let audience = self.resources.url(resource).to_owned();
        let delegation = Delegation { client: client.id.clone(), grant: client.id.clone(), audience, tenant: None };
        let (owner, ambient) = (Subject::Service(account.clone()), &self.core.ambient);
        let (access, refresh) = (Plaintext::generate(ambient), Secret::new(""));
        let drawn = Drawn { access, id: TokenId::generate(ambient), refresh, id_token: None, scopes, at: self.now() };
        self.store_access(&client.name, owner, &drawn, delegation, ACCESS_TOKENS_OF_A_SERVICE).await?;
        let (access, expires_in) = (Secret::new(drawn.access.expose()), self.options.access_ttl);
        Ok(Some(Issued { access, expires_in, refresh: None, id_token: None, scopes: drawn.scopes, tenant: None }))
    }

    /// Stores an access token, unless it is stored already.
    async fn store_access(
        &self,
        name: &str,
        owner: Subject,
        drawn: &Drawn,
        delegation: Delegation,
        keep: u32,
    ) -> Result<(), Failure> {
        let (grant, hash) = (delegation.grant.clone(), drawn.access.hash());
        let token = StoredToken {
            id: drawn.id.clone(),
            name: name.to_owned(),
            prefix: drawn.access.prefix(),
            owner,
            scopes: drawn.scopes.clone(),
            created_at: drawn.at,
            expires_at: Some(drawn.at.checked_add(self.options.access_ttl).unwrap_or(Timestamp::MAX)),
            last_used_at: None,
            revoked_at: None,
            delegation: Some(delegation),
        };
        if let Err(error) = self.tokens.store.create(&token, &hash, None).await
            && self.tokens.store.find(&hash).await.map_err(Failure::store)?.is_none()
        {
            return Err(Failure::store(error));
        }
        self.delegated.revoke_of_grant(&grant, keep, self.now()).await.map_err(Failure::store)?;
        Ok(())
    }

    /// Ends a grant with all of its tokens.
    pub(super) async fn end(&self, grant: &str) -> Result<(), Failure> {
        self.grants.end(grant, self.now()).await?;
        self.delegated.revoke_of_grant(grant, 0, self.now()).await.map_err(Failure::store)?;
        Ok(())
    }

    /// Ends the oldest grants of a user at a client that has more than it may.
    pub(super) async fn end_surplus(&self, user: &UserId, client: &str) -> Result<(), Failure> {
        let live = self.grants.of_user(user, client).await?;
        for grant in live.iter().skip(Grants::most_of_client()) {
            self.end(grant).await?;
        }
        Ok(())
    }

    /// Ends a user's consent to a program in one tenant, or in none; `false` if there is none. Without a browser, the caller
    /// is trusted code.
    ///
    /// The program is listed until its tokens are invalid, so that an interrupted request can be repeated. A later request
    /// of the program finds no consent and ends with its first token.
    pub(super) async fn disconnect(
        &self,
        user: &UserId,
        consent: &str,
        browser: Option<&Browser>,
    ) -> Result<bool, Failure> {
        let Some(Connected { client, tenant }) = self.consents.connected(user, consent).await? else {
            return Ok(false);
        };
        // An interrupted request may have ended a grant but not its access tokens, which live that long.
        let since = self.now().checked_sub(self.options.access_ttl).unwrap_or(Timestamp::MIN);
        for grant in self.grants.in_tenant(user, &client, tenant.as_ref(), since).await? {
            self.end(&grant).await?;
        }
        self.consents.forget_in(user, &client, tenant.as_ref()).await?;
        let event = self.core.audit.event(AuditKind::OAuth2Revoked).user(user);
        let event = event.remote(browser.and_then(Browser::address));
        let event = in_tenant(event.with("client", client), tenant.as_ref());
        self.core.audit.record(event).await;
        Ok(true)
    }

    /// A used code or refresh token was presented again: it was stolen before or after its client used it, so its grant ends
    /// (RFC 9700, sections 4.5.3 and 4.14.2).
    pub(super) async fn replayed(&self, what: &'static str, grant: &Grant, from: ClientAddr) -> Result<(), Failure> {
        self.end(&grant.id).await?;
        let event = self.core.audit.event(AuditKind::OAuth2ReplayDetected).user(&grant.user).remote(from.ip());
        let event = event.with("client", grant.client.as_str()).with("credential", what);
        self.core.audit.record(event).await;
        Ok(())
    }

    /// The event of a consent that is about to be stored.
    pub(super) async fn begin_consent(
        &self,
        allowed: &Consented,
        client: &Client,
        scopes: &Scopes,
        browser: &Browser,
    ) -> Result<PendingEvent, UserStoreError> {
        let event = self.core.audit.event(AuditKind::OAuth2Authorized).user(&allowed.user).remote(browser.address());
        let event = event.with("client", client.id.as_str()).with("name", client.name.as_str());
        let event = event.with("scopes", joined(scopes)).with("resource", allowed.resource.as_str());
        Ok(self.core.audit.begin(in_tenant(event, allowed.tenant.as_ref())).await?)
    }

    pub(super) fn supported(&self) -> &SupportedScopes {
        &self.options.scopes
    }

    /// A connection without a new token since then is over: its refresh token has expired.
    pub(super) fn idle_since(&self) -> Timestamp {
        self.now().checked_sub(self.options.refresh_ttl).unwrap_or(Timestamp::MIN)
    }

    pub(super) fn later(&self, by: SignedDuration) -> Timestamp {
        self.now().checked_add(by).unwrap_or(Timestamp::MAX)
    }
}

fn in_tenant(event: AuditEvent, tenant: Option<&TenantId>) -> AuditEvent {
    tenant.into_iter().fold(event, |event, tenant| event.with("tenant_id", tenant.as_str()))
}
