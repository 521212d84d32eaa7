use std::time::Duration;

const UNITS: [(u64, &str); 3] = [(3600, "hour"), (60, "minute"), (1, "second")];

/// How long a link works, in words: the largest unit that divides it, days from two on. "15 minutes", "24 hours".
pub(super) fn words(lifetime: Duration) -> String {
    const DAY: u64 = 24 * 3600;
    let seconds = lifetime.as_secs();
    if seconds >= 2 * DAY && seconds.is_multiple_of(DAY) {
        return format!("{} days", seconds / DAY);
    }
    let (unit, name) =
        UNITS.into_iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit)).unwrap_or((1, "second"));
    match seconds / unit {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_reads_as_people_say_it() {
        let cases = [
            (0, "0 seconds"),
            (1, "1 second"),
            (45, "45 seconds"),
            (60, "1 minute"),
            (90, "90 seconds"),
            (900, "15 minutes"),
            (3600, "1 hour"),
            (5400, "90 minutes"),
            (86_400, "24 hours"),
            (129_600, "36 hours"),
            (172_800, "2 days"),
            (604_800, "7 days"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(words(Duration::from_secs(seconds)), expected);
        }
    }
}
