//! Mailed links: sends a mail with a token, and looks the token up when the link or the code comes back.

use std::net::IpAddr;
use std::time::Duration;

use gatewright_base::{Secret, UserId};
use http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};

use super::codes::Codes;
use super::mail_budget::MailBudget;
use super::{IssuedToken, Purpose, SingleUseStoreError, SingleUseToken};
use crate::email::EmailAddress;
use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::mail::{Mail, MailKind};

/// The links of one purpose.
pub(crate) struct Links {
    foundation: Foundation,
    purpose: Purpose,
    /// Everything before the token: `https://app.example.com/auth/verify-email?token=`.
    before_token: String,
    ttl: Duration,
    budget: MailBudget,
    /// The codes in the same mails.
    pub(crate) codes: Codes,
}

/// A token that was drawn for a mail, whether the mail is sent or not.
pub(crate) struct Drawn {
    token: SingleUseToken,
    /// Whether a browser's form requested it. Then the confirmation page asks any other browser for the code.
    by_form: bool,
}

/// The query of a page's address if a form requested the link.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Bound {
    bound: Option<String>,
}

impl Links {
    /// Links to `path` on the public address, which work for `ttl`.
    pub(crate) fn new(
        foundation: &Foundation,
        purpose: Purpose,
        path: &str,
        ttl: Duration,
    ) -> Result<Self, AuthInitError> {
        let wrong = |setting, problem: &str| AuthInitError::Setting { setting, problem: problem.to_owned() };
        let config = &foundation.config;
        let Some(mut url) = config.public_url.clone() else {
            return Err(wrong("public_url", "links in mails are built from it; set it"));
        };
        if ttl.as_secs() == 0 {
            return Err(wrong("ttl_seconds", "a link works for at least one second"));
        }
        if foundation.single_use.in_memory() && !config.dev_mode && !config.allow_in_memory_stores {
            return Err(AuthInitError::InMemoryStore { store: "single-use token" });
        }
        url.set_query(None);
        url.set_fragment(None);
        let before_token = format!("{}{path}?token=", url.as_str().trim_end_matches('/'));
        let budget = MailBudget::new(foundation, purpose.name());
        let codes = Codes::new(foundation, purpose, ttl);
        Ok(Self { foundation: foundation.clone(), purpose, before_token, ttl, budget, codes })
    }

    /// Whether a mailer is configured. In dev mode it is not required.
    pub(crate) fn can_be_sent(&self) -> bool {
        self.foundation.mailer.is_some() || self.foundation.config.dev_mode
    }

    /// Draws a token for a mail. `by_form`: a browser's form asks for it.
    pub(crate) fn draw(&self, by_form: bool) -> Drawn {
        Drawn { token: SingleUseToken::generate(&self.foundation.ambient), by_form }
    }

    /// The `Set-Cookie` that lets the requesting browser use the code instead of the link.
    pub(crate) fn cookie(&self, drawn: &Drawn) -> HeaderValue {
        self.codes.cookie(&drawn.token)
    }

    /// Whether the page of a link asks for its code: a form of another browser requested it. Programs that open links do not
    /// type codes.
    pub(crate) fn asks_for_code(&self, token: &Secret, bound: &Bound, headers: &HeaderMap) -> bool {
        let token = SingleUseToken::parse(token.expose());
        bound.bound.is_some() && token.is_some_and(|token| !self.codes.asked_for(headers, &token))
    }

    /// Stores a new token for `email` and sends its link in the background. If the budget of the requester or of the
    /// mailbox is used up, no mail is sent, and the caller is not told.
    pub(crate) async fn send(
        &self,
        drawn: &Drawn,
        email: &EmailAddress,
        user: Option<&UserId>,
        next: Option<&str>,
        requester: Option<IpAddr>,
    ) -> Result<(), SingleUseStoreError> {
        let purpose = self.purpose.name();
        if self.foundation.mailer.is_none() {
            tracing::warn!(purpose, "no mailer configured; mail not sent; set [email]");
            return Ok(());
        }
        if !self.budget.admits(email, requester).await {
            tracing::warn!(purpose, "mail limit of this mailbox or its requester reached; mail not sent");
            return Ok(());
        }
        let link = self.issue(drawn, email, user, next).await?;
        let mail = Mail::new(self.purpose.into(), email.clone(), link, self.ttl).code(self.codes.of(&drawn.token));
        self.foundation.mail(mail);
        Ok(())
    }

    /// Everything before the token of links to tokens that are kept elsewhere, with `to` in the place of `from` in the path.
    pub(crate) fn before_token_beside(&self, from: &str, to: &str) -> String {
        self.before_token.replace(from, to)
    }

    /// The returned token, if it can still be used.
    pub(crate) async fn find_live(&self, text: &Secret) -> Result<Option<IssuedToken>, SingleUseStoreError> {
        let now = self.now();
        Ok(self.find(text).await?.filter(|token| token.is_live(now)))
    }

    /// The returned token, if it is not expired, used or not.
    pub(crate) async fn find_in_time(&self, text: &Secret) -> Result<Option<IssuedToken>, SingleUseStoreError> {
        let now = self.now();
        Ok(self.find(text).await?.filter(|token| now < token.expires_at))
    }

    /// Spends it. Of concurrent callers one gets `true`.
    pub(crate) async fn spend(&self, token: &IssuedToken) -> Result<bool, SingleUseStoreError> {
        self.foundation.single_use.spend(&token.key, self.purpose, self.now()).await
    }

    async fn find(&self, text: &Secret) -> Result<Option<IssuedToken>, SingleUseStoreError> {
        let Some(token) = SingleUseToken::parse(text.expose()) else { return Ok(None) };
        self.foundation.single_use.find(&token.key(), self.purpose).await
    }

    async fn issue(
        &self,
        drawn: &Drawn,
        email: &EmailAddress,
        user: Option<&UserId>,
        next: Option<&str>,
    ) -> Result<Secret, SingleUseStoreError> {
        let (token, now) = (&drawn.token, self.now());
        let lifetime = SignedDuration::try_from(self.ttl).unwrap_or(SignedDuration::MAX);
        let issued = IssuedToken {
            key: token.key(),
            purpose: self.purpose,
            email: email.clone(),
            user_id: user.cloned(),
            next: next.map(str::to_owned),
            issued_at: now,
            expires_at: now.checked_add(lifetime).unwrap_or(Timestamp::MAX),
            spent: false,
        };
        self.foundation.single_use.put(&issued, now).await?;
        let before = match (self.purpose, drawn.by_form) {
            // The page of a reset asks for a password, which no program that opens links types.
            (Purpose::PasswordReset, _) | (_, false) => self.before_token.clone(),
            (_, true) => self.before_token.replace("?token=", "?bound=true&token="),
        };
        Ok(Secret::new(format!("{before}{}", token.to_text().expose())))
    }

    fn now(&self) -> Timestamp {
        self.foundation.ambient.now()
    }
}

impl From<Purpose> for MailKind {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::MagicLink => Self::MagicLink,
            Purpose::EmailVerification => Self::EmailVerification,
            Purpose::PasswordReset => Self::PasswordReset,
            Purpose::EmailChange => Self::EmailChange,
        }
    }
}
