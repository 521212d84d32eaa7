use axum::Router;
use axum::response::Redirect;
use http::Uri;
use url::Url;

/// Leads every request to the same path of `public`. Never to the host that the request names, which anybody may choose.
pub(super) fn to(public: &Url) -> Router {
    let origin = public.origin().ascii_serialization();
    Router::new().fallback(async move |uri: Uri| {
        // A path of two slashes at its beginning would not be one after an origin, so it stays behind it.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Redirect::permanent(&format!("{origin}{path}"))
    })
}
