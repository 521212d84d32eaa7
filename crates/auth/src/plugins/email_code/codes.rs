//! Codes and their requests.
//!
//! A request is a random token, the code and the address, encrypted under a key of this server. The browser gets it as a
//! cookie, and an app in the answer. The store has a hash of the token: the code is nowhere in it, and a code that is
//! found in a mailbox is useless without its request. A request that is sent back opens under one key only, so a rotation of
//! secrets makes no second code right.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Key, SealingKey, Secret};
use gatewright_http::cookies;
use http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use zeroize::Zeroizing;

use crate::email::EmailAddress;
use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::mail::Requested;
use crate::single_use::codes::cookie_name;
use crate::single_use::{Demand, IssuedToken, MailBudget, Purpose, SingleUseStoreError, SingleUseToken};
use crate::typed;

/// How long a code works.
pub(super) const LIFETIME: Duration = Duration::from_mins(10);
const DIGITS: usize = 6;
/// Label of the key, and the place of what it seals.
const SEALING: &str = "gatewright/email-code/request/v1";
const TOKEN: usize = 32;

/// Draws, mails and opens them.
pub(super) struct Codes {
    foundation: Foundation,
    /// Where the mail says that the code belongs.
    service: Secret,
    cookie: &'static str,
    secure: bool,
    /// The first seals; all open.
    sealing: Vec<SealingKey>,
    budget: MailBudget,
}

/// A code for an address, whether it is mailed or not.
pub(super) struct Drawn {
    token: SingleUseToken,
    code: Secret,
    email: EmailAddress,
}

impl Codes {
    /// Without a configured secret, requests work until the process ends.
    pub(super) fn new(foundation: &Foundation) -> Result<Self, AuthInitError> {
        let config = &foundation.config;
        let Some(url) = config.app_url.as_ref().or(config.public_url.as_ref()) else {
            let problem = "mails of codes name it; set it".to_owned();
            return Err(AuthInitError::Setting { setting: "public_url", problem });
        };
        if foundation.single_use.in_memory() && !config.dev_mode && !config.allow_in_memory_stores {
            return Err(AuthInitError::InMemoryStore { store: "single-use token" });
        }
        let random = || Key::new(foundation.ambient.bytes());
        let key_of = |secret: &Secret| if secret.is_empty() { random() } else { secret.derive_key(SEALING) };
        let secure = config.secure_cookies();
        Ok(Self {
            service: Secret::new(url.as_str()),
            cookie: cookie_name(Purpose::EmailCode, secure),
            secure,
            sealing: config.jwt.secrets().map(|secret| SealingKey::new(&key_of(secret))).collect(),
            budget: MailBudget::new(foundation, Purpose::EmailCode.name()),
            foundation: foundation.clone(),
        })
    }

    /// Whether a mailer is configured. In dev mode it is not required.
    pub(super) fn can_be_sent(&self) -> bool {
        self.foundation.post.is_configured() || self.foundation.config.dev_mode
    }

    pub(super) fn draw(&self, email: EmailAddress) -> Drawn {
        // The remainder of a 64-bit number is as good as evenly distributed.
        let number = u64::from_le_bytes(self.foundation.ambient.bytes()) % 10_u64.pow(6);
        let code = Secret::new(format!("{number:0DIGITS$}"));
        Drawn { token: SingleUseToken::generate(&self.foundation.ambient), code, email }
    }

    /// The request as text, which its holder cannot read.
    pub(super) fn request(&self, drawn: &Drawn) -> Secret {
        let parts = [drawn.token.as_bytes(), drawn.code.expose().as_bytes(), drawn.email.as_str().as_bytes()];
        let text = Zeroizing::new(parts.concat());
        Secret::new(URL_SAFE_NO_PAD.encode(self.sealing[0].seal(&text, SEALING.as_bytes())))
    }

    /// The `Set-Cookie` that binds the code to a browser.
    pub(super) fn cookie(&self, request: &Secret) -> HeaderValue {
        let mut cookie = cookies::set(self.cookie, request.expose(), LIFETIME, self.secure);
        cookie.set_sensitive(true);
        cookie
    }

    /// The `Set-Cookie` after a sign-in.
    pub(super) fn remove_cookie(&self) -> HeaderValue {
        cookies::remove(self.cookie, self.secure)
    }

    /// The request that comes with a code: that of the browser's cookie or, without one, `sent`. `None` also if both are
    /// there and differ.
    pub(super) fn returned(&self, sent: Option<&Secret>, headers: &HeaderMap) -> Option<Drawn> {
        let bound = cookies::read_all(headers, self.cookie).find_map(|text| self.open(&text));
        match (bound, sent) {
            (None, sent) => self.open(sent?.expose()),
            (Some(bound), None) => Some(bound),
            (Some(bound), Some(sent)) => {
                let sent = self.open(sent.expose())?;
                (sent.token.key() == bound.token.key()).then_some(bound)
            }
        }
    }

    fn open(&self, text: &str) -> Option<Drawn> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let opened = self.sealing.iter().find_map(|key| key.open(&sealed, SEALING.as_bytes()))?;
        let (token, rest) = opened.split_at_checked(TOKEN)?;
        let (code, email) = rest.split_at_checked(DIGITS)?;
        let code = Secret::new(std::str::from_utf8(code).ok()?);
        let email = EmailAddress::parse(std::str::from_utf8(email).ok()?).ok()?;
        Some(Drawn { token: SingleUseToken::of_bytes(token)?, code, email })
    }

    /// Stores the token and mails the code in the background. If the budget of the requester or of the mailbox is used up,
    /// neither happens, and the caller is not told.
    pub(super) async fn send(&self, drawn: &Drawn, requester: Option<IpAddr>) -> Result<(), SingleUseStoreError> {
        if !self.foundation.post.is_configured() {
            tracing::warn!(purpose = "email_code", "no mailer configured; mail not sent; set [email]");
            return Ok(());
        }
        if !self.budget.admits(&drawn.email, requester).await {
            let message = "mail limit of this mailbox or its requester reached; mail not sent";
            tracing::warn!(purpose = "email_code", "{message}");
            return Ok(());
        }
        let now = self.foundation.ambient.now();
        let lifetime = SignedDuration::try_from(LIFETIME).unwrap_or(SignedDuration::MAX);
        let issued = IssuedToken {
            key: drawn.token.key(),
            purpose: Purpose::EmailCode,
            email: drawn.email.clone(),
            user_id: None,
            next: None,
            demand: Demand::of(Purpose::EmailCode, false),
            issued_at: now,
            expires_at: now.checked_add(lifetime).unwrap_or(Timestamp::MAX),
            spent: false,
        };
        self.foundation.single_use.put(&issued, now).await?;
        let (to, link, code) = (drawn.email.clone(), self.service.clone(), drawn.code.clone());
        self.foundation.post.send(Requested::link(Purpose::EmailCode, to, link, LIFETIME, code));
        Ok(())
    }

    /// Whether it was mailed, and can still be used.
    pub(super) async fn is_live(&self, drawn: &Drawn) -> Result<bool, SingleUseStoreError> {
        let found = self.foundation.single_use.find(&drawn.token.key(), Purpose::EmailCode).await?;
        let now = self.foundation.ambient.now();
        Ok(found.is_some_and(|token| token.email == drawn.email && token.is_live(now)))
    }

    /// Spends it. Of concurrent callers one gets `true`.
    pub(super) async fn spend(&self, drawn: &Drawn) -> Result<bool, SingleUseStoreError> {
        self.foundation.single_use.spend(&drawn.token.key(), Purpose::EmailCode, self.foundation.ambient.now()).await
    }
}

impl Drawn {
    pub(super) fn email(&self) -> &EmailAddress {
        &self.email
    }

    /// The key by which its attempts are counted.
    pub(super) fn counted_as(&self) -> String {
        format!("{} {}", Purpose::EmailCode.name(), URL_SAFE_NO_PAD.encode(self.token.key().as_bytes()))
    }

    /// Whether `typed` is the code, as people type and paste it. Compares in constant time.
    pub(super) fn is_code(&self, typed: &Secret) -> bool {
        let typed = typed::code(typed.expose());
        aws_lc_rs::constant_time::verify_slices_are_equal(typed.as_bytes(), self.code.expose().as_bytes()).is_ok()
    }
}
