//! The OAuth 2.1 authorization server: programs get tokens by a user's consent, without pasted tokens.
//!
//! An MCP client finds the `metadata` by the 401 of `/mcp` and opens its user's browser at `authorize`, where the user
//! signs in and consents (`consent`). Then it exchanges the code for tokens at `token`. An access token is an API token
//! (`svc_…`) with a client, a grant and an audience: scopes, guards, streams, limits and audit apply to it as to any
//! API token, and nothing here decides permissions. A token never permits more than its user may do.
//!
//! Clients are registered by the operator ([`OAuth2Clients`]), register themselves (`register`, RFC 7591) or publish a
//! metadata document (`documents`). A code and a refresh token work once (`rows`); the second use ends the grant.
//!
//! If a scope includes data of tenants, the user chooses a tenant (`tenant`), and the tokens are valid only in it. They
//! end with the user's membership.
//!
//! `server` has the code that the endpoints share. The tables need a database.

mod authorize;
mod challenge;
mod client;
mod client_auth;
mod client_metadata;
mod clients;
mod consent;
mod consents;
mod device_authorization;
mod device_page;
mod devices;
mod documents;
mod error;
mod inspect;
mod metadata;
mod migrations;
mod openid;
mod options;
mod parameters;
mod redirect;
mod register;
mod request;
mod rows;
mod scopes;
mod secret;
mod section;
mod server;
mod tenant;
mod token;
mod trust;
mod trusted;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::{get, post};
use gatewright_base::{SigningKey, UserId, time};
use gatewright_db::Step;
use gatewright_http::OpenPath;
use gatewright_limits::Policy;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::background::uncut_get;
use crate::config::Limit;
use crate::core::Core;
use crate::credentials::Credentials;
use crate::foundation::Foundation;
use crate::fresh::Fresh;
use crate::init_error::AuthInitError;
use crate::plugins::account_export::moment;
use crate::plugins::{Mounted, Plugin, Prepared, Task};
use crate::tokens::{DelegatedTokens, Resources};
use crate::users::BoxError;
use crate::web::{guarded, no_head};

pub use challenge::ChallengeLayer;
pub use client::Source;
pub use openid::claims::{ClaimSource, IdentityClaims, InvalidClaim};
pub use openid::relying::{InvalidRelyingParty, RelyingParty};
pub use openid::words::{on_the_wire as scope_text, parse as parse_scope};
pub use redirect::InvalidRedirectUri;
pub use scopes::{ScopeText, SupportedScopes};
pub use trusted::{ClientError, ClientPurpose, Connection, OAuth2Clients, RegisteredClient};

use authorize::Endpoint;
use clients::Clients;
use consent::Seal;
use consents::{Consent, Consents};
use devices::Devices;
use documents::Documents;
use openid::answers::Answers;
use openid::back_channel::{BackChannel, ToPrograms};
use openid::logouts::Logouts;
use openid::{end_session, userinfo};
use options::Options;
use rows::Grants;
use section::Programs;
use server::Server;

/// The authorization server plugin. It needs the tokens plugin, a database and a public URL.
#[derive(Debug, Clone)]
pub struct AuthorizationServerPlugin(Options);

/// The label of the key for the tags of user codes.
const USER_CODES: &str = "gatewright/oauth2-device/user-code/v1";
/// Wrong user codes of one account, and the time within which they count.
const BY_ACCOUNT: u32 = 5;
const BY_ACCOUNT_TIME: Duration = Duration::from_mins(15);
/// Part of the sealed format of consent forms.
const LABEL: &str = "gatewright/oauth2-consent/v1";
const TOKEN: &str = "/oauth2/token";
const REVOKE: &str = "/oauth2/revoke";
const INTROSPECT: &str = "/oauth2/introspect";
const REGISTER: &str = "/oauth2/register";
const USERINFO: &str = "/oauth2/userinfo";
const DEVICE: &str = "/oauth2/device_authorization";
/// The endpoints that programs call, also from a page of any origin.
const PROGRAMS: [&str; 5] = [TOKEN, REVOKE, INTROSPECT, DEVICE, REGISTER];

impl AuthorizationServerPlugin {
    /// A server where clients may request `scopes`. Metadata documents are enabled; dynamic registration is not.
    pub fn new(scopes: SupportedScopes) -> Self {
        Self(Options {
            scopes,
            dynamic_registration: false,
            client_documents: true,
            access_ttl: SignedDuration::from_hours(1),
            refresh_ttl: SignedDuration::from_hours(30 * 24),
            code_ttl: SignedDuration::from_mins(1),
            openid: None,
        })
    }

    /// Signs users of other programs in, by OpenID Connect. Programs learn `claims` besides the account's id and address.
    pub fn openid(mut self, claims: IdentityClaims) -> Self {
        let (in_tenants, with_roles) = (claims.name_the_tenant(), claims.name_the_roles());
        self.0.scopes = std::mem::take(&mut self.0.scopes).with_identity(in_tenants, with_roles);
        self.0.openid = Some(claims);
        self
    }

    /// Whether clients may register themselves (RFC 7591).
    pub fn dynamic_registration(mut self, enabled: bool) -> Self {
        self.0.dynamic_registration = enabled;
        self
    }

    /// Whether the URL of a Client ID Metadata Document is a client identifier.
    pub fn client_documents(mut self, enabled: bool) -> Self {
        self.0.client_documents = enabled;
        self
    }

    /// How long access tokens last. Default: an hour.
    pub fn access_ttl(mut self, ttl: Duration) -> Self {
        self.0.access_ttl = signed(ttl);
        self
    }

    /// How long an unused refresh token lasts. Default: 30 days.
    pub fn refresh_ttl(mut self, ttl: Duration) -> Self {
        self.0.refresh_ttl = signed(ttl);
        self
    }
}

fn signed(ttl: Duration) -> SignedDuration {
    SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX)
}

impl Plugin for AuthorizationServerPlugin {
    fn name(&self) -> &'static str {
        "authorization_server"
    }

    fn migrations(&self) -> &'static [Step] {
        migrations::MIGRATIONS
    }

    fn signs_id_tokens(&self) -> bool {
        self.0.openid.is_some()
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let wrong = |problem: String| AuthInitError::Setting { setting: "authorization_server", problem };
        let config = &foundation.config;
        let db = foundation.db.clone().ok_or_else(|| wrong("it needs a database".to_owned()))?;
        let public_url = config.public_url.as_ref().ok_or_else(|| wrong("it needs a public URL".to_owned()))?;
        let resources = Resources::new(public_url, config.tools_path.as_deref());
        let options = Arc::new(self.0);
        let documents = Documents::new(foundation, options.client_documents, config.dev_mode)
            .map_err(|error| wrong(error.to_string()))?;
        // In dev mode without a secret, open forms become invalid when the process ends.
        let seal = Seal(SigningKey::derive(config.jwt.secrets(), LABEL, &foundation.ambient));
        let tagging = SigningKey::derive(config.jwt.secrets(), USER_CODES, &foundation.ambient);
        let answers = Answers::new(&config.jwt, &foundation.ambient);
        let (logouts, issuer) = (Logouts(db.clone()), resources.base().to_owned());
        let outbound = options.openid.as_ref().map(|_| ToPrograms::new(config.dev_mode)).transpose();
        let outbound = outbound.map_err(|error| wrong(error.to_string()))?;
        let connections =
            Connections { foundation: foundation.clone(), access: Arc::default(), access_ttl: options.access_ttl };
        let make = {
            let (options, access) = (options.clone(), connections.access.clone());
            move |core: &Arc<Core>| {
                let tokens = core.tokens.clone()?;
                let delegated = tokens.store.clone().delegated_tokens()?;
                let _only_once = access.set(delegated.clone());
                Some(Server {
                    core: core.clone(),
                    options,
                    resources,
                    clients: Clients::new(db.clone()),
                    consents: Consents::new(db.clone()),
                    devices: Devices::new(db.clone(), tagging),
                    grants: Grants::new(db),
                    documents,
                    tokens,
                    delegated,
                    answers,
                })
            }
        };
        Ok(Prepared::new().credentials(Arc::new(connections)).authorization_server(Box::new(move |core| {
            let server = make(core)?;
            let back_channel = outbound.map(|outbound| BackChannel::new(core, logouts, issuer, outbound));
            let task = back_channel.map(|back_channel| Box::pin(back_channel.run()) as Task);
            Some((mounted(server, seal, &options), task))
        })))
    }
}

fn mounted(server: Server, seal: Seal, options: &Options) -> Mounted {
    let core = server.core.clone();
    let endpoint = Endpoint { server: server.clone(), seal, fresh: Arc::new(Fresh::new(core.clone())) };
    // The GET issues a code if the user has allowed the same before.
    let ask = uncut_get(&core.background, get(authorize::ask).head(no_head));
    let consent = Router::new()
        .route("/oauth2/authorize", guarded(&core, None, post(authorize::decide)).merge(ask))
        .with_state(endpoint.clone());
    let programs = Router::new()
        .route(TOKEN, post(token::token))
        .route(REVOKE, post(inspect::revoke))
        .route(INTROSPECT, post(inspect::introspect))
        .with_state(server.clone());
    let begins = core.limiter("device_authorization", &core.config.limits.device);
    let device = guarded(&core, Some(&begins), post(device_authorization::begin));
    let device = Router::new().route(DEVICE, device).with_state(server.clone());
    let policy = Policy::new(BY_ACCOUNT, BY_ACCOUNT_TIME, BY_ACCOUNT_TIME);
    let by_account = core.limiter("device_account", &Limit { policy, trust_forwarded_for: false });
    let routes = consent.merge(programs).merge(device);
    let routes = if options.dynamic_registration {
        let limiter = core.limiter("oauth2_register", &core.config.limits.register);
        let register = guarded(&core, Some(&limiter), post(register::register));
        routes.merge(Router::new().route(REGISTER, register).with_state(server.clone()))
    } else {
        routes
    };
    let routes = if options.openid.is_some() {
        let end = uncut_get(&core.background, get(end_session::ask).head(no_head)).post(end_session::decide);
        let end = Router::new().route(end_session::PATH, end).with_state(endpoint.clone());
        let info = get(userinfo::userinfo).post(userinfo::userinfo);
        routes.merge(end).merge(Router::new().route(USERINFO, info).with_state(server.clone()))
    } else {
        routes
    };
    let base = &core.config.base_path;
    let programs = PROGRAMS.iter().filter(|path| options.dynamic_registration || **path != REGISTER);
    let programs = programs.map(|path| OpenPath { path: format!("{base}{path}"), methods: "POST" });
    let info = options.openid.as_ref().map(|_| OpenPath { path: format!("{base}{USERINFO}"), methods: "GET, POST" });
    let programs = programs.chain(info);
    let documents = metadata::paths(&server).into_iter();
    let documents = documents.map(|path| OpenPath { path, methods: "GET, HEAD" });
    Mounted {
        open_paths: programs.chain(documents).collect(),
        routes,
        screens: device_page::routes(endpoint, by_account),
        well_known: metadata::routes(server.clone()),
        section: Arc::new(Programs::new(server.clone())),
        clients: OAuth2Clients::new(server),
    }
}

/// The connections that end when an account is claimed or disabled.
struct Connections {
    foundation: Foundation,
    /// The path of access tokens, set when the server is mounted. Before that there are no access tokens.
    access: Arc<OnceLock<Arc<dyn DelegatedTokens>>>,
    /// The lifetime of access tokens.
    access_ttl: SignedDuration,
}

#[async_trait]
impl Credentials for Connections {
    fn name(&self) -> &'static str {
        "connected_programs"
    }

    fn ends_when_disabled(&self) -> bool {
        true
    }

    async fn describe(&self, user: &UserId) -> Result<Vec<Value>, BoxError> {
        let Some(db) = self.foundation.db.clone() else { return Ok(Vec::new()) };
        let consents = Consents::new(db).of_user(user).await?;
        let consent = |consent: &Consent| {
            json!({
                "name": consent.name,
                "host": consent.host,
                "tenant_id": consent.tenant,
                "scopes": consent.scopes,
                "created_at": time::format(consent.created_at),
                "last_used_at": moment(consent.last_used_at),
            })
        };
        Ok(consents.iter().map(consent).collect())
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        let Some(db) = self.foundation.db.clone() else { return Ok(0) };
        let (grants, now) = (Grants::new(db.clone()), self.foundation.ambient.now());
        // An interrupted deletion may have ended a grant but not its tokens.
        let since = now.saturating_sub(self.access_ttl).unwrap_or(Timestamp::MIN);
        for grant in grants.since(user, since).await? {
            grants.end(&grant, now).await?;
            if let Some(access) = self.access.get() {
                access.revoke_of_grant(&grant, 0, now).await?;
            }
        }
        Ok(Consents::new(db).forget_all(user).await?)
    }
}
