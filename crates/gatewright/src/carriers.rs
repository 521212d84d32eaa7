//! Redis and NATS, in builds with their features. Without the feature, the check of the configuration refuses their
//! URLs.

use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_events::fanout::{ChannelError, Fanout};

#[cfg(feature = "redis")]
mod redis {
    use gatewright_base::Ambient;
    use gatewright_limits::bucket::{BucketStore, RedisBuckets};
    use gatewright_limits::{Redis, RedisStore, Store, StoreError};

    use super::{Arc, ChannelError, Fanout, Secret};

    pub(crate) fn fanout(url: &Secret) -> Result<Arc<dyn Fanout>, ChannelError> {
        Ok(Arc::new(gatewright_events::fanout::RedisFanout::open(url)?))
    }

    /// Where limits are counted.
    #[derive(Clone)]
    pub(crate) struct Limits(Redis);

    impl Limits {
        pub(crate) fn open(url: &Secret) -> Result<Self, String> {
            Redis::open(url).map(Self).map_err(|error| error.to_string())
        }

        /// Asks the server for a sign of life.
        pub(crate) async fn check(&self) -> Result<(), StoreError> {
            self.0.check().await
        }

        pub(crate) fn store(&self, ambient: &Ambient) -> Arc<dyn Store> {
            Arc::new(RedisStore::new(self.0.clone(), ambient.clone()))
        }

        pub(crate) fn buckets(self) -> Arc<dyn BucketStore> {
            Arc::new(RedisBuckets::new(self.0))
        }
    }
}

#[cfg(not(feature = "redis"))]
mod redis {
    use gatewright_base::Ambient;
    use gatewright_limits::bucket::BucketStore;
    use gatewright_limits::{Store, StoreError};

    use super::{Arc, ChannelError, Fanout, Secret, without};

    pub(crate) fn fanout(_: &Secret) -> Result<Arc<dyn Fanout>, ChannelError> {
        Err(ChannelError::Url(without("redis")))
    }

    #[derive(Clone)]
    pub(crate) enum Limits {}

    impl Limits {
        pub(crate) fn open(_: &Secret) -> Result<Self, String> {
            Err(without("redis"))
        }

        pub(crate) async fn check(&self) -> Result<(), StoreError> {
            match *self {}
        }

        pub(crate) fn store(&self, _: &Ambient) -> Arc<dyn Store> {
            match *self {}
        }

        pub(crate) fn buckets(self) -> Arc<dyn BucketStore> {
            match self {}
        }
    }
}

pub(crate) use redis::{Limits as RedisLimits, fanout as redis_fanout};

#[cfg(feature = "nats")]
pub(crate) fn nats_fanout(url: &Secret) -> Result<Arc<dyn Fanout>, ChannelError> {
    Ok(Arc::new(gatewright_events::fanout::NatsFanout::open(url)?))
}

#[cfg(not(feature = "nats"))]
pub(crate) fn nats_fanout(_: &Secret) -> Result<Arc<dyn Fanout>, ChannelError> {
    Err(ChannelError::Url(without("nats")))
}

/// The error for a part that this build does not contain.
#[cfg(not(all(
    feature = "docs",
    feature = "mail",
    feature = "mcp",
    feature = "nats",
    feature = "oauth",
    feature = "redis"
)))]
pub(crate) fn without(feature: &str) -> String {
    format!("this program was built without the feature `{feature}`")
}
