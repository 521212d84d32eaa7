use super::read::{Keyword, Section};

/// `[log]`: what the server program logs. A program that embeds Gatewright has its own subscriber and ignores it.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// What is logged.
    pub level: LogLevel,
    /// How a line is written. Absent: text at a terminal and in dev mode, JSON elsewhere.
    pub format: Option<LogFormat>,
    /// Whether each answer is a line. Absent: in dev mode.
    pub access: Option<bool>,
}

/// How important a line must be to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Also what needs attention.
    Warn,
    /// Also what happens.
    Info,
    /// Also details for developers.
    Debug,
    /// Everything.
    Trace,
}

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

impl LogLevel {
    /// The word of the level.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, level)| *level == self).map_or("info", |(word, _)| word)
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: None, access: None }
    }
}

impl Log {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            level: section.value(
                "level",
                LogLevel::Info,
                "What the server [logs](monitoring.md#logs). The environment variable `RUST_LOG` overrides it.",
            ),
            format: section.derived(
                "format",
                "`\"text\"` at a terminal and in dev mode; otherwise `\"json\"`",
                "How a line is written: for people, or as one JSON object.",
            ),
            access: section.derived(
                "access",
                "`false`; `true` in dev mode",
                "Whether each answer is a line of the [access log](monitoring.md#the-access-log).",
            ),
        }
    }
}

impl Keyword for LogLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl Keyword for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}
