//! Passwords: which are accepted, how they are hashed, and where the hashing runs.
//!
//! A password is normalised (`opaque.rs`). A new one becomes a [`NewPassword`] (`rules.rs`), is hashed by the configured [`PasswordAlgorithm`]
//! (`algorithm.rs`) on a bounded pool (`pool.rs`) and stored as a [`PasswordHash`] that names its algorithm and cost.
//! Each [`Requester`] has its own queue for the pool, and requesters take turns (`turns.rs`).
//! Hashes of other systems stay usable until their first sign-in (`foreign`).
//! At sign-in [`Passwords::check`] compares. Earlier versions hashed passwords as they were typed, so a password whose
//! normalised form differs is compared in both. Every comparison computes the same amount (`effort.rs`), so that an unknown
//! address takes as long as a wrong password, also after a change of algorithm or cost.

mod algorithm;
mod common;
mod comparison;
mod effort;
mod foreign;
mod opaque;
mod patterns;
mod pool;
mod requester;
mod rules;
mod setting;
mod stored_hashes;
mod turns;

use algorithm::BCRYPT_MAX_BYTES;
pub use algorithm::{AlgorithmError, PasswordAlgorithm, PasswordHash};
pub use pool::{HashingLoad, Overloaded};
pub use requester::Requester;
pub(crate) use rules::MAX_BYTES;
pub use rules::{NewPassword, PasswordOwner, PasswordPolicy, WeakPassword};
pub use setting::{Digest, HashSetting};
pub use stored_hashes::{StoredHashes, Unusable};

use std::num::NonZeroUsize;
use std::sync::Arc;

use gatewright_base::{Ambient, Secret};
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;

use comparison::Comparison;
use effort::Effort;
use opaque::Opaque;
use pool::Pool;
use rules::Rules;
use turns::Capacity;

/// Callers without a known device that may wait for each core. At bcrypt's cost 12 the last of them waits about eight
/// seconds.
const STRANGERS_PER_CORE: usize = 32;
/// Callers of one requester that may wait for each core. On two cores the last of them waits about twelve seconds.
const WAITING_PER_CORE_AND_REQUESTER: usize = 24;
/// Callers with a known device that may wait for each core: as many as of one requester.
const KNOWN_PER_CORE: usize = 24;

/// The password hasher of one running program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Passwords {
    algorithm: PasswordAlgorithm,
    effort: Arc<RwLock<Effort>>,
    settings_read_at: Arc<RwLock<Timestamp>>,
    pool: Pool,
    rules: Arc<Rules>,
    allow_weak: bool,
    ambient: Ambient,
}

/// The result of comparing a password with a stored hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The password is wrong, or there is no hash to compare with.
    Wrong,
    /// The stored hash is in no known format or damaged: no password fits it.
    Unreadable,
    /// It is the password.
    Right {
        /// The hash was created with another algorithm or cost than new ones, or of a password that was not normalised: it
        /// must be replaced.
        outdated: bool,
    },
}

/// A hash could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HashError {
    /// The queue is full.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The algorithm failed.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
}

impl Passwords {
    /// A hasher that uses every core, and for one requester all but one. For each core at most 32 callers wait, at most
    /// 24 of them of one requester, and 24 more with a known device.
    pub fn new(algorithm: PasswordAlgorithm, ambient: Ambient) -> Self {
        let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let pool = Pool::new(Capacity {
            workers,
            workers_per_requester: NonZeroUsize::new(workers.get() - 1).unwrap_or(NonZeroUsize::MIN),
            strangers: workers.get() * STRANGERS_PER_CORE,
            known: workers.get() * KNOWN_PER_CORE,
            waiting_per_requester: workers.get() * WAITING_PER_CORE_AND_REQUESTER,
        });
        let effort = Arc::new(RwLock::new(Effort::of(algorithm)));
        Self {
            algorithm,
            effort,
            settings_read_at: Arc::new(RwLock::new(Timestamp::MIN)),
            pool,
            rules: Arc::default(),
            allow_weak: false,
            ambient,
        }
    }

    /// The same with other requirements of new passwords. `host` is that of the service's public URL.
    pub fn with_policy(self, policy: PasswordPolicy, host: Option<&str>) -> Self {
        let rules = Rules { policy, host: host.map(str::to_lowercase) };
        Self { rules: Arc::new(rules), ..self }
    }

    /// The same, and weak hashes of imported accounts are compared if `allow`.
    pub fn with_weak_hashes(self, allow: bool) -> Self {
        Self { allow_weak: allow, ..self }
    }

    /// Whether weak hashes are compared.
    pub(crate) fn allows_weak_hashes(&self) -> bool {
        self.allow_weak
    }

    /// What a new password must meet.
    pub(crate) fn policy(&self) -> PasswordPolicy {
        self.rules.policy
    }

    /// The fewest characters of a new password, and the most that its algorithm can take.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let longest = match self.algorithm {
            PasswordAlgorithm::Bcrypt { .. } => BCRYPT_MAX_BYTES,
            PasswordAlgorithm::Argon2id { .. } => MAX_BYTES,
        };
        (self.rules.policy.min_length, longest)
    }

    /// Sets the settings of stored hashes, and replaces the known ones: every comparison computes as much as the most
    /// expensive of them.
    pub(crate) fn stored_settings(&self, settings: impl IntoIterator<Item = HashSetting>) {
        let mut effort = Effort::of(self.algorithm);
        for setting in settings {
            learn(&mut effort, setting);
        }
        *self.effort.write() = effort;
        *self.settings_read_at.write() = self.ambient.now();
    }

    /// Whether the settings of stored hashes were last set more than an hour ago. Determining them reads all accounts.
    pub(crate) fn settings_are_old(&self) -> bool {
        self.ambient.now().duration_since(*self.settings_read_at.read()) > SignedDuration::from_hours(1)
    }

    /// The work so far, and the queue.
    pub fn load(&self) -> HashingLoad {
        self.pool.load()
    }

    /// Checks a new password of `owner` against the rules.
    #[expect(clippy::needless_pass_by_value, reason = "the caller gives the typed text away")]
    pub fn accept(&self, text: Secret, owner: PasswordOwner<'_>) -> Result<NewPassword, WeakPassword> {
        self.rules.accept(&text, &self.algorithm, owner)
    }

    /// Hashes a password for storing.
    pub async fn hash(&self, requester: Requester, password: &NewPassword) -> Result<PasswordHash, HashError> {
        let (algorithm, password, salt) = (self.algorithm, password.opaque().clone(), self.ambient.bytes());
        Ok(self.pool.run(requester, move || algorithm.hash(&password, salt)).await??)
    }

    /// Compares `password` with `stored`, in its normalised form and, if it differs, as it was typed. Without a stored hash,
    /// or with an invalid one, it answers after the same computations: their number depends on the typed text alone. A
    /// text that is longer than any password is not hashed, for any account.
    pub async fn check(
        &self,
        requester: Requester,
        password: &Secret,
        stored: Option<PasswordHash>,
    ) -> Result<Check, Overloaded> {
        let Some(opaque) = Opaque::of(password) else { return Ok(Check::Wrong) };
        let own = stored.as_ref().and_then(|hash| HashSetting::of_stored(hash.expose()));
        let comparison = Comparison {
            typed: password.clone(),
            opaque,
            stored,
            own,
            beside: self.beside(own),
            allow_weak: self.allow_weak,
        };
        let (algorithm, salt) = (self.algorithm, self.ambient.bytes());
        self.pool.run(requester, move || comparison.run(&algorithm, salt)).await
    }

    /// The work in addition to the comparison with a hash of the setting `own`. A new setting counts for every later
    /// comparison.
    fn beside(&self, own: Option<HashSetting>) -> Vec<HashSetting> {
        if let Some(own) = own
            && !self.effort.read().covers(own)
        {
            learn(&mut self.effort.write(), own);
        }
        self.effort.read().beside(own)
    }

    /// Hashes a correct password whose stored hash is outdated. The rules for new passwords do not apply: they may have
    /// changed since it was chosen.
    pub(crate) async fn rehash(&self, requester: Requester, password: &Secret) -> Result<PasswordHash, HashError> {
        let password = Opaque::of(password).ok_or(AlgorithmError::TooLong)?;
        let (algorithm, salt) = (self.algorithm, self.ambient.bytes());
        Ok(self.pool.run(requester, move || algorithm.hash(&password, salt)).await??)
    }
}

fn learn(effort: &mut Effort, setting: HashSetting) {
    if !effort.learn(setting) {
        tracing::warn!(
            ?setting,
            "a stored password hash is too costly to imitate; the duration of a sign-in reveals that its account exists"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opaque(text: &str) -> Opaque {
        Opaque::of(&Secret::new(text)).unwrap()
    }

    fn passwords(algorithm: PasswordAlgorithm) -> Passwords {
        Passwords::new(algorithm, Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1).0)
    }

    #[tokio::test]
    async fn right_wrong_and_absent_passwords_are_distinguished() {
        let passwords = passwords(PasswordAlgorithm::Bcrypt { cost: 4 });
        let hash = passwords
            .hash(Requester::SERVER, &passwords.accept(Secret::new("correct horse"), PasswordOwner::default()).unwrap())
            .await
            .unwrap();
        let (right, wrong) = (Secret::new("correct horse"), Secret::new("wrong horse"));
        assert_eq!(
            passwords.check(Requester::SERVER, &right, Some(hash.clone())).await,
            Ok(Check::Right { outdated: false })
        );
        assert_eq!(passwords.check(Requester::SERVER, &wrong, Some(hash)).await, Ok(Check::Wrong));
        assert_eq!(passwords.check(Requester::SERVER, &right, None).await, Ok(Check::Wrong));
        assert_eq!(
            passwords.check(Requester::SERVER, &right, Some(PasswordHash::from_stored("correct horse"))).await,
            Ok(Check::Unreadable)
        );
    }

    #[tokio::test]
    async fn a_hash_of_another_cost_is_right_and_outdated() {
        let hash = PasswordAlgorithm::Bcrypt { cost: 5 }.hash(&opaque("correct horse"), [1; 16]).unwrap();
        let verdict = passwords(PasswordAlgorithm::Bcrypt { cost: 4 })
            .check(Requester::SERVER, &Secret::new("correct horse"), Some(hash))
            .await;
        assert_eq!(verdict, Ok(Check::Right { outdated: true }));
    }

    /// Cost 31 would take days: if the text were hashed, this test would not end.
    #[tokio::test]
    async fn a_text_too_long_to_be_a_password_is_not_hashed() {
        let passwords = passwords(PasswordAlgorithm::Bcrypt { cost: 31 });
        let stored = PasswordHash::from_stored("$2b$31$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u");
        let verdict = passwords.check(Requester::SERVER, &Secret::new("a".repeat(1 << 20)), Some(stored)).await;
        assert_eq!(verdict, Ok(Check::Wrong));
    }

    #[tokio::test]
    async fn equal_passwords_have_unequal_hashes() {
        let passwords = passwords(PasswordAlgorithm::Bcrypt { cost: 4 });
        let password = passwords.accept(Secret::new("correct horse"), PasswordOwner::default()).unwrap();
        assert_ne!(
            passwords.hash(Requester::SERVER, &password).await.unwrap(),
            passwords.hash(Requester::SERVER, &password).await.unwrap()
        );
    }

    #[tokio::test]
    async fn a_setting_that_was_found_counts_for_every_later_comparison() {
        let passwords = passwords(PasswordAlgorithm::Bcrypt { cost: 4 });
        let costs = |passwords: &Passwords| passwords.effort.read().beside(None);
        let stored = PasswordAlgorithm::Bcrypt { cost: 6 }.hash(&opaque("correct horse"), [1; 16]).unwrap();
        passwords.check(Requester::SERVER, &Secret::new("wrong horse"), Some(stored)).await.unwrap();
        let bcrypt = |cost| HashSetting::from(PasswordAlgorithm::Bcrypt { cost });
        assert_eq!(costs(&passwords), [bcrypt(6)]);
        passwords.stored_settings([bcrypt(5)]);
        assert_eq!(costs(&passwords), [bcrypt(5)]);
        passwords.stored_settings([bcrypt(31)]);
        assert_eq!(costs(&passwords), [bcrypt(4)]);
    }

    /// `cafe` and an accent, as a Mac may send it, and the hash that an earlier version stored of it.
    #[tokio::test]
    async fn a_hash_of_a_password_as_it_was_typed_is_right_and_outdated() {
        let typed = Secret::new("cafe\u{301} au lait");
        let other = Secret::new("caf\u{e9} au lait");
        for algorithm in [
            PasswordAlgorithm::Bcrypt { cost: 4 },
            PasswordAlgorithm::Argon2id { memory_kib: 64, iterations: 1, parallelism: 1 },
        ] {
            let passwords = passwords(algorithm);
            let old = algorithm.hash(&Opaque::unprepared(typed.clone()), [1; 16]).unwrap();
            let check = async |text: &Secret, hash: &PasswordHash| {
                passwords.check(Requester::SERVER, text, Some(hash.clone())).await.unwrap()
            };
            assert_eq!(check(&typed, &old).await, Check::Right { outdated: true });
            assert_eq!(check(&other, &old).await, Check::Wrong, "nobody can know how it was typed");
            let renewed = passwords.rehash(Requester::SERVER, &typed).await.unwrap();
            assert_eq!(check(&typed, &renewed).await, Check::Right { outdated: false });
            assert_eq!(check(&other, &renewed).await, Check::Right { outdated: false });
            assert_eq!(check(&Secret::new("CAF\u{c9} au lait"), &renewed).await, Check::Wrong);
        }
    }
}
