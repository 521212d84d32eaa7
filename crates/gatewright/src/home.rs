//! `GET /`: where a browser comes out after signing in, when nothing else was asked for.

use axum::response::{IntoResponse, Response};
use gatewright_base::Identity;
use gatewright_http::{Caller, html};
use http::header::CACHE_CONTROL;

/// Says who is signed in, and where to sign in or out. A program that has routes of its own gets no such page.
pub(crate) async fn home(auth_base: Option<&str>, Caller(identity): Caller) -> Response {
    let Some(base) = auth_base else {
        return html::page("Gatewright", "<h1>Gatewright</h1>\n<p>The server runs.</p>\n");
    };
    // The next visitor at this browser sees another one.
    let headers = [(CACHE_CONTROL, "no-store")];
    let sign_out = format!(
        "<form method=\"post\" action=\"{}/logout\">\n<button type=\"submit\" class=\"quiet\">Sign out</button>\n</form>\n",
        html::escape(base)
    );
    let main = match &identity {
        Identity::Known(principal) => {
            let name = principal.email.as_deref().unwrap_or(principal.subject.as_str());
            format!(
                "<p>Signed in as {}.</p>\n<p><a href=\"/account\">Your account</a></p>\n{sign_out}",
                html::escape(name)
            )
        }
        Identity::Pending(_) => {
            format!("<p><a href=\"/two-factor\">The second factor is still owed.</a></p>\n{sign_out}")
        }
        Identity::Anonymous => {
            "<p><a href=\"/login\">Sign in</a> or <a href=\"/register\">create an account</a>.</p>\n".to_owned()
        }
    };
    (headers, html::page("Gatewright", &format!("<h1>Gatewright</h1>\n<p>The server runs.</p>\n{main}")))
        .into_response()
}
