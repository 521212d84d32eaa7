use jiff::{SignedDuration, Timestamp};

/// How long the action of a link may take. If it is not done by then, its server has stopped, and the link works again.
pub(crate) const CLAIM: SignedDuration = SignedDuration::from_mins(1);

/// Claims from then and before are over.
pub(crate) fn before_claims(now: Timestamp) -> Timestamp {
    now.saturating_sub(CLAIM).unwrap_or(Timestamp::MIN)
}
