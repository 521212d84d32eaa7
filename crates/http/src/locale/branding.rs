//! The branding of pages and mails: name, logo, color and support address.

use url::Url;

use super::color::Color;
use crate::Origin;

/// The branding of pages and mails. The default has no branding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Branding {
    /// The product's name, on one line.
    pub name: Option<String>,
    /// Its picture, shown beside the name.
    pub logo: Option<Logo>,
    /// The same for dark mode.
    pub logo_dark: Option<Logo>,
    /// The color of buttons and links.
    pub color: Option<Color>,
    /// The radius of corners, in CSS pixels: at most [`MAX_RADIUS`](Self::MAX_RADIUS).
    pub radius: Option<u8>,
    /// Where people get help: `https:`, `http:` or `mailto:`.
    pub support_url: Option<Url>,
    /// The terms of service: `https:` or `http:`.
    pub terms_url: Option<Url>,
    /// The privacy policy: `https:` or `http:`.
    pub privacy_url: Option<Url>,
}

/// Where browsers load the logo from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logo {
    /// A path on the service's own origin.
    Own(String),
    /// An address elsewhere, over HTTPS.
    Elsewhere(Url),
}

/// A part of the branding that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidBranding(&'static str);

/// The default name.
const NAMELESS: &str = "Gatewright";

impl Branding {
    /// The name, or this service's own.
    pub fn product(&self) -> &str {
        self.name.as_deref().unwrap_or(NAMELESS)
    }

    /// Checks a name: one line of 1 to 60 characters.
    pub fn check_name(name: &str) -> Result<(), InvalidBranding> {
        let is_line = !name.trim().is_empty() && name.chars().count() <= 60 && !name.chars().any(char::is_control);
        if is_line { Ok(()) } else { Err(InvalidBranding("must be one line of 1 to 60 characters")) }
    }

    /// The largest radius, in CSS pixels.
    pub const MAX_RADIUS: u8 = 24;

    /// Checks the address of a page.
    pub fn check_page(url: &Url) -> Result<(), InvalidBranding> {
        let is_web = matches!(url.scheme(), "https" | "http") && url.has_host() && url.username().is_empty();
        if is_web { Ok(()) } else { Err(InvalidBranding("must be an https: or http: address")) }
    }

    /// Checks an address for help.
    pub fn check_support_url(url: &Url) -> Result<(), InvalidBranding> {
        if Self::check_page(url).is_ok() || url.scheme() == "mailto" {
            Ok(())
        } else {
            Err(InvalidBranding("must be an https:, http: or mailto: address"))
        }
    }
}

impl Logo {
    /// Parses a URL on another host. Only URLs that a content security policy can name exactly are accepted.
    pub fn elsewhere(url: Url) -> Result<Self, InvalidBranding> {
        let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let plain = !url.path().contains([';', ',', '\'']) && url.query().is_none();
        if url.scheme() == "https" && Origin::of(&url).is_some() && bare && plain {
            Ok(Self::Elsewhere(url))
        } else {
            Err(InvalidBranding("must be an https: address without a query, or the name of a picture's file"))
        }
    }

    /// The address in markup.
    pub fn address(&self) -> &str {
        match self {
            Self::Own(path) => path,
            Self::Elsewhere(url) => url.as_str(),
        }
    }

    /// The source expression for a content security policy.
    pub(crate) fn source(&self) -> &str {
        match self {
            Self::Own(_) => "'self'",
            Self::Elsewhere(url) => url.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_logo_must_be_valid_in_a_policy() {
        for (text, fine) in [
            ("https://cdn.example.com/a/logo.svg", true),
            ("http://cdn.example.com/logo.svg", false),
            ("https://cdn.example.com/logo.svg?v=2", false),
            ("https://cdn.example.com/a;script-src%20*", false),
            ("https://*/logo.svg", false),
            ("https://cdn.example.com;sandbox/logo.svg", false),
            ("https://user@cdn.example.com/logo.svg", false),
            ("data:image/png;base64,AA==", false),
            ("javascript:alert(1)", false),
        ] {
            assert_eq!(Logo::elsewhere(text.parse().unwrap()).is_ok(), fine, "{text}");
        }
    }

    #[test]
    fn names_and_addresses_for_help_are_checked() {
        for (name, fine) in [("Acme", true), ("", false), (" ", false), ("A\nB", false), (&"x".repeat(61), false)] {
            assert_eq!(Branding::check_name(name).is_ok(), fine, "{name:?}");
        }
        for (url, fine) in
            [("https://help.example.com", true), ("mailto:help@example.com", true), ("javascript:x", false)]
        {
            assert_eq!(Branding::check_support_url(&url.parse().unwrap()).is_ok(), fine, "{url}");
            let is_page = fine && url.starts_with("https:");
            assert_eq!(Branding::check_page(&url.parse().unwrap()).is_ok(), is_page, "{url}");
        }
    }
}
