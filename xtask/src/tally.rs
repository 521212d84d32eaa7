//! Counts the results of the test binaries.

use std::fmt;

/// The sum of all `test result:` lines, and the names of the tests that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) failures: Vec<String>,
    /// The tests that failed in the whole run and passed when they ran again, alone.
    pub(crate) unstable: Vec<String>,
}

impl Tally {
    /// Adds a line of a test binary's output, if it has results.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        }
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let Some((_, counts)) = result.split_once(". ") else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.skipped += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }

    /// Adds the results of the second run, in which the failed tests ran alone. They count as failed in either case: a
    /// test of a race that fails once has found a bug.
    pub(crate) fn settle(&mut self, again: &Self) {
        let mut still = again.failures.clone();
        for name in std::mem::take(&mut self.failures) {
            match still.iter().position(|failed| *failed == name) {
                Some(at) => self.failures.push(still.swap_remove(at)),
                None => self.unstable.push(name),
            }
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        if !self.unstable.is_empty() {
            write!(f, ", passes alone: {}", self.unstable.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed_and_other_lines_are_not() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s",
            "note: test result: ok. 100 passed; 0 failed",
        ] {
            tally.read(line);
        }
        assert_eq!((tally.passed, tally.failed, tally.skipped), (4, 2, 1));
        assert_eq!(tally.to_string(), "4 passed, 2 failed, 1 skipped");
        assert!(!tally.is_success());
    }

    #[test]
    fn a_test_that_passes_alone_is_named_and_counts_as_failed() {
        let (mut tally, mut again) = (Tally::default(), Tally::default());
        for line in [
            "test a::stays ... FAILED",
            "test b::recovers ... FAILED",
            "test c::works ... ok",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ] {
            tally.read(line);
        }
        again.read("test a::stays ... FAILED");
        tally.settle(&again);
        assert_eq!(tally.to_string(), "1 passed, 2 failed, passes alone: b::recovers");
        assert!(!tally.is_success());
    }

    #[test]
    fn a_run_without_a_test_fails() {
        assert!(!Tally::default().is_success());
        assert_eq!(Tally::default().to_string(), "0 passed, 0 failed");
    }
}
