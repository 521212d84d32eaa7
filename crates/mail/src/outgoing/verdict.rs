//! The consequences of an attempt.

use std::time::Duration;

use jiff::SignedDuration;

use super::Shared;
use super::letter::Posted;
use crate::SendError;

/// The next step for a letter.
pub(crate) enum Next {
    /// It was sent.
    Done,
    /// There is no further attempt, for this reason.
    GiveUp(&'static str),
    /// It is tried again after this pause.
    Again(Duration),
}

impl Shared {
    /// Decides what happens to a letter after an attempt, and logs it, with only the domain of the address. `last` is
    /// the reason why there is no further attempt in any case.
    pub(crate) fn decide(&self, posted: &Posted, result: &Result<(), SendError>, last: Option<&'static str>) -> Next {
        let next = match (result, last) {
            (Ok(()), _) => Next::Done,
            (Err(error), _) if error.is_permanent() => Next::GiveUp("it cannot be sent"),
            (Err(_), Some(why)) => Next::GiveUp(why),
            (Err(_), None) => self.pause(posted).map_or_else(Next::GiveUp, Next::Again),
        };
        let (kind, domain, attempt) = (posted.kind(), posted.domain(), posted.attempts);
        let reason = result.as_ref().err().map(tracing::field::display);
        match next {
            Next::Done => tracing::debug!(kind, domain, attempt, "mail sent"),
            Next::GiveUp(why) => tracing::error!(kind, domain, attempt, reason, "mail given up: {why}"),
            Next::Again(pause) => {
                tracing::warn!(kind, domain, attempt, reason, ?pause, "mail not sent, trying again after a pause");
            }
        }
        next
    }

    /// How long to wait before the next attempt, or why there is none.
    fn pause(&self, posted: &Posted) -> Result<Duration, &'static str> {
        let random = u32::from_le_bytes(self.ambient.bytes());
        let pause = self.policy.retry.pause(posted.attempts, random).ok_or("it was tried too often")?;
        let signed = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
        let is_in_time = self.ambient.now().checked_add(signed).is_ok_and(|at| at < posted.expires_at);
        if is_in_time { Ok(pause) } else { Err("its link would have expired") }
    }
}
