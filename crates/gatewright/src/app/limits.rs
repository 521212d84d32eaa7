//! The stores that count attempts and requests: in this process, or shared by all replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatewright_auth::AuthBuilder;
use gatewright_base::Ambient;
use gatewright_db::{Db, schema};
use gatewright_limits::bucket::{BucketStore, MemoryBuckets, Rate, TokenBucket, TokenBucketLayer};
use gatewright_limits::{SqlStore, Store};
use tokio::task::AbortHandle;

use super::BuildError;
use crate::Config;
use crate::carriers::RedisLimits;
use crate::config::{BucketKey, LimitStore, TokenBucket as ConfiguredBucket};

/// How often expired entries are removed from a store.
const SWEEP: Duration = Duration::from_mins(1);
/// How often a store outside of this process is asked for a sign of life, and how long it may take.
const BETWEEN_SIGNS: Duration = Duration::from_secs(2);
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// How many budgets all API tokens of one owner have together, if each token has one: enough to separate a few
/// programs, while creating more tokens has no effect.
const TOKENS_PER_OWNER: u32 = 10;

/// The configuration's limits.
pub(super) struct Limits {
    /// The store of lockout limiters; `None` for the process's memory.
    store: Option<Arc<dyn Store>>,
    /// The limit of entity routes, if there is one.
    api: Option<(TokenBucketLayer, LiveRate)>,
    status: LimitsStatus,
    tasks: Vec<LimitsTask>,
}

/// A task in the background, until it is dropped.
pub(super) struct LimitsTask(AbortHandle);

/// Whether the store of limits answers.
#[derive(Debug, Clone)]
pub(crate) struct LimitsStatus(Arc<AtomicBool>);

impl LimitsStatus {
    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A store outside of this process.
enum Remote {
    Redis(RedisLimits),
    Database(Db),
}

impl Limits {
    /// Opens the configured store. An unavailable Redis does not prevent the start: until it is available, limiters refuse.
    pub(super) async fn open(config: &Config, db: &Db, ambient: &Ambient) -> Result<Self, BuildError> {
        let redis = match (config.rate_limit.store, &config.rate_limit.redis_url) {
            (LimitStore::Redis, Some(url)) => Some(
                RedisLimits::open(url).map_err(|error| BuildError::Limits(format!("rate_limit.redis_url: {error}")))?,
            ),
            (LimitStore::Redis, None) => return Err(BuildError::Limits("rate_limit.redis_url is missing".to_owned())),
            (LimitStore::Memory | LimitStore::Database, _) => None,
        };
        let store: Option<Arc<dyn Store>> = match (config.rate_limit.store, &redis) {
            (LimitStore::Database, _) => Some(Arc::new(sql(config, db, ambient).await?)),
            (LimitStore::Redis, Some(redis)) => Some(redis.store(ambient)),
            _ => None,
        };
        let remote = match (config.rate_limit.store, &redis) {
            (LimitStore::Database, _) => Some(Remote::Database(db.clone())),
            (LimitStore::Redis, Some(redis)) => Some(Remote::Redis(redis.clone())),
            _ => None,
        };
        let status = LimitsStatus(Arc::new(AtomicBool::new(true)));
        if let Some(remote) = &remote {
            remote.observe(&status).await;
        }
        let swept = store.clone().filter(|_| config.rate_limit.store == LimitStore::Database);
        let sweeper = swept.map(LimitsTask::sweep);
        let watch = remote.map(|remote| LimitsTask::watch(remote, status.clone()));
        let api = api(config, redis, ambient)?;
        Ok(Self { store, api, status, tasks: sweeper.into_iter().chain(watch).collect() })
    }

    /// Has authentication count in the configured store.
    pub(super) fn give_to(&self, auth: AuthBuilder) -> AuthBuilder {
        self.store.iter().cloned().fold(auth, AuthBuilder::limit_store)
    }

    /// The store of lockout limiters; `None` for the process's memory.
    pub(super) fn store(&self) -> Option<Arc<dyn Store>> {
        self.store.clone()
    }

    /// The limit of entity routes, inside of authentication.
    pub(super) fn api(&self) -> Option<TokenBucketLayer> {
        self.api.as_ref().map(|(layer, _)| layer.clone())
    }

    /// The rate of that limit, to change it.
    pub(super) fn rate(&self) -> Option<LiveRate> {
        self.api.as_ref().map(|(_, rate)| rate.clone())
    }

    /// Whether the store answers, from now on.
    pub(super) fn status(&self) -> LimitsStatus {
        self.status.clone()
    }

    /// Keep the store swept, and its status current.
    pub(super) fn into_tasks(self) -> Vec<LimitsTask> {
        self.tasks
    }
}

async fn sql(config: &Config, db: &Db, ambient: &Ambient) -> Result<SqlStore, BuildError> {
    let failed = |error: &dyn std::fmt::Display| BuildError::Limits(format!("the table of limits: {error}"));
    if config.database.create_tables {
        SqlStore::migrate(db).await.map_err(|error| failed(&error))?;
    } else if schema::describe(db, "rate_limits").await.map_err(|error| failed(&error))?.is_none() {
        return Err(failed(&"rate_limits is not there; run `gatewright migrate`"));
    }
    Ok(SqlStore::new(db.clone(), ambient.clone()))
}

/// Buckets are in Redis if the store is. In a database, each served read would cost a write, so with a database as store,
/// buckets are counted in memory.
fn api(
    config: &Config,
    redis: Option<RedisLimits>,
    ambient: &Ambient,
) -> Result<Option<(TokenBucketLayer, LiveRate)>, BuildError> {
    let Some(api) = &config.rate_limit.api else { return Ok(None) };
    let rate = LiveRate::parse(api).map_err(BuildError::Limits)?;
    let store: Arc<dyn BucketStore> = match redis {
        Some(redis) => redis.buckets(),
        None => Arc::new(MemoryBuckets::new(ambient.clone())),
    };
    let proxies = config.server.trusted_proxies.clone();
    let behind_proxies = !proxies.is_empty();
    let buckets = |scope, rate| {
        let bucket = TokenBucket::new(scope, rate, store.clone());
        bucket.trust_forwarded_for(behind_proxies).trusted_proxies(proxies.clone())
    };
    let api_buckets = buckets("api", rate);
    let owners = (api.key == BucketKey::Token).then(|| buckets("api_owner", rate.times(TOKENS_PER_OWNER)));
    let live = LiveRate { buckets: api_buckets.clone(), owners: owners.clone() };
    let layer = match (api.key, owners) {
        (BucketKey::Token, Some(owners)) => TokenBucketLayer::by_token(api_buckets, owners),
        (BucketKey::Address, _) => TokenBucketLayer::by_address(api_buckets),
        (BucketKey::User | BucketKey::Token, _) => TokenBucketLayer::by_caller(api_buckets),
    };
    Ok(Some((layer, live)))
}

/// The rate of the limit of entity routes, which changes while the server runs.
#[derive(Clone)]
pub(super) struct LiveRate {
    buckets: TokenBucket,
    /// The buckets of the owners of tokens.
    owners: Option<TokenBucket>,
}

impl LiveRate {
    pub(super) fn parse(api: &ConfiguredBucket) -> Result<Rate, String> {
        Rate::new(api.per_second, api.burst).map_err(|error| format!("rate_limit.api: {error}"))
    }

    pub(super) fn set(&self, rate: Rate) {
        self.buckets.set_rate(rate);
        if let Some(owners) = &self.owners {
            owners.set_rate(rate.times(TOKENS_PER_OWNER));
        }
    }
}

impl Remote {
    /// Asks the store for a sign of life. A change is logged once.
    async fn observe(&self, status: &LimitsStatus) {
        let answer = tokio::time::timeout(SIGN_OF_LIFE, async {
            match self {
                Self::Redis(redis) => redis.check().await.map_err(|error| {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    cause.unwrap_or_else(|| error.to_string())
                }),
                Self::Database(db) => db.ping().await.map_err(|error| error.to_string()),
            }
        });
        let cause = match answer.await {
            Ok(Ok(())) => None,
            Ok(Err(cause)) => Some(cause),
            Err(_) => Some("no answer in time".to_owned()),
        };
        let was_up = status.0.swap(cause.is_none(), Ordering::Relaxed);
        match cause {
            Some(cause) if was_up => {
                tracing::error!(
                    cause,
                    "the store of limits does not answer: attempts to sign in are refused until it does"
                );
            }
            None if !was_up => tracing::info!("the store of limits answers again"),
            Some(_) | None => {}
        }
    }
}

impl LimitsTask {
    fn watch(remote: Remote, status: LimitsStatus) -> Self {
        let watch = async move {
            loop {
                tokio::time::sleep(BETWEEN_SIGNS).await;
                remote.observe(&status).await;
            }
        };
        Self(tokio::spawn(watch).abort_handle())
    }

    fn sweep(store: Arc<dyn Store>) -> Self {
        let sweep = async move {
            let mut tick = tokio::time::interval(SWEEP);
            loop {
                tick.tick().await;
                match store.sweep().await {
                    Ok(0) => {}
                    Ok(swept) => tracing::debug!(swept, "limits that have ended were removed"),
                    // The limiters log it when a caller is refused because of it.
                    Err(error) => tracing::debug!(%error, "limits that have ended could not be removed"),
                }
            }
        };
        Self(tokio::spawn(sweep).abort_handle())
    }
}

impl Drop for LimitsTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use gatewright_limits::{Key, Policy, StoreError, StoreFuture, Verdict};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Store for Counting {
        fn count<'a>(&'a self, _: &'a Key, _: &'a Policy) -> StoreFuture<'a, (Verdict, i64)> {
            Box::pin(async { Ok((Verdict::Admitted, 0)) })
        }

        fn give_back<'a>(&'a self, _: &'a Key, _: &'a Policy, _: i64) -> StoreFuture<'a, ()> {
            Box::pin(async { Ok(()) })
        }

        fn forget<'a>(&'a self, _: &'a Key) -> StoreFuture<'a, ()> {
            Box::pin(async { Ok(()) })
        }

        fn sweep(&self) -> StoreFuture<'_, u64> {
            let before = self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { if before.is_multiple_of(2) { Err(StoreError::new("away")) } else { Ok(1) } })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_swept_every_minute_also_after_a_failure_until_the_end() {
        let store = Arc::new(Counting::default());
        let sweeper = LimitsTask::sweep(store.clone());
        tokio::time::sleep(SWEEP * 5 + Duration::from_secs(1)).await;
        assert_eq!(store.0.load(Ordering::Relaxed), 6);
        drop(sweeper);
        tokio::time::sleep(SWEEP * 5).await;
        assert_eq!(store.0.load(Ordering::Relaxed), 6);
    }
}
