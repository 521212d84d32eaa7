use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::page::push_links;
use super::{ProblemLink, whole_seconds};
use crate::html;
use crate::locale::Locale;

/// The limiter's refusal: 429 with `Retry-After` and the plain text `rate limit exceeded`. It is the only error that is
/// not a [`Problem`](crate::Problem). For a browser, [`RateLimited::for_browser`] makes it a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimited {
    /// How long to wait. Written as whole seconds, rounded up, at least 1.
    pub retry_after: Duration,
}

impl RateLimited {
    /// If `answer` is such a refusal and the request with these headers wants HTML: a page with the same status and
    /// headers, which says how long to wait and offers `links`. Any other answer stays as it is.
    pub fn for_browser(answer: Response, request: &HeaderMap, links: &[ProblemLink]) -> Response {
        let Some(refusal) = answer.extensions().get::<Self>().copied().filter(|_| html::is_wanted(request)) else {
            return answer;
        };
        let locale = Locale::current();
        let locale = links.first().map_or(locale.clone(), |way| locale.leading_to(&way.href));
        let (title, wait) = (locale.text("limited.title", &[]), in_words(&locale, refusal.retry_after));
        let mut main = format!(
            "<h1>{}</h1>\n<p role=\"alert\">{}</p>\n",
            html::escape(&title),
            locale.markup("limited.text", &[("wait", &wait)])
        );
        push_links(&mut main, links);
        let mut headers = answer.headers().clone();
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        let mut page = locale.within(|| html::page(&title, &main));
        *page.status_mut() = answer.status();
        page.headers_mut().extend(headers);
        page
    }
}

/// Minutes from the second one on, rounded up, so that no client retries too early.
fn in_words(locale: &Locale, wait: Duration) -> String {
    let seconds = whole_seconds(wait);
    locale.duration(if seconds <= 60 { seconds } else { seconds.div_ceil(60) * 60 })
}

impl IntoResponse for RateLimited {
    fn into_response(self) -> Response {
        let wait = HeaderValue::from(whole_seconds(self.retry_after));
        let mut answer = (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, wait)], "rate limit exceeded").into_response();
        answer.extensions_mut().insert(self);
        answer
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use http::header::ACCEPT;

    use super::*;
    use crate::locale::{Branding, Languages, Presentation};

    #[tokio::test]
    async fn the_refusal_is_plain_text_with_whole_seconds() {
        let response = RateLimited { retry_after: Duration::from_millis(1_500) }.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert!(response.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/plain"));
        assert_eq!(to_bytes(response.into_body(), 100).await.unwrap(), "rate limit exceeded");
    }

    #[tokio::test]
    async fn a_browser_gets_a_page_with_the_wait_and_links() {
        let refusal = || RateLimited { retry_after: Duration::from_secs(1_741) }.into_response();
        let wants = |accept| HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        for accept in ["*/*", "application/json", "text/plain"] {
            let answer = RateLimited::for_browser(refusal(), &wants(accept), &[ProblemLink::START]);
            assert_eq!(to_bytes(answer.into_body(), 100).await.unwrap(), "rate limit exceeded", "{accept}");
        }
        let browser = wants("text/html,application/xhtml+xml,*/*;q=0.8");
        let page = RateLimited::for_browser(refusal(), &browser, &[ProblemLink::START]);
        assert_eq!(
            (page.status(), &page.headers()[RETRY_AFTER]),
            (StatusCode::TOO_MANY_REQUESTS, &HeaderValue::from(1_741))
        );
        assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let text = String::from_utf8(to_bytes(page.into_body(), 100_000).await.unwrap().to_vec()).unwrap();
        assert!(text.contains("Try again in 30 minutes.") && text.contains("<a href=\"/\">"), "{text}");
        let other = RateLimited::for_browser("fine".into_response(), &browser, &[]);
        assert_eq!(to_bytes(other.into_body(), 100).await.unwrap(), "fine");
    }

    /// An answer to a form cannot be requested again, so a choice of language leads to the page for another attempt.
    #[tokio::test]
    async fn the_page_is_in_the_language_of_its_reader_and_offers_others() {
        let presentation = Presentation::new(Branding::default(), Languages::shipped()).with_chooser("/auth/language");
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html"))]);
        let refusal = RateLimited { retry_after: Duration::from_mins(30) }.into_response();
        let way = [ProblemLink::new("way_on.sign_in", "/login")];
        let page = presentation.locale(Some("de")).within(|| RateLimited::for_browser(refusal, &headers, &way));
        let text = String::from_utf8(to_bytes(page.into_body(), 100_000).await.unwrap().to_vec()).unwrap();
        assert!(text.contains("lang=\"de\"") && text.contains("30 Minuten"), "{text}");
        assert!(text.contains("href=\"/auth/language?to=en&amp;next=%2Flogin\""), "{text}");
    }

    #[test]
    fn the_wait_is_shown_as_text() {
        let cases = [
            (0, "1 second"),
            (1, "1 second"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (61, "2 minutes"),
            (1_800, "30 minutes"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(in_words(&Locale::current(), Duration::from_secs(seconds)), expected);
        }
    }
}
