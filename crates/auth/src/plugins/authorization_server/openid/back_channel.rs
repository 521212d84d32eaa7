//! Tells programs that a user's session has ended (OpenID Connect Back-Channel Logout 1.0).
//!
//! A task of each server looks up the sessions that programs were told about, delivers a `logout_token` for each that has ended,
//! and tries again with growing pauses, for a day. It ends with the [`Core`].

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use gatewright_base::{Ambient, Secret};
use gatewright_db::Error;
use gatewright_outbound::{Outbound, OutboundError};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::sleep;

use super::logouts::{Delivery, Logouts, Watched};
use crate::core::Core;
use crate::users::UserStoreError;

/// The task of one server.
pub(in super::super) struct BackChannel {
    core: Weak<Core>,
    logouts: Logouts,
    /// The `iss` of tokens.
    issuer: String,
    to: ToPrograms,
    /// The row up to which sessions were looked up.
    seen: String,
}

/// Sends requests to programs.
pub(in super::super) struct ToPrograms {
    /// To those that registered themselves.
    public: Outbound,
    /// To the operator's own.
    any: Outbound,
}

impl ToPrograms {
    /// `private_networks`: whether also clients that registered themselves may have addresses that are not public.
    pub(in super::super) fn new(private_networks: bool) -> Result<Self, OutboundError> {
        Ok(Self { public: Outbound::new(ATTEMPT, private_networks)?, any: Outbound::new(ATTEMPT, true)? })
    }
}

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Attempts at a time at one client.
const OF_CLIENT: usize = 4;
/// How long a delivery is tried.
const GIVEN_UP: SignedDuration = SignedDuration::from_hours(24);
/// The lifetime of a `logout_token`: the program reads it at once.
const LIFETIME: SignedDuration = SignedDuration::from_mins(2);
const TYP: &str = "logout+jwt";
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

impl BackChannel {
    pub(in super::super) fn new(core: &Arc<Core>, logouts: Logouts, issuer: String, to: ToPrograms) -> Self {
        Self { core: Arc::downgrade(core), logouts, issuer, to, seen: String::new() }
    }

    /// Runs as long as the core is there.
    pub(in super::super) async fn run(mut self) {
        loop {
            sleep(PAUSE).await;
            let Some(core) = self.core.upgrade() else { return };
            if let Err(error) = self.look(&core).await {
                tracing::warn!(%error, "cannot look up sessions that other programs know");
            }
            match self.logouts.claim(core.ambient.now(), OF_CLIENT).await {
                Ok(due) => {
                    join_all(due.iter().map(|delivery| self.deliver(&core, delivery))).await;
                }
                Err(error) => tracing::warn!(%error, "cannot read which programs to tell about ended sessions"),
            }
        }
    }

    /// Notes which sessions of the next page have ended.
    async fn look(&mut self, core: &Core) -> Result<(), LookError> {
        let page = self.logouts.watched(&self.seen).await?;
        self.seen = page.last().map(|watched| watched.id.clone()).unwrap_or_default();
        for watched in page {
            self.check(core, &watched).await?;
        }
        Ok(())
    }

    async fn check(&self, core: &Core, watched: &Watched) -> Result<(), LookError> {
        let now = core.ambient.now();
        let found = core.sessions.find_of(&watched.user, &watched.session).await.map_err(LookError::Sessions)?;
        let is_open = match found {
            Some(session) if session.expires_at > now => match core.users.store.find_by_id(&watched.user).await {
                Ok(user) => user.is_open_to(watched.at),
                Err(UserStoreError::NotFound) => false,
                Err(error) => return Err(error.into()),
            },
            _ => false,
        };
        if !is_open {
            self.logouts.ended(&watched.id, now).await?;
        }
        Ok(())
    }

    async fn deliver(&self, core: &Core, delivery: &Delivery) {
        let (now, host) = (core.ambient.now(), delivery.uri.host_str().unwrap_or_default());
        let settled = match self.send(core, delivery).await {
            Ok(()) => self.logouts.done(delivery).await,
            Err(error) if now.duration_since(delivery.ended_at) > GIVEN_UP => {
                tracing::error!(client = delivery.client, host, %error, "a program was not told that a session has ended: given up");
                self.logouts.done(delivery).await
            }
            Err(error) => {
                tracing::warn!(client = delivery.client, host, %error, "a program was not told that a session has ended");
                self.logouts.retry(delivery, next(now, delivery.attempts, &core.ambient)).await
            }
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "the delivery of a logout could not be settled; it is repeated");
        }
    }

    async fn send(&self, core: &Core, delivery: &Delivery) -> Result<(), SendError> {
        let token = self.token(core, delivery).ok_or(SendError::Key)?;
        let outbound = if delivery.private_networks { &self.to.any } else { &self.to.public };
        let form = [("logout_token", token.expose())];
        let answer = outbound.request(Method::POST, &delivery.uri)?.form(&form).send().await;
        let status = answer.map_err(OutboundError::from)?.status();
        if status.is_success() { Ok(()) } else { Err(OutboundError::Status(status.as_u16()).into()) }
    }

    fn token(&self, core: &Core, delivery: &Delivery) -> Option<Secret> {
        let now = core.ambient.now();
        let claims = json!({
            "iss": self.issuer,
            "sub": delivery.user,
            "aud": delivery.client,
            "iat": now.as_second(),
            "exp": now.checked_add(LIFETIME).unwrap_or(now).as_second(),
            "jti": core.ambient.uuid(),
            "sid": delivery.session,
            "events": { EVENT: {} },
        });
        core.jwts.id_tokens()?.sign(delivery.algorithm, TYP, &claims)
    }
}

/// Sessions could not be looked up.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Rows(#[from] Error),
    #[error(transparent)]
    Sessions(crate::session::SessionStoreError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
}

/// A program was not told.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    #[error("there is no key that signs")]
    Key,
}

/// When to try again after this many attempts before: 2 seconds, 4, 8, … up to half an hour, and up to a quarter more.
fn next(now: Timestamp, attempts: i64, ambient: &Ambient) -> Timestamp {
    let pause = 2_000_i64.saturating_mul(1 << attempts.clamp(0, 10)).min(1_800_000);
    let [random] = ambient.bytes::<1>();
    let pause = pause + pause * i64::from(random) / 1_024;
    now.checked_add(SignedDuration::from_millis(pause)).unwrap_or(Timestamp::MAX)
}
