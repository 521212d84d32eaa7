//! The most common passwords, which guessers try first.
//!
//! `common.txt` has those of eight or more characters among the 30,000 that the npm package zxcvbn 4.4.2 ranks, in lower case, sorted by
//! bytes, one a line. Its licence is MIT: `common.LICENSE`.

const COMMON: &str = include_str!("common.txt");

/// Whether a password in lower case is on the list.
pub(super) fn is_common(password: &str) -> bool {
    let mut rest = COMMON;
    while !rest.is_empty() {
        let middle = rest.len() / 2;
        let start = rest.get(..middle).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        let (before, after) = rest.split_at(start);
        let (word, after) = after.split_once('\n').unwrap_or((after, ""));
        match password.cmp(word) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => rest = before,
            std::cmp::Ordering::Greater => rest = after,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_and_nothing_else() {
        let lines: Vec<&str> = COMMON.lines().collect();
        assert_eq!(lines.len(), 11_611);
        assert!(lines.is_sorted() && lines.iter().all(|line| line.len() >= 8 && line.is_ascii()));
        for line in &lines {
            assert!(is_common(line), "{line}");
            assert!(!is_common(&format!("{line}\u{e4}")), "{line}");
        }
        for other in ["", "\n", "password\n", "correct horse battery", "zzzzzzzzzzzzzzzzzzzzz", "!"] {
            assert!(!is_common(other), "{other}");
        }
    }
}
