//! What must not be told, searched for in everything that is told.
//!
//! [`world`] draws entities of every shape and fills them with canaries: text that is nowhere else, in hidden fields and in
//! the records of several owners and tenants. [`crawl`] has each caller ask for everything there is to ask, on every
//! surface, and keeps every byte of the answers. [`oracles`] compares answers about what is hidden with answers about what
//! is not there.

mod crawl;
mod log;
mod oracles;
mod world;

use tokio::task::JoinSet;

use self::world::World;

/// Runs a check on every engine, on all at the same time: they have nothing in common, and each takes long.
async fn on_each<F: Future<Output = ()> + Send + 'static>(worlds: Vec<World>, check: impl Fn(World) -> F) {
    let checks: JoinSet<()> = worlds.into_iter().map(check).collect();
    assert!(!checks.is_empty());
    checks.join_all().await;
}
