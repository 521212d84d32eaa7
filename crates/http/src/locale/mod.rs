//! The presentation of pages and mails: the product's [`Branding`] and [`Languages`].
//!
//! A [`Presentation`] holds both. Its [`layer`](Presentation::layer) gives each request a [`Locale`]: the language of
//! its visitor, by the cookie that keeps a choice, then by `Accept-Language`, then the first language. All texts of the
//! request use [`Locale::current`], so that no function has to pass the locale on. Without the layer that is English,
//! without branding.
//!
//! Each language has one TOML document of texts (`languages/en.toml`), with a section for each screen. Background work
//! of a request uses [`Locale::scope`] to keep the locale.

pub(crate) mod branding;
mod catalogue;
pub(crate) mod color;
mod languages;
mod layer;
mod message;
#[cfg(feature = "templates")]
pub mod templates;

use std::future::Future;
use std::sync::{Arc, LazyLock, OnceLock};

use http::header::ACCEPT_LANGUAGE;
use http::{HeaderMap, HeaderValue, Method, Uri};
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;

pub use branding::{Branding, InvalidBranding, Logo};
pub use color::{Color, InvalidColor};
pub use languages::{InvalidLanguage, Language, Languages};
pub use layer::{LocaleLayer, Localized};

use crate::cookies;
use crate::frame::Frame;

/// The cookie with the chosen language. It contains a language tag and is not a credential.
pub const COOKIE: &str = "language";

/// The branding and the languages of a service. Cheap to clone.
#[derive(Clone)]
pub struct Presentation(Arc<Parts>);

struct Parts {
    branding: Branding,
    languages: Languages,
    /// Where a language is chosen, if anywhere.
    chooser: Option<String>,
    frame: Frame,
}

/// The language and the branding for a reader. Cheap to clone.
#[derive(Clone)]
pub struct Locale(Arc<Visit>);

struct Visit {
    presentation: Presentation,
    /// The index of the language, after it was determined.
    language: OnceLock<usize>,
    accept: Option<HeaderValue>,
    /// The address of the page, if it can be requested again.
    address: Option<Uri>,
}

task_local! {
    static CURRENT: Locale;
}

static DEFAULT: LazyLock<Presentation> = LazyLock::new(|| {
    Presentation::new(Branding::default(), Languages::load(["en"], None).expect("English is shipped"))
});

impl Presentation {
    /// Puts both together.
    pub fn new(branding: Branding, languages: Languages) -> Self {
        let frame = Frame::new(&branding);
        Self(Arc::new(Parts { branding, languages, chooser: None, frame }))
    }

    /// The same with a path where a language is chosen: pages then offer the languages, as links to it with the query
    /// `to`, a tag, and `next`, the page to come back to.
    pub fn with_chooser(self, path: impl Into<String>) -> Self {
        let Parts { branding, languages, .. } = &*self.0;
        let (branding, languages) = (branding.clone(), languages.clone());
        let frame = Frame::new(&branding);
        Self(Arc::new(Parts { branding, languages, chooser: Some(path.into()), frame }))
    }

    /// The layer that gives each request its [`Locale`].
    pub fn layer(&self) -> LocaleLayer {
        LocaleLayer::new(self.clone())
    }

    /// The branding.
    pub fn branding(&self) -> &Branding {
        &self.0.branding
    }

    /// The languages.
    pub fn languages(&self) -> &Languages {
        &self.0.languages
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.0.frame
    }

    /// The locale of a reader of the language with this tag; the first language if the tag is unknown.
    pub fn locale(&self, tag: Option<&str>) -> Locale {
        let index = tag.and_then(|tag| self.0.languages.position(tag)).unwrap_or(0);
        let visit = Visit { presentation: self.clone(), language: index.into(), accept: None, address: None };
        Locale(Arc::new(visit))
    }

    /// The locale of the request's visitor.
    fn visit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Locale {
        let chosen = cookies::read(headers, COOKIE).and_then(|tag| self.0.languages.position(&tag));
        Locale(Arc::new(Visit {
            presentation: self.clone(),
            language: chosen.map_or_else(OnceLock::new, OnceLock::from),
            accept: headers.get(ACCEPT_LANGUAGE).filter(|_| chosen.is_none()).cloned(),
            address: (*method == Method::GET && self.0.chooser.is_some()).then(|| uri.clone()),
        }))
    }
}

impl Locale {
    /// The locale of the current task: that of the request's visitor, within [`Presentation::layer`].
    pub fn current() -> Self {
        CURRENT.try_with(Clone::clone).unwrap_or_else(|_| DEFAULT.locale(None))
    }

    /// The same for an answer that cannot be requested again, such as one to a form: a visitor who chooses another language
    /// is sent to `page`.
    pub(crate) fn leading_to(&self, page: &str) -> Self {
        let Visit { presentation, language, accept, address } = &*self.0;
        let address = address.clone().or_else(|| page.parse().ok());
        let (presentation, language, accept) = (presentation.clone(), language.clone(), accept.clone());
        Self(Arc::new(Visit { presentation, language, accept, address }))
    }

    /// Runs `work` as if the visitor's request did.
    pub fn scope<F: Future>(self, work: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, work)
    }

    /// The same for work that waits for nothing.
    pub fn within<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }

    /// The language.
    pub fn language(&self) -> &Language {
        let languages = self.presentation().languages();
        let asked = || {
            let accept = self.0.accept.as_ref().and_then(|value| value.to_str().ok());
            accept.map_or(0, |accept| languages.negotiate(accept))
        };
        languages.at(*self.0.language.get_or_init(asked))
    }

    /// The product's presentation.
    pub fn presentation(&self) -> &Presentation {
        &self.0.presentation
    }

    /// The product's name.
    pub fn product(&self) -> &str {
        self.presentation().branding().product()
    }

    /// The text of `key` without markup. `{product}` has its value in every text.
    pub fn text(&self, key: &str, values: &[(&str, &str)]) -> String {
        self.write(key, values, message::Message::plain)
    }

    /// The text of `key` as HTML, with every value escaped.
    pub fn markup(&self, key: &str, values: &[(&str, &str)]) -> String {
        self.write(key, values, message::Message::markup)
    }

    /// The text of `key`, if there is one.
    pub fn find(&self, key: &str, values: &[(&str, &str)]) -> Option<String> {
        self.language().message(key).is_some().then(|| self.text(key, values))
    }

    /// The text of `key` where the reader's language is not that of the service's own messages, English.
    pub fn translated(&self, key: &str) -> Option<String> {
        let is_english = self.language().tag().split('-').next() == Some("en");
        if is_english { None } else { self.find(key, &[]) }
    }

    /// A time span in words: the largest unit that divides it, days from two on. "15 minutes", "24 hours".
    pub fn duration(&self, seconds: u64) -> String {
        const DAY: u64 = 24 * 3600;
        let (count, one, many) = match seconds {
            s if s >= 2 * DAY && s.is_multiple_of(DAY) => (s / DAY, "time.days", "time.days"),
            s if s >= 3600 && s.is_multiple_of(3600) => (s / 3600, "time.one_hour", "time.hours"),
            s if s >= 60 && s.is_multiple_of(60) => (s / 60, "time.one_minute", "time.minutes"),
            s => (s, "time.one_second", "time.seconds"),
        };
        self.text(if count == 1 { one } else { many }, &[("count", &count.to_string())])
    }

    /// The languages that a page offers: their tags, their own names, where they are chosen, and whether one is the
    /// page's own.
    pub(crate) fn choices(&self) -> Vec<(&Language, String, bool)> {
        let Parts { languages, chooser, .. } = &*self.presentation().0;
        let (Some(chooser), Some(address)) = (chooser, &self.0.address) else { return Vec::new() };
        if languages.len() < 2 {
            return Vec::new();
        }
        let page = address.path_and_query().map_or("/", |page| page.as_str());
        let mine = self.language().tag();
        let choice = |language| {
            let language: &Language = language;
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            let query = query.append_pair("to", language.tag()).append_pair("next", page).finish();
            (language, format!("{chooser}?{query}"), language.tag() == mine)
        };
        languages.iter().map(choice).collect()
    }

    fn write(
        &self,
        key: &str,
        values: &[(&str, &str)],
        write: fn(&message::Message, &message::Values<'_>) -> String,
    ) -> String {
        let Some(message) = self.language().message(key) else {
            tracing::error!(key, "no such text in the catalogue");
            return key.to_owned();
        };
        let mut all = values.to_vec();
        all.push(("product", self.product()));
        write(message, &all)
    }
}

/// The text of `key` for the present reader, without markup.
pub fn text(key: &str, values: &[(&str, &str)]) -> String {
    Locale::current().text(key, values)
}

impl std::fmt::Debug for Presentation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Presentation").field("branding", self.branding()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Locale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locale").field("language", &self.language().tag()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_comes_before_what_the_browser_prefers() {
        let presentation = Presentation::new(Branding::default(), Languages::shipped());
        for (cookie, accept, expected) in [
            (None, None, "en"),
            (None, Some("de"), "de"),
            (Some("language=en"), Some("de"), "en"),
            (Some("language=DE"), Some("en"), "de"),
            (Some("language=xx"), Some("de"), "de"),
            (Some("language=\"><script>"), None, "en"),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [("cookie", cookie), ("accept-language", accept)] {
                value.map(|value| headers.insert(name, HeaderValue::from_static(value)));
            }
            let locale = presentation.visit(&Method::GET, &Uri::from_static("/login"), &headers);
            assert_eq!(locale.language().tag(), expected, "{cookie:?} {accept:?}");
        }
    }

    #[test]
    fn a_time_span_reads_as_people_say_it() {
        let presentation = Presentation::new(Branding::default(), Languages::shipped());
        for (seconds, english, german) in [
            (0, "0 seconds", "0 Sekunden"),
            (1, "1 second", "1 Sekunde"),
            (60, "1 minute", "1 Minute"),
            (90, "90 seconds", "90 Sekunden"),
            (900, "15 minutes", "15 Minuten"),
            (3600, "1 hour", "1 Stunde"),
            (86_400, "24 hours", "24 Stunden"),
            (604_800, "7 days", "7 Tage"),
        ] {
            assert_eq!(presentation.locale(Some("en")).duration(seconds), english);
            assert_eq!(presentation.locale(Some("de")).duration(seconds), german);
        }
    }

    #[tokio::test]
    async fn a_task_reads_in_its_own_locale() {
        let presentation = Presentation::new(Branding::default(), Languages::shipped());
        let english = text("sign_in.title", &[]);
        let german = presentation.locale(Some("de")).scope(async { text("sign_in.title", &[]) }).await;
        assert_eq!((&*english, &*german), ("Sign in", "Anmelden"));
        assert_eq!(text("no.such.text", &[]), "no.such.text");
    }
}
