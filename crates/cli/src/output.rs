use std::io::Write;

/// Prints a line to standard output. A reader that has left is no failure.
pub(crate) fn line(text: &str) {
    self::text(format!("{text}\n"));
}

/// Prints text as it is to standard output.
pub(crate) fn text(text: impl AsRef<[u8]>) {
    let mut out = std::io::stdout().lock();
    let _ignored = out.write_all(text.as_ref()).and_then(|()| out.flush());
}

/// What another system said, without anything that a terminal would obey.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A number of things, in the singular if it is one.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Prints what is worth knowing to standard error.
pub(crate) fn note(text: &str) {
    let _ignored = writeln!(std::io::stderr(), "note: {text}");
}

/// Prints what is allowed and probably not meant to standard error.
pub(crate) fn warning(text: &str) {
    let _ignored = writeln!(std::io::stderr(), "warning: {text}");
}
