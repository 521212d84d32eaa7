use gatewright_base::UserId;
use gatewright_http::{ClientAddr, Counted};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::{AuditEvent, AuditKind};

impl AuditEvent {
    /// The key that repetitions of this event share: failures of one kind, from one client address (an IPv6 /64), on
    /// one account or with one token, for one reason, in one minute. A sink stores them as one event with a count, so
    /// that repeated failures do not fill the log. `None` for events that are stored one by one.
    pub fn repetition(&self) -> Option<Uuid> {
        if !self.kind.is_failure() {
            return None;
        }
        let detail = |name: &str| self.meta.get(name).and_then(Value::as_str);
        let parts = [
            Some(self.kind.name()),
            Some(&*Counted::Repetitions.limit_key(ClientAddr::new(self.remote))),
            self.user_id.as_ref().map(UserId::as_str),
            detail("reason"),
            detail("email"),
            detail("provider"),
            // One address could invent any number of tokens, but the scheme of tokens audits a limited number of its
            // failures.
            detail("token"),
        ]
        .map(|part| part.map(str::to_owned));
        let mut hash = Sha256::new();
        hash.update(self.at.as_second().div_euclid(60).to_be_bytes());
        for part in parts {
            // The length goes first, so that two different lists of parts never produce the same text.
            hash.update(part.as_ref().map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Some(Builder::from_bytes(bytes).with_variant(Variant::RFC4122).with_version(Version::Custom).into_uuid())
    }
}

impl AuditKind {
    fn is_failure(self) -> bool {
        matches!(self, Self::LoginFailed | Self::TwoFactorChallengeFailed | Self::TokenAuthFailed | Self::OAuthRefused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(remote: &str, second: i64) -> AuditEvent {
        let at = jiff::Timestamp::from_second(second).unwrap();
        AuditEvent::new(AuditKind::LoginFailed, at).remote(Some(remote.parse().unwrap())).with("reason", "wrong")
    }

    #[test]
    fn failures_of_one_address_and_account_in_one_minute_are_one() {
        let first = failure("192.0.2.1", 600).with("email", "ann@example.com");
        let same = |other: AuditEvent| first.repetition() == other.repetition();
        assert!(first.repetition().is_some());
        assert!(same(failure("192.0.2.1", 659).with("email", "ann@example.com")));
        assert!(!same(failure("192.0.2.1", 660).with("email", "ann@example.com")), "another minute");
        assert!(!same(failure("192.0.2.2", 600).with("email", "ann@example.com")), "another address");
        assert!(!same(failure("192.0.2.1", 600).with("email", "bob@example.com")), "another account");
        assert!(!same(failure("192.0.2.1", 600)), "no account");
        let (one, other) = (failure("2001:db8::1", 0), failure("2001:db8::ffff", 0));
        assert_eq!(one.repetition(), other.repetition(), "one IPv6 /64");
    }

    #[test]
    fn every_token_keeps_its_prefix() {
        let refused = |reason: &str, token: &str| {
            let event = AuditEvent::new(AuditKind::TokenAuthFailed, jiff::Timestamp::UNIX_EPOCH);
            event.with("reason", reason).with("token", token).repetition()
        };
        for reason in ["unknown", "revoked"] {
            assert_eq!(refused(reason, "svc_11111111"), refused(reason, "svc_11111111"));
            assert_ne!(refused(reason, "svc_11111111"), refused(reason, "svc_22222222"));
        }
        assert_ne!(refused("unknown", "svc_11111111"), refused("revoked", "svc_11111111"));
    }

    #[test]
    fn successes_are_stored_one_by_one() {
        let single = AuditKind::ALL
            .iter()
            .filter(|kind| AuditEvent::new(**kind, jiff::Timestamp::UNIX_EPOCH).repetition().is_none());
        assert_eq!(single.count(), AuditKind::ALL.len() - 4);
    }
}
