use std::path::PathBuf;

use gatewright_http::locale::{Branding as Shown, InvalidBranding, InvalidLanguage, Languages, Logo};
use url::Url;

use super::read::Section;

/// `[branding]`: the appearance and the languages of pages and mails.
#[derive(Debug, Clone)]
pub struct Branding {
    /// The name of the product.
    pub name: Option<String>,
    /// Its logo: a file, which the server serves, or an https URL.
    pub logo: Option<String>,
    /// The same for dark mode.
    pub logo_dark: Option<String>,
    /// The color of buttons and links: `#0b57b8`.
    pub color: Option<String>,
    /// The radius of corners, in CSS pixels.
    pub radius: Option<u32>,
    /// The URL of the support page or address: `https:`, `http:` or `mailto:`.
    pub support_url: Option<Url>,
    /// The terms of service.
    pub terms_url: Option<Url>,
    /// The privacy policy.
    pub privacy_url: Option<Url>,
    /// The languages, the default first.
    pub languages: Vec<String>,
    /// A folder of further languages: `fr.toml`.
    pub languages_folder: Option<PathBuf>,
}

/// Where a logo comes from.
pub(crate) enum LogoPlace {
    File(PathBuf),
    Elsewhere(Url),
}

impl Default for Branding {
    fn default() -> Self {
        Self {
            name: None,
            logo: None,
            logo_dark: None,
            color: None,
            radius: None,
            support_url: None,
            terms_url: None,
            privacy_url: None,
            languages: vec!["en".to_owned(), "de".to_owned()],
            languages_folder: None,
        }
    }
}

impl Branding {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            name: section.optional("name", "The product's name: on pages, in titles and in mails. 1 to 60 characters."),
            logo: section.optional(
                "logo",
                "An https URL, or a file (`.svg`, `.png`, `.jpg`, `.webp`, at most 512 KiB) that the server serves.",
            ),
            logo_dark: section.optional("logo_dark", "The same for dark mode. Default: `logo`."),
            color: section.optional("color", "The color of buttons and links: `\"#0b57b8\"`."),
            radius: section.optional("radius", "The radius of corners, in CSS pixels: 0 to 24. Default: 6."),
            support_url: section
                .optional("support_url", "The URL of the support page or address: `https:`, `http:` or `mailto:`."),
            terms_url: section.optional("terms_url", "The URL of the terms of service, for the foot of pages."),
            privacy_url: section.optional("privacy_url", "The URL of the privacy policy, for the foot of pages."),
            languages: section.value("languages", default.languages, "The languages; the first is the default."),
            languages_folder: section
                .optional::<String>("languages_folder", "Folder with additional languages: `fr.toml`.")
                .map(PathBuf::from),
        }
    }

    /// Loads the languages.
    pub(crate) fn languages(&self) -> Result<Languages, InvalidLanguage> {
        Languages::load(&self.languages, self.languages_folder.as_deref())
    }

    /// The branding that pages show. `own` are the paths at which the server serves the files of the two logos.
    pub(crate) fn shown(&self, own: [&str; 2]) -> Shown {
        let [logo, logo_dark] = self.logos().map(|logo| logo.map(LogoPlace::of));
        let shown = |place: Option<LogoPlace>, own: &str| match place? {
            LogoPlace::File(_) => Some(Logo::Own(own.to_owned())),
            LogoPlace::Elsewhere(url) => Logo::elsewhere(url).ok(),
        };
        Shown {
            name: self.name.clone(),
            logo: shown(logo, own[0]),
            logo_dark: shown(logo_dark, own[1]),
            color: self.color.as_deref().and_then(|color| color.parse().ok()),
            radius: self.radius.and_then(|radius| u8::try_from(radius).ok()),
            support_url: self.support_url.clone(),
            terms_url: self.terms_url.clone(),
            privacy_url: self.privacy_url.clone(),
        }
    }

    /// The logo, and the one for dark mode.
    pub(crate) fn logos(&self) -> [Option<&str>; 2] {
        [self.logo.as_deref(), self.logo_dark.as_deref()]
    }
}

impl LogoPlace {
    /// A name with `://` is a URL, not a file.
    pub(crate) fn of(logo: &str) -> Self {
        match Url::parse(logo) {
            Ok(url) if logo.contains("://") => Self::Elsewhere(url),
            _ => Self::File(logo.into()),
        }
    }

    pub(super) fn check(self) -> Result<(), String> {
        match self {
            Self::Elsewhere(url) => Logo::elsewhere(url).map(drop).map_err(|error: InvalidBranding| error.to_string()),
            Self::File(path) => crate::picture::Picture::read(&path).map(drop),
        }
    }
}
