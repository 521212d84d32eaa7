use std::cmp::Ordering;

/// Compares two texts as decimal numbers; the collation `decimal`. Texts that are not numbers sort by their bytes,
/// after all numbers.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    match (Parts::of(a), Parts::of(b)) {
        (Some(a), Some(b)) => a.compare(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        Some(Self { negative: negative && whole.len() + fraction.len() > 0, whole, fraction })
    }

    fn compare(&self, other: &Self) -> Ordering {
        let size = |parts: &Self| parts.whole.len();
        let magnitude = size(self)
            .cmp(&size(other))
            .then_with(|| self.whole.cmp(other.whole))
            .then_with(|| self.fraction.cmp(other.fraction));
        match (self.negative, other.negative) {
            (false, false) => magnitude,
            (true, true) => magnitude.reverse(),
            (negative, _) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_sort_by_their_number() {
        let sorted = ["-10", "-9.5", "-0.1", "0", "0.05", "0.5", "1", "1.25", "2", "10", "100000000000000000000000"];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare("1.50", "1.5"), Ordering::Equal);
        assert_eq!(compare("-0", "0.0"), Ordering::Equal);
        assert_eq!(compare("5", "five"), Ordering::Less);
    }
}
