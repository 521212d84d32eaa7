//! Paths of screens, with `next`.

use gatewright_http::Next;

/// The value in the query of `/login` for signing in with another account.
pub(crate) const AS_OTHER: (&str, &str) = ("as", "other");

/// `path` with the target of the next redirect.
pub(crate) fn with_next(path: &str, next: Option<&Next>) -> String {
    with_query(path, next.map(|next| ("next", next.as_str())))
}

/// The sign-in screen for a signed-in user who needs another account for the requested page.
pub(crate) fn login_as_other(next: Option<&Next>) -> String {
    with_query("/login", next.map(|next| ("next", next.as_str())).into_iter().chain([AS_OTHER]))
}

/// `path` with these names and values.
pub(crate) fn with_query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
