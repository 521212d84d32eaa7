//! The common parts of every page: style, policy, icon and the product's banner.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::escape::escape;
use crate::locale::branding::Branding;
use crate::locale::color::Color;

/// The style of all pages. Its hash is named by the policy of [`Frame`].
pub(crate) const STYLE: &str = ":root{color-scheme:light dark}body{font:1rem/1.55 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--ground);\
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
:focus-visible{outline:3px solid var(--link);outline-offset:2px}\
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

/// The common parts of all pages of a service: style, policy, icon and, if the product has them, name, logo and help
/// link.
pub(crate) struct Frame {
    /// The end of the head, from the style on.
    pub(crate) head: String,
    /// The banner above the page's own content.
    pub(crate) banner: String,
    pub(crate) policy: String,
}

/// The background colors behind texts in the product's color, in light and dark mode: those of the style.
const DAY: [&str; 3] = ["#ffffff", "#f3f4f6", "#fdecea"];
const NIGHT: [&str; 3] = ["#1a1d20", "#101214", "#3f3210"];

/// The default color of the icon.
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

/// The product's color replaces the style's own: unchanged for buttons, and for links the nearest readable color.
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
