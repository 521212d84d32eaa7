//! The causes of failures, in words that may be logged.

use std::error::Error as _;
use std::fmt::{self, Write as _};

use lettre::transport::smtp::Error;

use crate::SendError;

/// A refusal (5xx) and an error that needs another configuration are permanent; all others are temporary.
pub(super) fn classify(error: &Error) -> SendError {
    let detail = error.source().map(|source| fit_for_log(&source.to_string())).unwrap_or_default();
    match error.status() {
        Some(code) if error.is_permanent() => SendError::permanent(format!("the mail server refuses: {code} {detail}")),
        Some(code) => SendError::temporary(format!("the mail server refuses for now: {code} {detail}")),
        None if error.is_client() => {
            SendError::permanent(format!("the mail server lacks a required feature: {detail}"))
        }
        None if error.is_tls() => SendError::temporary(format!("no trusted TLS with the mail server: {detail}")),
        None => unreachable(&detail),
    }
}

/// There is no connection at the moment.
pub(super) fn unreachable(detail: &dyn fmt::Display) -> SendError {
    SendError::temporary(format!("the mail server cannot be reached: {detail}"))
}

/// Most characters of a mail server's words that are logged.
const LONGEST: usize = 200;
/// Tokens are longer than this, words of a sentence are not.
const LONGEST_WORD: usize = 24;

/// The server's text may repeat the recipient, the sender or even a line of the mail. Words that could be an address, a
/// link or a token are removed, and so is everything that could look like another log line.
fn fit_for_log(text: &str) -> String {
    let telling = |c: char| c.is_control() || matches!(c, '@' | '=' | '%' | '?' | '&');
    let mut kept = String::new();
    for word in text.split_whitespace() {
        let is_fit = word.chars().count() <= LONGEST_WORD && !word.contains(telling) && !word.contains("//");
        let word = if is_fit { word } else { "…" };
        if kept.len() + word.len() > LONGEST {
            let _ = write!(kept, " …");
            break;
        }
        if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(word);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_could_be_a_secret_are_left_out() {
        let cases = [
            ("5.7.1 relaying denied", "5.7.1 relaying denied"),
            ("5.1.1 <ann@example.com>: user unknown", "5.1.1 … user unknown"),
            ("blocked: https://example.com/verify?token=canary", "blocked: …"),
            ("token=canary", "…"),
            ("verify?canary", "…"),
            ("//example.com/canary", "…"),
            ("4f2a4f2a4f2a4f2a4f2a4f2a4f2a4f2a found", "… found"),
            ("a\r\nb\tc\u{1b}[31m", "a b …"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(fit_for_log(text), expected, "{text:?}");
        }
        assert!(fit_for_log(&"word ".repeat(10_000)).len() <= LONGEST + 10);
    }
}
