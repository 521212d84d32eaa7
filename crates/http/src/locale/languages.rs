//! The available languages, and the choice of a visitor's language.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::catalogue::{Catalogue, Differences};
use crate::preferences;

/// The languages of pages and mails. The first is the default.
#[derive(Debug, Clone)]
pub struct Languages(Arc<[Language]>);

/// A language and its texts.
#[derive(Debug, Clone)]
pub struct Language {
    tag: String,
    texts: Texts,
}

#[derive(Debug, Clone)]
enum Texts {
    Shipped(&'static LazyLock<Catalogue>),
    Own(Arc<Catalogue>),
}

/// A language that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("language `{tag}`: {message}")]
pub struct InvalidLanguage {
    tag: String,
    message: String,
}

/// The catalogues in the binary. A language is parsed when its first text is needed: that takes longer than the rest of
/// reading a configuration.
static SHIPPED: [(&str, LazyLock<Catalogue>); 2] = [
    ("en", LazyLock::new(|| parsed(include_str!("languages/en.toml")))),
    ("de", LazyLock::new(|| parsed(include_str!("languages/de.toml")))),
];

/// The language that others take missing texts from.
static ENGLISH: &LazyLock<Catalogue> = &SHIPPED[0].1;

fn parsed(text: &str) -> Catalogue {
    Catalogue::parse(text).expect("the shipped catalogues can be read: a test reads them")
}

impl Languages {
    /// English and German.
    pub fn shipped() -> Self {
        Self::load(SHIPPED.each_ref().map(|(tag, _)| *tag), None)
            .expect("the shipped catalogues can be read: a test reads them")
    }

    /// These languages, in this order. A file `TAG.toml` of `folder` takes precedence over a shipped language with the same
    /// tag. Texts that are missing in such a file are English, and the log names them.
    pub fn load<T: AsRef<str>>(
        tags: impl IntoIterator<Item = T>,
        folder: Option<&Path>,
    ) -> Result<Self, InvalidLanguage> {
        let mut languages: Vec<Language> = Vec::new();
        for tag in tags {
            let tag = tag.as_ref();
            let invalid = |message: String| InvalidLanguage { tag: tag.to_owned(), message };
            if !is_tag(tag) {
                return Err(invalid("not a language tag such as \"en\" or \"pt-BR\"".to_owned()));
            }
            if languages.iter().any(|known| known.tag.eq_ignore_ascii_case(tag)) {
                return Err(invalid("named twice".to_owned()));
            }
            let texts = find(tag, folder).map_err(invalid)?;
            languages.push(Language { tag: tag.to_owned(), texts });
        }
        if languages.is_empty() {
            return Err(InvalidLanguage { tag: String::new(), message: "at least one language is needed".to_owned() });
        }
        Ok(Self(languages.into()))
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Language> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn at(&self, index: usize) -> &Language {
        &self.0[index.min(self.0.len() - 1)]
    }

    /// The index of the language with exactly this tag.
    pub fn position(&self, tag: &str) -> Option<usize> {
        self.0.iter().position(|language| language.tag.eq_ignore_ascii_case(tag))
    }

    /// The index of the language that an `Accept-Language` (RFC 9110, section 12.5.4) requests: the first available one by
    /// q-value (RFC 4647, section 3.4), or the first of all.
    pub fn negotiate(&self, accept: &str) -> usize {
        let is_range = |(range, _): &(&str, u16)| *range == "*" || is_tag(range);
        let mut ranges: Vec<_> = preferences(accept).filter(is_range).collect();
        // Stable: among equal values, the first one wins.
        ranges.sort_by_key(|(_, quality)| std::cmp::Reverse(*quality));
        let refused = |index: usize| {
            ranges.iter().any(|(range, quality)| *quality == 0 && self.0[index].tag.eq_ignore_ascii_case(range))
        };
        let accepted = ranges.iter().filter(|(_, quality)| *quality > 0);
        accepted.filter_map(|(range, _)| self.look_up(range)).find(|index| !refused(*index)).unwrap_or(0)
    }

    /// `de-AT` is answered by `de`, `pt` by `pt-BR`, `*` by the first.
    fn look_up(&self, range: &str) -> Option<usize> {
        if range == "*" {
            return Some(0);
        }
        let mut shorter = Some(range);
        while let Some(tag) = shorter {
            if let Some(found) = self.position(tag) {
                return Some(found);
            }
            shorter = tag.rsplit_once('-').map(|(before, _)| before);
        }
        let primary = |tag: &str| tag.split('-').next().unwrap_or_default().to_ascii_lowercase();
        let narrower = |language: &Language| primary(&language.tag) == primary(range);
        self.0.iter().position(narrower).filter(|_| !range.contains('-'))
    }
}

impl Language {
    /// Its tag (RFC 5646), as attributes and headers have it.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Its name in the language itself.
    pub fn name(&self) -> &str {
        &self.catalogue().name
    }

    /// In which direction it is written: `ltr` or `rtl`.
    pub fn direction(&self) -> &'static str {
        self.catalogue().direction.as_str()
    }

    fn catalogue(&self) -> &Catalogue {
        match &self.texts {
            Texts::Shipped(catalogue) => catalogue,
            Texts::Own(catalogue) => catalogue,
        }
    }

    pub(super) fn message(&self, key: &str) -> Option<&super::message::Message> {
        self.catalogue().messages.get(key)
    }
}

fn find(tag: &str, folder: Option<&Path>) -> Result<Texts, String> {
    let own = folder.map(|folder| folder.join(format!("{tag}.toml"))).filter(|path| path.exists());
    if let Some(path) = own {
        let text = fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let mut catalogue = Catalogue::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let differences = catalogue.differences(ENGLISH);
        warn(tag, &differences);
        catalogue.complete(ENGLISH, &differences);
        return Ok(Texts::Own(Arc::new(catalogue)));
    }
    let shipped = SHIPPED.iter().find(|(known, _)| known.eq_ignore_ascii_case(tag));
    shipped.map(|(_, catalogue)| Texts::Shipped(catalogue)).ok_or_else(|| {
        let folder = folder.map_or("branding.languages_folder".into(), |folder| folder.display().to_string());
        format!("not shipped (en and de are); put its texts into {folder}/{tag}.toml")
    })
}

fn warn(tag: &str, differences: &Differences) {
    let Differences { missing, superfluous, mismatched } = differences;
    if !missing.is_empty() {
        tracing::warn!(language = tag, keys = %missing.join(" "), "texts missing in this language; English is used");
    }
    if !mismatched.is_empty() {
        let keys = mismatched.join(" ");
        tracing::warn!(language = tag, %keys, "texts with other {{values}} than in English; English is used");
    }
    if !superfluous.is_empty() {
        tracing::warn!(language = tag, keys = %superfluous.join(" "), "unknown keys in this language; ignored");
    }
}

fn is_tag(tag: &str) -> bool {
    let part = |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    tag.len() <= 35 && tag.split('-').all(part) && tag.starts_with(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_languages_have_the_same_texts_with_the_same_values() {
        for (tag, catalogue) in &SHIPPED {
            let differences = catalogue.differences(ENGLISH);
            assert_eq!(differences, Differences::default(), "{tag}");
        }
    }

    #[test]
    fn a_browser_reads_the_language_that_it_prefers() {
        let languages = Languages::shipped();
        for (accept, expected) in [
            ("", "en"),
            ("de", "de"),
            ("DE-at", "de"),
            ("de-AT,de;q=0.9,en;q=0.8", "de"),
            ("en;q=0.8, de;q=0.9", "de"),
            ("en;q=0.5, de;q=0.5", "en"),
            ("fr, de;q=0.1", "de"),
            ("fr", "en"),
            ("fr, *;q=0.5", "en"),
            ("de;q=0, *", "en"),
            ("de;q=0", "en"),
            ("en;q=0, de-CH;q=0.2", "de"),
            ("de;q=2, en", "en"),
            ("de;q=x, en;q=0.1", "en"),
            ("de ; q = 0.7, en;q=0.1", "de"),
            ("<script>, de", "de"),
            ("de-\u{e9}", "en"),
        ] {
            assert_eq!(languages.at(languages.negotiate(accept)).tag(), expected, "{accept}");
        }
        let long = "x,".repeat(100_000) + "de";
        assert_eq!(languages.negotiate(&long), 0);
    }

    #[test]
    fn a_folder_adds_languages_and_falls_back_to_english() {
        let folder = std::env::temp_dir().join(format!("gatewright-languages-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("pt-BR.toml"), "name = \"Português\"\n[sign_in]\ntitle = \"Entrar\"\nextra = \"x\"")
            .unwrap();
        fs::write(folder.join("fr.toml"), "name = \"Français\"\n[sign_in]\ntitle = 3").unwrap();
        let languages = Languages::load(["en", "pt-BR"], Some(&folder)).unwrap();
        let portuguese = languages.at(languages.negotiate("pt"));
        assert_eq!((portuguese.tag(), portuguese.name()), ("pt-BR", "Português"));
        assert_eq!(portuguese.message("sign_in.title").unwrap().plain(&[]), "Entrar");
        assert_eq!(portuguese.message("register.title"), ENGLISH.messages.get("register.title"));
        for (tag, word) in [("fr", "sign_in.title"), ("it", "it.toml"), ("../en", "tag"), ("", "tag")] {
            let error = Languages::load([tag], Some(&folder)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert!(Languages::load(["en", "EN"], None).unwrap_err().to_string().contains("twice"));
        fs::remove_dir_all(folder).unwrap();
    }
}
