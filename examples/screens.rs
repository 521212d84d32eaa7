//! A program's own server-rendered screens, each with a policy: who sees it, and what everybody else sees instead.
//!
//! ```console
//! $ cargo run -p gatewright --example screens
//! ```

use anyhow::Context;
use axum::Router;
use axum::response::Html;
use axum::routing::get;
use gatewright::auth::ScreenPolicy;
use gatewright::http::{Caller, html};
use gatewright::{App, Config};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_target(false).init();

    let mut config = Config::default();
    config.server.dev_mode = true;

    let screens = Router::new()
        .merge(behind(ScreenPolicy::session().redirect(), "/dashboard", get(dashboard)))
        // Anonymous visitors see another page at the same address.
        .merge(behind(ScreenPolicy::session().render_alt(async |_| Html("<h1>Our plans</h1>")), "/plans", get(plans)))
        // Everybody who is not an admin gets 403: `gatewright user set-roles ada@example.com user,admin`.
        .merge(behind(ScreenPolicy::role("admin"), "/admin", get(async || Html("<h1>Admin</h1>"))));

    let listener = TcpListener::bind(config.server.address()).await.context("the port is taken")?;
    let app = App::builder(config).routes(screens).build().await?;
    for line in app.banner() {
        println!("{line}");
    }
    app.serve(listener, async {
        let _interrupted = tokio::signal::ctrl_c().await;
    })
    .await;
    Ok(())
}

/// A policy is a layer around the routes of one router.
fn behind(policy: ScreenPolicy, path: &str, screen: axum::routing::MethodRouter) -> Router {
    Router::new().route(path, screen).layer(policy)
}

async fn dashboard(Caller(identity): Caller) -> Html<String> {
    let name = identity.principal().and_then(|principal| principal.email.clone()).unwrap_or_default();
    Html(format!("<h1>Hello, {}</h1>", html::escape(&name)))
}

async fn plans() -> Html<&'static str> {
    Html("<h1>Your plan</h1>")
}
