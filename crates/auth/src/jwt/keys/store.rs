//! The signers of one server: read from the table, or kept in memory where there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gatewright_base::{Ambient, SealingKey, Secret};
use gatewright_db::Db;
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::pair::{Generated, Pair};
use super::rows::{Chain, Rows, Stored};
use super::schedule::{Entry, Key, Schedule};
use super::{JwtAlgorithm, KeyError, MAX_AGE, PublicKey, of_files};
use crate::init_error::AuthInitError;
use crate::jwt::JwtConfig;

/// The keys of one server.
pub(in crate::jwt) struct Keys {
    schedule: RwLock<Arc<Schedule>>,
    /// `None`: the keys end with the process.
    rows: Option<Rows>,
    sealing: Vec<SealingKey>,
    algorithm: JwtAlgorithm,
    files: Vec<Arc<Pair>>,
    lifetime: SignedDuration,
    rotate_every: Option<SignedDuration>,
    /// Held by the one read of the table that serves all who wait for one.
    reading: Mutex<()>,
    /// The reads that have begun.
    reads: AtomicU64,
    ambient: Ambient,
}

/// Part of the stored format.
const LABEL: &str = "gatewright/jwt-private-keys/v1";
/// Between the publication of a key and its first signature: the time for which verifiers keep the set, and as long as
/// servers need to read the table, with a margin for clocks.
const NOTICE: SignedDuration = SignedDuration::from_secs(MAX_AGE.as_secs().cast_signed() + 120);
/// How often a server tries to add its signer while others add theirs.
const ATTEMPTS: u32 = 8;

impl Keys {
    /// The keys of `id_token`s of one algorithm, which live for `lifetime`. The server makes them, and they are sealed and
    /// replaced as those of JWTs.
    pub(in crate::jwt) fn of_id_tokens(
        config: &JwtConfig,
        algorithm: JwtAlgorithm,
        lifetime: SignedDuration,
        db: Option<Db>,
        ambient: Ambient,
    ) -> Self {
        Self::of(config, Chain::IdTokens(algorithm), algorithm, Vec::new(), lifetime, db, ambient)
    }

    /// Reads the configuration, without signers yet. Without a database or a secret they end with the process.
    pub(in crate::jwt) fn new(config: &JwtConfig, db: Option<Db>, ambient: Ambient) -> Result<Self, AuthInitError> {
        let wrong = |setting, problem: String| AuthInitError::Setting { setting, problem };
        let files = of_files(&config.keys.files).map_err(|number| {
            let problem = format!(
                "file {number} has no private key of P-256, Ed25519 or RSA with 2048 to 8192 bits, in PEM and not encrypted"
            );
            wrong("keys.files", problem)
        })?;
        if let Some(first) = files.first().map(|pair| pair.public().algorithm()).filter(|of| *of != config.algorithm) {
            let (first, wanted) = (first.as_str(), config.algorithm.as_str());
            return Err(wrong("keys.files", format!("the first key is for {first}, and jwt_algorithm is {wanted}")));
        }
        let lifetime = SignedDuration::try_from(config.expiry).unwrap_or(SignedDuration::MAX);
        Ok(Self::of(config, Chain::Jwts, config.algorithm, files, lifetime, db, ambient))
    }

    fn of(
        config: &JwtConfig,
        chain: Chain,
        algorithm: JwtAlgorithm,
        files: Vec<Arc<Pair>>,
        lifetime: SignedDuration,
        db: Option<Db>,
        ambient: Ambient,
    ) -> Self {
        let own = Some(&config.keys.secret).filter(|secret| !secret.is_empty());
        let secrets: Vec<&Secret> = match own {
            Some(own) => std::iter::once(own).chain(&config.keys.previous_secrets).collect(),
            None => config.secrets().chain(&config.keys.previous_secrets).filter(|secret| !secret.is_empty()).collect(),
        };
        Self {
            schedule: RwLock::default(),
            rows: db.filter(|_| !secrets.is_empty()).map(|db| Rows::new(db, chain)),
            sealing: secrets.into_iter().map(|secret| SealingKey::new(&secret.derive_key(LABEL))).collect(),
            algorithm,
            files,
            lifetime,
            rotate_every: config.keys.rotate_every.and_then(|age| SignedDuration::try_from(age).ok()),
            reading: Mutex::new(()),
            reads: AtomicU64::new(0),
            ambient,
        }
    }

    /// Whether the keys come from files.
    pub(super) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    pub(in crate::jwt) fn schedule(&self) -> Arc<Schedule> {
        self.schedule.read().clone()
    }

    /// Reads the signers, and adds the configured one if it is not the last. `has_users`: whether accounts in this
    /// database may have tokens of HS256 from before there was the table.
    pub(in crate::jwt) async fn start(&self, in_own_users: bool) -> Result<(), KeyError> {
        let Some(rows) = &self.rows else { return self.start_in_memory() };
        for _ in 0..ATTEMPTS {
            let stored = rows.all().await?;
            let schedule = self.opened(&stored);
            let added = match stored.last() {
                None => {
                    let was_secret =
                        self.algorithm == JwtAlgorithm::Hs256 || (in_own_users && rows.has_users().await?);
                    let now = self.ambient.now();
                    let first = if was_secret { self.secret(now) } else { self.made(now)? };
                    rows.add(None, &first).await?
                }
                Some(_) if self.is_wanted(&schedule) => {
                    if let (Some(last), true) = (schedule.entries.last(), self.lifetime.is_positive()) {
                        rows.lengthen(&last.id, self.lifetime).await?;
                    }
                    self.reseal(rows, &stored).await?;
                    *self.schedule.write() = Arc::new(schedule);
                    return Ok(());
                }
                Some(last) => rows.add(Some(&last.id), &self.next(&schedule)?).await?,
            };
            if added {
                tracing::info!(algorithm = self.algorithm.as_str(), "a signer of JWTs was added");
            }
        }
        Err(KeyError::Contended)
    }

    fn start_in_memory(&self) -> Result<(), KeyError> {
        let mut schedule = Schedule::default();
        if self.algorithm != JwtAlgorithm::Hs256 {
            let stored = [self.made(self.ambient.now())?];
            schedule = self.opened(&stored);
        }
        *self.schedule.write() = Arc::new(schedule);
        Ok(())
    }

    /// Reads the table again, replaces a key that is old enough, and removes those whose last token has expired.
    pub(in crate::jwt) async fn sweep(&self) -> Result<u64, KeyError> {
        self.read().await?;
        let (Some(rows), schedule, now) = (&self.rows, self.schedule(), self.ambient.now()) else { return Ok(0) };
        let mut removed = 0;
        for (index, entry) in schedule.entries.iter().enumerate() {
            if schedule.last_token(index).is_some_and(|last| last < now) {
                rows.remove(&entry.id).await?;
                removed += 1;
            }
        }
        if self.is_due(&schedule, now) {
            self.rotate().await?;
        }
        if removed > 0 {
            self.read().await?;
        }
        Ok(removed)
    }

    /// Whether the last key is old enough to be replaced by one that this server makes.
    fn is_due(&self, schedule: &Schedule, now: Timestamp) -> bool {
        let (Some(last), Some(age)) = (schedule.entries.last(), self.rotate_every) else { return false };
        self.files.is_empty()
            && self.algorithm != JwtAlgorithm::Hs256
            && last.key.is_some()
            && last.signs_from.checked_add(age).is_ok_and(|old| old <= now)
    }

    /// Adds a key that signs once every verifier has it. `false`: another server has just added one.
    pub(super) async fn rotate(&self) -> Result<bool, KeyError> {
        let Some(rows) = &self.rows else { return Ok(false) };
        let schedule = self.schedule();
        let added = rows.add(schedule.entries.last().map(|last| &*last.id), &self.next(&schedule)?).await?;
        self.read().await?;
        if added {
            tracing::info!("a new key of JWTs was added");
        }
        Ok(added)
    }

    /// Reads the table. Callers that come while it is read wait for the next read, all for the same one, so that what was
    /// stored before a call is known after it.
    pub(in crate::jwt) async fn read(&self) -> Result<(), KeyError> {
        let Some(rows) = &self.rows else { return Ok(()) };
        let before = self.reads.load(Ordering::Acquire);
        let _turn = self.reading.lock().await;
        // A read that began after this call.
        if self.reads.load(Ordering::Acquire) > before {
            return Ok(());
        }
        let schedule = {
            self.reads.fetch_add(1, Ordering::AcqRel);
            self.opened(&rows.all().await?)
        };
        *self.schedule.write() = Arc::new(schedule);
        Ok(())
    }

    /// The signers of these rows, with the private keys that this server can open or has.
    fn opened(&self, stored: &[Stored]) -> Schedule {
        let known = self.schedule();
        let entries: Vec<Entry> = stored.iter().filter_map(|row| self.entry(row, &known)).collect();
        let kids: Vec<&str> = entries.iter().filter_map(|entry| Some(entry.key.as_ref()?.kid.as_str())).collect();
        let of_file = |pair: &Arc<Pair>| {
            let public = pair.public();
            Key { kid: public.kid(), public, pair: Some(pair.clone()) }
        };
        let beside = self.files.iter().map(of_file).filter(|key| !kids.contains(&key.kid.as_str())).collect();
        Schedule { entries, beside }
    }

    fn entry(&self, row: &Stored, known: &Schedule) -> Option<Entry> {
        let key = match &row.public_key {
            None => None,
            Some(text) => {
                let Some(public) = PublicKey::of_jwk(text) else {
                    tracing::error!(id = row.id, "a stored public key of JWTs is damaged");
                    return None;
                };
                let kid = public.kid();
                let pair = self.pair(row, &kid, known);
                Some(Key { kid, public, pair })
            }
        };
        let Stored { created_at, signs_from, lifetime, .. } = *row;
        Some(Entry { id: row.id.clone(), created_at, signs_from, lifetime, key })
    }

    fn pair(&self, row: &Stored, kid: &str, known: &Schedule) -> Option<Arc<Pair>> {
        let known = known.entries.iter().filter_map(|entry| entry.key.as_ref()).find(|key| key.kid == kid);
        if let Some(pair) = known.and_then(|key| key.pair.clone()) {
            return Some(pair);
        }
        if let Some(pair) = self.files.iter().find(|pair| pair.public().kid() == kid) {
            return Some(pair.clone());
        }
        let sealed = row.sealed.as_ref()?;
        let opened = self.sealing.iter().find_map(|key| key.open(sealed, kid.as_bytes()));
        // Once, and not at each of many reads.
        if opened.is_none() && known.is_none() {
            tracing::error!(
                kid,
                "a stored private key of JWTs cannot be opened: the secret that it was sealed under is missing"
            );
        }
        Pair::of_der(&opened?).map(Arc::new)
    }

    /// Whether the last signer is the configured one.
    fn is_wanted(&self, schedule: &Schedule) -> bool {
        let Some(last) = schedule.entries.last() else { return false };
        match (&last.key, self.files.first()) {
            (None, _) => self.algorithm == JwtAlgorithm::Hs256,
            (Some(key), Some(file)) => key.kid == file.public().kid(),
            (Some(key), None) => key.public.algorithm() == self.algorithm && key.pair.is_some(),
        }
    }

    /// The configured signer, behind others. It begins at once if this server could not sign otherwise.
    fn next(&self, schedule: &Schedule) -> Result<Stored, KeyError> {
        let now = self.ambient.now();
        let begins = if schedule.signer(now).is_some() { now.checked_add(NOTICE).unwrap_or(now) } else { now };
        // Never before the one that it follows.
        let begins = schedule.entries.last().map_or(begins, |last| last.signs_from.max(begins));
        if self.algorithm == JwtAlgorithm::Hs256 { Ok(self.secret(begins)) } else { self.made(begins) }
    }

    fn secret(&self, signs_from: Timestamp) -> Stored {
        self.stored(None, None, signs_from)
    }

    /// The first file, or a new pair.
    fn made(&self, signs_from: Timestamp) -> Result<Stored, KeyError> {
        if let Some(file) = self.files.first() {
            return Ok(self.stored(Some(&file.public()), None, signs_from));
        }
        let Generated { pair, der } = Pair::generate(self.algorithm)?.ok_or(KeyError::Generate)?;
        let public = pair.public();
        let sealed = match self.sealing.first().filter(|_| self.rows.is_some()) {
            Some(key) => key.seal(&der, public.kid().as_bytes()),
            // Never stored.
            None => return Ok(self.in_memory(pair, &public, signs_from)),
        };
        Ok(self.stored(Some(&public), Some(sealed), signs_from))
    }

    fn in_memory(&self, pair: Pair, public: &PublicKey, signs_from: Timestamp) -> Stored {
        let key = Key { kid: public.kid(), public: public.clone(), pair: Some(Arc::new(pair)) };
        let stored = self.stored(Some(public), None, signs_from);
        let Stored { created_at, lifetime, .. } = stored;
        let entry = Entry { id: stored.id.clone(), created_at, signs_from, lifetime, key: Some(key) };
        // `opened` takes the private key from the schedule that is known.
        *self.schedule.write() = Arc::new(Schedule { entries: vec![entry], beside: Vec::new() });
        stored
    }

    fn stored(&self, public: Option<&PublicKey>, sealed: Option<Vec<u8>>, signs_from: Timestamp) -> Stored {
        let public_key = public.map(|public| public.jwk().to_string());
        let (id, created_at) = (self.ambient.uuid().to_string(), self.ambient.now());
        Stored { id, public_key, sealed, created_at, signs_from, lifetime: self.lifetime }
    }

    /// Seals keys under the present secret that were sealed under an earlier one.
    async fn reseal(&self, rows: &Rows, stored: &[Stored]) -> Result<(), KeyError> {
        let Some((present, earlier)) = self.sealing.split_first() else { return Ok(()) };
        for row in stored {
            let (Some(sealed), Some(public)) = (&row.sealed, row.public_key.as_deref().and_then(PublicKey::of_jwk))
            else {
                continue;
            };
            let kid = public.kid();
            let place = kid.as_bytes();
            if present.open(sealed, place).is_some() {
                continue;
            }
            if let Some(opened) = earlier.iter().find_map(|key| key.open(sealed, place)) {
                rows.reseal(&row.id, present.seal(&opened, place)).await?;
            }
        }
        Ok(())
    }
}
