use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use super::whole_seconds;

/// The limiter's refusal: 429 with `Retry-After`, and the plain text `rate limit exceeded` for every caller, forms
/// included. It is the one failure that is not a [`Problem`](crate::Problem).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimited {
    /// How long to wait. Written as whole seconds, rounded up, at least 1.
    pub retry_after: Duration,
}

impl IntoResponse for RateLimited {
    fn into_response(self) -> Response {
        let wait = HeaderValue::from(whole_seconds(self.retry_after));
        (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, wait)], "rate limit exceeded").into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use http::header::CONTENT_TYPE;

    use super::*;

    #[tokio::test]
    async fn the_refusal_is_plain_text_with_whole_seconds() {
        let response = RateLimited { retry_after: Duration::from_millis(1_500) }.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert!(response.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/plain"));
        assert_eq!(to_bytes(response.into_body(), 100).await.unwrap(), "rate limit exceeded");
    }
}
