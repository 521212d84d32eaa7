use std::io::Write;

/// Prints a failure as one paragraph: the sentence and what caused it.
pub(crate) fn print(error: &anyhow::Error) {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Many errors repeat what caused them.
        if !text.contains(&cause) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.push_str(separator);
            text.push_str(&cause);
        }
    }
    // Nobody may be left to read it.
    let _ignored = writeln!(std::io::stderr(), "{text}");
}
