//! Tells programs that a user's session has ended (OpenID Connect Back-Channel Logout 1.0).
//!
//! A task of each server looks up the sessions that programs were told about, delivers a `logout_token` for each that has ended,
//! and tries again with growing pauses, for a day. It ends with the [`Core`].

use std::sync::{Arc, Weak};
use std::time::Duration;

use gatewright_base::{Ambient, Secret, Shares, UserId};
use gatewright_db::Error;
use gatewright_outbound::{Outbound, OutboundError};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::super::rows::Grants;
use super::id_token::is_signed_in;
use super::logouts::{Delivery, Logouts, SHARE, Watched};
use crate::core::Core;
use crate::session::TwoFactorMarker;
use crate::users::BoxError;

/// The task of one server.
pub(in super::super) struct BackChannel {
    core: Weak<Core>,
    logouts: Logouts,
    grants: Grants,
    /// The `iss` of tokens.
    issuer: String,
    to: ToPrograms,
    /// The row up to which sessions were looked up.
    seen: String,
    /// Attempts that run.
    running: JoinSet<()>,
    by_client: Shares<String>,
    by_user: Shares<UserId>,
}

/// One attempt to tell a program.
struct Attempt {
    core: Weak<Core>,
    logouts: Logouts,
    issuer: String,
    to: ToPrograms,
}

/// Sends requests to programs.
#[derive(Clone)]
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
/// Attempts at a time.
const AT_ONCE: usize = 64;
/// How long a delivery is tried.
const GIVEN_UP: SignedDuration = SignedDuration::from_hours(24);
/// The lifetime of a `logout_token`: the program reads it at once.
const LIFETIME: SignedDuration = SignedDuration::from_mins(2);
const TYP: &str = "logout+jwt";
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

impl BackChannel {
    pub(in super::super) fn new(core: &Arc<Core>, logouts: Logouts, issuer: String, to: ToPrograms) -> Self {
        let share = usize::try_from(SHARE).unwrap_or(1);
        Self {
            core: Arc::downgrade(core),
            grants: Grants::new(logouts.0.clone()),
            logouts,
            issuer,
            to,
            seen: String::new(),
            running: JoinSet::new(),
            by_client: Shares::new(share),
            by_user: Shares::new(share),
        }
    }

    /// Runs as long as the core is there.
    pub(in super::super) async fn run(mut self) {
        let mut look_at = Instant::now() + PAUSE;
        loop {
            let is_time = tokio::select! {
                () = sleep_until(look_at) => true,
                Some(_) = self.running.join_next() => false,
            };
            let Some(core) = self.core.upgrade() else { return };
            if is_time {
                look_at = Instant::now() + PAUSE;
                if let Err(error) = self.look(&core).await {
                    tracing::warn!(%error, "cannot look up sessions that other programs know");
                }
                if let Err(error) = self.grants.forget_answers(core.ambient.now()).await {
                    tracing::warn!(%error, "cannot remove answers to refreshes that are not given again");
                }
            }
            if let Err(error) = self.begin(&core).await {
                tracing::warn!(%error, "cannot read which programs to tell about ended sessions");
            }
        }
    }

    /// Begins the deliveries that are due and have a place. One client, and one user, have a share of the places.
    async fn begin(&mut self, core: &Arc<Core>) -> Result<(), Error> {
        while self.running.try_join_next().is_some() {}
        let room = AT_ONCE.saturating_sub(self.running.len());
        let mut places = Vec::new();
        let (by_client, by_user) = (&self.by_client, &self.by_user);
        let due = self.logouts.claim(core.ambient.now(), room, |delivery| {
            let taken = by_client.try_take(delivery.client.clone()).zip(by_user.try_take(delivery.user.clone()));
            taken.map(|taken| places.push((delivery.id.clone(), taken))).is_some()
        });
        for delivery in due.await? {
            let place = places.iter().position(|(id, _)| *id == delivery.id).map(|at| places.swap_remove(at));
            let attempt = Attempt {
                core: self.core.clone(),
                logouts: self.logouts.clone(),
                issuer: self.issuer.clone(),
                to: self.to.clone(),
            };
            self.running.spawn(async move {
                attempt.deliver(&delivery).await;
                drop(place);
            });
        }
        Ok(())
    }

    /// Notes which sessions of the next page have ended.
    async fn look(&mut self, core: &Core) -> Result<(), LookError> {
        if shares_database(core, &self.logouts) {
            let (ended, last) = self.logouts.ended_behind(&self.seen, core.ambient.now()).await?;
            for id in ended {
                self.logouts.ended(&id, core.ambient.now()).await?;
            }
            self.seen = last.unwrap_or_default();
            return Ok(());
        }
        let page = self.logouts.watched(&self.seen).await?;
        self.seen = page.last().map(|watched| watched.id.clone()).unwrap_or_default();
        for Watched { id, user, session, at } in page {
            if !is_signed_in(core, &user, &session, at).await.map_err(LookError::Stores)? {
                self.logouts.ended(&id, core.ambient.now()).await?;
            }
        }
        Ok(())
    }
}

impl Attempt {
    async fn deliver(&self, delivery: &Delivery) {
        // Without a core, the server ends, and another one delivers.
        let Some(core) = self.core.upgrade() else { return };
        let (now, host) = (core.ambient.now(), delivery.uri.host_str().unwrap_or_default());
        let settled = match self.send(&core, delivery).await {
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

/// Whether accounts and sessions are in tables of this service beside those of programs.
fn shares_database(core: &Core, logouts: &Logouts) -> bool {
    let sessions = core.sessions.clone().two_factor_marker().and_then(TwoFactorMarker::within);
    core.users.within.as_ref().is_some_and(|users| users.database().is(&logouts.0))
        && sessions.is_some_and(|sessions| sessions.database().is(&logouts.0))
}

/// Sessions could not be looked up.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Rows(#[from] Error),
    #[error("a store failed: {0}")]
    Stores(#[source] BoxError),
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
