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

/// Prints what is allowed and probably not meant to standard error.
pub(crate) fn warning(text: &str) {
    let _ignored = writeln!(std::io::stderr(), "warning: {text}");
}
