use std::io::Write;

/// Prints a failure as one paragraph: the error and its causes.
pub(crate) fn print(error: &anyhow::Error) {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Many errors repeat the text of their cause.
        if !text.contains(&cause) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.push_str(separator);
            text.push_str(&cause);
        }
    }
    // Standard error may be closed.
    let _ignored = writeln!(std::io::stderr(), "{text}");
}
