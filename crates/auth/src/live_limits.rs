//! Limits that change while the server runs.

use gatewright_limits::{Limiter, Policy};
use parking_lot::Mutex;

use crate::config::Limits;
use crate::session_limit;

/// The limiters of the configuration, by scope.
#[derive(Default)]
pub(crate) struct LiveLimits(Mutex<Vec<(&'static str, Limiter)>>);

impl LiveLimits {
    /// Remembers a limiter. Its clones have the same policy.
    pub(crate) fn add(&self, scope: &'static str, limiter: &Limiter) {
        if policy(scope, &Limits::default()).is_some() {
            self.0.lock().push((scope, limiter.clone()));
        }
    }

    /// Replaces the policies of all limiters whose limit is configured.
    pub(crate) fn set(&self, limits: &Limits) {
        for (scope, limiter) in &*self.0.lock() {
            if let Some(policy) = policy(scope, limits) {
                limiter.set_policy(policy);
            }
        }
    }
}

/// The policy of a scope; `None` if it is not configured.
fn policy(scope: &str, limits: &Limits) -> Option<Policy> {
    let limit = match scope {
        "login_ip" | "passkey" => limits.login,
        "login_account" | "login_device" => limits.login_account,
        "register" | "oauth2_register" => limits.register,
        "magic_link" => limits.magic_link,
        "anonymous" => limits.anonymous,
        "email_code" | "email_code_verify" => limits.email_code,
        "device" | "device_authorization" => limits.device,
        "twofa" | "twofa_disable" => limits.two_factor,
        "twofa_account" | "twofa_device" => limits.two_factor_account,
        "password_reset" => limits.password_reset,
        "email_verification" => limits.email_verification,
        "oauth" => limits.oauth,
        _ => return of_sessions(scope, limits),
    };
    Some(limit.policy)
}

/// The policy of a proof within a session.
fn of_sessions(scope: &str, limits: &Limits) -> Option<Policy> {
    let scopes = session_limit::ALL.into_iter().find(|scopes| [scopes.session, scopes.account].contains(&scope))?;
    let of_two_factor = scopes.session == session_limit::TWO_FACTOR_DISABLE.session;
    let limit = if of_two_factor { limits.two_factor_account } else { limits.login_account };
    Some(if scope == scopes.session { limit.policy } else { session_limit::shared(limit.policy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configured_scope_has_a_policy_and_others_have_none() {
        let limits = Limits::default();
        for scope in ["login_ip", "login_account", "fresh_proof_session", "password_change", "twofa_disable_account"] {
            assert!(policy(scope, &limits).is_some(), "{scope}");
        }
        for scope in ["mail_code", "mail_notice", "stream_ticket", "device_account", "nothing"] {
            assert!(policy(scope, &limits).is_none(), "{scope}");
        }
    }
}
