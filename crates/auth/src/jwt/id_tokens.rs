//! Tokens for other programs: an `id_token` says who signed in, a `logout_token` that somebody is signed out (OpenID Connect).
//!
//! Their key pairs are others than those of JWTs: none of these tokens is a credential here, whatever it says.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret};
use gatewright_db::Db;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::keys::{JwtAlgorithm, KeyError, Keys, Signer};
use super::signer::{JwtConfig, MAX_BYTES};

/// How long an `id_token` is valid.
pub(crate) const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Signs them with ES256, or RS256 for programs that cannot verify that.
#[cfg_attr(not(feature = "authorization-server"), allow(dead_code, reason = "only the authorization server signs"))]
pub(crate) struct IdTokens {
    es256: Keys,
    rs256: Keys,
    ambient: Ambient,
}

#[cfg_attr(not(feature = "authorization-server"), allow(dead_code, reason = "only the authorization server signs"))]
impl IdTokens {
    /// The algorithms that a program can ask for, the default first.
    pub(crate) const ALGORITHMS: [JwtAlgorithm; 2] = [JwtAlgorithm::Es256, JwtAlgorithm::Rs256];

    pub(super) fn new(config: &JwtConfig, db: Option<&Db>, ambient: Ambient) -> Self {
        let keys = |algorithm| Keys::of_id_tokens(config, algorithm, LIFETIME, db.cloned(), ambient.clone());
        Self { es256: keys(JwtAlgorithm::Es256), rs256: keys(JwtAlgorithm::Rs256), ambient }
    }

    pub(super) fn all(&self) -> [&Keys; 2] {
        [&self.es256, &self.rs256]
    }

    pub(super) async fn start(&self) -> Result<(), KeyError> {
        for keys in self.all() {
            keys.start(false).await?;
        }
        Ok(())
    }

    /// Signs `claims` for a program whose tokens have this algorithm. `None` without a key, and for an algorithm that is not
    /// one of [`ALGORITHMS`](Self::ALGORITHMS).
    pub(crate) fn sign(&self, algorithm: JwtAlgorithm, typ: &str, claims: &Value) -> Option<Secret> {
        let keys = match algorithm {
            JwtAlgorithm::Es256 => &self.es256,
            JwtAlgorithm::Rs256 => &self.rs256,
            JwtAlgorithm::Hs256 | JwtAlgorithm::EdDsa => return None,
        };
        let schedule = keys.schedule();
        let Some(Signer::Pair(kid, _, pair)) = schedule.signer(self.ambient.now()) else { return None };
        let header = json!({ "typ": typ, "alg": algorithm.as_str(), "kid": kid });
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", text(&header), text(claims));
        let signature = pair.sign(signed.as_bytes()).ok()?;
        Some(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }

    /// The claims of an `id_token` of this server, expired or not, which only says whom a program means: a key that was
    /// replaced an hour ago is not known any more.
    pub(crate) fn hint(&self, token: &str) -> Option<Map<String, Value>> {
        #[derive(serde::Deserialize)]
        struct Header {
            alg: String,
            kid: String,
            typ: Option<String>,
            crit: Option<serde::de::IgnoredAny>,
        }
        if token.len() > MAX_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let Header { alg, kid, typ, crit } = serde_json::from_slice(&decoded(header)?).ok()?;
        if crit.is_some() || typ.is_some_and(|typ| typ != ID_TOKEN) {
            return None;
        }
        let (algorithm, signature, now) = (alg.parse::<JwtAlgorithm>().ok()?, decoded(signature)?, self.ambient.now());
        let known = self.all().into_iter().any(|keys| {
            let schedule = keys.schedule();
            let key = schedule.find(&kid, now).filter(|key| key.algorithm() == algorithm);
            key.is_some_and(|key| key.verify(signed.as_bytes(), &signature))
        });
        let claims = known.then(|| decoded(payload)).flatten()?;
        serde_json::from_slice(&claims).ok()
    }

    pub(super) fn published(&self, now: Timestamp) -> impl Iterator<Item = Value> {
        self.all().into_iter().filter_map(move |keys| keys.schedule().published(now)).flatten()
    }
}

/// The `typ` of an `id_token`.
#[cfg_attr(not(feature = "authorization-server"), allow(dead_code, reason = "only the authorization server signs"))]
pub(crate) const ID_TOKEN: &str = "JWT";
