//! A plain axum program, one route of which is throttled: three times a minute from one address, then a block of a
//! minute.
//!
//! ```console
//! $ cargo run -p gatewright-limits --example one_route
//! $ cargo run -p gatewright-limits --example one_route sqlite://limits.db    # or redis://127.0.0.1:6379
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use gatewright_limits::base::{Ambient, Secret};
use gatewright_limits::db::{Db, Options};
use gatewright_limits::{Limiter, LimiterLayer, MemoryStore, Policy, Redis, RedisStore, SqlStore, Store};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = store(std::env::args().nth(1)).await?;
    tokio::spawn(sweep(store.clone()));

    let limiter = Limiter::new("guess", Policy::new(3, Duration::from_mins(1), Duration::from_mins(1)), store);
    let app = Router::new()
        .route("/guess", post(async || "wrong\n").layer(LimiterLayer::by_address(limiter)))
        .route("/", get(async || "as often as you like\n"));

    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("try: curl -i -X POST http://{}/guess", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// In memory, or where a URL leads.
async fn store(url: Option<String>) -> Result<Arc<dyn Store>, Box<dyn Error>> {
    let ambient = Ambient::system();
    Ok(match url {
        None => Arc::new(MemoryStore::new(ambient)),
        Some(url) if url.starts_with("redis") => Arc::new(RedisStore::new(Redis::open(&Secret::new(url))?, ambient)),
        Some(url) => {
            let db = Db::open(&url, Options::default()).await?;
            SqlStore::migrate(&db).await?;
            Arc::new(SqlStore::new(db, ambient))
        }
    })
}

/// Removes what has ended.
async fn sweep(store: Arc<dyn Store>) {
    let mut minutes = tokio::time::interval(Duration::from_mins(1));
    loop {
        minutes.tick().await;
        if let Err(error) = store.sweep().await {
            eprintln!("{error}");
        }
    }
}
