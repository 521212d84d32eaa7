use std::io::Write;

/// Prints a line to standard output. A closed pipe is not an error.
pub(crate) fn line(text: &str) {
    self::text(format!("{text}\n"));
}

/// Prints text unchanged to standard output.
pub(crate) fn text(text: impl AsRef<[u8]>) {
    let mut out = std::io::stdout().lock();
    let _ignored = out.write_all(text.as_ref()).and_then(|()| out.flush());
}

/// Text from another system, without control characters for a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same for text of several lines.
pub(crate) fn lines(text: &str) -> String {
    text.lines().map(one_line).collect::<Vec<_>>().join("\n")
}

/// A number and its noun, in the singular for 1.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Prints a note to standard error.
pub(crate) fn note(text: &str) {
    let _ignored = writeln!(std::io::stderr(), "note: {text}");
}

/// Prints a warning to standard error: something is allowed, and probably a mistake.
pub(crate) fn warning(text: &str) {
    let _ignored = writeln!(std::io::stderr(), "warning: {text}");
}
