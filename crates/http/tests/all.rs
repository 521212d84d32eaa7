//! The crate as a program mounts it: routers, extractors and layers, over HTTP.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "all/addresses.rs"]
mod addresses;
#[path = "all/bodies.rs"]
mod bodies;
#[path = "all/browser.rs"]
mod browser;
#[path = "all/budget.rs"]
mod budget;
#[path = "all/csrf/mod.rs"]
mod csrf;
#[path = "all/layers.rs"]
mod layers;
#[path = "all/logs.rs"]
mod logs;
#[path = "all/submissions.rs"]
mod submissions;
#[path = "all/support.rs"]
mod support;
