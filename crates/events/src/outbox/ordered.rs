//! Claims of consumers that get the events of a record one after the other.
//!
//! A delivery waits while an earlier event of the same record is neither delivered to the consumer nor dead, also if that event has no
//! delivery yet. Positions order the events of a record: each write of a record begins after the one before was committed, and is staged
//! in its own transaction.
//!
//! Other records do not wait. A claim reads a page of due deliveries; if the page is full of those that wait, they are due again later,
//! so that the next claim finds others.

use std::time::Duration;

use gatewright_db::{Engine, dialect};

/// How many due deliveries a claim reads.
const PAGE: usize = 512;
/// When those that wait are due again, if they fill a page.
pub(super) const LATER: Duration = Duration::from_secs(5);

/// The statement that claims, with the parameters of the ordinary one.
pub(super) fn claim(engine: Engine) -> String {
    format!(
        "WITH {page}, due AS MATERIALIZED (
             SELECT d.row_id FROM event_outbox_delivery d
             WHERE d.consumer = ?1 AND d.status = 'pending' AND {free}
             ORDER BY d.next_attempt_at, d.row_id LIMIT ?4{lock})
         UPDATE event_outbox_delivery SET claimed_until = ?5, relay = ?6
         WHERE consumer = ?1 AND COALESCE(status, '') = 'pending' AND (claimed_until IS NULL OR claimed_until <= ?2)
           AND row_id IN (SELECT row_id FROM due)
         RETURNING row_id, attempts",
        page = page(),
        free = dialect::is_selected(engine, "d.row_id", "SELECT m.row_id FROM marked m WHERE NOT m.waits"),
        lock = dialect::for_update_skip_locked(engine),
    )
}

/// Makes the deliveries of a full page that wait due at ?4.
pub(super) fn defer(engine: Engine) -> String {
    let waiting = format!("SELECT m.row_id FROM marked m WHERE m.waits AND (SELECT COUNT(*) FROM page) >= {PAGE}");
    format!(
        "WITH {page}
         UPDATE event_outbox_delivery SET next_attempt_at = ?4
         WHERE consumer = ?1 AND COALESCE(status, '') = 'pending' AND (claimed_until IS NULL OR claimed_until <= ?2)
           AND {waiting}",
        page = page(),
        waiting = dialect::is_selected(engine, "row_id", &waiting),
    )
}

/// A page of due deliveries, and which of them wait.
///
/// What was delivered is not looked at: only open deliveries of the same record, and the last event before that the consumer takes. If
/// that one has a delivery, it was claimed only after those before it.
fn page() -> String {
    format!(
        "page AS MATERIALIZED (
             SELECT d.row_id, d.record_key, d.position FROM event_outbox_delivery d
             WHERE d.status = 'pending' AND d.consumer = ?1 AND d.next_attempt_at <= ?2
               AND (d.claimed_until IS NULL OR d.claimed_until <= ?2)
               AND EXISTS (SELECT 1 FROM event_outbox r WHERE r.id = d.row_id AND r.type = ?3)
             ORDER BY d.next_attempt_at, d.row_id LIMIT {PAGE}),
         marked AS MATERIALIZED (
             SELECT p.row_id, p.record_key IS NOT NULL AND (
                 EXISTS (SELECT 1 FROM event_outbox_delivery e WHERE e.consumer = ?1 AND e.record_key = p.record_key
                     AND e.status = 'pending' AND e.position < p.position AND e.row_id <> p.row_id)
                 OR EXISTS (SELECT 1 FROM event_outbox b WHERE b.status = 'pending' AND b.id = (
                         SELECT q.id FROM event_outbox q WHERE q.record_key = p.record_key AND q.position < p.position
                             AND q.type = ?3 ORDER BY q.position DESC LIMIT 1)
                     AND NOT EXISTS (SELECT 1 FROM event_outbox_delivery e
                         WHERE e.row_id = b.id AND e.consumer = ?1))) AS waits
             FROM page p)"
    )
}
