use std::error::Error;
use std::time::Duration;

use gatewright_base::OverBudget;
use http_body_util::LengthLimitError;

use crate::Problem;
use crate::layers::BodyLimit;

/// When to try again a body for which there was no memory.
const RETRY: Duration = Duration::from_secs(1);

/// Why a request's body cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is longer than the limit.
    TooLarge,
    /// There is no memory for it.
    OverBudget(OverBudget),
    /// The connection was closed, or the body is malformed.
    Broken,
}

impl Unreadable {
    /// Reads the reason from an error of a body, or from what the error wraps.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<LengthLimitError>() {
                return Self::TooLarge;
            }
            if let Some(over) = error.downcast_ref::<OverBudget>() {
                return Self::OverBudget(*over);
            }
            cause = error.source();
        }
        Self::Broken
    }

    /// The answer: 413, 503 or 400.
    pub(crate) fn into_problem(self, limit: Option<BodyLimit>) -> Problem {
        match self {
            Self::TooLarge => limit.map_or_else(Problem::too_large, BodyLimit::exceeded),
            Self::OverBudget(over) => Problem::unavailable(over.to_string(), RETRY).with_code("over_budget"),
            Self::Broken => Problem::bad_request("the request body could not be read"),
        }
    }
}
