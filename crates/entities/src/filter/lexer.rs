//! The words of a filter expression, each with its place.

use std::fmt;

/// A place in the text, line and column counted from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A field's name, `in`, `has`, `any`, `all`, `true`, `false` or `null`.
    Word(String),
    /// A word of the request, without its `@`: `me`.
    At(String),
    /// Quoted text, its escapes resolved.
    Text(String),
    /// A number as it was written.
    Number(String),
    /// `&&`, `||`, `!`, `(`, `)`, `[`, `]`, `,`, `.` or a comparison.
    Symbol(&'static str),
    /// The end of the expression.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "\"{}\"", word.chars().take(64).collect::<String>()),
            Self::At(word) => write!(f, "\"@{}\"", word.chars().take(64).collect::<String>()),
            Self::Text(_) => f.write_str("a text"),
            Self::Number(number) => write!(f, "{}", number.chars().take(64).collect::<String>()),
            Self::Symbol(symbol) => write!(f, "\"{symbol}\""),
            Self::End => f.write_str("the end"),
        }
    }
}

/// What is wrong, and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {place}")]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) place: Place,
}

impl SyntaxError {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Self {
        Self { message: message.into(), place }
    }
}

/// Longer symbols first, so that `>=` is not read as `>`.
const SYMBOLS: [&str; 15] = ["&&", "||", "!=", "!~", ">=", "<=", "=", ">", "<", "~", "!", "(", ")", "[", "]"];

/// Splits `text` into words; the last one is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, Place)>, SyntaxError> {
    let mut lexer = Lexer { rest: text, place: Place { line: 1, column: 1 } };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_spaces();
        let place = lexer.place;
        let token = lexer.next()?;
        let ended = token == Token::End;
        tokens.push((token, place));
        if ended {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    place: Place,
}

impl Lexer<'_> {
    fn skip_spaces(&mut self) {
        while self.rest.starts_with([' ', '\t', '\r', '\n']) {
            self.bump();
        }
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.place = Place { line: self.place.line + 1, column: 1 };
        } else {
            self.place.column += 1;
        }
        Some(c)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(c) = self.rest.chars().next().filter(|c| belongs(*c)) {
            text.push(c);
            self.bump();
        }
        text
    }

    fn next(&mut self) -> Result<Token, SyntaxError> {
        let place = self.place;
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        if first == '"' || first == '\'' {
            return self.text(first);
        }
        if first == ',' || first == '.' {
            self.bump();
            return Ok(Token::Symbol(if first == ',' { "," } else { "." }));
        }
        if first == '@' {
            self.bump();
            return Ok(Token::At(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')));
        }
        if first.is_ascii_digit() || first == '-' {
            return Ok(Token::Number(self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'))));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(Token::Word(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')));
        }
        if self.rest.starts_with("==") {
            return Err(SyntaxError::new(place, "use = to compare, found \"==\""));
        }
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| self.rest.starts_with(symbol)) {
            for _ in symbol.chars() {
                self.bump();
            }
            return Ok(Token::Symbol(symbol));
        }
        Err(SyntaxError::new(place, format!("unexpected {first:?}")))
    }

    fn text(&mut self, quote: char) -> Result<Token, SyntaxError> {
        let opened = self.place;
        self.bump();
        let mut text = String::new();
        loop {
            let place = self.place;
            match self.bump() {
                None => return Err(SyntaxError::new(opened, "a text that does not end")),
                Some(c) if c == quote => return Ok(Token::Text(text)),
                Some('\\') => text.push(self.escape(place)?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, place: Place) -> Result<char, SyntaxError> {
        match self.bump() {
            Some(c @ ('"' | '\'' | '\\')) => Ok(c),
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('u') => {
                let first = self.code_unit(place)?;
                if !(0xD800..0xDC00).contains(&first) {
                    return char::from_u32(first).ok_or_else(|| SyntaxError::new(place, "half of a surrogate pair"));
                }
                // A character beyond the first 65,536 is written as two escapes.
                if self.bump() != Some('\\') || self.bump() != Some('u') {
                    return Err(SyntaxError::new(place, "half of a surrogate pair"));
                }
                let second = self.code_unit(place)?;
                let low = second.checked_sub(0xDC00).filter(|low| *low < 0x400);
                low.and_then(|low| char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + low))
                    .ok_or_else(|| SyntaxError::new(place, "half of a surrogate pair"))
            }
            _ => {
                Err(SyntaxError::new(place, "an escape that is not known; those are \\\" \\' \\\\ \\n \\t and \\uXXXX"))
            }
        }
    }

    fn code_unit(&mut self, place: Place) -> Result<u32, SyntaxError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.bump().and_then(|c| c.to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| SyntaxError::new(place, "\\u takes four hexadecimal digits"))?;
        }
        Ok(unit)
    }
}
