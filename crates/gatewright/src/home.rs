//! `GET /`: the page after a sign-in without `next`.

use axum::response::{IntoResponse, Redirect, Response};
use gatewright_base::Identity;
use gatewright_http::locale::Locale;
use gatewright_http::{Caller, html};
use http::header::CACHE_CONTROL;

/// Shows the signed-in account, with links to sign in or out. A program with its own routes gets no such page.
///
/// Where there is a front end, it is the home of its users.
pub(crate) async fn home(auth_base: Option<&str>, app_url: Option<&str>, Caller(identity): Caller) -> Response {
    if let Some(app) = app_url {
        return ([(CACHE_CONTROL, "no-store")], Redirect::to(app)).into_response();
    }
    let locale = Locale::current();
    let product = locale.product();
    let heading = format!("<h1>{}</h1>\n", html::escape(product));
    let Some(base) = auth_base else {
        let running = locale.markup("home.running", &[]);
        return html::page(product, &format!("{heading}<p>{running}</p>\n"));
    };
    // The next visitor at this browser sees another one.
    let headers = [(CACHE_CONTROL, "no-store")];
    let sign_out = format!(
        "<form method=\"post\" action=\"{}/logout\">\n<button type=\"submit\" class=\"quiet\">{}</button>\n</form>\n",
        html::escape(base),
        locale.markup("home.sign_out", &[])
    );
    let main = match &identity {
        Identity::Known(principal) => {
            let name = principal.email.as_deref().unwrap_or(principal.subject.as_str());
            format!(
                "<p>{}</p>\n<p><a href=\"/account\">{}</a></p>\n{sign_out}",
                locale.markup("home.signed_in", &[("name", name)]),
                locale.markup("home.account", &[])
            )
        }
        Identity::Pending(_) => {
            format!("<p>{}</p>\n{sign_out}", locale.markup("home.pending", &[("href", "/two-factor")]))
        }
        Identity::Anonymous => {
            let links = [("sign_in", "/login"), ("register", "/register")];
            format!("<p>{}</p>\n", locale.markup("home.anonymous", &links))
        }
    };
    (headers, html::page(product, &format!("{heading}{main}"))).into_response()
}
