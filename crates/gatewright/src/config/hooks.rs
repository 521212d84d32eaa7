use std::time::Duration;

use gatewright_base::Secret;

use super::read::{Keyword, Section};

/// `[[hook]]`: a program of the operator's that is asked before writes.
#[derive(Debug, Clone)]
pub struct Hook {
    /// The entity.
    pub entity: String,
    /// The writes before which it is asked: `before_create`, `before_update`, `before_delete`.
    pub on: Vec<String>,
    /// Gets the signed question.
    pub url: String,
    /// Signs it.
    pub secret: Secret,
    /// How long an answer may take, and all hooks of one request together.
    pub timeout: Duration,
    /// Whether the URL may be an address that is not public.
    pub allow_private: bool,
    /// What happens without an answer.
    pub on_error: OnHookError,
}

/// What happens to a write whose hook gives no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHookError {
    /// It is refused: 502 `hook_failed`.
    Refuse,
    /// It goes on as it was sent.
    Ignore,
}

impl Keyword for OnHookError {
    const WORDS: &'static [(&'static str, Self)] = &[("refuse", Self::Refuse), ("ignore", Self::Ignore)];
}

impl Hook {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            entity: section.required("entity", "The name of the entity."),
            on: section.required(
                "on",
                "The writes before which it is asked: `\"before_create\"`, `\"before_update\"`, `\"before_delete\"`.",
            ),
            url: section.required("url", "The URL that gets a signed POST."),
            secret: section.required_secret("secret", "Secret that signs it: `whsec_…`."),
            timeout: section.milliseconds(
                "timeout_ms",
                Duration::from_secs(2),
                "How long an answer may take, and the answers of all hooks of one request together: from 1 to 30000.",
            ),
            allow_private: section.value(
                "allow_private",
                false,
                "Whether `url` may go to loopback and private addresses.",
            ),
            on_error: section.value(
                "on_error",
                OnHookError::Refuse,
                "Without an answer in time, or with a broken one: `\"refuse\"` is 502 `hook_failed`, with `\"ignore\"` the \
                 write goes on as it was sent.",
            ),
        }
    }
}
