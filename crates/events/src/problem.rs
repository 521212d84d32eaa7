//! Converts refusals of streams into HTTP answers.

use std::time::Duration;

use gatewright_http::Problem;
use http::StatusCode;

use crate::sse::Refused;

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let unavailable =
            |code, wait| Self::new(StatusCode::SERVICE_UNAVAILABLE, code, refused.to_string()).retry_after(wait);
        match refused {
            // No header: events stay disabled until the process ends.
            Refused::NoBus => Self::new(StatusCode::SERVICE_UNAVAILABLE, "events_disabled", refused.to_string()),
            Refused::TooMany { retry_after } => unavailable("too_many_subscribers", retry_after),
            Refused::ShuttingDown => unavailable("shutting_down", Duration::from_secs(1)),
            Refused::Cursor => Self::new(StatusCode::BAD_REQUEST, "invalid_cursor", refused.to_string()),
            Refused::SubscriberId => Self::new(StatusCode::BAD_REQUEST, "subscriber_id_too_long", refused.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_status_and_message() {
        let wait = Duration::from_secs(15);
        let cases = [
            (Refused::NoBus, 503, "events are not enabled", None),
            (Refused::TooMany { retry_after: wait }, 503, "too many subscribers", Some("15")),
            (Refused::ShuttingDown, 503, "the server is shutting down", Some("1")),
            (Refused::SubscriberId, 400, "subscriber_id is at most 128 bytes", None),
        ];
        for (refused, status, detail, retry_after) in cases {
            let problem = Problem::from(refused);
            assert_eq!(problem.status(), status);
            assert_eq!(problem.detail(), detail);
            assert_eq!(problem.headers().get("retry-after").map(|value| value.to_str().unwrap()), retry_after);
        }
    }
}
