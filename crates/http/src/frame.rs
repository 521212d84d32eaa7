//! The common parts of every page: style, policy, icon and the product's banner.

use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::escape::escape;
use crate::locale::branding::Branding;
use crate::locale::color::Color;

/// The style of all pages, from `frame.css`: without comments and the ends of lines. Its hash is named by the policy of
/// [`Frame`].
pub(crate) static STYLE: LazyLock<String> = LazyLock::new(|| compact(include_str!("frame.css")));

/// Without lines of comments, and without spaces that mean nothing.
fn compact(style: &str) -> String {
    let mut compacted = String::with_capacity(style.len());
    for line in style.lines().map(str::trim).filter(|line| !line.starts_with("/*")) {
        compacted.push_str(line);
    }
    [(" { ", "{"), (" {", "{"), ("; ", ";"), (": ", ":"), (";}", "}"), (", ", ",")]
        .iter()
        .fold(compacted, |style, (from, to)| style.replace(from, to))
}

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
const DAY: [&str; 3] = ["#ffffff", "#f4f5f7", "#fdecea"];
const NIGHT: [&str; 3] = ["#181b1e", "#22262a", "#3f3210"];

/// The default color of the icon.
const ICON: &str = "#0b57b8";

impl Frame {
    pub(crate) fn new(branding: &Branding) -> Self {
        let own = own_style(branding);
        let styles = || [STYLE.as_str()].into_iter().chain(own.as_deref());
        let mut head = format!("<link rel=\"icon\" href=\"{}\">\n", escape(&icon(branding)));
        let mut sources = String::new();
        for style in styles() {
            // Writing to a String cannot fail.
            let _ = writeln!(head, "<style>{style}</style>");
            let _ = write!(sources, " 'sha256-{}'", STANDARD.encode(Sha256::digest(style)));
        }
        let mut pictures = String::new();
        for logo in branding.logo.iter().chain(&branding.logo_dark) {
            if !pictures.contains(logo.source()) {
                let _ = write!(pictures, " {}", logo.source());
            }
        }
        let policy = format!(
            "default-src 'none'; style-src{sources}; img-src data:{pictures}; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'"
        );
        Self { head, banner: banner(branding), policy }
    }
}

/// What the branding changes of the style; `None` if nothing.
fn own_style(branding: &Branding) -> Option<String> {
    let radius = branding.radius.map(|radius| {
        let large = u16::from(radius) * 5 / 3;
        format!(":root{{--radius:{radius}px;--radius-large:{large}px}}")
    });
    let style: String = branding.color.map(color_style).into_iter().chain(radius).collect();
    (!style.is_empty()).then_some(style)
}

/// The product's color replaces the style's own: unchanged for buttons, and for links the nearest readable color.
fn color_style(color: Color) -> String {
    let grounds = |grounds: [&str; 3]| grounds.map(|ground| ground.parse().unwrap_or(Color::WHITE));
    let (day, night) =
        (color.readable_on(&grounds(DAY), Color::BLACK), color.readable_on(&grounds(NIGHT), Color::WHITE));
    let of = |act: Color, link: Color| format!("body{{--act:{act};--on:{};--link:{link}}}", act.text_on());
    format!(
        "{}@media(prefers-color-scheme:dark){{{}}}button:not(.quiet,.danger,.link,.reveal){{border-color:var(--link)}}",
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
    let words = match (branding.logo.as_ref().or(branding.logo_dark.as_ref()), &name) {
        (None, None) => return String::new(),
        (None, Some(name)) => name.to_string(),
        (Some(logo), name) => {
            // The name beside it says what the picture shows.
            let alternative = if name.is_some() { "" } else { branding.product() };
            let name = name.as_deref().unwrap_or_default();
            let image = format!("<img src=\"{}\" alt=\"{}\">", escape(logo.address()), escape(alternative));
            match &branding.logo_dark {
                Some(dark) if dark != logo => {
                    let dark = escape(dark.address());
                    format!(
                        "<picture><source srcset=\"{dark}\" media=\"(prefers-color-scheme: dark)\">{image}</picture>{name}"
                    )
                }
                _ => format!("{image}{name}"),
            }
        }
    };
    format!("<header class=\"product\">{words}</header>\n")
}
