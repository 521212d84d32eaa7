use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Key, Secret};
use gatewright_db::Db;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use sha2::Sha256;

use super::claims::{Claims, ISSUER, Presented};
use super::id_tokens::IdTokens;
use super::keys::{JwtAlgorithm, JwtKeys, KeyError, Keys, Signer};
use crate::init_error::AuthInitError;
use crate::users::User;

/// The secrets and the lifetime of JWTs.
#[derive(Debug, Clone)]
pub struct JwtConfig {
    /// New tokens are signed with it if the algorithm is HS256. Required outside dev mode, of at least 32 bytes there: other
    /// keys are derived from it.
    pub secret: Secret,
    /// Tokens signed with these still verify: the old secrets during a rotation.
    pub previous_secrets: Vec<Secret>,
    /// The lifetime of a token. An hour by default.
    pub expiry: Duration,
    /// How new tokens are signed.
    pub algorithm: JwtAlgorithm,
    /// The key pairs of other algorithms than HS256.
    pub keys: JwtKeys,
}

impl JwtConfig {
    /// The secret, and then the previous ones. What is derived from the secret for another purpose must accept all of them,
    /// as JWTs do.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.secret).chain(&self.previous_secrets)
    }
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            secret: Secret::new(""),
            previous_secrets: Vec::new(),
            expiry: Duration::from_hours(1),
            algorithm: JwtAlgorithm::default(),
            keys: JwtKeys::default(),
        }
    }
}

/// Signs and verifies JWTs.
pub struct Jwts {
    signing: EncodingKey,
    /// With the prepared key: preparing it takes half the time for a short token.
    verifying: Vec<Hmac<Sha256>>,
    /// The first part of every token of ours.
    header: String,
    expiry: Duration,
    pub(super) keys: Keys,
    id_tokens: Option<IdTokens>,
    ambient: Ambient,
}

/// Why a token is refused, as far as the service itself needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// It names a key that this server does not know: another server may have added it.
    UnknownKey,
    Invalid,
}

/// What a header says about the signature.
enum Named {
    Secret,
    Key(JwtAlgorithm, String),
}

/// The parts of a header that decide. All others are ignored: no key is ever taken from a token.
#[derive(serde::Deserialize)]
struct PresentedHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<serde::de::IgnoredAny>,
}

/// The token is not ours, or no longer valid. The reason is not disclosed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid or expired token")]
pub struct InvalidJwt;

/// Part of the signed format: tokens signed under another label do not verify.
const LABEL: &str = "gatewright/jwt/v1";

/// The longest token that is parsed, in bytes. Ours have a few hundred, more with many roles.
pub(super) const MAX_BYTES: usize = 16 * 1024;

impl Jwts {
    /// Checks the secrets and derives the keys. In dev mode an empty secret is replaced by a random one, with a
    /// warning: its tokens become invalid when the process ends. Key pairs are in the table `auth_jwt_signers` of `db`, if there
    /// is one; [`start`](Self::start) reads and makes them.
    pub fn new(config: &JwtConfig, dev_mode: bool, db: Option<Db>, ambient: Ambient) -> Result<Self, AuthInitError> {
        if config.secret.is_empty() && !config.previous_secrets.is_empty() {
            return Err(AuthInitError::PreviousJwtSecretsOnly);
        }
        if config.secret.is_empty() && !dev_mode {
            return Err(AuthInitError::MissingJwtSecret);
        }
        if config.expiry.as_secs() == 0 || i64::try_from(config.expiry.as_secs()).is_err() {
            let problem = "a JWT lives for at least one second".to_owned();
            return Err(AuthInitError::Setting { setting: "jwt_expiry_seconds", problem });
        }
        let named = std::iter::once(("the JWT secret", &config.secret))
            .chain(config.previous_secrets.iter().map(|secret| ("a previous JWT secret", secret)));
        let of_keys = std::iter::once(("the secret of keys", &config.keys.secret))
            .filter(|(_, secret)| !secret.is_empty())
            .chain(config.keys.previous_secrets.iter().map(|secret| ("a previous secret of keys", secret)));
        for (name, secret) in of_keys {
            if secret.is_empty() || (secret.len() < Secret::MIN_BYTES && !dev_mode) {
                return Err(AuthInitError::ShortSecret { name, bytes: secret.len() });
            }
        }
        for (name, secret) in named.clone() {
            let empty_is_fine = dev_mode && name == "the JWT secret";
            if (secret.len() < Secret::MIN_BYTES && !dev_mode) || (secret.is_empty() && !empty_is_fine) {
                return Err(AuthInitError::ShortSecret { name, bytes: secret.len() });
            }
        }
        let key_of = |secret: &Secret| {
            if secret.is_empty() {
                tracing::warn!("no JWT secret is set: using a random one; JWTs end with this process");
                return Key::new(ambient.bytes());
            }
            secret.derive_key(LABEL)
        };
        let keys: Vec<Key> = named.map(|(_, secret)| key_of(secret)).collect();
        let mac = |key: &Key| Hmac::new_from_slice(key.as_slice()).expect("HMAC takes keys of any length");
        let header = serde_json::to_vec(&Header::new(Algorithm::HS256)).expect("a header is JSON");
        Ok(Self {
            signing: EncodingKey::from_secret(keys[0].as_slice()),
            verifying: keys.iter().map(mac).collect(),
            header: URL_SAFE_NO_PAD.encode(header),
            expiry: config.expiry,
            keys: Keys::new(config, db, ambient.clone())?,
            id_tokens: None,
            ambient,
        })
    }

    /// Signs `id_token`s for other programs too, with key pairs of their own.
    pub(crate) fn with_id_tokens(mut self, config: &JwtConfig, db: Option<&Db>) -> Self {
        self.id_tokens = Some(IdTokens::new(config, db, self.ambient.clone()));
        self
    }

    pub(crate) fn id_tokens(&self) -> Option<&IdTokens> {
        self.id_tokens.as_ref()
    }

    /// The published keys, each once; `None` if there is none.
    pub(super) fn published(&self) -> Option<Vec<Value>> {
        let now = self.now();
        let of_jwts = self.keys.schedule().published(now).unwrap_or_default();
        let others = self.id_tokens.iter().flat_map(|id_tokens| id_tokens.published(now));
        let keys: Vec<Value> = of_jwts.into_iter().chain(others).collect();
        (!keys.is_empty()).then_some(keys)
    }

    /// Reads the key pairs, and adds one if the algorithm or the first file has changed. `in_own_users`: whether accounts are
    /// in the database's table `users`, so that those who were there before can have tokens of HS256.
    pub async fn start(&self, in_own_users: bool) -> Result<(), KeyError> {
        self.keys.start(in_own_users).await?;
        match &self.id_tokens {
            Some(id_tokens) => id_tokens.start().await,
            None => Ok(()),
        }
    }

    /// Reads the key pairs again, and replaces and removes those that are old enough. Returns how many were removed.
    pub async fn sweep(&self) -> Result<u64, KeyError> {
        let mut removed = self.keys.sweep().await?;
        for keys in self.id_tokens.iter().flat_map(IdTokens::all) {
            removed += keys.sweep().await?;
        }
        Ok(removed)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.ambient.now()
    }

    /// A token for `user`, who authenticated at `authenticated`. Take that time before you load the account, so that a
    /// later refusal of old tokens also applies to this one.
    pub fn issue(&self, user: &User, authenticated: Timestamp) -> Secret {
        self.sign(user, authenticated, false)
    }

    /// The same for a user who has also proven a second factor. The token contains `mfa` in `amr`.
    pub fn issue_verified(&self, user: &User, authenticated: Timestamp) -> Secret {
        self.sign(user, authenticated, true)
    }

    fn sign(&self, user: &User, authenticated: Timestamp, second_factor: bool) -> Secret {
        // A token that follows a refusal within its millisecond must outlive it.
        let after = user.tokens_valid_after.map_or(i64::MIN, |after| after.as_millisecond().saturating_add(1));
        let millis = authenticated.as_millisecond().max(after).max(0);
        let iat = millis.div_euclid(1000);
        let jti = uuid::Builder::from_unix_timestamp_millis(millis.unsigned_abs(), &self.ambient.bytes()).into_uuid();
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: user.id.clone(),
            email: user.address().map(|email| email.as_str().to_owned()),
            roles: user.roles.clone(),
            iat,
            exp: iat.saturating_add(i64::try_from(self.expiry.as_secs()).unwrap_or(i64::MAX)),
            jti,
            amr: Claims::methods(second_factor),
        };
        if let Some(Signer::Pair(kid, algorithm, pair)) = self.keys.schedule().signer(self.ambient.now()) {
            let header = json!({ "typ": "JWT", "alg": algorithm.as_str(), "kid": kid }).to_string();
            let claims = serde_json::to_vec(&claims).expect("claims of text and numbers are JSON");
            let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
            let signature = pair.sign(signed.as_bytes()).expect("a key that was read signs");
            return Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)));
        }
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.signing);
        Secret::new(token.expect("claims of text and numbers are JSON, and an HMAC key fits HS256"))
    }

    /// Checks signature, algorithm, issuer and time. It does not check whether the user still exists or has signed out.
    pub fn verify(&self, token: &Secret) -> Result<Claims, InvalidJwt> {
        self.check(token).map_err(|_| InvalidJwt)
    }

    /// The same. If the token names an unknown key, the keys are read first: another server may have added it.
    pub(crate) async fn verify_with_new_keys(&self, token: &Secret) -> Result<Result<Claims, InvalidJwt>, KeyError> {
        match self.check(token) {
            Err(Refusal::UnknownKey) => self.keys.read().await?,
            checked => return Ok(checked.map_err(|_| InvalidJwt)),
        }
        Ok(self.verify(token))
    }

    fn check(&self, token: &Secret) -> Result<Claims, Refusal> {
        let text = token.expose();
        if text.len() > MAX_BYTES {
            return Err(Refusal::Invalid);
        }
        let invalid = || Refusal::Invalid;
        let (signed, signature) = text.rsplit_once('.').ok_or_else(invalid)?;
        let (header, payload) = signed.split_once('.').filter(|(_, rest)| !rest.contains('.')).ok_or_else(invalid)?;
        let named = if header == self.header { Named::Secret } else { named(header).ok_or_else(invalid)? };
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refusal::Invalid)?;
        let (schedule, now) = (self.keys.schedule(), self.ambient.now());
        let is_ours = match &named {
            Named::Secret => {
                let is_signed = |mac: &Hmac<Sha256>| mac.clone().chain_update(signed).verify_slice(&signature).is_ok();
                self.verifying.iter().any(is_signed)
            }
            Named::Key(algorithm, kid) => {
                let key = schedule.find(kid, now).ok_or(Refusal::UnknownKey)?;
                key.algorithm() == *algorithm && key.verify(signed.as_bytes(), &signature)
            }
        };
        if !is_ours {
            return Err(Refusal::Invalid);
        }
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| Refusal::Invalid)?;
        let presented = serde_json::from_slice::<Presented>(&payload).map_err(|_| Refusal::Invalid)?;
        let claims = presented.claims().ok_or_else(invalid)?;
        let live = claims.exp > now.as_second() && claims.issued_millis().is_some();
        let timely = matches!(named, Named::Key(..)) || schedule.accepts_secret(&claims, now);
        if live && timely { Ok(claims) } else { Err(Refusal::Invalid) }
    }
}

/// What a header says; `None` for an algorithm that is not ours, and for an extension that must be understood.
fn named(header: &str) -> Option<Named> {
    let header = URL_SAFE_NO_PAD.decode(header).ok()?;
    let PresentedHeader { alg, kid, crit } = serde_json::from_slice(&header).ok()?;
    // RFC 7515, 4.1.11: a recipient that does not support an extension listed as critical must refuse.
    if crit.is_some() {
        return None;
    }
    match alg.parse().ok()? {
        JwtAlgorithm::Hs256 => Some(Named::Secret),
        algorithm => Some(Named::Key(algorithm, kid?)),
    }
}

impl std::fmt::Debug for Jwts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jwts").field("secrets", &self.verifying.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
