use std::time::Duration;

use gatewright_base::{Ambient, Secret, SigningKey, UserId};
use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The cookie that a known device holds: one token for each account that has signed in there, signed.
///
/// An account is named by a keyed hash of its id, so that who reads the cookie learns of nobody, and the sign-in of one
/// account leaves the tokens of the others alone. The signature keeps made-up cookies away from the database.
#[derive(Clone)]
pub(crate) struct DeviceCookie {
    key: SigningKey,
    secure: bool,
}

/// A keyed hash of an account's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag([u8; TAG]);

/// What makes a browser a known device of one account.
#[derive(Clone)]
pub(super) struct Token(Zeroizing<[u8; TOKEN]>);

/// The SHA-256 of a token: all that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenHash(pub(super) [u8; 32]);

/// What a browser holds, the latest account first.
#[derive(Debug, Default, Clone)]
pub(super) struct Held(Vec<(Tag, Token)>);

/// Parts of what is signed.
const OF_COOKIE: &str = "gatewright/known-device/v1";
const OF_ACCOUNT: &[u8] = b"account";
const TAG: usize = 8;
const TOKEN: usize = 16;
/// Accounts in one cookie. The one that signed in the longest time ago leaves it.
const MOST_ACCOUNTS: usize = 5;
/// More than the text of a full cookie.
const LONGEST: usize = (MOST_ACCOUNTS * (TAG + TOKEN)).div_ceil(3) * 4 + 64;
/// What browsers keep a cookie for at most.
const LIFETIME: Duration = Duration::from_hours(400 * 24);

impl DeviceCookie {
    /// Signs with a key of `secret`; without one, devices are known until the process ends.
    pub(crate) fn new(secret: &Secret, secure: bool, ambient: &Ambient) -> Self {
        Self { key: SigningKey::derive(secret, OF_COOKIE, ambient), secure }
    }

    fn name(&self) -> &'static str {
        if self.secure { "__Host-svc_device" } else { "svc_device" }
    }

    /// How the cookie names an account, or nobody.
    pub(crate) fn tag(&self, user: Option<&UserId>) -> Tag {
        let mut tag = [0; TAG];
        tag.copy_from_slice(&self.key.tag(&[OF_ACCOUNT, user.map_or("", UserId::as_str).as_bytes()])[..TAG]);
        Tag(tag)
    }

    /// What a request's browser holds; nothing, if the cookie was not signed here.
    pub(super) fn read(&self, headers: &HeaderMap) -> Held {
        cookies::read_all(headers, self.name()).find_map(|text| self.open(&text)).unwrap_or_default()
    }

    /// The `Set-Cookie` with a new token for one account and the others as they were.
    pub(super) fn set(&self, held: &Held, tag: Tag, token: Token) -> HeaderValue {
        let others = held.0.iter().filter(|(other, _)| *other != tag).cloned();
        let mut body = Zeroizing::new(Vec::with_capacity(MOST_ACCOUNTS * (TAG + TOKEN)));
        for (tag, token) in std::iter::once((tag, token)).chain(others).take(MOST_ACCOUNTS) {
            body.extend_from_slice(&tag.0);
            body.extend_from_slice(&*token.0);
        }
        let mut cookie = cookies::set(self.name(), self.key.sign(&body).expose(), LIFETIME, self.secure);
        cookie.set_sensitive(true);
        cookie
    }

    fn open(&self, text: &str) -> Option<Held> {
        let body = (text.len() <= LONGEST).then(|| self.key.open(text))??;
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
    /// The token for the account with this tag.
    pub(super) fn token(&self, tag: Tag) -> Option<&Token> {
        self.0.iter().find(|(held, _)| *held == tag).map(|(_, token)| token)
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
    use super::*;

    fn cookie(secret: &str) -> (DeviceCookie, Ambient) {
        let (ambient, _) = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1);
        (DeviceCookie::new(&Secret::new(secret), true, &ambient), ambient)
    }

    fn back(value: &HeaderValue) -> HeaderMap {
        let pair = value.to_str().unwrap().split(';').next().unwrap().to_owned();
        HeaderMap::from_iter([(http::header::COOKIE, HeaderValue::from_str(&pair).unwrap())])
    }

    #[test]
    fn each_account_keeps_its_own_token_and_the_sixth_pushes_the_first_out() {
        let (cookie, ambient) = cookie("a-secret-of-at-least-thirty-two-bytes");
        let user = |name: &str| cookie.tag(Some(&UserId::parse(name).unwrap()));
        let mut held = Held::default();
        let mut hashes = Vec::new();
        for name in ["ann", "bob", "cy", "dan", "eve", "fay"] {
            let token = Token::generate(&ambient);
            hashes.push((user(name), token.hash()));
            let set = cookie.set(&held, user(name), token);
            assert!(set.is_sensitive() && set.to_str().unwrap().starts_with("__Host-svc_device="));
            held = cookie.read(&back(&set));
        }
        assert!(held.token(hashes[0].0).is_none());
        for (tag, hash) in &hashes[1..] {
            assert_eq!(held.token(*tag).unwrap().hash(), *hash);
        }
        assert!(held.token(cookie.tag(None)).is_none());
    }

    #[test]
    fn what_was_not_signed_here_holds_nothing() {
        let (ours, ambient) = cookie("a-secret-of-at-least-thirty-two-bytes");
        let (theirs, _) = cookie("another-secret-of-thirty-two-bytes!!!");
        let tag = ours.tag(Some(&UserId::parse("ann").unwrap()));
        let good = ours.set(&Held::default(), tag, Token::generate(&ambient));
        assert!(ours.read(&back(&good)).token(tag).is_some());
        assert!(theirs.read(&back(&good)).token(tag).is_none());
        let text = good.to_str().unwrap().split(';').next().unwrap().to_owned();
        let (name, value) = text.split_once('=').unwrap();
        let flipped = value.replacen(&value[..1], if value.starts_with('A') { "B" } else { "A" }, 1);
        for bad in ["", ".", "A.A", &flipped, &value.replace('.', ""), &format!("{value}A"), &"A".repeat(1 << 16)] {
            let headers = HeaderMap::from_iter([(
                http::header::COOKIE,
                HeaderValue::from_str(&format!("{name}={bad}")).unwrap(),
            )]);
            assert!(ours.read(&headers).token(tag).is_none(), "{}", &bad[..bad.len().min(80)]);
        }
    }
}
