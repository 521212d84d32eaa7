use gatewright_base::{Scopes, Secret, ServiceId, TenantId, UserId};
use jiff::Timestamp;

use super::client::{Client, ClientKind, Source};
use super::consents::Consent;
use super::error::Failure;
use super::openid::logouts::Logouts;
use super::openid::relying::{InvalidRelyingParty, Relying, RelyingParty};
use super::redirect::{InvalidRedirectUri, RedirectUri};
use super::secret::{Hash, Kind};
use super::server::Server;
use crate::label::{InvalidLabel, Label};
use crate::users::BoxError;

/// Management of registered clients for trusted server code. From [`Auth::oauth2_clients`](crate::Auth::oauth2_clients).
#[derive(Clone)]
pub struct OAuth2Clients(Server);

/// A registered client, without its secret.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RegisteredClient {
    /// The identifier, `client_id` on the wire.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Who registered it.
    pub source: Source,
    /// The service account that it acts as, by `client_credentials`.
    pub service: Option<ServiceId>,
    /// Whether it has a secret.
    pub confidential: bool,
    /// The allowed redirect URIs.
    pub redirect_uris: Vec<String>,
    /// The scopes that it may request; `None` if they are not limited. [`scope_text`](super::scope_text) is what the client
    /// sends.
    pub scopes: Option<Scopes>,
    /// How it signs its users in.
    pub relying_party: RelyingParty,
}

/// A program that a user connected, without its tokens.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Connection {
    /// Its identifier, for [`OAuth2Clients::disconnect`].
    pub id: String,
    /// The client's identifier, `client_id` on the wire: the URL of its document if it has one.
    pub client: String,
    /// The name of the program.
    pub name: String,
    /// The host of its own URL, if it has one.
    pub host: Option<String>,
    /// The only tenant in which it acts, if its scopes include data of tenants.
    pub tenant: Option<TenantId>,
    /// The scopes that the user allowed.
    pub scopes: Scopes,
    /// When the user connected it.
    pub created_at: Timestamp,
    /// When it last got a token.
    pub last_used_at: Option<Timestamp>,
}

/// The purpose of a new client.
#[derive(Debug, Clone)]
pub enum ClientPurpose {
    /// It acts as a service account, by `client_credentials`, within `scopes`.
    Service {
        /// The account.
        account: ServiceId,
        /// The most that it may ask for.
        scopes: Scopes,
    },
    /// It acts for users who consent. It has a secret if it can keep one confidential.
    Users {
        /// The allowed redirect URIs.
        redirect_uris: Vec<String>,
        /// All scopes that it may request; `None`: every supported scope.
        scopes: Option<Scopes>,
        /// Whether it gets a secret.
        confidential: bool,
        /// How it signs its users in, by OpenID Connect.
        relying_party: RelyingParty,
    },
}

/// Why a client was not created or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The name.
    #[error("the name {0}")]
    Name(#[from] InvalidLabel),
    /// A redirect URI.
    #[error(transparent)]
    RedirectUri(#[from] InvalidRedirectUri),
    /// How it signs its users in.
    #[error(transparent)]
    RelyingParty(#[from] InvalidRelyingParty),
    /// No redirect URI.
    #[error("a client that acts for users needs a redirect URI")]
    NoRedirectUri,
    /// A service's client without scopes.
    #[error("a service's client needs at least one scope")]
    NoScopes,
    /// The database failed.
    #[error("the table of clients failed: {0}")]
    Store(#[source] BoxError),
}

impl OAuth2Clients {
    pub(super) fn new(server: Server) -> Self {
        Self(server)
    }

    /// Creates a client. Its secret, if it has one, is returned here and cannot be shown again.
    pub async fn create(
        &self,
        name: &str,
        purpose: ClientPurpose,
    ) -> Result<(RegisteredClient, Option<Secret>), ClientError> {
        let ambient = &self.0.core.ambient;
        let secret = Kind::ClientSecret.generate(ambient);
        let hash = Hash::of(secret.expose()).as_bytes().to_vec();
        let (kind, redirects, scopes, secret, identity) = match purpose {
            ClientPurpose::Service { scopes, .. } if scopes.is_empty() => return Err(ClientError::NoScopes),
            ClientPurpose::Service { account, scopes } => {
                let kind = ClientKind::Service { secret: hash, account };
                (kind, Vec::new(), Some(scopes), Some(secret), Relying::default())
            }
            ClientPurpose::Users { redirect_uris, .. } if redirect_uris.is_empty() => {
                return Err(ClientError::NoRedirectUri);
            }
            ClientPurpose::Users { redirect_uris, scopes, confidential, relying_party } => {
                let redirects = redirect_uris.iter().map(|uri| RedirectUri::parse(uri)).collect::<Result<_, _>>()?;
                let (kind, secret) = if confidential {
                    (ClientKind::Confidential { secret: hash }, Some(secret))
                } else {
                    (ClientKind::Public, None)
                };
                (kind, redirects, scopes, secret, relying_party.check(true)?)
            }
        };
        let client = Client {
            id: ambient.uuid().to_string(),
            name: Label::parse(name)?.as_str().to_owned(),
            kind,
            source: Source::Operator,
            redirects,
            scopes,
            identity,
            created_at: self.0.now(),
        };
        self.0
            .clients
            .add(&client, None, self.0.idle_since())
            .await
            .map_err(|error| ClientError::Store(error.into()))?;
        Ok((shown(client), secret))
    }

    /// All registered clients, the oldest first.
    pub async fn list(&self) -> Result<Vec<RegisteredClient>, ClientError> {
        let clients = self.0.clients.list().await.map_err(|error| ClientError::Store(error.into()))?;
        Ok(clients.into_iter().map(shown).collect())
    }

    /// Removes a client and revokes all its tokens. `false` if there is none.
    pub async fn remove(&self, id: &str) -> Result<bool, ClientError> {
        let removed = self.0.clients.remove(id).await.map_err(|error| ClientError::Store(error.into()))?;
        self.end_all(id).await.map_err(|failure| ClientError::Store(failure.into()))?;
        Ok(removed)
    }

    /// The programs that a user connected, the newest first.
    pub async fn connections(&self, user: &UserId) -> Result<Vec<Connection>, ClientError> {
        let consents = self.0.consents.of_user(user).await.map_err(|error| ClientError::Store(error.into()))?;
        Ok(consents.into_iter().map(connection).collect())
    }

    /// Ends a program that a user connected: its refresh tokens and access tokens in that tenant are refused from now
    /// on, and it needs a new consent. `false` if this user has no such connection.
    pub async fn disconnect(&self, user: &UserId, connection: &str) -> Result<bool, ClientError> {
        let ended = self.0.disconnect(user, connection, None).await;
        ended.map_err(|failure| ClientError::Store(failure.into()))
    }

    async fn end_all(&self, id: &str) -> Result<(), Failure> {
        self.0.consents.forget_client(id).await?;
        Logouts(self.0.consents.database().clone()).forget_client(id).await?;
        for grant in self.0.grants.of_client(id).await? {
            self.0.grants.end(&grant, self.0.now()).await?;
        }
        self.0.delegated.revoke_of_client(id, self.0.now()).await.map_err(Failure::store)?;
        Ok(())
    }
}

fn connection(consent: Consent) -> Connection {
    let Consent { id, client, name, host, tenant, scopes, created_at, last_used_at } = consent;
    Connection { id, client, name, host, tenant, scopes, created_at, last_used_at }
}

fn shown(client: Client) -> RegisteredClient {
    RegisteredClient {
        confidential: !client.is_public(),
        service: match client.kind {
            ClientKind::Service { account, .. } => Some(account),
            ClientKind::Public | ClientKind::Confidential { .. } => None,
        },
        id: client.id,
        name: client.name,
        source: client.source,
        redirect_uris: client.redirects.iter().map(|uri| uri.as_str().to_owned()).collect(),
        scopes: client.scopes,
        relying_party: client.identity.shown(),
    }
}

impl std::fmt::Debug for OAuth2Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuth2Clients").finish_non_exhaustive()
    }
}
