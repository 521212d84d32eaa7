//! What an `id_token` says (OpenID Connect Core, section 2), and what `userinfo` answers.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gatewright_base::{Scopes, Secret, SessionId, TenantId, UserId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::super::error::{Failure, OAuthError};
use super::super::rows::Grant;
use super::super::server::Server;
use super::claims::ClaimSource;
use super::words;
use crate::core::Core;
use crate::jwt::JwtAlgorithm;
use crate::jwt::id_tokens::{ID_TOKEN, LIFETIME};
use crate::session::Session;
use crate::users::{BoxError, User, UserStoreError};

/// How a user was signed in when they allowed a program to know it. The names are part of the stored format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Login {
    at: Timestamp,
    /// Absent of a device, whose tokens do not end with the browser's session.
    session: Option<String>,
    second_factor: bool,
    nonce: Option<String>,
    algorithm: String,
}

impl Login {
    /// The sign-in of a session. `ends_with_it`: whether the client's access does.
    pub(in super::super) fn of(
        session: &Session,
        ends_with_it: bool,
        nonce: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Self {
        Self {
            at: session.started_at(),
            session: ends_with_it.then(|| session.id().as_str().to_owned()),
            second_factor: session.two_factor_verified(),
            nonce: nonce.map(str::to_owned),
            algorithm: algorithm.as_str().to_owned(),
        }
    }

    /// The session that the sign-in belongs to, and when it began.
    pub(in super::super) fn session(&self) -> Option<(SessionId, Timestamp)> {
        Some((SessionId::parse(self.session.as_deref()?).ok()?, self.at))
    }
}

/// Whom and which client an `id_token` means.
pub(in super::super) struct Hint {
    pub(in super::super) user: String,
    pub(super) client: String,
    pub(super) session: Option<String>,
}

/// Whether a client's access ends with the session in which it was allowed: it wants to know who the user is, and does not
/// ask for access without a session.
pub(in super::super) fn ends_with_session(scopes: &Scopes) -> bool {
    words::IDENTITY.is_in(scopes) && !words::OFFLINE_ACCESS.is_in(scopes)
}

/// Whether a client learns who the user is, and gets nothing else that outlives the session.
pub(in super::super) fn only_signs_in(scopes: &Scopes) -> bool {
    ends_with_session(scopes) && scopes.iter().all(words::is_identity)
}

impl Server {
    /// The `id_token` for an access token that is about to be issued. `first`: in answer to the authorization request, whose
    /// `nonce` it repeats.
    pub(in super::super) async fn id_token(
        &self,
        grant: &Grant,
        scopes: &Scopes,
        access: &Secret,
        first: bool,
    ) -> Result<Option<Secret>, Failure> {
        let (Some(login), Some(signing)) = (&grant.login, self.core.jwts.id_tokens()) else { return Ok(None) };
        let Some(mut claims) = self.identity(&grant.user, scopes, grant.tenant.as_ref()).await? else {
            return Ok(None);
        };
        let (now, expires) = (self.now(), self.later(LIFETIME));
        let hash = Sha256::digest(access.expose());
        let (acr, amr) = if login.second_factor { ("aal2", Some("mfa")) } else { ("aal1", None) };
        claims.extend([
            ("iss".to_owned(), json!(self.resources.base())),
            ("aud".to_owned(), json!(grant.client)),
            ("iat".to_owned(), json!(now.as_second())),
            ("exp".to_owned(), json!(expires.as_second())),
            ("auth_time".to_owned(), json!(login.at.as_second())),
            ("acr".to_owned(), json!(acr)),
            ("at_hash".to_owned(), json!(BASE64_URL_SAFE_NO_PAD.encode(&hash[..hash.len() / 2]))),
        ]);
        if let Some(amr) = amr {
            claims.insert("amr".to_owned(), json!([amr]));
        }
        // Access that outlives the session does not name it any more.
        if let Some(session) = login.session.as_ref().filter(|_| first || ends_with_session(&grant.scopes)) {
            claims.insert("sid".to_owned(), json!(session));
        }
        if let Some(nonce) = login.nonce.as_ref().filter(|_| first) {
            claims.insert("nonce".to_owned(), json!(nonce));
        }
        let algorithm = login.algorithm.parse().unwrap_or(JwtAlgorithm::Es256);
        let token = signing.sign(algorithm, ID_TOKEN, &Value::Object(claims));
        token.map(Some).ok_or_else(|| Failure::store("there is no key that signs id_tokens"))
    }

    /// What a program with these scopes learns about a user. `None` without `openid`.
    pub(in super::super) async fn identity(
        &self,
        user: &UserId,
        scopes: &Scopes,
        tenant: Option<&TenantId>,
    ) -> Result<Option<Map<String, Value>>, Failure> {
        let Some(named) = self.options.openid.as_ref().filter(|_| words::IDENTITY.is_in(scopes)) else {
            return Ok(None);
        };
        let user = match self.core.users.store.find_by_id(user).await {
            Ok(user) if !user.disabled => user,
            Ok(_) | Err(UserStoreError::NotFound) => {
                return Err(OAuthError::invalid_grant("the account is disabled or deleted").into());
            }
            Err(error) => return Err(Failure::store(error)),
        };
        let profile = match &self.core.profiles {
            Some(profiles) if words::PROFILE.is_in(scopes) => profiles.of(&user.id).await.map_err(Failure::store)?,
            _ => Map::new(),
        };
        Ok(Some(claims(&user, scopes, tenant, &profile, &named.0)))
    }

    /// What a valid `id_token` of this server says, expired or not.
    pub(in super::super) fn hint(&self, token: &str) -> Option<Hint> {
        let claims = self.core.jwts.id_tokens()?.hint(token)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_ours = text("iss").as_deref() == Some(self.resources.base());
        Some(Hint { user: text("sub")?, client: text("aud")?, session: text("sid") }).filter(|_| is_ours)
    }

    /// Whether the session in which a grant was allowed has ended, for a grant that ends with it, and for its code: a program that
    /// was told of the end must not sign its user in afterwards.
    pub(in super::super) async fn has_ended_with_session(&self, grant: &Grant, is_code: bool) -> Result<bool, Failure> {
        let login = grant.login.as_ref().filter(|_| is_code || ends_with_session(&grant.scopes));
        match login.and_then(Login::session) {
            Some((session, since)) => {
                Ok(!is_signed_in(&self.core, &grant.user, &session, since).await.map_err(Failure::store)?)
            }
            None => Ok(false),
        }
    }
}

/// Whether a session of a user, who signed in at `since`, may still act.
pub(super) async fn is_signed_in(
    core: &Core,
    user: &UserId,
    session: &SessionId,
    since: Timestamp,
) -> Result<bool, BoxError> {
    let found = core.sessions.find_of(user, session).await?;
    if found.is_none_or(|session| session.expires_at <= core.ambient.now()) {
        return Ok(false);
    }
    match core.users.store.find_by_id(user).await {
        Ok(user) => Ok(user.is_open_to(since)),
        Err(UserStoreError::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The claims about a user that these scopes reveal.
fn claims(
    user: &User,
    scopes: &Scopes,
    tenant: Option<&TenantId>,
    profile: &Map<String, Value>,
    named: &BTreeMap<String, ClaimSource>,
) -> Map<String, Value> {
    let mut claims = Map::new();
    for (name, source) in named {
        let value = match source {
            ClaimSource::Roles => Some(json!(user.roles)),
            ClaimSource::Tenant => tenant.map(|tenant| json!(tenant)),
            ClaimSource::Profile(field) => {
                let camel = gatewright_base::JsonCase::Camel.spell(field);
                profile.get(field).or_else(|| profile.get(&*camel)).cloned()
            }
        };
        if let Some(value) = value.filter(|value| !value.is_null()) {
            claims.insert(name.clone(), value);
        }
    }
    if let Some(email) = user.address().filter(|_| words::EMAIL.is_in(scopes)) {
        claims.insert("email".to_owned(), json!(email.as_str()));
        claims.insert("email_verified".to_owned(), json!(user.email_verified));
    }
    claims.insert("sub".to_owned(), json!(user.id));
    claims
}
