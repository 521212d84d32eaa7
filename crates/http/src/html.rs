//! The frame of the service's plain pages: readable without scripts, styled from within, closed to injected content.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

/// What an HTML answer may load and do when it brings no policy of its own: its own origin's scripts, styles, images
/// and connections, nothing inline, nothing framed.
pub const STRICT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The policy of [`page`]: no scripts at all, and no style but the one it carries, named by its hash.
pub const PAGE_POLICY: &str = "default-src 'none'; style-src 'sha256-CBMP427vvwPtdZdonVyEOmHlxsSZK1lv5NTZE8mBYVo='; img-src data:; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The style of [`page`]. Its hash stands in [`PAGE_POLICY`].
const STYLE: &str = "body{font:1rem/1.55 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--ground);\
--ink:#1c1e21;--soft:#575e67;--ground:#f3f4f6;--paper:#fff;--line:#d8dce1;--edge:#838a94;--link:#0b57b8;--act:#0b57b8;--on:#fff;\
--bad:#8c1d18;--bad-ground:#fdecea;--good:#14532d;--good-ground:#e6f4ea;--note:#5c4300;--note-ground:#fff4d6}\
main{box-sizing:border-box;max-width:40rem;margin:3rem auto;padding:2rem;background:var(--paper);border:1px solid var(--line);border-radius:.75rem}\
a{color:var(--link)}h1{font-size:1.5rem;line-height:1.25;margin:0 0 1rem}h2{font-size:1.15rem;margin:0 0 .5rem}h3{font-size:1rem;margin:1.25rem 0 .25rem}\
main>form+h2{margin-top:2rem}section{margin-top:1.75rem;padding-top:1.75rem;border-top:1px solid var(--line)}p{margin:.5rem 0}\
label{display:block;margin-top:1rem;font-weight:600}\
input,select,textarea{font:inherit;color:inherit;background:var(--paper);width:100%;padding:.5rem .65rem;margin-top:.25rem;box-sizing:border-box;border:1px solid var(--edge);border-radius:.4rem}\
input[type=checkbox]{width:auto;margin:0 .5rem 0 0}label.check{font-weight:400;margin-top:.4rem}\
button{font:inherit;font-weight:600;margin-top:1rem;padding:.5rem 1.1rem;color:var(--on);background:var(--act);border:1px solid var(--act);border-radius:.4rem;cursor:pointer}\
button.quiet{color:var(--link);background:transparent;border-color:var(--edge)}button.danger{color:#fff;background:#b3261e;border-color:#b3261e}\
:focus-visible{outline:3px solid #5b9dff;outline-offset:2px}\
[role=alert],[role=status],[role=note]{padding:.6rem .9rem;border-radius:.4rem;font-weight:500}[role=alert]::first-letter{text-transform:uppercase}[role=alert]{color:var(--bad);background:var(--bad-ground)}\
[role=status]{color:var(--good);background:var(--good-ground)}[role=note]{color:var(--note);background:var(--note-ground)}\
.hint{color:var(--soft);font-size:.9rem;font-weight:400}.top{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:1rem}.top h1,.top button{margin:0}\
.rows{list-style:none;margin:0;padding:0}.rows li{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:.5rem 1rem;padding:.75rem 0;border-bottom:1px solid var(--line)}\
.rows div{flex:1 1 15rem;overflow-wrap:anywhere}.rows button{margin:0}.tag{font-size:.85rem;padding:.1rem .55rem;border-radius:1rem;color:var(--good);background:var(--good-ground)}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem;border-bottom:1px solid var(--line)}\
code{font-size:1.05em;overflow-wrap:anywhere}.codes{columns:2;list-style:none;padding:0}.codes li{padding:.2rem 0}img{max-width:100%}img.qr{display:block;background:#fff;border-radius:.4rem}\
@media(max-width:42rem){body{background:var(--paper)}main{margin:0 auto;padding:1.25rem;border:0}}\
@media(prefers-color-scheme:dark){body{--ink:#e8eaed;--soft:#a9b0b8;--ground:#101214;--paper:#1a1d20;--line:#33383e;--edge:#7d858f;--link:#8ab4f8;--act:#8ab4f8;--on:#0b1a2e;\
--bad:#ffb4ab;--bad-ground:#4a1a17;--good:#a6e3b8;--good-ground:#173a24;--note:#ffdf99;--note-ground:#3f3210}}";

/// A page: `title` is escaped here, `main` is markup whose texts the caller has escaped.
pub fn page(title: &str, main: &str) -> Response {
    framed(title, main, HeaderValue::from_static(PAGE_POLICY))
}

/// The same for a page that may do more: `directives` are added to [`PAGE_POLICY`], each after a semicolon.
pub fn page_with(title: &str, main: &str, directives: &str) -> Response {
    let policy = HeaderValue::from_str(&format!("{PAGE_POLICY}{directives}"));
    framed(title, main, policy.unwrap_or(HeaderValue::from_static(PAGE_POLICY)))
}

fn framed(title: &str, main: &str, policy: HeaderValue) -> Response {
    let title = escape(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{main}</main>\n</body>\n</html>\n"
    );
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")), (CONTENT_SECURITY_POLICY, policy)];
    (headers, text).into_response()
}

/// Whether a request wants HTML: its `Accept` names it, as browsers do for what they show to people.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let essence = |range: &str| range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/html");
    accepted.flat_map(|value| value.split(',')).any(essence)
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
