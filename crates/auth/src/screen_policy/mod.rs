//! Screen policies: who sees a host's server-rendered screen, and what other callers get instead.
//!
//! A policy requires a session or a role. A caller who meets the requirement sees the screen (Allow). For other callers
//! it has up to three answers. An alternative overrides a redirect, and a redirect overrides a block, in any order of
//! the calls. A second call of the same method overrides the first:
//!
//! | named by | answer |
//! |---|---|
//! | [`ScreenPolicy::render_alt`] | what a factory makes for this very request |
//! | [`ScreenPolicy::redirect`], [`ScreenPolicy::redirect_to`] | 303, by default to `/login?next=<path>` |
//! | [`ScreenPolicy::block`], or nothing | a status: 401 for a session, 403 `forbidden` for a role |
//!
//! `outcome.rs` has the rule, `layer.rs` the service around a screen.
//!
//! ```
//! use axum::Router;
//! use axum::response::Html;
//! use axum::routing::get;
//! use gatewright_auth::ScreenPolicy;
//!
//! let screens: Router = Router::new()
//!     .merge(Router::new()
//!         .route("/dashboard", get(async || Html("<h1>Dashboard</h1>")))
//!         .layer(ScreenPolicy::session().redirect()))
//!     .merge(Router::new()
//!         .route("/pricing", get(async || Html("<h1>Your plan</h1>")))
//!         .layer(ScreenPolicy::session().render_alt(async |_| Html("<h1>Our plans</h1>"))))
//!     .merge(Router::new()
//!         .route("/admin", get(async || Html("<h1>Admin</h1>")))
//!         .layer(ScreenPolicy::role("admin")));
//! // Put it inside the authentication middleware: `.layer(auth.middleware())`.
//! # let _ = screens;
//! ```

mod layer;
mod outcome;

use std::fmt;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::StatusCode;
use http::request::Parts;

/// A policy, and the layer that enforces it. Put it inside [`Auth::middleware`](crate::Auth::middleware): without the
/// middleware, no caller passes.
#[derive(Clone)]
pub struct ScreenPolicy {
    demand: Demand,
    alternative: Option<Alternative>,
    redirect: Option<Target>,
    block: Option<StatusCode>,
}

/// The requirement of a policy.
#[derive(Debug, Clone)]
enum Demand {
    Session,
    AnyRole(Arc<[String]>),
}

/// Creates the response that is shown instead of the screen.
type Alternative = Arc<dyn Fn(Parts) -> BoxFuture<'static, Response> + Send + Sync>;

/// Where a redirect leads.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// `/login?next=` with the requested path.
    Login,
    To(String),
}

impl ScreenPolicy {
    /// Requires a session of a browser whose second factor is not pending. A JWT, an API token or a grant is not a
    /// session.
    pub fn session() -> Self {
        Self::new(Demand::Session)
    }

    /// Requires that the caller's account has this role now. A grant never has one.
    pub fn role(role: impl Into<String>) -> Self {
        Self::any_role([role])
    }

    /// Requires at least one of these roles.
    pub fn any_role<R: Into<String>>(roles: impl IntoIterator<Item = R>) -> Self {
        Self::new(Demand::AnyRole(roles.into_iter().map(Into::into).collect()))
    }

    fn new(demand: Demand) -> Self {
        Self { demand, alternative: None, redirect: None, block: None }
    }

    /// Redirects others to `/login?next=<path>`, 303, and back afterwards. A signed-in caller without the role is asked
    /// to sign in with another account (`&as=other`).
    pub fn redirect(mut self) -> Self {
        self.redirect = Some(Target::Login);
        self
    }

    /// Redirects others to `url`, 303. It is not checked: never build it from data of a request.
    pub fn redirect_to(mut self, url: impl Into<String>) -> Self {
        self.redirect = Some(Target::To(url.into()));
        self
    }

    /// Shows others the response of `factory`, which is called for each request, with its status.
    pub fn render_alt<F, Fut, R>(mut self, factory: F) -> Self
    where
        F: Fn(Parts) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        self.alternative = Some(Arc::new(move |parts| {
            let made = factory(parts);
            Box::pin(async move { made.await.into_response() })
        }));
        self
    }

    /// Refuses others with this status.
    pub fn block(mut self, status: StatusCode) -> Self {
        self.block = Some(status);
        self
    }
}

impl fmt::Debug for ScreenPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScreenPolicy")
            .field("demand", &self.demand)
            .field("alternative", &self.alternative.is_some())
            .field("redirect", &self.redirect)
            .field("block", &self.block)
            .finish()
    }
}
