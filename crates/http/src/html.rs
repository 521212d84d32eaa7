//! The frame of the service's plain pages: readable without scripts, styled from within, closed to injected content.

use std::borrow::Cow;
use std::fmt::Write;

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

use crate::locale::{Branding, Color, Locale};

/// What an HTML answer may load and do when it brings no policy of its own: its own origin's scripts, styles, images
/// and connections, nothing inline, nothing framed.
pub const STRICT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The style of [`page`]. Its hash is named by the policy of [`Frame`].
const STYLE: &str = ":root{color-scheme:light dark}body{font:1rem/1.55 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--ground);\
--ink:#1c1e21;--soft:#575e67;--ground:#f3f4f6;--paper:#fff;--line:#d8dce1;--edge:#838a94;--link:#0b57b8;--act:#0b57b8;--on:#fff;\
--bad:#8c1d18;--bad-ground:#fdecea;--good:#14532d;--good-ground:#e6f4ea;--note:#5c4300;--note-ground:#fff4d6}\
main{box-sizing:border-box;max-width:40rem;margin:3rem auto 1rem;padding:2rem;background:var(--paper);border:1px solid var(--line);border-radius:.75rem}\
a{color:var(--link)}h1{font-size:1.5rem;line-height:1.25;margin:0 0 1rem}h2{font-size:1.15rem;margin:0 0 .5rem}h3{font-size:1rem;margin:1.25rem 0 .25rem}\
main>form+h2{margin-top:2rem}main>form+p{margin-top:1.25rem}section{margin-top:1.75rem;padding-top:1.75rem;border-top:1px solid var(--line)}p{margin:.5rem 0}\
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
code{font-size:1.05em;overflow-wrap:anywhere}.codes{columns:2 13rem;list-style:none;padding:0}.codes li{padding:.2rem 0}img{max-width:100%}img.qr{display:block;background:#fff;border-radius:.4rem}\
.product,.foot{box-sizing:border-box;max-width:40rem;margin:0 auto;padding:0 2rem}.product{display:flex;align-items:center;gap:.75rem;margin-top:2.5rem;font-size:1.15rem;font-weight:600}.product img{max-height:2.5rem}.product+main{margin-top:1rem}\
.foot{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin-bottom:2rem;color:var(--soft);font-size:.9rem}.foot nav{display:flex;gap:1rem;margin:0}.foot a{padding:.3rem 0;color:var(--soft)}.foot [aria-current]{padding:.3rem 0;font-weight:600}\
.ways{display:flex;flex-direction:column;gap:.5rem;margin-top:1.75rem;padding-top:1.25rem;border-top:1px solid var(--line)}.ways p,.ways form,.ways div{margin:0}.ways button{margin-top:.25rem}.ways input+button{margin-top:.75rem}\
@media(max-width:42rem){body{background:var(--paper)}main{margin:0 auto;padding:1.25rem;border:0}.product{margin-top:1.25rem}.product,.foot{padding:0 1.25rem}}\
@media(prefers-color-scheme:dark){body{--ink:#e8eaed;--soft:#a9b0b8;--ground:#101214;--paper:#1a1d20;--line:#33383e;--edge:#7d858f;--link:#8ab4f8;--act:#8ab4f8;--on:#0b1a2e;\
--bad:#ffb4ab;--bad-ground:#4a1a17;--good:#a6e3b8;--good-ground:#173a24;--note:#ffdf99;--note-ground:#3f3210}}";

/// What all pages of a service have around them: style, policy, icon and, where the product has them, name, logo and the
/// way to help.
pub(crate) struct Frame {
    /// What stands in the head, from the style on.
    head: String,
    /// What stands above the page's own content.
    banner: String,
    policy: String,
}

/// The papers and grounds that texts of the product's color stand on, by day and by night: those of the style.
const DAY: [&str; 3] = ["#ffffff", "#f3f4f6", "#fdecea"];
const NIGHT: [&str; 3] = ["#1a1d20", "#101214", "#3f3210"];

/// The color of the icon of a product that has none.
const ICON: &str = "#0b57b8";

impl Frame {
    pub(crate) fn new(branding: &Branding) -> Self {
        let own = branding.color.map(own_style);
        let styles = || [STYLE].into_iter().chain(own.as_deref());
        let mut head = format!("<link rel=\"icon\" href=\"{}\">\n", escape(&icon(branding)));
        let mut sources = String::new();
        for style in styles() {
            // Writing to a String cannot fail.
            let _ = writeln!(head, "<style>{style}</style>");
            let _ = write!(sources, " 'sha256-{}'", STANDARD.encode(Sha256::digest(style)));
        }
        let pictures = branding.logo.as_ref().map(|logo| format!(" {}", logo.source())).unwrap_or_default();
        let policy = format!(
            "default-src 'none'; style-src{sources}; img-src data:{pictures}; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'"
        );
        Self { head, banner: banner(branding), policy }
    }
}

/// The product's color in place of the style's own: for buttons as it is, for links as near to it as can be read.
fn own_style(color: Color) -> String {
    let grounds = |grounds: [&str; 3]| grounds.map(|ground| ground.parse().unwrap_or(Color::WHITE));
    let (day, night) =
        (color.readable_on(&grounds(DAY), Color::BLACK), color.readable_on(&grounds(NIGHT), Color::WHITE));
    let of = |act: Color, link: Color| format!("body{{--act:{act};--on:{};--link:{link}}}", act.text_on());
    format!(
        "{}@media(prefers-color-scheme:dark){{{}}}button{{border-color:var(--link)}}",
        of(color, day),
        of(night, night)
    )
}

/// The icon: the first letter of the product on its color.
fn icon(branding: &Branding) -> String {
    let color = branding.color.unwrap_or_else(|| ICON.parse().unwrap_or(Color::BLACK));
    let letter: String = branding.product().trim().chars().take(1).flat_map(char::to_uppercase).collect();
    let picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" \
         fill=\"{color}\"/><text x=\"16\" y=\"23\" text-anchor=\"middle\" font-family=\"system-ui,sans-serif\" font-size=\"20\" \
         font-weight=\"700\" fill=\"{}\">{}</text></svg>",
        color.text_on(),
        escape(&letter)
    );
    format!("data:image/svg+xml;base64,{}", STANDARD.encode(picture))
}

fn banner(branding: &Branding) -> String {
    let name = branding.name.as_deref().map(escape);
    let words = match (&branding.logo, &name) {
        (None, None) => return String::new(),
        (None, Some(name)) => name.to_string(),
        (Some(logo), name) => {
            // The name beside it says what the picture shows.
            let alternative = if name.is_some() { "" } else { branding.product() };
            let name = name.as_deref().unwrap_or_default();
            format!("<img src=\"{}\" alt=\"{}\">{name}", escape(logo.address()), escape(alternative))
        }
    };
    format!("<header class=\"product\">{words}</header>\n")
}

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
    // Without the directives a page does less, and without a policy of its own it gets the strict one.
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
    use super::*;
    use crate::locale::{Languages, Logo, Presentation};

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
    async fn branding_is_shown_escaped_and_widens_the_policy_for_the_logo_alone() {
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
        // What answers a form cannot be asked for again in another language.
        assert!(!text.contains("<nav"), "{text}");
    }

    #[test]
    fn every_character_that_could_leave_its_place_is_escaped() {
        assert_eq!(escape("plain text"), "plain text");
        assert_eq!(escape("<a b=\"c\" d='e'>&amp;"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
    }
}
