//! The frame of the service's plain pages: readable without scripts, styled from within, closed to injected content.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};

/// What an HTML answer may load and do when it brings no policy of its own: its own origin's scripts, styles, images
/// and connections, nothing inline, nothing framed.
pub const STRICT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The policy of [`page`]: no scripts at all, and no style but the one it carries, named by its hash.
pub const PAGE_POLICY: &str = "default-src 'none'; style-src 'sha256-PP7mWDY6Zf+QjRnpf5WdHfhjWL00IMdLKPfjyiKEQg4='; img-src data:; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The style of [`page`]. Its hash stands in [`PAGE_POLICY`].
const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem;\
color:#1a1a1a;background:#fff}a{color:#0645ad}h1{font-size:1.4rem}label{display:block;margin-top:1rem}\
input{font:inherit;width:100%;padding:.4rem;box-sizing:border-box}button{font:inherit;margin-top:1rem;padding:.4rem 1rem}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem;border-bottom:1px solid #ccc}\
code{overflow-wrap:anywhere}img{max-width:100%}\
@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}a{color:#8ab4f8}}";

/// A page: `title` is escaped here, `main` is markup whose texts the caller has escaped.
pub fn page(title: &str, main: &str) -> Response {
    let title = escape(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{main}</main>\n</body>\n</html>\n"
    );
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY)),
    ];
    (headers, text).into_response()
}

/// `text` for use between tags and inside quoted attributes.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_policy_names_the_hash_of_the_style() {
        let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        assert!(PAGE_POLICY.contains(&format!("'sha256-{hash}'")), "the hash is now {hash}");
    }

    #[test]
    fn every_character_that_could_leave_its_place_is_escaped() {
        assert_eq!(escape("plain text"), "plain text");
        assert_eq!(escape("<a b=\"c\" d='e'>&amp;"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
    }
}
