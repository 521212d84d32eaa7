//! Limits of proofs that a session is asked for: the password or a code, for a sensitive action.
//!
//! A stolen session must not guess them, and must not keep its owner from these actions by wrong tries. So each session has
//! its own budget, and sessions of one account share a larger one. A session that has just begun needs no part of the larger
//! one: its user has proven more than a thief of an older session can. So an owner whose account has no budget left signs in
//! again.

use gatewright_limits::{Denied, Limiter, Policy};

use crate::config::Limit;
use crate::core::Core;
use crate::session::Session;

/// The limits of one kind of proof.
pub(crate) struct SessionLimit {
    by_session: Limiter,
    by_account: Limiter,
}

/// The scopes of a [`SessionLimit`] in the store of limits.
pub(crate) struct Scopes {
    pub(crate) session: &'static str,
    pub(crate) account: &'static str,
}

/// For [`Fresh`](crate::fresh::Fresh).
pub(crate) const FRESH_PROOF: Scopes = Scopes { session: "fresh_proof_session", account: "fresh_proof" };
/// For a change of the password.
pub(crate) const PASSWORD_CHANGE: Scopes = Scopes { session: "password_change_session", account: "password_change" };
/// For disabling the second factor.
pub(crate) const TWO_FACTOR_DISABLE: Scopes =
    Scopes { session: "twofa_disable_session", account: "twofa_disable_account" };

/// All of them.
pub(crate) const ALL: [Scopes; 3] = [FRESH_PROOF, PASSWORD_CHANGE, TWO_FACTOR_DISABLE];

/// How many sessions can use up their budgets before an account's budget is used up.
const SESSIONS: u32 = 3;

/// The policy that the sessions of an account share, if `policy` is that of one session.
pub(crate) fn shared(policy: Policy) -> Policy {
    Policy::new(policy.max_attempts().saturating_mul(SESSIONS), policy.window(), policy.block())
}

impl SessionLimit {
    /// `limit` is that of one session.
    pub(crate) fn new(core: &Core, scopes: &Scopes, limit: &Limit) -> Self {
        let shared = Limit { policy: shared(limit.policy), ..*limit };
        Self { by_session: core.limiter(scopes.session, limit), by_account: core.limiter(scopes.account, &shared) }
    }

    /// Counts a proof that is tried in this session.
    pub(crate) async fn attempt(&self, core: &Core, session: &Session) -> Result<(), Denied> {
        // A blocked session takes nothing from the account's budget.
        self.by_session.attempt(session.id().as_str()).await?;
        if session.is_young(core.ambient.now()) {
            return Ok(());
        }
        self.by_account.attempt(session.user().id.as_str()).await
    }
}
