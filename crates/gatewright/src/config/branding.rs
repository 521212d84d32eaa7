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
    /// The color of buttons and links: `#0b57b8`.
    pub color: Option<String>,
    /// The URL of the support page or address: `https:`, `http:` or `mailto:`.
    pub support_url: Option<Url>,
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
            color: None,
            support_url: None,
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
            color: section.optional("color", "The color of buttons and links: `\"#0b57b8\"`."),
            support_url: section
                .optional("support_url", "The URL of the support page or address: `https:`, `http:` or `mailto:`."),
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

    /// The branding that pages show. `own_logo` is the path at which the server serves a logo's file.
    pub(crate) fn shown(&self, own_logo: &str) -> Shown {
        let logo = match self.logo_place() {
            Some(LogoPlace::File(_)) => Some(Logo::Own(own_logo.to_owned())),
            Some(LogoPlace::Elsewhere(url)) => Logo::elsewhere(url).ok(),
            None => None,
        };
        Shown {
            name: self.name.clone(),
            logo,
            color: self.color.as_deref().and_then(|color| color.parse().ok()),
            support_url: self.support_url.clone(),
        }
    }

    pub(crate) fn logo_place(&self) -> Option<LogoPlace> {
        let logo = self.logo.as_deref()?;
        // A name with `://` is a URL, not a file.
        Some(match Url::parse(logo) {
            Ok(url) if logo.contains("://") => LogoPlace::Elsewhere(url),
            _ => LogoPlace::File(logo.into()),
        })
    }

    pub(super) fn check_logo(&self) -> Result<(), String> {
        match self.logo_place() {
            None => Ok(()),
            Some(LogoPlace::Elsewhere(url)) => {
                Logo::elsewhere(url).map(drop).map_err(|error: InvalidBranding| error.to_string())
            }
            Some(LogoPlace::File(path)) => crate::picture::Picture::read(&path).map(drop),
        }
    }
}
