//! The work of a comparison, which is the same for every stored hash and without one.

use std::collections::BTreeSet;

use super::PasswordAlgorithm;

/// The hash computations of one comparison: the same for every account and without one.
///
/// A comparison takes as long as the stored hash's own setting requires. After a change of settings, hashes of the old
/// setting remain, and an attacker could recognise an existing account by a time that differs from that of an unknown
/// address. So every comparison computes a hash of each setting that is in use: with the account's own hash if there is
/// one, otherwise with a dummy.
///
/// bcrypt at cost `c` computes 2^c rounds, and 2^c + 2^c + 2^(c+1) + … + 2^(n-1) = 2^n. So an account with a lower cost
/// than the highest in use adds exactly the missing rounds, by a hash of each cost from its own up to the highest minus
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effort {
    /// The highest cost in use.
    bcrypt: Option<u32>,
    argon2id: BTreeSet<PasswordAlgorithm>,
}

/// Most Argon2 settings that are imitated. Each of them costs every sign-in.
const ARGON2_SETTINGS: usize = 4;
/// The highest bcrypt cost that is imitated if new hashes have a lower one: about four seconds.
const HIGHEST_BCRYPT_COST: u32 = 16;
/// The highest product of memory in KiB and passes that is computed for old hashes if new hashes have a lower one.
const HIGHEST_ARGON2_WORK: u64 = 4 << 20;

impl Effort {
    /// The effort while every hash is of the setting `current`.
    pub(super) fn of(current: PasswordAlgorithm) -> Self {
        let mut effort = Self { bcrypt: None, argon2id: BTreeSet::new() };
        effort.insert(current);
        effort
    }

    /// Adds the setting of a stored hash. `false` if it is too expensive to delay every sign-in for it, or if there are
    /// too many settings.
    pub(super) fn learn(&mut self, stored: PasswordAlgorithm) -> bool {
        if self.covers(stored) {
            return true;
        }
        let affordable = match stored {
            PasswordAlgorithm::Bcrypt { cost } => cost <= HIGHEST_BCRYPT_COST,
            PasswordAlgorithm::Argon2id { memory_kib, iterations, .. } => {
                self.argon2id.len() < ARGON2_SETTINGS
                    && u64::from(memory_kib) * u64::from(iterations) <= HIGHEST_ARGON2_WORK
            }
        };
        if affordable {
            self.insert(stored);
        }
        affordable
    }

    /// Whether hashes of this setting are compared in the usual time.
    pub(super) fn covers(&self, stored: PasswordAlgorithm) -> bool {
        match stored {
            PasswordAlgorithm::Bcrypt { cost } => self.bcrypt.is_some_and(|highest| cost <= highest),
            PasswordAlgorithm::Argon2id { .. } => self.argon2id.contains(&stored),
        }
    }

    /// The work in addition to the comparison with a hash of the setting `own`, or without a hash.
    pub(super) fn beside(&self, own: Option<PasswordAlgorithm>) -> Vec<PasswordAlgorithm> {
        let bcrypt = match (self.bcrypt, own) {
            (None, _) => 0..0,
            (Some(highest), Some(PasswordAlgorithm::Bcrypt { cost })) => cost..highest,
            (Some(highest), _) => highest..highest + 1,
        };
        let bcrypt = bcrypt.map(|cost| PasswordAlgorithm::Bcrypt { cost });
        bcrypt.chain(self.argon2id.iter().copied().filter(|setting| Some(*setting) != own)).collect()
    }

    fn insert(&mut self, setting: PasswordAlgorithm) {
        match setting {
            PasswordAlgorithm::Bcrypt { cost } => self.bcrypt = self.bcrypt.max(Some(cost)),
            PasswordAlgorithm::Argon2id { .. } => {
                self.argon2id.insert(setting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn bcrypt(cost: u32) -> PasswordAlgorithm {
        PasswordAlgorithm::Bcrypt { cost }
    }

    fn argon2(memory_kib: u32, iterations: u32) -> PasswordAlgorithm {
        PasswordAlgorithm::Argon2id { memory_kib, iterations, parallelism: 1 }
    }

    /// Everything that a comparison computes: rounds of bcrypt, and how often each setting of Argon2.
    fn work(effort: &Effort, own: Option<PasswordAlgorithm>) -> (u64, BTreeMap<PasswordAlgorithm, u32>) {
        let (mut rounds, mut argon2) = (0, BTreeMap::new());
        for setting in effort.beside(own).into_iter().chain(own) {
            match setting {
                PasswordAlgorithm::Bcrypt { cost } => rounds += 1 << cost,
                PasswordAlgorithm::Argon2id { .. } => *argon2.entry(setting).or_default() += 1,
            }
        }
        (rounds, argon2)
    }

    #[test]
    fn every_account_and_no_account_cost_the_same() {
        let changes: [(PasswordAlgorithm, &[PasswordAlgorithm]); 8] = [
            (bcrypt(12), &[]),
            (bcrypt(12), &[bcrypt(4), bcrypt(10), bcrypt(11)]),
            (bcrypt(4), &[bcrypt(12), bcrypt(9)]),
            (argon2(64, 1), &[bcrypt(10), bcrypt(12)]),
            (bcrypt(10), &[argon2(64, 1)]),
            (argon2(64, 3), &[argon2(64, 1), argon2(128, 1)]),
            (argon2(64, 3), &[argon2(64, 1), bcrypt(4), bcrypt(6)]),
            (bcrypt(31), &[bcrypt(12)]),
        ];
        for (current, stored) in changes {
            let mut effort = Effort::of(current);
            assert!(stored.iter().all(|setting| effort.learn(*setting)), "{current:?} {stored:?}");
            let unknown = work(&effort, None);
            for own in stored.iter().chain([&current]) {
                assert_eq!(work(&effort, Some(*own)), unknown, "{own:?} where new hashes are {current:?}");
            }
        }
    }

    #[test]
    fn an_extreme_setting_of_one_hash_does_not_slow_every_sign_in() {
        let mut effort = Effort::of(bcrypt(12));
        assert!(!effort.learn(bcrypt(31)) && !effort.learn(argon2(u32::MAX, u32::MAX)));
        assert_eq!(effort, Effort::of(bcrypt(12)));
        for passes in 1..=10 {
            effort.learn(argon2(64, passes));
        }
        assert_eq!(effort.beside(None).len(), 1 + ARGON2_SETTINGS);
    }
}
