//! A plain axum program with accounts: registration, sign-in, sessions and JWTs under `/auth`, pages at `/login` and
//! `/register`, and a route that knows who is calling. Accounts are in `sign_in.db`.
//!
//! ```console
//! $ cargo run -p gatewright-auth --example sign_in
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use gatewright_auth::db::{Db, Options};
use gatewright_auth::http::{Caller, Problem};
use gatewright_auth::plugins::password::PasswordPlugin;
use gatewright_auth::{Auth, AuthConfig};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = Db::open("sqlite://sign_in.db", Options::default()).await?;
    // In production `dev_mode` is off, and `jwt.secret` comes from wherever the program keeps its secrets.
    let config = AuthConfig { dev_mode: true, ..AuthConfig::default() };
    let auth = Auth::builder(config).database(db).plugin(PasswordPlugin).build().await?;

    let app =
        Router::new().route("/hello", get(hello)).merge(auth.router()).merge(auth.screens()).layer(auth.middleware());

    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("open http://localhost:{}/register", listener.local_addr()?.port());
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// [`Caller`] is the owner of the request's session or JWT.
async fn hello(Caller(identity): Caller) -> Result<String, Problem> {
    let principal = identity.principal().ok_or_else(|| Problem::unauthorized("sign in first"))?;
    Ok(format!("Hello, {}\n", principal.email.as_deref().unwrap_or("stranger")))
}
