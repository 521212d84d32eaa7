/// As wide as lines of plain text are.
const WIDTH: usize = 76;

/// `text` in lines of at most 76 characters, broken at spaces. A longer word gets a separate line.
#[expect(clippy::needless_pass_by_value, reason = "a filter of templates gets what it filters")]
pub(super) fn wrapped(text: String) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped(String::new()), "");
        assert_eq!(wrapped("a  b\nc".to_owned()), "a b c");
        let long = "ä".repeat(80);
        let (left, right) = ("x".repeat(70), "y".repeat(6));
        assert_eq!(wrapped(format!("{left} {right} {long} z")), format!("{left}\n{right}\n{long}\nz"));
        assert_eq!(wrapped(format!("{left} yyyyy")), format!("{left} yyyyy"));
    }
}
