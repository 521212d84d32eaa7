//! Searches every answer for data that must not be revealed.
//!
//! [`world`] generates entities of every shape and fills them with canaries: unique text, in hidden fields and in
//! the records of several owners and tenants. [`crawl`] sends every possible request of each caller, on every
//! surface, and stores every byte of the answers. [`oracles`] compares answers about hidden data with answers about data that
//! is not there.

mod crawl;
mod log;
mod oracles;
mod world;

use tokio::task::JoinSet;

use self::world::World;

/// Runs a check on every engine in parallel: they are independent, and each takes long.
async fn on_each<F: Future<Output = ()> + Send + 'static>(worlds: Vec<World>, check: impl Fn(World) -> F) {
    let checks: JoinSet<()> = worlds.into_iter().map(check).collect();
    assert!(!checks.is_empty());
    checks.join_all().await;
}
