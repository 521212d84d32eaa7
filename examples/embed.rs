//! A program that embeds Gatewright: entities declared in Rust, the program's own route with access to the caller's
//! identity, and a handler that receives every write.
//!
//! ```console
//! $ cargo run -p gatewright --example embed
//! ```

use anyhow::Context;
use axum::Router;
use axum::routing::get;
use gatewright::base::Grants;
use gatewright::entities::{Action, Entity, Field};
use gatewright::events::bus::Interest;
use gatewright::http::{Caller, Problem};
use gatewright::{App, Config};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_target(false).init();

    let mut config = Config::default();
    // In production, leave this false and set `config.auth.jwt_secret` from the program's store of secrets.
    config.server.dev_mode = true;
    config.roles.insert("librarian".to_owned(), Grants::parse(["books:write"])?);
    config.entities = vec![
        Entity::new("books")
            .access(Action::Read, "public")
            .access(Action::Create, "books:write")
            .access(Action::Update, "books:write")
            .access(Action::Delete, "books:write")
            .field(Field::string("title").required().min(1).max(200))
            .field(Field::date("published")),
        Entity::new("notes")
            .owner("user_id")
            .field(Field::relation("book", "books").required())
            .field(Field::text("text").required().max(10_000)),
    ];

    let listener = TcpListener::bind(config.server.address()).await.context("the port is taken")?;
    let app = App::builder(config).routes(Router::new().route("/hello", get(hello))).build().await?;

    // Called after each commit, one event after the other. A slow handler does not delay requests or other handlers.
    let _subscription = app.bus().on(Interest::all(), async |event| {
        tracing::info!(table = event.table(), kind = event.kind().as_str(), "written");
    });

    for line in app.banner() {
        println!("{line}");
    }
    app.serve(listener, async {
        let _interrupted = tokio::signal::ctrl_c().await;
    })
    .await;
    Ok(())
}

/// An ordinary axum route. [`Caller`] is the identity of the request, from its session, API token or JWT.
async fn hello(Caller(identity): Caller) -> Result<String, Problem> {
    let principal = identity.principal().ok_or_else(|| Problem::unauthorized("sign in first"))?;
    Ok(format!("Hello, {}\n", principal.email.as_deref().unwrap_or("program")))
}
