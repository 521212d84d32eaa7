//! `Range` (RFC 9110, section 14): one range of bytes.

use std::ops::Range;

/// What a `Range` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of it: there is no range, or one that is not understood, or several.
    All,
    Part(Range<u64>),
    /// A range beyond the end.
    Nothing,
}

/// Reads the header of a file of `size` bytes.
pub(super) fn read(header: Option<&str>, size: u64) -> Asked {
    let Some(range) = header.and_then(|header| header.strip_prefix("bytes=")) else { return Asked::All };
    // Several ranges need an answer in parts. They may be ignored, and cost nothing that way.
    let Some((first, last)) = range.trim().split_once('-').filter(|_| !range.contains(',')) else { return Asked::All };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.len() < 20 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    match (first, number(first), last, number(last)) {
        ("", None, _, Some(count)) if size > 0 && count > 0 => Asked::Part(size.saturating_sub(count)..size),
        (_, Some(first), "", None) if first < size => Asked::Part(first..size),
        (_, Some(first), _, Some(last)) if first <= last && first < size => Asked::Part(first..size.min(last + 1)),
        (_, Some(first), _, Some(last)) if first > last => Asked::All,
        ("", None, _, Some(_)) | (_, Some(_), "", None) | (_, Some(_), _, Some(_)) => Asked::Nothing,
        _ => Asked::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_read_and_others_are_ignored() {
        for (header, size, expected) in [
            (None, 10, Asked::All),
            (Some("bytes=0-0"), 10, Asked::Part(0..1)),
            (Some("bytes=2-"), 10, Asked::Part(2..10)),
            (Some("bytes=-3"), 10, Asked::Part(7..10)),
            (Some("bytes=-30"), 10, Asked::Part(0..10)),
            (Some("bytes=2-99"), 10, Asked::Part(2..10)),
            (Some("bytes=10-"), 10, Asked::Nothing),
            (Some("bytes=10-12"), 10, Asked::Nothing),
            (Some("bytes=-0"), 10, Asked::Nothing),
            (Some("bytes=0-"), 0, Asked::Nothing),
            (Some("bytes=-1"), 0, Asked::Nothing),
            (Some("bytes=5-2"), 10, Asked::All),
            (Some("bytes=0-1,3-4"), 10, Asked::All),
            (Some("bytes=a-b"), 10, Asked::All),
            (Some("bytes=-"), 10, Asked::All),
            (Some("lines=0-1"), 10, Asked::All),
            (Some("bytes=0-18446744073709551615"), 10, Asked::All),
            (Some("bytes=0-9999999999999999999"), 10, Asked::Part(0..10)),
        ] {
            assert_eq!(read(header, size), expected, "{header:?}");
        }
    }
}
