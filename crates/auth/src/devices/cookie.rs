use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, SigningKey, UserId};
use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::jwt::JwtConfig;

/// The cookie of a known device: one token for each account that has signed in there, signed.
///
/// An account is identified by a keyed hash of its id, so that the cookie reveals no account, and the sign-in of one
/// account leaves the tokens of the others unchanged. Because of the signature, forged cookies cause no database query.
#[derive(Clone)]
pub(crate) struct DeviceCookie {
    /// The first one signs; the keys of earlier secrets only verify.
    keys: Arc<[SigningKey]>,
    secure: bool,
}

/// A keyed hash of an account's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag([u8; TAG]);

/// The identifier of one account: its tag by each key, the signing key first.
#[derive(Debug, Clone)]
pub(super) struct Tags(Vec<Tag>);

/// The token that makes a browser a known device of one account.
#[derive(Clone)]
pub(super) struct Token(Zeroizing<[u8; TOKEN]>);

/// The SHA-256 of a token: all that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenHash(pub(super) [u8; 32]);

/// The tokens of a browser, the latest account first.
#[derive(Debug, Default, Clone)]
pub(super) struct Held(Vec<(Tag, Token)>);

/// Parts of the signed input.
const OF_COOKIE: &str = "gatewright/known-device/v1";
const OF_ACCOUNT: &[u8] = b"account";
const TAG: usize = 8;
const TOKEN: usize = 16;
/// Limit of accounts in one cookie. The one with the oldest sign-in is removed.
const MAX_ACCOUNTS: usize = 5;
/// More than the text of a full cookie.
const LONGEST: usize = (MAX_ACCOUNTS * (TAG + TOKEN)).div_ceil(3) * 4 + 64;
/// The longest lifetime of a cookie that browsers accept.
const LIFETIME: Duration = Duration::from_hours(400 * 24);

impl DeviceCookie {
    /// Signs with a key of the present secret; without one, devices are known until the process ends.
    pub(crate) fn new(jwt: &JwtConfig, secure: bool, ambient: &Ambient) -> Self {
        Self { keys: jwt.secrets().map(|secret| SigningKey::derive([secret], OF_COOKIE, ambient)).collect(), secure }
    }

    fn name(&self) -> &'static str {
        if self.secure { "__Host-svc_device" } else { "svc_device" }
    }

    /// The tag of an account, or of no account.
    pub(super) fn tags(&self, user: Option<&UserId>) -> Tags {
        let user = user.map_or("", UserId::as_str).as_bytes();
        let tag = |key: &SigningKey| {
            let mut tag = [0; TAG];
            tag.copy_from_slice(&key.tag(&[OF_ACCOUNT, user])[..TAG]);
            Tag(tag)
        };
        Tags(self.keys.iter().map(tag).collect())
    }

    /// The tokens of a request's browser; none if the cookie was not signed here.
    pub(super) fn read(&self, headers: &HeaderMap) -> Held {
        cookies::read_all(headers, self.name()).find_map(|text| self.open(&text)).unwrap_or_default()
    }

    /// The `Set-Cookie` with a new token for one account and the others as they were.
    pub(super) fn set(&self, held: &Held, tags: &Tags, token: Token) -> HeaderValue {
        let others = held.0.iter().filter(|(other, _)| !tags.0.contains(other)).cloned();
        let mut body = Zeroizing::new(Vec::with_capacity(MAX_ACCOUNTS * (TAG + TOKEN)));
        for (tag, token) in std::iter::once((tags.0[0], token)).chain(others).take(MAX_ACCOUNTS) {
            body.extend_from_slice(&tag.0);
            body.extend_from_slice(&*token.0);
        }
        let mut cookie = cookies::set(self.name(), self.keys[0].sign(&body).expose(), LIFETIME, self.secure);
        cookie.set_sensitive(true);
        cookie
    }

    fn open(&self, text: &str) -> Option<Held> {
        let text = Some(text).filter(|text| text.len() <= LONGEST)?;
        let body = self.keys.iter().find_map(|key| key.open(text))?;
        let (entries, rest) = body.as_chunks::<{ TAG + TOKEN }>();
        rest.is_empty().then(|| Held(entries.iter().map(entry).collect()))
    }
}

fn entry(bytes: &[u8; TAG + TOKEN]) -> (Tag, Token) {
    let (mut tag, mut token) = ([0; TAG], Zeroizing::new([0; TOKEN]));
    tag.copy_from_slice(&bytes[..TAG]);
    token.copy_from_slice(&bytes[TAG..]);
    (Tag(tag), Token(token))
}

impl Held {
    /// The token for the account with these tags.
    pub(super) fn token(&self, tags: &Tags) -> Option<&Token> {
        self.0.iter().find(|(held, _)| tags.0.contains(held)).map(|(_, token)| token)
    }
}

impl Token {
    pub(super) fn generate(ambient: &Ambient) -> Self {
        Self(Zeroizing::new(ambient.bytes()))
    }

    pub(super) fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(*self.0).into())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use gatewright_base::Secret;

    use super::*;

    fn cookie(secret: &str) -> (DeviceCookie, Ambient) {
        rotated(secret, &[])
    }

    fn rotated(secret: &str, previous: &[&str]) -> (DeviceCookie, Ambient) {
        let (ambient, _) = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1);
        let previous_secrets = previous.iter().map(|secret| Secret::new(*secret)).collect();
        let jwt = JwtConfig { secret: Secret::new(secret), previous_secrets, ..JwtConfig::default() };
        (DeviceCookie::new(&jwt, true, &ambient), ambient)
    }

    fn back(value: &HeaderValue) -> HeaderMap {
        let pair = value.to_str().unwrap().split(';').next().unwrap().to_owned();
        HeaderMap::from_iter([(http::header::COOKIE, HeaderValue::from_str(&pair).unwrap())])
    }

    #[test]
    fn each_account_has_its_own_token_and_the_sixth_replaces_the_oldest() {
        let (cookie, ambient) = cookie("a-secret-of-at-least-thirty-two-bytes");
        let user = |name: &str| cookie.tags(Some(&UserId::parse(name).unwrap()));
        let mut held = Held::default();
        let mut hashes = Vec::new();
        for name in ["ann", "bob", "cy", "dan", "eve", "fay"] {
            let token = Token::generate(&ambient);
            hashes.push((user(name), token.hash()));
            let set = cookie.set(&held, &user(name), token);
            assert!(set.is_sensitive() && set.to_str().unwrap().starts_with("__Host-svc_device="));
            held = cookie.read(&back(&set));
        }
        assert!(held.token(&hashes[0].0).is_none());
        for (tags, hash) in &hashes[1..] {
            assert_eq!(held.token(tags).unwrap().hash(), *hash);
        }
        assert!(held.token(&cookie.tags(None)).is_none());
    }

    #[test]
    fn a_rotated_secret_leaves_every_account_of_a_browser_known() {
        let (old, other) = ("a-secret-of-at-least-thirty-two-bytes", "another-secret-of-thirty-two-bytes!!!");
        let (before, ambient) = cookie(old);
        let (after, _) = rotated(other, &[old]);
        let (ann, bob) = (UserId::parse("ann").unwrap(), UserId::parse("bob").unwrap());
        let (of_ann, of_bob) = (Token::generate(&ambient), Token::generate(&ambient));
        let hash_of_bob = of_bob.hash();
        let set = before.set(&Held::default(), &before.tags(Some(&ann)), of_ann.clone());
        let set = before.set(&before.read(&back(&set)), &before.tags(Some(&bob)), of_bob);
        let held = after.read(&back(&set));
        assert_eq!(held.token(&after.tags(Some(&ann))).unwrap().hash(), of_ann.hash());
        // Ann signs in: the cookie is signed again, and still contains Bob.
        let renewed = Token::generate(&ambient);
        let hash_of_ann = renewed.hash();
        let set = after.set(&held, &after.tags(Some(&ann)), renewed);
        assert!(before.read(&back(&set)).token(&before.tags(Some(&bob))).is_none(), "signed by the present secret");
        let held = after.read(&back(&set));
        assert_eq!(held.0.len(), 2);
        assert_eq!(held.token(&after.tags(Some(&ann))).unwrap().hash(), hash_of_ann);
        assert_eq!(held.token(&after.tags(Some(&bob))).unwrap().hash(), hash_of_bob);
        // The old secret is removed.
        assert!(cookie(other).0.read(&back(&set)).token(&cookie(other).0.tags(Some(&ann))).is_some());
        assert!(cookie(other).0.read(&back(&set)).token(&cookie(other).0.tags(Some(&bob))).is_none());
    }

    #[test]
    fn a_cookie_with_another_signature_is_ignored() {
        let (ours, ambient) = cookie("a-secret-of-at-least-thirty-two-bytes");
        let (theirs, _) = cookie("another-secret-of-thirty-two-bytes!!!");
        let tags = &ours.tags(Some(&UserId::parse("ann").unwrap()));
        let good = ours.set(&Held::default(), tags, Token::generate(&ambient));
        assert!(ours.read(&back(&good)).token(tags).is_some());
        assert!(theirs.read(&back(&good)).token(tags).is_none());
        let text = good.to_str().unwrap().split(';').next().unwrap().to_owned();
        let (name, value) = text.split_once('=').unwrap();
        let flipped = value.replacen(&value[..1], if value.starts_with('A') { "B" } else { "A" }, 1);
        for bad in ["", ".", "A.A", &flipped, &value.replace('.', ""), &format!("{value}A"), &"A".repeat(1 << 16)] {
            let headers = HeaderMap::from_iter([(
                http::header::COOKIE,
                HeaderValue::from_str(&format!("{name}={bad}")).unwrap(),
            )]);
            assert!(ours.read(&headers).token(tags).is_none(), "{}", &bad[..bad.len().min(80)]);
        }
    }
}
