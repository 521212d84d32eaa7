//! Challenges: valid in one browser, for one purpose, for five minutes. Nothing is stored until one is used.
//!
//! The browser has `base64url(random, deadline, HMAC)` in a cookie that scripts cannot read. The challenge is another
//! HMAC of the same bytes, so that the service computes from the cookie which challenge it issued. So a page that
//! requests options at every visit stores no row. The hash of a used challenge is stored until the challenge expires.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret, SessionId, SigningKey, UserId};
use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::config::AuthConfig;

/// Part of the signed format.
const LABEL: &str = "gatewright/passkeys/v1";
/// How long a user may take.
pub(super) const LIFETIME: Duration = Duration::from_mins(5);

/// The purpose of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    /// Adding a passkey to the account of this session.
    Register(&'a SessionId),
    /// Signing in as the owner of the passkey.
    Login,
    /// Proving the second factor of this user.
    SecondFactor(&'a UserId),
}

/// A challenge in a browser's cookie.
pub(super) struct Challenge {
    /// The bytes that the authenticator signs.
    pub(super) bytes: [u8; 32],
    /// Until when.
    pub(super) expires_at: Timestamp,
}

/// Issues challenges and finds them again.
pub(super) struct Challenges {
    key: SigningKey,
    ambient: Ambient,
    secure: bool,
}

impl Purpose<'_> {
    fn cookie(self, secure: bool) -> &'static str {
        match (self, secure) {
            (Self::Register(_), true) => "__Host-passkey_register",
            (Self::Register(_), false) => "passkey_register",
            (Self::Login | Self::SecondFactor(_), true) => "__Host-passkey_login",
            (Self::Login | Self::SecondFactor(_), false) => "passkey_login",
        }
    }

    /// The input of a tag for this purpose.
    fn parts<'a>(&'a self, word: &'a [u8], bytes: &'a [u8]) -> [&'a [u8]; 4] {
        let (purpose, whose): (&[u8], &str) = match self {
            Self::Register(session) => (b"register", session.as_str()),
            Self::Login => (b"login", ""),
            Self::SecondFactor(user) => (b"second factor", user.as_str()),
        };
        [word, purpose, whose.as_bytes(), bytes]
    }
}

impl Challenge {
    /// The key under which a used one is stored.
    pub(super) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.bytes).into()
    }
}

impl Challenges {
    pub(super) fn new(config: &AuthConfig, ambient: &Ambient) -> Self {
        // Without a secret, as in dev mode, challenges are only valid until the process ends.
        let key = SigningKey::derive(config.jwt.secrets(), LABEL, ambient);
        Self { key, ambient: ambient.clone(), secure: config.secure_cookies() }
    }

    /// A new challenge, and the cookie that binds it to the browser.
    pub(super) fn issue(&self, purpose: Purpose<'_>) -> (Challenge, HeaderValue) {
        let lifetime = SignedDuration::try_from(LIFETIME).unwrap_or(SignedDuration::ZERO);
        let expires_at = self.ambient.now().saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        let mut bytes = Vec::with_capacity(72);
        bytes.extend(self.ambient.bytes::<32>());
        bytes.extend(expires_at.as_second().to_be_bytes());
        let tag = self.key.tag(&purpose.parts(b"cookie", &bytes));
        let challenge = Challenge { bytes: self.key.tag(&purpose.parts(b"challenge", &bytes)), expires_at };
        bytes.extend(tag);
        let text = Secret::new(URL_SAFE_NO_PAD.encode(bytes));
        (challenge, cookies::set(purpose.cookie(self.secure), text.expose(), LIFETIME, self.secure))
    }

    /// The unexpired challenges for `purpose` in this browser's cookies. There may be several cookies with the name,
    /// because a sibling domain may have set one. A cookie without a valid tag is ignored.
    pub(super) fn held(&self, headers: &HeaderMap, purpose: Purpose<'_>) -> Vec<Challenge> {
        let cookies = cookies::read_all(headers, purpose.cookie(self.secure));
        cookies.take(4).filter_map(|text| self.open(&text, purpose)).collect()
    }

    /// Makes the browser forget it.
    pub(super) fn remove_cookie(&self, purpose: Purpose<'_>) -> HeaderValue {
        cookies::remove(purpose.cookie(self.secure), self.secure)
    }

    fn open(&self, text: &str, purpose: Purpose<'_>) -> Option<Challenge> {
        let mut bytes = [0; 72];
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        let (signed, tag) = bytes.split_at(40);
        if length != bytes.len() {
            return None;
        }
        let (cookie, challenge) = (purpose.parts(b"cookie", signed), purpose.parts(b"challenge", signed));
        let challenge = self.key.tag_beside(tag, &cookie, &challenge)?;
        let seconds = i64::from_be_bytes(signed.get(32..)?.try_into().ok()?);
        let expires_at = Timestamp::from_second(seconds).ok().filter(|end| self.ambient.now() < *end)?;
        Some(Challenge { bytes: challenge, expires_at })
    }
}

#[cfg(test)]
mod tests {
    use http::header::COOKIE;

    use super::*;

    fn sent(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        [(COOKIE, pair.parse().unwrap())].into_iter().collect()
    }

    fn challenges() -> (Challenges, std::sync::Arc<gatewright_base::ManualClock>) {
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let mut config = AuthConfig::default();
        config.jwt.secret = Secret::new("a-secret-of-at-least-thirty-two-bytes");
        (Challenges::new(&config, &ambient), clock)
    }

    #[test]
    fn a_challenge_is_found_by_its_browser_for_its_purpose_in_its_time() {
        let (challenges, clock) = challenges();
        let (session, other) = (SessionId::parse("s1").unwrap(), SessionId::parse("s2").unwrap());
        let user = UserId::parse("s1").unwrap();
        let purpose = Purpose::Register(&session);
        let (issued, cookie) = challenges.issue(purpose);
        let headers = sent(&cookie);
        let found = |purpose| challenges.held(&headers, purpose).into_iter().map(|held| held.bytes).collect::<Vec<_>>();
        assert_eq!(found(purpose), [issued.bytes]);
        for stranger in [Purpose::Register(&other), Purpose::Login, Purpose::SecondFactor(&user)] {
            assert!(found(stranger).is_empty(), "{stranger:?}");
        }
        assert!(challenges.held(&HeaderMap::new(), purpose).is_empty());
        assert_ne!(challenges.issue(purpose).0.bytes, issued.bytes);
        clock.advance(SignedDuration::from_secs(299));
        assert_eq!(found(purpose), [issued.bytes]);
        clock.advance(SignedDuration::from_secs(1));
        assert!(found(purpose).is_empty());
    }

    #[test]
    fn cookies_of_one_name_differ_by_purpose_and_a_changed_one_is_invalid() {
        let (challenges, _) = challenges();
        let user = UserId::parse("ann").unwrap();
        let (_, cookie) = challenges.issue(Purpose::Login);
        assert!(challenges.held(&sent(&cookie), Purpose::SecondFactor(&user)).is_empty());
        let text = cookie.to_str().unwrap().to_owned();
        let start = text.find('=').unwrap() + 1;
        for index in [start, start + 30, start + 60, start + 90] {
            let mut bytes = text.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = HeaderValue::from_bytes(&bytes).unwrap();
            assert!(challenges.held(&sent(&changed), Purpose::Login).is_empty(), "{index}");
        }
    }
}
