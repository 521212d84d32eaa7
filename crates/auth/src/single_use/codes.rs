//! Codes in mails, as an alternative to the link, to be typed in the browser that requested the mail.
//!
//! A code is derived from the link's token, so using one of them invalidates the other. It is much shorter than a
//! token, so it is valid only together with a cookie of the browser that requested the mail ([`Codes::cookie`]): the
//! encrypted token. An attacker has few attempts for each mail, and few mails go to a mailbox.
//!
//! The chance of guessing: a code has 40 bits, a mail 5 attempts, and a mailbox gets at most 42 mails of a purpose in
//! an hour (`mail_budget.rs`: 20 first ones, 10 repetitions, one every five minutes). A code whose mail was not sent is
//! invalid. So at most 210 guesses in an hour can be right, each with a chance of 1 in 2⁴⁰. An attack on a mailbox that
//! lasts a year succeeds with a probability of about 1 in 600,000. There is deliberately no limit for all guesses at a
//! mailbox: anybody could use it up, and the owner's right code would be refused.
//!
//! The cookie is set whether a mail is sent or not, and a code is compared before anything is looked up. So neither
//! reveals whether there is an account.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Key, SealingKey, Secret, SigningKey};
use gatewright_http::cookies;
use gatewright_limits::{Denied, Limiter, Policy};
use http::{HeaderMap, HeaderValue};
use zeroize::Zeroizing;

use super::{Purpose, SingleUseStoreError, SingleUseToken};
use crate::config::Limit;
use crate::foundation::Foundation;
use crate::typed;

/// The codes of one purpose.
pub(crate) struct Codes {
    purpose: Purpose,
    cookie: &'static str,
    secure: bool,
    lifetime: Duration,
    /// The first seals; all open.
    sealing: Vec<SealingKey>,
    deriving: SigningKey,
    showing: SigningKey,
    by_mail: Limiter,
}

/// The returned parts of a mail: the link's token, the code, or both. Fields of a body.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Returned {
    pub(crate) token: Option<Secret>,
    pub(crate) code: Option<Secret>,
}

/// A link to a new address that came back, and whether its bearer knows the code on the page that requested it.
pub(crate) struct OfAccount {
    pub(crate) token: Secret,
    pub(crate) knows_shown_code: bool,
}

/// Why a code gives no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodeError {
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Wrong, or of a mail that another browser requested.
    #[error("invalid or expired code")]
    Invalid,
    #[error(transparent)]
    Tokens(#[from] SingleUseStoreError),
}

/// Symbols that people do not mistake for one another (Crockford's base 32).
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 40 bits.
const LENGTH: usize = 8;
/// Attempts for one mail.
const BY_MAIL: u32 = 5;
/// Labels for derivation and encryption.
const SEALING: &str = "gatewright/mail-code/cookie/v1";
const DERIVING: &str = "gatewright/mail-code/code/v2";
const SHOWING: &str = "gatewright/mail-code/shown/v1";

impl Codes {
    /// Without a configured secret, codes work until the process ends.
    pub(super) fn new(foundation: &Foundation, purpose: Purpose, lifetime: Duration) -> Self {
        let config = &foundation.config;
        let random = || Key::new(foundation.ambient.bytes());
        let key_of = |secret: &Secret| if secret.is_empty() { random() } else { secret.derive_key(SEALING) };
        let sealing = config.jwt.secrets().map(|secret| SealingKey::new(&key_of(secret))).collect();
        let limit = Limit { policy: Policy::new(BY_MAIL, lifetime, lifetime), trust_forwarded_for: false };
        let secure = config.secure_cookies();
        Self {
            purpose,
            cookie: cookie_name(purpose, secure),
            secure,
            lifetime,
            sealing,
            deriving: SigningKey::derive(config.jwt.secrets(), DERIVING, &foundation.ambient),
            showing: SigningKey::derive(config.jwt.secrets(), SHOWING, &foundation.ambient),
            by_mail: foundation.limiter("mail_code", &limit),
        }
    }

    /// The code of a token, as mails show it: `7K3Q-9XWD`.
    pub(super) fn of(&self, token: &SingleUseToken) -> Secret {
        let symbols = symbols(&self.deriving.tag(&self.parts(token)));
        let (first, second) = symbols.split_at(LENGTH / 2);
        Secret::new(format!("{first}-{second}"))
    }

    /// The `Set-Cookie` for the browser that asks for a mail with this token.
    pub(super) fn cookie(&self, token: &SingleUseToken) -> HeaderValue {
        let text = URL_SAFE_NO_PAD.encode(self.sealing[0].seal(token.as_bytes(), self.purpose.name().as_bytes()));
        let mut cookie = cookies::set(self.cookie, &text, self.lifetime, self.secure);
        cookie.set_sensitive(true);
        cookie
    }

    /// The `Set-Cookie` after the code, or its link, was used.
    pub(crate) fn remove_cookie(&self) -> HeaderValue {
        cookies::remove(self.cookie, self.secure)
    }

    /// Whether this browser requested the mail with this token.
    pub(super) fn asked_for(&self, headers: &HeaderMap, token: &SingleUseToken) -> bool {
        self.asked(headers).is_some_and(|asked| asked.key() == token.key())
    }

    /// The six digits that the page shows which requested a mail with this token. The mail does not contain them. With
    /// [`BY_MAIL`] attempts, one of 200,000 guessers is right.
    pub(super) fn shown(&self, token: &SingleUseToken) -> Secret {
        digits(&self.showing.tag(&self.parts(token)))
    }

    /// The same for the mail that this browser requested last, until it used its code.
    pub(crate) fn shown_in(&self, headers: &HeaderMap) -> Option<Secret> {
        self.asked(headers).map(|token| self.shown(&token))
    }

    /// The token for the returned parts of a mail that demands the account. A code with a token is the one that the page
    /// shows which requested the mail; without a token, it is the code of the mail, typed in the browser that requested
    /// it.
    pub(crate) async fn of_account(&self, returned: &Returned, headers: &HeaderMap) -> Result<OfAccount, CodeError> {
        let (Some(text), Some(code)) = (&returned.token, &returned.code) else {
            return Ok(OfAccount { token: self.token(returned, headers).await?, knows_shown_code: false });
        };
        let token = SingleUseToken::parse(text.expose()).ok_or(CodeError::Invalid)?;
        self.count(&token).await?;
        let typed = typed::code(code.expose());
        let is_right = self.showing.tags(&self.parts(&token)).any(|tag| {
            let shown = digits(&tag);
            aws_lc_rs::constant_time::verify_slices_are_equal(typed.as_bytes(), shown.expose().as_bytes()).is_ok()
        });
        if is_right { Ok(OfAccount { token: text.clone(), knows_shown_code: true }) } else { Err(CodeError::Invalid) }
    }

    /// The token for the returned parts. A code without a token stands for the token that its browser requested; with a
    /// token, it must belong to that token. A token without a code is returned unchanged, and its consumer checks it.
    pub(super) async fn token(&self, returned: &Returned, headers: &HeaderMap) -> Result<Secret, CodeError> {
        let Some(code) = &returned.code else {
            return Ok(returned.token.clone().unwrap_or_else(|| Secret::new("")));
        };
        let token = match &returned.token {
            Some(text) => SingleUseToken::parse(text.expose()),
            None => self.asked(headers),
        };
        let token = token.ok_or(CodeError::Invalid)?;
        self.count(&token).await?;
        if self.is_code(&token, code) { Ok(token.to_text()) } else { Err(CodeError::Invalid) }
    }

    /// Counts an attempt, before the code is compared, so that no number of parallel guesses gets past the limit.
    async fn count(&self, token: &SingleUseToken) -> Result<(), Denied> {
        let mail = URL_SAFE_NO_PAD.encode(token.key().as_bytes());
        self.by_mail.attempt(&format!("{} {mail}", self.purpose.name())).await
    }

    fn is_code(&self, token: &SingleUseToken, typed: &Secret) -> bool {
        let Some(typed) = read(typed.expose()) else { return false };
        self.deriving.tags(&self.parts(token)).any(|tag| {
            let right = Zeroizing::new(symbols(&tag));
            aws_lc_rs::constant_time::verify_slices_are_equal(typed.as_bytes(), right.as_bytes()).is_ok()
        })
    }

    /// The input of a tag.
    fn parts<'a>(&self, token: &'a SingleUseToken) -> [&'a [u8]; 2] {
        [self.purpose.name().as_bytes(), token.as_bytes()]
    }

    /// The token that a browser requested last.
    fn asked(&self, headers: &HeaderMap) -> Option<SingleUseToken> {
        cookies::read_all(headers, self.cookie).find_map(|text| self.open(&text))
    }

    fn open(&self, text: &str) -> Option<SingleUseToken> {
        let sealed = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
        let place = self.purpose.name().as_bytes();
        SingleUseToken::of_bytes(&self.sealing.iter().find_map(|key| key.open(&sealed, place))?)
    }
}

fn symbols(tag: &[u8]) -> String {
    // 32 divides 256: each symbol is as likely as any other.
    tag.iter().take(LENGTH).map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

fn digits(tag: &[u8]) -> Secret {
    // The remainder of a 64-bit number is as good as evenly distributed.
    let number = tag.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    Secret::new(format!("{:06}", number % 1_000_000))
}

/// Typed text as symbols: in either case, with or without the hyphen, and with letters that look like a symbol.
fn read(typed: &str) -> Option<Zeroizing<String>> {
    let mut symbols = Zeroizing::new(String::with_capacity(LENGTH));
    for typed in typed::code(typed).chars() {
        let symbol = match typed.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        };
        if symbols.len() == LENGTH || !symbol.is_ascii() {
            return None;
        }
        symbols.push(symbol);
    }
    (symbols.len() == LENGTH).then_some(symbols)
}

pub(crate) fn cookie_name(purpose: Purpose, secure: bool) -> &'static str {
    match (purpose, secure) {
        (Purpose::MagicLink, true) => "__Host-svc_magic_link",
        (Purpose::MagicLink, false) => "svc_magic_link",
        (Purpose::EmailVerification, true) => "__Host-svc_email_verification",
        (Purpose::EmailVerification, false) => "svc_email_verification",
        (Purpose::PasswordReset, true) => "__Host-svc_password_reset",
        (Purpose::PasswordReset, false) => "svc_password_reset",
        (Purpose::EmailChange, true) => "__Host-svc_email_change",
        (Purpose::EmailChange, false) => "svc_email_change",
        (Purpose::EmailCode, true) => "__Host-svc_email_code",
        (Purpose::EmailCode, false) => "svc_email_code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_people_type_it() {
        for (typed, read_as) in [
            ("7K3Q-9XWD", Some("7K3Q9XWD")),
            (" 7k3q 9xwd\n", Some("7K3Q9XWD")),
            ("7K3Q9XWD", Some("7K3Q9XWD")),
            ("oil0-1111", Some("01101111")),
            ("7K3Q-9XW", None),
            ("7K3Q-9XWDD", None),
            ("7K3Q-9XWé", None),
            ("", None),
            ("--------", None),
        ] {
            assert_eq!(read(typed).as_deref().map(String::as_str), read_as, "{typed}");
        }
        assert_eq!(read(&"A".repeat(1 << 20)), None);
    }

    #[test]
    fn no_two_symbols_look_alike() {
        let mut symbols = ALPHABET.to_vec();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), 32);
        assert!(!symbols.iter().any(|symbol| b"OILU".contains(symbol)));
    }
}
