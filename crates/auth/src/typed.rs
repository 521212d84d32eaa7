//! Reads codes as people type and paste them.

use zeroize::Zeroizing;

/// The zeros of the decimal digits that keyboards write instead of ASCII. Each is followed by the digits from 1 to 9.
const ZEROS: [char; 19] = [
    '\u{660}', '\u{6f0}', '\u{7c0}', '\u{966}', '\u{9e6}', '\u{a66}', '\u{ae6}', '\u{b66}', '\u{be6}', '\u{c66}',
    '\u{ce6}', '\u{d66}', '\u{e50}', '\u{ed0}', '\u{f20}', '\u{1040}', '\u{17e0}', '\u{1810}', '\u{1090}',
];

/// The characters of a typed code that count: without spaces, dashes and invisible characters, full-width letters and digits
/// of other scripts as ASCII. Everything else stays as it is.
pub(crate) fn code(typed: &str) -> Zeroizing<String> {
    let mut code = Zeroizing::new(String::with_capacity(typed.len()));
    code.extend(typed.chars().filter(|c| !is_ignored(*c)).map(ascii));
    code
}

fn is_ignored(c: char) -> bool {
    let is_dash = matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}');
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    );
    c.is_whitespace() || is_dash || is_invisible
}

fn ascii(c: char) -> char {
    let code = u32::from(c);
    if let '\u{ff01}'..='\u{ff5e}' = c {
        return char::from_u32(code - 0xfee0).unwrap_or(c);
    }
    let digit = ZEROS.iter().find_map(|zero| code.checked_sub(u32::from(*zero)).filter(|digit| *digit < 10));
    digit.and_then(|digit| char::from_digit(digit, 10)).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_however_it_was_typed_or_pasted() {
        for typed in [
            "012345",
            " 012 345\n",
            "012-345",
            "012\u{2011}345",
            "012\u{2013}345",
            "012\u{2212}345",
            "012\u{a0}345",
            "012\u{202f}345",
            "\u{200e}012345\u{200b}",
            "\u{feff}012\u{ad}345\u{2060}",
            "\u{ff10}\u{ff11}\u{ff12}\u{ff13}\u{ff14}\u{ff15}",
            "\u{660}\u{661}\u{662}\u{663}\u{664}\u{665}",
            "\u{6f0}\u{6f1}\u{6f2}\u{6f3}\u{6f4}\u{6f5}",
            "\u{966}\u{967}\u{968}\u{969}\u{96a}\u{96b}",
            "0\u{e51}2\u{9e9}4\u{665}",
        ] {
            assert_eq!(code(typed).as_str(), "012345", "{typed:?}");
        }
        assert_eq!(code("\u{ff21}b\u{ff43}-D").as_str(), "AbcD");
        for other in ["a.b", "½²", "é"] {
            assert_eq!(code(other).as_str(), other);
        }
    }
}
