use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Key, Secret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use sha2::Sha256;

use super::claims::{Claims, ISSUER, Presented};
use crate::init_error::AuthInitError;
use crate::users::User;

/// The secrets and the lifetime of JWTs.
#[derive(Debug, Clone)]
pub struct JwtConfig {
    /// New tokens are signed with it. Required outside dev mode, of at least 32 bytes there.
    pub secret: Secret,
    /// Tokens signed with these still verify: the old secrets during a rotation.
    pub previous_secrets: Vec<Secret>,
    /// The lifetime of a token. An hour by default.
    pub expiry: Duration,
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self { secret: Secret::new(""), previous_secrets: Vec::new(), expiry: Duration::from_hours(1) }
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
    ambient: Ambient,
}

/// The token is not ours, or no longer valid. The reason is not disclosed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid or expired token")]
pub struct InvalidJwt;

/// Part of the signed format: tokens signed under another label do not verify.
const LABEL: &str = "gatewright/jwt/v1";

/// The longest token that is parsed, in bytes. Ours have a few hundred, more with many roles.
const MAX_BYTES: usize = 16 * 1024;

impl Jwts {
    /// Checks the secrets and derives the keys. In dev mode an empty secret is replaced by a random one, with a
    /// warning: its tokens become invalid when the process ends.
    pub fn new(config: &JwtConfig, dev_mode: bool, ambient: Ambient) -> Result<Self, AuthInitError> {
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
            ambient,
        })
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
            email: user.email.as_str().to_owned(),
            roles: user.roles.clone(),
            iat,
            exp: iat.saturating_add(i64::try_from(self.expiry.as_secs()).unwrap_or(i64::MAX)),
            jti,
            amr: Claims::methods(second_factor),
        };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.signing);
        Secret::new(token.expect("claims of text and numbers are JSON, and an HMAC key fits HS256"))
    }

    /// Checks signature, algorithm, issuer and time. It does not check whether the user still exists or has signed out.
    pub fn verify(&self, token: &Secret) -> Result<Claims, InvalidJwt> {
        let text = token.expose();
        if text.len() > MAX_BYTES {
            return Err(InvalidJwt);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(InvalidJwt)?;
        let (header, payload) = signed.split_once('.').filter(|(_, rest)| !rest.contains('.')).ok_or(InvalidJwt)?;
        if header != self.header {
            let header = jsonwebtoken::decode_header(text).map_err(|_| InvalidJwt)?;
            // RFC 7515, 4.1.11: a recipient that does not support an extension listed as critical must refuse.
            if header.alg != Algorithm::HS256 || header.crit.is_some() {
                return Err(InvalidJwt);
            }
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| InvalidJwt)?;
        let is_ours = |mac: &Hmac<Sha256>| mac.clone().chain_update(signed).verify_slice(&signature).is_ok();
        if !self.verifying.iter().any(is_ours) {
            return Err(InvalidJwt);
        }
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| InvalidJwt)?;
        let claims =
            serde_json::from_slice::<Presented>(&payload).map_err(|_| InvalidJwt)?.claims().ok_or(InvalidJwt)?;
        let live = claims.exp > self.ambient.now().as_second() && claims.issued_millis().is_some();
        if live { Ok(claims) } else { Err(InvalidJwt) }
    }
}

impl std::fmt::Debug for Jwts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jwts").field("secrets", &self.verifying.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
