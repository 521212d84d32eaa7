//! Names of files, as their uploaders give them.

/// The longest name, in bytes.
const LONGEST: usize = 200;
/// The name of a file without one.
const UNNAMED: &str = "file";

/// A name that can be shown and be the last segment of a path: without folders, without characters that a reader cannot see.
pub(crate) fn clean(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut clean: String = last.chars().filter(|c| is_visible(*c)).collect();
    let mut end = clean.len().min(LONGEST);
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    clean.truncate(end);
    match clean.trim() {
        "" | "." | ".." => UNNAMED.to_owned(),
        clean => clean.to_owned(),
    }
}

/// Not a control character, and none that changes the direction or has no width.
fn is_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{2028}' | '\u{2029}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_folders_and_nothing_that_cannot_be_seen() {
        for (name, expected) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\ann\\a.txt", "a.txt"),
            ("..", "file"),
            ("", "file"),
            ("a/", "file"),
            (" \u{202e}gpj.exe ", "gpj.exe"),
            ("a\0b\r\nc", "abc"),
            ("Ünïcode 😀.png", "Ünïcode 😀.png"),
        ] {
            assert_eq!(clean(name), expected, "{name:?}");
        }
        let long = clean(&"é".repeat(300));
        assert_eq!((long.len(), long.chars().count()), (200, 100));
    }
}
