/// How many parts a heartbeat is divided into. Streams are spread over them.
pub(super) const TICKS: u64 = 20;

/// Re-checks begin early, so that their answer is there within the heartbeat.
pub(super) const RECHECK_EVERY: u64 = TICKS * 3 / 4;

/// Ticks for which a confirmation is valid.
pub(super) const CONFIRMED_FOR: u64 = 2 * TICKS;
