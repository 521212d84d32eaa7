//! An issuer's keys (RFC 7517): each is checked when it is read, and fits one algorithm.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::InvalidIdToken;
use crate::providers::ProviderError;

/// The only algorithms that an `id_token` may be signed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSA with PKCS #1 v1.5 padding and SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

/// The keys that an issuer publishes.
#[derive(Debug)]
pub(super) struct KeySet(Vec<Key>);

/// A key that fits a token.
pub(super) struct Found<'a> {
    pub(super) parsed: &'a ParsedPublicKey,
    /// The issuer that is published with it. Microsoft publishes the keys of several.
    pub(super) issuer: Option<&'a str>,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    issuer: Option<String>,
    /// Its use, if it is supported here.
    algorithm: Option<Algorithm>,
    parsed: Result<ParsedPublicKey, InvalidIdToken>,
}

/// Fewest bits of an RSA modulus.
const MIN_RSA_BITS: usize = 2048;

impl Algorithm {
    /// Reads `alg`, to the letter (RFC 7518, section 3.1).
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

impl KeySet {
    /// Parses a key set. An invalid key stays in it as such, so that a token signed with it gets the reason.
    pub(super) fn read(set: &PublishedKeys) -> Result<Self, ProviderError> {
        let mut keys: Vec<Key> = Vec::new();
        for published in &set.keys {
            let key = Key::read(published);
            if let Err(problem) = &key.parsed
                && key.algorithm.is_some()
            {
                tracing::warn!(kid = key.id.as_deref().map(printable), %problem, "an issuer publishes a key that is refused");
            }
            // The same key twice is not two keys.
            if !keys.iter().any(|other| other.is(&key)) {
                keys.push(key);
            }
        }
        if keys.is_empty() { Err(ProviderError::Malformed("its key set is empty")) } else { Ok(Self(keys)) }
    }

    /// The key for a header. Without an id, exactly one key must fit; an invalid key does not count, unless there is no
    /// other.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Found<'_>, InvalidIdToken> {
        let mut named = self.0.iter().filter(|key| id.is_none() || key.id.as_deref() == id).peekable();
        if named.peek().is_none() {
            return Err(InvalidIdToken::UnknownKey);
        }
        let fitting = named.filter(|key| key.algorithm == Some(algorithm));
        let (sound, unsound): (Vec<_>, Vec<_>) = fitting.partition(|key| key.parsed.is_ok());
        let key = match (&*sound, &*unsound) {
            ([key], _) if id.is_none() => key,
            ([key], []) | ([], [key, ..]) => key,
            ([], []) => return Err(InvalidIdToken::KeyMismatch),
            _ => return Err(InvalidIdToken::AmbiguousKey),
        };
        let parsed = key.parsed.as_ref().map_err(|problem| *problem)?;
        Ok(Found { parsed, issuer: key.issuer.as_deref() })
    }
}

/// A published key set.
#[derive(Deserialize)]
pub(super) struct PublishedKeys {
    keys: Vec<Map<String, Value>>,
}

impl Key {
    fn read(published: &Map<String, Value>) -> Self {
        let text = |name| published.get(name).and_then(Value::as_str);
        let algorithm = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => Some(Algorithm::Rs256),
            (Some("EC"), Some("P-256")) => Some(Algorithm::Es256),
            _ => None,
        };
        let algorithm = algorithm.filter(|algorithm| {
            // Each of these may be absent; if present, it must allow the use.
            let its_algorithm =
                published.get("alg").is_none_or(|alg| alg.as_str().and_then(Algorithm::parse) == Some(*algorithm));
            let signs = published.get("use").is_none_or(|use_| use_ == "sig");
            let verifies = published
                .get("key_ops")
                .is_none_or(|ops| ops.as_array().is_some_and(|ops| ops.iter().any(|op| op == "verify")));
            its_algorithm && signs && verifies
        });
        let parsed = match algorithm {
            Some(Algorithm::Rs256) => rsa(text("n"), text("e")),
            Some(Algorithm::Es256) => p256(text("x"), text("y")),
            None => Err(InvalidIdToken::KeyMismatch),
        };
        let (id, issuer) = (text("kid").map(str::to_owned), text("issuer").map(str::to_owned));
        Self { id, issuer, algorithm, parsed }
    }

    fn is(&self, other: &Self) -> bool {
        let same = match (&self.parsed, &other.parsed) {
            (Ok(key), Ok(other)) => key.as_ref() == other.as_ref(),
            _ => false,
        };
        same && self.id == other.id && self.algorithm == other.algorithm && self.issuer == other.issuer
    }
}

fn rsa(n: Option<&str>, e: Option<&str>) -> Result<ParsedPublicKey, InvalidIdToken> {
    let (n, e) = (number(n)?, number(e)?);
    let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
    if bits < MIN_RSA_BITS {
        return Err(InvalidIdToken::WeakKey);
    }
    // With an exponent of one, anyone can sign.
    let sound_exponent = matches!(e[..], [.., last] if last % 2 == 1) && e != [1];
    if !sound_exponent {
        return Err(InvalidIdToken::MalformedKey);
    }
    PublicKeyComponents { n, e }
        .to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
        .map_err(|_| InvalidIdToken::MalformedKey)
}

fn p256(x: Option<&str>, y: Option<&str>) -> Result<ParsedPublicKey, InvalidIdToken> {
    // An uncompressed point (SEC 1, section 2.3.3); both coordinates have their full length (RFC 7518, section 6.2.1.2).
    let mut point = vec![0x04];
    for coordinate in [x, y] {
        let coordinate = bytes(coordinate)?;
        if coordinate.len() != 32 {
            return Err(InvalidIdToken::MalformedKey);
        }
        point.extend(coordinate);
    }
    // Refuses a point that is not on the curve.
    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).map_err(|_| InvalidIdToken::MalformedKey)
}

/// A number in big-endian bytes. Leading zeros are not allowed, but occur.
fn number(text: Option<&str>) -> Result<Vec<u8>, InvalidIdToken> {
    let bytes = bytes(text)?;
    Ok(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn bytes(text: Option<&str>) -> Result<Vec<u8>, InvalidIdToken> {
    text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or(InvalidIdToken::MalformedKey)
}

/// A key's id, for the log: untrusted text.
fn printable(id: &str) -> String {
    id.chars().take(100).flat_map(char::escape_default).collect()
}
