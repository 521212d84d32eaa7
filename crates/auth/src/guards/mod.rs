//! Layers that require scopes and roles on a host's own routes.
//!
//! Each reads only the [`Identity`](gatewright_base::Identity) that [`Auth::middleware`](crate::Auth::middleware) put
//! on the request, so put it inside that layer. It queries no store:
//!
//! | | [`ScopeGuard`] | [`ScopeTree`] | [`RoleGuard`] |
//! |---|---|---|---|
//! | anonymous | 401 | passes: the routes' own rules decide | 401 |
//! | second factor pending | 403 | 403 | 403 |
//! | session, JWT | passes | passes | passes with a role |
//! | API token | passes within its scopes | passes within its scopes | passes with a role of its owner |
//! | embedded surface's grant | passes within its scopes | passes within its scopes | 403 |
//!
//! On a route without a guard, a token's scopes are not checked, and it has all rights of its owner. Generated entity
//! routes have their own guard (`scope_guard` of `gatewright_entities`).
//!
//! ```
//! use axum::Router;
//! use axum::routing::{delete, get};
//! use gatewright_auth::guards::{RoleGuard, ScopeGuard, ScopeTree};
//!
//! # fn example(auth: &gatewright_auth::Auth, crud: Router) -> Router {
//! let reports = Router::new().route("/reports", get(async || "…")).layer(ScopeGuard::new("reports:read".parse().unwrap()));
//! let admin = Router::new().route("/admin/caches", delete(async || ())).layer(RoleGuard::any_of(["admin"]));
//! let tree = Router::new().nest("/api", crud).layer(ScopeTree::under("/api"));
//! Router::new().merge(reports).merge(admin).merge(tree).layer(auth.middleware())
//! # }
//! ```

mod role;
mod scope;
mod tree;
mod wrap;

pub use role::RoleGuard;
pub use scope::ScopeGuard;
pub use tree::ScopeTree;
pub use wrap::Guarded;
