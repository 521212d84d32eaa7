//! The HTTP types that all interfaces of the service share: problems, extractors, cookies, addresses and headers.
//!
//! A request passes the [`layers`] first (an id, a body limit, a deadline, a panic handler), then extractors:
//! [`Caller`] is the identity, [`Submission`], [`JsonBody`] and [`RawJson`] the body, [`Query`] and [`Segment`] the
//! parameters of the URL, and [`ClientAddr`] the client address. An error becomes a [`Problem`], which is sent as JSON
//! or, for browser forms, as an HTML page.
//!
//! ```
//! use std::time::Duration;
//!
//! use axum::Router;
//! use axum::routing::post;
//! use gatewright_base::{Ambient, Secret};
//! use gatewright_http::layers::{self, BodyLimit, Deadline, EnvelopeLayer};
//! use gatewright_http::{Problem, Submission};
//!
//! #[derive(serde::Deserialize)]
//! struct Login {
//!     email: String,
//!     password: Secret,
//! }
//!
//! // Takes JSON, a form or a multipart form, and refuses each in its own language.
//! async fn login(login: Submission<Login>) -> axum::response::Response {
//!     let Login { email, password } = login.value;
//!     # let _ = (email, password);
//!     login.kind.refuse(Problem::unauthorized("invalid credentials"))
//! }
//!
//! let routes: Router = Router::new().route("/login", post(login));
//! let deadline = Deadline::new(Duration::from_secs(30));
//! let envelope = EnvelopeLayer::new(Ambient::system(), BodyLimit::new(1_048_576), deadline);
//! let app = layers::standard(routes, envelope);
//! # let _ = app;
//! ```
//!
//! Three decisions that attackers care about are pure functions here, with their tables beside them: whether a form
//! post comes from another site ([`cross_site`]), where a sign-in may send the browser ([`Next`]), and which address
//! a request counts against ([`ClientAddr`]).

mod body;
pub mod browser;
mod caller;
mod client;
pub mod cookies;
pub mod cross_site;
pub mod csrf;
pub mod entity_tag;
mod escape;
mod form_targets;
mod frame;
pub mod html;
pub mod layers;
pub mod locale;
mod next;
mod origin;
mod problem;
mod quality;
mod query;
mod redirects;
mod scheme;
mod segment;

pub use body::{ContentType, Fields, FieldsError, JsonBody, Kind, PatchJson, RawJson, Submission};
pub use browser::{AllowedOrigins, AnyOrigin, BrowserBackend, CookieOnly, FromAnyOrigin, OpenPath};
pub use caller::Caller;
pub use client::{ClientAddr, Counted, InvalidNetwork, Network, Networks, Reach, Share, TrustedProxies, UNIX_PEER};
pub use csrf::{Csrf, CsrfBinding, CsrfToken};
pub use form_targets::FormTarget;
pub use next::Next;
pub use origin::{InvalidOrigin, Origin};
pub use problem::{FieldError, Problem, ProblemLink, RateLimited};
pub use quality::preferences;
pub use query::Query;
pub use redirects::{InvalidRedirectUrl, RedirectUrls, RefusedNext};
pub use scheme::Scheme;
pub use segment::{Segment, Segments};
