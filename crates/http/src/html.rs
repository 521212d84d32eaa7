//! The frame of the service's plain pages: they work without scripts, have inline styles, and are protected against
//! injected content. The scripts that make them easier are within the page, and its policy names their hashes.

use std::fmt::Write;
use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

pub use crate::escape::escape;
use crate::frame::Frame;
use crate::locale::Locale;

/// The default content security policy of HTML answers: scripts, styles, images and connections of its own origin,
/// nothing inline, no frames.
pub const STRICT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The width of a page's main part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Width {
    /// One card of 400 px: a form, or a message.
    #[default]
    Card,
    /// A menu at the side, or tables.
    Wide,
}

impl Width {
    fn class(self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Wide => "wide",
        }
    }
}

/// A script within pages. Their policy names it by its hash, so that no other script runs.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    source: OnceLock<String>,
}

impl Script {
    /// A script. It must not contain `</script` or `<!--`.
    pub const fn new(text: &'static str) -> Self {
        Self { text, source: OnceLock::new() }
    }

    /// The source expression for a content security policy.
    fn source(&self) -> &str {
        self.source.get_or_init(|| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(self.text))))
    }
}

/// A page, within the frame of all pages.
#[derive(Debug)]
#[must_use]
pub struct Page<'a> {
    title: &'a str,
    main: &'a str,
    width: Width,
    scripts: Vec<&'a Script>,
    connects: bool,
}

impl<'a> Page<'a> {
    /// A card without scripts. `title` is escaped here, `main` is markup whose texts the caller has escaped.
    pub fn new(title: &'a str, main: &'a str) -> Self {
        Self { title, main, width: Width::default(), scripts: Vec::new(), connects: false }
    }

    /// Sets the width.
    pub fn width(self, width: Width) -> Self {
        Self { width, ..self }
    }

    /// Adds a script at the end, and to the policy.
    pub fn script(mut self, script: &'a Script) -> Self {
        self.scripts.push(script);
        self
    }

    /// Allows the scripts to call this service.
    pub fn connects(self) -> Self {
        Self { connects: true, ..self }
    }

    /// The answer.
    pub fn respond(&self) -> Response {
        let Self { title, main, width, scripts, connects } = self;
        let locale = Locale::current();
        let (frame, branding) = (locale.presentation().frame(), locale.presentation().branding());
        let title = match &branding.name {
            Some(name) => escape(&format!("{title} \u{b7} {name}")).into_owned(),
            None => escape(title).into_owned(),
        };
        let language = locale.language();
        let (tag, direction, class) = (language.tag(), language.direction(), width.class());
        let Frame { head, banner, policy } = frame;
        let (foot, mut policy, mut last) = (foot(&locale), policy.clone(), String::new());
        if !scripts.is_empty() {
            policy.push_str("; script-src");
        }
        for script in scripts {
            // Writing to a String cannot fail.
            let _ = write!(policy, " {}", script.source());
            let _ = writeln!(last, "<script>{}</script>", script.text);
        }
        if *connects {
            policy.push_str("; connect-src 'self'");
        }
        let text = format!(
            "<!doctype html>\n<html lang=\"{tag}\" dir=\"{direction}\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n{head}</head>\n<body class=\"{class}\">\n{banner}<main>\n{main}</main>\n{foot}{last}\
             </body>\n</html>\n"
        );
        // A policy that no header can contain is replaced by the strict one.
        let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static(STRICT_POLICY));
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
}

/// A card without scripts: `title` is escaped here, `main` is markup whose texts the caller has escaped.
pub fn page(title: &str, main: &str) -> Response {
    Page::new(title, main).respond()
}

/// The way to help, and the languages.
fn foot(locale: &Locale) -> String {
    let (mut foot, choices) = (String::new(), locale.choices());
    let branding = locale.presentation().branding();
    let links = [
        (&branding.support_url, "frame.support"),
        (&branding.terms_url, "frame.terms"),
        (&branding.privacy_url, "frame.privacy"),
    ];
    for (url, words) in links {
        let Some(url) = url else { continue };
        // Writing to a String cannot fail.
        let _ = writeln!(foot, "<a href=\"{}\">{}</a>", escape(url.as_str()), locale.markup(words, &[]));
    }
    if !choices.is_empty() {
        let (name, title) = (escape(locale.language().name()), locale.text("frame.languages", &[]));
        let title = escape(&title);
        let _ = writeln!(
            foot,
            "<details class=\"languages\"><summary><span class=\"unseen\">{title}: </span>{name}</summary>\n\
             <nav aria-label=\"{title}\">"
        );
        for (language, address, is_current) in choices {
            let (tag, name, address) = (language.tag(), escape(language.name()), escape(&address));
            let _ = if is_current {
                writeln!(foot, "<span lang=\"{tag}\" aria-current=\"true\">{name}</span>")
            } else {
                writeln!(foot, "<a href=\"{address}\" lang=\"{tag}\" hreflang=\"{tag}\" rel=\"nofollow\">{name}</a>")
            };
        }
        foot.push_str("</nav></details>\n");
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
        let hash = STANDARD.encode(Sha256::digest(STYLE.as_str()));
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
    async fn the_policy_names_the_scripts_of_a_page_and_no_other() {
        static SCRIPTS: [Script; 2] = [Script::new("a()"), Script::new("b()")];
        let page = Page::new("T", "<p>x</p>\n").script(&SCRIPTS[0]).script(&SCRIPTS[1]).width(Width::Wide);
        let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
        let response = page.respond();
        let expected = format!("; script-src {} {}", hash("a()"), hash("b()"));
        assert!(policy(&response).ends_with(&expected), "{}", policy(&response));
        let text = text(response).await;
        assert!(text.contains("<body class=\"wide\">") && text.contains("<script>a()</script>"), "{text}");
        let connecting = page.connects().respond();
        assert!(policy(&connecting).ends_with("; connect-src 'self'"), "{}", policy(&connecting));
    }

    #[tokio::test]
    async fn branding_is_escaped_and_extends_the_policy_only_for_the_logo() {
        let logo = Logo::elsewhere("https://cdn.example.com/logo.svg".parse().unwrap()).unwrap();
        let branding = Branding {
            name: Some("<b>Acme & Co".to_owned()),
            logo: Some(logo),
            color: Some("#ffee00".parse().unwrap()),
            support_url: Some("mailto:help@example.com?subject=%22".parse().unwrap()),
            terms_url: Some("https://example.com/terms?a=1&b=2".parse().unwrap()),
            radius: Some(12),
            logo_dark: Some(Logo::Own("/branding/logo-dark".to_owned())),
            privacy_url: None,
        };
        let presentation = Presentation::new(branding, Languages::shipped()).with_chooser("/auth/language");
        let german = presentation.locale(Some("de"));
        let page = german.within(|| page("T", "<p>x</p>\n"));
        let hashes = policy(&page).matches("'sha256-").count();
        assert!(
            policy(&page).contains("; img-src data: https://cdn.example.com/logo.svg 'self'; "),
            "{}",
            policy(&page)
        );
        assert_eq!((hashes, page.headers()[CONTENT_LANGUAGE].to_str().unwrap()), (2, "de"));
        let text = text(page).await;
        for expected in [
            "<html lang=\"de\" dir=\"ltr\">",
            "<title>T \u{b7} &lt;b&gt;Acme &amp; Co</title>",
            "<picture><source srcset=\"/branding/logo-dark\" media=\"(prefers-color-scheme: dark)\">\
             <img src=\"https://cdn.example.com/logo.svg\" alt=\"\"></picture>&lt;b&gt;Acme &amp; Co</header>",
            "--radius:12px;--radius-large:20px",
            "<a href=\"https://example.com/terms?a=1&amp;b=2\">Nutzungsbedingungen</a>",
            "--act:#ffee00;--on:#000000;",
            "href=\"mailto:help@example.com?subject=%22\"",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        // An answer to a form cannot be requested again in another language.
        assert!(!text.contains("<nav"), "{text}");
    }
}
