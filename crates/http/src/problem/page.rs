//! A problem as a small page, for people whose browser sent a form.

use std::borrow::Cow;
use std::fmt::Write;

use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use super::{Problem, ProblemLink};
use crate::locale::Locale;
use crate::{ContentType, html};

impl Problem {
    /// The answer to a request with these headers, in its own language: a page if a browser's form sent it, JSON
    /// otherwise.
    pub fn answer(self, headers: &HeaderMap) -> Response {
        if ContentType::of(headers).is_form() { self.into_page() } else { self.into_response() }
    }

    /// The answer to a request that may come from a browser: a page if the request accepts HTML or comes from a form,
    /// JSON otherwise.
    pub fn answer_link(self, headers: &HeaderMap) -> Response {
        if html::is_wanted(headers) { self.into_page() } else { self.answer(headers) }
    }

    /// The same status, headers and message, in the reader's language, with a link to continue with, as a page that
    /// works without scripts and styles nothing from outside. Without `WWW-Authenticate`, because some browsers open a
    /// password dialog for it.
    pub fn into_page(mut self) -> Response {
        self.0.headers.remove(WWW_AUTHENTICATE);
        let locale = Locale::current();
        let title = locale.find(&format!("status.{}", self.0.code), &[]);
        let title = title.or_else(|| locale.find(&format!("status.{}", self.0.status.as_u16()), &[]));
        let title = title.unwrap_or_else(|| locale.text("status.other", &[]));
        let text = self.whole_message(&locale);
        let mut main = format!("<h1>{}</h1>\n<p role=\"alert\">{}</p>\n", html::escape(&title), html::escape(&text));
        if !self.0.errors.is_empty() {
            main.push_str("<ul>\n");
            for error in &self.0.errors {
                let message = error.localized(&locale);
                let field = error.field.as_deref().map(|field| format!("<strong>{}</strong>: ", html::escape(field)));
                // Writing to a String cannot fail.
                let _ = writeln!(main, "<li>{}{}</li>", field.unwrap_or_default(), html::escape(&message));
            }
            main.push_str("</ul>\n");
        }
        // Every page has a link onward.
        let links = if self.0.links.is_empty() { &[ProblemLink::START][..] } else { &self.0.links };
        push_links(&mut main, links);
        (self.0.status, self.0.headers, html::page(&title, &main)).into_response()
    }
}

/// Appends a paragraph for each link.
pub(super) fn push_links(main: &mut String, links: &[ProblemLink]) {
    let locale = Locale::current();
    for ProblemLink { label, href } in links {
        let label = locale.find(label, &[]).map_or_else(|| label.clone(), Cow::Owned);
        // Writing to a String cannot fail.
        let _ =
            writeln!(main, "<p class=\"onward\"><a href=\"{}\">{}</a></p>", html::escape(href), html::escape(&label));
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_link_is_answered_with_a_page_where_html_is_wanted_or_a_form_was_sent() {
        let json = "application/problem+json";
        let page = "text/html; charset=utf-8";
        for (name, value, expected) in [
            ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", page),
            ("accept", "application/json, text/html;q=0.5", page),
            ("content-type", "application/x-www-form-urlencoded", page),
            ("accept", "*/*", json),
            ("accept", "application/json", json),
            ("accept", "text/htmlx", json),
            ("x-other", "text/html", json),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            let answer = Problem::not_found("no such page").answer_link(&headers);
            assert_eq!(answer.headers()[CONTENT_TYPE], expected, "{name}: {value}");
        }
    }

    #[tokio::test]
    async fn the_page_keeps_status_headers_and_message_and_escapes_them() {
        let response = Problem::unavailable("<script>alert(1)</script>", Duration::from_secs(3))
            .with_field("a\"b", "x", "<img src=x>")
            .with_link(ProblemLink::new("Sign <in>", "/login?next=%2Fa&x"))
            .into_page();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], "3");
        assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let text = String::from_utf8(to_bytes(response.into_body(), 100_000).await.unwrap().to_vec()).unwrap();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        assert!(text.contains("<a href=\"/login?next=%2Fa&amp;x\">Sign &lt;in&gt;</a>"), "{text}");
        assert!(
            text.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && text.contains("<html lang=\"en\" dir=\"ltr\">")
        );
    }
}
