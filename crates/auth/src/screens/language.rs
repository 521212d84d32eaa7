//! The route that chooses the language of pages and mails.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use gatewright_http::locale::{COOKIE, Locale};
use gatewright_http::{Next, Query, cookies};
use http::header::SET_COOKIE;

use crate::core::Core;
use crate::web::{own_site_only, see_other};

/// How long a choice is kept.
const KEPT: Duration = Duration::from_hours(24 * 365);

#[derive(serde::Deserialize)]
struct Choice {
    /// The tag of the language.
    to: Option<String>,
    /// The page to return to.
    next: Option<String>,
}

/// `/language`, below the base path.
pub(crate) fn routes(core: &Arc<Core>) -> Router {
    // A link on another site must not change the user's language.
    Router::new().route("/language", own_site_only(core, get(choose))).with_state(core.clone())
}

/// Stores the choice in a cookie and redirects back. An unknown language changes nothing.
async fn choose(State(core): State<Arc<Core>>, Query(choice): Query<Choice>) -> Response {
    let next = choice.next.as_deref().and_then(Next::parse).unwrap_or_default();
    let mut response = see_other(next.as_str());
    let locale = Locale::current();
    let languages = locale.presentation().languages();
    let chosen = choice.to.as_deref().and_then(|tag| languages.iter().find(|language| language.tag() == tag));
    if let Some(language) = chosen {
        let cookie = cookies::set(COOKIE, language.tag(), KEPT, core.cookie.is_secure());
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
