use std::io::Write;

/// Prints a line to standard output. A reader that has left is no failure.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ignored = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints text that ends its own lines to standard output.
pub(crate) fn text(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ignored = write!(out, "{text}").and_then(|()| out.flush());
}

/// Prints text that another program reads as it is.
pub(crate) fn bytes(text: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ignored = out.write_all(text).and_then(|()| out.flush());
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
