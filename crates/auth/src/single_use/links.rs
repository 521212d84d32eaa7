//! Mailed links: sends a mail with a token, and looks the token up when the link or the code comes back.

use std::net::IpAddr;
use std::time::Duration;

use gatewright_base::{Secret, UserId};
use http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};

use super::codes::{CodeError, Codes, Returned};
use super::mail_budget::MailBudget;
use super::{Demand, IssuedToken, Purpose, SingleUseStoreError, SingleUseToken};
use crate::email::EmailAddress;
use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::mail::Requested;
use crate::session::Session;

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
    /// Whether a browser's form requested it.
    by_form: bool,
}

/// A token to be stored and mailed.
struct NewToken<'a> {
    to: &'a EmailAddress,
    user: Option<&'a UserId>,
    next: Option<&'a str>,
    /// The address that the mail names as that of the account.
    account: Option<&'a EmailAddress>,
    /// When the session began that asks for it, if the token ends with the session.
    began: Option<Timestamp>,
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
        self.foundation.post.is_configured() || self.foundation.config.dev_mode
    }

    /// Draws a token for a mail. `by_form`: a browser's form asks for it.
    pub(crate) fn draw(&self, by_form: bool) -> Drawn {
        Drawn { token: SingleUseToken::generate(&self.foundation.ambient), by_form }
    }

    /// The `Set-Cookie` that lets the requesting browser use the code instead of the link.
    pub(crate) fn cookie(&self, drawn: &Drawn) -> HeaderValue {
        self.codes.cookie(&drawn.token)
    }

    /// The code that the page shows which requested the mail.
    pub(crate) fn shown_code(&self, drawn: &Drawn) -> Secret {
        self.codes.shown(&drawn.token)
    }

    /// The token for the returned parts, if everything is there that the token demands.
    pub(crate) async fn token(&self, returned: &Returned, headers: &HeaderMap) -> Result<Secret, CodeError> {
        let token = self.codes.token(returned, headers).await?;
        if returned.code.is_none() && self.asks_for_code(&token, headers).await? {
            return Err(CodeError::Invalid);
        }
        Ok(token)
    }

    /// Whether the page of a link asks for the code of the mail: the token demands it from every browser except the one
    /// that requested the mail. Programs that open links do not type codes.
    pub(crate) async fn asks_for_code(&self, text: &Secret, headers: &HeaderMap) -> Result<bool, SingleUseStoreError> {
        let Some(token) = SingleUseToken::parse(text.expose()) else { return Ok(false) };
        let demands = self.find(text).await?.is_some_and(|found| found.demand == Demand::Browser);
        Ok(demands && !self.codes.asked_for(headers, &token))
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
        let token = NewToken { to: email, user, next, account: None, began: None };
        self.mail(drawn, &token, requester).await
    }

    /// The same for a new address of an account. The mail names the account's present address. The token counts as issued
    /// when the session began: what ends the session ends the token, also if it is stored only afterwards.
    pub(crate) async fn send_for(
        &self,
        drawn: &Drawn,
        to: &EmailAddress,
        session: &Session,
        requester: Option<IpAddr>,
    ) -> Result<(), SingleUseStoreError> {
        let account = session.user();
        let began = Some(session.started_at());
        let token = NewToken { to, user: Some(&account.id), next: None, account: Some(&account.email), began };
        self.mail(drawn, &token, requester).await
    }

    async fn mail(
        &self,
        drawn: &Drawn,
        new: &NewToken<'_>,
        requester: Option<IpAddr>,
    ) -> Result<(), SingleUseStoreError> {
        let purpose = self.purpose.name();
        if !self.foundation.post.is_configured() {
            tracing::warn!(purpose, "no mailer configured; mail not sent; set [email]");
            return Ok(());
        }
        if !self.budget.admits(new.to, requester).await {
            tracing::warn!(purpose, "mail limit of this mailbox or its requester reached; mail not sent");
            return Ok(());
        }
        let link = self.issue(drawn, new).await?;
        let code = self.codes.of(&drawn.token);
        let mail = Requested::link(self.purpose, new.to.clone(), link, self.ttl, code);
        self.foundation.post.send(match new.account {
            Some(account) => mail.of_account(account.clone()),
            None => mail,
        });
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

    async fn issue(&self, drawn: &Drawn, new: &NewToken<'_>) -> Result<Secret, SingleUseStoreError> {
        let (token, now) = (&drawn.token, self.now());
        let lifetime = SignedDuration::try_from(self.ttl).unwrap_or(SignedDuration::MAX);
        let issued = IssuedToken {
            key: token.key(),
            purpose: self.purpose,
            email: new.to.clone(),
            user_id: new.user.cloned(),
            next: new.next.map(str::to_owned),
            demand: Demand::of(self.purpose, drawn.by_form),
            issued_at: new.began.unwrap_or(now),
            expires_at: now.checked_add(lifetime).unwrap_or(Timestamp::MAX),
            spent: false,
        };
        self.foundation.single_use.put(&issued, now).await?;
        let before = match (self.purpose, drawn.by_form) {
            (Purpose::PasswordReset, _) | (_, false) => self.before_token.clone(),
            // Only servers of an earlier version read it: during an upgrade they may answer the link.
            (_, true) => self.before_token.replace("?token=", "?bound=true&token="),
        };
        Ok(Secret::new(format!("{before}{}", token.to_text().expose())))
    }

    fn now(&self) -> Timestamp {
        self.foundation.ambient.now()
    }
}
