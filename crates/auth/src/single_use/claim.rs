use jiff::{SignedDuration, Timestamp};

/// How long what a link leads to may take. If it is not done by then, the server that did it has stopped, and the link works
/// again.
pub(crate) const CLAIM: SignedDuration = SignedDuration::from_mins(1);

/// Claims from then and before are over.
pub(crate) fn before_claims(now: Timestamp) -> Timestamp {
    now.saturating_sub(CLAIM).unwrap_or(Timestamp::MIN)
}
