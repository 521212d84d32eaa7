//! Test applications and the actors that use them.
//!
//! A [`TestApp`] is the whole backend in the test's own process, on a fresh database, with a clock that the test
//! advances. Its users are [`Actor`]s, and a test describes what they do:
//!
//! ```no_run
//! # async fn example() {
//! use gatewright_testing::TestApp;
//! use serde_json::json;
//!
//! for app in TestApp::on_every_engine(include_str!("../../../examples/blog.toml")).await {
//!     let ada = app.signed_in("ada@example.com").await;
//!     ada.post("/posts", json!({ "title": "First" })).await.is(201);
//!     app.anonymous().get("/posts").await.is(401);
//! }
//! # }
//! ```

mod actor;
mod answer;
mod app;
mod stream;

pub use actor::Actor;
pub use answer::Answer;
pub use app::TestApp;
pub use stream::Stream;
