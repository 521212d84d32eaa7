//! The frame of the service's plain pages: they work without scripts, have inline styles, and are protected against
//! injected content.

use std::fmt::Write;

use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};

pub use crate::escape::escape;
use crate::frame::Frame;
use crate::locale::Locale;

/// The default content security policy of HTML answers: scripts, styles, images and connections of its own origin,
/// nothing inline, no frames.
pub const STRICT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page: `title` is escaped here, `main` is markup whose texts the caller has escaped.
pub fn page(title: &str, main: &str) -> Response {
    page_with(title, main, "")
}

/// The same for a page that may do more: `directives` are added to the policy of every page, each after a semicolon.
pub fn page_with(title: &str, main: &str, directives: &str) -> Response {
    let locale = Locale::current();
    let (frame, branding) = (locale.presentation().frame(), locale.presentation().branding());
    let title = match &branding.name {
        Some(name) => escape(&format!("{title} \u{b7} {name}")).into_owned(),
        None => escape(title).into_owned(),
    };
    let language = locale.language();
    let (tag, direction) = (language.tag(), language.direction());
    let Frame { head, banner, policy } = frame;
    let foot = foot(&locale);
    let text = format!(
        "<!doctype html>\n<html lang=\"{tag}\" dir=\"{direction}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n{head}</head>\n<body>\n{banner}<main>\n{main}</main>\n{foot}</body>\n</html>\n"
    );
    let with = |directives: &str| HeaderValue::from_str(&format!("{policy}{directives}"));
    // Without the directives a page can do less, and without its own policy it gets the strict one.
    let policy = with(directives).or_else(|_| with("")).unwrap_or(HeaderValue::from_static(STRICT_POLICY));
    let mut response = (
        [
            (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
            (CONTENT_SECURITY_POLICY, policy),
            (VARY, HeaderValue::from_static("Accept-Language, Cookie")),
        ],
        text,
    )
        .into_response();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(CONTENT_LANGUAGE, tag);
    }
    response
}

/// The way to help, and the languages.
fn foot(locale: &Locale) -> String {
    let (mut foot, choices) = (String::new(), locale.choices());
    if let Some(url) = &locale.presentation().branding().support_url {
        // Writing to a String cannot fail.
        let _ = writeln!(foot, "<a href=\"{}\">{}</a>", escape(url.as_str()), locale.markup("frame.support", &[]));
    }
    if !choices.is_empty() {
        let _ = writeln!(foot, "<nav aria-label=\"{}\">", escape(&locale.text("frame.languages", &[])));
        for (language, address, is_current) in choices {
            let (tag, name, address) = (language.tag(), escape(language.name()), escape(&address));
            let _ = if is_current {
                writeln!(foot, "<span lang=\"{tag}\" aria-current=\"true\">{name}</span>")
            } else {
                writeln!(foot, "<a href=\"{address}\" lang=\"{tag}\" hreflang=\"{tag}\" rel=\"nofollow\">{name}</a>")
            };
        }
        foot.push_str("</nav>\n");
    }
    if foot.is_empty() { foot } else { format!("<footer class=\"foot\">\n{foot}</footer>\n") }
}

/// Whether a request accepts HTML, as browsers do for pages.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let essence = |range: &str| range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/html");
    accepted.flat_map(|value| value.split(',')).any(essence)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::frame::STYLE;
    use crate::locale::{Branding, Languages, Logo, Presentation};

    async fn text(response: Response) -> String {
        let body = axum::body::to_bytes(response.into_body(), 100_000).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    fn policy(response: &Response) -> &str {
        response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap()
    }

    #[tokio::test]
    async fn a_page_without_branding_allows_its_style_and_no_more() {
        let page = page("<T>", "<p>x</p>\n");
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        let expected = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'"
        );
        assert_eq!(policy(&page), expected);
        let text = text(page).await;
        assert!(text.contains("<html lang=\"en\" dir=\"ltr\">") && text.contains("<title>&lt;T&gt;</title>"), "{text}");
        assert!(!text.contains("<header") && !text.contains("<footer"), "{text}");
    }

    #[tokio::test]
    async fn branding_is_escaped_and_extends_the_policy_only_for_the_logo() {
        let logo = Logo::elsewhere("https://cdn.example.com/logo.svg".parse().unwrap()).unwrap();
        let branding = Branding {
            name: Some("<b>Acme & Co".to_owned()),
            logo: Some(logo),
            color: Some("#ffee00".parse().unwrap()),
            support_url: Some("mailto:help@example.com?subject=%22".parse().unwrap()),
        };
        let presentation = Presentation::new(branding, Languages::shipped()).with_chooser("/auth/language");
        let german = presentation.locale(Some("de"));
        let page = german.within(|| page("T", "<p>x</p>\n"));
        let hashes = policy(&page).matches("'sha256-").count();
        assert!(policy(&page).contains("; img-src data: https://cdn.example.com/logo.svg; "), "{}", policy(&page));
        assert_eq!((hashes, page.headers()[CONTENT_LANGUAGE].to_str().unwrap()), (2, "de"));
        let text = text(page).await;
        for expected in [
            "<html lang=\"de\" dir=\"ltr\">",
            "<title>T \u{b7} &lt;b&gt;Acme &amp; Co</title>",
            "<img src=\"https://cdn.example.com/logo.svg\" alt=\"\">&lt;b&gt;Acme &amp; Co</header>",
            "--act:#ffee00;--on:#000000;",
            "href=\"mailto:help@example.com?subject=%22\"",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        // An answer to a form cannot be requested again in another language.
        assert!(!text.contains("<nav"), "{text}");
    }
}
