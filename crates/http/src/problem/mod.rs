//! Error answers: RFC 9457, `application/problem+json`.

mod constructors;
mod page;
mod rate_limited;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use rate_limited::RateLimited;

use crate::locale::Locale;

/// An error answer.
///
/// The JSON is `{"type","title","status","detail","code"}` and, for validation, `errors: [{"field","code","message"}]`.
/// `type` is always `about:blank`, so that `title` is the status's own phrase (RFC 9457, section 4.2.1); `code` is the
/// stable word for programs, and `detail` the sentence for people. It must not contain internal data: see
/// [`Problem::internal`].
#[derive(Debug, Clone)]
pub struct Problem(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    status: StatusCode,
    code: Cow<'static, str>,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    headers: HeaderMap,
    links: Vec<ProblemLink>,
}

/// A link on the page of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemLink {
    /// The link's text, or its key.
    pub label: Cow<'static, str>,
    /// A path on this origin.
    pub href: Cow<'static, str>,
}

impl ProblemLink {
    /// The start page.
    pub const START: Self = Self { label: Cow::Borrowed("way_on.start"), href: Cow::Borrowed("/") };

    /// A link to `href`. `label` is its text, or the key of a text in the [catalogues](crate::locale).
    pub fn new(label: impl Into<Cow<'static, str>>, href: impl Into<Cow<'static, str>>) -> Self {
        Self { label: label.into(), href: href.into() }
    }
}

/// The error of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field in the caller's spelling; absent if the error is about none that the caller may know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<Cow<'static, str>>,
    /// A stable identifier, such as `required`.
    pub code: Cow<'static, str>,
    /// A sentence for people.
    pub message: Cow<'static, str>,
}

impl FieldError {
    fn localized(&self, locale: &Locale) -> String {
        /// Whose sentences are about bytes, or begin in the middle.
        const FOR_PROGRAMS: &[&str] = &["field.password_too_long", "field.email_invalid", "field.password_required"];
        let own = || {
            let field = self.field.as_deref().unwrap_or_default();
            let key = format!("field.{field}_{}", self.code);
            if FOR_PROGRAMS.contains(&&*key) { locale.find(&key, &[]) } else { locale.translated(&key) }
        };
        let any = || locale.translated(&format!("field.{}", self.code));
        own().or_else(any).unwrap_or_else(|| self.message.to_string())
    }
}

impl Problem {
    /// A problem of any status, with a stable snake-case `code` and a sentence for people.
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            status,
            code: code.into(),
            detail: detail.into(),
            errors: Vec::new(),
            headers: HeaderMap::new(),
            links: Vec::new(),
        }))
    }

    /// Replaces the code.
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.0.code = code.into();
        self
    }

    /// Replaces the sentence.
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// Adds an error of `field`.
    pub fn with_field(
        mut self,
        field: impl Into<Cow<'static, str>>,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.0.errors.push(FieldError { field: Some(field.into()), code: code.into(), message: message.into() });
        self
    }

    /// Adds the errors of several fields.
    pub fn with_fields(mut self, errors: impl IntoIterator<Item = FieldError>) -> Self {
        self.0.errors.extend(errors);
        self
    }

    /// Adds a link to the page that a person sees. JSON does not have it.
    pub fn with_link(mut self, link: ProblemLink) -> Self {
        self.0.links.push(link);
        self
    }

    /// Sets a header of the answer.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// Sets `Retry-After`, in whole seconds rounded up, at least 1.
    pub fn retry_after(self, wait: Duration) -> Self {
        self.with_header(RETRY_AFTER, whole_seconds(wait).into())
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The stable word.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The sentence for people.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The errors of single fields.
    pub fn errors(&self) -> &[FieldError] {
        &self.0.errors
    }

    /// The headers it adds to the answer.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The message in the reader's language: the errors of all fields or, without any, the sentence. English is the text of the
    /// JSON answer, except where that is written for programs; other languages use their catalogue's texts for the codes.
    pub fn localized(&self) -> String {
        let mut localized = String::new();
        for (_, message) in self.messages() {
            if !localized.is_empty() {
                localized.push_str(if localized.ends_with('.') { " " } else { "; " });
            }
            localized.push_str(&message);
        }
        localized
    }

    /// The same, one by one, with the names of the fields. At least one.
    pub fn messages(&self) -> Vec<(Option<&str>, String)> {
        let locale = Locale::current();
        if self.0.errors.is_empty() {
            return vec![(None, self.whole_message(&locale))];
        }
        self.0.errors.iter().map(|error| (error.field.as_deref(), error.localized(&locale))).collect()
    }

    fn whole_message(&self, locale: &Locale) -> String {
        /// Sentences for programs, of which a page has better ones.
        const FOR_PROGRAMS: &[&str] = &["invalid credentials", "invalid code", "email already registered"];
        let key = format!("problem.{}", self.0.code);
        // A page shows it of a link, which people do not call a token.
        let is_for_programs = self.0.code == "invalid_token" || FOR_PROGRAMS.contains(&self.detail());
        let text = if is_for_programs { locale.find(&key, &[]) } else { locale.translated(&key) };
        text.unwrap_or_else(|| self.0.detail.to_string())
    }

    fn title(&self) -> &'static str {
        self.0.status.canonical_reason().unwrap_or("Error")
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Problem", 6)?;
        object.serialize_field("type", "about:blank")?;
        object.serialize_field("title", self.title())?;
        object.serialize_field("status", &self.0.status.as_u16())?;
        object.serialize_field("detail", &self.0.detail)?;
        object.serialize_field("code", &self.0.code)?;
        if !self.0.errors.is_empty() {
            object.serialize_field("errors", &self.0.errors)?;
        }
        object.end()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.0.status, self.0.headers, body).into_response();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.0.status.as_u16(), self.0.code, self.0.detail)
    }
}

impl std::error::Error for Problem {}

/// `wait` as a `Retry-After` (RFC 9110, section 10.2.3): whole seconds, rounded up, at least 1.
fn whole_seconds(wait: Duration) -> u64 {
    let up = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(up).max(1)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_problem_is_problem_json_with_its_status_and_headers() {
        let problem = Problem::unprocessable("the title is too long")
            .with_field("title", "too_long", "at most 200 characters")
            .with_header(HeaderName::from_static("x-a"), HeaderValue::from_static("b"));
        let response = problem.into_response();
        assert_eq!(response.status(), 422);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()["x-a"], "b");
        let body: Value = serde_json::from_slice(&to_bytes(response.into_body(), 10_000).await.unwrap()).unwrap();
        let expected = json!({
            "type": "about:blank",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "the title is too long",
            "code": "validation_failed",
            "errors": [{"field": "title", "code": "too_long", "message": "at most 200 characters"}],
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn errors_are_left_out_when_there_are_none() {
        let body = serde_json::to_value(Problem::not_found("no such post")).unwrap();
        assert!(body.get("errors").is_none());
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up() {
        let cases = [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (59_999, 60), (60_000, 60)];
        for (millis, expected) in cases {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), expected, "{millis} ms");
        }
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }
}
