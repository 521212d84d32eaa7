//! The work of a comparison, which is the same for every stored hash and without one.

use std::collections::{BTreeMap, BTreeSet};

use super::PasswordAlgorithm;
use super::setting::{Digest, HashSetting};

/// The hash computations of one comparison: the same for every account and without one.
///
/// A comparison takes as long as the stored hash's own setting requires. After a change of settings or an import, hashes of
/// other settings remain, and an attacker could recognise an existing account by a time that differs from that of an
/// unknown address. So every comparison computes a hash of each setting that is in use: with the account's own hash if
/// there is one, otherwise with a dummy.
///
/// bcrypt at cost `c` computes 2^c rounds, and 2^c + 2^c + 2^(c+1) + … + 2^(n-1) = 2^n. So an account with a lower cost
/// than the highest in use adds exactly the missing rounds, by a hash of each cost from its own up to the highest minus
/// one. PBKDF2 adds the missing iterations. Settings of Argon2 and scrypt also differ in memory: each is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effort {
    /// The highest cost in use.
    bcrypt: Option<u32>,
    argon2id: BTreeSet<PasswordAlgorithm>,
    scrypt: BTreeSet<HashSetting>,
    /// The most rounds in use.
    pbkdf2: BTreeMap<Digest, u32>,
}

/// Most Argon2 settings that are imitated. Each of them costs every sign-in.
const ARGON2_SETTINGS: usize = 4;
/// Most scrypt settings that are imitated: those of the systems from which accounts are imported, and a few more.
const SCRYPT_SETTINGS: usize = 8;
/// The highest bcrypt cost that is imitated if new hashes have a lower one: about four seconds.
const HIGHEST_BCRYPT_COST: u32 = 16;
/// The highest product of memory in KiB and passes that is computed for old hashes if new hashes have a lower one.
const HIGHEST_ARGON2_WORK: u64 = 4 << 20;

/// Whether one hash of this setting is cheap enough to delay every sign-in for it.
pub(super) fn is_affordable(setting: HashSetting) -> bool {
    match setting {
        HashSetting::Own(PasswordAlgorithm::Bcrypt { cost }) => cost <= HIGHEST_BCRYPT_COST,
        HashSetting::Own(PasswordAlgorithm::Argon2id { memory_kib, iterations, .. }) => {
            u64::from(memory_kib) * u64::from(iterations) <= HIGHEST_ARGON2_WORK
        }
        // Their bounds hold for every parsed hash.
        HashSetting::Scrypt { .. } | HashSetting::Pbkdf2 { .. } | HashSetting::Sha => true,
    }
}

impl Effort {
    /// The effort while every hash is of the setting `current`.
    pub(super) fn of(current: PasswordAlgorithm) -> Self {
        let mut effort =
            Self { bcrypt: None, argon2id: BTreeSet::new(), scrypt: BTreeSet::new(), pbkdf2: BTreeMap::new() };
        effort.insert(current.into());
        effort
    }

    /// Adds the setting of a stored hash. `false` if it is too expensive to delay every sign-in for it, or if there are
    /// too many settings.
    pub(super) fn learn(&mut self, stored: HashSetting) -> bool {
        if self.covers(stored) {
            return true;
        }
        let has_room = match stored {
            HashSetting::Own(PasswordAlgorithm::Argon2id { .. }) => self.argon2id.len() < ARGON2_SETTINGS,
            HashSetting::Scrypt { .. } => self.scrypt.len() < SCRYPT_SETTINGS,
            HashSetting::Own(PasswordAlgorithm::Bcrypt { .. }) | HashSetting::Pbkdf2 { .. } | HashSetting::Sha => true,
        };
        let affordable = has_room && is_affordable(stored);
        if affordable {
            self.insert(stored);
        }
        affordable
    }

    /// Whether hashes of this setting are compared in the usual time.
    pub(super) fn covers(&self, stored: HashSetting) -> bool {
        match stored {
            HashSetting::Own(PasswordAlgorithm::Bcrypt { cost }) => self.bcrypt.is_some_and(|highest| cost <= highest),
            HashSetting::Own(argon2 @ PasswordAlgorithm::Argon2id { .. }) => self.argon2id.contains(&argon2),
            HashSetting::Scrypt { .. } => self.scrypt.contains(&stored),
            HashSetting::Pbkdf2 { digest, rounds } => {
                self.pbkdf2.get(&digest).is_some_and(|highest| rounds <= *highest)
            }
            HashSetting::Sha => true,
        }
    }

    /// The work in addition to the comparison with a hash of the setting `own`, or without a hash.
    pub(super) fn beside(&self, own: Option<HashSetting>) -> Vec<HashSetting> {
        let bcrypt = match (self.bcrypt, own) {
            (None, _) => 0..0,
            (Some(highest), Some(HashSetting::Own(PasswordAlgorithm::Bcrypt { cost }))) => cost..highest,
            (Some(highest), _) => highest..highest + 1,
        };
        let bcrypt = bcrypt.map(|cost| HashSetting::Own(PasswordAlgorithm::Bcrypt { cost }));
        let pbkdf2 = self.pbkdf2.iter().filter_map(|(digest, highest)| {
            let done = match own {
                Some(HashSetting::Pbkdf2 { digest: of_own, rounds }) if of_own == *digest => rounds,
                _ => 0,
            };
            let rounds = highest.checked_sub(done).filter(|rounds| *rounds > 0)?;
            Some(HashSetting::Pbkdf2 { digest: *digest, rounds })
        });
        let memory_hard = self.argon2id.iter().copied().map(HashSetting::Own).chain(self.scrypt.iter().copied());
        bcrypt.chain(memory_hard.filter(|setting| Some(*setting) != own)).chain(pbkdf2).collect()
    }

    fn insert(&mut self, setting: HashSetting) {
        match setting {
            HashSetting::Own(PasswordAlgorithm::Bcrypt { cost }) => self.bcrypt = self.bcrypt.max(Some(cost)),
            HashSetting::Own(argon2 @ PasswordAlgorithm::Argon2id { .. }) => {
                self.argon2id.insert(argon2);
            }
            HashSetting::Scrypt { .. } => {
                self.scrypt.insert(setting);
            }
            HashSetting::Pbkdf2 { digest, rounds } => {
                let highest = self.pbkdf2.entry(digest).or_default();
                *highest = rounds.max(*highest);
            }
            HashSetting::Sha => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn bcrypt(cost: u32) -> HashSetting {
        PasswordAlgorithm::Bcrypt { cost }.into()
    }

    fn argon2(memory_kib: u32, iterations: u32) -> HashSetting {
        PasswordAlgorithm::Argon2id { memory_kib, iterations, parallelism: 1 }.into()
    }

    fn scrypt(log_n: u8) -> HashSetting {
        HashSetting::Scrypt { log_n, block_size: 8, parallelism: 1 }
    }

    fn pbkdf2(digest: Digest, rounds: u32) -> HashSetting {
        HashSetting::Pbkdf2 { digest, rounds }
    }

    /// Everything that a comparison computes: rounds of bcrypt and PBKDF2, and how often each setting of the others.
    fn work(effort: &Effort, own: Option<HashSetting>) -> (u64, BTreeMap<HashSetting, u32>, BTreeMap<Digest, u32>) {
        let (mut rounds, mut memory_hard, mut iterations) = (0, BTreeMap::new(), BTreeMap::new());
        for setting in effort.beside(own).into_iter().chain(own) {
            match setting {
                HashSetting::Own(PasswordAlgorithm::Bcrypt { cost }) => rounds += 1 << cost,
                HashSetting::Own(PasswordAlgorithm::Argon2id { .. }) | HashSetting::Scrypt { .. } => {
                    *memory_hard.entry(setting).or_default() += 1;
                }
                HashSetting::Pbkdf2 { digest, rounds } => *iterations.entry(digest).or_default() += rounds,
                HashSetting::Sha => {}
            }
        }
        (rounds, memory_hard, iterations)
    }

    #[test]
    fn every_account_and_no_account_cost_the_same() {
        let (sha1, sha256) = (Digest::Sha1, Digest::Sha256);
        let changes: [(HashSetting, &[HashSetting]); 11] = [
            (bcrypt(12), &[]),
            (bcrypt(12), &[bcrypt(4), bcrypt(10), bcrypt(11)]),
            (bcrypt(4), &[bcrypt(12), bcrypt(9)]),
            (argon2(64, 1), &[bcrypt(10), bcrypt(12)]),
            (bcrypt(10), &[argon2(64, 1)]),
            (argon2(64, 3), &[argon2(64, 1), argon2(128, 1)]),
            (argon2(64, 3), &[argon2(64, 1), bcrypt(4), bcrypt(6)]),
            (bcrypt(31), &[bcrypt(12)]),
            (bcrypt(12), &[pbkdf2(sha256, 1000), pbkdf2(sha256, 600_000), pbkdf2(sha256, 390_000)]),
            (argon2(64, 1), &[scrypt(14), scrypt(16), pbkdf2(sha1, 1), pbkdf2(sha256, 9), HashSetting::Sha]),
            (bcrypt(4), &[HashSetting::Sha, scrypt(14), bcrypt(6), pbkdf2(sha1, 7), pbkdf2(sha1, 8), argon2(64, 1)]),
        ];
        for (current, stored) in changes {
            let HashSetting::Own(algorithm) = current else { panic!("{current:?}") };
            let mut effort = Effort::of(algorithm);
            assert!(stored.iter().all(|setting| effort.learn(*setting)), "{current:?} {stored:?}");
            let unknown = work(&effort, None);
            for own in stored.iter().chain([&current]) {
                assert_eq!(work(&effort, Some(*own)), unknown, "{own:?} where new hashes are {current:?}");
            }
        }
    }

    #[test]
    fn an_extreme_setting_of_one_hash_does_not_slow_every_sign_in() {
        let twelve = Effort::of(PasswordAlgorithm::Bcrypt { cost: 12 });
        let mut effort = twelve.clone();
        assert!(!effort.learn(bcrypt(31)) && !effort.learn(argon2(u32::MAX, u32::MAX)));
        assert_eq!(effort, twelve);
        for passes in 1..=10 {
            effort.learn(argon2(64, passes));
            effort.learn(scrypt(u8::try_from(passes).unwrap()));
        }
        assert_eq!(effort.beside(None).len(), 1 + ARGON2_SETTINGS + SCRYPT_SETTINGS);
    }
}
