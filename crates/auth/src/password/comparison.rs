use gatewright_base::Secret;

use super::opaque::Opaque;
use super::setting::HashSetting;
use super::{AlgorithmError, Check, MAX_BYTES, PasswordAlgorithm, PasswordHash};

/// The work of one comparison. How much it is depends on the typed text, not on the account.
pub(super) struct Comparison {
    pub(super) typed: Secret,
    pub(super) opaque: Opaque,
    pub(super) stored: Option<PasswordHash>,
    /// The setting of the stored hash, if it names one.
    pub(super) own: Option<HashSetting>,
    /// The settings to imitate in addition.
    pub(super) beside: Vec<HashSetting>,
    /// Whether a weak hash is compared.
    pub(super) allow_weak: bool,
}

impl Comparison {
    /// Compares the normalised form and, if it differs, the text as it was typed; the latter also after a success.
    pub(super) fn run(&self, current: &PasswordAlgorithm, salt: [u8; 16]) -> Check {
        let Self { typed, opaque, stored, .. } = self;
        let as_typed = Some(typed).filter(|typed| *typed != opaque.secret() && typed.len() <= MAX_BYTES);
        let mut verdict = Check::Wrong;
        for text in [opaque.secret()].into_iter().chain(as_typed) {
            for setting in &self.beside {
                setting.imitate(opaque, salt);
            }
            match stored.as_ref().map(|hash| (self.matches(hash, text), hash)) {
                Some((Ok(true), hash)) => {
                    let is_current = hash.is_current(current) && text == opaque.secret();
                    verdict = Check::Right { outdated: !is_current && current.takes(opaque) };
                }
                Some((Ok(false), _)) | None => {}
                Some((Err(error), _)) => {
                    tracing::debug!(%error, "a stored password hash cannot be read");
                    // It took no time, and an account must not be recognisable by that.
                    if let Some(own) = self.own {
                        own.imitate(opaque, salt);
                    }
                    verdict = Check::Unreadable;
                }
            }
        }
        verdict
    }

    fn matches(&self, hash: &PasswordHash, text: &Secret) -> Result<bool, AlgorithmError> {
        if self.own.is_some_and(HashSetting::is_weak) && !self.allow_weak {
            return Err(AlgorithmError::Weak);
        }
        hash.matches(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::algorithm::computed;
    use crate::password::effort::Effort;

    /// The attack: the time of an answer tells accounts with old hashes, with new ones, and unknown addresses apart.
    #[test]
    fn the_number_of_hashes_depends_on_the_typed_text_alone() {
        let bcrypt = PasswordAlgorithm::Bcrypt { cost: 4 };
        let argon = PasswordAlgorithm::Argon2id { memory_kib: 64, iterations: 1, parallelism: 1 };
        let typed = Secret::new("cafe\u{301} au lait");
        let scrypt = format!("$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ${}", "A".repeat(43));
        let pbkdf2 = format!("pbkdf2_sha256$100$salt${}=", "A".repeat(43));
        let (of_scrypt, of_pbkdf2) = (HashSetting::of_stored(&scrypt), HashSetting::of_stored(&pbkdf2));
        let mut effort = Effort::of(bcrypt);
        assert!(effort.learn(argon.into()) && effort.learn(of_scrypt.unwrap()) && effort.learn(of_pbkdf2.unwrap()));
        let hash = |setting: PasswordAlgorithm, opaque: Opaque| setting.hash(&opaque, [1; 16]).ok();
        let stored = [
            None,
            Some(PasswordHash::from_stored("no hash")),
            Some(PasswordHash::from_stored("$2b$04$damaged")),
            hash(bcrypt, Opaque::unprepared(typed.clone())),
            hash(bcrypt, Opaque::of(&typed).unwrap()),
            hash(argon, Opaque::unprepared(typed.clone())),
            hash(argon, Opaque::of(&Secret::new("correct horse")).unwrap()),
            Some(PasswordHash::from_stored(&*scrypt)),
            Some(PasswordHash::from_stored(&*pbkdf2)),
            Some(PasswordHash::from_stored(pbkdf2.replace("100$", "x$"))),
            Some(PasswordHash::from_stored("bcrypt$$2b$04$E4O9WsMk99WeGbJdGKdvjeYc7BMXM.H328SwP0h81Bn6/twd.ymOG")),
            Some(PasswordHash::from_stored("bcrypt_sha256$$2b$04$damaged")),
            Some(PasswordHash::from_stored(format!("$sha256$salt${}", "ab".repeat(32)))),
        ];
        for (text, times) in [
            (Secret::new("correct horse"), 1),
            (Secret::new("caf\u{e9} au lait"), 1),
            (typed, 2),
            // Longer than any password that was ever stored.
            (Secret::new("e\u{301}".repeat(400)), 1),
        ] {
            for (stored, allow_weak) in stored.iter().flat_map(|stored| [(stored, false), (stored, true)]) {
                let own = stored.as_ref().and_then(|hash| HashSetting::of_stored(hash.expose()));
                let beside = effort.beside(own);
                let opaque = Opaque::of(&text).unwrap();
                let stored = stored.clone();
                let comparison = Comparison { typed: text.clone(), opaque, stored, own, beside, allow_weak };
                let before = computed();
                comparison.run(&bcrypt, [2; 16]);
                assert_eq!(computed() - before, 4 * times, "{} bytes, {:?}", text.len(), comparison.stored);
            }
        }
    }
}
